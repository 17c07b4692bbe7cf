"""What several runs rest on falls silent: one message in all, and one when it answers again."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.lab import forked
from tests.lab.dog import typed
from tests.servers.web import WebServer
from tests.waiting import wait_until


class Site:
    """A home with a webhook, and a daemon whose PATH begins with a folder of our own tools."""

    def __init__(self, place: Path, endpoint: WebServer) -> None:
        self.place, self.endpoint = place, endpoint
        self.home, self.tools = place / "home", place / "tools"
        self.tools.mkdir()
        self.env = {
            **os.environ,
            "WATCHDOGD_HOME": str(self.home),
            "PATH": f"{self.tools}:{os.environ['PATH']}",
        }
        self.daemon: forked.Running | None = None

    def watch(self, sections: str) -> None:
        """Begin with this configuration, and wait for the first good round."""
        self.home.mkdir()
        (self.home / "config.toml").write_text(
            f"""
            [daemon]
            interval = "1s"
            timeout = "3s"
            [slurm]
            min_poll = "1s"
            [channels.hook]
            type = "webhook"
            url = "{self.endpoint.url}"
            rate = "none"
            {sections}
            """
        )
        assert typed(["init"], self.env).returncode == 0
        self.daemon = forked.daemon(self.env, self.home.with_name("said"))
        wait_until(lambda: (self.home / "status.json").exists(), 60, "the first round is stored")

    @property
    def headlines(self) -> list[str]:
        return [request.json()["headline"] for request in self.endpoint.requests]

    @property
    def texts(self) -> list[str]:
        """First lines with what stands below them: a long fact is whole there."""
        bodies = [request.json() for request in self.endpoint.requests]
        return [f"{body['headline']}\n{body['body']}" for body in bodies]

    @property
    def bodies(self) -> str:
        return "\n".join(request.json()["body"] for request in self.endpoint.requests)

    def wait_told(self, *parts: str) -> None:
        wait_until(
            lambda: any(all(part in text for part in parts) for text in self.texts),
            180,
            f"{parts} is told",
        )

    def said(self) -> dict[str, tuple[str, str]]:
        """When each check said something last, and what, as `status` has it."""
        shown = json.loads((self.home / "status.json").read_text())["checks"]
        return {each["check"]: (each["at"], each["summary"]) for each in shown}

    def wait_said(self, check: str, part: str) -> None:
        wait_until(lambda: part in self.said().get(check, ("", ""))[1], 180, f"{check} says: {part}")

    def quiet(self, *checks: str, times: int = 2) -> None:
        """Each of these is judged so often, and nothing more comes: what is wrongly told would have."""
        before, heard = self.headlines, {check: {self.said().get(check, ("", ""))[0]} for check in checks}
        wait_until(partial(self._heard, heard, times), 240, f"all are judged {times} times")
        assert self.headlines == before

    def _heard(self, heard: dict[str, set[str]], times: int) -> bool:
        said = self.said()
        for check, seen in heard.items():
            seen.add(said.get(check, ("", ""))[0])
        return all(len(seen) > times for seen in heard.values())

    def end(self) -> None:
        if self.daemon is not None:
            self.daemon.send_signal(signal.SIGKILL)
            self.daemon.wait(240)


@pytest.fixture
def site(tmp_path: Path, endpoint: WebServer) -> Iterator[Site]:
    site = Site(tmp_path, endpoint)
    yield site
    site.end()


@contextmanager
def hanging(point: Path) -> Iterator[None]:
    """Cover a mount by a file system that never answers: FUSE whose other end does not even say hello."""
    libc = ctypes.CDLL(None, use_errno=True)
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()
    try:
        if libc.mount(b"silent", os.fsencode(point), b"fuse", 0, options):
            raise OSError(ctypes.get_errno(), "a silent file system cannot be mounted")
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(point)], check=True)
        os.close(device)


@pytest.fixture
def scratch() -> Iterator[Path]:
    point = Path(f"/tmp/watchdogd-scratch-{os.getpid()}")
    point.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(point)], check=True)
    yield point
    subprocess.run(["umount", "--lazy", str(point)], check=True)
    point.rmdir()


@pytest.mark.root
def test_a_file_system_that_hangs_is_told_once_whoever_works_on_it(site: Site, scratch: Path) -> None:
    runs = [f"run-{number}" for number in range(3)]
    training = subprocess.Popen(["sleep", "900"])
    (site.place / "pid").write_text(f"{training.pid}\n")
    for run in runs:
        (scratch / f"{run}.log").write_text("iteration 7\n")
    try:
        site.watch(
            "".join(
                f'[runs.{run}]\npid_file = "{site.place}/pid"\n'
                f'log = "{scratch}/{run}.log"\nstale_after = "1h"\n'
                for run in runs
            )
            + f'[disks.scratch]\npath = "{scratch}"\nwarn_free = "1%"\ncrit_free = "0.5%"\n'
            + "[disks.scratch.checks.disk_quota]\nconfirm = 1\n"
        )
        with hanging(scratch):
            site.wait_told("[CRITICAL]", "file system does not answer on")
            assert any(f"does not answer on {platform.node()}: {scratch}" in text for text in site.texts)
            site.wait_said("scratch/disk_quota", "not answer")
            site.quiet(*(f"{run}/log_staleness" for run in runs))
        site.wait_told("[RESOLVED]", "the file system answers again")
        site.quiet("scratch/disk_quota", *(f"{run}/log_staleness" for run in runs))
    finally:
        training.kill()
        training.wait(240)
    assert len(site.headlines) == 2, site.headlines
    (unwatched,) = (line for line in site.bodies.split("\n") if "cannot be watched meanwhile: " in line)
    assert all(name in unwatched for name in (*runs, "scratch"))


def test_what_is_missing_is_told_alone_since_its_file_system_answers(site: Site) -> None:
    gone = site.place / "gone"
    site.watch(f'[disks.gone]\npath = "{gone}"\nwarn_free = "1%"\n')
    site.wait_told("[CRITICAL] gone", "missing on")
    assert str(gone) in site.bodies
    site.quiet("gone/disk_quota", times=4)
    assert len(site.headlines) == 1, site.headlines


def test_a_controller_that_is_silent_is_told_once_whatever_the_runs(site: Site) -> None:
    runs = [f"run-{number}" for number in range(3)]
    squeue = site.tools / "squeue"
    squeue.write_text(
        "#!/bin/sh\necho 'slurm_load_jobs error: Unable to contact slurm controller' >&2\nexit 1\n"
    )
    squeue.chmod(0o755)
    log = site.place / "train.log"
    log.write_text("iteration 7\n")
    site.watch(
        "".join(
            f'[runs.{run}]\nbackend = "slurm"\nlog = "{log}"\nstale_after = "1s"\ngpus_per_node = 8\n'
            for run in runs
        )
    )
    site.wait_told("[UNKNOWN] watchdogd: ", "does not answer")
    site.quiet(*(f"{run}/log_staleness" for run in runs), *(f"{run}/job_liveness" for run in runs))
    assert site.headlines == ["[UNKNOWN] watchdogd: Slurm does not answer, no run can be watched"]
    assert "cannot be watched meanwhile: run-0, run-1, run-2" in site.bodies
    assert "Unable to contact slurm controller" in site.bodies
    assert "/job_liveness" not in site.bodies
