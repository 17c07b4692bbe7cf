"""`watchdogd web`: the page live on loopback, for an ssh tunnel; `/metrics` for Prometheus beside it."""

from __future__ import annotations

import argparse
import re
import secrets

from watchdogd.cli import report, status
from watchdogd.cli.output import print_line, seconds
from watchdogd.errors import HomeError
from watchdogd.home.layout import Home
from watchdogd.system.smallfile import read_plain

PORT = 8807
_TOKEN = re.compile(r"[A-Za-z0-9_-]{20,100}")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("--port", type=int, default=PORT, help=f"on 127.0.0.1 ({PORT}); 0: any that is free")
    parser.add_argument(
        "--since", default=report.SINCE, metavar="TIME", help=f"how far back ({report.SINCE})"
    )


def run(args: argparse.Namespace) -> int:
    """Serve until it is interrupted."""
    from watchdogd.web.metrics import CONTENT_TYPE, metrics_text
    from watchdogd.web.server import Document, Server

    home = Home.existing(args.home)
    since = seconds(args, "--since")
    documents = {
        "/": Document("text/html; charset=utf-8", lambda: report.page(home, since, live=True)),
        "/metrics": Document(CONTENT_TYPE, lambda: metrics_text(status.read(home))),
    }
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


def token_of(home: Home) -> str:
    """Return the secret of this home's page, made at the first call and kept, so that a bookmark holds."""
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
