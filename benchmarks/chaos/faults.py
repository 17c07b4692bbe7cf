"""What goes wrong: processes, home's file system, channels, configuration, clocks, people, Slurm."""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

import psutil

from benchmarks.chaos.journal import EVERYONE, Fault
from benchmarks.chaos.names import MOODS
from benchmarks.chaos.plan import Act, Scene, Step
from benchmarks.chaos.receivers import MAIL, WEB
from benchmarks.chaos.stage import COLLEAGUE, JOB, OWNER, TOOLS, Stage, killed
from benchmarks.chaos.truths import until_done
from tests.cluster import Cluster

FAULTS: list[Act] = []
ALL, ALONE = ("local", "ticks", "chain", "systemd"), ("local", "ticks", "systemd")
LIVING = ("local", "chain", "systemd")
"""Modes in which one daemon lives on, unlike ticks."""
CHANNELS = ("hook", "far", "alerts", "mail")
SUMMER = "summer"
MISDATED = r"chaos-watch: (acknowledgements are not taken in|inbox is fine)"
GAP = r"^\[WARNING\] chaos-watch: .*(watched|gap|round)"
OF_HOME = r"^\[\w+\] (chaos-watch|history|home|delivery): "
Play = Callable[[Scene], Iterator[None]]


def fault(
    name: str,
    place: str,
    lasting: tuple[float, float] = (0, 0),
    *,
    modes: tuple[str, ...] = ALL,
    weight: float = 1.0,
    excuses: tuple[str, ...] = (),
    after: float = 0.0,
    crash: bool = False,
    strands: bool = False,
    unwritten: bool = False,
    explains: tuple[str, ...] = (),
) -> Callable[[Play], Play]:
    """Enter a kind of fault."""

    def note(_step: Step, now: float) -> Fault:
        return Fault(name, now, float("inf"), excuses, after, crash, strands, unwritten, explains)

    def entered(play: Play) -> Play:
        FAULTS.append(Act(name, modes, (place,), lasting, weight, play, note))
        return play

    return entered


# ---- processes


@fault("daemon killed", "daemon", weight=3, excuses=(EVERYONE,), after=20, crash=True, explains=(GAP,))
def daemon_killed(scene: Scene) -> Iterator[None]:
    killed([process for process in [scene.stage.daemon()] if process])
    yield


@fault(
    "daemon and all its children killed", "daemon", excuses=(EVERYONE,), after=30, crash=True, explains=(GAP,)
)
def family_killed(scene: Scene) -> Iterator[None]:
    daemon = scene.stage.daemon()
    killed([*([daemon] if daemon else []), *scene.stage.workers()])
    yield


@fault("daemon frozen for long", "daemon", (60, 100), weight=0.5, excuses=(EVERYONE,), after=40, crash=True,
       explains=(GAP,))  # fmt: skip
@fault("daemon frozen", "daemon", (2, 25), weight=2, excuses=(EVERYONE,), after=25, explains=(GAP,))
def daemon_frozen(scene: Scene) -> Iterator[None]:
    daemon = scene.stage.daemon()
    with suppress(psutil.Error):
        if daemon:
            daemon.suspend()
    yield
    with suppress(psutil.Error):
        if daemon:
            daemon.resume()


@fault("worker killed", "worker", weight=2)
def worker_killed(scene: Scene) -> Iterator[None]:
    if workers := scene.stage.workers():
        killed([scene.chance.choice(workers)])
    yield


@fault(
    "worker frozen",
    "worker",
    (5, 20),
    after=25,
    excuses=(EVERYONE,),
    explains=(r"^\[UNKNOWN\]", r"^\[RESOLVED\]"),
)
def worker_frozen(scene: Scene) -> Iterator[None]:
    workers = scene.stage.workers()
    frozen = scene.chance.choice(workers) if workers else None
    with suppress(psutil.Error):
        if frozen:
            frozen.suspend()
    yield
    with suppress(psutil.Error):
        if frozen:
            frozen.resume()


@fault("relay killed", "relay", weight=2, excuses=("far",), after=25, crash=True)
def relay_killed(scene: Scene) -> Iterator[None]:
    killed([process for process in [scene.stage.relay()] if process])
    yield


@fault("a second daemon", "second", modes=ALONE)
def second_daemon(scene: Scene) -> Iterator[None]:
    second = scene.stage.start_verb("run")
    scene.stage.people.submit(_must_refuse, scene.stage, second)
    yield


def _must_refuse(stage: Stage, second: subprocess.Popen[bytes]) -> None:
    """It ends by itself where another acts; where none did, it acts from now on, and others end beside it."""
    with suppress(subprocess.TimeoutExpired):
        second.wait(300)
    acting = stage.acting()
    if second.poll() is None and acting not in (0, second.pid):
        stage.journal.left.append(f"a second daemon did not end: {second.pid} beside {acting}")


@fault("restarted", "daemon", modes=LIVING, excuses=(EVERYONE,), after=40, explains=(GAP,))
def restarted(scene: Scene) -> Iterator[None]:
    scene.stage.people.submit(scene.stage.restart)
    yield


@fault("another version", "daemon", (20, 40), weight=1.5, excuses=(EVERYONE,), after=60, crash=True,
       explains=(OF_HOME, GAP, r"^\[UNKNOWN\]", r"^\[RESOLVED\]"))  # fmt: skip
def another_version(scene: Scene) -> Iterator[None]:
    """It is installed while the daemon of the one before lives on for a while; then the other way around."""
    stage, gap, pause = scene.stage, scene.chance.uniform(0.2, 4), scene.chance.uniform(0, 8)

    def installed() -> None:
        stage.replace(gap)
        time.sleep(pause)
        stage.restart()

    upgraded = stage.people.submit(installed)
    yield

    def downgraded() -> None:
        upgraded.result(600)
        installed()

    stage.people.submit(downgraded)


LIMITED = (OF_HOME, GAP, r"^\[UNKNOWN\]", r"^\[RESOLVED\]")


@fault("few descriptors", "daemon", (5, 15), excuses=(EVERYONE,), after=20, crash=True, explains=LIMITED)
def few_descriptors(scene: Scene) -> Iterator[None]:
    yield from _limited(psutil.RLIMIT_NOFILE, 4, scene.stage.daemon())


@fault("a worker's few descriptors", "worker", (5, 15), excuses=(EVERYONE,), after=20, explains=LIMITED)
def few_descriptors_of_a_worker(scene: Scene) -> Iterator[None]:
    yield from _limited(psutil.RLIMIT_NOFILE, 4, *scene.stage.workers()[:1])


@fault("no more memory", "daemon", (5, 15), excuses=(EVERYONE,), after=30, crash=True, explains=LIMITED)
def no_more_memory(scene: Scene) -> Iterator[None]:
    yield from _limited(psutil.RLIMIT_AS, 1_000_000, scene.stage.daemon())


@fault("a worker's memory", "worker", (5, 15), excuses=(EVERYONE,), after=25, explains=LIMITED)
def no_more_memory_of_a_worker(scene: Scene) -> Iterator[None]:
    yield from _limited(psutil.RLIMIT_AS, 1_000_000, *scene.stage.workers()[:1])


def _limited(kind: int, soft: int, *processes: psutil.Process | None) -> Iterator[None]:
    """What a process has it keeps; nothing more is to be had."""
    before = []
    for process in filter(None, processes):
        with suppress(psutil.Error):
            found = process.rlimit(kind)
            process.rlimit(kind, (soft, found[1]))
            before.append((process, found))
    yield
    for process, found in before:
        with suppress(psutil.Error):
            process.rlimit(kind, found)


# ---- home's file system


def of_home(name: str, lasting: tuple[float, float], *, weight: float = 1.0) -> Callable[[Play], Play]:
    """A fault of home's disk: the daemon reports on, but for the relay and ticks, which begin there."""

    def entered(play: Play) -> Play:
        spoken = (OF_HOME, GAP, r"home", r"config\.toml")
        for modes, excuses in ((LIVING, ("far",)), (("ticks",), (EVERYONE,))):
            fault(name, "home", lasting, modes=modes, weight=weight, excuses=excuses, after=30.0,
                  strands=True, unwritten=True, explains=spoken)(play)  # fmt: skip
        return play

    return entered


@of_home("home full", (5, 40), weight=1.5)
def home_full(scene: Scene) -> Iterator[None]:
    ballast = scene.stage.disk / "ballast"
    with suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 65536)
    yield
    ballast.unlink()


@of_home("home out of inodes", (5, 30))
def home_without_inodes(scene: Scene) -> Iterator[None]:
    folder = scene.stage.disk / "inodes"
    folder.mkdir()
    with suppress(OSError):
        for number in range(100_000):
            (folder / str(number)).touch()
    yield
    shutil.rmtree(folder)


@of_home("home read-only", (5, 40))
def home_read_only(scene: Scene) -> Iterator[None]:
    """Elsewhere first: where somebody writes through a mount, it does not become read-only."""
    elsewhere = scene.stage.folder / "read-only"
    elsewhere.mkdir(exist_ok=True)
    subprocess.run(["mount", "--bind", "--make-private", scene.stage.home, elsewhere], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", elsewhere], check=True)
    subprocess.run(["mount", "--bind", elsewhere, scene.stage.home], check=True)
    subprocess.run(["umount", "--lazy", elsewhere], check=True)
    yield
    subprocess.run(["umount", "--lazy", scene.stage.home], check=True)


@of_home("home frozen", (3, 25), weight=1.5)
def home_frozen(scene: Scene) -> Iterator[None]:
    subprocess.run(["fsfreeze", "--freeze", scene.stage.disk], check=True)
    yield
    subprocess.run(["fsfreeze", "--unfreeze", scene.stage.disk], check=True)


@of_home("home slow", (5, 30))
def home_slow(scene: Scene) -> Iterator[None]:
    over = threading.Event()

    def pulses() -> None:
        while not over.is_set():
            subprocess.run(["fsfreeze", "--freeze", scene.stage.disk], check=True)
            over.wait(0.8)
            subprocess.run(["fsfreeze", "--unfreeze", scene.stage.disk], check=True)
            time.sleep(0.1)

    thread = threading.Thread(target=pulses)
    thread.start()
    yield
    over.set()
    thread.join()


@of_home("home gone", (5, 30))
def home_gone(scene: Scene) -> Iterator[None]:
    away = scene.stage.home.with_name("away")
    scene.stage.home.rename(away)
    yield
    if scene.stage.home.exists():  # nobody may make a home that was moved away
        scene.stage.journal.left.append(
            f"home was made anew while it was away: {list(scene.stage.home.iterdir())}"
        )
        shutil.rmtree(scene.stage.home)
    away.rename(scene.stage.home)


@fault(
    "power cut",
    "home",
    modes=("local", "ticks"),
    weight=1.5,
    excuses=(EVERYONE,),
    after=30,
    crash=True,
    explains=(GAP,),
)
def power_cut(scene: Scene) -> Iterator[None]:
    """All is ended at once, and what was not written to the disk by then is lost."""
    scene.stage.cron_works = False
    killed(scene.stage.family())
    image = scene.stage.image.with_name("survivor")
    shutil.copyfile(scene.stage.image, image)
    subprocess.run(["umount", "--lazy", scene.stage.disk], check=True)
    image.rename(scene.stage.image)
    scene.stage.mount()
    scene.stage.cron_works = True
    yield


# ---- channels


def of_channel(channel: str, how: str, after: float) -> None:
    """A fault of one channel excuses that one alone, until it is tried again."""
    lasting = (2.0, 30.0)

    def note(step: Step, now: float) -> Fault:
        # an answer that was waited for in vain, and the pause before the next try
        pause = after + step.lasting
        return Fault(f"{channel} {how}", now, excuses=(channel,), after=pause, explains=(OF_HOME,))

    def play(scene: Scene) -> Iterator[None]:
        scene.stage.receivers.misbehave(channel, how)
        yield
        scene.stage.receivers.behave(channel, how)

    FAULTS.append(Act(f"{channel} {how}", ALL, (channel,), lasting, 0.35, play, note))


for _channel in CHANNELS:
    for _how in MAIL if _channel == "mail" else WEB:
        of_channel(_channel, _how, 20.0)


@fault("heartbeat's server away", "beat", (5, 30), explains=(r"heartbeat",))
def heartbeat_away(scene: Scene) -> Iterator[None]:
    scene.stage.receivers.misbehave("beat", "refuses")
    yield
    scene.stage.receivers.behave("beat", "refuses")


def of_names(mood: str) -> None:
    """No channel's host is found."""

    def note(_step: Step, now: float) -> Fault:
        return Fault(
            f"name service {mood}", now, excuses=CHANNELS, after=30.0, explains=(OF_HOME, "heartbeat")
        )

    def play(scene: Scene) -> Iterator[None]:
        scene.stage.names.mood = mood
        yield
        scene.stage.names.mood = ""

    FAULTS.append(Act(f"name service {mood}", ALL, ("names",), (3.0, 25.0), 0.4, play, note))


for _mood in MOODS:
    of_names(_mood)


# ---- clocks

AHEAD = (40.0, -40.0, 200.0, -200.0, 3600.0, -3600.0, 5 * 3600.0, -7 * 3600.0, 3 * 86400.0, -3 * 86400.0)
MUNGE = 300.0
"""Seconds from which Slurm answers no machine whose clock is wrong."""


@fault("clock set", "clock", (15, 50), weight=3, explains=(GAP, MISDATED))
def clock_set(scene: Scene) -> Iterator[None]:
    """A paper that is just being handed in then looks as if it were forged, and that is reported."""
    possible = [each for each in AHEAD if abs(each) < MUNGE] if scene.stage.slurm else AHEAD
    scene.stage.clock.set(scene.chance.choice(possible))
    yield
    scene.stage.clock.set(0.0)


@fault(SUMMER, "zone", (20, 60))
def summer(_scene: Scene) -> Iterator[None]:
    """Daylight saving time begins and ends: the zone, which is made before, has it so."""
    yield


# ---- people and the machine


@fault("a colleague plants", "inbox", (10, 40), weight=2, explains=(r"inbox",))
def colleague_plants(scene: Scene) -> Iterator[None]:
    """Whatever he can put into a home that he shares."""
    stage = scene.stage
    inbox, words = stage.home / "inbox", f"{scene.step.seed:08x}"
    planted = scene.chance.sample(PLANTS, 3)
    for number, script in enumerate(planted):
        path = inbox / f"{words}-{number}.json"
        stage.people.submit(
            stage.lab.run_as, COLLEAGUE, ["sh", "-c", script, "sh", path], check=False, timeout=60.0
        )
    yield
    clear = partial(stage.lab.run_as, COLLEAGUE, check=False, timeout=60.0)
    for number in range(len(planted)):
        stage.people.submit(clear, ["rm", "-rf", "--", inbox / f"{words}-{number}.json"])


PLANTS = (
    'mkfifo "$1"',
    'ln -s /etc/shadow "$1"',
    'ln -s "$1" "$1"',
    'mkdir -p "$1/inbox/inbox"',
    'truncate -s 4G "$1"',
    'head -c 200000 /dev/zero | tr "\\0" "[" >"$1"',
    'echo \'{"kind": "ack", "id": 1e999, "reason": "\\u001b[31m"}\' >"$1"',
    'echo \'{"kind": "silence", "target": "../..", "seconds": -1}\' >"$1"',
    'touch -d @99999999999 "$1"',
    'echo \'{"kind": "finish", "run": "run-1"\' >"$1"; chmod 000 "$1"',
    'echo "[" >"$1"; mv "$1" "$(dirname "$1")/$(printf "\\001\\n\\377")"',
)
"""What he does with a name in inbox/."""


@fault("config broken", "home", (5, 30), explains=(r"config\.toml", OF_HOME))
def config_broken(scene: Scene) -> Iterator[None]:
    broken = scene.chance.choice(
        (
            "[daemn]\n",
            scene.stage.config.replace('"1s"', '"soon"'),
            scene.stage.config[: len(scene.stage.config) // 2],
            "",
            "\0\0",
        )
    )
    scene.stage.configure(broken)
    yield
    scene.stage.configure(scene.stage.config)


@fault("config edited", "home", (5, 30), explains=(r"config\.toml", OF_HOME))
def config_edited(scene: Scene) -> Iterator[None]:
    more = scene.chance.choice(
        (
            "# a comment\n",
            '[disks.more]\npath = "/"\n',
            '[runs.run-9]\nlog = "/nowhere/log"\nbackend = "process"\npid_file = "/nowhere/pid"\n',
        )
    )
    scene.stage.configure(scene.stage.config + more)
    yield
    scene.stage.configure(scene.stage.config)


@fault(
    "channel renamed", "home", (10, 30), excuses=("alerts",), after=20, explains=(r"config\.toml", OF_HOME)
)
def channel_renamed(scene: Scene) -> Iterator[None]:
    scene.stage.configure(scene.stage.config.replace("[channels.alerts]", "[channels.alarms]"))
    yield
    scene.stage.configure(scene.stage.config)


# ---- Slurm: what the chain lives on


def of_slurm(name: str, lasting: tuple[float, float], *, weight: float = 1.0) -> Callable[[Play], Play]:
    """A fault of Slurm's: the daemon reports on, but knows nothing of jobs, and nobody new can start."""
    explains = (r"^\[\w+\] (chaos-watch|slurm)", rf"^\[UNKNOWN\] {JOB}", rf"^\[RESOLVED\] {JOB}")
    return fault(
        name, "slurm", lasting, modes=("chain",), weight=weight, excuses=(JOB,), after=60,
        strands=True, explains=explains,
    )  # fmt: skip


@of_slurm("controller killed", (5, 40), weight=2)
def controller_killed(scene: Scene) -> Iterator[None]:
    slurm = cluster(scene)
    slurm.kill_controller()
    yield
    slurm.start_controller()


@of_slurm("controller frozen", (5, 40))
def controller_frozen(scene: Scene) -> Iterator[None]:
    slurm = cluster(scene)
    slurm.freeze_controller()
    yield
    slurm.thaw_controller()


@of_slurm("controller slow", (10, 40))
def controller_slow(scene: Scene) -> Iterator[None]:
    slurm, over = cluster(scene), threading.Event()

    def pulses() -> None:
        while not over.is_set():
            slurm.freeze_controller()
            over.wait(1.5)
            slurm.thaw_controller()
            time.sleep(0.1)

    thread = threading.Thread(target=pulses)
    thread.start()
    yield
    over.set()
    thread.join()


@of_slurm("accounting stopped", (5, 40))
def accounting_stopped(scene: Scene) -> Iterator[None]:
    slurm = cluster(scene)
    slurm.stop_dbd()
    yield
    slurm.start_dbd()


@of_slurm("partition down", (5, 40))
def partition_down(scene: Scene) -> Iterator[None]:
    slurm = cluster(scene)
    slurm.run_as("root", ["scontrol", "update", "PartitionName=small", "State=DOWN"], check=False)
    yield
    slurm.run_as("root", ["scontrol", "update", "PartitionName=small", "State=UP"], check=False)


@of_slurm("node drained", (5, 30))
def node_drained(scene: Scene) -> Iterator[None]:
    slurm = cluster(scene)
    slurm.drain("node1")
    yield
    slurm.resume("node1")


OF_JOB = rf"^\[\w+\] {JOB}"


@fault("node down", "slurm", (5, 30), modes=("chain",), weight=1.5, excuses=(EVERYONE, JOB), after=90,
       crash=True, strands=True, explains=(GAP, r"chaos-watch", r"^\[\w+\] slurm", OF_JOB))  # fmt: skip
def node_down(scene: Scene) -> Iterator[None]:
    """The link's: it ends, and its successor has to wait."""
    yield from _down(scene, "node1", "kernel panic")


@fault("node of the job down", "slurm", (5, 30), modes=("chain",), excuses=(JOB,), after=90,
       explains=(r"^\[\w+\] slurm", OF_JOB))  # fmt: skip
def node_of_job_down(scene: Scene) -> Iterator[None]:
    """The job begins anew on the other one."""
    yield from _down(scene, scene.chance.choice(("node2", "node3")), "fans")


def _down(scene: Scene, node: str, reason: str) -> Iterator[None]:
    slurm = cluster(scene)
    until_done(lambda: slurm.down(node, reason))
    yield
    with suppress(AssertionError):  # it is back by itself where its slurmd has registered meanwhile
        slurm.resume(node)


@fault("node rebooted", "slurm", (3, 20), modes=("chain",), weight=1.5, excuses=(EVERYONE, JOB), after=90,
       crash=True, strands=True, explains=(GAP, r"chaos-watch", OF_JOB))  # fmt: skip
def node_rebooted(scene: Scene) -> Iterator[None]:
    """All that runs there ends at once, and nothing is told to the controller."""
    slurm = cluster(scene)
    slurm.kill_slurmd("node1")
    daemon = scene.stage.daemon()
    with suppress(psutil.Error):
        steps = [each for each in daemon.parents() if each.name().startswith("slurmstepd")] if daemon else []
        killed([*steps, *([daemon] if daemon else []), *scene.stage.workers()])
    yield
    slurm.start_slurmd("node1")


def of_sbatch(mood: str) -> None:
    """Submitting fails in one way or another: whoever is ended meanwhile stays away."""

    def note(_step: Step, now: float) -> Fault:
        return Fault(
            f"sbatch {mood}", now, strands=True, after=60.0, explains=(r"chaos-watch", r"^\[\w+\] slurm")
        )

    def play(scene: Scene) -> Iterator[None]:
        scene.stage.slurm_is(mood, "sbatch")
        yield
        scene.stage.slurm_is("", "sbatch")

    FAULTS.append(Act(f"sbatch {mood}", ("chain",), ("sbatch",), (20.0, 60.0), 0.6, play, note))


for _mood in ("hangs", "refuses", "twice", "loses"):
    of_sbatch(_mood)


def of_tools(mood: str) -> None:
    """All of Slurm's programs fail: nobody knows of jobs, and nobody who was ended can come back."""

    @of_slurm(f"all of Slurm {mood}", (5, 40))
    def play(scene: Scene) -> Iterator[None]:
        scene.stage.slurm_is(mood, *TOOLS)
        yield
        scene.stage.slurm_is("", *TOOLS)


for _mood in ("errors", "garbage", "dies"):
    of_tools(_mood)


@fault("link cancelled", "slurm", modes=("chain",), weight=2, excuses=(EVERYONE,), after=60, crash=True,
       explains=(GAP, r"chaos-watch"))  # fmt: skip
def link_cancelled(scene: Scene) -> Iterator[None]:
    _cancel(scene, "--state=RUNNING")
    yield


@fault("all links cancelled", "slurm", modes=("chain",), excuses=(EVERYONE,), after=90, crash=True,
       explains=(GAP, r"chaos-watch"))  # fmt: skip
def links_cancelled(scene: Scene) -> Iterator[None]:
    _cancel(scene)
    yield


def _cancel(scene: Scene, *options: str) -> None:
    words = ["scancel", f"--user={OWNER}", "--name=chaos-watch", *options]
    cluster(scene).run_as("root", words, check=False)


def cluster(scene: Scene) -> Cluster:
    slurm = scene.stage.slurm
    assert slurm
    return slurm
