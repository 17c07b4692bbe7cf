"""Stacks of the job's processes on this node, taken by its own probe when somebody asks for them by a file.

The request is that which Guards answer too: `inbox/RUN.stacks-request` appears or is touched. The answer is
`inbox/RUN.stacks.HOST.PID.json`: run, job, node and, as `text`, what `watchdogd.stacks.stackprobe` printed.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass

from watchdogd.probe import files
from watchdogd.stacks.stacktaking import py_spy
from watchdogd.system import command
from watchdogd.system.pathname import file_name
from watchdogd.system.smallfile import replace_file
from watchdogd.system.startup import own_python

LOOK = 5.0
"""Seconds between two looks for a request, one stat(2) each."""
_DEADLINE = 15.0
_SAMPLES, _APART = 3, 1.5


@dataclass(slots=True)
class Desk:
    """Where requests come in: that of one run, for one node of its job (`job` is empty outside of Slurm)."""

    inbox: str
    run: str
    job: str
    node: str
    _seen: int | None = None

    def __post_init__(self) -> None:
        """What was asked before we came is not for us."""
        self._seen = self._asked()

    def serve(self) -> None:
        """Answer a request that is new, where py-spy is there. Never raises for what files do."""
        asked = self._asked()
        if asked is None or asked == self._seen:
            return
        self._seen = asked
        tool = py_spy()
        if tool is None:
            return  # Guards answer, where there are any
        text = self._taken(tool)
        answer = {"kind": "stacks", "run": self.run, "job": self.job, "node": self.node, "text": text}
        with contextlib.suppress(OSError):  # the asker tells that nobody answered
            replace_file(self._path(), json.dumps(answer) + "\n", files.mode(self.inbox))

    def clear(self) -> None:
        """Remove an answer that nobody fetched."""
        with contextlib.suppress(OSError):
            os.unlink(self._path())

    def _asked(self) -> int | None:
        """When somebody last asked; None: nobody does."""
        try:
            return os.stat(os.path.join(self.inbox, f"{file_name(self.run)}.stacks-request")).st_mtime_ns
        except OSError:
            return None

    def _path(self) -> str:
        name = f"{file_name(self.run)}.stacks.{file_name(self.node.partition('.')[0])}.{os.getpid()}.json"
        return os.path.join(self.inbox, name)

    def _taken(self, tool: str) -> str:
        whose = ["--job", self.job] if os.environ.get("SLURM_JOB_ID") else ["--below", str(os.getsid(0))]
        words = [*whose, "--py-spy", tool]
        words += ["--samples", str(_SAMPLES), "--every", str(_APART), "--deadline", str(_DEADLINE - 3)]
        env = command.environment({"SLURMD_NODENAME": self.node})
        argv = own_python("from watchdogd.stacks.stackprobe import main; main()", *words)
        return command.ask(argv, deadline=_DEADLINE, env=env).output
