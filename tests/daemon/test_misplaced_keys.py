"""A key of config.toml in a wrong table is reported with its place; a name is offered where it is near."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.needs import QUICK
from watchdogd.cli import main
from watchdogd.config.loading import NAME, SEVERAL, keys_at, parse, tables
from watchdogd.daemon.misplaced_keys import explained, hint, place
from watchdogd.daemon.registry import check_factory
from watchdogd.daemon.registry.plugin_registry import PluginEntry, Source, built_in
from watchdogd.errors import ConfigError, UnknownKeyError
from watchdogd.home.layout import Home
from watchdogd.plugin import Parameter

PATH = Path("/home/a/.watchdogd/config.toml")
CATALOG = {entry.name: entry for entry in built_in()}
DISK = '[disks.d]\npath = "/x"\n'


def refused(text: str) -> str:
    """What is said of such a config.toml, by the reader or by who makes checks of it."""
    with pytest.raises(ConfigError) as caught:
        check_factory.build(parse(text, PATH), CATALOG, Home(PATH.parent), "slurm")
    said = caught.value
    return str(explained(said) if isinstance(said, UnknownKeyError) else said).removeprefix(f"{PATH}: ")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[runs.run-17]\ngrace = '5m'", "runs.run-17.grace: unknown key; its place is "
         "[runs.run-17.checks.log_staleness] grace"),
        ("[runs.r.checks.log_staleness]\njob_name = 'x'", "; its place is [runs.r] job_name"),
        ("[runs.r.checks.gpu_health]\ngrace = '5m'", "; its place is [runs.r.checks.log_staleness] grace"),
        ("[runs.r]\nfull_within = '3d'", "; its place is [disks.NAME] full_within"),
        ("[runs.r]\nwarn_free = '9%'", "; its place is [disks.NAME] warn_free or "
         "[runs.r.checks.node_disks] warn_free"),
        (f"{DISK}stale_after = '3m'", "; its place is [runs.NAME] stale_after"),
        (f"{DISK}[disks.d.checks.disk_quota]\ngrace = '3m'", "; its place is "
         "[runs.NAME.checks.log_staleness] grace"),
        ("[daemon]\nrepeat_every = '4h'", "; its place is [alerts] repeat_every"),
        ("[runs.r]\nconfirm = 3", "; its place is [runs.r.checks.PLUGIN] confirm"),
        ("[runs.r]\nwebhook_url = 'x'", '; its place is [channels.NAME] webhook_url (type = "slack")'),
        ("[runs.r]\nrate = '1/s'", "; its place is [channels.NAME] rate"),
        ('[channels.c]\ntype = "slack"\nwebhook_url = "https://x/"\nsmtp = "x"',
         '; its place is [channels.c] smtp (type = "email")'),
        ("[checks.x]\nplugin = 'node_health'\ngrace = '3m'", "; its place is "
         "[runs.NAME.checks.log_staleness] grace"),
        ("[slurm]\nmin_idle = 3", '; its place is [checks.NAME] min_idle (plugin = "node_health")'),
        ("[daemon]\ncron = '@weekly'", "; its place is [[alerts.maintenance]] cron"),
        ("[runs.r]\nallow = '5m'", "; its place is [[runs.r.quiet]] allow"),
        ("repeat_every = '4h'", "repeat_every: unknown key; its place is [alerts] repeat_every"),
        ("[runs.r.log_staleness]\ngrace = '3m'", "; its place is [runs.r.checks.log_staleness]"),
        ("[slack]\nwebhook_url = 'x'", "; its place is [channels.slack]"),
        ("[daemon.alerts]\nexpire = '1d'", "; its place is [alerts]"),
        ('[runs."a b.c"]\ngrace = "3m"', '; its place is [runs."a b.c".checks.log_staleness] grace'),
        ("[runs.r.checks.disk_quota]\nenabled = false", "runs.r.checks.disk_quota: [runs.r] brings no such "
         "check: write [disks.NAME.checks.disk_quota]"),
        (f"{DISK}[disks.d.checks.memory_leak]\nwarm_up = '1h'", "write [runs.NAME.checks.memory_leak]"),
        ("[runs.r.checks.node_health]\nmin_idle = 2", 'write [checks.NAME] with plugin = "node_health" '
         'and run = "..."'),
        ("[slurm]\nuser = 'alice'", "; did you mean 'users'?"),  # also a key of runs, but a slip is likelier
        ("[alerts]\nmaintenance = [{cron = '@daily', for = '2h', tagets = []}]", "did you mean 'targets'?"),
        ("[runs.r]\nzzz = 2", "runs.r.zzz: unknown key"),
        ("[runs.r]\nback = 'x'", "runs.r.back: unknown key; did you mean 'backend'?"),
    ],
)  # fmt: skip
def test_what_stands_in_a_wrong_table(text: str, said: str) -> None:
    assert refused(text).endswith(said)


@pytest.mark.parametrize("verb", ["check", "config", "kill-switch r", "preflight --run r", "history r"])
def test_each_verb_says_where_a_key_belongs(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = Home(tmp_path / "home")
    home.make()
    home.write(home.config, "[runs.r]\ngrace = '5m'\n")
    main([*verb.split(), "--home", str(home.path)])
    assert "grace: unknown key; its place is [runs.r.checks.log_staleness] grace" in capsys.readouterr().err


@pytest.mark.parametrize("entry", built_in(), ids=lambda entry: str(entry.name))
def test_each_parameter_of_a_check_is_found_from_its_run_or_disk(entry: PluginEntry) -> None:
    kind = "disks" if entry.declared.watches == "disk" else "runs"
    above = keys_at([kind, "x"], {kind: {"x": {}}})
    for key in entry.parameters:
        if key in above:
            assert f"[{kind}.x] {key}" in hint([kind, "x", "checks", "other"], key, [])
        elif entry.declared.watches:
            assert f"[{kind}.x.checks.{entry.name}] {key}" in place([kind, "x"], key) + place(
                [kind, "x", "checks", entry.name], key
            )


def test_each_key_of_each_table_is_found_from_every_other() -> None:
    paths = {table.path for table in tables() if SEVERAL not in table.path}
    asked = {(path, key) for table in tables() for key in table.keys for path in paths - {table.path}}
    for path, key in sorted(asked)[:: 5 if QUICK else 1]:
        where = ["x" if step == NAME else step for step in path]
        assert place(where, key).startswith("; its place is [")


def test_the_parameters_of_ones_own_plugins_count() -> None:
    mine = PluginEntry(
        "queue", "x.py", Source("x.py", "queue"), parameters={"depth": Parameter("depth", int, 3, "")}
    )
    assert place(["slurm"], "depth", [mine]) == '; its place is [checks.NAME] depth (plugin = "queue")'
