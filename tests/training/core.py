"""The Guard as a lone file under any Python from 3.8 on: prints "fine" or raises.

core.py PATH/training.py FOLDER

Standard library and asserts only, since the interpreter that runs it may have nothing else.
"""

from __future__ import annotations

import importlib.util
import json
import os
import pwd
import signal
import sys
import time
from typing import Any, Callable  # noqa: UP035  collections.abc has it from 3.9 on


def load(path: str) -> Any:
    spec = importlib.util.spec_from_file_location("training", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["training"] = module
    spec.loader.exec_module(module)
    return module


ME = pwd.getpwuid(os.getuid()).pw_name


def touch(path: str, text: str = "") -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def wait_for(path: str, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not os.path.exists(path):
        assert time.monotonic() < deadline, f"{path} is not there after {seconds} s"
        time.sleep(0.05)


def exit_code(call: Callable[[], None]) -> Any:
    try:
        call()
    except SystemExit as leaving:
        return leaving.code
    return "it did not leave"


def polled(guard: Any, step: int, seconds: float = 30) -> Any:
    """What is said once a switch is seen: where the machine is busy, a look may be over before its answer."""
    deadline = time.monotonic() + seconds
    while not guard.poll(step=step, loss=0.5):
        assert time.monotonic() < deadline, f"no switch is seen after {seconds} s"
    return guard.poll(step=step, loss=0.5)


def switches(training: Any, home: str) -> None:
    guard = training.Guard("a/b", home=home, every=0, memory_free="1B", time_left="auto")
    stem = os.path.join(home, "switches", "a%2Fb")
    assert not guard.poll(step=1, loss=0.5)
    touch(stem + ".save")
    assert polled(guard, 2) == (False, True, "save switch set")
    guard.saved()
    assert not os.path.exists(stem + ".save")
    assert not guard.poll(step=3)
    touch(stem + ".kill", json.dumps({"by": ME, "reason": "wrong learning rate"}) + "\n")
    assert polled(guard, 4) == (True, False, f"kill switch set by {ME}: wrong learning rate")
    assert exit_code(guard.exit_if_stopped) == 0
    os.unlink(stem + ".kill")
    guard.finished()
    assert os.path.exists(stem + ".finished")
    guard.close()


def inbox(training: Any, home: str) -> None:
    def mine(kind: str, ending: str) -> str:
        return os.path.join(home, "inbox", f"r.{kind}.{training.HOST}.{os.getpid()}.{ending}")

    guard = training.Guard("r", home=home, every=0)
    guard.poll(step=7, loss=2.5)
    wait_for(mine("beat", "json"))
    with open(mine("beat", "json"), encoding="utf-8") as file:
        beat = json.load(file)
    assert (beat["step"], beat["loss"], beat["pid"]) == (7, 2.5, os.getpid())
    touch(os.path.join(home, "inbox", "r.stacks-request"))
    wait_for(mine("stacks", "txt"))
    os.kill(os.getpid(), signal.SIGTERM)
    assert guard.poll(step=8) == (True, False, "signal SIGTERM")
    guard.close()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


if __name__ == "__main__":
    module, folder = load(sys.argv[1]), sys.argv[2]
    for name in ("switches", "inbox"):
        os.mkdir(os.path.join(folder, name))
    switches(module, folder)
    inbox(module, folder)
    print("fine")
