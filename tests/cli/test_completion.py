"""Completion in the real shells, and the manual page that says what the verbs take."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from watchdogd import cli
from watchdogd.cli.setup import completion

ROOT = Path(__file__).resolve().parents[2]
VERBS = completion.all_verbs()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "switches").mkdir()
    for run in ("moe-3b", "llama-7b"):
        (tmp_path / "switches" / f"{run}.json").touch()
    listed = [{"id": 17, "check": "moe-3b/gpu_health"}, {"id": 203, "check": "scratch/disk_quota"}]
    (tmp_path / "status.json").write_text(json.dumps({"link": {"job_id": 4711}, "incidents": listed}))
    (tmp_path / "bin").mkdir()
    squeue = tmp_path / "bin" / "squeue"  # a real one lists what happens to run here
    squeue.write_text(
        "#!/bin/sh\necho '4321 train$(touch gone)|a b'; "
        "echo '99 moe-3b|(null)'; echo '4711 bloom-watch|watchdogd:1f3a'\n"
    )
    squeue.chmod(0o755)
    return tmp_path


def bash(home: Path, *words: str) -> set[str]:
    """What bash offers for the last word."""
    typed = " ".join(f"'{word}'" for word in words)
    script = (
        completion.bash(VERBS)
        + f"COMP_WORDS=(watchdogd {typed}); COMP_CWORD={len(words)}; _watchdogd\n"
        + "printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    return offered(["bash", "--norc", "-eu", "-c", script], home)


def zsh(home: Path, *words: str) -> set[str]:
    """The same for zsh, whose completion functions are replaced by ones that print what they are given."""
    typed = " ".join(f"'{word}'" for word in words)
    script = f"""
compdef() {{ }}
_describe() {{ local name=$@[-1]; print -rl -- ${{(P)name}} }}
compadd() {{ print -rl -- ${{(P)@[-1]}} }}
_files() {{ }}
{completion.zsh(VERBS)}
words=(watchdogd {typed}); CURRENT={len(words) + 1}; _watchdogd
"""
    return {line.partition(":")[0] for line in offered(["zsh", "-f", "-c", script], home)}


def fish(home: Path, *words: str) -> set[str]:
    """The same for fish, by its own `complete -C`."""
    typed = "watchdogd " + " ".join(words)
    script = f"{completion.fish(VERBS)}\ncomplete -C '{typed}'"
    return {line.partition("\t")[0] for line in offered(["fish", "--no-config", "-c", script], home)}


def offered(argv: list[str], home: Path) -> set[str]:
    env = {"WATCHDOGD_HOME": str(home), "HOME": str(home), "PATH": f"{home}/bin:/usr/bin:/bin"}
    done = subprocess.run(argv, capture_output=True, text=True, env=env, timeout=300, check=True)
    assert done.stderr == ""
    return set(done.stdout.split("\n")) - {""}


@pytest.mark.parametrize("shell", [bash, zsh, fish])
def test_verbs_options_and_runs(shell: object, home: Path) -> None:
    assert callable(shell)
    assert set(cli.VERBS) <= shell(home, "")
    assert {"--watch", "--json", "--every"} <= shell(home, "status", "--")
    assert "--on-partition" not in shell(home, "status", "--")
    assert {"moe-3b", "llama-7b"} <= shell(home, "stacks", "")
    assert "moe-3b" not in shell(home, "status", "")
    assert {"bash", "zsh", "fish"} <= shell(home, "completion", "")
    assert "moe-3b" in shell(home, "preflight", "--run", "")


@pytest.mark.parametrize("shell", [bash, zsh, fish])
def test_open_incidents_and_live_jobs(shell: object, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert callable(shell)
    monkeypatch.chdir(home)
    assert {"17", "203"} <= shell(home, "ack", "")
    assert "4711" not in shell(home, "ack", "")
    jobs = shell(home, "watch", "")
    assert {"4321", "99", "moe-3b"} <= jobs
    assert not {"4711", "bloom-watch"} & jobs, "watchdogd's own jobs are no training"
    assert not (home / "gone").exists()
    (home / "status.json").unlink()
    assert "17" not in shell(home, "ack", "")


def test_every_word_and_option_has_its_line_of_help() -> None:
    for verb in VERBS:
        words: tuple[completion.Positional | completion.Option, ...] = (*verb.places, *verb.options)
        hidden = [each for each in words if each == completion.Option(("--job",), "JOB", "")]
        assert [each for each in words if not each.help] == hidden, verb.name


def test_what_was_begun_is_gone_on_with(home: Path) -> None:
    assert bash(home, "sta") == {"start", "stacks", "status"}
    assert bash(home, "--home", str(home), "gpus", "mo") == {"moe-3b"}
    assert fish(home, "kill-s") == {"kill-switch"}


@pytest.mark.parametrize("shell", [bash, zsh, fish])
def test_a_files_name_is_no_command(shell: object, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert callable(shell)
    monkeypatch.chdir(home)
    (home / "switches/$(touch gone).json").touch()
    (home / "switches/`touch gone`.json").touch()
    assert "llama-7b" in shell(home, "gpus", "")
    assert not (home / "gone").exists()


def test_the_verb_prints_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", "zsh"]) == 0
    assert capsys.readouterr().out.startswith("#compdef watchdogd\n")
    assert cli.main(["completion", "csh"]) == 64


def test_the_manual_page_says_what_the_verbs_take() -> None:
    made = subprocess.run(
        [sys.executable, "-c", "from scripts.manpage import page; print(page(), end='')"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    ).stdout
    kept = (ROOT / "docs" / "watchdogd.1").read_text()
    assert made == kept, "a verb or an option has changed: run scripts/manpage.py"
    done = subprocess.run(
        ["mandoc", "-T", "lint", "-W", "error", ROOT / "docs" / "watchdogd.1"],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, "")
    shown = subprocess.run(
        ["mandoc", "-T", "ascii", ROOT / "docs" / "watchdogd.1"], capture_output=True, text=True, check=True
    ).stdout
    plain = re.sub(r".\x08", "", shown)
    for name in cli.VERBS:
        assert f"watchdogd {name} " in plain
