"""Text from outside: no escape, control or direction character gets through, lengths are bounded."""

import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import watchdogd
from watchdogd.system.text import excerpt, one_line, paragraphs, plain, split_lines, verbatim

HOSTILE = st.text(
    st.one_of(st.characters(), st.sampled_from("\x1b[]m0;\x07\r\n\t\u202e\u2066\x9b\x00\ud800")), max_size=200
)


@pytest.mark.parametrize(
    ("outside", "inside"),
    [
        ("\x1b[1;31mloss nan\x1b[0m", "loss nan"),
        ("\x1b]0;owned\x07title", "title"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bP1$r\x1b\\dcs", "dcs"),
        ("\x1b[2J\x1b[Hclear", "clear"),
        ("\x1bcreset", "reset"),
        ("a\x00b\x08c\x7fd\x9be", "abcde"),
        ("10%\r50%\r100%", "100%"),
        ("50%\r", "50%"),
        ("windows\r\nlines\r\n", "windows\nlines\n"),
        ("a\tb", "a   b"),
        ("evil\u202etxt.exe\u2066", "eviltxt.exe"),
        ("half \ud83d a pair", "half  a pair"),
        ("größe 数 🙂 \u200d", "größe 数 🙂 \u200d"),
    ],
)
def test_what_is_harmful_is_taken_out(outside: str, inside: str) -> None:
    assert plain(outside) == inside


@given(HOSTILE)
def test_nothing_but_characters_and_line_ends_is_left(text: str) -> None:
    for character in plain(text):
        kind = unicodedata.category(character)
        assert character in "\n\u200c\u200d" or kind[0] != "C" or kind == "Cn"  # Cn: newer than this Python
    plain(text).encode()  # no lone surrogate is left


@given(HOSTILE, st.integers(10, 80))
def test_one_line_is_one_bounded_line(text: str, limit: int) -> None:
    line = one_line(text, limit)
    assert "\n" not in line
    assert len(line) <= limit


@given(st.text(max_size=2000), st.integers(3, 40), st.integers(40, 400))
def test_an_excerpt_is_bounded(text: str, lines: int, limit: int) -> None:
    shown = excerpt(text, lines, limit)
    assert len(shown.split("\n")) <= lines + 1
    assert len(shown) <= limit


def test_an_excerpt_keeps_the_beginning_and_more_of_the_end() -> None:
    log = "\n".join(f"line {number}" for number in range(100))
    shown = excerpt(log, 9, 1000).split("\n")
    assert shown[:3] == ["line 0", "line 1", "line 2"]
    assert shown[3] == "… 91 lines left out …"
    assert shown[4:] == [f"line {number}" for number in range(94, 100)]


def test_paragraphs_know_what_is_verbatim() -> None:
    evidence, command = verbatim("Traceback\n\n  File x"), verbatim("ack 1")
    body = f"Since noon.\nWhere: here\n\n{evidence}\n\nAnswer with:\n{command}"
    assert paragraphs(body) == [
        (False, "Since noon.\nWhere: here"),
        (True, "Traceback\n\n  File x"),
        (False, "Answer with:"),
        (True, "ack 1"),
    ]


def test_lines_end_where_programs_end_them() -> None:
    odd = "a\x0bb\x0cc\x1cd\x1de\x1ef\x85g\u2028h\u2029i\rj"
    assert split_lines(f"{odd}\r\n\nz") == [odd, "", "z"]
    assert split_lines("one\n") == ["one"]
    assert split_lines("") == []


def test_no_reader_of_foreign_text_cuts_lines_within() -> None:
    """`str.splitlines` would. Our own constants may be cut by it."""
    root = Path(watchdogd.__file__).parent
    readers = [
        path
        for name in ("batch", "checks", "parsers", "probe", "system")
        for path in (root / name).rglob("*.py")
    ]
    found = {path.name for path in [*readers, root / "training.py"] if ".splitlines()" in path.read_text()}
    assert found == {
        "structured_files.py",
        "values.py",
    }  # bytes, which end at \r and \n alone; a table of ours
