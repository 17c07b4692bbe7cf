"""Write docs/checks/: a page for each built-in check, made of its own words, and one that lists them.

They stand in the repository, so that they can be read where the project is; a test compares them with the
code. Run it where a built-in check or its parameters changed: python scripts/checkpages.py
"""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any

from watchdogd.cli.setup.plugins import entry_json
from watchdogd.daemon.registry.plugin_registry import discover
from watchdogd.home.layout import Home
from watchdogd.units import format_duration

if TYPE_CHECKING:
    from watchdogd.daemon.registry.plugin_registry import PluginEntry

TARGET = Path(__file__).resolve().parents[1] / "docs" / "checks"
_INDEX = """\
# What it sees

Four outcomes, never fewer: OK, WARNING, CRITICAL, and UNKNOWN for "could not be found out", which after a
while is an incident of its own and never a false "gone". A run brings its checks by itself, as far as their
keys are set; each can be tuned or switched off under `[runs.NAME.checks.PLUGIN]`.
"""
_FORMATS = {"log_staleness": "watchdogd.parsers.logs.progress"}
"""Check → the module whose second paragraph lists the formats that it knows."""


def _capital(text: str) -> str:
    """Return a sentence with a capital at its beginning; names such as GPU stay as they are."""
    return text[:1].upper() + text[1:]


def pages() -> dict[str, str]:
    """The text of each page by its file's name."""
    entries = [entry for entry in discover(Home(Path("/nonexistent"))).values() if not entry.foreign]
    return {f"{entry.name}.md": _page(entry) for entry in entries} | {"index.md": _index(entries)}


def _page(entry: PluginEntry) -> str:
    """Why and how it judges: its module's own words; then its parameters."""
    title, _, reasoning = _words(entry.source.module).partition("\n\n")
    described = entry_json(entry)
    rows = "\n".join(
        f"| `{name}` | {_cell(each['type'])} | {_default(each)} | {_cell(each['doc'])} |"
        for name, each in described["parameters"].items()
    )
    every = f"every {format_duration(entry.every)}" if entry.every else "at `[daemon] interval`"
    return (
        f"# {entry.name}\n\n{_capital(title.partition(': ')[2])}\n\n{reasoning}\n\n{_formats(entry.name)}"
        f"## Parameters\n\nIt runs {every}, unless `every` says otherwise.\n\n"
        f"| parameter | type | default | meaning |\n| --- | --- | --- | --- |\n{rows}\n"
    )


def _formats(check: str) -> str:
    """A paragraph on the formats that the check knows, where its readers list some."""
    if check not in _FORMATS:
        return ""
    return f"## Formats\n\n{_words(_FORMATS[check]).split(chr(10) * 2)[1]}\n\n"


def _words(module: str) -> str:
    return inspect.getdoc(importlib.import_module(module)) or ""


def _index(entries: list[PluginEntry]) -> str:
    """All of them in one table."""
    rows = "\n".join(f"| [{entry.name}]({entry.name}.md) | {entry.description} |" for entry in entries)
    return f"{_INDEX}\n| check | what it asks |\n| --- | --- |\n{rows}\n"


def _cell(value: object) -> str:
    return str(value or "").replace("|", "\\|")


def _default(parameter: dict[str, Any]) -> str:
    if parameter["required"]:
        return "required"
    return "" if parameter["default"] in (None, "", [], {}) else f"`{parameter['default']}`"


if __name__ == "__main__":
    TARGET.mkdir(exist_ok=True)
    for name, text in pages().items():
        (TARGET / name).write_text(text)
