"""Adopting a job: which one is meant, and a config.toml that is never broken by it."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from watchdogd.batch.models import Job
from watchdogd.config.loading import load, parse
from watchdogd.doctor.setup_wizard import (
    AdoptedRun,
    add,
    appended,
    choose,
    gpus_of,
    run_name,
    toml_string,
    watched_as,
)
from watchdogd.errors import ConfigError, WatchdogError
from watchdogd.home.layout import Home


def job(raw_id: str, name: str, user: str = "ines", state: str = "RUNNING", **more: object) -> Job:
    return Job(raw_id, raw_id, name, user, state, **more)  # type: ignore[arg-type]  # the test's own words


QUEUE = (
    job("70", "moe-3b", started_at=100.0),
    job("71", "moe-3b", state="PENDING"),
    job("72", "moe-3b", "otto", started_at=900.0),
    job("73", "eval", "otto"),
    job("74", "eval", "pia"),
    job("75", "old", state="COMPLETED"),
    job("76", "dog", comment="watchdogd:abc"),
    Job("80_3", "83", "sweep", "ines", "RUNNING", array_id="80", started_at=5.0),
    Job("80_4", "84", "sweep", "ines", "RUNNING", array_id="80", started_at=9.0),
    Job("90+0", "90", "het", "ines", "RUNNING"),
)


@pytest.mark.parametrize(
    ("wanted", "raw_id"),
    [("70", "70"), ("71", "71"), ("72", "72"), ("moe-3b", "70"), ("80_3", "83"), ("80", "84"), ("90", "90")],
)
def test_the_job_that_is_meant(wanted: str, raw_id: str) -> None:
    assert choose(QUEUE, wanted, "ines").raw_id == raw_id


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ("moe-3", "did you mean 'moe-3b'?"),
        ("old", "there is no live job 'old'"),
        ("75", "there is no live job '75'"),
        ("eval", "name its id (73 of otto, 74 of pia)"),
        ("76", "job 76 is watchdogd's own"),
        ("dog", "there is no live job 'dog'"),
    ],
)
def test_no_such_job(wanted: str, words: str) -> None:
    with pytest.raises(WatchdogError) as caught:
        choose(QUEUE, wanted, "ines")
    assert words in str(caught.value)
    with pytest.raises(WatchdogError, match="which shows none at all"):
        choose((), wanted, "ines")


def test_names_that_are_easy_to_type() -> None:
    assert run_name("moe-3b", ()) == "moe-3b"
    assert run_name(" a  'b'/c\n", ()) == "a-b-c"
    assert run_name("Größe.7", ()) == "Größe.7"
    assert run_name("--..", ()) == "run"
    assert run_name("x", {"x", "x-2"}) == "x-3"
    assert (gpus_of([8, 8]), gpus_of([8, 4]), gpus_of([0]), gpus_of([])) == (8, 0, 0, 0)


def test_what_is_watched_already(tmp_path: Path) -> None:
    text = '[runs.moe-3b]\n[runs.x]\njob_name = "eval"\nuser = "otto"\n[runs.sweep]\npid_file = "p"\n'
    config = parse(text, tmp_path / "config.toml")
    assert watched_as(config, QUEUE[0], {"ines"}) == "moe-3b"
    assert watched_as(config, QUEUE[2], {"ines"}) == ""
    assert watched_as(config, QUEUE[3], {"ines"}) == "x"
    assert watched_as(config, QUEUE[4], {"ines"}) == ""
    assert watched_as(config, QUEUE[7], {"ines"}) == ""


HOSTILE = (
    "a \"b\" 'c'",
    "two\nlines",
    "tab\tdel\x7f\x01",
    "ümlaut 🐕",
    "]\n[daemon]\nconfirm = 9",
    "\\",
    "#",
    "",
)


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize(
    "before", ["", "# mine\n[daemon]\nconfirm = 3 # why\n", "[daemon]\r\nconfirm = 3\r\n# end"]
)
def test_any_name_makes_a_file_that_says_it_again(tmp_path: Path, name: str, before: str) -> None:
    home = Home(tmp_path)
    home.config.write_bytes(before.encode())
    home.config.chmod(0o640)
    adopted = AdoptedRun(run_name(name, ()), name or "x", user="otto", log=f"/l/{name}*", gpus=8)
    add(home, adopted)
    after = home.config.read_bytes().decode()
    assert after.startswith(before)
    assert home.config.stat().st_mode & 0o777 == 0o640
    assert ("\r\n" in before) == ("\r\n[runs." in after)
    run = load(home).runs[adopted.name]
    assert (run.job_name, run.user, run.gpus_per_node) == (name or "x", "otto", 8)
    assert tomllib.loads(after)["runs"][adopted.name]["log"] == f"/l/{name}*"


def test_a_quoted_key_where_a_bare_one_would_say_something_else() -> None:
    for name in ("a.b", "größe", "x-1"):
        assert list(tomllib.loads(AdoptedRun(name, "j").table())["runs"]) == [name]
    assert tomllib.loads(f"x = {toml_string(chr(127))}") == {"x": "\x7f"}
    assert appended("", "[a]\n") == "[a]\n"


def test_a_file_that_cannot_take_it_stays_as_it_is(tmp_path: Path) -> None:
    home = Home(tmp_path)
    inline = 'runs = { a = { log = "x" } }\n'
    home.config.write_text(inline)
    with pytest.raises(ConfigError, match=r"add it by hand: runs[.]b = "):
        add(home, AdoptedRun("b", "b"))
    assert home.config.read_text() == inline
    home.config.write_text("[daemn]\n")
    with pytest.raises(ConfigError, match="did you mean 'daemon'"):
        add(home, AdoptedRun("b", "b"))


def test_a_link_to_a_file_kept_elsewhere_stays_a_link(tmp_path: Path) -> None:
    elsewhere = tmp_path / "dotfiles.toml"
    elsewhere.write_text("# mine\n")
    home = Home(tmp_path / "home")
    home.path.mkdir()
    home.config.symlink_to(elsewhere)
    add(home, AdoptedRun("b", "b"))
    assert home.config.is_symlink()
    assert "[runs.b]" in elsewhere.read_text()
