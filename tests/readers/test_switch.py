"""What stands in a switch file: touches as JSON lines, or anything else."""

from __future__ import annotations

import json

import pytest

from watchdogd.readers.switch import Touch, read


def test_touches_in_order() -> None:
    lines = [
        {
            "run": "run-17",
            "switch": "kill",
            "by": "bob",
            "host": "login1",
            "at": "2026-11-28T00:28:41+00:00",
            "reason": "wrong\n learning rate",
        },
        {"by": "carol", "at": 1795825722.5},
    ]
    first, second = read("".join(json.dumps(line) + "\n" for line in lines))
    assert first == Touch("bob", "wrong learning rate", 1795825721, "login1")
    assert second == Touch("carol", "", 1795825722.5, "")


@pytest.mark.parametrize("text", ["", "\n", "by hand", "[1]", '{"by": "bo', "7", "[" * 100_000])
def test_anything_else_says_nothing(text: str) -> None:
    assert read(text) == ()


def test_fields_of_other_kinds() -> None:
    assert read('{"by": 7, "at": "soon", "reason": null}') == (Touch("7", "", None, ""),)
