"""What people wait for: the emergency verbs, status, and history, on a home with 90 days of history."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks import history, measure, ours
from benchmarks.table import Line
from watchdogd.home.layout import Home

DAYS, CHECKS = 90, 100
BARE = [sys.executable, "-I", "-c", "pass"]


def _run(words: list[str]) -> None:
    subprocess.run(words, stdout=subprocess.DEVNULL, check=False)


def _verb(home: Home, *words: str) -> list[str]:
    return [str(Path(sys.executable).with_name("watchdogd")), *words, "--home", str(home.path)]


def lines() -> Iterator[Line]:
    """Four rows of the table."""
    with measure.folder() as folder:
        home = ours.new_home(folder, '[runs.run-17]\nlog = "run-17.log"\n')
        size = history.grow(home, DAYS, CHECKS)
        with ours.without_slurm(), ours.rounds(home) as engine:
            engine.one()
        switch, status = _verb(home, "kill-switch", "run-17"), _verb(home, "status")
        look = _verb(home, "history", "--since", "24h")
        bare, pressed, shown, told = measure.in_turn(
            9,
            *(
                lambda words=words: measure.wall(lambda: _run(words))
                for words in (BARE, switch, status, look)
            ),
        )
        spent = measure.in_turn(
            5,
            *(lambda words=words: measure.command_cpu(words) for words in (status, look)),
        )
        calls = [measure.file_calls(words) for words in (BARE, switch, status)]
    yield Line(
        "`kill-switch run-17` beside `python -c pass`: file-system calls",
        str(calls[1]),
        str(calls[0]),
        calls[1] / calls[0],
        "≤ 4 ×",
    )
    yield Line("the same: time", f"{pressed * 1e3:.0f} ms", f"{bare * 1e3:.0f} ms", pressed / bare, "≤ 5 ×")
    yield Line(
        "`status` on a home with 90 days of history",
        f"{shown:.2f} s ({spent[0]:.2f} of CPU), {calls[2]} file-system calls",
        reach="≤ 0.7 s, ≤ 1,600 calls",
    )
    yield Line(
        "90 days of 100 results a minute: size; `history --since 24h`",
        f"{size:.1f} MB; {told:.2f} s ({spent[1]:.2f} of CPU)",
        reach="≤ 60 MB; ≤ 0.7 s",
    )
