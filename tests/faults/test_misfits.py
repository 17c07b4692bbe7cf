"""Home's files and folders are replaced by something else, or removed: it is told, and the daemon goes on."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from tests.faults.rig import Rig
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.servers.web import WebServer


@contextmanager
def moved(path: Path) -> Iterator[None]:
    """Away, and back in the end."""
    aside = path.rename(path.with_name(f"{path.name}.aside"))
    yield
    aside.rename(path)


def replaced(path: Path) -> bool:
    """By a folder; a round may be faster, and make the file anew."""
    path.unlink()
    with suppress(FileExistsError):
        path.mkdir()
    return path.is_dir()


def test_a_home_that_is_taken_to_pieces(tmp_path: Path, endpoint: WebServer) -> None:
    rig = Rig(tmp_path / "home", tmp_path, endpoint)
    rig.start()
    home, log = rig.home, rig.home / "logs" / "daemon.log"
    try:
        wait_until(lambda: replaced(home / "status.json"), 10, "no round is faster")
        rig.wait_told("[CRITICAL] bloom-watch: status.json is a folder, and a file belongs there", "    mv ")
        status = rig.verb("status", "--json")
        assert status.returncode == 2, status.stdout
        assert "status.json is a folder, and a file belongs there: mv " in status.stdout
        (home / "status.json").rmdir()
        rig.wait_told("[RESOLVED] bloom-watch: the watchdog's home can be written again")

        with moved(home / "config.toml"):
            os.mkfifo(home / "config.toml")
            rig.wait_told(
                "[WARNING] bloom-watch", "config.toml not taken: it cannot be read: it is no plain file"
            )
            (home / "config.toml").unlink()
        rig.wait_told("[RESOLVED] bloom-watch: config.toml is correct again")

        shutil.rmtree(home / "logs")
        wait_until((home / "logs").exists, 60, "the folder of logs is made anew")
        shutil.rmtree(home / ".lease")
        wait_until(lambda: log.exists() and "was taken anew" in log.read_text(), 60, "that stands in the log")
        rig.pull()
        assert rig.daemon.poll() is None
        rig.wait_well()
        told = [body for body in rig.bodies if "[CRITICAL] bloom-watch" in body]
        assert len(told) == 1, told
    finally:
        rig.end()
