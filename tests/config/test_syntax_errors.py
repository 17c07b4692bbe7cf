"""Files that are no TOML: the line, what stands there, and what to do; never the parser's own words."""

from __future__ import annotations

from pathlib import Path

import pytest

from watchdogd.config import validation
from watchdogd.config.loading import parse
from watchdogd.errors import ConfigError

PATH = Path("/home/alice/watchdogd/config.toml")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[runs.a]\nlog = 'x'\nlog = 'y'\n", "line 3, 'log': this stands twice in its table"),
        ("[runs.a]\n\n[runs.a\n", "line 3, '[runs.a': close the table's heading with ]"),
        ("[runs.a]\n\n[runs.a # again\n", "line 3, '[runs.a # again': close the table's heading with ]"),
        ("[runs.a]\n\n[runs.a]\n", "line 3, '[runs.a]': this table stands twice"),
        ("[runs]\na = { log = 'x', log = 'y' }\n", "line 2, 'a': a key stands twice between the braces"),
        ("runs = {}\n[runs.a]\n", "line 2, '[runs.a]': this table stands twice, or between braces"),
        ("a = [1]\n[[a]]\n", "line 2, '[[a]]': this table was closed before"),
        ("a = {}\na.b = 1\n", "line 2, 'a.b': this table was closed before"),
        ("[runs.a]\nevery = 5m\n", "line 2, 'every': write one key = value a line"),
        ("[runs.a]\nlog = /scratch/x\n", "line 2, 'log': write texts and durations in quotes"),
        ("[runs.a]\nstarted = True\n", "line 2, 'started': write texts and durations in quotes, true"),
        ("[runs.a\nlog = 'x'\n", "line 1, '[runs.a': close the table's heading"),
        ("[runs.a]\nlog = 'x\n", "line 2, 'log': close the text with the quotes"),
        ('[runs.a]\nlog = "x\n', "line 2, 'log': close the text with the quotes"),
        ('[runs.a]\nlog = """x\n', "line 2, 'log': close the text with the quotes"),
        ("[runs.a]\nlog = '''x\n", "line 2, 'log': close the text with the quotes"),
        (
            '[runs.a]\nprogress = "step (\\d+)"\n',
            "line 2, 'progress': put a text with backslashes between '...'",
        ),
        ("[runs.a]\nchannels = ['x'\n", "line 2, 'channels': close the list with ]"),
        ("[runs.a]\nchannels = ['x' 'y']\n", "line 2, 'channels': close the list with ]"),
        ("[runs.a]\nquiet = { match = 'x'\n", "line 2, 'quiet': close the braces"),
        ("[runs.a]\nlog\n", "line 2: write it as key = value"),
        ("log: x\n", "line 1: write it as key = value"),
        ("= x\n", "line 1: write a [table], or key = value"),
        ("a. = 1\n", "line 1, 'a.': begin a key with a letter"),
        ("a = 'x\0'\n", "line 1, 'a': take this invisible character out"),
        ("a = 2026-11-31\n", "line 1, 'a': write texts and durations in quotes"),
        ("a = " + "[" * 5000, "too deep"),
        ("[daemon]\nconfirm = " + "9" * 5000, "line 2: this number is longer than any that could be meant"),
        ("[daemon]\nconfirm = 0x" + "f" * 5000, "a number is longer than any that could be meant"),
        ("[runs.a]\nprogress = '(\\d{99999999999})'\n", "is no regular expression: the repetition number"),
        ("[disks.a]\npath = '/'\nwarn_free = '1" + "0" * 400 + "TB'\n", "is no size"),
        *(
            (f"[heartbeat]\nurl = '{url}'\n", "is no web address")
            for url in (
                "//[",
                "http://[",
                "https://[::1",
                "http://x:99999999/",
                "http://x:²/",
                "https://a b/",
            )
        ),
    ],
)
def test_what_is_no_toml_is_one_line_that_says_what_to_do(text: str, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text, PATH)
    said = str(caught.value)
    assert said.startswith(f"{PATH}: ")
    assert told in said
    assert "(at " not in said
    assert "\n" not in said


def test_a_value_is_not_shown_since_it_may_be_a_secret() -> None:
    with pytest.raises(ConfigError) as caught:
        parse("[channels.slack]\nurl = https://hooks.example.org/s3cret\nhttps://s3cret\n", PATH)
    assert "s3cret" not in str(caught.value)
    with pytest.raises(ConfigError) as caught:
        parse("[channels.slack]\nhttps://hooks.example.org/s3cret\n", PATH)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        (["runs", "b c", "log"], 5),
        (["runs", "b c"], 4),
        (["runs", "b c", "checks", "gpu_health", "every"], 7),
        (["alerts", "maintenance", "0", "cron"], 9),
        (["daemon", "name"], 1),
        (["disks"], 0),
    ],
)
def test_the_line_of_a_key_is_found(keys: list[str], line: int) -> None:
    text = (
        "daemon.name = 'x'\n[runs.a]\nlog = 'x'\n[runs.'b c']\nlog = 'y' # = 1\n"
        "[runs.'b c'.checks]\ngpu_health.every = '1m'\n[alerts]\nmaintenance = [{ cron = '@daily' }]\n"
    )
    assert validation.line_of(keys, text) == line
