"""Configurations that make no sense: each is one line with its key and the mend, in words of the field."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from watchdogd.config.loading import load, parse, variables
from watchdogd.daemon.setup import Setup
from watchdogd.errors import ConfigError
from watchdogd.home.layout import Home

PATH = Path("/home/a/.watchdogd/config.toml")
MAIL = '[channels.m]\ntype = "email"\n'
PYDANTIC = re.compile(r"Input should|valid tuple|literal\[|validation|instance of|String should|pydantic")


def complaint(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(text, PATH)
    message = str(caught.value)
    assert message.startswith(f"{PATH}: ")
    assert message.isprintable()
    assert not PYDANTIC.search(message)
    return message.removeprefix(f"{PATH}: ")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('[history]\nurl = "mysql//x"', "history.url: is no database: write sqlite:///history.db"),
        ('[history]\nurl = "oracle://scott:tiger@db/x"', "history.url: is no database"),
        ('[slurm]\ntime = "bla"', "slurm.time: 'bla' is no walltime: write it as 12h"),
        ('[slurm]\nusers = ["alice"]\ngroup = "six"', "slurm: give users or group, not both"),
        ('[slurm]\nusers = "alice"', 'slurm.users: must be a list: write it as ["...", "..."]'),
        ('[alerts]\nescalate_after = "30m"', "alerts: escalate_after needs escalate_to"),
        ('[alerts]\nescalate_to = ["p"]\n[channels.p]\ntype = "console"', "needs escalate_after"),
        ('[channels.s]\ntype = "slack"\nwebhook_url = "env:"', "env: needs the name of a variable"),
        ('[channels.s]\ntype = "slack"\nwebhook_url = "env:A B"', "env: needs the name of a variable"),
        ('[channels.s]\ntype = "slack"\nwebhook_url = "file:"', "file: needs a path after it"),
        ('[channels.s]\ntype = "slack"\nwebhook_url = "hello"', "webhook_url: is no web address"),
        ('[channels.w]\ntype = "webhook"\nurl = "ftp://x/y"', "channels.w.url: is no web address"),
        ('[channels.w]\ntype = "webhook"\nurl = "https://a/b\\nX: y"', "channels.w.url: is no web address"),
        (
            '[channels.s]\ntype = "slak"',
            "email, slack, statuslog, webhook; did you mean 'slack'",
        ),
        (
            MAIL + 'smtp = "smtp://a:25"\nfrom = "a\\r\\nBcc: x@y"\nto = "b"',
            "channels.m.from: 'a\\r\\nBcc: x@y' has",
        ),
        (
            MAIL + 'smtp = "smtp://a:25"\nfrom = "a"\nto = ["b", "c\\n"]',
            "channels.m.to.1: 'c\\n' has line breaks",
        ),
        (
            MAIL + 'smtp = "smtp://a:99999"\nfrom = "a"\nto = "b"',
            "channels.m: smtp 'smtp://a:99999' is no server",
        ),
        (
            MAIL + 'smtp = "smtp://u:hush@a:25"\nfrom = "a"\nto = "b"',
            "channels.m: smtp 'smtp://u:****@a:25' has a login in it: write user and password below it",
        ),
        (MAIL + 'smtp = "smtp://a:25"\nfrom = "a"\nto = []', "channels.m.to: must not be empty"),
        ('[heartbeat]\nurl = "ping"', "heartbeat.url: is no web address"),
        (
            '[runs.r]\nkill_switch = "stop"\nsave_switch = "./stop"',
            "kill_switch and save_switch are one file",
        ),
        (
            '[runs.r]\nkill_switch = "switches/r.save"',
            "runs.r.kill_switch: switches/r.save is its save switch",
        ),
        ('[runs."a/b"]\nsave_switch = "/h/switches/./a%2Fb.kill"', "is its kill switch: name another file"),
        ('[runs.r]\nprogress = "iteration"', "runs.r.progress: 'iteration' has no group"),
        ('[runs.r]\nlog = "$NO_SUCH_VARIABLE/x"', "runs.r.log: '$NO_SUCH_VARIABLE/x': the variable $NO_SUCH"),
        ('[runs.r]\nlog = "~nobody-here/x"', "there is no user 'nobody-here'"),
        ('[runs.r]\nlog = "a\\u0000b"', "runs.r.log: a path has no NUL"),
        ('[runs.r]\nbackend = "slrum"', "backend: must be one of slurm, pbs, process; did you mean 'slurm'?"),
        ('[runs.r]\non_hang = ["stack"]', "runs.r.on_hang.0: must be one of stacks"),
        ("[runs.r]\non_gone = [{ exec = [] }]", "runs.r.on_gone.0.exec: must not be empty"),
        ('[runs.r]\nstale_after = "soon"', "runs.r.stale_after: 'soon' is no duration"),
        ("[runs.r]\ngpus_per_node = true", "runs.r.gpus_per_node: must be a whole number"),
        ('[disks.d]\npath = "/tmp"\nusable = "0%"', "disks.d: usable = 0%: nothing would ever be free"),
        (
            '[disks.d]\npath = "/x"\nwarn_free = "1TB"\ncrit_free = "2TB"',
            "disks.d: crit_free = 2000000000000 is above",
        ),
        (
            '[disks.d]\npath = "/x"\nwarn_inodes_free = "5%"\ncrit_inodes_free = "10%"',
            "crit_inodes_free = 10% is above",
        ),
        (
            '[disks.d]\npath = "/x"\nwarn_used = "90%"\ncrit_used = "80%"',
            "warn_used = 90% is above crit_used",
        ),
        ('[disks.d]\npath = "/x"\nquota = "lustr"', "did you mean 'lustre'?"),
        ('[disks.d]\npath = "/x"\nquota = { command = [] }', "disks.d.quota.command: must not be empty"),
        (
            '[disks.d]\npath = "/x"\nquota = { command = ["q"], pattern = "x" }',
            "names no group: it needs (?P<used>",
        ),
        ('[runs.""]', "runs: the name is empty"),
        (
            f"[runs.{'a' * 260}]",
            "runs: the name 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'... has 260 characters, 100 at most",
        ),
        (f"[runs.'{'ä' * 60}']", f"the name '{'ä' * 60}' takes 360 bytes in files' names, 150 at most"),
        ('[runs."a\\u0007"]', "runs: the name 'a\\x07' has characters that cannot be shown"),
        ('[runs."a\\nb"]\nlog = 3', "must be text"),
        ('[disks." d"]\npath = "/x"', "disks: the name ' d' begins or ends with a space"),
        ('[runs.x]\n[disks.x]\npath = "/x"', "disks.x: there is [runs.x] of this name already: rename one"),
        (
            '[disks.x]\npath = "/x"\n[checks.x]\nplugin = "node_health"',
            "checks.x: there is [disks.x] of this name",
        ),
        ("[runs.watchdogd]", "runs.watchdogd: so the watchdog calls itself"),
        ('[daemon]\nname = "a\\nb"', "daemon.name: the name 'a\\nb' has characters"),
        ('[daemon]\nkeep_logs = "a\\nb"', "daemon.keep_logs: 'a\\nb' is no duration"),
        ("[daemon]\nconfirm = 0", "daemon.confirm: must be 1 or more"),
        ('[daemon]\ninterval = "0s"', "daemon.interval: must be more than 0"),
        ('[runs.r.checks.log_staleness]\nchannels = ["x"]', "there is no [channels.x]"),
        ("channels = 3", "channels: must be a table"),
    ],
)
def test_nonsense_is_one_line(text: str, sentence: str) -> None:
    assert sentence in complaint(text)


def test_what_makes_sense_is_no_error() -> None:
    parse('[runs.a]\nlog = "/x/log"\n[runs.b]\nlog = "/x/log"', PATH)  # two runs may write one log
    parse('[disks.d]\npath = "/x"\nwarn_free = "1TB"\ncrit_free = "10%"', PATH)  # cannot be compared
    parse('[runs."run 17 (größer)"]\n[history]\nurl = "postgresql+psycopg://w@db/h"', PATH)


@pytest.mark.parametrize("section", ["[daemon]", "[slurm]"])
def test_a_unix_group_that_is_none_is_told_with_the_nearest(tmp_path: Path, section: str) -> None:
    home = Home(tmp_path)
    home.config.write_text(f'{section}\ngroup = "roott"')
    with pytest.raises(
        ConfigError, match=r"there is no Unix group 'roott' on this machine; did you mean 'root'\?"
    ):
        load(home)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "gpus_per_node = 8\n[runs.r.checks.gpu_health]\nvram_warn = 95\nvram_crit = 90",
            "vram_crit = 90 is below",
        ),
        ("gpus_per_node = 8\n[runs.r.checks.gpu_health]\nvram_wrn = 95", "did you mean 'vram_warn'?"),
        ('log = "x"\n[runs.r.checks.log_staleness]\nconfirm = "two"', "confirm: must be a whole number"),
        ('log = "x"\n[runs.r.checks.log_stalenes]\nconfirm = 2', "did you mean 'log_staleness'?"),
        (
            'log = "x"\n[checks."r/log_staleness"]\nplugin = "node_health"',
            "another check has this name already",
        ),
        ('log = "x"\n[alerts]\nmaintenance = [{ cron = "bla", for = "2h" }]', "'bla' is no crontab time"),
    ],
)
def test_nonsense_that_only_the_plugins_know(tmp_path: Path, text: str, sentence: str) -> None:
    home = Home(tmp_path)
    home.make()
    home.config.write_text(f'[runs.r]\npid_file = "p"\n{text}')
    with pytest.raises(ConfigError) as caught:
        Setup.load(home)
    assert sentence in str(caught.value)
    assert not PYDANTIC.search(str(caught.value))


def test_paths_of_secrets_hang_on_home() -> None:
    config = parse('[channels.s]\ntype = "slack"\nwebhook_url = "file:hook"', PATH)
    assert [secret.path for _, secret in config.secrets()] == [str(PATH.parent / "hook")]


def test_the_variables_that_a_configuration_needs_are_known_by_name(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert variables(home) == ()
    home.config.write_text(
        '# $COMMENT\n[runs.r]\nlog = "$SCRATCH/log"\nmust_not_see = ["end$"]\nkill_switch = "${WORK}/kill"'
    )
    assert variables(home) == ("SCRATCH", "WORK")


def test_a_configuration_that_others_can_write_is_not_used(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.make()
    home.write(home.config, "")
    assert load(home)
    home.config.chmod(0o666)
    with pytest.raises(
        ConfigError, match=r"is not used: .*config.toml can be written by everybody: chmod o-w"
    ):
        load(home)
    home.config.chmod(0o600)
    home.path.chmod(0o777)
    with pytest.raises(ConfigError, match="home can be written by everybody"):
        load(home)
    home.path.chmod(0o1777)  # sticky: others can add files, and replace none
    assert load(home)
    tmp_path.chmod(0o777)
    with pytest.raises(ConfigError, match="can be written by everybody"):
        load(home)
    assert os.path.exists(home.config)
