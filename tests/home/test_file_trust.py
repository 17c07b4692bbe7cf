"""Whose files are run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from watchdogd.home.file_trust import Trusted, distrust, team_of

FOREIGN = 4242


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    folder = tmp_path / "plugins"
    folder.mkdir(mode=0o700)
    path = folder / "mine.py"
    path.write_text("")
    path.chmod(0o600)
    return path


def test_ones_own_files_are_trusted_also_below_a_sticky_folder(plugin: Path) -> None:
    assert distrust(plugin) == ""
    plugin.parent.chmod(0o1777)
    assert distrust(plugin) == ""


def test_what_others_can_write_is_refused_with_the_mend(plugin: Path) -> None:
    plugin.chmod(0o602)
    assert f"chmod o-w {plugin}" in distrust(plugin)
    plugin.chmod(0o600)
    plugin.parent.chmod(0o777)
    assert f"chmod o-w {plugin.parent}" in distrust(plugin)
    plugin.parent.chmod(0o770)
    os.chown(plugin.parent, 0, FOREIGN)
    assert f"chmod g-w {plugin.parent}" in distrust(plugin)
    assert distrust(plugin, Trusted(FOREIGN)) == ""


def test_files_of_others_are_refused_and_links_are_followed(plugin: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.py"
    link.symlink_to(plugin)
    assert distrust(link) == ""
    os.chown(plugin, FOREIGN, 0)
    assert "belongs to uid 4242" in distrust(plugin)
    assert "belongs to uid 4242" in distrust(link)
    assert "No such file" in distrust(plugin.with_name("none.py"))


def test_a_folder_of_the_owner_of_home_counts_for_members_and_for_root_who_presses(
    plugin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, above = plugin.parent, plugin.parent.parent
    os.chown(above, FOREIGN, FOREIGN)
    for path in (home, plugin):
        os.chown(path, FOREIGN, FOREIGN + 1)
    home.chmod(0o2770)
    plugin.chmod(0o660)
    assert "belongs to uid 4242" in distrust(plugin, team_of(home))
    assert distrust(plugin, team_of(home, pressing=True)) == ""
    monkeypatch.setattr(os, "getgroups", lambda: [FOREIGN + 1])
    assert distrust(plugin, team_of(home)) == ""
    above.chmod(0o777)
    for pressing in (True, False):
        assert f"chmod o-w {above}" in distrust(plugin, team_of(home, pressing=pressing))
    os.chown(above, FOREIGN + 2, FOREIGN)
    above.chmod(0o755)
    assert "belongs to uid 4244" in distrust(plugin, team_of(home))


@pytest.mark.parametrize("mode", [0o700, 0o750, 0o2750, 0o770])
def test_of_a_home_that_nobody_shares_no_owner_is_trusted(
    plugin: Path, mode: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getgroups", lambda: [FOREIGN])
    os.chown(plugin.parent, FOREIGN, FOREIGN)
    plugin.parent.chmod(mode)
    assert "belongs to uid 4242" in distrust(plugin, team_of(plugin.parent))
