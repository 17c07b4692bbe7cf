"""`make chaos CHAOS="--seed 7 --minutes 3"`: a campaign against watchdogd itself, and what it broke.

    python -m benchmarks.chaos [--seed N] [--minutes M] [--mode local|ticks|chain|systemd] [--rounds N]
                              [--keep DIR] [--other DIR]

Needs root (mounts, accounts); its Slurm is the tests' own. The seed decides what happens and when; without
one it is drawn and printed. `--only` and `--without` choose faults by words of their names: that is how a
find is made small. It exits with 1 where a promise was broken. `--judge FILE` judges a journal that was kept.
"""

from __future__ import annotations

import argparse
import secrets
import signal
import statistics
import sys
import time
from pathlib import Path

from benchmarks.chaos import namespace
from benchmarks.chaos.campaign import play
from benchmarks.chaos.faults import FAULTS
from benchmarks.chaos.journal import Journal
from benchmarks.chaos.judge import delays, excused, judge, repeats
from benchmarks.chaos.plan import Act, draw
from benchmarks.chaos.truths import MODES, TRUTHS


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--mode", choices=MODES, default=None, help="left out: by turns, by the seed")
    parser.add_argument(
        "--rounds", type=int, default=1, help="campaigns one after another, each with the next seed"
    )
    parser.add_argument("--only", nargs="*", default=[""], metavar="WORD")
    parser.add_argument("--without", nargs="*", default=[], metavar="WORD")
    parser.add_argument(
        "--keep", type=Path, default=None, metavar="DIR", help="where journals and homes are kept"
    )
    parser.add_argument("--other", type=Path, default=None, metavar="DIR",
                        help="package of another version; left out: this one, renumbered")  # fmt: skip
    parser.add_argument("--judge", type=Path, default=None, metavar="FILE")
    args = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):  # all that is mounted is unmounted
        signal.signal(number, signal.default_int_handler)
    if args.judge:
        return report(Journal.load(args.judge), verbose=True)
    namespace.enter()
    first = secrets.randbelow(10_000) if args.seed is None else args.seed
    acts = [act for act in (*TRUTHS, *FAULTS) if act.truth or _chosen(act, args.only, args.without)]
    worst = 0
    for seed in range(first, first + args.rounds):
        mode = args.mode or MODES[seed % len(MODES)]
        print(f"\nseed {seed}, mode {mode}, {args.minutes:g} minutes", flush=True)
        keep = args.keep and args.keep / f"{seed}-{mode}"
        journal = play(seed, mode, draw(seed, mode, args.minutes, acts), args.other, keep)
        if keep:
            journal.save(keep.with_suffix(".json"))
        worst = max(worst, report(journal))
    return worst


def _chosen(act: Act, only: list[str], without: list[str]) -> bool:
    return any(word in act.name for word in only) and not any(word in act.name for word in without)


def report(journal: Journal, *, verbose: bool = False) -> int:
    """Print figures and what was broken; 1 where something was."""
    begins = [*(each.begin for each in journal.faults), *(each.begin for each in journal.truths)]
    begin = min(begins, default=0.0)
    if verbose:
        for at, line in sorted(journal.lines()):
            print(f"{at - begin:7.1f} {line}")
    broken = judge(journal)
    print(f"{len(journal.faults)} faults, {len(journal.truths)} truths, {len(journal.messages)} messages, "
          f"{repeats(journal)} came twice, {sum(each.rule == 'lost' for each in broken)} lost")  # fmt: skip
    for name, found in sorted(delays(journal).items()):
        print(
            f"  {name}: {len(found)} told after {statistics.median(found):.1f} s, the last {max(found):.1f} s"
        )
    away = ", ".join(f"{excused(journal, channel):.0%} {channel}" for channel in journal.channels)
    print(f"  nobody could act for {away} of the time")
    if journal.samples:
        memory = max(each.memory for each in journal.samples)
        print(f"  {memory:.0f} MB and {max(each.processes for each in journal.samples)} processes at most")
    for each in broken:
        print(f"BROKEN {each.rule} at {each.at - begin:.1f} s: {each.what}")
    print(f"seed {journal.seed} {journal.mode}: {'kept' if not broken else f'{len(broken)} broken'}"
          f" ({time.strftime('%H:%M:%S')})", flush=True)  # fmt: skip
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
