"""What the site has and the repository needs not: pages of the verbs' help and of config.example.toml."""

from __future__ import annotations

import argparse
import importlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File

from watchdogd.cli import VERBS

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files


PROJECT = Path(__file__).resolve().parents[1]
_OUTSIDE = re.compile(r"\[([^\]]*)\]\(\.\./([^)]*)\)")
"""A link to a file of the project that is no page."""
_SHOWN = {"config.example.toml": "configuration.md"}
"""Files of the project that have a page on the site."""
_VERBS = """\
# Verbs

Every verb takes `--home DIR`; without it home is `$WATCHDOGD_HOME`, else `~/.watchdogd`.

"""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what is made."""
    made = {"verbs.md": verbs_page(), "configuration.md": configuration_page()}
    for path, text in made.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Files of the project that are no pages are named, not linked."""
    return _OUTSIDE.sub(_named, markdown)


def _named(link: re.Match[str]) -> str:
    text, path = link.groups()
    return f"[{text}]({_SHOWN[path]})" if path in _SHOWN else f"`{path}`"


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
