"""A real Slurm on this machine, for tests that ask it: Debian 12's packages, run by root on loopback.

Everything is its own: ports, munged with its key, MariaDB with its data, folder below /tmp; so several
can run side by side, and nothing of a Slurm that the machine may have is needed or touched.
"""

import contextlib
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Self

from psutil import Process

from tests.lab import interpreter, processes
from tests.lab.accounts import USERS
from tests.lab.people import Words
from tests.lab.site import Site, usual_umask
from tests.waiting import wait_until

ANSWERING = 60.0  # seconds that a daemon, a node or a small job may take, on a machine that has much to do
SOON = 7.0  # seconds in which jobs that nobody holds on to have left the queue


class Cluster:
    """A Slurm with accounting: node1 and the last node in partition `small`, the others in `gpu`.

    `settings` replace keys of slurm.conf, `lines` are added at its end. A context manager: entering
    returns when a job ran and sacct knows it, leaving removes all processes, files and made users.
    """

    def __init__(
        self, *, nodes: int = 5, settings: Mapping[str, str] | None = None, lines: Sequence[str] = ()
    ) -> None:
        self.nodes = [f"node{number}" for number in range(1, nodes + 1)]
        self.seconds_to_start = 0.0
        self._settings = dict(settings or {})
        self._lines = tuple(lines)

    def __enter__(self) -> Self:
        began = time.monotonic()
        self._site = Site(self.nodes, self._settings, self._lines)
        try:
            self._site.bring_up()
            self._prove()
        except BaseException:
            self._site.tear_down()
            raise
        self.seconds_to_start = time.monotonic() - began
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._site.tear_down()

    @property
    def folder(self) -> Path:
        """Everything of this cluster stands here; its daemons' logs in `log`."""
        return self._site.folder

    @property
    def conf(self) -> Path:
        """slurm.conf: the value of SLURM_CONF."""
        return self.folder / "slurm.conf"

    @property
    def env(self) -> dict[str, str]:
        """The whole environment of a program that root runs on this cluster."""
        return self._site.people.env("root")

    def home(self, user: str) -> Path:
        """HOME of a user's programs: below the cluster's folder, emptied by `restore`."""
        return self._site.people.home(user)

    def new_folder(self) -> Path:
        """A fresh folder in which every user may write, as in /tmp; removed by `restore`."""
        folder = Path(tempfile.mkdtemp(prefix="scratch-", dir=self.folder))
        folder.chmod(0o1777)
        return folder

    @property
    def python(self) -> Path:
        """An interpreter that all users can run and that imports watchdogd and what it needs."""
        return self._bin / "python"

    @property
    def watchdogd(self) -> Path:
        """The command `watchdogd` for all users: a copy of the project as it was when first asked for."""
        return self._bin / "watchdogd"

    @cached_property
    def typed(self) -> Path:
        """The same, soon: where a test is about what a verb does, not about how it comes up."""
        program = self.folder / "typed/watchdogd"
        with usual_umask():
            self._site.daemons.start_typist(program, self.watchdogd)
        return program

    @cached_property
    def _bin(self) -> Path:
        with usual_umask():
            return interpreter.install(self.folder / "python", self._site.people)

    # Running programs

    def run_as(
        self,
        user: str,
        argv: Words,
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str = "",
        check: bool = True,
        timeout: float = 180.0,
    ) -> subprocess.CompletedProcess[str]:
        """Runs a program as `user` (or "root") in a clean environment, to which `env` adds.

        AssertionError when it fails (unless `check` is False) or takes longer than `timeout` seconds.
        """
        return self._site.people.run(user, argv, cwd=cwd, env=env, stdin=stdin, check=check, timeout=timeout)

    def popen_as(
        self, user: str, argv: Words, *, cwd: Path | None = None, env: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """Starts a program likewise, with pipes; `restore` ends it, with its process group."""
        return self._site.people.popen(user, argv, cwd=cwd, env=env)

    def sbatch(self, user: str, script: str, *options: str, cwd: Path | None = None) -> str:
        """Submits a script (given a first line for bash where it has none); returns the job's id."""
        text = script if script.startswith("#!") else f"#!/bin/bash\n{script}\n"
        return self.run_as(user, ["sbatch", "--parsable", *options], stdin=text, cwd=cwd).stdout.strip()

    # Asking

    def squeue(self, user: str | None = None) -> list[str]:
        """`ID|USER|STATE|NAME` of every job, or of one user's, that is not over."""
        whose = [f"--user={user}"] if user else []
        return self._ask("squeue", "--noheader", "--all", "--format=%i|%u|%T|%j", *whose)

    def state(self, job_id: str) -> str:
        """One word (RUNNING, COMPLETED): as the controller says, else accounting; empty if neither knows."""
        words = ["--noheader", f"--jobs={job_id}"]
        if self._site.daemons.slurmctld.running:
            asked = self.run_as("root", ["squeue", *words, "--states=all", "--format=%T"], check=False)
            if asked.stdout.strip():
                return asked.stdout.split()[-1]
        past = "".join(self._ask("sacct", *words, "--allocations", "--parsable2", "--format=State")[-1:])
        return past.partition(" ")[0]  # CANCELLED may carry "by UID"

    def wait_for_state(self, job_id: str, *states: str, timeout: float = ANSWERING) -> str:
        """Waits until the job is in one of these states; returns which."""
        what = f"job {job_id} is {' or '.join(states)}"

        def arrived() -> str:
            state = self.state(job_id)
            return state if state in states else ""

        return wait_until(arrived, timeout, what).value

    def node_state(self, node: str) -> str:
        """scontrol's words, small: idle, mixed, idle+drain, down; with a * when the node does not answer.

        Not sinfo's: after a restart of the controller it calls idle nodes mixed for minutes (22.05).
        """
        return self._node_states(node)[node]

    def _node_states(self, *node: str) -> dict[str, str]:
        lines = self._ask("scontrol", "--oneliner", "show", "node", *node)
        words = (line.partition(" State=") for line in lines)
        return {head.split()[0].partition("=")[2]: rest.split()[0].lower() for head, _, rest in words}

    # Breaking and mending

    def kill_slurmd(self, node: str) -> None:
        """kill -9 of a node's daemon: its jobs run on unseen."""
        self._site.daemons.slurmd[node].kill()

    def start_slurmd(self, node: str) -> None:
        """Starts it again; returns when the controller takes the node for alive."""
        self._site.daemons.start_slurmd(node)
        wait_until(lambda: self._alive(node), ANSWERING, f"{node} is back")

    def stop_controller(self) -> None:
        """Ends slurmctld: squeue, sbatch and scontrol are refused."""
        self._site.daemons.slurmctld.stop()

    def kill_controller(self) -> None:
        """kill -9 of slurmctld: what it has not written to its spool is lost."""
        self._site.daemons.slurmctld.kill()

    def start_controller(self) -> None:
        """Starts it again; returns when it answers."""
        self._site.daemons.start_slurmctld()
        wait_until(self._controller_answers, ANSWERING, "slurmctld answers")

    def freeze_controller(self) -> None:
        """slurmctld stands still: who asks it waits."""
        self._site.daemons.slurmctld.freeze()

    def thaw_controller(self) -> None:
        """A frozen slurmctld goes on."""
        self._site.daemons.slurmctld.thaw()

    def stop_dbd(self) -> None:
        """Ends slurmdbd: sacct is refused, the controller keeps its news for later."""
        self._site.daemons.slurmdbd.stop()

    def start_dbd(self) -> None:
        """Starts it again; returns when it listens."""
        self._site.daemons.start_slurmdbd()

    def drain(self, node: str, reason: str = "test") -> None:
        """Lets a node take no more jobs."""
        self._update_node(node, "State=DRAIN", f"Reason={reason}")

    def down(self, node: str, reason: str = "test") -> None:
        """Sets a node down: its jobs end, or begin anew elsewhere."""
        self._update_node(node, "State=DOWN", f"Reason={reason}")

    def resume(self, node: str) -> None:
        """Takes a drained or downed node back."""
        self._update_node(node, "State=RESUME")

    def cancel_all(self) -> None:
        """Cancels every job, and what jobs submit while they die; returns when the queue is empty."""

        def empty() -> bool:
            if not self.squeue():
                return True
            for user in ("root", *USERS):
                self.run_as("root", ["scancel", f"--user={user}"], check=False)
            return False

        with contextlib.suppress(AssertionError):
            wait_until(empty, SOON, "the queue is empty", every=0.2)
            return
        partitions = sorted({*self._ask("sinfo", "--noheader", "--format=%R")})
        try:
            for name in partitions:  # a job that submits itself anew might go on for long on a busy machine
                self._ask("scontrol", "update", f"PartitionName={name}", "State=DRAIN")
            wait_until(empty, ANSWERING, "the queue is empty", every=0.2)
        finally:
            for name in partitions:
                self._ask("scontrol", "update", f"PartitionName={name}", "State=UP")

    def restore(self) -> None:
        """As after the start: no job, no program of a user, all daemons, idle nodes, empty homes."""
        self._site.people.end()
        self._restart_what_is_down()
        self.cancel_all()
        processes.end(self._strangers())
        wait_until(self._mended, ANSWERING, "all nodes are idle", every=0.2)
        self._empty_homes()

    def _prove(self) -> None:
        wait_until(self._all_idle, ANSWERING, "all nodes are idle")
        job_id = self.sbatch(USERS[0], "true", "--output=/dev/null", "--job-name=ready")
        wait_until(lambda: self._accounted(job_id), ANSWERING, f"sacct knows the end of job {job_id}")

    def _ask(self, *argv: str) -> list[str]:
        return self.run_as("root", argv).stdout.splitlines()

    def _accounted(self, job_id: str) -> bool:
        fields = ["--noheader", "--allocations", "--parsable2", "--format=State"]
        return self._ask("sacct", *fields, f"--jobs={job_id}") == ["COMPLETED"]

    def _all_idle(self) -> bool:
        return {*self._node_states().values()} == {"idle"}

    def _alive(self, node: str) -> bool:
        state = self.node_state(node)
        return not state.endswith("*") and not state.startswith("down")

    def _controller_answers(self) -> bool:
        return not self.run_as("root", ["sinfo"], check=False).returncode

    def _update_node(self, node: str, *changes: str) -> None:
        self._ask("scontrol", "update", f"NodeName={node}", *changes)

    def _restart_what_is_down(self) -> None:
        daemons = self._site.daemons
        daemons.slurmctld.thaw()
        if not daemons.slurmdbd.running:
            self.start_dbd()
        if not daemons.slurmctld.running:
            self.start_controller()
        for node in self.nodes:
            if not daemons.slurmd[node].running:
                self.start_slurmd(node)

    def _strangers(self) -> list[Process]:
        """What users left running outside of Slurm: all of the cluster's processes but its daemons."""
        own = self._site.daemons.pids()
        return [each for each in processes.belonging_to(self.folder) if not own & processes.lineage(each)]

    def _mended(self) -> bool:
        states = self._node_states()
        for node, state in states.items():
            if "drain" in state or state.startswith("down"):
                self.resume(node)
        return {*states.values()} == {"idle"}

    def _empty_homes(self) -> None:
        for folder in (self.folder / "home", *self.folder.glob("scratch-*")):
            shutil.rmtree(folder)
        with usual_umask():
            self._site.people.make_homes()
