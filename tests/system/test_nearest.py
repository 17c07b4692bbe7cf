"""The nearest name to a misspelt one."""

from __future__ import annotations

import pytest

from watchdogd.system.text import nearest


@pytest.mark.parametrize(
    ("word", "known", "said"),
    [
        ("run17", ["run-17", "moe"], "; did you mean 'run-17'?"),
        ("nag", ["cron.every-5m/nag", "snag"], "; did you mean 'cron.every-5m/nag'?"),
        ("stat", ["status", "start"], "; did you mean 'status'?"),
        ("run", ["run-17", "run-18"], "; did you mean 'run-18'?"),
        ("xyz", ["run-17", "moe"], "; there are run-17, moe"),
        ("xyz", [f"run-{number}" for number in range(13)], ""),
        ("xyz", [], ""),
    ],
)
def test_the_nearest_name_or_all_that_there_are(word: str, known: list[str], said: str) -> None:
    assert nearest(word, known) == said
