"""`watchdogd report`: what one or several homes know as one HTML file; `web`: the same live on loopback.

`web` is for an ssh tunnel, with `/metrics` for Prometheus. With several homes, `/` shows an overview; `/1/`
and `/1/metrics` belong to the first.
"""

from __future__ import annotations

import argparse
import re
import secrets
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from watchdogd.cli import status
from watchdogd.cli.lookup import store_of
from watchdogd.cli.output import one_line, print_line, seconds
from watchdogd.config.loading import load
from watchdogd.config.models import Config
from watchdogd.errors import HomeError, WatchdogError
from watchdogd.home.layout import Home, absolute
from watchdogd.system import umask
from watchdogd.system.smallfile import read_plain, replace_file

if TYPE_CHECKING:
    from watchdogd.web.server import Document

SINCE = "7d"
PORT = 8807
HTML = "text/html; charset=utf-8"
_TOKEN = re.compile(r"[A-Za-z0-9_-]{20,100}")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `report` and `web`."""
    if parser.get_default("verb") == "report":
        parser.add_argument(
            "-o", "--output", metavar="FILE", help="default: report.html in home; - for stdout"
        )
    else:
        parser.add_argument(
            "--port", type=int, default=PORT, help=f"on 127.0.0.1 ({PORT}); 0: any that is free"
        )
    parser.add_argument("--since", default=SINCE, metavar="TIME", help=f"how far back ({SINCE})")


def run(args: argparse.Namespace) -> int:
    """Write the page and return 0; or serve it until it is interrupted."""
    return _report(args) if args.verb == "report" else _serve(args)


def _serve(args: argparse.Namespace) -> int:
    from watchdogd.web.server import Server

    home, since = Home.existing(args.home), seconds(args, "--since")
    documents = documents_of(args.homes, since) if args.homes[1:] else _documents(args.home, since)
    try:
        server = Server(documents, token_of(home), args.port)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise HomeError(f"port {args.port}: {reason}: choose another with --port") from None
    with server:
        port = server.server_port
        print_line(server.address, at_once=True)
        tunnel = f"ssh -L {port}:127.0.0.1:{port} THIS-MACHINE"
        print_line(f"from elsewhere: {tunnel}, then the same address", at_once=True)
        server.serve_forever()
    return 0


def documents_of(homes: Sequence[str], since: float) -> dict[str, Document]:
    """Return the documents of several homes by their paths."""
    from watchdogd.web.server import Document

    links = [f"/{number}/" for number in range(1, len(homes) + 1)]
    first = Document(HTML, lambda: overview(homes, link=links.__getitem__, live=True))
    found = {"/": first}
    for link, home in zip(links, homes, strict=True):
        found |= _documents(home, since, link)
    return found


def _documents(path: str | None, since: float, at: str = "/") -> dict[str, Document]:
    from watchdogd.web.metrics import CONTENT_TYPE, metrics_text
    from watchdogd.web.server import Document

    def home() -> Home:
        return Home.existing(path)

    return {
        at: Document(HTML, lambda: page(home(), since, live=True)),
        f"{at}metrics": Document(CONTENT_TYPE, lambda: metrics_text(status.read(home()))),
    }


def token_of(home: Home) -> str:
    """Return the secret of this home's page, made once and kept, so that a bookmark stays valid."""
    path = home.path / ".web-token"
    try:
        found = read_plain(path, "replace").strip()
    except FileNotFoundError:
        found = ""
    except OSError as error:
        raise HomeError(f"{path} cannot be read: {error.strerror}: remove it") from None
    if not _TOKEN.fullmatch(found):
        found = secrets.token_urlsafe(24)
        home.write(path, found + "\n")
    return found


def _report(args: argparse.Namespace) -> int:
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
