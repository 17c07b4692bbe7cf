"""`watchdogd init`: make home, find out what this machine has, write a commented config.toml."""

from __future__ import annotations

import argparse
import grp
import os
import socket
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from watchdogd.cli.output import one_line, print_json, print_line, warn
from watchdogd.doctor import members
from watchdogd.doctor.diagnosis import FINE
from watchdogd.doctor.setup_wizard import Survey, survey, toml_string
from watchdogd.errors import HomeError, UsageError
from watchdogd.home.file_trust import distrust, team_of
from watchdogd.home.layout import Home
from watchdogd.system.account import group_name, own_name
from watchdogd.system.smallfile import create_file
from watchdogd.system.text import close_to


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("--group", metavar="GROUP", help="a Unix group that shares this home")
    parser.add_argument(
        "--interactive", action="store_true", help="ask for what Slurm, chat and disks offer, and try each"
    )
    parser.add_argument("--json", action="store_true", help="what was made and found, as JSON")


def run(args: argparse.Namespace) -> int:
    """Make what is missing; overwrite nothing."""
    if args.interactive and args.json:
        raise UsageError("init: --interactive asks a person: leave --json out")
    home, gid = Home.find(args.home), _gid(args.group)
    try:
        home.make(gid)
    except OSError as error:
        raise HomeError(f"{home.path} cannot be made: {error.strerror}: choose another with --home") from None
    found = None if home.config.exists() else survey()
    if args.interactive:
        return _ask(home, found, args.group)
    if found is not None and not _made(home, found, args.group):
        found = None
    warn(_warnings(home, gid))  # an existing folder keeps its rights
    if args.json:
        print_json(_json(home, found))
    elif found is None:
        print_line(f"{home.config} is there already and stays as it is")
    else:
        _say(home, found)
    return 0


def _ask(home: Home, found: Survey | None, group: str | None) -> int:
    """Write config.toml from a person's answers, or add to the existing one."""
    from watchdogd.cli.setup import interview

    person = interview.Person()
    if found is None or not _made(home, interview.placed(found, person), group):
        print_line(f"{home.config} is there already: what you choose is added to it")
    warn(_warnings(home, None))
    return interview.go_on(home, person, (found or survey()).places)


def _made(home: Home, found: Survey, group: str | None) -> bool:
    """Write config.toml; return False if somebody else did while this machine was examined."""
    try:
        create_file(str(home.config), render(found, group), home.file_mode, home.group)
    except FileExistsError:
        return False
    return True


def _warnings(home: Home, gid: int | None) -> Iterator[str]:
    """Yield what will not work here: home can be changed by others, or its members cannot use it."""
    if reason := distrust(home.path, team_of(home.path)):
        yield reason
    if gid is not None and home.group != gid:
        name = group_name(gid)
        yield f"{home.path} is there already and not shared with {name}: set group = {toml_string(name)} " + (
            "under [daemon], and start it"
        )
    if home.group is not None:
        found = members.found_in(home, home.group)
        yield from (f"{each.text}: {each.fix}" for each in found if each.state != FINE)


def render(found: Survey, group: str | None) -> str:
    """Return a config.toml for what was found: settings that matter here, the others as comments."""
    blocks = (_daemon(group), _slurm(found, group), _channels(found), _runs(found), _disks(found))
    return _HEAD + "".join("\n" + "\n".join(block) + "\n" for block in blocks)


_HEAD = """\
# watchdogd: what to watch, and whom to notify. 'watchdogd doctor' tries all of it.
# Every key is explained by: watchdogd config --example
"""


def _daemon(group: str | None) -> list[str]:
    shared = f"group = {toml_string(group)}" if group else '# group = "team"'
    return [
        "[daemon]",
        'interval = "1m"     # how often a check runs that names no cadence of its own',
        "confirm = 2         # bad results in a row before anybody is notified",
        f"{shared}    # Unix group that shares this home",
    ]


def _slurm(found: Survey, group: str | None) -> list[str]:
    if found.pbs:
        return [
            "# PBS was found here: its jobs are asked for by qstat.",
            "# watchdogd itself is no job there: it lives on a login node, by 'start --local' or cron.",
            "[slurm]",
            f"group = {toml_string(group)}   # whose jobs count, whoever of them starts it: its members'"
            if group
            else '# users = ["alice", "bob"]   # whose jobs count; left out: your own',
        ]
    if not found.slurm:
        return ["# No Slurm was found here: runs are watched as processes (pid_file or command)."]
    chosen = found.cpu_partition
    trouble = [f"# Slurm did not answer: {one_line(found.slurm_trouble)}"] if found.slurm_trouble else []
    why = (
        "its nodes are billed whole: see 'watchdogd start --mode tick'" if chosen and chosen.exclusive else ""
    )
    account = found.accounts[0] if len(found.accounts) == 1 else ""
    accounts = f"   # one of {', '.join(found.accounts)}" if len(found.accounts) > 1 else ""
    return [
        "[slurm]",
        *trouble,
        *[f"# partition: {partition}" for partition in found.partitions],
        f"partition = {toml_string(chosen.name)}   # where the daemon lives: {why or 'CPUs are enough'}"
        if chosen
        else '# partition = "small"   # where the daemon lives: CPUs are enough',
        f"account = {toml_string(account)}" if account else f'# account = "project"{accounts}',
        f"group = {toml_string(group)}   # whose jobs count, whoever of them starts it: its members'"
        if group
        else '# users = ["alice", "bob"]   # whose jobs count; left out: your own',
    ]


def _channels(found: Survey) -> list[str]:
    relay = "a mail relay listens on this machine" if found.mail_relay else "no mail relay was found here"
    me = f"{own_name()}@{socket.getfqdn()}"
    return f"""\
# Whom to notify: take out the # of one, and try it with 'watchdogd notify --test'.
# [channels.slack]
# type = "slack"
# webhook_url = "file:~/.slack-webhook"   # or "env:SLACK_WEBHOOK_URL"

# {relay}
# [channels.mail]
# type = "email"
# smtp = "smtp://localhost:25"
# from = {toml_string(me)}
# to = [{toml_string(me)}]

[channels.console]
type = "console"     # the daemon's own log""".splitlines()


def _runs(found: Survey) -> list[str]:
    jobs = found.slurm or found.pbs
    how = "'watchdogd watch JOB' adds one for a live job:" if jobs else "One table for each:"
    process = "" if jobs else '# pid_file = "/path/of/train.pid"\n'
    gpus = f"   # found here: {', '.join(found.gpu_tools)}" if found.gpu_tools else ""
    return f"""\
# Trainings. {how}
# [runs.run-17]
# job_name = "my-training"          # the job's name; left out: the run's
{process}# log = "/scratch/me/logs/train*.log"
# stale_after = "20m"               # silence that counts as a hang; left out: learned
# kill_switch = "/scratch/me/kill-switch"
# gpus_per_node = 8{gpus}""".splitlines()


def _disks(found: Survey) -> list[str]:
    tools = f"; quota tools found here: {', '.join(found.quota_tools)}" if found.quota_tools else ""
    lines = [f"# Places that must not fill up{tools}"]
    for name, path in found.places.items():
        lines += [f"[disks.{name}]", f"path = {toml_string(path)}   # ${name.upper()} as it is here", ""]
    return [
        *lines,
        "# [disks.home]",
        '# path = "~"',
        '# quota = "auto"     # by the type of the file system; or a command of the site',
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
    none = "not found, but PBS" if found.pbs else "not found"
    print_line(f"  Slurm: {one_line(slurm) if found.slurm else none}")
    print_line(f"  quota tools: {', '.join(found.quota_tools) or 'none'}")
    print_line(f"  GPU tools: {', '.join(found.gpu_tools) or 'none here; those of the nodes are used'}")
    print_line(f"  mail relay on this machine: {'yes' if found.mail_relay else 'no'}")
    print_line(f"  disks: {', '.join(found.places.values()) or 'none named by SCRATCH, WORK or PROJECT'}")
    print_line(f"next: say in {home.config} whom to notify, and what to watch:")
    verbs = ("watch JOB" if found.slurm or found.pbs else "config", "doctor", "start")
    print_line(f"  {', '.join(map(home.command, verbs))}")


def _json(home: Home, found: Survey | None) -> dict[str, Any]:
    """Return what was made and what was found on this machine (null: not looked for)."""
    return {
        "home": str(home.path),
        "made": found is not None,
        "found": None if found is None else asdict(found),
    }
