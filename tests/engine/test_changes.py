"""What people do to home's files under a running daemon."""

from collections import defaultdict
from pathlib import Path

from watchdogd.engine.changes import Changes
from watchdogd.engine.patient import Patient
from watchdogd.engine.setup import Setup
from watchdogd.home import Home


def test_a_config_that_was_removed_is_told_and_may_come_back(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.make()
    home.config.write_text("[daemon]\nname = 'lab'\n")
    setup, patient = Setup.load(home), Patient("home")
    troubles: dict[str, str] = defaultdict(str)
    changes = Changes(home, patient, troubles)
    home.config.rename(tmp_path / "away")
    assert changes.config(setup) is setup
    assert troubles["home"] == (
        f"{home.path} has no config.toml any more: put it back (the last good configuration is kept)"
    )
    (tmp_path / "away").rename(home.config)
    assert changes.config(setup).config.daemon.name == "lab"
    patient.close()
