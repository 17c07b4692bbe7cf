"""Tell a form's lives: the healthy one to its end, and from moments of it those that broke there."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from benchmarks.truth.lab import Alarm, Lab
from benchmarks.truth.story import Event, Form, Life, Phase
from watchdogd.plugin import Status

PATIENCE = 4 * 3600.0
"""Seconds after a fault for which a report is waited for; longer where the run itself paused for longer."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One way in which a life ends: what goes on to write, and whether the report came in time.

    `delay`: seconds from the fault to the report, None: it never came. `pause`: the longest healthy pause
    between two writes before it. `blurred`: an alarm of the healthy life stood already.
    """

    form: str
    kind: str
    phase: Phase
    delay: float | None
    pause: float
    blurred: bool
    summary: str

    @property
    def in_time(self) -> bool:
        """Whether it was reported within three times the longest healthy pause, or ten minutes."""
        return self.delay is not None and self.delay <= max(3 * self.pause, 600.0)


@dataclass(slots=True)
class Told:
    """What came of all lives of one form."""

    form: Form
    seconds: float = 0.0
    lived: float = 0.0
    pause: float = 0.0
    false_alarms: list[Alarm] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    @property
    def critical(self) -> bool:
        """Whether the healthy life was called CRITICAL."""
        return any(alarm.status is Status.CRITICAL for alarm in self.false_alarms)


@dataclass(frozen=True, slots=True)
class _Cut:
    """Where a life breaks: at `at` seconds, in `phase`."""

    at: float
    phase: Phase


def tell(form: Form) -> Told:
    """All lives of a form."""
    begin = time.process_time()
    folder = Path(tempfile.mkdtemp(prefix="truth-"))
    told = Told(form)
    try:
        _live(form, folder, told)
        if form.tells_loss:
            told.faults.append(_diverge(form, folder))
    finally:
        shutil.rmtree(folder)
    told.seconds = time.process_time() - begin
    return told


def _events(form: Form, seed: str = "") -> tuple[Life, Iterator[Event]]:
    life = Life(Random(form.name + seed))
    return life, iter(form.tell(life))


def _cuts(form: Form) -> list[_Cut]:
    """Where this form's lives break: amid its training, and after the first words of other phases."""
    phase, clock, begins, spans = (
        Phase.START,
        0.0,
        dict[Phase, list[float]](),
        dict[Phase, list[list[float]]](),
    )
    fresh = False
    for event in _events(form)[1]:
        match event:
            case Phase():
                phase, fresh = event, True
                spans.setdefault(phase, []).append([clock, clock])
            case str():
                if fresh:
                    begins.setdefault(phase, []).append(clock + 1.0)
                fresh = False
            case _:
                clock += event
                spans.setdefault(phase, [[0.0, clock]])[-1][1] = clock
    trains = spans.get(Phase.TRAIN, [[0.0, clock]])
    longest = max(trains[len(trains) // 2 :], key=lambda span: span[1] - span[0])
    cuts = [_Cut(longest[0] + 0.6 * (longest[1] - longest[0]), Phase.TRAIN)]
    for other in (Phase.PREPARE, Phase.EVALUATE, Phase.SAVE):
        if other in begins:
            cuts.append(_Cut(begins[other][len(begins[other]) // 2], other))
    return sorted(cuts, key=lambda cut: cut.at)


def _live(form: Form, folder: Path, told: Told) -> None:
    cuts, lab, writes = _cuts(form), Lab(folder), [0.0]
    lab.write("")
    for event in _events(form)[1]:
        if isinstance(event, Phase):
            continue
        if isinstance(event, str):
            lab.write(event)
            writes.append(lab.clock)
            told.pause = max(told.pause, writes[-1] - writes[-2])
            continue
        end = lab.clock + event
        while cuts and cuts[0].at <= end:
            cut = cuts.pop(0)
            lab.wait(max(cut.at - lab.clock, 0.0))
            told.faults += _break(form, lab, cut, max(told.pause, lab.clock - writes[-1]))
        lab.wait(end - lab.clock)
    told.pause = max(told.pause, lab.clock - writes[-1])
    lab.job_lives = False
    lab.wait(600.0)
    told.lived, told.false_alarms = lab.clock, lab.alarms


def _break(form: Form, lab: Lab, cut: _Cut, pause: float) -> Iterator[Fault]:
    """The lives that end here: silence, chatter, and a death that leaves the job RUNNING."""
    moment = lab.branch()
    for kind in ("silence", "chatter", "death"):
        if kind == "death" and not (form.death and cut.phase is Phase.TRAIN):
            continue
        blurred, known, said = lab.stalled(), len(lab.alarms), 0
        if kind == "death":
            lab.write(form.death)
        end = cut.at + max(PATIENCE, 8 * pause)
        while lab.clock < end and not _reported(lab, known):
            if kind == "chatter":
                lab.write(_chatter(form, said, lab.clock, cut.at))
                said += 1
            lab.wait(form.chatter_every if kind == "chatter" else 60.0)
        report = _reported(lab, known)
        yield Fault(
            form.name,
            kind,
            cut.phase,
            report.at - cut.at if report else None,
            pause,
            blurred,
            report.summary if report else "",
        )
        lab.rewind(moment)


def _reported(lab: Lab, known: int) -> Alarm | None:
    """The first report of a stall since the fault."""
    return next((alarm for alarm in lab.alarms[known:] if alarm.subject == ""), None)


def _chatter(form: Form, said: int, now: float, since: float) -> str:
    line = form.chatter[said % len(form.chatter)]
    clock = time.strftime("%H:%M:%S", time.gmtime(36_000 + now))  # every job starts at ten
    return line.format(n=said + 1, clock=clock, seconds=round(now - since)) + "\n"


def _diverge(form: Form, folder: Path) -> Fault:
    """The life whose loss becomes NaN in the middle of its training."""
    at = next(cut.at for cut in _cuts(form) if cut.phase is Phase.TRAIN)
    lab = Lab(folder / "diverged")
    lab.folder.mkdir()
    lab.write("")
    life, events = _events(form)
    known = 0
    for event in events:
        if isinstance(event, str):
            lab.write(event)
        elif not isinstance(event, Phase):
            lab.wait(event)
        if not life.diverged and lab.clock >= at:
            life.diverged, known = True, len(lab.alarms)
        if any(alarm.subject for alarm in lab.alarms[known:]) and life.diverged:
            break
    report = next((alarm for alarm in lab.alarms[known:] if alarm.subject), None) if life.diverged else None
    delay = report.at - at if report else None
    return Fault(form.name, "divergence", Phase.TRAIN, delay, 0.0, False, report.summary if report else "")
