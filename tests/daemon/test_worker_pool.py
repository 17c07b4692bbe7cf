"""Worker processes with real plugins that misbehave."""

from __future__ import annotations

import json
import os
import textwrap
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
import pytest

from tests.waiting import wait_until
from watchdogd.daemon.registry.plugin_registry import Source, scout
from watchdogd.daemon.workers.worker_main import bounded
from watchdogd.daemon.workers.worker_pool import PIECE, WorkerPool
from watchdogd.daemon.workers.worker_protocol import Call, Reply, Wire
from watchdogd.plugin import Result, Status
from watchdogd.system import command

PLUGINS = """
import os, signal, sys, time
from dataclasses import dataclass, field
from watchdogd.plugin import check, ok
@check
def fine(): return ok("fine")
@check
def remembers(memory): memory["n"] = memory.get("n", 0) + 1; return ok(str(memory["n"]))
@dataclass
class Count:
    n: int = 0
    names: "list[str]" = field(default_factory=list)
@check
def counts(state: "Count | None"):
    state = state or Count()
    yield Count(state.n + 1, [*state.names, "x"][-2:])
    yield ok(str(state))
@check
def hangs():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True: time.sleep(1)
@check
def spins():
    while True: pass
@check
def segfaults(): os.kill(os.getpid(), signal.SIGSEGV)
@check
def leaves(): sys.exit(4)
@check
def raises(): raise RuntimeError("line one\\nline two")
@check
def shouts():
    for _ in range(2000): print("x" * 10000)
    return ok("y" * 10**6, details="z" * 10**7)
@check
def wrong_memory(memory): memory["x"] = object(); return ok("x")
@check
def keeps_child(path: str = ""):
    if os.fork() == 0: time.sleep(300)
    return ok("left a child")
@check
def writes(path: str):
    with open(path, "a") as file: file.write("line\\n")
    return ok("written")
@check
def secret(): return ok(os.environ.get("TOKEN", "hidden"))
"""


@pytest.fixture
def plugins(tmp_path: Path) -> str:
    path = tmp_path / "misbehaving.py"
    path.write_text(textwrap.dedent(PLUGINS))
    return str(path)


@pytest.fixture
def workers() -> Iterator[WorkerPool]:
    command.withhold(["TOKEN"])
    pool = WorkerPool()
    yield pool
    pool.close()
    assert not [child for child in psutil.Process().children(recursive=True) if _is_worker(child)]


def _is_worker(process: psutil.Process) -> bool:
    try:
        return "watchdogd.daemon.workers.worker_main" in " ".join(process.cmdline())
    except psutil.Error:
        return False  # it has ended


def replies(pool: WorkerPool, patience: float = 120.0) -> dict[str, Reply]:
    found: dict[str, Reply] = {}
    end = time.monotonic() + patience
    while pool.busy and time.monotonic() < end:
        found |= {reply.key: reply for reply in pool.collect(5)}
    return found


@pytest.mark.parametrize("alone", [True, False])
def test_a_plugin_that_misbehaves_is_one_line_and_the_others_answer(
    workers: WorkerPool, plugins: str, alone: bool
) -> None:
    bad = ["hangs", "spins", "segfaults", "leaves", "raises", "shouts", "wrong_memory", "keeps_child"]
    calls = [Call(name, Source(plugins, name), timeout=2.0, alone=alone) for name in bad]
    good = [Call(f"fine {n}", Source(plugins, "fine"), timeout=30.0) for n in range(40)]
    workers.submit([*calls, *good])
    found = replies(workers)
    assert sorted(found) == sorted([*bad, *(call.key for call in good)])
    assert all(found[call.key].value[0].summary == "fine" for call in good)
    assert "did not answer within 2 s" in found["hangs"].trouble
    assert "did not answer within 2 s" in found["spins"].trouble
    assert "killed by SIGSEGV" in found["segfaults"].trouble
    assert "SystemExit: 4" in found["leaves"].trouble
    said, _, place = found["raises"].trouble.rpartition(" (")
    file, _, line = place.removesuffix(")").rpartition(":")
    assert said == "raised RuntimeError: line one line two"
    assert file == "/".join(plugins.split("/")[-2:])
    assert "raise RuntimeError" in Path(plugins).read_text().splitlines()[int(line) - 1]
    assert len(found["shouts"].value[0].summary) == 500
    assert len(found["shouts"].value[0].details) == 20_000
    assert "TypeError" in found["wrong_memory"].trouble
    assert found["keeps_child"].value[0].summary == "left a child"


@pytest.mark.parametrize("bad", ["hangs", "spins"])
def test_who_waits_behind_a_hanging_call_is_not_kept_until_its_deadline(
    workers: WorkerPool, plugins: str, bad: str
) -> None:
    workers.submit([Call("fine", Source(plugins, "fine"))])
    replies(workers)
    good = [Call(f"fine {n}", Source(plugins, "fine")) for n in range(40)]
    workers.submit([*good[:20], Call(bad, Source(plugins, bad), timeout=90.0), *good[20:]])
    found: list[Reply] = []
    end = time.monotonic() + 60
    while len(found) < 40 and time.monotonic() < end:
        found += workers.collect(1)
    assert sorted(reply.key for reply in found) == sorted(call.key for call in good)
    assert workers.outstanding == {bad}


def test_each_call_is_run_once_however_often_it_changes_hands(
    workers: WorkerPool, plugins: str, tmp_path: Path
) -> None:
    """Five that hang, one after another, among a hundred that write a line each."""
    diary = tmp_path / "diary"
    writes = [Call(f"w{n}", Source(plugins, "writes"), {"path": str(diary)}) for n in range(100)]
    hangs = [Call(f"h{n}", Source(plugins, "hangs"), timeout=3.0) for n in range(5)]
    mixed = [call for n, hang in enumerate(hangs) for call in (*writes[n * 20 : n * 20 + 20], hang)]
    workers.submit(mixed)
    found = replies(workers)
    assert len(found) == 105
    assert len(diary.read_text().splitlines()) == 100


def test_calls_larger_than_a_socket_holds_do_not_stop_the_daemon(workers: WorkerPool, plugins: str) -> None:
    big = json.dumps({"n": 1, "text": "x" * 3_000_000}, separators=(",", ":"))
    calls = [Call(f"fine {n}", Source(plugins, "fine"), memory=big) for n in range(3)]
    workers.submit([Call("hangs", Source(plugins, "hangs"), timeout=2.0), *calls])
    begin = time.monotonic()
    workers.collect(0.0)
    assert time.monotonic() - begin < 10  # it is sent while the worker still starts
    found = replies(workers)
    assert [found[call.key].value[0].summary for call in calls] == ["fine"] * 3


def test_thousands_of_calls_come_in_messages_that_are_soon_read(
    workers: WorkerPool, plugins: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes, send = list[int](), Wire.send

    def sent(wire: Wire, value: Sequence[Call] | None) -> None:
        sizes.append(len(value or ()))
        send(wire, value)

    monkeypatch.setattr(Wire, "send", sent)
    calls = [Call(f"fine {n}", Source(plugins, "fine")) for n in range(2 * PIECE + 1)]
    workers.submit(calls)
    assert replies(workers).keys() == {call.key for call in calls}
    assert max(sizes) <= PIECE


def test_children_of_a_plugin_end_with_its_worker(workers: WorkerPool, plugins: str) -> None:
    workers.submit([Call("keeps_child", Source(plugins, "keeps_child"), alone=True)])
    assert replies(workers)["keeps_child"].trouble == ""
    us = os.getpid()
    wait_until(
        lambda: not [p for p in psutil.process_iter(["cmdline", "ppid", "status"]) if _is_ours(p, us)],
        20,
        "the child is gone",
    )


def _is_ours(process: psutil.Process, parent: int) -> bool:
    command = " ".join(process.info["cmdline"] or [])
    return "watchdogd.daemon.workers.worker_main" in command and process.info["ppid"] in (1, parent)


def test_memory_comes_back_only_where_it_changed(workers: WorkerPool, plugins: str) -> None:
    call = Call("remembers", Source(plugins, "remembers"), memory='{"n":4}')
    workers.submit([call, Call("fine", Source(plugins, "fine"), memory='{"n":4}')])
    found = replies(workers)
    assert found["remembers"].memory == '{"n":5}'
    assert found["fine"].memory is None


def test_a_state_comes_back_as_the_check_yielded_it(workers: WorkerPool, plugins: str) -> None:
    memory = '{"n":4}'
    for seen in ("Count(n=0, names=[])", "Count(n=1, names=['x'])", "Count(n=2, names=['x', 'x'])"):
        workers.submit([Call("counts", Source(plugins, "counts"), memory=memory)])
        reply = replies(workers)["counts"]
        assert [result.summary for result in reply.value] == [seen]
        assert reply.memory
        memory = reply.memory
        assert list(json.loads(memory)) == ["state"], "what an earlier version kept is gone"


def test_secrets_are_hidden_from_workers(
    workers: WorkerPool, plugins: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "verysecret")
    workers.submit([Call("secret", Source(plugins, "secret"), alone=True)])
    assert replies(workers)["secret"].value[0].summary == "hidden"


def test_a_plain_function_is_run_too(workers: WorkerPool) -> None:
    workers.submit([Call("size", Source("watchdogd.units", "parse_size"), {"text": "2kB"})])
    assert replies(workers)["size"].value == 2000


def test_a_scout_lists_plugins_and_says_why_a_file_has_none(tmp_path: Path, plugins: str) -> None:
    assert "remembers" in {entry.name for entry in scout(plugins, plugins)}
    for text, reason in [
        ("def (", "SyntaxError"),
        ("import sys; sys.exit(3)", "SystemExit"),
        ("x = 1", "holds no function with @check"),
        ("import nosuchmodule", "nosuchmodule"),
        ("from watchdogd.plugin import check\n@check\ndef a(n=1): pass", "has no type"),
    ]:
        path = tmp_path / "broken.py"
        path.write_text(text)
        [entry] = scout(str(path), str(path))
        assert reason in entry.skipped
        assert "\n" not in entry.skipped


def test_secrets_are_hidden_from_code_that_is_only_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "verysecret")
    path = tmp_path / "curious.py"
    path.write_text(f"import os\nopen({str(tmp_path / 'seen')!r}, 'w').write(repr(dict(os.environ)))\n")
    scout(str(path), str(path))
    seen = (tmp_path / "seen").read_text()
    assert "PATH" in seen
    assert "verysecret" not in seen


def test_summary_and_subject_are_one_line_whoever_made_them() -> None:
    said = bounded(Result(Status.OK, "all\r\n\x1b[31mwell", subject="node5\n/gpu3", details="a\nb"))
    assert (said.summary, said.subject, said.details) == ("all well", "node5 /gpu3", "a\nb")
