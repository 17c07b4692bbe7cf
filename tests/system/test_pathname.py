"""What of a pattern is plain."""

from __future__ import annotations

import pytest

from watchdogd.system import pathname


@pytest.mark.parametrize(
    ("pattern", "is_wild", "plain", "folder"),
    [
        ("/data/run/train.log", False, "/data/run/train.log", "/data/run"),
        ("/data/run/*.log", True, "/data/run/", "/data/run"),
        ("/data/run-[12]/train.log", True, "/data/run-", "/data"),
        ("/data/step?/x", True, "/data/step", "/data"),
        ("train-*.log", True, "train-", "."),
        ("train.log", False, "train.log", "."),
        ("/*", True, "/", "/"),
    ],
)
def test_what_stands_before_the_first_wildcard(pattern: str, is_wild: bool, plain: str, folder: str) -> None:
    assert pathname.is_wild(pattern) is is_wild
    assert pathname.before_wildcard(pattern) == plain
    assert pathname.wildcard_folder(pattern) == folder
