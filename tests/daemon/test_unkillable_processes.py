"""Processes that hang in the kernel for good: seen, named with their path, and not piled up."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from tests.lab.hungmount import HungMount
from tests.waiting import AT_ONCE, wait_until
from watchdogd.daemon.registry.plugin_registry import Source
from watchdogd.daemon.workers.worker_pool import UnkillableProcesses, WorkerPool, place_of
from watchdogd.daemon.workers.worker_protocol import Call, Reply

PLUGINS = """
import os
from watchdogd.system import command
from watchdogd.plugin import check, ok
@check
def looks(path: str): os.stat(path); return ok("there")
@check
def asks(path: str): command.ask(["stat", path], deadline=1.0); return ok("asked")
@check
def fine(): return ok("fine")
"""


def replies(pool: WorkerPool) -> dict[str, Reply]:
    found: dict[str, Reply] = {}
    end = time.monotonic() + 60
    while pool.busy and time.monotonic() < end:
        found |= {reply.key: reply for reply in pool.collect(5)}
    return found


def test_what_hangs_is_left_behind_named_and_held_until_it_is_gone(tmp_path: Path) -> None:
    source, place = str(tmp_path / "plugins.py"), tmp_path / "hung"
    Path(source).write_text(PLUGINS)
    place.mkdir()
    hung = {"path": str(place / "x")}
    pool = WorkerPool()
    with HungMount(place):
        pool.submit(
            [
                Call("warm", Source(source, "looks"), hung, timeout=1.0),
                Call("alone", Source(source, "looks"), hung, timeout=1.0, alone=True),
                Call("tool", Source(source, "asks"), hung, timeout=10.0, alone=True),
                Call("tool of a warm one", Source(source, "asks"), hung, timeout=10.0),
                Call("fine", Source(source, "fine")),
            ]
        )
        found = replies(pool)
        assert found["fine"].value[0].summary == "fine"
        for key in ("warm", "alone"):
            assert f"cannot be killed: it hangs in the kernel in {place}" in found[key].trouble
        assert found["tool"].value[0].summary == "asked"
        keys = {"warm", "alone", "tool", "tool of a warm one"}
        assert {stuck.key for stuck in pool.stuck} == keys
        assert {stuck.place for stuck in pool.stuck} == {hung["path"]}
        assert pool.outstanding == keys
        begin = time.monotonic()
        pool.close()
        assert time.monotonic() - begin < AT_ONCE
    wait_until(lambda: not pool.stuck, 20, "the kernel lets go")
    assert pool.outstanding == frozenset()


def test_once_the_file_system_is_gone_they_are_too(tmp_path: Path) -> None:
    place = tmp_path / "hung"
    place.mkdir()
    with HungMount(place) as hung:
        process = subprocess.Popen(["stat", str(place / "x")], stderr=subprocess.DEVNULL)
        wait_until(lambda: place_of(process.pid) == str(place / "x"), 10, "it waits")
        hung.wait_for_a_caller()
        process.kill()
        time.sleep(0.2)
        stuck = UnkillableProcesses.of("key", process.pid, 0.0)
        assert stuck is not None
        assert stuck.lives
        assert stuck.place == str(place / "x")
    wait_until(lambda: not stuck.lives, 20, "it is gone")
    process.wait(240)


def test_a_process_that_is_gone_is_not_stuck() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait(240)
    assert UnkillableProcesses.of("key", process.pid, 0.0) is None
    ours = UnkillableProcesses("key", os.getpid(), 0.0, born=1.0)
    assert not ours.lives  # another process of the same id
