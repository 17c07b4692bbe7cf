"""One fault in one training, watched by real rounds: what is reported of it, when, and by which source."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from watchdogd.batch.run_models import WEAK
from watchdogd.daemon.setup import Setup
from watchdogd.daemon.wiring import assembled
from watchdogd.home.layout import Home
from watchdogd.notify.notification import Message
from watchdogd.plugin import Status
from watchdogd.probe import node_ranks
from watchdogd.remediation import accusations, slow_suspects
from watchdogd.stacks import node_stacks

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
HEALTHY = "none"
VICTIM, STEP, SLOW_STEP = 1, 60, 300
"""The rank that is hurt, and the iteration: a run that gets slower must have been fast for a while."""
STALE, PATIENCE, START = 15, 150.0, 240.0
"""Seconds: `stale_after`, until a fault counts as not reported, and until a training must have begun."""
ROOT = Path(__file__).resolve().parents[2]
CONFIG = """
[daemon]
interval = "2s"
[channels.out]
type = "console"
[runs.moe]
pid_file = "{folder}/pid"
log = "{folder}/train.log"
on_hang = {on_hang}
{patience}
"""
SHORT = f'stale_after = "{STALE}s"'
ANNOUNCED = f"""{SHORT}
quiet = [{{ match = 'evaluating|saving checkpoint', allow = '2m' }}]"""
LEARNED = 'stale_after = "auto"'
"""What `patience` may be: a limit, one with pauses that are announced, or what the run itself shows."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A training to be run, and how. `errors`: TORCH_NCCL_ASYNC_ERROR_HANDLING, or empty for its default.

    `linger`: seconds in which messages are collected beyond the first. `sources`: every source is asked
    meanwhile, to see which knows it first. `kept`: the folder that gets evidence and answers, or empty.
    `port`: of NCCL's RAS, where another training has the usual one. `patience`: lines of its configuration.
    """

    fault: str
    python: str
    backend: str = "gloo"
    ranks: int = 2
    repeat: int = 1
    guard: bool = True
    errors: str = ""
    width: int = 64
    pause: float = 0.05
    rest: float = 0.0
    timeout: float = 600.0
    seconds: float = 60.0
    linger: float = 0.0
    sources: bool = False
    kept: str = ""
    port: int = 0
    patience: str = SHORT
    at_once: int = 1

    @property
    def name(self) -> str:
        guard = "guard" if self.guard else "no-guard"
        return f"{self.fault}-{self.repeat}-{guard}-errors{self.errors or 'default'}-{self.timeout:.0f}"


@dataclass(slots=True)
class Outcome:
    """Times are in seconds since the harm began; `before`: messages that came before it."""

    trial: Trial
    first: str = ""
    after: float | None = None
    body: str = ""
    named: list[int] = field(default_factory=list)
    later: list[str] = field(default_factory=list)
    before: list[str] = field(default_factory=list)
    knew: dict[str, float] = field(default_factory=dict)
    wrongly: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    lasted: float = 0.0
    trouble: str = ""

    @property
    def right(self) -> bool:
        """Return whether the first message names the victim alone; of a healthy run, that there is none."""
        if self.trial.fault == HEALTHY:
            return not (self.first or self.before or self.trouble)
        return self.named == [VICTIM] and not self.before


def run(trial: Trial) -> Outcome:
    """Run it in a folder of its own; what goes wrong is the outcome's trouble."""
    outcome = Outcome(trial)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="culprit-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        home = Home(folder / "home")
        home.make()
        on_hang = '["stacks"]' if trial.kept else "[]"
        home.config.write_text(CONFIG.format(folder=folder, patience=trial.patience, on_hang=on_hang))
        try:
            with _frozen(folder, trial.fault), training(trial, folder) as launcher:
                left = begun + trial.seconds - time.monotonic()
                _watch(trial, outcome, home, folder, launcher, left if trial.fault == HEALTHY else PATIENCE)
        except Exception as error:  # noqa: BLE001 - the next trial follows
            outcome.trouble = f"{type(error).__name__}: {error}"
        if trial.kept:
            _keep(Path(trial.kept) / trial.name, home, folder)
    outcome.lasted = time.monotonic() - begun
    return outcome


def _watch(trial: Trial, outcome: Outcome, home: Home, folder: Path, launcher: int, limit: float) -> None:
    """Do rounds for `limit` seconds, or until the first bad message, and `linger` seconds more."""
    ended = threading.Event()
    asking = threading.Thread(target=_ask_sources, args=(trial, outcome, folder, launcher, ended))
    with assembled(home, Setup.load(home)) as parts:
        if trial.sources:
            asking.start()
        until = time.monotonic() + limit
        while time.monotonic() < until:
            found = parts.engine.round()
            for each in found.notifications if found else ():
                if each.message.status in ("CRITICAL", "WARNING", "UNKNOWN"):
                    until = min(until, time.monotonic() + trial.linger)
                    _take(outcome, each.message, folder)
            unknown = (
                [each.result for each in found.observations if each.result.status == Status.UNKNOWN]
                if found
                else []
            )
            outcome.unknown = outcome.unknown or [str(each)[:300] for each in unknown]
            time.sleep(0.5)
    ended.set()
    if trial.sources:
        asking.join(20.0)


def _take(outcome: Outcome, message: Message, folder: Path) -> None:
    words = " ".join((message.line or message.headline).split())
    began = _harmed(folder)
    if outcome.first:
        outcome.later.append(f"{words}\n{message.body}")
    elif began is None and outcome.trial.fault != HEALTHY:
        outcome.before.append(f"{words}\n{message.body}")
    else:
        outcome.first, outcome.body = words, message.body
        outcome.after = round(time.time() - began, 1) if began else None
        outcome.named = sorted({int(rank) for rank in re.findall(r"\brank (\d+)", words)})


def _harmed(folder: Path) -> float | None:
    with suppress(OSError):
        return (folder / "harmed").stat().st_mtime
    return None


def _ask_sources(trial: Trial, outcome: Outcome, folder: Path, launcher: int, ended: threading.Event) -> None:
    """Note when each source accuses the victim first, and whom else one accuses."""
    said = re.compile(rf"\[rank{VICTIM}\]|\brank\s*:\s*{VICTIM}\b")
    while not ended.wait(0.2):
        began = _harmed(folder)
        if began is None:
            continue
        log = (folder / "train.log").read_text(errors="replace")
        if said.search(log):
            outcome.knew.setdefault("log", round(time.time() - began, 1))
        ranks = node_ranks.look("here", node_stacks.below([launcher]), time.monotonic() + 6.0)
        slow = trial.fault == "slow"
        found = slow_suspects.of_slow([ranks], ()) if slow else accusations.of_nodes([ranks], ())
        for each in found:
            gpu = each.rank is None and each.gpu == VICTIM
            if each.rank == VICTIM or gpu:
                outcome.knew.setdefault(each.source, round(time.time() - began, 1))
            elif each.strength > WEAK:
                outcome.wrongly.append(f"{time.time() - began:.1f} s: {each}")


@contextmanager
def training(trial: Trial, folder: Path) -> Iterator[int]:
    """The ranks below torchrun; yields its number once they train."""
    begun = time.monotonic()
    words = [trial.python, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={trial.ranks}"]
    words += [str(ROOT / "benchmarks/culprit/training.py"), str(folder), f"--backend={trial.backend}"]
    words += [f"--fault={trial.fault}", f"--victim={VICTIM}", f"--pause={trial.pause}"]
    words += [f"--step={SLOW_STEP if trial.fault == 'slow' else STEP}", f"--width={trial.width}"]
    words += [f"--rest={trial.rest}", f"--timeout={trial.timeout}", *(["--guard"] if trial.guard else [])]
    with open(folder / "train.log", "a") as log, _port(trial) as environment:
        env = {**os.environ, **environment, "WATCHDOGD_HOME": str(folder / "home"), "OMP_NUM_THREADS": "1"}
        env |= {"PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))}
        env |= {"TORCH_FR_BUFFER_SIZE": "2000", "TORCH_FR_DUMP_TEMP_FILE": f"{folder}/fr_rank_"}
        env |= {"TORCH_NCCL_DUMP_ON_TIMEOUT": "1"}
        env |= {"TORCH_NCCL_ASYNC_ERROR_HANDLING": trial.errors} if trial.errors else {}
        launcher = subprocess.Popen(words, env=env, stdout=log, stderr=log, start_new_session=True)
        (folder / "pid").write_text(f"{launcher.pid}\n")
        ranks = [psutil.Process(launcher.pid)]
        try:
            _wait(folder / "train.log", launcher)
            print(f"{trial.name}: trains after {time.monotonic() - begun:.0f} s", flush=True)
            ranks += ranks[0].children(recursive=True)
            yield launcher.pid
        finally:
            if trial.kept:
                _answers(Path(trial.kept) / trial.name, env.get("NCCL_RAS_ADDR", ""))
            for each in ranks:
                with suppress(psutil.Error):
                    each.kill()
            launcher.wait(30)


@contextmanager
def _port(trial: Trial) -> Iterator[dict[str, str]]:
    """Yield the variables of NCCL's RAS: one training at a time has the usual port."""
    with open(Path(tempfile.gettempdir()) / "culprit-usual-port", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield {}
        except BlockingIOError:
            yield {"NCCL_RAS_ADDR": f"localhost:{trial.port}"}


def _wait(log: Path, launcher: subprocess.Popen[Any]) -> None:
    until = time.monotonic() + START
    while " iteration " not in log.read_text(errors="replace"):
        if launcher.poll() is not None or time.monotonic() > until:
            raise RuntimeError(f"the training does not begin:\n{log.read_text(errors='replace')[-2000:]}")
        time.sleep(0.2)


def _answers(place: Path, address: str) -> None:
    """Keep what NCCL's RAS and nvidia-smi answer now."""
    place.mkdir(parents=True, exist_ok=True)
    host, _, port = (address or "localhost:28028").rpartition(":")
    for name, words in (("ras.txt", "verbose status"), ("ras.json", "set format json\nverbose status")):
        (place / name).write_text(_asked(host, int(port), f"timeout 2\n{words}\n"))
    if smi := shutil.which("nvidia-smi"):
        with suppress(subprocess.TimeoutExpired):
            answer = subprocess.run([smi, "-q"], capture_output=True, timeout=10, check=False)
            (place / "nvidia-smi-q.txt").write_bytes(answer.stdout)


def _asked(host: str, port: int, words: str) -> str:
    heard = b""
    try:
        with socket.create_connection((host, port), 3.0) as talk:
            talk.sendall(words.encode())
            while chunk := talk.recv(65536):
                heard += chunk
    except OSError as error:
        return heard.decode(errors="replace") + f"\n# {error}\n"
    return heard.decode(errors="replace")


def _keep(place: Path, home: Home, folder: Path) -> None:
    """Keep the evidence of the incident, the log's end, and what the Flight Recorder dumped."""
    place.mkdir(parents=True, exist_ok=True)
    with suppress(OSError, shutil.Error):
        if (home.path / "evidence").is_dir():
            shutil.copytree(home.path / "evidence", place / "evidence", dirs_exist_ok=True)
        for each in folder.glob("fr_rank_*"):
            shutil.copy(each, place)
        (place / "train.log").write_text((folder / "train.log").read_text(errors="replace")[-20000:])


@contextmanager
def _frozen(folder: Path, fault: str) -> Iterator[None]:
    """A loop-mounted ext4 at folder/frozen on which writes hang in the kernel. Needs root."""
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
