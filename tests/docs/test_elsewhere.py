"""Every command of the documentation is run by a test: its page's, or the one that `ELSEWHERE` names."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.docs.elsewhere import ELSEWHERE, Elsewhere
from tests.docs.pages import FOLDER, README, mentioned, pages, readme, steps

ROOT = FOLDER.parent
WRITTEN = [*pages(), README, ROOT / "CONTRIBUTING.md"]
TYPED = {step.text for page in pages() for step in steps(page) if not step.file} | set(readme())


def runs(command: str) -> bool:
    """Whether it is typed as it stands, or with more words behind it."""
    return any(each == command or each.startswith(f"{command} ") for each in TYPED - ELSEWHERE.keys())


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.stem)
def test_what_stands_in_a_sentence_is_typed_or_is_run_elsewhere(page: Path) -> None:
    assert [each for each in sorted(mentioned(page)) if not runs(each) and each not in ELSEWHERE] == []


def test_nothing_is_listed_that_no_page_has_any_more_or_that_is_typed() -> None:
    written = TYPED.union(*map(mentioned, WRITTEN))
    assert ELSEWHERE.keys() - written == set()
    assert [each for each in ELSEWHERE if runs(each)] == []


@pytest.mark.parametrize(("command", "elsewhere"), ELSEWHERE.items(), ids=list(ELSEWHERE))
def test_the_test_that_is_named_exists_and_speaks_of_it(command: str, elsewhere: Elsewhere) -> None:
    path, _, name = elsewhere.test.partition("::")
    text = (ROOT / path).read_text()
    assert name in {each.name for each in ast.parse(text).body if isinstance(each, ast.FunctionDef)}
    assert elsewhere.words in text
    assert elsewhere.why, command


def test_the_targets_of_make_run_what_is_tested() -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}

    def would(*words: str) -> str:
        done = subprocess.run(
            ["make", "--dry-run", "--always-make", *words],
            cwd=ROOT,
            env=env,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert would("demo").splitlines()[-1].endswith("bin/watchdogd demo")
    assert would("test", "PYTEST=tests/daemon -x").splitlines()[-1].endswith(" tests/daemon -x")
    assert "'torch'" in would("test", "TORCH=torch")
    assert "download.pytorch.org" not in would("test", "PYTEST=tests/daemon -x")
    assert "not (slurm or root or" in would("quick")
    assert "download.pytorch.org" not in would("quick")
    assert ".venv/3.12/bin/python" in would("pythons", "PYTHONS=3.12")
    assert "ruff check ." in would("lint")
    assert would("examples").splitlines()[-1].endswith("tests/test_examples.py")
    assert would("soak").splitlines()[-1].split()[1] == "scripts/soak.py"
    assert would("truth").splitlines()[-1].split()[1:3] == ["-m", "benchmarks.truth"]
    assert would("chaos", "CHAOS=--seed 7").splitlines()[-1].endswith("-m benchmarks.chaos --seed 7")
    assert "constraints.txt" in would("wheelhouse")
    assert "scripts/recording.py" in would("docs")
    assert would("attack").splitlines()[-1].endswith(" -m attack tests")
    assert would("fuzz").splitlines()[-1].split()[2:4] == ["-m", "tests.parsers.fuzz"]
    assert would("bench").splitlines()[-1].endswith("-m benchmarks")


def test_what_pip_installs_is_what_runs() -> None:
    from_pip = distribution("watchdogd")
    named = {Requirement(line) for line in from_pip.requires or []}
    for extra in ("", "postgres", "prometheus"):
        for needed in named:
            if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                assert needed.specifier.contains(distribution(needed.name).version), needed
    command = Path(sys.executable).with_name("watchdogd")
    said = subprocess.run([command, "--version"], capture_output=True, text=True, timeout=120, check=True)
    assert from_pip.version in said.stdout
