"""`watchdogd export` and `import FILE`: the whole history as JSON lines and back, for any database."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from watchdogd.cli.history import print_csv
from watchdogd.cli.lookup import store_of
from watchdogd.cli.output import print_line
from watchdogd.config.loading import load
from watchdogd.errors import HistoryError, HomeError
from watchdogd.history.store import Store
from watchdogd.home import lease
from watchdogd.home.layout import Home
from watchdogd.system import smallfile


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    if parser.get_default("verb") == "import":
        parser.add_argument("file", metavar="FILE", help="what 'watchdogd export' wrote; -: standard input")
        return
    parser.add_argument("-o", "--output", metavar="FILE", help="write it there, not to standard output")
    parser.add_argument("--csv", action="store_true", help="the observations alone, one row a number")


def run(args: argparse.Namespace) -> int:
    """Export or import everything; always return 0."""
    home = Home.existing(args.home)
    return _take_in(home, args.file) if args.verb == "import" else _write(home, args.output, csv=args.csv)


def _write(home: Home, path: str | None, *, csv: bool) -> int:
    with store_of(home) as store, _target(path) as file:
        if csv:
            print_csv(store.readings(), file)
        else:
            store.export(lambda line: print(line, file=file))
    return 0


@contextmanager
def _target(path: str | None) -> Iterator[TextIO]:
    """Yield standard output, or a file that appears completely or not at all."""
    if path is None:
        yield sys.stdout
        return
    try:
        made = smallfile.write_draft(os.path.abspath(path), "", 0o600)
    except OSError as error:
        raise HomeError(f"{path} cannot be written: {error.strerror}: choose another with -o") from None
    try:
        with open(made, "w", encoding="utf-8") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(made, path)
    except BaseException:  # leave no half-written file behind; then raise it again
        os.unlink(made)
        raise


def _take_in(home: Home, path: str) -> int:
    holder = lease.alive(home)
    if holder is not None:
        raise HistoryError(f"import: {holder} writes this history: stop it first (watchdogd stop)")
    store = Store.open(load(home).history.url, home)
    try:
        with _source(path) as lines:
            rows = store.bring_in(lines)
    finally:
        store.close()
    print_line(f"{rows} rows are taken in")
    return 0


@contextmanager
def _source(path: str) -> Iterator[TextIO]:
    if path == "-":
        yield sys.stdin
        return
    with Path(path).open(encoding="utf-8") as file:
        yield file
