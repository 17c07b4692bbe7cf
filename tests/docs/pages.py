"""What the pages tell a reader to type and to write, in order."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(__file__).resolve().parents[2] / "docs"
README = FOLDER.parent / "README.md"
_BLOCK = re.compile(r'^```(\w*)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Step:
    """A file to write (`file` is its path as the page names it), or a command to type."""

    text: str
    file: str = ""


def pages() -> list[Path]:
    """All pages that are written by hand."""
    return sorted(FOLDER.glob("*.md"))


def steps(page: Path) -> Iterator[Step]:
    """Files and commands, as they come."""
    for language, title, text in _BLOCK.findall(page.read_text()):
        if title:
            yield Step(text, title)
        elif language == "console":
            for line in text.splitlines():
                assert line.startswith("$ "), f"{page.name}: what is typed begins with '$ ': {line}"
                yield Step(line.removeprefix("$ "))


def readme() -> list[str]:
    """The commands that the README has a new user type, without their comments."""
    blocks = [text for language, title, text in _BLOCK.findall(README.read_text()) if not language + title]
    return [line.partition("#")[0].strip() for block in blocks for line in block.splitlines()]


def tables(page: Path) -> list[str]:
    """TOML that is shown and not written to a file: an example of what stands in a config.toml."""
    return [
        text for language, title, text in _BLOCK.findall(page.read_text()) if language == "toml" and not title
    ]


def mentioned(page: Path) -> set[str]:
    """Commands inside of sentences."""
    prose = _BLOCK.sub("", page.read_text())
    return set(re.findall(r"`((?:watchdogd|make|pip|createuser|createdb) [^`\n]+)`", prose))


def loose(page: Path) -> list[str]:
    """Commands that no test would run: blocks of a shell's language, and verbs in blocks of none."""
    blocks = [(language, text) for language, title, text in _BLOCK.findall(page.read_text()) if not title]
    verbs = re.compile(r"^(\$ )?watchdogd ", re.MULTILINE)
    plain = [text for language, text in blocks if language in ("", "text") and verbs.search(text)]
    return plain + [text for language, text in blocks if language in SHELLS]


SHELLS = ("bash", "sh", "shell")
