"""`watchdogd web`: the page live on loopback, for an ssh tunnel; `/metrics` for Prometheus beside it.

With several homes, `/` shows an overview; `/1/` and `/1/metrics` belong to the first.
"""

from __future__ import annotations

import argparse
import re
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING

from watchdogd.cli import report, status
from watchdogd.cli.output import print_line, seconds
from watchdogd.errors import HomeError
from watchdogd.home.layout import Home
from watchdogd.system.smallfile import read_plain

if TYPE_CHECKING:
    from watchdogd.web.server import Document

PORT = 8807
HTML = "text/html; charset=utf-8"
_TOKEN = re.compile(r"[A-Za-z0-9_-]{20,100}")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("--port", type=int, default=PORT, help=f"on 127.0.0.1 ({PORT}); 0: any that is free")
    parser.add_argument(
        "--since", default=report.SINCE, metavar="TIME", help=f"how far back ({report.SINCE})"
    )


def run(args: argparse.Namespace) -> int:
    """Serve until it is interrupted."""
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
    first = Document(HTML, lambda: report.overview(homes, link=links.__getitem__, live=True))
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
        at: Document(HTML, lambda: report.page(home(), since, live=True)),
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
