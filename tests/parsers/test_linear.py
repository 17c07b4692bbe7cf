"""Patterns take eight times as long for a text eight times as long: nobody's line holds a reader up."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import watchdogd
from tests.needs import QUICK
from tests.parsers.linear import patterns, slow

ROOT = Path(watchdogd.__file__).parent
FOREIGN = (
    "parsers",
    "checks",
    "plugins",
    "batch",
    "chain",
    "stacks",
    "preflight",
    "remediation",
    "notify",
    "probe",
    "home",
    "doctor",
    "system",
    "cli/output.py",
    "units.py",
)
"""What reads foreign text: packages and modules."""
MATCHED = {"parsers.gpu.kernel_log._AMD_REPORTS": "match", "batch.pending_reasons._LIKE": "fullmatch"}
"""Patterns in tables that are not searched for."""
BOUNDED = {
    "parsers.logs.measures._NAME": 24,  # `loss_name` and `loss_spot` look at 24 letters before a loss
    "parsers.logs.measures._NOT_TRAINING": 24,
    "parsers.logs.measures._RECORD": 24,
    "batch.pending_reasons._LIKE": 200,
    "parsers.gpu.nvidia_smi._PART_RULES": 300,  # names of cells: values._LONGEST_NAME
}
"""Letters of the longest text that these patterns are ever tried on."""
_TABLE = (("a", re.compile("a")), {"b": re.compile("b")})
_OWN = re.compile("c")


def modules() -> list[str]:
    """The modules of FOREIGN that hold patterns."""
    files = (
        file
        for each in FOREIGN
        for file in ((ROOT / each).rglob("*.py") if "." not in each else [ROOT / each])
    )
    found = (
        file.relative_to(ROOT.parent).with_suffix("") for file in files if "import re\n" in file.read_text()
    )
    return sorted(".".join(each.parts).removesuffix(".__init__") for each in found)


def held_up(module: ModuleType) -> Iterator[str]:
    """The patterns of a module that take far too long for some text, with the text."""
    for name, (pattern, methods) in patterns(module).items():
        full = f"{module.__name__.removeprefix('watchdogd.')}.{name}"
        table = full.rpartition(".")[0]
        used = frozenset({MATCHED[table]}) if table in MATCHED else methods
        if trouble := slow(pattern, used, BOUNDED.get(full, BOUNDED.get(table)), 15 if QUICK else 1):
            yield f"{full} {trouble}"


@pytest.mark.parametrize("name", modules())
def test_patterns_are_linear(name: str) -> None:
    assert list(held_up(importlib.import_module(name))) == []


@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        (r"(?:\w+:)+$", "search"),
        (r"\d+MHz", "search"),
        (r"a\s*\s*b", "match"),
        (r"[\w ,]*\[ERR", "search"),
        (r"x(?:\s+\w+)*\s+end", "search"),
    ],
)
def test_a_pattern_that_is_not_linear_is_found(pattern: str, method: str) -> None:
    assert slow(re.compile(pattern), frozenset({method}))
    assert not slow(re.compile(r"(?<!\d)\d++MHz"), frozenset({method}))


def test_patterns_in_tables_and_in_calls_are_found() -> None:
    found = patterns(sys.modules[__name__])
    assert {"_TABLE.0", "_TABLE.1", "_OWN"} < {*found}
    assert re.search("planted, too", "planted, too")
    assert "planted, too" in {pattern.pattern for pattern, _ in found.values()}
