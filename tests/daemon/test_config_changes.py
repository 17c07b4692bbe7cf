"""What people do to home's files under a running daemon."""

from __future__ import annotations

import shlex
import subprocess
from collections import defaultdict
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.waiting import wait_until
from watchdogd.cli import main
from watchdogd.config import last_good_config
from watchdogd.daemon import config_changes, wiring
from watchdogd.daemon.config_changes import Changes
from watchdogd.daemon.self_monitoring import SelfMonitoring
from watchdogd.daemon.setup import Setup
from watchdogd.errors import ConfigError
from watchdogd.home.layout import Home
from watchdogd.plugin import Result, Status
from watchdogd.system.bounded_io import BoundedIO

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Rounds:
    """What the rounds of one daemon see of home."""

    def __init__(self, home: Home, patient: BoundedIO) -> None:
        self.home = home
        self.setup = Setup.load(home)
        self.troubles: dict[str, str] = defaultdict(str)
        self._changes = Changes(home, patient, self.troubles)

    def round(self) -> Setup:
        self.troubles["home"] = ""
        self.setup = self._changes.config(self.setup)
        return self.setup

    def edit(self, name: str) -> None:
        self.write(f"[daemon]\nname = '{name}'\n")

    def write(self, text: str) -> None:
        """Until the file's time shows it: clocks of file systems are coarse."""
        before = self.home.config.stat().st_ctime_ns

        def changed() -> bool:
            self.home.config.write_text(text)
            return self.home.config.stat().st_ctime_ns != before

        wait_until(changed, 10, "the file's time has changed")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_changes, "PAUSE", 0.05)


@contextmanager
def rounds(place: Path, text: str = "[daemon]\nname = 'lab'\n") -> Iterator[Rounds]:
    home = Home(place / "home")
    home.make()
    home.config.write_text(text)
    with closing(BoundedIO("home")) as patient:
        yield Rounds(home, patient)


def test_a_config_that_was_removed_is_told_and_may_come_back(tmp_path: Path) -> None:
    with rounds(tmp_path) as seen:
        home, setup = seen.home, seen.setup
        home.config.rename(tmp_path / "away")
        assert seen.round() is setup
        assert seen.troubles["home"] == (
            f"{home.path} has no config.toml any more, the last good configuration counts"
        )
        assert restoring(seen, "home") == [f"cp {home.good_config} {home.config}"]
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
        kept = last_good_config.last(seen.home)
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


def said_of(subject: str, seen: Rounds) -> Result:
    """What the daemon's check of itself comes to."""
    itself = SelfMonitoring(seen.home)
    itself.troubles |= seen.troubles
    results = [each.result for each in itself.observe(seen.setup, None, 0.0)]
    return next(each for each in results if each.subject == subject)


def restoring(seen: Rounds, subject: str) -> list[str]:
    """The commands of the alert that copy a file."""
    return [each.command for each in said_of(subject, seen).advice if each.command.startswith("cp ")]


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (
            "[runs.glide\nlog = 'x'\n",
            "config.toml not taken: line 3, '[runs.glide': close the table's heading",
        ),
        ("[runs.glide]\nstale_aftr = '3m'\n", "config.toml not taken, line 4: unknown key stale_aftr"),
        ("[[runs.glide]]\n", "config.toml not taken, line 3: runs.glide: "),
        ("[runs.glide]\n\nlog = 7 # a number\n", "config.toml not taken, line 5: runs.glide.log: must be"),
    ],
)
def test_a_broken_edit_is_told_with_its_line_and_how_to_drop_it(tmp_path: Path, edit: str, said: str) -> None:
    with rounds(tmp_path) as seen:
        seen.round()
        kept = seen.home.config.read_text()
        seen.write(f"{kept}{edit}")
        seen.round()
        assert seen.troubles["config"].startswith(said)
        (command,) = restoring(seen, "config")
        subprocess.run(shlex.split(command), check=True, timeout=10)
        seen.round()
        assert (seen.home.config.read_text(), seen.troubles["config"]) == (kept, "")


WATCHED = "[daemon]\nname = 'lab'\n[disks.scratch]\npath = '/'\n"
NOTHING = [
    "",
    "  \n\n",
    "# [disks.scratch]\n",
    "[daemon]\nname = 'lab'\n",
    "[channels.here]\ntype = 'console'\n",
]


@pytest.mark.parametrize("left", NOTHING)
@pytest.mark.parametrize("copied", [True, False])
def test_an_edit_that_leaves_nothing_to_watch_keeps_the_last_good_one(
    tmp_path: Path, left: str, copied: bool
) -> None:
    with rounds(tmp_path, WATCHED) as seen:
        before = seen.round()
        if not copied:
            seen.home.good_config.unlink()
        seen.write(left)
        for _ in range(2):
            assert seen.round() is before
            assert "write empty = true under [daemon] if it is meant" in seen.troubles["config"]
            assert restoring(seen, "config") == [f"cp {seen.home.good_config} {seen.home.config}"]
        assert said_of("config", seen).status is Status.WARNING
        seen.write(WATCHED)
        assert [check.name for check in seen.round().checks] == ["scratch/disk_quota"]
        assert seen.troubles["config"] == ""


@pytest.mark.parametrize("left", NOTHING)
def test_who_begins_to_watch_goes_on_with_what_was_watched(tmp_path: Path, left: str) -> None:
    with rounds(tmp_path, WATCHED) as seen:
        seen.round()
        seen.write(left)
    setup, wrong = wiring.setup_of(seen.home, go_on=True)
    assert [check.name for check in setup.checks] == ["scratch/disk_quota"]
    assert f"cp {seen.home.good_config} {seen.home.config}" in wrong
    with pytest.raises(ConfigError, match="if it is meant"):
        wiring.setup_of(seen.home, go_on=False)


def test_a_config_that_is_gone_is_kept_for_who_begins_to_watch(tmp_path: Path) -> None:
    with rounds(tmp_path, WATCHED) as seen:
        seen.round()
        seen.home.config.unlink()
    setup, wrong = wiring.setup_of(seen.home, go_on=True)
    assert [check.name for check in setup.checks] == ["scratch/disk_quota"]
    assert f"put it back (cp {seen.home.good_config}" in wrong


@pytest.mark.parametrize(
    "text",
    [
        "[daemon]\nempty = true\n",
        WATCHED.replace("scratch", "other"),
        "[checks.x]\nplugin='disk_quota'\npath='/'\n",
    ],
)
def test_what_is_meant_counts(tmp_path: Path, text: str) -> None:
    with rounds(tmp_path, WATCHED) as seen:
        before = seen.round()
        seen.write(text)
        assert seen.round() is not before
        assert seen.troubles["config"] == ""
        assert last_good_config.last(seen.home) == seen.setup.config


def test_a_home_that_never_watched_anything_may_be_empty(tmp_path: Path) -> None:
    with rounds(tmp_path, "") as seen:
        seen.round()
        seen.write("# nothing yet\n")
        seen.round()
        assert seen.troubles["config"] == ""


@pytest.mark.parametrize("begin", ["", "[disks.scr", None])
def test_an_edit_that_is_being_written_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begin: str | None
) -> None:
    """An editor has emptied the file, written half of it, or moved it away; the rest comes at once."""
    with rounds(tmp_path, WATCHED) as seen:
        seen.round()
        if begin is None:
            seen.home.config.unlink()
        else:
            seen.write(begin)
        said: list[str] = []

        def goes_on(_: float) -> None:
            said.append(seen.troubles["config"] + seen.troubles["home"])
            seen.home.config.write_text(WATCHED.replace("lab", "bloom"))

        monkeypatch.setattr("watchdogd.daemon.config_changes.time.sleep", goes_on)
        assert seen.round().config.daemon.name == "bloom"
        assert set(said) == {""}
        assert seen.troubles["config"] + seen.troubles["home"] == ""


def test_verbs_say_of_an_emptied_config_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with rounds(tmp_path, WATCHED + "[runs.run-17]\npid_file = 'x'\n") as seen:
        seen.round()
        seen.write("")
    home = str(seen.home.path)
    assert main(["--home", home, "config"]) == 78
    assert capsys.readouterr().err == (
        f"watchdogd: {seen.home.config} is empty: "
        f"put it back (cp {seen.home.good_config} {seen.home.config}), "
        "or write empty = true under [daemon] if it is meant\n"
    )
    assert main(["--home", home, "kill-switch", "--all", "--yes"]) == 0
    assert (seen.home.switches / "run-17.kill").exists()
