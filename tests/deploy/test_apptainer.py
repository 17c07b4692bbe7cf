"""deploy/watchdogd.def. Debian 12 has no apptainer: its sections are read here and run as a build runs them,
in a throw-away copy (an overlay) of this Debian: %files, %post, %test and %runscript, as they stand."""

from __future__ import annotations

import os
import pwd
import re
import shlex
import subprocess
from typing import TYPE_CHECKING

from tests.deploy.pages import FOLDER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROJECT = FOLDER.parent
TEXT = (FOLDER / "watchdogd.def").read_text()
SECTIONS = {"files", "post", "environment", "runscript", "test", "help"}
BUILD = 600.0
# OVERLAY FILES BUILD: this machine's root, whose changes stay in memory.
PREPARE = """\
set -e
overlay=$1 root=$1/root
mount -t tmpfs tmpfs "$overlay"
mkdir "$overlay/upper" "$overlay/work" "$root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$overlay/upper,workdir=$overlay/work" "$root"
for folder in dev proc sys; do mount --rbind "/$folder" "$root/$folder"; done
mount -t tmpfs tmpfs "$root/tmp"
rm -rf "$root/opt/watchdogd" "$root/opt/src"
eval "$2"
printf '%s' "$3" >"$root/tmp/build"
exec chroot "$root" sh -e /tmp/build
"""


def sections() -> dict[str, str]:
    """The sections by name; `header` is what stands before them."""
    parts = re.split(r"^%(\w+)[^\n]*\n", TEXT, flags=re.MULTILINE)
    return {"header": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def copies() -> Iterator[tuple[Path, str]]:
    """%files: what is copied from the project, and to where."""
    for line in sections()["files"].split("\n"):
        if line.strip():
            source, target = line.split()
            yield PROJECT / source, target


def test_the_form() -> None:
    found = sections()
    assert set(found) == {"header", *SECTIONS}
    header = [line for line in found["header"].splitlines() if line and not line.startswith("#")]
    assert header == ["Bootstrap: docker", "From: python:3.11-slim-bookworm"]
    for name in SECTIONS - {"files", "help"}:
        subprocess.run(["sh", "-n"], input=found[name], text=True, check=True, timeout=10)
    assert all(source.exists() for source, _ in copies())


def test_what_the_image_does_when_it_is_built_and_run(tmp_path: Path) -> None:
    found = sections()
    overlay = tmp_path / "overlay"
    overlay.mkdir()
    post, test = (f"(\n{found[name]}\n)" for name in ("post", "test"))  # each is a script of its own
    build = "\n".join([post, found["environment"], test, "set -- plugins --json", found["runscript"]])
    done = subprocess.run(
        [
            "unshare",
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            PREPARE,
            "sh",
            overlay,
            _files(),
            build,
        ],
        env=_environment(),
        capture_output=True,
        text=True,
        timeout=BUILD,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    for said in ("watchdogd 0.", "/usr/bin/squeue", '"name": "job_liveness"'):
        assert said in done.stdout, done.stdout[-2000:]
    assert list(overlay.iterdir()) == []


def _files() -> str:
    """%files as commands: each is copied whole, to the name that is given."""
    pairs = [(shlex.quote(str(source)), target) for source, target in copies()]
    return "\n".join(
        f'mkdir -p "$root/{os.path.dirname(target)}"; cp -a {source} "$root/{target}"'
        for source, target in pairs
    )


def _environment() -> dict[str, str]:
    """The way to packages is this machine's; nothing else."""
    kept = {
        key: value
        for key, value in os.environ.items()
        if key.lower().startswith(("pip_", "http", "no_proxy"))
    }
    return {**kept, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": pwd.getpwuid(os.geteuid()).pw_dir}
