"""Inject each fault into a real training under real rounds, and print what the first message says.

    python -m benchmarks.culprit [--python PYTHON] [--backend gloo|nccl] [--ranks 3] [FAULT ...]

With `nccl` all ranks share one GPU: each is told a host of its own (NCCL_HOSTID), so that NCCL takes them.
The frozen file system of `checkpoint` needs root.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from watchdogd.daemon.setup import Setup
from watchdogd.daemon.wiring import assembled
from watchdogd.home.layout import Home

FAULTS = {
    "loader": "a rank stuck in its data loader",
    "stopped": "a rank that is stopped (SIGSTOP)",
    "skip": "a rank that skips a collective",
    "other": "a rank that calls another collective",
    "assert": "a device-side assert (an index out of range)",
    "memory": "out of memory",
    "checkpoint": "a checkpoint write that hangs (frozen file system)",
    "slow": "a slow rank",
    "killed": "a rank killed with -9",
    "spin": "an infinite loop on the CPU",
    "deadlock": "a deadlock of two threads",
}
VICTIM, STEP, SLOW_STEP = 1, 60, 300
"""The rank that is hurt, and the iteration: a run that gets slower must have been fast for a while."""
STALE, PATIENCE = 15, 150.0
"""Seconds: `stale_after`, and until a fault counts as not reported."""
ROOT = Path(__file__).resolve().parents[2]
CONFIG = """
[daemon]
interval = "2s"
[channels.out]
type = "console"
[runs.moe]
pid_file = "{folder}/pid"
log = "{folder}/train.log"
stale_after = "{stale}s"
"""


def main() -> None:
    """One row a fault, and one of a healthy training."""
    args = _arguments()
    print("| fault | first message | after | names rank 1 |\n| --- | --- | --- | --- |")
    right = 0
    for fault in args.faults or [*FAULTS, "none"]:
        with tempfile.TemporaryDirectory(prefix="culprit-") as folder:
            row, good = _row(fault, Path(folder), args)
        right += good
        print(row, flush=True)
    print(f"\n{right} right")


def _row(fault: str, folder: Path, args: argparse.Namespace) -> tuple[str, bool]:
    home = Home(folder / "home")
    home.make()
    home.config.write_text(CONFIG.format(folder=folder, stale=STALE))
    with _frozen(folder, fault), _training(fault, folder, args):
        headline, seconds = _first_message(home, folder, fault)
    if fault == "none":
        return f"| none: a healthy training | {headline or 'none'} | {seconds:.0f} s | |", not headline
    named = re.search(rf"\brank {VICTIM}\b", headline) is not None
    verdict = "yes" if named else "no" if headline else "not reported"
    return f"| {FAULTS[fault]} | {headline} | {seconds:.0f} s | {verdict} |", named


def _first_message(home: Home, folder: Path, fault: str) -> tuple[str, float]:
    """Its first line, and the seconds since the last progress (without a fault: since the first)."""
    with assembled(home, Setup.load(home)) as parts:
        until = time.monotonic() + (60.0 if fault == "none" else PATIENCE)
        began = time.time()
        while time.monotonic() < until:
            found = parts.engine.round()
            messages = [each.message for each in found.notifications] if found else []
            bad = [each for each in messages if each.status in ("CRITICAL", "WARNING")]
            if bad:
                stood = (folder / "train.log").stat().st_mtime
                return " ".join(bad[0].headline.split()), time.time() - stood
            time.sleep(1.0)
    return "", time.time() - began


@contextmanager
def _training(fault: str, folder: Path, args: argparse.Namespace) -> Iterator[None]:
    """The ranks below torchrun."""
    words = [args.python, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={args.ranks}"]
    words += [str(ROOT / "benchmarks/culprit/training.py"), str(folder / "train.log"), args.backend, fault]
    words += [str(VICTIM), str(SLOW_STEP if fault == "slow" else STEP), str(folder)]
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": paths, "WATCHDOGD_HOME": str(folder / "home")}
    with open(folder / "train.log", "a") as log:
        launcher = subprocess.Popen(words, env=env, stdout=log, stderr=log, start_new_session=True)
    (folder / "pid").write_text(f"{launcher.pid}\n")
    try:
        _wait(folder / "train.log", launcher)
        yield
    finally:
        with suppress(psutil.Error):
            for each in [
                *psutil.Process(launcher.pid).children(recursive=True),
                psutil.Process(launcher.pid),
            ]:
                each.kill()
        launcher.wait(30)


def _wait(log: Path, launcher: subprocess.Popen[Any]) -> None:
    until = time.monotonic() + 180.0
    while " iteration " not in log.read_text(errors="replace"):
        if launcher.poll() is not None or time.monotonic() > until:
            sys.exit(f"the training does not begin:\n{log.read_text(errors='replace')[-2000:]}")
        time.sleep(0.2)


@contextmanager
def _frozen(folder: Path, fault: str) -> Iterator[None]:
    """A loop-mounted ext4 at folder/frozen on which writes hang in the kernel."""
    if fault != "checkpoint":
        yield
        return
    place, image = folder / "frozen", folder / "image"
    place.mkdir()
    _run("truncate", "-s", "16M", str(image))
    _run("mkfs.ext4", "-q", str(image))
    _run("mount", "-o", "loop", str(image), str(place))
    try:
        _run("fsfreeze", "-f", str(place))
        yield
    finally:
        _run("fsfreeze", "-u", str(place))
        time.sleep(1.0)
        _run("umount", "-l", str(place))


def _run(*words: str) -> None:
    subprocess.run(words, check=True)


def _arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.culprit")
    parser.add_argument("--python", default=str(ROOT / ".venv/examples/bin/python"))
    parser.add_argument("--backend", default="gloo", choices=("gloo", "nccl"))
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("faults", nargs="*", choices=[*FAULTS, "none", []])
    return parser.parse_args(words)


if __name__ == "__main__":
    main()
