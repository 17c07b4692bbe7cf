"""The command line as a whole: verbs found late, every fault one line, exit codes."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import importlib
import io
import os
import pty
import struct
import subprocess
import sys
import termios
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from rich.table import Table
from rich.text import Text

from tests.lab.processes import started
from watchdogd import __version__, cli
from watchdogd.cli.output import clean, one_line, print_json, terminal
from watchdogd.cli.status_screen import bar
from watchdogd.errors import ConfigError, HomeError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Says = pytest.CaptureFixture[str]


def verb(monkeypatch: pytest.MonkeyPatch, does: Callable[[argparse.Namespace], int]) -> None:
    """Register a verb `try-out` that does so."""
    module = SimpleNamespace(arguments=lambda parser: parser.add_argument("--count", type=int), run=does)
    monkeypatch.setitem(cli.VERBS, "try-out", ("try_out", "for this test"))
    monkeypatch.setitem(sys.modules, "watchdogd.cli.try_out", module)


def listening(monkeypatch: pytest.MonkeyPatch) -> list[argparse.Namespace]:
    """Register a verb that keeps what it is told, and returns 7."""
    seen: list[argparse.Namespace] = []

    def run(args: argparse.Namespace) -> int:
        seen.append(args)
        return 7

    verb(monkeypatch, run)
    return seen


def raising(error: BaseException) -> Callable[[argparse.Namespace], int]:
    def run(args: argparse.Namespace) -> int:
        raise error

    return run


def test_arguments_reach_the_verb(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = listening(monkeypatch)
    assert cli.main(["--home", "/h", "try-out", "--count", "3"]) == 7
    assert vars(seen[0]) == {"verb": "try-out", "home": "/h", "homes": ["/h"], "count": 3}


@pytest.mark.parametrize("words", [["--home", "/h", "--count", "1"], ["--home=/h"]])
def test_home_may_stand_behind_the_verb(monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    seen = listening(monkeypatch)
    assert cli.main(["try-out", *words]) == 7
    assert seen[0].home == "/h"


@pytest.mark.parametrize("value", ["-d", "--cpu-bind=mask_cpu:fe,fe00"])
def test_a_value_may_begin_with_a_dash(monkeypatch: pytest.MonkeyPatch, capsys: Says, value: str) -> None:
    seen = listening(monkeypatch)
    assert cli.main(["try-out", "--home", value, "--count", "1"]) == 7
    assert (seen[0].home, seen[0].count) == (value, 1)
    assert cli.main(["try-out", "--home", "--count", "1"]) == 64
    assert "--home: expected one argument" in capsys.readouterr().err


def test_wrong_usage_is_one_line_and_64(monkeypatch: pytest.MonkeyPatch, capsys: Says) -> None:
    verb(monkeypatch, lambda args: 0)
    for words in (["try-out", "--count", "x"], ["try-out", "--counts"], ["try-out", "extra"], ["--nope"]):
        assert cli.main(words) == 64
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        assert err.startswith("watchdogd: ")


def test_an_unknown_verb_names_the_nearest(monkeypatch: pytest.MonkeyPatch, capsys: Says) -> None:
    verb(monkeypatch, lambda args: 0)
    assert cli.main(["tryout"]) == 64
    assert capsys.readouterr().err == (
        "watchdogd: there is no verb 'tryout'; did you mean 'try-out'?; see 'watchdogd --help'\n"
    )


def test_help_lists_every_verb(capsys: Says) -> None:
    assert cli.main(["--help"]) == 0
    out = capsys.readouterr().out
    for name, (_, help_) in cli.VERBS.items():
        assert f"  {name} " in out
        assert help_ in out
    for title, verbs in cli.GROUPS.items():
        assert f"\n\n{title}:\n  {next(iter(verbs))} " in out


def test_no_verb_is_wrong_usage_but_shows_help(capsys: Says) -> None:
    assert cli.main([]) == 64
    assert "usage: watchdogd" in capsys.readouterr().out


def test_version(capsys: Says) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"watchdogd {__version__}\n"


@pytest.mark.parametrize("name", list(cli.VERBS))
def test_every_verb_has_its_module_and_help(name: str, capsys: Says) -> None:
    module = importlib.import_module(f"watchdogd.cli.{cli.VERBS[name][0]}")
    assert callable(module.run)
    assert cli.main([name, "--help"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"usage: watchdogd {name} ")
    assert "--home DIR" in out


def test_our_errors_are_one_line_with_their_code(monkeypatch: pytest.MonkeyPatch, capsys: Says) -> None:
    verb(monkeypatch, raising(ConfigError("config.toml: \x1b[31mrun\ns: unknown")))
    assert cli.main(["try-out"]) == 78
    assert capsys.readouterr().err == "watchdogd: config.toml: run s: unknown\n"
    verb(monkeypatch, raising(HomeError("no home")))
    assert cli.main(["try-out"]) == 1


def test_a_fault_of_ours_is_one_line_and_its_traceback_is_in_the_log(
    monkeypatch: pytest.MonkeyPatch, capsys: Says, tmp_path: Path
) -> None:
    (tmp_path / "logs").mkdir()
    verb(monkeypatch, raising(KeyError("lost")))
    assert cli.main(["try-out", "--home", str(tmp_path)]) == 1
    err = capsys.readouterr().err
    log = tmp_path / "logs" / "crash.log"
    assert err.count("\n") == 1
    assert "KeyError: 'lost'" in err
    assert str(log) in err
    assert "Traceback (most recent call last)" in log.read_text()


@pytest.mark.parametrize(
    "error", [MemoryError(), ImportError("/lib/_x.so: failed to map segment from shared object")]
)
def test_want_of_memory_is_no_fault_of_ours(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: Says, tmp_path: Path
) -> None:
    verb(monkeypatch, raising(error))
    assert cli.main(["try-out", "--home", str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith("watchdogd: no memory is left, on this machine or under ")


def test_a_fault_of_ours_without_a_home_leaves_no_file(
    monkeypatch: pytest.MonkeyPatch, capsys: Says, tmp_path: Path
) -> None:
    verb(monkeypatch, raising(ZeroDivisionError()))
    assert cli.main(["try-out", f"--home={tmp_path / 'none'}"]) == 1
    assert "internal error in 'try-out': ZeroDivisionError" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_what_the_system_refuses_names_the_file(monkeypatch: pytest.MonkeyPatch, capsys: Says) -> None:
    verb(monkeypatch, raising(PermissionError(13, "Permission denied", "/h/status.json")))
    assert cli.main(["try-out"]) == 1
    assert capsys.readouterr().err == "watchdogd: /h/status.json: Permission denied\n"


def test_interrupted_is_130_and_silent(monkeypatch: pytest.MonkeyPatch, capsys: Says) -> None:
    verb(monkeypatch, raising(KeyboardInterrupt()))
    assert cli.main(["try-out"]) == 130
    assert capsys.readouterr() == ("", "")


def test_a_reader_that_left_is_no_complaint() -> None:
    with started(
        [sys.executable, "-m", "watchdogd", "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(240) == 141


def test_a_full_output_is_one_line() -> None:
    with open("/dev/full", "w") as full:
        answer = subprocess.run(
            [sys.executable, "-m", "watchdogd", "--help"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert (answer.returncode, answer.stderr) == (1, "watchdogd: No space left on device\n")


def test_an_ascii_terminal_shows_what_it_cannot_write(tmp_path: Path) -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "watchdogd", "Läufe"],
        env={"PYTHONIOENCODING": "ascii:strict", "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 64
    assert r"'L\xe4ufe'" in answer.stderr


def test_only_the_chosen_verb_is_imported() -> None:
    code = (
        "import sys; from watchdogd.cli import main; main(['--version'])\n"
        "print([name for name in sys.modules if name.startswith('watchdogd.cli.')])"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines()[1] == "[]"


def test_clean_takes_escapes_out() -> None:
    assert clean("a\x1b[31;1mred\x1b[0m\x1b]0;title\x07b\tc\nd\x9b\x00\u202e\udce4") == "aredb\tc\nd?"
    assert clean("\x1b(B\x1bcplain") == "plain"
    assert clean("a\u200f\u061c\u2028\u200b\ufeff\U000e0041b \u200d\u00e9") == "ab \u200d\u00e9"
    assert one_line("a\r\nb\x1b[2J\n\n c") == "a b c"


def test_json_is_ascii(capsys: Says) -> None:
    print_json({"name": "Läufe \x1b[31m"})
    out = capsys.readouterr().out
    assert out.isascii()
    assert "\x1b" not in out


@pytest.mark.parametrize(
    ("words", "shown"),
    [(("history", "--help"), "--metric NAME"), (("plugins",), "checkpoint_age (built-in)")],
)
def test_nothing_is_wider_than_the_terminal(words: tuple[str, ...], shown: str, tmp_path: Path) -> None:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    command = [sys.executable, "-m", "watchdogd", "--home", str(tmp_path), *words]
    env = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}
    with started(command, stdin=slave, stdout=slave, env=env) as process:
        os.close(slave)
        text = ""
        with open(master, "rb", buffering=0) as screen, contextlib.suppress(OSError):  # EIO: nothing is left
            while piece := screen.read(4096):
                text += piece.decode()
        assert process.wait(60) == 0
    assert shown in text
    assert max(map(len, text.splitlines())) <= 60


@pytest.mark.parametrize("columns", [None, "0"])
def test_in_a_pipe_nothing_is_folded(
    capsys: Says, monkeypatch: pytest.MonkeyPatch, columns: str | None
) -> None:
    """`grep` finds a long path whole; some have COLUMNS=0 where they know no width."""
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns:
        monkeypatch.setenv("COLUMNS", columns)
    path = "/scratch/" + "a long path/" * 30
    table = Table.grid()
    table.add_row("disk ", path)
    for each in (Text(path), table):
        terminal().print(each)
    assert capsys.readouterr().out == f"{path}\ndisk {path}\n"
    monkeypatch.setenv("COLUMNS", "40")
    terminal().print(Text(path))
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 40


def test_bars_are_plain_where_the_encoding_has_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="latin-1", errors="backslashreplace"))
    terminal().print(Text(f"Größe 日 {bar(0.3)} → x"))
    sys.stdout.flush()
    assert raw.getvalue().decode("latin-1") == "Größe \\u65e5 #####----------- > x\n"


def test_ctrl_c_of_which_a_library_tells_in_words_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: Says
) -> None:
    def interrupted(*_: object) -> int:
        raise ValueError('Error building "model" validator:\n  KeyboardInterrupt: ')

    verb(monkeypatch, interrupted)
    assert cli.main(["try-out"]) == 130
    assert capsys.readouterr().err == ""


def test_tables_in_a_pipe_are_not_filled_up(capsys: Says) -> None:
    table = Table.grid()
    table.add_row("a", "b")
    table.add_row("a", "a longer cell")
    terminal(40).print(table)
    assert capsys.readouterr().out == "ab\naa longer cell\n"
