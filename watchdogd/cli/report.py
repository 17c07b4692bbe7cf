"""`watchdogd report`: what one or several homes know as one HTML file, to be put where people look."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from watchdogd.cli import status
from watchdogd.cli.lookup import store_of
from watchdogd.cli.output import one_line, print_line, seconds
from watchdogd.config.loading import load
from watchdogd.config.models import Config
from watchdogd.errors import HomeError, WatchdogError
from watchdogd.home.layout import Home, absolute
from watchdogd.system import umask
from watchdogd.system.smallfile import replace_file

SINCE = "7d"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("-o", "--output", metavar="FILE", help="default: report.html in home; - for stdout")
    parser.add_argument("--since", default=SINCE, metavar="TIME", help=f"how far back ({SINCE})")


def run(args: argparse.Namespace) -> int:
    """Write the page atomically; always return 0."""
    home, since = Home.find(args.home), seconds(args, "--since")
    if args.homes[1:]:
        text = overview(args.homes, page=lambda home, config, seen: _rendered(home, config, seen, since))
    else:
        text = page(Home.existing(args.home), since)
    if args.output == "-":
        print(text)
        return 0
    file = Path(args.output).absolute() if args.output else home.path / "report.html"
    try:
        replace_file(str(file), text, _mode(file, home), home.group if not args.output else None)
    except OSError as error:
        raise HomeError(f"{file} cannot be written: {error.strerror}: choose another with -o") from None
    print_line(str(file))
    return 0


def page(home: Home, since: float, *, live: bool = False) -> str:
    """Render the page of a home, from `since` seconds ago."""
    return _rendered(home, load(home, pressing=True), status.read(home), since, live=live)


def _rendered(home: Home, config: Config, seen: dict[str, Any], since: float, *, live: bool = False) -> str:
    from watchdogd.web.content import gather
    from watchdogd.web.render import render

    now = time.time()
    logs = {name: absolute(home, run.log) for name, run in config.runs.items() if run.log}
    with store_of(home) as store:
        content = gather(home, store, seen, config.daemon.name, since=now - since, now=now, logs=logs)
        return render(content, live=live)


def overview(
    paths: Sequence[str],
    *,
    link: Callable[[int], str] = lambda _: "",
    page: Callable[[Home, Config, dict[str, Any]], str] = lambda *_: "",
    live: bool = False,
) -> str:
    """Render the page of several homes; what cannot be read of one is noted in its row."""
    from watchdogd.web.homes import HomeRow, render_homes, row_of

    rows = []
    for number, path in enumerate(paths):
        try:
            home = Home.existing(path)
            config, seen = load(home, pressing=True), status.read(home)
            its = page(home, config, seen)
            rows.append(row_of(config.daemon.name, path, seen, link=link(number), page=its))
        except WatchdogError as error:
            rows.append(HomeRow(path, path, trouble=one_line(str(error))))
    return render_homes(rows, time.time(), live=live)


def _mode(file: Path, home: Home) -> int:
    """Return the file's mode: in home, that of home's files; elsewhere by umask, writable by its owner."""
    if file.parent == home.path:
        return home.file_mode
    return 0o666 & ~(umask.sane() | 0o022)
