"""What goes wrong: processes, home's file system, channels, configuration, Slurm."""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import psutil

from benchmarks.chaos.journal import EVERYONE, Fault
from benchmarks.chaos.plan import Act, Scene, Step
from benchmarks.chaos.receivers import MAIL, WEB
from benchmarks.chaos.stage import JOB, Stage, killed
from tests.cluster import Cluster

FAULTS: list[Act] = []
ALL, ALONE = ("local", "ticks", "chain"), ("local", "ticks")
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
    """It ends by itself where another acts; where none did, it is the daemon from now on."""
    time.sleep(60)
    daemon = stage.daemon()
    if second.poll() is None and daemon and daemon.pid != second.pid:
        stage.journal.left.append(f"a second daemon did not end: {second.pid} beside {daemon.pid}")


@fault("restarted", "daemon", modes=("local", "chain"), excuses=(EVERYONE,), after=40, explains=(GAP,))
def restarted(scene: Scene) -> Iterator[None]:
    scene.stage.people.submit(scene.stage.say, "restart")
    yield


@fault("few descriptors", "daemon", (5, 15), modes=("local",), excuses=(EVERYONE,), after=20,
       explains=(OF_HOME, GAP, r"^\[UNKNOWN\]", r"^\[RESOLVED\]"))  # fmt: skip
def few_descriptors(scene: Scene) -> Iterator[None]:
    daemon = scene.stage.daemon()
    limit = _limit(daemon, (4, 1024))
    yield
    _limit(daemon, limit)


def _limit(daemon: psutil.Process | None, limit: tuple[int, int] | None) -> tuple[int, int] | None:
    with suppress(psutil.Error):
        if daemon and limit:
            before = daemon.rlimit(psutil.RLIMIT_NOFILE)
            daemon.rlimit(psutil.RLIMIT_NOFILE, (limit[0], before[1]))
            return before
    return None


# ---- home's file system


def of_home(name: str, lasting: tuple[float, float], *, weight: float = 1.0) -> Callable[[Play], Play]:
    """A fault of home's disk: the daemon reports on, but for the relay and ticks, which begin there."""

    def entered(play: Play) -> Play:
        spoken = (OF_HOME, GAP, r"home", r"config\.toml")
        for modes, excuses in ((("local", "chain"), ("far",)), (("ticks",), (EVERYONE,))):
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
    subprocess.run(["mount", "--bind", scene.stage.home, scene.stage.home], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", scene.stage.home], check=True)
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
    "power cut", "home", modes=ALONE, weight=1.5, excuses=(EVERYONE,), after=30, crash=True, explains=(GAP,)
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


for _channel in ("hook", "far", "alerts", "mail"):
    for _how in MAIL if _channel == "mail" else WEB:
        of_channel(_channel, _how, 20.0)


@fault("heartbeat's server away", "beat", (5, 30), explains=(r"heartbeat",))
def heartbeat_away(scene: Scene) -> Iterator[None]:
    scene.stage.receivers.misbehave("beat", "refuses")
    yield
    scene.stage.receivers.behave("beat", "refuses")


# ---- people and the machine


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
    words = ["scancel", "--user=alice", "--name=chaos-watch", *options]
    cluster(scene).run_as("root", words, check=False)


def cluster(scene: Scene) -> Cluster:
    slurm = scene.stage.slurm
    assert slurm
    return slurm
