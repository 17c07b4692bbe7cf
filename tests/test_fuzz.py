"""Text that nobody foresaw: each reader answers or refuses it in its own words, within moments."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from watchdogd.batch import qstat, sacct, sinfo, slurmtext, squeue
from watchdogd.config.loading import parse
from watchdogd.config.models import Config
from watchdogd.config.secret import Secret
from watchdogd.errors import ConfigError, WatchdogError
from watchdogd.parsers import faulthandler, nagios, probe_sample, pyspy
from watchdogd.parsers.logs import failures
from watchdogd.system.pathname import file_name, run_name
from watchdogd.units import parse_amount, parse_duration, parse_rate, parse_share, parse_size

PATH = Path("/h/config.toml")
PIECES = st.sampled_from(
    ["\x1e", "\x1f", "|", "=", ";", ":", "'", '"', "\n", "\0", "%", "U", "NaN", "inf", "1e999", "-", "[", "]",
     "{}", "N/A", "0-5,7", "node[1-", "Thread 0x", "File \"", "line ", "Traceback", "9" * 40, "\ud800", "é"]
)  # fmt: skip
TEXT = st.one_of(
    st.text(max_size=300), st.lists(st.one_of(PIECES, st.text(max_size=8)), max_size=40).map("".join)
)
QUICK = settings(max_examples=50)


def complaint(read: Callable[[Any], object], value: object) -> str | None:
    """What a reader says of a value in its own words; None where it takes it. Else it raises."""
    try:
        read(value)
    except WatchdogError as error:
        return str(error)
    return None


def readers() -> list[Any]:
    """The functions of the readers that take one text."""
    found = []
    for module in (failures, faulthandler, slurmtext, pyspy, qstat, sacct, sinfo, squeue, probe_sample):
        for name, function in vars(module).items():
            if (
                name.startswith("_")
                or not inspect.isfunction(function)
                or function.__module__ != module.__name__
            ):
                continue
            needed = [p for p in inspect.signature(function).parameters.values() if p.default is p.empty]
            if len(needed) == 1 and needed[0].annotation == "str":
                found.append(pytest.param(function, id=f"{module.__name__.rpartition('.')[2]}.{name}"))
    return found


@pytest.mark.parametrize("read", readers())
@QUICK
@given(TEXT)
def test_a_reader_never_breaks(read: Callable[[str], object], text: str) -> None:
    assert complaint(read, text) != ""


def test_there_are_readers_to_try() -> None:
    assert len(readers()) >= 5


@QUICK
@given(st.integers(-300, 300), TEXT, TEXT)
@example(0, "OK | a=1e999;;;", "")
@example(0, "OK | 'a''b'=1;;", "")
def test_the_nagios_parser_never_breaks(code: int, output: str, errors: str) -> None:
    result = nagios.read(code, output, errors)
    assert "\n" not in result.summary


@pytest.mark.parametrize("read", [parse_amount, parse_duration, parse_rate, parse_share, parse_size])
@QUICK
@given(st.one_of(TEXT, st.floats(), st.integers(), st.booleans(), st.none()))
def test_units_never_break(read: Callable[[object], object], value: object) -> None:
    assert complaint(read, value) != ""


SCALARS = st.one_of(st.integers(-5, 10**12), st.booleans(), st.floats(), st.sampled_from(
    ['"x"', '"10%"', '"2TB"', '"3m"', '"env:A"', '"file:b"', '"$NO"', '"~"', '"a\\nb"', "[]", '["x"]', "{}"]
))  # fmt: skip
TABLES = st.sampled_from(
    [
        "daemon",
        "slurm",
        "history",
        "alerts",
        "actions",
        "heartbeat",
        "channels.c",
        "runs.r",
        "disks.d",
        "checks.k",
    ]
)


def _keys() -> st.SearchStrategy[str]:
    names = sorted(
        set(re.findall(r"^#? ?(\w+) +=", Path("config.example.toml").read_text(), re.MULTILINE))
        | {"type", "for"}
    )
    return st.sampled_from(names)


@settings(max_examples=120)
@given(st.dictionaries(TABLES, st.dictionaries(_keys(), SCALARS, max_size=4), max_size=4))
def test_no_configuration_brings_the_reader_down(tables: dict[str, dict[str, object]]) -> None:
    text = "\n".join(
        f"[{table}]\n"
        + "\n".join(
            f"{key} = {str(value).lower() if value in (True, False) else value}"
            for key, value in keys.items()
        )
        for table, keys in tables.items()
    )
    try:
        outcome: object = parse(text, PATH)
    except ConfigError as error:
        message = str(error)
        assert message.isprintable()
        assert not re.search(r"Input should|valid tuple|literal\[|instance of", message)
        return
    assert isinstance(outcome, Config)


@QUICK
@given(st.text(min_size=1, max_size=60))
@example("../../etc/passwd")
@example("..")
@example("a/b\0c\n")
def test_no_name_escapes_its_folder(name: str) -> None:
    quoted = file_name(name) if name.isprintable() else file_name(name.encode("utf-8", "replace").decode())
    assert "/" not in quoted
    assert "\0" not in quoted
    assert not quoted.startswith(".")
    if name.isprintable():
        assert run_name(quoted) == name


@QUICK
@given(st.text(min_size=3, max_size=60))
def test_a_secret_is_shown_by_no_way_of_printing(text: str) -> None:
    secret = Secret("hush-" + text)
    assert "hush-" not in f"{secret} {secret!r} {[secret]}"
