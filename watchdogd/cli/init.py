"""`watchdogd init`: make home, find out what this machine has, write a commented config.toml."""

from __future__ import annotations

import grp
import json
import os
from typing import TYPE_CHECKING

from watchdogd.cli.output import print_line
from watchdogd.errors import HomeError, UsageError
from watchdogd.home import Home
from watchdogd.nearest import close_to
from watchdogd.survey import Survey, survey

if TYPE_CHECKING:
    import argparse


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    parser.add_argument("--group", metavar="GROUP", help="a Unix group that shares this home")


def run(args: argparse.Namespace) -> int:
    """Make what is missing; overwrite nothing."""
    home = Home.find(args.home)
    try:
        home.make(_gid(args.group))
    except OSError as error:
        raise HomeError(f"{home.path} cannot be made: {error.strerror}: choose another with --home") from None
    if home.config.exists():
        print_line(f"{home.config} is there already and stays as it is")
        return 0
    found = survey()
    home.write(home.config, render(found, args.group))
    _say(home, found)
    return 0


def render(found: Survey, group: str | None) -> str:
    """A config.toml for what was found: settings that matter here, the others as comments."""
    return "\n".join(
        [
            "# watchdogd: what to watch, and whom to tell. Check an edit with 'watchdogd config'.",
            "# Every key is explained in config.example.toml of the project.",
            "",
            "[daemon]",
            'interval = "1m"     # how often a check runs that names no cadence of its own',
            "confirm = 2         # bad results in a row before anybody is told",
            f"group = {json.dumps(group)}"
            if group
            else '# group = "team"    # Unix group that shares this home',
            "",
            *_slurm(found),
            "",
            *_channels(found),
            "",
            *_runs(found),
            "",
            *_disks(found),
            "",
        ]
    )


def _slurm(found: Survey) -> list[str]:
    if not found.slurm:
        return ["# No Slurm was found here: runs are watched as processes (pid_file or command)."]
    chosen = found.cpu_partition
    known = [f"# partition: {partition}" for partition in found.partitions]
    trouble = [f"# Slurm did not answer: {found.slurm_trouble}"] if found.slurm_trouble else []
    account = found.accounts[0] if len(found.accounts) == 1 else ""
    accounts = f"   # one of {', '.join(found.accounts)}" if len(found.accounts) > 1 else ""
    return [
        "[slurm]",
        *trouble,
        *known,
        f"partition = {json.dumps(chosen.name)}   # where the daemon lives: CPUs are enough"
        if chosen
        else '# partition = "small"   # where the daemon lives: CPUs are enough',
        f"account = {json.dumps(account)}" if account else f'# account = "project"{accounts}',
        '# users = ["alice", "bob"]   # whose jobs count; left out: your own',
    ]


def _channels(found: Survey) -> list[str]:
    relay = "# a mail relay listens on this machine" if found.mail_relay else "# no mail relay was found here"
    mail = [
        "[channels.mail]",
        'type = "email"',
        'smtp = "smtp://localhost:25"',
        'from = "watchdog@example.org"',
        'to = ["you@example.org"]',
    ]
    return [
        "# Whom to tell: take out the # of one, and try it with 'watchdogd notify --test'.",
        "# [channels.slack]",
        '# type = "slack"',
        '# webhook_url = "env:SLACK_WEBHOOK_URL"   # or "file:~/.slack-webhook"',
        relay,
        *[f"# {line}" for line in mail],
        "[channels.console]",
        'type = "console"     # the daemon\'s own log',
    ]


def _runs(found: Survey) -> list[str]:
    process = "" if found.slurm else '# pid_file = "/path/of/train.pid"\n'
    gpus = f"   # found here: {', '.join(found.gpu_tools)}" if found.gpu_tools else ""
    text = f"""# What to watch. One table for each training:
# [runs.run-17]
# job_name = "my-training"          # the Slurm job's name; left out: the run's
{process}# log = "/scratch/me/logs/train*.log"
# stale_after = "20m"               # silence that counts as a hang
# kill_switch = "/scratch/me/kill-switch"
# gpus_per_node = 8{gpus}"""
    return text.splitlines()


def _disks(found: Survey) -> list[str]:
    tools = f"   # found here: {', '.join(found.quota_tools)}" if found.quota_tools else ""
    return [
        "# One table for each place that must not fill up:",
        "# [disks.scratch]",
        '# path = "/scratch/me"',
        f'# quota = "auto"{tools}',
        '# warn_free = "10%"',
    ]


def _gid(group: str | None) -> int | None:
    if group is None:
        return None
    try:
        gid = grp.getgrnam(group).gr_gid
    except KeyError:
        hint = close_to(group, [entry.gr_name for entry in grp.getgrall()])
        raise UsageError(f"init: there is no Unix group '{group}' on this machine{hint}") from None
    mine = {os.getegid(), *os.getgroups()}
    if os.geteuid() != 0 and gid not in mine:
        raise UsageError(
            f"init: you are no member of group '{group}': name one of your own ({', '.join(_names(mine))})"
        )
    return gid


def _names(gids: set[int]) -> list[str]:
    return sorted(entry.gr_name for entry in grp.getgrall() if entry.gr_gid in gids)


def _say(home: Home, found: Survey) -> None:
    print_line(f"made {home.path}")
    slurm = ", ".join(map(str, found.partitions)) or found.slurm_trouble or "no partitions"
    print_line(f"  Slurm: {slurm if found.slurm else 'not found'}")
    print_line(f"  quota tools: {', '.join(found.quota_tools) or 'none'}")
    print_line(f"  GPU tools: {', '.join(found.gpu_tools) or 'none'}")
    print_line(f"  mail relay on this machine: {'yes' if found.mail_relay else 'no'}")
    print_line(f"next: say in {home.config} what to watch, then 'watchdogd check' and 'watchdogd start'")
