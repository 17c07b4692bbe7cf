"""Questions of `watchdogd init --interactive`: Enter takes the answer in brackets; doctor comes last."""

from __future__ import annotations

import os
import re
import shutil
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from watchdogd.batch import pbs, slurm
from watchdogd.batch.models import Job
from watchdogd.cli import check, notify, parser_of
from watchdogd.cli.output import one_line, print_line
from watchdogd.cli.setup import doctor, watch
from watchdogd.config.loading import load, parse
from watchdogd.doctor.setup_wizard import (
    Survey,
    append,
    appended,
    config_text,
    run_name,
    toml_key,
    toml_string,
)
from watchdogd.errors import ConfigError, UsageError, WatchdogError
from watchdogd.home.layout import Home
from watchdogd.notify.message import test_message
from watchdogd.system.account import own_name
from watchdogd.system.smallfile import create_file

Table = tuple[Mapping[str, str | list[str]], str]
"""Keys of a channel's table, and the one that is a secret to be kept in a file."""


class Person:
    """The person who answers. Raise UsageError if their input ends."""

    def ask(self, question: str, default: str = "") -> str:
        try:
            return input(f"{question} [{default}]: " if default else f"{question}: ").strip() or default
        except (EOFError, UnicodeDecodeError):
            print_line("")
            what = "its input ended before the last question; what was answered stays in config.toml"
            raise UsageError(f"init: {what}: type 'watchdogd init --interactive' again") from None

    def yes(self, question: str) -> bool:
        """Return True if they agree; an empty answer is no."""
        return self.ask(f"{question} (y/n)", "n").lower() in ("y", "yes")

    def choose(self, question: str, options: Mapping[str, str], default: str) -> str:
        """Return one of the options, chosen by number or name."""
        names = list(options)
        for number, (name, what) in enumerate(options.items(), 1):
            print_line(f"  {number}  {one_line(what or name)}")
        while (said := self.ask(question, default)) not in options:
            if said.isdecimal() and 1 <= int(said) <= len(names):
                return names[int(said) - 1]
            print_line(f"'{one_line(said)}' is none of them: type a number from 1 to {len(names)}")
        return said

    def several(self, question: str, options: Mapping[str, str]) -> list[str]:
        """Return some of the options: all, none, or by numbers."""
        names = list(options)
        for number, what in enumerate(options.values(), 1):
            print_line(f"  {number}  {one_line(what)}")
        while True:
            said = self.ask(f"{question} (numbers, all or none)", "all").lower()
            words = [] if said == "none" else re.split(r"[\s,]+", said)
            if words == ["all"]:
                return names
            if all(word.isdecimal() and 1 <= int(word) <= len(names) for word in words):
                return [names[number] for number in sorted({int(word) - 1 for word in words})]
            print_line(f"type numbers from 1 to {len(names)} with commas, all or none")


def placed(found: Survey, person: Person) -> Survey:
    """Return the survey with the chosen partition and account, without disks."""
    if not found.slurm or found.slurm_trouble:
        return replace(found, places={})
    partition, chosen = "", found.cpu_partition or next(iter(found.partitions), None)
    if chosen:
        print_line("Where shall the watchdog live? One core is enough.")
        options = {each.name: str(each) for each in found.partitions}
        partition = person.choose("partition", options, chosen.name)
    print_line("Which account pays for it? Empty is your default one.")
    known = dict.fromkeys(found.accounts, "")
    account = person.choose("account", known, found.accounts[0]) if len(known) > 1 else person.ask(
        "account", found.accounts[0] if found.accounts else ""
    )  # fmt: skip
    return replace(found, partition=partition, accounts=(account,) if account else (), places={})


def go_on(home: Home, person: Person, places: Mapping[str, str]) -> int:
    """Ask for channels, jobs and disks, add each at once, and let doctor examine the result."""
    _add_channels(home, person)
    _add_runs(home, person)
    _add_disks(home, person, places)
    print_line("\nThe doctor tries all of it:")
    doctor.run(parser_of(doctor, "doctor").parse_args(["--home", str(home.path)]))
    print_line(f"\nTo start it: {home.command('start')}")
    return 0


# ---- channels


def _add_channels(home: Home, person: Person) -> None:
    print_line("\nWhom shall it notify? A test message goes out at once.")
    kinds = {"slack": "Slack", "email": "e-mail", "webhook": "a webhook of your own", "none": "nobody else"}
    default = "none" if len(load(home).channels) > 1 else "slack"
    while (kind := person.choose("channel", kinds, default)) != "none":
        keys, secret = _CHANNELS[kind](person)
        try:
            if all(keys.values()) and _is_tried(home, person, kind, keys):
                _add_channel(home, kind, keys, secret)
                default = "none"
        except WatchdogError as error:
            print_line(one_line(str(error)))


def _slack(person: Person) -> Table:
    return {"webhook_url": _secret(person, "URL of its incoming webhook", "~/.slack-webhook")}, "webhook_url"


def _webhook(person: Person) -> Table:
    return {"url": _secret(person, "URL", "~/.watchdogd-webhook")}, "url"


def _email(person: Person) -> Table:
    me = f"{own_name()}@{socket.getfqdn()}"
    smtp = person.ask("server", "smtp://localhost:25")
    to = person.ask("to whom, with commas", me)
    return {"smtp": smtp, "from": person.ask("from", me), "to": re.split(r"[\s,]+", to)}, ""


_CHANNELS: Mapping[str, Callable[[Person], Table]] = {"slack": _slack, "email": _email, "webhook": _webhook}


def _secret(person: Person, question: str, path: str) -> str:
    known = f"file:{path}" if os.path.exists(os.path.expanduser(path)) else ""
    return person.ask(f"{question}, or file:PATH or env:NAME that has it", known)


def _is_tried(home: Home, person: Person, kind: str, keys: Mapping[str, str | list[str]]) -> bool:
    """Send a test message; return True if the channel is to be kept. Raise ConfigError if it cannot be."""
    config = parse(appended(config_text(home), _channel_table("tried", kind, keys)), home.config)
    message = test_message(config.daemon.name, socket.gethostname(), own_name(), time.time())
    trouble, fix = notify.deliver("tried", message, config, home)
    print_line(f"not delivered: {trouble}" if trouble else "delivered: is it there?")
    if fix:
        print_line(one_line(fix))
    return not trouble or person.yes("keep it all the same?")


def _add_channel(home: Home, kind: str, keys: Mapping[str, str | list[str]], secret: str) -> None:
    name = run_name(kind, load(home).channels)
    text = keys.get(secret, "")
    if isinstance(text, str) and text and not text.startswith(("file:", "env:")):
        wanted = "slack-webhook" if kind == "slack" else "watchdogd-webhook"
        keys = {**keys, secret: f"file:{_kept(text, wanted)}"}
    append(home, _channel_table(name, kind, keys))
    print_line(f"added [channels.{name}] to {home.config}")


def _kept(text: str, name: str) -> str:
    """Write a secret to a file that only this person can read; return its path."""
    for number in range(1, 100):
        path = Path.home() / (f".{name}" if number == 1 else f".{name}-{number}")
        try:
            create_file(str(path), text + "\n", 0o600)
        except FileExistsError:
            continue
        except OSError as error:
            raise ConfigError(f"{path} cannot be written: {error.strerror}") from None
        return f"~/{path.name}"
    raise ConfigError(f"~/.{name} and 98 more are there already: remove some")


def _channel_table(name: str, kind: str, keys: Mapping[str, str | list[str]]) -> str:
    lines = [f"[channels.{toml_key(name)}]", f"type = {toml_string(kind)}"]
    for key, value in keys.items():
        text = toml_string(value) if isinstance(value, str) else f"[{', '.join(map(toml_string, value))}]"
        lines.append(f"{key} = {text}")
    return "\n".join(lines) + "\n"


# ---- runs and disks


def _add_runs(home: Home, person: Person) -> None:
    try:
        jobs = {job.name: job for job in _own_jobs()}
    except WatchdogError as error:
        print_line(f"\n{one_line(str(error))}")
        return
    if not jobs:
        print_line(f"\nYou have no live job; later: {home.command('watch JOB')}")
        return
    print_line("\nWhich of your live jobs shall it watch?")
    labels = {name: f"{job.id} {name} ({job.state})" for name, job in jobs.items()}
    for name in person.several("jobs", labels):
        words = ["--home", str(home.path), jobs[name].id]
        try:
            watch.run(parser_of(watch, "watch").parse_args(words))
        except WatchdogError as error:  # it ended meanwhile, say
            print_line(one_line(str(error)))


def _own_jobs() -> Iterator[Job]:
    if shutil.which("squeue"):
        listed: Iterable[Job] = slurm.listed_jobs([own_name()])
    elif shutil.which("qstat"):
        listed = (job for job in pbs.all_jobs(slurm.QUERY_DEADLINE) if job.user == own_name())
    else:
        raise WatchdogError("No Slurm is here: runs are processes, see 'watchdogd config --example'.")
    return (job for job in listed if not (job.ended or job.own))


def _add_disks(home: Home, person: Person, places: Mapping[str, str]) -> None:
    config = load(home)
    watched = {os.path.realpath(os.path.expanduser(disk.path)) for disk in config.disks.values()}
    taken = {*config.runs, *config.disks, *config.checks}
    offered = {path: name for name, path in {**places, "home": str(Path.home())}.items()}
    print_line("\nWhich folders must not fill up? Their quotas are looked for.")
    said = person.ask("folders, with commas, or none", ", ".join(offered))
    added = []
    for path in [] if said == "none" else filter(None, (each.strip() for each in said.split(","))):
        folder = os.path.expanduser(path)
        if not os.path.isabs(folder) or os.path.realpath(folder) in watched:
            why = "is watched already" if os.path.isabs(folder) else "is no path from / on"
            print_line(f"{one_line(path)} {why}: left out")
            continue
        name = run_name(offered.get(folder) or os.path.basename(folder.rstrip("/")) or "root", taken)
        taken.add(name)
        watched.add(os.path.realpath(folder))
        try:
            append(home, f"[disks.{toml_key(name)}]\npath = {toml_string(folder)}\n")
        except ConfigError as error:
            print_line(one_line(str(error)))
            continue
        added.append(name)
    if added:
        check.show(home, added)
