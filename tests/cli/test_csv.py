"""What stands in a CSV is text and numbers, never a formula."""

from __future__ import annotations

import csv
import io

import pytest

from watchdogd.cli.history import print_csv
from watchdogd.history.models import Reading
from watchdogd.plugin import Status


@pytest.mark.attack("write a formula into a CSV")
@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("＝1+1", "'＝1+1"),
        ("＠sum", "'＠sum"),
        ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("+1", "'+1"),
        ("-1 left", "'-1 left"),
        ("\t=1", "'=1"),
        ("\r\n=1", "'=1"),
        ("a=1", "a=1"),
        ("", ""),
    ],
)
def test_a_text_is_no_formula_and_a_number_stays_one(text: str, cell: str) -> None:
    file = io.StringIO()
    print_csv([Reading(0.0, text, text, text, Status.OK, text, -2.5, text, text, -2.5, -2.5)], file)
    (row,) = csv.DictReader(io.StringIO(file.getvalue()))
    assert {row[key] for key in ("run", "check", "subject", "metric", "unit", "summary")} == {cell}
    assert row["value"] == "-2.5"
