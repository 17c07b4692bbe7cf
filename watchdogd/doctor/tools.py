"""Tests of tools: GPU tools, py-spy and the kernel's limits for it, cron."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from watchdogd.doctor.diagnosis import Diagnosis, Installation, ask, broken, fine, warning
from watchdogd.doctor.setup_wizard import GPU_TOOLS
from watchdogd.home import lease
from watchdogd.stacks.stack_collection import MISSING
from watchdogd.system.text import split_lines

_PTRACE = Path("/proc/sys/kernel/yama/ptrace_scope")


def look(installation: Installation) -> Iterator[Diagnosis]:
    if any(run.gpus_per_node for run in installation.config.runs.values()):
        yield from _gpus(installation)
    spy = shutil.which("py-spy") or shutil.which("py-spy", path=str(Path(sys.executable).parent))
    try:
        scope = _PTRACE.read_text().strip()
    except OSError:
        scope = ""
    yield judge_stacks(spy is not None, scope, privileged=_privileged(), boxed=_boxed())
    if not installation.slurm:
        table = ask("crontab", "-l")
        yield judge_cron(table.output if table.ok else "", alive=lease.alive(installation.home) is not None)


def _gpus(installation: Installation) -> Iterator[Diagnosis]:
    found = [tool for tool in GPU_TOOLS if shutil.which(tool)]
    if found:
        yield fine("GPUs", f"{', '.join(found)} here")
    elif installation.slurm:
        yield fine(
            "GPUs", "no smi tool here; the runs' own nodes are asked, which 'watchdogd gpus RUN' tries"
        )
    else:
        yield broken("GPUs", f"there is none of {', '.join(GPU_TOOLS)} on PATH", "load the driver's tools")


def _privileged() -> bool:
    """Return whether this process has CAP_SYS_PTRACE (bit 19 of CapEff, capabilities(7))."""
    found = re.search(r"^CapEff:\s*([0-9a-f]+)$", Path("/proc/self/status").read_text(), re.MULTILINE)
    return bool(found and int(found[1], 16) >> 19 & 1)


def _boxed() -> bool:
    """Return whether this is a container, which may have fewer rights than its user."""
    marks = (Path("/.dockerenv"), Path("/run/.containerenv"), Path("/.singularity.d"))
    return any(mark.exists() for mark in marks)


def judge_stacks(spy: bool, scope: str, *, privileged: bool = False, boxed: bool = False) -> Diagnosis:
    """Judge whether `stacks` works here; `scope`: kernel.yama.ptrace_scope, empty where there is none.

    `privileged`: CAP_SYS_PTRACE, which permits attaching unless the scope is 3. `boxed`: in a container.
    """
    if not spy:
        return warning("stacks", f"{MISSING.what}: a hang is reported without stacks", MISSING.fix)
    if privileged and scope != "3":
        return fine("stacks", "py-spy is here, and may attach to every process")
    if boxed:
        text = "in a container without CAP_SYS_PTRACE py-spy is often refused: then stacks come from Guards"
        return warning("stacks", text, "give the container SYS_PTRACE, or use watchdogd.training's Guard")
    if scope in ("2", "3"):
        text = f"the kernel lets nobody attach (ptrace_scope {scope}): stacks come from Guards alone"
        return warning("stacks", text, "use watchdogd.training's Guard in the training loop")
    limited = "; ptrace_scope 1 lets it attach to children only: use the Guard" if scope == "1" else ""
    return fine("stacks", f"py-spy is here{limited}")


def judge_cron(table: str, *, alive: bool) -> Diagnosis:
    """Warn where neither Slurm, cron nor systemd would start the watchdog after a reboot."""
    lines = [line for line in split_lines(table) if "watchdogd" in line and not line.lstrip().startswith("#")]
    if any(verb in line for line in lines for verb in (" tick", " ensure")):
        return fine("cron", "crontab has a line for it")
    text = f"no crontab line{', a daemon runs' if alive else ''}: nothing starts it again after a reboot"
    return warning("cron", text, "take a line of deploy/crontab, or deploy/watchdogd.service")
