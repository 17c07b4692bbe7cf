"""The Guard: a training loop asks it, after every step, whether to save, to stop, or to go on.

One file of standard library for Python 3.8 and later, which imports nothing else of watchdogd: copy it next
to a training script where watchdogd itself cannot be installed.

    guard = Guard("run-17")
    guard.exit_if_stopped()                          # top of main: burns quickly through a queued job array
    for step, batch in enumerate(loader):
        loss = train_step(batch)
        wish = guard.poll(step=step, loss=loss)
        if wish.save:
            save_checkpoint(); guard.saved()
        if wish.stop:
            save_checkpoint(); sys.exit(0)
    guard.finished()

What holds:

- `poll` takes about a microsecond; once in `every` seconds it has the switches looked at, one stat a file.
- A switch has two places: the one that config.toml names, and HOME/switches/RUN.kill. `watchdogd kill-switch`
  presses both, so it is seen whichever of the Guard and the daemon started first, and without any daemon.
- The looking is done by threads, one for home and one for switches that lie elsewhere: where one of them
  hangs, the other is seen. Poll waits half a second for a file system that hangs, once, says so on stderr
  and lets the training go on; when the file system is back, so are its switches.
- Beats and stacks are written by a thread of their own.
- Nothing that goes wrong in here ends the training: it costs one line on stderr. Only wrong arguments raise.
- With several ranks, one may see a switch a step before the others. Give `poll` an `agree` function
  (`torch_agree()`, `mpi_agree(comm)`, or any that reduces an int over all ranks by maximum), on every rank
  at the same steps, and all decide alike. Each such poll is a collective operation: poll every tenth step
  where steps are short.
- Ranks on one node share memory and ranks of one job its end; each judges for itself, `agree` makes it one
  decision.

Stacks of a hang: when `inbox/RUN.stacks-request` appears or is touched, each process writes the Python stacks
of its threads to `inbox/RUN.stacks.HOST.PID.txt` within some seconds, from a thread, so that a loop that
waits in a collective, a lock or a read still answers. What holds the interpreter's lock for ever (a C
extension that never releases it) stops that thread too. For those, SIGQUIT writes the stacks to stderr from
a signal handler in C, then does what it did before, which is to end the process: `scancel --signal=QUIT
JOB` on a job that is lost anyway.
"""

from __future__ import annotations

import atexit
import calendar
import collections
import contextlib
import difflib
import errno
import faulthandler
import functools
import gc
import importlib
import json
import os
import pwd
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
import urllib.parse
from typing import Any, Callable, Iterator, NamedTuple, TextIO

__all__ = ["Guard", "Places", "Wish", "file_name", "mpi_agree", "places", "torch_agree"]

Agree = Callable[[int], int]

QUICK = 0.1  # seconds within which a file system that is well answers
PATIENCE = 0.5  # seconds that poll waits for a file system that does not answer, once
START_PATIENCE = 10.0  # the same for exit_if_stopped, where nothing is lost by waiting
BEAT_EVERY = 5.0  # seconds between heartbeats
CHORES_EVERY = 5.0  # seconds between two looks for a stacks request
LOOK_EVERY = 0.5  # seconds between two looks at where the loop stands, where there are several ranks
LOOKS, STEPS, DEPTH = 16, 3, 8  # looks and steps that say how a rank spends a step, and frames of a look
GPU_EVERY = 60.0  # seconds between two looks at the GPU's memory
SLURM_DEADLINE = 10.0  # seconds for one squeue
SLURM_EVERY = 600.0  # rank 0 reads the end of its job so often
SLURM_EVERY_NEAR_END = 60.0  # and every rank that is to stop does
UNTIMED_SAVE = 120.0  # seconds that time_left="auto" allows for a save before one was timed
SWITCH_BYTES = 4096  # of a switch's content are read
CONFIG_BYTES = 2**20  # of config.toml are read

# Variables that hold a rank; the last one is 0 in a batch script, and in all that mpirun starts there.
RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")

# Kinds of stop, the stronger reason last: what `agree` reduces is 2 * kind + save.
KINDS = ("save switch", "time limit", "memory", "signal", "kill switch")
TIME, MEMORY, SIGNAL, KILL = 1, 2, 3, 4


class Wish(NamedTuple):
    """Request to the loop; true when it is asked to do anything.

    stop: save a checkpoint and leave. save: save a checkpoint, call `Guard.saved()`, and go on.
    reason: one line for the log, such as "kill switch set by bob: wrong learning rate".
    """

    stop: bool
    save: bool
    reason: str

    def __bool__(self) -> bool:
        return self.stop or self.save


HOST = socket.gethostname().split(".", 1)[0]
NOTHING = Wish(stop=False, save=False, reason="")


# Names and places


def file_name(run: str) -> str:
    """Return the run's name as the start of a file name, such as run-17, a%2Fb or %2Ehidden.

    It is urllib.parse.quote(run, safe="") with a leading dot written as %2E: letters, digits, `.`, `_`, `-`
    and `~` stay, all else is percent-encoded, so that no run name leads out of its folder or hides its file.
    Everything that names a file after a run follows this rule.
    """
    quoted = urllib.parse.quote(run, safe="", errors="surrogateescape")
    return "%2E" + quoted[1:] if quoted.startswith(".") else quoted


class Places(NamedTuple):
    """Paths of the files of one run, absolute, and what the configuration says for its Guard.

    kill_switch, save_switch: as configured. stem: HOME/switches/RUN, where each has a second place. finished:
    the mark that the run is done. memory_free: a size or a percentage, None for no limit. group: the Unix
    group that shares home, None where it is the owner's alone. node_disks: what the probe looks at.
    """

    kill_switch: str
    save_switch: str
    finished: str
    inbox: str
    memory_free: str | None
    group: str | None
    node_disks: tuple[str, ...] = ()
    stem: str = ""

    def switches(self, kind: str) -> tuple[str, ...]:
        """Both places of the "kill" or the "save" switch, or the one where they are the same."""
        configured = self.kill_switch if kind == "kill" else self.save_switch
        return tuple(dict.fromkeys((configured, f"{self.stem}.{kind}")))


def places(run: str, home: str | None = None) -> Places:
    """Return the places of a run: as the daemon wrote them to HOME/switches/RUN.json.

    Where it has not yet, as HOME/config.toml says; else the defaults in home.

    home: else $WATCHDOGD_HOME, else ~/.watchdogd. Raises ValueError when RUN.json is no JSON object or
    config.toml is broken, OSError when it is there and cannot be read.
    """
    home = _home(home)
    return default_places(run, home, _manifest(run, home))


def default_places(run: str, home: str | None, manifest: dict[str, Any] | None = None) -> Places:
    """Return the places of a run in a home of which nothing is known but the `manifest`."""
    home, manifest = _home(home), manifest or {}
    stem = _stem(run, home)
    return Places(
        kill_switch=os.path.join(home, manifest.get("kill_switch") or stem + ".kill"),
        save_switch=os.path.join(home, manifest.get("save_switch") or stem + ".save"),
        finished=stem + ".finished",
        inbox=os.path.join(home, manifest.get("inbox") or "inbox"),
        memory_free=manifest.get("memory_free"),
        group=manifest.get("group") or _sharing(home),
        node_disks=tuple(manifest.get("node_disks") or ()),
        stem=stem,
    )


def _sharing(home: str) -> str | None:
    """Return the Unix group that shares home, by the folder's own mode; its number where it has no name."""
    try:
        found = os.stat(home)
    except OSError:
        return None
    shared = found.st_mode & stat.S_ISGID and found.st_mode & stat.S_IWGRP
    return str(found.st_gid) if shared else None


def _stem(run: str, home: str) -> str:
    return os.path.join(home, "switches", file_name(run))


def _home(home: str | None) -> str:
    return os.path.abspath(os.path.expanduser(home or os.environ.get("WATCHDOGD_HOME") or "~/.watchdogd"))


def _switch_path(key: str, path: str) -> str:
    """Absolute. An empty one would be this folder, which is there: the run would stop at once."""
    if not path or path.endswith("/"):
        raise ValueError(f"{key} = {path!r} is no path of a file: leave it out, or name the file to look for")
    return os.path.abspath(path)


def _manifest(run: str, home: str) -> dict[str, Any]:
    """Return what RUN.json says, else config.toml; keys that later versions may add are left aside."""
    path = _stem(run, home) + ".json"
    try:
        text = _read_head(path)
    except (FileNotFoundError, NotADirectoryError):
        return _configured(home).get(run, {})
    try:
        manifest = json.loads(text)
        return {str(key): value for key, value in manifest.items() if _textual(value)}
    except (ValueError, AttributeError, RecursionError):
        raise ValueError(f"{path} is not a JSON object: the daemon writes it anew when it starts") from None


def _configured(home: str) -> dict[str, dict[str, Any]]:
    """Return the runs of config.toml, each with what its Guard needs. ValueError where it is broken."""
    path = os.path.join(home, "config.toml")
    try:
        text = _read_head(path, CONFIG_BYTES)
        runs = _tables(text).get("runs", {})
        return {name: _absolute(table, home) for name, table in runs.items() if isinstance(table, dict)}
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (ValueError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None


def _absolute(table: dict[str, Any], home: str) -> dict[str, Any]:
    """Return a run's table of config.toml as RUN.json would have it."""
    manifest = {key: value for key, value in table.items() if key == "node_disks" and _textual(value)}
    for key in ("kill_switch", "save_switch"):
        if isinstance(table.get(key), str):
            path = os.path.expanduser(os.path.expandvars(table[key]))
            manifest[key] = os.path.normpath(os.path.join(home, path))
    free = table.get("memory_free")
    if isinstance(free, (str, int, float)) and not isinstance(free, bool):
        manifest["memory_free"] = str(free)
    return manifest


def _tables(text: str) -> dict[str, Any]:
    """TOML; before Python 3.11, which brings a reader of it, as much as `[runs.NAME]` and its texts."""
    try:
        tomllib = importlib.import_module("tomllib")
    except ImportError:
        return {"runs": _run_tables(text)}
    tables: dict[str, Any] = tomllib.loads(text)
    return tables


def _run_tables(text: str) -> dict[str, dict[str, Any]]:
    tables: dict[str, dict[str, Any]] = {}
    table: dict[str, Any] = {}
    for line in text.split("\n"):
        if line.lstrip().startswith("["):
            found = re.match(r"""\s*\[\s*runs\s*\.\s*("[^"\\]+"|'[^']+'|[\w-]+)\s*\]""", line)
            table = tables.setdefault(found.group(1).strip("\"'"), {}) if found else {}
            continue
        found = re.match(r"""\s*(\w+)\s*=\s*(?:"([^"\\]*)"|'([^']*)'|\[([^]]*)\])""", line)
        if found and found.group(4) is not None:
            table[found.group(1)] = re.findall(r"""["']([^"'\\]*)["']""", found.group(4))
        elif found:
            table[found.group(1)] = found.group(2) or found.group(3) or ""
    return tables


def known_runs(home: str) -> list[str]:
    """Return the names of runs that have a RUN.json, and of those in config.toml.

    None where config.toml is broken: no name can be called wrong then.
    """
    try:
        names = os.listdir(os.path.join(home, "switches"))
        laid_out = [
            urllib.parse.unquote(name[:-5]) for name in names if name.endswith(".json") and name[0] != "."
        ]
        return sorted({*laid_out, *_configured(home)})
    except (OSError, ValueError):
        return []


def _textual(value: object) -> bool:
    return isinstance(value, str) or (
        isinstance(value, list) and all(isinstance(each, str) for each in value)
    )


# Amounts


class MemoryAmount(NamedTuple):
    """An amount of memory: bytes, or a share of the whole."""

    size: float
    share: float
    text: str

    def of(self, total: float) -> float:
        """Return it in bytes, where `total` bytes are the whole."""
        return self.size + self.share * total


SIZES = {unit + suffix: base**power for power, unit in enumerate("KMGTP", 1)
         for suffix, base in (("", 1000), ("B", 1000), ("IB", 1024))}  # fmt: skip
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def _amount(given: str | float | None) -> MemoryAmount | None:
    if given is None:
        return None
    text = str(given).strip()
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(%|[KMGTP]i?B?|B)?", text, re.IGNORECASE)
    if not found:
        raise ValueError(f"{text!r} is no amount of memory: write 5%, 20GiB or a number of bytes")
    number, unit = float(found.group(1)), (found.group(2) or "B").upper()
    if 0 < number < 1 and not found.group(2):
        raise ValueError(f"{text!r} is less than a byte: for that share of the memory write {number:.4%}")
    if unit == "%":
        if number > 100:
            raise ValueError(f"{text!r} is more than all of the memory: the run would stop at once")
        return MemoryAmount(0.0, number / 100, text)
    return MemoryAmount(number * SIZES.get(unit, 1), 0.0, _gib(number * SIZES.get(unit, 1)))


def _seconds(given: str | float | None, key: str = "time_left") -> float | None:
    """Seconds from a number or a duration such as 90s, 15m, 1h30m; None for no limit and for "auto"."""
    if given is None or (given == "auto" and key == "time_left"):
        return None
    text = str(given).strip()
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    if not re.fullmatch(r"(\d+[smhd])+", text):
        auto = ", or auto" if key == "time_left" else ""
        raise ValueError(f"{key} = {text!r}: write seconds, a duration such as 10m or 1h30m{auto}")
    return float(sum(int(number) * SECONDS[unit] for number, unit in re.findall(r"(\d+)([smhd])", text)))


def _gib(size: float) -> str:
    return f"{size / 2**30:.1f} GiB"


def _iso(when: float) -> str:
    local = time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(when))
    return f"{local[:-2]}:{local[-2:]}"


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:  # a container that does not know its user
        return str(uid)


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


# Files


def _read_head(path: str, size: int = 65536, flags: int = 0) -> str:
    """Return the start of a regular file; a pipe or device there reads as empty, and does not block."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | flags)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return ""
        return os.read(handle, size).decode("utf-8", "replace")
    finally:
        os.close(handle)


def _lines(path: str, size: int = 65536) -> list[str]:
    """Return the lines of a file of the kernel's; a name in it may hold what str.splitlines cuts at."""
    return [line for line in _read_head(path, size).split("\n") if line]


def _signature(path: str) -> tuple[int, int, int] | None:
    """Return what changes when a file is made, touched or written; None where there is none."""
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


@contextlib.contextmanager
def _replacing(path: str, mode: int) -> Iterator[TextIO]:
    """Open a file that takes its place whole or not at all, in this mode, never through a link.

    Until then it is a hidden file beside it; one that a killed process left is of no harm.
    """
    folder, name = os.path.split(path)
    draft = os.path.join(folder, f".{name}.{HOST}.{os.getpid()}.new")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(draft)
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            os.fchmod(handle, mode)
            yield file
        os.replace(draft, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(draft)
        raise


def _overwrite(path: str, text: str) -> bool:
    """Write a short text over a file that is there, where a full file system takes no new one.

    Return whether it was written. A reader may see both halves for an instant.
    """
    try:
        handle = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        data = text.encode()
        data = data.ljust(os.fstat(handle).st_size)
        return os.pwrite(handle, data, 0) == len(data)
    except OSError:
        return False
    finally:
        os.close(handle)


def _describe(switch: str, path: str) -> str:
    """Return a switch's reason: who pressed it is the file's owner, whatever its first line says.

    The line is JSON, other text, or nothing.
    """
    try:
        owner, content = _user(os.lstat(path).st_uid), _read_head(path, SWITCH_BYTES, os.O_NOFOLLOW)
    except OSError:  # one that cannot be read is set too; of a link, where it leads is not shown to anybody
        owner, content = "", ""
    line = content.strip().split("\n", 1)[0]
    try:
        fields = json.loads(line)
        claimed, reason = fields.get("by"), fields.get("reason")
    except (ValueError, AttributeError, RecursionError):
        claimed, reason = None, line
    text = f"{switch} set"
    if isinstance(claimed, str) and claimed:
        text += f" by {owner}" if owner == claimed else f" by {owner or 'somebody'} (the file says {claimed})"
    if isinstance(reason, str) and reason:
        text += f": {reason}"
    return "".join(letter if letter.isprintable() else " " for letter in text)[:300]


# Memory


class Pool(NamedTuple):
    """Memory whose exhaustion ends a process: a control group with a limit, or the node; in bytes."""

    name: str
    left: float
    total: float


def pools(proc: str = "/proc", pid: int | None = None) -> list[Pool]:
    """Return the control groups above a process that limit its memory (Slurm's job and step), else the node.

    pid: None for this process. Page cache counts as left, since the kernel gives it back before it kills.
    Raises OSError where the process has ended. Formats: cgroups(7), proc(5) and the kernel's
    cgroup-v1/memory.rst and cgroup-v2.rst.
    """
    meminfo = _numbers(os.path.join(proc, "meminfo"))
    node = Pool("node", meminfo["MemAvailable:"] * 1024, meminfo["MemTotal:"] * 1024)
    folders = _own_folders(proc) if pid is None else _group_folders(proc, str(pid))
    groups = [_group(folder, version) for folder, version in folders]
    return [group for group in groups if group and group.total < node.total] or [node]


@functools.lru_cache(maxsize=8)
def _own_folders(proc: str) -> list[tuple[str, int]]:
    return _group_folders(proc, "self")


def _group_folders(proc: str, pid: str) -> list[tuple[str, int]]:
    """Return a process's memory control groups, from its own up to the top, with each one's version."""
    folders: list[tuple[str, int]] = []
    for line in _lines(os.path.join(proc, pid, "cgroup")):
        number, controllers, path = line.split(":", 2)
        version = 2 if number == "0" else 1
        if version == 2 or "memory" in controllers.split(","):
            mount = _group_mount(os.path.join(proc, "self"), version)
            found = _upward(path, *mount) if mount else []
            folders += [(folder, version) for folder in found or _top(os.path.join(proc, pid), version)]
    return folders


def _top(process: str, version: int) -> list[str]:
    """Return the highest group that a process sees itself: in a container others see none of its groups."""
    try:
        mount = _group_mount(process, version)
    except OSError:  # another user's
        return []
    return [os.path.join(process, "root", mount[1].lstrip("/"))] if mount else []


def _group_mount(process: str, version: int) -> tuple[str, str] | None:
    """Return the root and mount point of the hierarchy that holds memory, as this process sees it."""
    for line in _lines(os.path.join(process, "mountinfo"), 2**20):
        left, _, right = line.partition(" - ")
        root, point = left.split(" ")[3:5]
        kind, _, options = right.split(" ", 2)
        holds = kind == "cgroup2" if version == 2 else kind == "cgroup" and "memory" in options.split(",")
        if holds:
            return root, re.sub(r"\\(\d{3})", lambda octal: chr(int(octal.group(1), 8)), point)
    return None


def _upward(path: str, root: str, point: str) -> list[str]:
    """Yield folders from control group `path` up to the mount point, which shows the tree below `root`.

    None where it lies elsewhere.
    """
    root = root.rstrip("/")
    if ".." in path.split("/") or not f"{path}/".startswith(f"{root}/"):
        return []
    parts = [part for part in path[len(root) :].split("/") if part]
    return [os.path.join(point, *parts[:depth]) for depth in range(len(parts), -1, -1)]


GROUP_FILES = {
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
    2: ("memory.max", "memory.current", ""),
}


def _group(folder: str, version: int) -> Pool | None:
    limit, usage, prefix = GROUP_FILES[version]
    try:
        total = float(_read_head(os.path.join(folder, limit)))
        used = float(_read_head(os.path.join(folder, usage)))
        counts = _numbers(os.path.join(folder, "memory.stat"))
    except (OSError, ValueError):  # no limit ("max"), or no such control group in this container
        return None
    cache = sum(counts.get(prefix + key, 0) for key in ("inactive_file", "active_file"))
    cache += counts.get("slab_reclaimable", 0)
    return Pool("cgroup " + os.path.basename(folder), max(0.0, total - used + cache), total)


def _numbers(path: str) -> dict[str, int]:
    """Return the lines of `name number` of a file in /proc or a control group."""
    fields = (line.split() for line in _lines(path))
    return {field[0]: int(field[1]) for field in fields if len(field) > 1 and field[1].isdigit()}


def _short_of_memory(free: MemoryAmount) -> str:
    for pool in pools():
        if pool.left < free.of(pool.total):
            return f"memory: {_gib(pool.left)} of {_gib(pool.total)} left ({pool.name}), below {free.text}"
    return ""


def _short_of_gpu_memory(free: MemoryAmount) -> str:
    """Count what torch caches as left.

    Only where even that is short is the cache given back, and looked again.

    What torch caches counts as left; only where even that is short the cache is emptied and asked again.
    """
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return ""
    left, total = torch.cuda.mem_get_info()
    if left + torch.cuda.memory_reserved() - torch.cuda.memory_allocated() >= free.of(total):
        return ""
    gc.collect()
    torch.cuda.empty_cache()
    left, total = torch.cuda.mem_get_info()
    if left >= free.of(total):
        return ""
    gpu = torch.cuda.current_device()
    return f"memory: {_gib(left)} of {_gib(total)} left (GPU {gpu}), below {free.text}"


# Time


def _rank() -> int | None:
    for name in RANKS:
        if os.environ.get(name, "").isdecimal():
            return int(os.environ[name])
    return None


def _answer(argv: list[str]) -> str:
    """Return what a batch system's command prints, or nothing where it fails or takes too long.

    Inherited variables of Slurm can change what squeue prints and of which jobs: they are kept from it.
    """
    ours = ("SLURM_", "SBATCH_", "SRUN_", "SQUEUE_", "SACCT_")
    env = {key: value for key, value in os.environ.items() if not key.startswith(ours) or key == "SLURM_CONF"}
    env.update(TZ="UTC0", LC_ALL="C")
    try:
        process = subprocess.Popen(
            argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
    except OSError:
        return ""
    try:
        output = process.communicate(timeout=SLURM_DEADLINE)[0].decode("ascii", "replace")
    except subprocess.TimeoutExpired:
        process.kill()
        # A squeue that hangs in the kernel survives even this; it is not waited for.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=1)
        return ""
    return output if process.returncode == 0 else ""


def _slurm_end(job: str) -> float | None:
    """Return when a Slurm job will be ended, in seconds since the epoch; infinity without a limit.

    None where Slurm does not say.
    """
    said = _answer(["squeue", "--noheader", "--jobs", job, "--format", "%e"]).split()
    return _parse_end(said[0]) if said else None


def _pbs_end(job: str) -> float | None:
    """Return the same of a job of PBS, by `qstat -f`: its start and the walltime that it asked for."""
    said = dict(re.findall(r"^ +([\w.]+) = (.*\S)", _answer(["qstat", "-f", job]), re.MULTILINE))
    if not said:
        return None
    limit = _walltime(said.get("Resource_List.walltime", ""))
    if limit is None:
        return float("inf")
    began = _pbs_time(said.get("stime") or said.get("start_time") or "")
    used = _walltime(said.get("resources_used.walltime", ""))
    if began is None and used is not None:
        began = time.time() - used
    return None if began is None else began + limit


def _walltime(text: str) -> float | None:
    """Return the seconds of `24:00:00`, `90:00` or `3600`."""
    if not re.fullmatch(r"\d+(:\d+){0,2}", text):
        return None
    seconds = 0
    for part in text.split(":"):
        seconds = 60 * seconds + int(part)
    return float(seconds)


def _pbs_time(text: str) -> float | None:
    """Return the time of `Tue Nov 24 10:00:00 2026`, as qstat prints it, here in UTC."""
    months = "JanFebMarAprMayJunJulAugSepOctNovDec"
    found = re.match(r"\w{3} (\w{3}) +(\d+) (\d+):(\d+):(\d+) (\d{4})", text)
    if not found or months.find(found[1]) % 3:
        return None
    day, hour, minute, second, year = map(int, found.groups()[1:])
    return float(calendar.timegm((year, months.find(found[1]) // 3 + 1, day, hour, minute, second)))


def _parse_end(text: str) -> float | None:
    if text in ("N/A", "NONE"):
        return float("inf")
    try:
        return float(calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%S")))
    except ValueError:
        return None


class JobEnd:
    """The end of this process's job of Slurm or PBS, read again from time to time: limits get extended.

    One controller serves all. Rank 0 reads every ten minutes, and when it would be time to stop; the others
    only then, up to two minutes later (a quarter of the margin at most), so as not to ask in one second.
    """

    def __init__(self, rank: int) -> None:
        slurm = os.environ.get("SLURM_JOB_ID")
        self._job = slurm or os.environ.get("PBS_JOBID")
        self._read_end = _slurm_end if slurm else _pbs_end
        end = os.environ.get("SLURM_JOB_END_TIME", "")
        self.end = float(end) if end.isdigit() else None
        self._rank = rank
        self._born = time.time()
        self._asked = float("-inf")
        self._spread = rank * 7 % 120 / 120

    def left(self, now: float) -> float:
        """Seconds to the end, infinity where it is not known; `now` in seconds since the epoch."""
        return float("inf") if self.end is None else self.end - now

    def due(self, now: float, margin: float) -> bool:
        """Return whether to ask Slurm again, where the loop is to stop `margin` seconds before the end."""
        if self._job is None:
            return False
        if self._turn(now, margin) <= now:
            return not self._confirmed(now, margin) or now - self._asked >= SLURM_EVERY_NEAR_END
        return (self._rank == 0 or self.end is None) and now - self._asked >= SLURM_EVERY

    def read(self) -> None:
        """Asks Slurm; what was known before stays where it does not answer."""
        end = self._read_end(str(self._job))
        self._asked = time.time()
        self.end = self.end if end is None else end

    def known(self) -> str:
        """Return what is not as usual of it, in a line, or empty: there is a limit, and Slurm tells it."""
        if self._job is None and self.end is None:
            return "no job of Slurm or PBS is known here: no time_left; exit_after stops it"
        if self.end is None:
            return "neither SLURM_JOB_END_TIME nor squeue or qstat tells when the job ends: no time_left"
        if self.end == float("inf"):
            return f"job {self._job} has no time limit: no time_left; exit_after stops it"
        if self._read_end is _pbs_end and self._job:
            when = time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(self.end))
            return f"job {self._job} ends at {when}, as qstat tells: time_left counts from there"
        return ""

    def near(self, now: float, margin: float) -> bool:
        """Return whether to stop: by a reading made when it was time to; by none where Slurm is silent."""
        if self._turn(now, margin) > now:
            return False
        unheard = now - self._born > SLURM_DEADLINE + CHORES_EVERY and self.left(now) < margin / 2
        return self._job is None or self._confirmed(now, margin) or unheard

    def _turn(self, now: float, margin: float) -> float:
        """Return when this rank is to stop, as far as is known."""
        return now + self.left(now) - margin + self._spread * min(120.0, margin / 4)

    def _confirmed(self, now: float, margin: float) -> bool:
        return self._asked >= self._turn(now, margin)


# Threads


class Aside:
    """Does work in a thread of its own, so that the caller waits no longer than it wants to."""

    def __init__(self) -> None:
        self._work: Callable[[], None] = lambda: None
        self._busy = False
        self._asked = threading.Event()
        self._done = threading.Event()
        self._closed = False
        self._thread: threading.Thread | None = None
        self.took = 0.0  # seconds, the work that was done last

    def ask(self, work: Callable[[], None], patience: float) -> bool:
        """Have `work` done; return False if it takes more than `patience` seconds, or earlier work hangs."""
        if self._busy and not self._done.is_set():
            return False
        self._work, self._busy = work, True
        self._done.clear()
        if not self._running():
            work()
            self._done.set()
            return True
        self._asked.set()
        return self._done.wait(patience)

    def _running(self) -> bool:
        if self._thread is None and not self._closed:
            self._thread = threading.Thread(target=self._run, name="watchdogd-look", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:  # no more threads for this user, or the interpreter is going down
                self._thread = None
        return self._thread is not None

    def _run(self) -> None:
        while True:
            self._asked.wait()
            self._asked.clear()
            if self._closed:
                return
            start = time.monotonic()
            self._work()
            self.took = time.monotonic() - start
            self._done.set()

    def close(self) -> None:
        """End the thread, unless it hangs."""
        self._closed = True
        self._asked.set()
        if self._thread:
            self._thread.join(1.0)
            self._thread = None


class _Look(NamedTuple):
    """Place of the loop: its frames, innermost first, after which step, and when that was polled."""

    polled: float
    step: int
    place: tuple[tuple[str, str, int], ...]


class Chores:
    """Does work every few seconds, or at once when woken, in a thread that a hung loop does not stop."""

    def __init__(self, work: Callable[[], None], glance: Callable[[], float]) -> None:
        """`glance` is done in between; it returns the seconds until it is to be done again."""
        self._work, self._glance = work, glance
        self._woken = threading.Event()
        self._closed = self._inline = False
        self._thread = threading.Thread(target=self._run, name="watchdogd-chores", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # no more threads for this user: the loop does the chores
            self._inline = True

    def _run(self) -> None:
        closing = False
        while not closing:
            closing = self._closed
            self._work()
            due = time.monotonic() + (0.0 if closing else CHORES_EVERY)
            while not self._woken.is_set() and time.monotonic() < due:
                self._woken.wait(min(self._glance(), max(due - time.monotonic(), 0.0)))
            self._woken.clear()

    def wake(self) -> None:
        """Has the work done now."""
        self._woken.set()
        if self._inline:
            self._work()

    def close(self) -> None:
        """Has the work done a last time, and ends the thread, unless it hangs."""
        self._closed = True
        self._woken.set()
        if self._thread.is_alive():
            self._thread.join(1.0)


# The Guard


class Guard:
    """Tells a training loop when to save and when to stop, and the watchdog that the loop goes on.

    run: the run's name. home: watchdogd's home; else $WATCHDOGD_HOME, else ~/.watchdogd. kill_switch,
    save_switch: paths that count in place of those of config.toml; HOME/switches/RUN.kill and RUN.save
    count beside them, since those are always pressed.

    memory_free: stop when less memory is left: "5%" of the limit, "20GiB", or bytes; else as the daemon says.
    gpu_memory_free: the same for torch's current GPU. time_left: stop so long before the end of the job
    of Slurm or PBS: seconds, "10m", or "auto": twice the longest of the last 1000 steps, and a save.
    exit_after: stop so long after this Guard began, for sites that tell no end: "19h50m". signals: SIGUSR1
    and SIGTERM ask for a stop (call this and poll in the main thread); other handlers of them, set before
    or after, are called first. every: seconds between two looks at the switches. heartbeat: rank 0 writes
    step and loss to the inbox, for the watchdog to see progress.

    Raises ValueError for an empty run name, a switch that is no path of a file, and amounts that it cannot
    read.
    """

    def __init__(
        self,
        run: str,
        *,
        home: str | os.PathLike[str] | None = None,
        kill_switch: str | os.PathLike[str] | None = None,
        save_switch: str | os.PathLike[str] | None = None,
        memory_free: str | float | None = None,
        gpu_memory_free: str | float | None = None,
        time_left: str | float | None = None,
        exit_after: str | float | None = None,
        signals: bool = True,
        every: float = 1.0,
        heartbeat: bool = True,
    ) -> None:
        if not (run and isinstance(run, str)):
            raise ValueError("a Guard needs the name of its run, as in [runs.NAME] of config.toml")
        self.run = run
        self._home = None if home is None else os.fspath(home)
        given = (("kill_switch", kill_switch), ("save_switch", save_switch))
        self._overrides: dict[str, Any] = {
            key: _switch_path(key, os.fspath(value)) for key, value in given if value is not None
        }
        self._memory_free = _amount(memory_free)
        self._gpu_memory_free = _amount(gpu_memory_free)
        self._time_left, self._auto = _seconds(time_left), time_left == "auto"
        self._exit_after = _seconds(exit_after, "exit_after")
        self._exit_at = None if self._exit_after is None else time.monotonic() + self._exit_after
        self._every = every
        self._rank = _rank()
        self._heartbeat = heartbeat
        self._homeless = not (home or os.environ.get("WATCHDOGD_HOME"))
        self._said: set[str] = set()
        self._signals: tuple[int, ...] = ()
        self._start_state()
        if not self._at_home.ask(self._begin, START_PATIENCE):
            self._say("hung", f"{_home(self._home)} does not answer: the default switches count")
        self._chores = Chores(self._do_chores, self._glance)
        if signals:
            self._signals = (signal.SIGUSR1, signal.SIGTERM, *((signal.SIGCONT,) if self._auto else ()))
            self._hear_signals("they are from the first poll in the main thread on")
            self._watch_quit()
        atexit.register(self.close)

    def _start_state(self) -> None:
        self._places = default_places(self.run, self._home)._replace(**self._overrides)
        self._places_seen: Any = None
        self._stacks_seen: Any = None
        self._hears = self._watches_quit = False
        self._due = 0.0  # when to look again, as time.monotonic()
        self._last = float("inf")  # when poll was called last; no step is timed before the first
        self._steps: collections.deque[float] = collections.deque([0.0], maxlen=1000)
        self._loop = 0  # the thread that polls
        self._looks: collections.deque[_Look] = collections.deque(maxlen=600)
        self._save_seconds: float | None = None
        self._step: Any = None
        self._loss: Any = None
        self._loss_is_new = False
        self._losses = 0  # how many were new at a beat: one that is told again is no news
        self._answered: Wish | None = None
        self._asked = ""  # why the loop was asked to save, as the last poll said it
        self._beat: dict[str, Any] | None = None
        self._beat_written: dict[str, Any] | None = None
        self._beat_due = 0.0
        self._gpu_due = 0.0
        self._short_of_gpu = ""
        self._signal = self._short = ""
        self._set: dict[str, str] = {}  # the switches that were set at the last look: path, reason
        self._unseen: set[str] = set()  # those that could not be looked at
        self._seen: dict[str, Any] = {}  # the signatures of those that are set
        self._ignored: dict[str, Any] = {}  # of save switches that cannot be removed
        self._finished = False
        self._kind, self._wish = 0, NOTHING
        self.set_rank(self._rank)
        self._margin = self._wanted_time()
        self._pid = os.getpid()
        self._at_home, self._elsewhere = Aside(), Aside()

    # What the loop calls

    def set_rank(self, rank: int | None) -> None:
        """Tell this process's rank, before the first poll, where its launcher sets no RANK or the like."""
        self._rank = rank
        self._beats = self._heartbeat and rank in (None, 0)
        self._job_end = JobEnd(rank or 0) if self._auto or self._time_left else None

    def poll(self, step: Any = None, loss: Any = None, agree: Agree | None = None) -> Wish:
        """Return what the loop should do now. Call it once a step, when the step is done.

        step: the step just done; loss: its loss, a number or a tensor of one (read every five seconds only,
        since reading one waits for the GPU). agree: makes all ranks decide alike; then call poll with it on
        every rank at the same steps, and what it raises is raised.

        A wish for a save stays until `saved()`, one for a stop as long as its reason does.
        """
        now = time.monotonic()
        self._steps.append(now - self._last)
        self._last = now
        if step is not None:
            self._step = step
        if loss is not None:
            # A tensor would keep its step's graph alive.
            self._loss = loss.detach() if hasattr(loss, "detach") else loss
            self._loss_is_new = True
        if now >= self._due:
            self._refresh(now)
        wish = self._wish if agree is None else self._agreed(agree)
        if wish is not self._answered:
            self._answer(wish, now)
        return wish

    def saved(self) -> None:
        """Remove the save switch and time the save. Call it on every rank when a checkpoint is written."""
        now = time.monotonic()
        if self._last < now:
            self._save_seconds = max(self._save_seconds or 0.0, now - self._last)
            self._last = now
        for path in self._places.switches("save"):
            try:
                os.unlink(path)
            except (FileNotFoundError, NotADirectoryError):
                pass  # another rank removed it, or it was no switch that asked
            except OSError as error:
                if path in self._set:
                    self._ignored[path] = self._seen.get(path)
                    self._say("saved", f"{error}: it stays, and counts no more until it is touched again")
            self._set.pop(path, None)
        self._judge(now)

    def exit_if_stopped(self, agree: Agree | None = None) -> None:
        """Leave the program, exit code 0, with a line that says why, if it is to stop.

        For the top of a job: a queue of jobs behind a stopped run burns through in seconds. agree: as for
        `poll`.
        """
        self._adopt()
        if not self._ask(self._look_at_start, START_PATIENCE):
            self._say("hung", "the file system of the switches does not answer: starting without them")
        why = f"{self.run} is marked finished" if self._finished else self._reason("kill")
        stopped = bool(why) if agree is None else bool(agree(int(bool(why))))
        if stopped:
            print(f"watchdogd: {self.run} does not start: {why or 'another rank was told so'}", flush=True)
            raise SystemExit(0)

    def finished(self) -> None:
        """Mark the run finished: the watchdog expects no more of it, and jobs still queued burn through.

        Any rank may call it, or all. Signals do again what they did without the Guard.
        """
        self._give_signals_back()
        path = self._places.finished
        state = self._state("finished")
        state.update(by=_user(os.getuid()), at=_iso(state["time"]))
        with self._telling("finished", f"mark the run yourself with: watchdogd finish {self.run}"):
            if _signature(path) is None:
                self._write(path, state)
                self._write(self._inbox("finished", "json"), state)

    def close(self) -> None:
        """End the Guard's threads and give the signals back; done by itself when the program ends."""
        atexit.unregister(self.close)
        self._at_home.close()
        self._elsewhere.close()
        self._give_last_beat()
        self._chores.close()
        self._due = float("inf")
        self._give_signals_back()
        self._signals = ()
        self._stop_watching_quit()

    def _give_last_beat(self) -> None:
        """Write where the loop ended, without reading a tensor: a GPU that hangs would keep the program."""
        if self._beat and os.getpid() == self._pid:
            known = (
                ("step", self._step),
                ("loss", self._loss),
                ("losses", self._count_losses()),
                ("time", time.time()),
            )
            plain = {key: value for key, value in known if isinstance(value, (int, float))}
            self._beat = {**self._beat, **plain, "polls": None}

    # Deciding

    def _refresh(self, now: float) -> None:
        self._adopt()
        self._loop = threading.get_ident()
        self._hear_signals("call poll in the main thread")
        self._due = now + self._every
        if not self._ask(self._look, PATIENCE):
            self._say("hung", "the file system of the switches does not answer: training without them")
        self._margin = self._wanted_time()
        if self._gpu_memory_free and now >= self._gpu_due:
            self._look_at_gpu(now, self._gpu_memory_free)
        if now >= self._beat_due:
            self._give_beat(now)
        self._judge(now)

    def _ask(self, look: Callable[[], None], patience: float) -> bool:
        """Has `look` done for home, then what lies elsewhere looked at.

        False where one of them does not answer within `patience` seconds.
        """
        heard = self._ask_aside(self._at_home, look, patience)
        if all(map(self._is_at_home, self._switches())):
            return heard
        return self._ask_aside(self._elsewhere, self._look_elsewhere, patience) and heard

    def _ask_aside(self, aside: Aside, look: Callable[[], None], patience: float) -> bool:
        """Look on the other thread.

        Where that takes long, it is seen a look later: waiting each time would slow the training.
        """
        if patience <= PATIENCE and aside.took >= QUICK:
            aside.ask(look, 0.0)
            return True
        return aside.ask(look, patience)

    def _look_at_gpu(self, now: float, free: MemoryAmount) -> None:
        self._gpu_due = now + GPU_EVERY
        with self._telling("gpu", "gpu_memory_free is not watched"):
            self._short_of_gpu = _short_of_gpu_memory(free)

    def _answer(self, wish: Wish, now: float) -> None:
        """Note that the loop is given another answer: the save that follows may take long."""
        self._answered = wish
        if bool(wish.reason) != bool(self._asked):
            self._asked = wish.reason
            self._give_beat(now)

    def _count_losses(self) -> int:
        """Return how many losses were new at a beat, this one included."""
        self._losses += self._loss_is_new
        self._loss_is_new = False
        return self._losses

    def _give_beat(self, now: float) -> None:
        self._beat_due = now + BEAT_EVERY
        more = {"losses": self._count_losses(), "asked": self._asked, "polls": self._polls()}
        self._beat = {**self._state("beat"), **more} if self._beats else None
        self._chores.wake()

    def _adopt(self) -> None:
        """Start anew in a fork, which has this object, but not its threads."""
        if os.getpid() != self._pid:
            self._pid = os.getpid()
            self._at_home, self._elsewhere = Aside(), Aside()
            self._chores = Chores(self._do_chores, self._glance)

    def _judge(self, now: float) -> None:
        save = self._reason("save")
        stops = (
            (KILL, self._reason("kill")),
            (SIGNAL, self._signal),
            (MEMORY, self._short or self._short_of_gpu),
            (TIME, self._short_of_time()),
        )
        self._kind, reason = next((stop for stop in stops if stop[1]), (0, ""))
        self._wish = Wish(self._kind > 0, bool(save), reason or save)
        if save:
            self._due = now  # another rank may have saved and removed the switch: no second save from memory

    def _agreed(self, agree: Agree) -> Wish:
        own = 2 * self._kind + self._wish.save
        code = int(agree(own))
        if not 0 <= code < 2 * len(KINDS):
            raise ValueError(f"agree returned {code}: it has to return the largest of what the ranks give it")
        if code == own:
            return self._wish
        kind, save = divmod(code, 2)
        own_reason = self._wish.reason if kind == self._kind else ""
        return Wish(kind > 0, bool(save), own_reason or f"{KINDS[kind]} (seen by another rank)")

    def _short_of_time(self) -> str:
        now = time.time()
        if self._exit_at is not None and time.monotonic() >= self._exit_at:
            return f"time limit: exit_after {_span(self._exit_after or 0.0)} has passed"
        if self._job_end is None:
            return ""
        if not self._job_end.near(now, self._margin):
            if self._job_end.due(now, self._margin):
                self._chores.wake()
            return ""
        left = _span(max(0.0, self._job_end.left(now)))
        return f"time limit: {left} to the end of the job, less than the {_span(self._margin)} wanted"

    def _wanted_time(self) -> float:
        if not self._auto:
            return self._time_left or 0.0
        return 2 * max(self._steps) + (UNTIMED_SAVE if self._save_seconds is None else self._save_seconds)

    # Looking, in two threads

    def _begin(self) -> None:
        self._read_places()
        with self._telling("stacks", "no stacks on request"):
            self._stacks_seen = _signature(self._stacks_request())  # an old request is no request
        with self._telling("doubts", "the training goes on all the same"):
            self._say_doubts()

    def _say_doubts(self) -> None:
        """Report what will not do what was meant, before the first step."""
        switches = os.path.join(_home(self._home), "switches")
        known = [] if "kill_switch" in self._overrides else known_runs(_home(self._home))
        if known and self.run not in known:
            near = difflib.get_close_matches(self.run, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known[:9])}"
            self._say(
                "name", f"no run {self.run!r} is known in {switches}, {hint}; its default switches count"
            )
        for key in ("kill_switch", "save_switch"):
            folder = os.path.dirname(getattr(self._places, key))
            if folder != switches and not os.path.isdir(folder):
                self._say(key, f"there is no folder {folder}: until it is made, nobody can set the {key}")
        if self._job_end and not (os.environ.get("SLURM_JOB_ID") or os.environ.get("PBS_JOBID")):
            self._say_end()
        free = self._memory_free or _amount(self._places.memory_free)
        for pool in pools() if free else ():
            if free and free.of(pool.total) > pool.total:
                text = (
                    f"memory_free = {free.text} is more than all there is, {_gib(pool.total)} ({pool.name})"
                )
                self._say("amount", f"{text}: the run stops at once; write a share of it, such as 5%")

    def _look(self) -> None:
        self._read_places()
        self._look_at([path for path in self._switches() if self._is_at_home(path)])
        with self._telling("memory", "memory_free is not watched"):
            free = self._memory_free or _amount(self._places.memory_free)
            self._short = _short_of_memory(free) if free else ""

    def _look_elsewhere(self) -> None:
        self._look_at([path for path in self._switches() if not self._is_at_home(path)])

    def _look_at_start(self) -> None:
        self._look()
        with self._telling("finished", "the run is taken as not finished"):
            self._finished = _signature(self._places.finished) is not None

    def _look_at(self, paths: list[str]) -> None:
        for path in paths:
            try:
                self._look_at_switch(path)
                self._unseen.discard(path)
            except OSError as error:
                self._unseen.add(path)
                if not (self._homeless and self._is_at_home(path)):
                    self._say("look", f"{error}: the switches are not seen until that is mended")

    def _look_at_switch(self, path: str) -> None:
        seen = self._seen[path] = _signature(path)
        kill = path in self._places.switches("kill")
        if kill and seen and os.path.isdir(path):
            self._say("folder", f"{path} is a folder, no kill switch: correct kill_switch")
            seen = None
        if seen is None or seen == self._ignored.get(path):
            self._set.pop(path, None)
        else:
            self._set[path] = _describe("kill switch" if kill else "save switch", path)

    def _reason(self, kind: str) -> str:
        """Return why the kill or the save switch counts as set, or empty."""
        reasons = (self._set.get(path, "") for path in self._places.switches(kind))
        return next((reason for reason in reasons if reason), "")

    def _switches(self) -> tuple[str, ...]:
        return self._places.switches("kill") + self._places.switches("save")

    def _is_at_home(self, path: str) -> bool:
        return os.path.dirname(path) == os.path.dirname(self._places.stem)

    def _polls(self) -> list[str]:
        """Return the switches that are seen here, for whoever presses; those of home as its inbox sees them.

        Home may be mounted elsewhere there.

        Those of home as its inbox sees them, since home may be mounted elsewhere there.
        """
        seen = [path for path in self._switches() if path not in self._unseen]
        return [os.path.join("..", "switches", os.path.basename(path)) if self._is_at_home(path) else path
                for path in seen]  # fmt: skip

    def _read_places(self) -> None:
        home = _home(self._home)
        with self._telling("places", "what was known before counts, or else the defaults"):
            manifest, config = _stem(self.run, home) + ".json", os.path.join(home, "config.toml")
            seen = _signature(manifest)
            either = (manifest, seen) if seen else (config, _signature(config))
            if either == self._places_seen:
                return
            try:
                self._places = places(self.run, home)._replace(**self._overrides)
                self._places_seen = either
            except ValueError:  # it is read again when it changes
                self._places_seen = either
                raise

    # Chores, in another thread

    def _do_chores(self) -> None:
        with self._telling("beat", "no heartbeat"):
            self._write_beat()
        with self._telling("stacks", "no stacks on request"):
            self._write_stacks()
        with self._telling("time", "the end of the job is not read again"):
            self._read_job_end()

    def _write_beat(self) -> None:
        beat = self._beat
        if beat is None or beat is self._beat_written:
            return
        if self._homeless and not os.path.isdir(self._places.inbox):
            return  # nobody named a home: the Guard is used without a watchdog
        self._beat_written = beat
        path = self._inbox("beat", "json")
        try:
            self._write(path, beat)
        except OSError as error:  # in the file that is there it has room: a training must not seem to hang
            if error.errno not in (errno.ENOSPC, errno.EDQUOT) or not _overwrite(path, json.dumps(beat)):
                raise

    def _write_stacks(self) -> None:
        seen = _signature(self._stacks_request())
        if seen == self._stacks_seen:
            return
        self._stacks_seen = seen
        if seen is None:
            return
        with _replacing(self._inbox("stacks", "txt"), self._mode()) as file:
            step = self._step if isinstance(self._step, int) else None  # reading a tensor waits for its GPU
            file.write(json.dumps({**self._who(), "step": step, **self._looked()}) + "\n")
            file.flush()
            faulthandler.dump_traceback(file=file, all_threads=True)

    def _glance(self) -> float:
        """Note where the loop stands, and return the seconds until the next look: no rhythm of steps' own.

        Ranks in step take the same time for one: what differs is how much of it each waits for the others.
        """
        if self._rank is None or not self._loop:
            return CHORES_EVERY
        with self._telling("looks", "what a slow rank does is not known"):
            self._look_at_loop()
        return LOOK_EVERY * (0.5 + time.monotonic() * 997 % 1)

    def _look_at_loop(self) -> None:
        place: list[tuple[str, str, int]] = []
        frame = sys._current_frames().get(self._loop)
        while frame and len(place) < DEPTH:
            place.append((frame.f_code.co_name, frame.f_code.co_filename, frame.f_lineno))
            frame = frame.f_back
        if isinstance(self._step, int) and self._last < float("inf"):
            self._looks.append(_Look(self._last, self._step, tuple(place)))

    def _looked(self) -> dict[str, Any]:
        """Return where the loop stood in the last looks, and the time of a step meanwhile, if that is known.

        Steps that took far longer than most are left out: a pause of one rank does not slow each step down.

        `synchronous`: who waits for other ranks stands in that call, and does not queue up work for a GPU.
        """
        looks = list(self._looks)
        forward = [max(after.step - look.step, 0) for look, after in zip(looks, looks[1:])]
        first = max(len(looks) - 2 * LOOKS, 0)
        while first and sum(forward[first:]) < 2 * STEPS:
            first -= 1
        taken = looks[first:]
        at = collections.Counter(look.step for look in taken)
        usual = sorted(at.values())[len(at) // 2] if at else 0
        pauses = {step for step, times in at.items() if times > 2 * usual + 1}  # saving, say: not each step
        kept = [look for look in taken if look.step not in pauses]
        steps = sum(forward[first:]) - len(pauses)
        if steps < 1:
            return {}
        places = collections.Counter(look.place for look in kept).most_common(LOOKS)
        return {
            "steps": steps,
            "step_seconds": (taken[-1].polled - taken[0].polled) * len(kept) / len(taken) / steps,
            "looks": [[times, place] for place, times in places],
            "synchronous": _waits_in_calls(),
        }

    def _read_job_end(self) -> None:
        end = self._job_end
        if end and end.due(time.time(), self._margin):
            end.read()
            self._say_end()

    def _say_end(self) -> None:
        """Say once, on the first rank, what is known of the job's end where that is not the usual."""
        known = self._job_end.known() if self._job_end and self._rank in (None, 0) else ""
        if known:
            self._say("time", known)

    # Files in the inbox

    def _inbox(self, kind: str, ending: str) -> str:
        name = f"{file_name(self.run)}.{kind}.{file_name(HOST)}.{os.getpid()}.{ending}"
        return os.path.join(self._places.inbox, name)

    def _stacks_request(self) -> str:
        return os.path.join(self._places.inbox, file_name(self.run) + ".stacks-request")

    def _mode(self) -> int:
        """Return a file's rights: a group may read it; nobody but its author may write it."""
        return 0o640 if self._places.group else 0o600

    def _write(self, path: str, content: dict[str, Any]) -> None:
        with _replacing(path, self._mode()) as file:
            file.write(json.dumps(content) + "\n")

    def _state(self, kind: str) -> dict[str, Any]:
        """Return what a beat and a mark say; a loss may be NaN or Infinity."""
        step, loss = self._number(int, self._step), self._number(float, self._loss)
        return {"kind": kind, **self._who(), "step": step, "loss": loss}

    def _who(self) -> dict[str, Any]:
        """Return who writes, and when, in seconds since the epoch by this node's clock; wait for no GPU."""
        return {
            "run": self.run,
            "time": time.time(),
            "host": HOST,
            "pid": os.getpid(),
            "job": os.environ.get("SLURM_JOB_ID") or os.environ.get("PBS_JOBID"),
            "rank": self._rank,
        }

    def _number(self, kind: Callable[[Any], Any], given: Any) -> Any:
        try:
            return None if given is None else kind(given)
        except (TypeError, ValueError, RuntimeError, OverflowError) as error:  # RuntimeError is torch's
            self._say("number", f"poll needs one number as step or loss, no {type(given).__name__}: {error}")
            return None

    # Signals

    def _hear_signals(self, otherwise: str) -> None:
        """Put the Guard's handlers in place: at the start, and again where others have replaced them since.

        What a handler has set to its default in answer to a signal stays: a second one shall end the program.
        """
        self._hears = bool(self._signals)
        for number in self._signals:
            there = signal.getsignal(number)
            if _is_heard(there, self) or (self._signal and not callable(there)):
                continue
            try:
                signal.signal(number, _Handler(self, there))
                if number == signal.SIGCONT:
                    signal.siginterrupt(number, False)
            except ValueError:  # only the main thread may
                self._say("signals", f"SIGUSR1 and SIGTERM are not all watched: {otherwise}")

    def _watch_quit(self) -> None:
        try:
            if signal.getsignal(signal.SIGQUIT) is signal.SIG_DFL and not _caught(signal.SIGQUIT):
                self._watches_quit = True
                faulthandler.register(signal.SIGQUIT, file=sys.__stderr__ or 2, all_threads=True, chain=True)
        except (ValueError, OSError) as error:  # a stderr that is no file
            self._say("quit", f"SIGQUIT is not watched: {error}")

    def _hear(self, number: int, previous: Any) -> bool:
        """Take a signal up; return False where it is not for this Guard: in a fork, or when it is closed."""
        if os.getpid() != self._pid or not self._hears:
            return False
        if number == signal.SIGCONT:
            # A job that was suspended goes on: that time is no step, which time_left="auto" would wait for.
            self._last = float("inf")
        elif not _ends_the_job(previous):
            self._signal = f"signal {signal.Signals(number).name}"
            self._due = 0.0
        return True

    def _give_signals_back(self) -> None:
        """Give signals back; one that another handler or thread holds is passed on only."""
        self._hears = False
        for number in self._signals:
            there = signal.getsignal(number)
            if isinstance(there, _Handler) and there.guard is self and there.previous is not None:
                with contextlib.suppress(ValueError):  # only the main thread may
                    signal.signal(number, there.previous)

    def _stop_watching_quit(self) -> None:
        if self._watches_quit:
            faulthandler.unregister(signal.SIGQUIT)

    # Telling

    @contextlib.contextmanager
    def _telling(self, key: str, consequence: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001  whatever goes wrong in here, the training goes on
            self._say(key, f"{error}: {consequence}")

    def _say(self, key: str, text: str) -> None:
        """Print one line on stderr, once for each kind of fault."""
        if key not in self._said:
            self._said.add(key)
            with contextlib.suppress(OSError, ValueError):  # stderr may be closed or full
                print(f"watchdogd: {self.run}: {text}", file=sys.stderr, flush=True)


class _Handler:
    """A Guard's handler of one signal: first the handler before it, then the Guard.

    In this order, since that one may save a checkpoint and requeue the job, which a stop must not overtake.
    It compares equal to what it replaced: frameworks look there whether a signal is free (Lightning requeues
    only where `signal.getsignal(SIGUSR1) in (None, SIG_DFL)`), and for them a Guard changes nothing.
    """

    def __init__(self, guard: Guard, previous: Any) -> None:
        self.guard = guard
        self.previous = previous  # None: one that was not set by Python, which nobody can call or put back

    def __call__(self, number: int, frame: Any) -> None:
        heard = False
        try:
            if callable(self.previous):
                self.previous(number, frame)
        finally:
            heard = self.guard._hear(number, self.previous)
        if not heard and self.previous == signal.SIG_DFL and not callable(self.previous):
            # A forked worker (a data loader's, a pool's) must die of it as it always did.
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    def __eq__(self, other: object) -> bool:
        return self is other or bool(self.previous == other)

    __hash__ = object.__hash__


def _is_heard(handler: Any, guard: Guard) -> bool:
    """Return whether a signal's handler is the guard's, or passes it on to the guard's below others."""
    while type(handler).__name__ == _Handler.__name__:  # by name: this file may be there in two copies
        if handler.guard is guard:
            return True
        handler = handler.previous
    return False


def _ends_the_job(handler: Any) -> bool:
    """Return whether a handler sees to the end of its job itself.

    submitit's requeues on the first rank and exits; the other ranks, and the signals that it bypasses, must
    not end the program before.

    It requeues on the first rank and exits; the other ranks, and signals that it bypasses, must not end the
    program before.
    """
    while type(handler).__name__ == _Handler.__name__:
        handler = handler.previous
    return str(getattr(handler, "__module__", "")).partition(".")[0] == "submitit"


def _caught(number: int) -> bool:
    """Return whether a handler unknown to Python, such as faulthandler's, takes this signal (proc(5))."""
    mask = re.search(r"^SigCgt:\s*(\w+)", _read_head("/proc/self/status"), re.MULTILINE)
    return mask is not None and bool(int(mask.group(1), 16) >> (number - 1) & 1)


# Agreement of all ranks


def torch_agree(group: Any = None) -> Agree:
    """Reduces by maximum over all ranks of torch.distributed, or of one of its process groups.

    Before that is initialised, a process decides alone. On the device that the group's backend works on:
    the processor for gloo and MPI, else this process's accelerator, whose all-reduce waits for the step to
    end.
    """

    def agree(code: int) -> int:
        torch = importlib.import_module("torch")
        dist = importlib.import_module("torch.distributed")
        if not (dist.is_available() and dist.is_initialized()):
            return code
        backend = str(dist.get_backend(group))
        value = torch.tensor([code], device="cpu" if _on_processor(backend) else _accelerator())
        dist.all_reduce(value, op=dist.ReduceOp.MAX, group=group)
        return int(value.item())

    return agree


def _on_processor(backend: str) -> bool:
    return any(name in backend for name in ("gloo", "mpi"))


def _waits_in_calls() -> bool:
    """Return whether torch's ranks meet on processors, and no accelerator is in use."""
    torch, dist = sys.modules.get("torch"), sys.modules.get("torch.distributed")
    if torch is None or dist is None or not (dist.is_available() and dist.is_initialized()):
        return False
    devices = (getattr(torch, name, None) for name in ("cuda", "xpu", "npu", "hpu"))
    in_use = any(getattr(device, "is_initialized", bool)() for device in devices)
    return _on_processor(str(dist.get_backend())) and not in_use


def _accelerator() -> Any:
    torch = importlib.import_module("torch")
    if hasattr(torch, "accelerator"):  # torch 2.6 and later know others than CUDA and ROCm too
        return torch.accelerator.current_accelerator()
    return "cuda"


def mpi_agree(comm: Any) -> Agree:
    """Reduces by maximum over an mpi4py communicator, such as MPI.COMM_WORLD."""
    mpi = importlib.import_module("mpi4py.MPI")
    return lambda code: int(comm.allreduce(code, op=mpi.MAX))
