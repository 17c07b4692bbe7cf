"""What is so: disks that fill, trainings that stall, crash and diverge, switches, silences."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

from benchmarks.chaos.journal import Request, Truth
from benchmarks.chaos.plan import Act, Scene, Step
from benchmarks.chaos.stage import COLLEAGUE, DISKS, JOB, OWNER, RUNS, SWITCHED

TRUTHS: list[Act] = []
MODES = ("local", "ticks", "chain", "systemd")
DISK = tuple(f"disk-{number}" for number in range(DISKS))
RUN = tuple(f"run-{number}" for number in range(RUNS))
Play = Callable[[Scene], Iterator[None]]


def truth(
    name: str,
    places: tuple[str, ...],
    lasting: tuple[float, float],
    bound: float,
    *,
    weight: float = 1.0,
    statuses: tuple[str, ...] = ("CRITICAL",),
    event: bool = False,
    modes: tuple[str, ...] = MODES,
) -> Callable[[Play], Play]:
    """Enter a kind of truth."""

    def note(step: Step, now: float) -> Truth:
        return Truth(name, step.place, now, bound, statuses=statuses, event=event)

    def entered(play: Play) -> Play:
        TRUTHS.append(Act(name, modes, places, lasting, weight, play, note, truth=True))
        return play

    return entered


@truth("disk fills", DISK, (3, 70), 25, weight=4)
def disk_fills(scene: Scene) -> Iterator[None]:
    ballast = scene.stage.disks[scene.place] / "ballast"
    with suppress(OSError):
        ballast.write_bytes(b"x" * scene.chance.choice((700_000, 900_000, 2_000_000)))
    yield
    ballast.unlink()


@truth("disk fills in silence", DISK, (30, 60), 25, weight=0.7)
def disk_in_silence(scene: Scene) -> Iterator[None]:
    ballast = scene.stage.disks[scene.place] / "ballast"
    silence = Request("silence", scene.place, time.time())
    user, other = scene.chance.sample((OWNER, COLLEAGUE), 2)

    def silenced() -> None:
        code = scene.stage.say("silence", scene.place, "--for", "1000h", user=user).returncode
        silence.at = time.time()
        if code in (0, 124) or code < 0:  # who was ended meanwhile may have handed it in
            silence.verb = "silence" if code == 0 else "perhaps silence"
            scene.stage.journal.requests.append(silence)

    asked = scene.stage.people.submit(silenced)
    ballast.write_bytes(b"x" * 700_000)
    yield

    def over() -> None:
        asked.result(600)
        silence.end = time.time()  # from then on its end may take effect
        for _ in range(5):
            if scene.stage.say("unsilence", scene.place, user=other).returncode == 0:
                break
            time.sleep(3)

    scene.stage.people.submit(over)
    ballast.unlink()


@truth("run stalls", RUN, (40, 80), 35, weight=2)
def run_stalls(scene: Scene) -> Iterator[None]:
    training = scene.stage.trainings[scene.place]
    training.signal(signal.SIGSTOP)
    yield
    training.signal(signal.SIGCONT)


@truth("run crashes", RUN, (30, 80), 35, weight=2, statuses=("CRITICAL", "WARNING"))
def run_crashes(scene: Scene) -> Iterator[None]:
    training = scene.stage.trainings[scene.place]
    training.signal(signal.SIGKILL)
    yield
    training.start()


@truth("run diverges", RUN, (60, 90), 50, statuses=("CRITICAL", "WARNING"))
def run_diverges(scene: Scene) -> Iterator[None]:
    training = scene.stage.trainings[scene.place]
    training.loss("nan")
    yield
    training.loss("2.29")


@truth("job cancelled", (JOB,), (60, 100), 45, modes=("chain",), weight=2, statuses=("CRITICAL", "WARNING"))
def job_cancelled(scene: Scene) -> Iterator[None]:
    """By people who try again until Slurm does it; from then on it is so."""
    slurm, note, people = scene.stage.slurm, scene.note, scene.stage.people
    assert slurm

    def cancelled() -> None:
        words = ["scancel", f"--user={OWNER}", f"--name={JOB}"]
        until_done(lambda: slurm.run_as("root", words, timeout=60))
        note.begin = time.time()

    asked = people.submit(cancelled)
    yield

    def submitted() -> None:
        asked.result(600)
        until_done(scene.stage.submit)

    people.submit(submitted)


@truth("job stalls", (JOB,), (60, 100), 45, modes=("chain",), weight=2)
def job_stalls(scene: Scene) -> Iterator[None]:
    """On every node, also where it is started anew."""
    stalled = scene.stage.job_folder / "stalled"
    stalled.touch()
    yield
    stalled.unlink()


def until_done(do: Callable[[], object]) -> None:
    """Try it again as people do, while Slurm is away."""
    for _ in range(100):
        with suppress(AssertionError):
            do()
            return
        time.sleep(2)


@truth("switch pressed", (SWITCHED,), (20, 40), 25, statuses=("INFO", "WARNING"), event=True)
def switch_pressed(scene: Scene) -> Iterator[None]:
    """What could not be handed in is no truth; from then on that it was is not forgotten."""
    stage, note = scene.stage, scene.note
    user, other = scene.chance.sample((OWNER, COLLEAGUE), 2)

    def pressed() -> None:
        words = ("save-switch", SWITCHED, "--reason", "before the maintenance")
        if stage.say(*words, user=user).returncode:
            stage.journal.truths.remove(note)  # type: ignore[arg-type]
        note.begin = time.time()

    asked = stage.people.submit(pressed)
    yield

    def cleared() -> None:
        asked.result(600)
        stage.say("save-switch", SWITCHED, "--clear", user=other)

    stage.people.submit(cleared)
