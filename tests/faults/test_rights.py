"""Every file that watchdogd makes in home has home's rights, whatever the umask."""

from __future__ import annotations

import grp
import os
import stat
from pathlib import Path

import pytest

from tests.faults.rig import UNWELL
from watchdogd.chain import link_script
from watchdogd.cli import crash_log, main
from watchdogd.home.layout import Home

CONFIG = """
[daemon]
confirm = 1
{group}
[runs.run-17]
backend = "process"
command = "no such process"
log = "{disk}/train.log"
on_disk = ["save-switch"]
"""
VERBS = (
    "kill-switch run-17 --reason x",
    "silence scratch --for 1h",
    "finish run-17",
    "ack 1",
    "tick",
    "report",
)


@pytest.mark.root
@pytest.mark.parametrize(("group", "umask"), [("", 0o000), ("games", 0o000), ("games", 0o077)])
def test_every_file_has_the_rights_of_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: str, umask: int
) -> None:
    disk, home = tmp_path / "disk", Home(tmp_path / "home")
    disk.mkdir()
    (disk / "train.log").write_text("iteration 1\n")
    monkeypatch.setenv("WATCHDOGD_HOME", str(home.path))
    before = os.umask(umask)
    try:
        assert main(["init"]) == 0
        named = f'group = "{group}"' if group else ""
        home.config.write_text((UNWELL + CONFIG).format(group=named, disk=disk))
        nonsense = home.inbox / "nonsense.ack.node5.1.json"
        nonsense.write_text("no paper")
        nonsense.chmod(0o600)
        for words in ("tick", *VERBS):
            main(words.split())
        home = Home(home.path)  # whose group may be another now
        link_script.prepare_log(home)
        link_script.remember(home, link_script.LinkOptions(), 0.0)
        assert home.id
        crash_log.record(ValueError("ours"), [])
    finally:
        os.umask(before)
    files = {path: os.lstat(path) for path in (home.path, *home.path.rglob("*"))}
    made = {str(path.relative_to(home.path)) for path in files}
    assert {
        "history.db", "status.json", "link.json", "report.html", "book.log", ".id", ".lease", ".outbox",
        ".config.good.toml", "evidence/1", "inbox/.aside", "logs/crash.log", "logs/link.log",
        "switches/run-17.kill", "switches/run-17.save", "switches/run-17.json",
    } <= made  # fmt: skip
    right = (
        {stat.S_IFDIR: 0o2770, stat.S_IFREG: 0o660} if group else {stat.S_IFDIR: 0o700, stat.S_IFREG: 0o600}
    )
    wrong = {
        str(path.relative_to(home.path)): oct(found.st_mode)
        for path, found in files.items()
        if stat.S_IMODE(found.st_mode) != right[stat.S_IFMT(found.st_mode)]
    }
    if group:  # nobody moves what another one handed in
        assert wrong.pop("inbox") == oct(stat.S_IFDIR | 0o3770)
        aside = home.inbox / ".aside" / nonsense.name
        assert wrong.pop(str(aside.relative_to(home.path)))  # it is as its author made it
        del files[aside]
    assert wrong == {}
    if group:
        assert {found.st_gid for found in files.values()} == {grp.getgrnam(group).gr_gid}
