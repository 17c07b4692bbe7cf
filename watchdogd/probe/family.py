"""Whether a job script waits for the probe alone: then the probe ends, so that a bare `wait` ends too.

What counts is what runs below the batch shell. Not counted are the probe and what it started, other probes,
and loggers: a child that reads what the shell writes (`exec > >(tee log)`) lives for as long as the shell.
"""

from __future__ import annotations

import itertools
import os

import psutil

_SHELLS = frozenset({"ash", "bash", "dash", "ksh", "sh", "slurm_script", "zsh"})
_ENDED = frozenset({psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD})
_WAITS = frozenset({"do_wait", "kernel_wait4", "do_wait4"})
"""Where the kernel says a process stands that waits for its children (proc(5), wchan)."""


def shell_above(process: psutil.Process) -> psutil.Process | None:
    """The batch shell: what slurmstepd started; where Slurm is not above, the parent. None: it has gone."""
    try:
        parents = process.parents()
    except psutil.Error:
        return None
    for below, above in itertools.pairwise(parents):
        if above.name().startswith("slurmstepd"):
            return below
    return parents[0] if parents and parents[0].pid > 1 else None


def waited_for(shell: psutil.Process, probe: psutil.Process) -> bool:
    """True where `shell` stands in a wait and nothing that counts runs below it. False where it has gone."""
    try:
        written = _pipes(shell, 1, 2) | _pipes(probe, 1, 2)
        return _waits(shell) and not _busy(shell, probe, written)
    except psutil.Error:
        return False  # something came or went meanwhile: the next look tells


def _busy(shell: psutil.Process, probe: psutil.Process, written: frozenset[str]) -> bool:
    """Whether anything that counts runs below; a shell that itself waits counts by its children alone."""
    for child in shell.children():
        if child == probe or child.status() in _ENDED or _is_probe(child):
            continue
        if _pipes(child, 0) & written:
            continue
        if not (_waits(child) and child.children()) or _busy(child, probe, written):
            return True
    return False


def _is_probe(process: psutil.Process) -> bool:
    words = process.cmdline()
    return "probe" in words and any("watchdogd" in word for word in words[: words.index("probe")])


def _waits(process: psutil.Process) -> bool:
    """Where the kernel does not tell what for, any sleeping shell is taken to wait for its children."""
    try:
        with open(f"/proc/{process.pid}/wchan", encoding="ascii", errors="replace") as file:
            where = file.read().strip()
    except OSError:
        where = ""
    if where not in ("", "0"):
        return where in _WAITS
    return process.status() == psutil.STATUS_SLEEPING and process.name() in _SHELLS


def _pipes(process: psutil.Process, *descriptors: int) -> frozenset[str]:
    """Those of these descriptors that are pipes, by the kernel's name for them."""
    found = set()
    for descriptor in descriptors:
        try:
            found.add(os.readlink(f"/proc/{process.pid}/fd/{descriptor}"))
        except OSError:
            continue  # closed, or another user's
    return frozenset(name for name in found if name.startswith("pipe:"))
