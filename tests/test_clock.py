"""Times that lie ahead of now are not fresh: the clock was set back since."""

from __future__ import annotations

import math

import pytest

from watchdogd.system.clock import fresh


@pytest.mark.parametrize(
    ("at", "expected"),
    [(1000.0, True), (941.0, True), (940.0, False), (0.0, False), (1001.0, False), (-math.inf, False)],
)
def test_what_is_fresh_is_neither_too_old_nor_ahead(at: float, expected: bool) -> None:
    assert fresh(at, 1000.0, 60.0) is expected
