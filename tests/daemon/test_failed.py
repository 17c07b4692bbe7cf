"""What a memory keeps of looks that did not end, for checks that want to know."""

from __future__ import annotations

import json

from watchdogd.daemon.check_runner import _failed, _failed_again
from watchdogd.daemon.registry.plugin_registry import Source
from watchdogd.daemon.workers.worker_main import answer
from watchdogd.daemon.workers.worker_protocol import FAILED, NOTHING, Call
from watchdogd.plugin import Result, check, ok


@check
def forgetful(memory: dict[str, int], failed: int) -> Result:
    """Counts its looks."""
    memory["looks"] = memory.get("looks", 0) + 1
    return ok(f"{failed} failed, knows {sorted(memory)}")


def test_looks_that_did_not_end_are_counted_until_one_does() -> None:
    memory = NOTHING
    assert _failed(memory) == 0
    for _ in range(3):
        memory = _failed_again(memory)
    assert _failed(memory) == 3
    call = Call("x", Source(__name__, "forgetful"), {}, {"failed": _failed(memory)}, memory, 5.0)
    reply = answer(call)
    assert [each.summary for each in reply.value] == ["3 failed, knows ['looks']"]
    assert json.loads(reply.memory or "") == {"looks": 1}
    assert FAILED not in (reply.memory or "")
