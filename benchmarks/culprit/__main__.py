"""Inject each fault into a real training under real rounds, and print what the first message says.

    python -m benchmarks.culprit [--python PYTHON] [--backend gloo|nccl] [--ranks 2] [FAULT ...]

With `nccl` each rank has a GPU of its own where there are enough, else they share one. `--settings` are pairs
of TORCH_NCCL_ASYNC_ERROR_HANDLING (`default` or its value) and the Guard (`on` or `off`); all is run with
each of them, `--repeats` times, `--at-once` several side by side: then GPUs say nothing of one training.
`--healthy` trainings, which evaluate and save, run for the whole time. Every row is written to `--rows` as it
comes. The frozen file system of `checkpoint` needs root.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import asdict
from itertools import product
from pathlib import Path

import psutil

from benchmarks.culprit.trial import ANNOUNCED, FAULTS, HEALTHY, LEARNED, ROOT, Outcome, Trial, run

_PORT = 29100
_REST, _HEALTHY_PAUSE = 20.0, 0.25
"""Seconds of a healthy training's evaluations and saves, and between its iterations."""
_END = 20.0
"""Seconds before the limit at which healthy trainings end."""


def main() -> None:
    """One row a trial; what has not ended at the limit is broken off, and no row."""
    args = _arguments()
    until = time.monotonic() + args.limit
    known = _names(args.done)
    waiting = deque(each for each in _trials(args) if each.name not in known)
    outcomes: list[Outcome] = []
    pool = ProcessPoolExecutor(args.at_once + args.healthy, multiprocessing.get_context("spawn"))
    running = {pool.submit(run, each) for each in _healthy(args)}
    running |= {pool.submit(run, waiting.popleft()) for _ in range(min(args.at_once, len(waiting)))}
    with open(args.rows, "a", buffering=1) as rows, suppress(TimeoutError):
        while running:
            done = next(as_completed(running, max(until - time.monotonic(), 0.0)))
            running.remove(done)
            outcomes.append(outcome := done.result())
            rows.write(json.dumps(asdict(outcome)) + "\n")
            print(_row(outcome), flush=True)
            if waiting and outcome.trial.fault != HEALTHY and time.monotonic() < until - args.last:
                running.add(pool.submit(run, waiting.popleft()))
    right = sum(each.right for each in outcomes)
    print(
        f"\n{right} of {len(outcomes)} right, {len(running)} broken off, {len(waiting)} not begun", flush=True
    )
    for log in Path(tempfile.gettempdir()).glob("culprit-*/train.log") if running else ():
        print(f"--- {log}\n{log.read_text(errors='replace')[-600:]}", flush=True)
    for each in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            each.kill()
    os._exit(0 if right == len(outcomes) else 1)


def _names(done: str) -> set[str]:
    """Return the names of the trials that this file of rows has."""
    lines = Path(done).read_text().splitlines() if done else []
    return {Trial(**json.loads(line)["trial"]).name for line in lines}


def _trials(args: argparse.Namespace) -> Iterator[Trial]:
    """All repeats of the first setting come first; where many run, the slow rank: it takes longest."""
    faults = sorted(args.faults or FAULTS, key=lambda fault: (fault != "slow") == (args.at_once > 1))
    settings = args.settings.split(",")
    rounds = sorted(
        product(range(args.repeats), range(len(settings))), key=lambda each: (each[1] > 0, each[0])
    )
    every = [(settings[place], repeat + 1, fault) for repeat, place in rounds for fault in faults]
    for number, (setting, repeat, fault) in enumerate(every):
        errors, _, guard = setting.partition(":")
        yield Trial(
            fault,
            args.python,
            args.backend,
            args.ranks,
            repeat,
            guard != "off",
            "" if errors == "default" else errors,
            args.width,
            args.pause,
            timeout=args.timeout,
            seconds=args.limit,
            linger=args.linger,
            sources=args.sources,
            kept=str(Path(args.kept).resolve()) if args.kept else "",
            port=_PORT + number,
            at_once=args.at_once,
        )


def _healthy(args: argparse.Namespace) -> Iterator[Trial]:
    """Healthy trainings for the whole time: every second one without a Guard, half with a learned limit."""
    for number in range(args.healthy):
        yield Trial(
            HEALTHY,
            args.python,
            args.backend,
            args.ranks,
            number + 1,
            guard=number % 2 == 0,
            pause=_HEALTHY_PAUSE,
            rest=_REST,
            seconds=args.limit - _END,
            linger=args.limit,
            port=_PORT + 1000 + number,
            patience=ANNOUNCED if number // 2 % 2 else LEARNED,
            at_once=args.at_once + args.healthy,
        )


def _row(outcome: Outcome) -> str:
    trial = outcome.trial
    verdict = "right" if outcome.right else "WRONG"
    after = "" if outcome.after is None else f"{outcome.after:.0f} s"
    knew = ", ".join(f"{source} {seconds:.0f} s" for source, seconds in outcome.knew.items())
    cells = [trial.name, verdict, after, outcome.first, knew, *outcome.before, *outcome.wrongly[:2]]
    trouble = [outcome.trouble[-1500:]] if outcome.trouble else outcome.unknown[:1]
    return " | ".join([*cells, *trouble, f"{outcome.lasted:.0f} s"])


def _arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.culprit")
    parser.add_argument("--python", default=str(ROOT / ".venv/examples/bin/python"))
    parser.add_argument("--backend", default="gloo", choices=("gloo", "nccl"))
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--settings", default="default:on", help="ERRORS:GUARD,..., such as 0:off")
    parser.add_argument("--done", default="", help="a file of rows that are not to be run again")
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--healthy", type=int, default=0)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--pause", type=float, default=0.05)
    parser.add_argument("--timeout", type=float, default=600.0)
    parser.add_argument("--linger", type=float, default=0.0, help="seconds that later messages are collected")
    parser.add_argument("--sources", action="store_true", help="note which source knows it first")
    parser.add_argument("--kept", default="", help="a folder for evidence and answers")
    parser.add_argument("--rows", default="/dev/null", help="a file for every row, as a line of JSON")
    parser.add_argument("--limit", type=float, default=36000.0, help="seconds after which nothing begins")
    parser.add_argument("--last", type=float, default=60.0, help="seconds before the limit, likewise")
    parser.add_argument("faults", nargs="*", choices=[*FAULTS, HEALTHY, []])
    return parser.parse_args(words)


if __name__ == "__main__":
    main()
