"""Lines of a training's log that nobody writes, and how long they take to read."""

from __future__ import annotations

import time

import pytest

from tests.parsers.foreign import READERS
from watchdogd.parsers.logs.log_lines import LONGEST, STATES, read_lines


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


@pytest.mark.parametrize(
    ("data", "texts"),
    [
        (b"step 1\n\0\0\0\0step 2\n\0\0\0\n", ["step 1", "step 2"]),
        (b"step 1\n\0\0\0\0\0", ["step 1"]),
        ("step 1\nstep 2\n".encode("utf-16-le"), ["step 1", "step 2"]),
        (b"step 1\n\xff\xfe\x93\x81a\xf0\xc1\n\x80\xee\xc0\x05", ["step 1"]),
        ("Verlust f\u00fcr Schritt 1: 2.5\n".encode("latin-1"), ["Verlust f\ufffdr Schritt 1: 2.5"]),
    ],
    ids=["zeros amid", "zeros at the end", "two bytes a letter", "noise", "another code page"],
)
def test_what_is_no_text_tells_nothing(data: bytes, texts: list[str]) -> None:
    assert [line.text for line in read_lines(data)[0]] == texts


@pytest.mark.parametrize("sign", ["\r", "\x1b[A\x1b[2K", "\b\b\b"])
def test_of_a_bar_that_was_drawn_often_the_last_states_are_read(sign: str) -> None:
    data = "".join(f"{sign}{number}/90000 [01:00<02:00, 3.2it/s]" for number in range(20_000)) + "\r"
    lines, done = read_lines(data.encode())
    assert done == len(data)
    assert len(lines) <= STATES
    assert lines[-1].text.startswith("19999/90000")
