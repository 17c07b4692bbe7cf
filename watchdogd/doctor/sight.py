"""Whether a node sees home at all. Where it does not, nothing can be written for us to read there: the job
tries what needs neither home nor Python, and says by its exit code what is missing."""

from __future__ import annotations

import shlex
from string import Template
from typing import TYPE_CHECKING

from watchdogd.doctor.finding import broken, fine

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from watchdogd.doctor.finding import Finding

LACKING = 32
"""The exit code is this and the sum of what is missing: below 128, from where on codes stand for signals."""
_NO_HOME, _NOT_WRITTEN, _NO_PYTHON, _NO_SLURM, _NO_SBATCH = 1, 2, 4, 8, 16
_SCRIPT = Template(
    """#!/bin/bash
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=1
#SBATCH --mem=512M
#SBATCH --no-requeue
umask 077
lacks=0
if [ ! -d $home ]; then lacks=$$((lacks + 1))
elif ! : > $said; then lacks=$$((lacks + 2)); fi
timeout 60 $python -P -c 'import watchdogd' || lacks=$$((lacks + 4))
[ $$lacks = 0 ] && exec $python -P -m watchdogd doctor --json --home $home > $said 2> $wrong
timeout 30 squeue --noheader --jobs="$$SLURM_JOB_ID" || lacks=$$((lacks + 8))
printf '#!/bin/bash\\ntrue\\n' | timeout 60 sbatch --test-only $options || lacks=$$((lacks + 16))
exit $$((32 + lacks))
"""
)


def script(home: Path, python: str, said: Path, wrong: Path, options: Sequence[str]) -> str:
    """The job: the examination into `said`, its complaints into `wrong`; `options` are those of a link."""
    words = {"home": home, "python": python, "said": said, "wrong": wrong}
    quoted = {name: shlex.quote(str(value)) for name, value in words.items()}
    return _SCRIPT.substitute(quoted, options=shlex.join(options))


def judge(code: int, node: str, home: Path, python: str) -> Iterator[Finding]:
    """What the exit code of the job says; nothing where the node saw all of it."""
    if not LACKING < code < 2 * LACKING:
        return
    if code & _NO_HOME:
        mend = (
            "move home to a file system that the nodes see (--home, $WATCHDOGD_HOME), or let it watch from "
            "here: 'watchdogd tick' in a crontab, or 'watchdogd start --local'"
        )
        yield broken("home", f"{node} does not see {home}", mend)
    if code & _NOT_WRITTEN:
        mend = "mount it for writing there, or move home"
        yield broken("home", f"{node} sees {home}, but cannot write to it", mend)
    if code & _NO_PYTHON:
        mend = "install watchdogd into a virtual environment on a file system that the nodes see"
        yield broken("Python", f"{node} cannot run {python} with watchdogd", mend)
    else:
        yield fine("Python", f"{node} runs {python} with watchdogd")
    if code & _NO_SLURM:
        mend = "ask the administrators for Slurm's commands on compute nodes; else watch from here"
        yield broken("Slurm", f"squeue gets no answer on {node}", mend)
    else:
        yield fine("Slurm", f"squeue answers on {node}")
    if code & _NO_SBATCH:
        mend = "the site may forbid it there: watch from here ('watchdogd tick' in a crontab, start --local)"
        yield broken("sbatch", f"{node} cannot submit a successor", mend)
    else:
        yield fine("sbatch", f"takes a link from {node}")
