"""What people do to home's files under a running daemon."""

from __future__ import annotations

from collections import defaultdict
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from tests.waiting import wait_until
from watchdogd.engine import goodconfig
from watchdogd.engine.changes import Changes
from watchdogd.engine.patient import Patient
from watchdogd.engine.setup import Setup
from watchdogd.home import Home

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Rounds:
    """What the rounds of one daemon see of home."""

    def __init__(self, home: Home, patient: Patient) -> None:
        self.home = home
        self.setup = Setup.load(home)
        self.troubles: dict[str, str] = defaultdict(str)
        self._changes = Changes(home, patient, self.troubles)

    def round(self) -> Setup:
        self.troubles["home"] = ""
        self.setup = self._changes.config(self.setup)
        return self.setup

    def edit(self, name: str) -> None:
        """Until the file's time shows it: clocks of file systems are coarse."""
        before = self.home.config.stat().st_ctime_ns

        def changed() -> bool:
            self.home.config.write_text(f"[daemon]\nname = '{name}'\n")
            return self.home.config.stat().st_ctime_ns != before

        wait_until(changed, 10, "the file's time has changed")


@contextmanager
def rounds(place: Path) -> Iterator[Rounds]:
    home = Home(place / "home")
    home.make()
    home.config.write_text("[daemon]\nname = 'lab'\n")
    with closing(Patient("home")) as patient:
        yield Rounds(home, patient)


def test_a_config_that_was_removed_is_told_and_may_come_back(tmp_path: Path) -> None:
    with rounds(tmp_path) as seen:
        home, setup = seen.home, seen.setup
        home.config.rename(tmp_path / "away")
        assert seen.round() is setup
        assert seen.troubles["home"] == (
            f"{home.path} has no config.toml any more: put it back (the last good configuration is kept)"
        )
        (tmp_path / "away").rename(home.config)
        assert seen.round().config.daemon.name == "lab"
        assert seen.troubles["home"] == ""


def test_an_edit_counts_though_home_takes_no_copy_of_it(tmp_path: Path) -> None:
    with rounds(tmp_path) as seen:
        seen.round()
        copy = seen.home.path / ".config.good.toml"
        copy.unlink()
        copy.mkdir()
        seen.edit("bloom")
        for _ in range(2):
            assert seen.round().config.daemon.name == "bloom"
            assert "is a folder, and a file belongs there" in seen.troubles["home"]
        copy.rmdir()
        seen.round()
        assert seen.troubles["home"] == ""
        kept = goodconfig.last(seen.home)
        assert kept
        assert kept.daemon.name == "bloom"


def test_folders_that_were_removed_come_back_with_what_belongs_there(tmp_path: Path) -> None:
    with rounds(tmp_path) as seen:
        with seen.home.config.open("a") as config:
            config.write("[runs.run-17]\npid_file = '/nowhere'\n")
        seen.setup = Setup.load(seen.home)
        seen.round()
        laid_out = seen.home.switches / "run-17.json"
        laid_out.unlink()
        seen.home.switches.rmdir()
        seen.round()
        assert laid_out.exists()
