"""`make audit` does not call well what nobody looked at."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "audit.py"
FINE = {"name": "requests", "version": "2.32.4", "vulns": []}
WEAK = {
    "name": "jinja2",
    "version": "3.0",
    "vulns": [{"id": "GHSA-1", "fix_versions": ["3.1.6"]}, {"id": "CVE-2"}],
}
AWAY = {
    "name": "py-spy",
    "skip_reason": "Dependency not found on PyPI and could not be audited: py-spy (0.4)",
}
OURS = {"name": "watchdogd", "skip_reason": "distribution marked as editable"}


@pytest.mark.parametrize(
    ("packages", "lines", "code"),
    [
        ([FINE, OURS], ["audit: 1 of 1 packages were looked up, 0 with known weaknesses"], 0),
        (
            [FINE, WEAK, AWAY],
            [
                "jinja2 3.0: GHSA-1, mended in 3.1.6",
                "jinja2 3.0: CVE-2",
                "audit: 2 of 3 packages were looked up, 1 with known weaknesses; "
                "not looked up, so nothing is known of them: py-spy",
            ],
            1,
        ),
        (
            [FINE, AWAY],
            [
                "audit: 1 of 2 packages were looked up, 0 with known weaknesses; "
                "not looked up, so nothing is known of them: py-spy"
            ],
            2,
        ),
        (
            [AWAY, OURS],
            ["audit: none of 1 packages could be looked up: nothing is known of them"],
            2,
        ),
    ],
)
def test_it_says_what_was_looked_up_and_what_was_not(
    packages: list[dict[str, Any]], lines: list[str], code: int
) -> None:
    assert runpy.run_path(str(SCRIPT))["verdict"](packages) == (lines, code)
