"""`python -m benchmarks.truth [FORM ...]`: false alarms, misses and delays of log_staleness, in tables.

With parts of names of forms: what was reported of each of their lives.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor

from benchmarks.truth.forms import all_forms
from benchmarks.truth.lives import Fault, Told, tell
from benchmarks.truth.story import FORMS, Phase
from watchdogd.units import format_duration

FIXED_LIMITS = (900.0, 1800.0, 3600.0)
"""Ages of the log in seconds at which a fixed rule (Monit's `if timestamp`) would call."""


def main(chosen: Sequence[str]) -> None:
    """Tell the lives and print what came of them."""
    if {"-h", "--help"} & set(chosen):
        print(__doc__)
        return
    begin = time.monotonic()
    names = [form.name for form in all_forms() if not chosen or any(word in form.name for word in chosen)]
    if not names:
        sys.exit(f"no form has {' or '.join(chosen)} in its name")
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        told = list(pool.map(_tell, names))
    for part, of in (("open", False), ("held back", True)):
        lives = [each for each in told if each.form.held is of]
        if lives:
            print(f"\n## Forms {part}: {len(lives)}\n\n{_table(lives)}")
    print(f"\n## By form\n\n{_by_form(told)}" if not chosen else "\n".join(_details(told)))
    cpu = sum(each.seconds for each in told)
    print(f"\n{time.monotonic() - begin:.0f} s, {cpu:.0f} s of CPU")


def _tell(name: str) -> Told:
    all_forms()
    return tell(FORMS.known[name])


def _share(part: int, of: int) -> str:
    return f"{part} of {of} ({part / of:.0%})" if of else "–"


def _table(lives: list[Told]) -> str:
    fixed = [f"older than {format_duration(limit)}" for limit in FIXED_LIMITS]
    rows = [["what", "watchdogd", *fixed, '"is running"'], ["---"] * (3 + len(fixed))]
    wrong = sum(bool(each.false_alarms) for each in lives)
    false = [_share(sum(each.pause > limit for each in lives), len(lives)) for limit in FIXED_LIMITS]
    rows.append(["healthy lives with a false alarm", _share(wrong, len(lives)), *false, "0"])
    rows.append(["those called CRITICAL", _share(sum(e.critical for e in lives), len(lives)), *false, "0"])
    for kind in ("silence", "chatter", "death", "divergence"):
        faults = [
            fault for each in lives for fault in each.faults if fault.kind == kind and not fault.blurred
        ]
        missed = sum(fault.delay is None for fault in faults)
        if faults:
            by_age = "0" if kind in ("silence", "death") else "all"
            rows.append([f"{kind}: never reported", _share(missed, len(faults)), *[by_age] * 3, "all"])
    rows += _delays(lives)
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _delays(lives: list[Told]) -> Iterator[list[str]]:
    hangs = [f for each in lives for f in each.faults if f.kind != "divergence" and not f.blurred]
    delays = [fault.delay for fault in hangs if fault.delay is not None]
    units = [fault.delay / max(fault.pause, 60.0) for fault in hangs if fault.delay is not None]
    if delays:
        fixed = [format_duration(limit) for limit in FIXED_LIMITS]
        yield ["median delay", format_duration(round(statistics.median(delays))), *fixed, "–"]
        amid = [f.delay for f in hangs if f.delay is not None and f.phase is Phase.TRAIN]
        yield ["median delay amid training", format_duration(round(statistics.median(amid))), *fixed, "–"]
        yield [
            "median delay in longest healthy pauses",
            f"{statistics.median(units):.1f} ×",
            *["–"] * (len(FIXED_LIMITS) + 1),
        ]
        in_time = sum(fault.in_time for fault in hangs)
        yield ["within 3 pauses or 10 minutes", _share(in_time, len(hangs)), *["–"] * (len(FIXED_LIMITS) + 1)]


def _by_form(told: list[Told]) -> str:
    rows = [
        "| form | field | false alarms | never reported | longest pause | longest delay |",
        "|" + " --- |" * 6,
    ]
    for each in told:
        unseen = [fault for fault in each.faults if fault.delay is None and not fault.blurred]
        missed = [f"{fault.kind} in {fault.phase}" for fault in unseen]
        longest = max((fault.delay or 0.0 for fault in each.faults), default=0.0)
        alarms = ", ".join(f"{a.status.name} {a.subject or 'stall'}" for a in each.false_alarms[:3])
        pause, delay = format_duration(round(each.pause)), format_duration(round(longest))
        cells = [each.form.name, each.form.field, alarms or "–", ", ".join(missed) or "–", pause, delay]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def _details(told: list[Told]) -> Iterator[str]:
    for each in told:
        lived, pause = format_duration(round(each.lived)), format_duration(round(each.pause))
        yield f"\n# {each.form.name}: lived {lived}, longest pause {pause}"
        for alarm in each.false_alarms:
            at = format_duration(round(alarm.at))
            yield f"  FALSE {at}: {alarm.status.name} {alarm.subject or 'stall'}: {alarm.summary}"
        yield from map(_fault_line, each.faults)


def _fault_line(fault: Fault) -> str:
    took = "NEVER reported" if fault.delay is None else f"after {format_duration(round(fault.delay))}"
    mark = " (blurred)" if fault.blurred else ""
    return f"  {fault.kind} in {fault.phase}: {took}{mark}: {fault.summary}"


if __name__ == "__main__":
    main(sys.argv[1:])
