"""ARCHITECTURE.md names the layers to which `make lint` holds the imports, and files that are there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_table_of_layers_is_the_one_that_is_enforced() -> None:
    [layers, _] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    table = (ROOT / "ARCHITECTURE.md").read_text().partition("| layer | holds |")[2].partition("\n\n")[0]
    told = [re.findall(r"`(\w+)`", row.split("|")[1]) for row in table.splitlines()[2:]]
    assert told == [re.findall(r"\w+", layer) for layer in layers["layers"]]


def test_each_file_and_folder_that_it_names_is_there() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    named = set(re.findall(r"(?<![\w/.])((?:[a-z_]+/)+(?:[a-z_]+\.(?:py|md))?)", text))
    assert {"incidents/evaluate.py", "system/command.py", "docs/performance.md"} <= named
    assert [
        name for name in sorted(named) if not any((ROOT / top / name).exists() for top in ("", "watchdogd"))
    ] == []
