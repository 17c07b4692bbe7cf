"""Where a campaign plays: a home on a file system of its own, trainings, disks, receivers, cron."""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import psutil

from benchmarks.chaos.clock import WallClock, zone
from benchmarks.chaos.journal import EVERYONE, Fault, Journal, Request, Sample
from benchmarks.chaos.lab import Lab
from benchmarks.chaos.names import NameServer
from benchmarks.chaos.pace import Pacer
from benchmarks.chaos.receivers import SECRET, Receivers
from tests.cluster import Cluster
from tests.deploy.manager import Manager
from tests.deploy.pages import adapted
from tests.lab.accounts import GROUP
from tests.lab.people import PATH
from tests.lab.processes import lives
from watchdogd.home.layout import Home
from watchdogd.home.lease import current, lease_folder
from watchdogd.home.markers import RESTART

DISKS, RUNS, SWITCHED, JOB = 10, 4, "run-s", "job"
CONFIG = """
[daemon]
name = "chaos-watch"
group = "six"
interval = "1s"
timeout = "10s"
[slurm]
partition = "small"
min_poll = "1s"
[alerts]
repeat_every = "25s"
digest_above = 1000
[channels.hook]
type = "webhook"
url = "file:hook.secret"
rate = "none"
[channels.far]
type = "webhook"
url = "file:far.secret"
rate = "none"
relay = true
[channels.alerts]
type = "alertmanager"
url = "file:alerts.secret"
rate = "none"
[channels.mail]
type = "email"
smtp = "smtp://mail.campaign.test:{port}"
from = "watchdog@example.org"
to = ["team@example.org"]
rate = "none"
[heartbeat]
url = "file:beat.secret"
every = "5s"
"""
DISK = '[disks.{name}]\npath = "{path}"\nquota = "statvfs"\ncrit_free = "50%"\n'
RUN = (
    '[runs.{name}]\nbackend = "process"\npid_file = "{place}/pid"\nlog = "{place}/log"\n'
    'stale_after = "6s"\nabsent_after = "4s"\n'
)
TRAIN = """
i=0
while :; do
    [ ! -e stalled ] || { sleep 0.5; continue; }
    i=$((i + 1)); read -r loss <loss; echo "iteration $i/ 99999 | lm loss: $loss |" >>log; sleep 0.5
done
"""
SLURM_RUN = '[runs.job]\nlog = "{place}/log"\nstale_after = "10s"\nabsent_after = "10s"\n'
REVIVES = {"local": "ensure", "ticks": "tick", "chain": "ensure"}
"""What cron does every few seconds, by mode; systemd needs no cron."""
OWNER, COLLEAGUE = "alice", "bob"
UNIT = "watchdogd.service"
HASTE = (("WatchdogSec=5min", "WatchdogSec=20s"), ("RestartSec=10", "RestartSec=1s"))
"""What is other than in deploy/'s unit: everything in a campaign goes faster."""
TOOLS = ("sbatch", "squeue", "sacct", "scontrol", "scancel", "sinfo")
TOOL = """#!/bin/sh
# one of Slurm's programs, in the mood that the file beside it says
real=/usr/bin/${0##*/}
read -r mood <"$0.mood"
case $mood in
errors) echo "${0##*/}: error: Unable to contact slurm controller (connect failure)" >&2; exit 1 ;;
dies) kill -SEGV $$ ;;
garbage) head -c 300 /dev/urandom; echo; echo "<html>502 Bad Gateway</html>"; echo "||||"; exit 0 ;;
hangs) sleep 20 ;;
refuses) echo "sbatch: error: Batch job submission failed: Access/permission denied" >&2; exit 1 ;;
twice) script=$(mktemp); cat >"$script"; $real "$@" <"$script" >/dev/null
    $real "$@" <"$script"; code=$?; rm "$script"; exit $code ;;
loses) $real "$@" >/dev/null
    echo "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation" >&2; exit 1 ;;
esac
exec $real "$@"
"""
CRON = 5.0
"""Seconds from one run of cron to the next: a minute of a real one."""


class Training:
    """A training: a process that writes its log; frozen, killed, diverging and started anew."""

    def __init__(self, place: Path) -> None:
        self.place = place
        place.mkdir()
        self.loss("2.31")
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(
            ["sh", "-c", TRAIN], cwd=self.place, start_new_session=True, stdout=subprocess.DEVNULL
        )
        (self.place / "pid").write_text(f"{self._process.pid}\n")

    def loss(self, value: str) -> None:
        (self.place / "next").write_text(f"{value}\n")
        (self.place / "next").rename(self.place / "loss")

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)
        if number is signal.SIGKILL:
            self._process.wait(30)


class Stage:
    """A context manager: all that is made goes when it is left."""

    def __init__(self, mode: str, seed: int, other: Path | None = None) -> None:
        """`other`: the package of another version, which takes this one's place in the middle."""
        self.mode = mode
        self.other = other
        self.journal = Journal(seed, mode, ("hook", "far", "alerts", "mail"))
        self._stack = ExitStack()
        self._cron: list[subprocess.Popen[bytes] | None] = [None, None]
        self._cron_at = 0.0
        self.cron_works = True
        self._replacements = 0
        self.pacer = Pacer(self.journal.pace)

    def __enter__(self) -> Stage:
        try:
            self._build()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _build(self) -> None:
        self.people = ThreadPoolExecutor(8)
        self.slurm = self._stack.enter_context(Cluster(nodes=3)) if self.mode == "chain" else None
        self.lab = self.slurm or self._stack.enter_context(Lab())
        self.folder = Path(tempfile.mkdtemp(prefix="watchdogd-chaos-", dir="/tmp"))
        self.folder.chmod(0o755)
        self._stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self._stack.callback(self._unmount_all)
        self.disk, self.image = self.folder / "disk", self.folder / "disk.image"
        self.home = self.disk / "home"
        self._make_disk()
        self.receivers = self._stack.enter_context(Receivers(self.folder))
        self.names = self._stack.enter_context(NameServer(self.folder))
        self.clock = WallClock(self.folder)
        self.receivers.shown = self.clock.shown
        self._tools = self.folder / "bin"
        self._tools.mkdir()
        for tool in TOOLS if self.slurm else ():
            self.slurm_is("", tool)
            (self._tools / tool).write_text(TOOL)
            (self._tools / tool).chmod(0o755)
        self._zone((), 0)
        self.clock.enter(self._site)
        self._stack.callback(self._kill_all)
        self._stack.callback(self.pacer.end)
        self.disks = {f"disk-{number}": self.folder / f"disk-{number}" for number in range(DISKS)}
        for place in self.disks.values():
            place.mkdir()
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=777", "tmpfs", place], check=True)
        names = [*(f"run-{number}" for number in range(RUNS)), SWITCHED]
        self.trainings = {name: Training(self.folder / name) for name in names}
        self._stack.callback(self._end_trainings)
        done = self.say("init", "--group", GROUP)
        if done.returncode:
            raise AssertionError(done.stderr)
        for channel in self.receivers.web:
            self._write(f"{channel}.secret", self.receivers.url(channel))
        self.config = CONFIG.format(port=self.receivers.mail.port)
        self.config += "".join(DISK.format(name=name, path=path) for name, path in self.disks.items())
        self.config += "".join(RUN.format(name=n, place=self.folder / n) for n in names)
        if self.slurm:
            self.config += SLURM_RUN.format(place=self.job_folder)
            self.submit()
        self._write("config.toml", self.config, 0o640)
        if self.mode == "systemd":
            self.manager = self._manager()
        subprocess.run(["sync", "--file-system", self.home], check=True)

    @property
    def job_folder(self) -> Path:
        """Where the training writes that is a job of Slurm's."""
        return self.folder / JOB

    def _manager(self) -> Manager:
        """systemd for its user, with the unit of deploy/."""
        folder = self.lab.home(OWNER) / ".config/systemd/user"
        self.lab.run_as(OWNER, ["mkdir", "-p", folder])
        text = adapted(UNIT, self.lab.watchdogd.parent.parent, self.home)
        for given, shorter in HASTE:
            text = text.replace(given, shorter)
        (folder / UNIT).write_text(text)
        (folder.parents[1] / "watchdogd.env").write_text(f"TZ={self.env['TZ']}\n")
        return self._stack.enter_context(Manager(OWNER, self.lab.home(OWNER)))

    def _zone(self, changes: Sequence[tuple[float, bool]], begin: float) -> None:
        (self.folder / "zone").write_bytes(zone([(begin + at, summer) for at, summer in changes]))

    def slurm_is(self, mood: str, *tools: str) -> None:
        """How these programs of Slurm's are from now on."""
        for tool in tools:
            (self._tools / "next").write_text(f"{mood}\n")
            (self._tools / "next").rename(self._tools / f"{tool}.mood")

    def submit(self) -> None:
        """Let it begin anew."""
        assert self.slurm
        if not self.job_folder.exists():
            self.job_folder.mkdir()
            (self.job_folder / "loss").write_text("2.31\n")
            shutil.chown(self.job_folder, OWNER, OWNER)
        options = (f"--job-name={JOB}", "--partition=gpu", "--output=/dev/null")
        self.slurm.sbatch(OWNER, TRAIN, *options, cwd=self.job_folder)

    def __exit__(self, *_: object) -> None:
        self.people.shutdown(wait=False, cancel_futures=True)
        self._stack.close()

    # ---- the file system of home

    def _make_disk(self) -> None:
        self.disk.mkdir()
        with self.image.open("wb") as file:
            file.truncate(64 << 20)
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", self.image], check=True)
        self.mount()
        shutil.chown(self.disk, OWNER, OWNER)

    def mount(self) -> None:
        subprocess.run(["mount", "-o", "loop", self.image, self.disk], check=True)

    def _unmount_all(self) -> None:
        with suppress(OSError, subprocess.SubprocessError):
            subprocess.run(["fsfreeze", "--unfreeze", self.disk], check=False, capture_output=True)
        for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
            if line.split()[1].startswith(f"{self.folder}/"):
                subprocess.run(["umount", "--lazy", line.split()[1]], check=False)

    def _write(self, name: str, text: str, mode: int = 0o600) -> None:
        """What people wrote survives a power cut."""
        path = self.home / name
        with path.open("w") as file:
            path.chmod(mode)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        shutil.chown(path, OWNER)

    def configure(self, text: str) -> None:
        """Replace config.toml, as an editor does."""
        self._write("config.toml.new", text, 0o640)
        (self.home / "config.toml.new").rename(self.home / "config.toml")

    # ---- programs

    @property
    def env(self) -> dict[str, str]:
        """What its programs get beside what their user always gets."""
        return {
            "WATCHDOGD_HOME": str(self.home),
            "PATH": f"{self._tools}:{PATH}",
            "TZ": f":{self.folder}/zone",
        }

    @property
    def _site(self) -> Path:
        """The site-packages of what is installed."""
        return next((self.lab.watchdogd.parents[1] / "lib").glob("python*/site-packages"))

    def start_verb(self, *words: str) -> subprocess.Popen[bytes]:
        """Start a verb as its user, without waiting; what it says goes to `said`."""
        user = pwd.getpwnam(OWNER)
        more = {"USER": OWNER, "LOGNAME": OWNER, "HOME": str(self.lab.home(OWNER)), "LANG": "C.UTF-8"}
        if self.slurm:
            more["SLURM_CONF"] = str(self.slurm.conf)
        with (self.folder / "said").open("ab") as said:
            return subprocess.Popen(
                [self.lab.watchdogd, *words],
                env=more | self.env,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                cwd="/",
                user=user.pw_uid,
                group=user.pw_gid,
                extra_groups=os.getgrouplist(OWNER, user.pw_gid),
            )

    def say(self, *words: str, user: str = OWNER, timeout: float = 120.0) -> subprocess.CompletedProcess[str]:
        """A verb to its end; 124 where that takes too long."""
        argv: list[str | Path] = [self.lab.watchdogd, *words]
        before = self._replacements
        try:
            done = self.lab.run_as(user, argv, env=self.env, cwd=Path("/"), check=False, timeout=timeout)
        except (subprocess.TimeoutExpired, AssertionError):
            return subprocess.CompletedProcess(argv, 124, "", "no answer")
        replaced = before % 2 or self._replacements != before  # its modules may have been gone meanwhile
        if "Traceback" in done.stdout + done.stderr and not replaced:
            self.journal.left.append(f"a traceback of {words}: {done.stderr[-300:]}")
        return done

    def ask(self, *words: str) -> Any:
        """What a verb says as JSON; None where it says nothing."""
        try:
            return json.loads(self.say(*words, "--json").stdout)
        except ValueError:
            return None

    def request(self, verb: str, target: str, *words: str, user: str, incident: int = 0) -> None:
        """Somebody types a verb, and it is in the journal if that went well."""

        def typed() -> None:
            if self.say(verb, *words, user=user).returncode == 0:
                self.journal.requests.append(Request(verb, target, time.time(), incident))

        self.people.submit(typed)

    def begin(self, changes: Sequence[tuple[float, bool]]) -> None:
        """Start the daemon as people do; `changes` are when summer begins and ends, from now on."""
        self._zone(changes, time.time())
        if self.mode == "systemd":
            self.manager.systemctl("start", UNIT)
        elif self.mode != "ticks":
            done = self.say("start", *(["--local"] if self.mode == "local" else []))
            if done.returncode:
                raise AssertionError(done.stderr)
        self.cron()

    def restart(self) -> None:
        """As people do; a tick is another program each time anyway. One that is ended midway is a fault."""
        if self.mode == "systemd":
            self.manager.systemctl("restart", UNIT, check=False)
        elif self.mode != "ticks":
            begin, done = time.time(), self.say("restart", timeout=300)
            if done.returncode:
                print(f"restart: {done.returncode} {done.stderr.strip()[-300:]}", flush=True)
                explains = (r"^\[\w+\] chaos-watch: ",)
                midway = Fault("restart ended midway", begin, time.time(), (EVERYONE,), RESTART + CRON, True,
                               explains=explains)  # fmt: skip
                self.journal.faults.append(midway)

    def cron(self) -> None:
        """Every few seconds the lines of the crontab, each beside nobody of its own."""
        if not self.cron_works or time.time() < self._cron_at:
            return
        self._cron_at = time.time() + CRON
        lines = ([REVIVES.get(self.mode, "")], ["relay", "far", "--follow", "--every", "1s"])
        for number, words in enumerate(lines):
            running = self._cron[number]
            if words[0] and (running is None or running.poll() is not None):
                self._cron[number] = self.start_verb(*words)

    def replace(self, seconds: float) -> None:
        """Install the other version in place of this one, as pip does: for some seconds there is none."""
        package = self._site / "watchdogd"
        away, other = package.with_name("away"), package.with_name("other")
        if not other.exists():
            self._other_version(package, other)
        self._replacements += 1
        package.rename(away)
        time.sleep(seconds)
        other.rename(package)
        away.rename(other)
        self._replacements += 1

    def _other_version(self, package: Path, other: Path) -> None:
        if self.other:
            shutil.copytree(self.other, other)
            return
        shutil.copytree(package, other)
        module = other / "__init__.py"
        module.write_text(re.sub(r'__version__ = ".*"', '__version__ = "99.0"', module.read_text()))

    # ---- processes

    def family(self) -> list[psutil.Process]:
        """All processes of this home."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                named = str(self.home) in process.cmdline()
                ours = named or process.environ().get("WATCHDOGD_HOME") == str(self.home)
                if ours and lives(process):
                    found.append(process)
        return found

    def daemon(self) -> psutil.Process | None:
        """The daemon, or the tick that is on."""
        return self._one_of("run", "tick")

    def acting(self) -> int:
        """Who holds home's lease; 0 where nobody does, or that cannot be read."""
        with suppress(OSError):
            holder = current(lease_folder(Home(self.home))).holder
            return holder.pid if holder and not holder.released else 0
        return 0

    def relay(self) -> psutil.Process | None:
        return self._one_of("relay")

    def workers(self) -> list[psutil.Process]:
        """What the daemon started."""
        daemon = self.daemon()
        with suppress(psutil.Error):
            return daemon.children(recursive=True) if daemon else []
        return []

    def _one_of(self, *verbs: str) -> psutil.Process | None:
        for process in self.family():
            with suppress(psutil.Error):
                words = process.cmdline()
                if any("watchdogd" in word for word in words[:5]) and any(verb in words for verb in verbs):
                    return process
        return None

    def sample(self) -> None:
        """Note how large it is."""
        memory, descriptors, family = 0.0, 0, self.family()
        for process in family:
            with suppress(psutil.Error):
                memory += process.memory_info().rss / 1e6
                descriptors = max(descriptors, process.num_fds())
        self.journal.samples.append(Sample(time.time(), memory, descriptors, len(family)))

    def _kill_all(self) -> None:
        for process in self.family():
            with suppress(psutil.Error):
                process.kill()
        for running in self._cron:
            if running:
                running.wait(60)

    def _end_trainings(self) -> None:
        for training in self.trainings.values():
            training.signal(signal.SIGKILL)

    # ---- the end

    def end(self) -> None:
        """Stop it, and note what is left that should not be."""
        left = self.journal.left
        status = self.ask("status")
        if not status or not status["alive"]:
            left.append(f"it does not live at the end: {status and status.get('holder')}")
        if status and status["incidents"]:
            left.append(f"open in the end: {[each['summary'] for each in status['incidents']]}")
        if waiting := self.ask("outbox"):
            left.append(f"undelivered in the end: {[each['headline'] for each in waiting]}")
        self.cron_works = False
        self.say("stop")
        for running in self._cron:
            if running:
                running.terminate()
                running.wait(60)
        until = time.time() + 30
        while (family := self.family()) and time.time() < until:
            time.sleep(0.5)
        left += [f"a process is left: {process}" for process in family]
        jobs = self.slurm.squeue(OWNER) if self.slurm else []
        left += [f"a job is left: {job}" for job in jobs if not job.endswith(f"|{JOB}")]
        left += list(self._secrets())
        left += [f"a file is left: {path.name}" for path in self.home.iterdir() if _scrap(path)]

    def keep(self, folder: Path) -> None:
        """Leave there what is in home, and what its verbs said."""
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "-a", self.home, self.folder / "said", folder], check=False)

    def _secrets(self) -> Iterator[str]:
        places = [self.folder / "said", *self.home.rglob("*")]
        for path in places:
            if path.is_file() and path.suffix != ".secret" and SECRET.encode() in path.read_bytes():
                yield f"the secret stands in {path}"
        for message in self.journal.messages:
            if SECRET in message.headline:
                yield f"the secret stands in a message: {message.headline}"


def _scrap(path: Path) -> bool:
    """Whether a file of home looks like one that nobody finished."""
    return path.name.endswith((".new", ".tmp")) and path.name != "config.toml.new"


def killed(processes: Sequence[psutil.Process]) -> None:
    """kill -9, all at once."""
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
