"""The pages that are made of the code itself, so that they cannot drift: checks, verbs, config.toml."""

from __future__ import annotations

import argparse
import importlib
import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File

from watchdogd.cli import VERBS
from watchdogd.cli.plugins import entry_json
from watchdogd.engine.catalog import discover
from watchdogd.home import Home
from watchdogd.units import format_duration

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

    from watchdogd.engine.catalog import Entry

PROJECT = Path(__file__).resolve().parents[1]
_OUTSIDE = re.compile(r"\[([^\]]*)\]\(\.\./([^)]*)\)")
"""A link to a file of the project that is no page."""
_CHECKS = """\
# What it sees

Four outcomes, never fewer: OK, WARNING, CRITICAL, and UNKNOWN for "could not be found out", which after a
while is an incident of its own and never a false "gone". A run brings its checks by itself, as far as their
keys are set; each can be tuned or switched off under `[runs.NAME.checks.PLUGIN]`.
"""
_VERBS = """\
# Verbs

Every verb takes `--home DIR`; without it home is `$WATCHDOGD_HOME`, else `~/.watchdogd`.

"""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what is made."""
    entries = [entry for entry in discover(Home(Path("/nonexistent"))).values() if not entry.foreign]
    made = {f"checks/{entry.name}.md": check_page(entry) for entry in entries}
    made["checks/index.md"] = checks_page(entries)
    made["verbs.md"] = verbs_page()
    made["configuration.md"] = configuration_page()
    for path, text in made.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Files of the project that are no pages are named, not linked."""
    return _OUTSIDE.sub(r"`\2`", markdown)


def check_page(entry: Entry) -> str:
    """Why and how it judges: its module's own words; then its parameters."""
    module = importlib.import_module(entry.source.module)
    title, _, reasoning = (inspect.getdoc(module) or "").partition("\n\n")
    described = entry_json(entry)
    rows = "\n".join(
        f"| `{name}` | {_cell(each['type'])} | {_default(each)} | {_cell(each['doc'])} |"
        for name, each in described["parameters"].items()
    )
    every = f"every {format_duration(entry.every)}" if entry.every else "at `[daemon] interval`"
    return (
        f"# {entry.name}\n\n{title.partition(': ')[2].capitalize()}\n\n{reasoning}\n\n"
        f"## Parameters\n\nIt runs {every}, unless `every` says otherwise.\n\n"
        f"| parameter | type | default | meaning |\n| --- | --- | --- | --- |\n{rows}\n"
    )


def checks_page(entries: list[Entry]) -> str:
    """All of them in one table."""
    rows = "\n".join(f"| [{entry.name}]({entry.name}.md) | {entry.description} |" for entry in entries)
    return f"{_CHECKS}\n| check | what it asks |\n| --- | --- |\n{rows}\n"


def verbs_page() -> str:
    """The help of every verb, as it prints it."""
    parts = [f"## {verb}\n\n```text\n{help_of(verb)}```\n" for verb in VERBS]
    return _VERBS + "\n".join(parts)


def help_of(verb: str) -> str:
    """What `watchdogd VERB --help` prints."""
    module = importlib.import_module(f"watchdogd.cli.{VERBS[verb][0]}")
    parser = argparse.ArgumentParser(
        prog=f"watchdogd {verb}",
        description=VERBS[verb][1],
        formatter_class=lambda prog: argparse.HelpFormatter(prog, width=100),
    )
    parser.set_defaults(verb=verb)
    module.arguments(parser)
    return parser.format_help()


def configuration_page() -> str:
    """config.example.toml, which a test loads."""
    text = (PROJECT / "config.example.toml").read_text("utf-8")
    return f"# config.toml\n\nEvery key with its meaning.\n\n```toml\n{text}```\n"


def _cell(value: object) -> str:
    return str(value or "").replace("|", "\\|")


def _default(parameter: dict[str, Any]) -> str:
    if parameter["required"]:
        return "required"
    return "" if parameter["default"] in (None, "", [], {}) else f"`{parameter['default']}`"
