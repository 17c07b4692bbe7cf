"""The time of a training's step without watchdogd, beside its rounds, and while py-spy takes its stacks.

    python -m benchmarks.culprit.overhead --backend nccl --width 8192 [--python PYTHON] [--blocks 8]

One training runs on while windows of all kinds follow one another in random order, so that a drift of the
GPUs' clocks is no difference between them. `beside`: a round every two seconds, with all samplers, and NCCL's
RAS asked once in a window; `stacks`: py-spy once in a window.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.culprit.trial import CONFIG, HEALTHY, ROOT, SHORT, Trial, training
from watchdogd.daemon.setup import Setup
from watchdogd.daemon.wiring import Wiring, assembled
from watchdogd.home.layout import Home
from watchdogd.probe import node_ranks
from watchdogd.stacks import node_stacks, stack_collection
from watchdogd.system import command

WITHOUT, BESIDE, STACKS = "without", "beside", "stacks"
_STEP = re.compile(r"per iteration \(ms\): ([0-9.]+)")
_ROUND = 2.0


def main() -> None:
    """Print each kind's step time, and its difference to that without watchdogd, with the spread."""
    args = _arguments()
    trial = Trial(HEALTHY, args.python, args.backend, args.ranks, width=args.width, pause=0.0)
    seen: dict[str, list[float]] = defaultdict(list)
    worst: dict[str, float] = defaultdict(float)
    with tempfile.TemporaryDirectory(prefix="culprit-", ignore_cleanup_errors=True) as name:
        folder, home = Path(name), Home(Path(name) / "home")
        home.make()
        home.config.write_text(CONFIG.format(folder=folder, patience=SHORT, on_hang="[]"))
        with training(trial, folder) as launcher, assembled(home, Setup.load(home)) as parts:
            kinds: dict[str, Callable[[float], None]] = {
                WITHOUT: time.sleep,
                BESIDE: lambda seconds: _beside(parts, launcher, seconds),
                STACKS: lambda seconds: _stacks(launcher, seconds),
            }
            _beside(parts, launcher, args.window)  # first rounds read, import and start what they need
            for number in range(args.blocks):
                block = [WITHOUT, BESIDE, *([STACKS] if number % 4 == 0 else [])]
                for kind in random.sample(block, len(block)):
                    steps = _steps(folder / "train.log", kinds[kind], args.window)
                    seen[kind].append(statistics.fmean(steps))
                    worst[kind] = max(worst[kind], *steps)
    base = seen[WITHOUT]
    print(f"| kind | windows | ms a step | to {WITHOUT} | longest step |\n| --- | --- | --- | --- | --- |")
    for kind, means in seen.items():
        error = _error(means) if kind == WITHOUT else (_error(means) ** 2 + _error(base) ** 2) ** 0.5
        mean, usual = statistics.fmean(means), statistics.fmean(base)
        share = f"{100 * (mean / usual - 1):+.3f} % ± {100 * error / usual:.3f}"
        print(
            f"| {kind} | {len(means)} | {mean:.3f} ± {_error(means):.3f} | {share} | {worst[kind]:.1f} ms |"
        )
    print(json.dumps(seen))


def _error(values: Sequence[float]) -> float:
    """Return the standard error of their mean."""
    return statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0


def _steps(log: Path, act: Callable[[float], None], seconds: float) -> list[float]:
    """Return the times, in ms, of the steps that were logged meanwhile, but the first."""
    place = log.stat().st_size
    act(seconds)
    with open(log, "rb") as file:
        file.seek(place)
        return [float(each) for each in _STEP.findall(file.read().decode(errors="replace"))[1:]]


def _beside(parts: Wiring, launcher: int, seconds: float) -> None:
    until = time.monotonic() + seconds
    node_ranks.look("here", node_stacks.below([launcher]), time.monotonic() + min(seconds, 6.0))
    while (left := until - time.monotonic()) > 0:
        begun = time.monotonic()
        parts.engine.round()
        time.sleep(min(left, max(begun + _ROUND - time.monotonic(), 0.05)))


def _stacks(launcher: int, seconds: float) -> None:
    until, tool = time.monotonic() + seconds, stack_collection.py_spy()
    for each in node_stacks.below([launcher]) if tool else ():
        command.ask([str(tool), "dump", "--json", "--pid", str(each.pid)], deadline=10.0)
    time.sleep(max(until - time.monotonic(), 0.0))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.culprit.overhead")
    parser.add_argument("--python", default=str(ROOT / ".venv/examples/bin/python"))
    parser.add_argument("--backend", default="gloo", choices=("gloo", "nccl"))
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--window", type=float, default=8.0, help="seconds")
    parser.add_argument("--blocks", type=int, default=8)
    return parser.parse_args()


if __name__ == "__main__":
    main()
