"""Lines of a training's log that nobody writes, and how long they take to read."""

from __future__ import annotations

import time

import pytest

from tests.parsers.foreign import READERS
from watchdogd.parsers.logs.log_lines import LONGEST, read_lines


def test_of_a_line_that_is_too_long_both_ends_are_read() -> None:
    [line], _ = read_lines(b"iteration 12 | " + b"a:" * 30_000 + b" | loss 2.5\n")
    assert line.text.startswith("iteration 12 | a:")
    assert line.text.endswith(" | loss 2.5")
    assert len(line.text) < LONGEST + 10
    [whole], _ = read_lines(b"x" * LONGEST + b"\n")
    assert whole.text == "x" * LONGEST


@pytest.mark.parametrize(
    ("begin", "again"),
    [
        ("Connection refused ", "a:"),
        ("Connection refused ", "1."),
        ("connection timed out ", "::"),
        ("", "\x1b]"),
        ("", "\x1b[1;"),
        ("iteration ", "1"),
        ("Segmentation fault ", "core "),
        ("n1:1:1 [0] NCCL INFO Using ", "a."),
        ("n1:1:1 [0] NCCL INFO OOB ", "a.a "),
        ("Error: ", "["),
        ("on node ", "a"),
        ("loss:", " "),
        ("address already in use ", "Error: "),
        ("", "Epoch 1: "),
        ("{'loss': 1, ", "loss': "),
    ],
)
def test_no_line_of_sixty_thousand_letters_holds_the_reader_up(begin: str, again: str) -> None:
    read, _ = READERS["log"]
    started = time.process_time()
    read(begin + again * (60_000 // len(again)) + "\n")
    assert time.process_time() - started < 1.0
