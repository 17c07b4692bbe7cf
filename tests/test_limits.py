"""No test waits for ever: whatever hangs, the run ends, and says which test it was."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
WAITS = ("wait", "join", "communicate", "result")
SUSPECT = re.compile(rf"\.({'|'.join(WAITS)})\(\s*(\)|\w+\s*=)|\bPopen\(")
"""What a file with an endless wait has in its text: the others need not be parsed."""
HANGS = """
import time, pytest
from tests import conftest
conftest.TIDYING = conftest.TIDYING._replace(timeout=1)
@pytest.fixture
def tidied():
    yield
    time.sleep(100)
def test_that_hangs(tidied): time.sleep(100)
def test_behind_it(): pass
"""


def endless(tree: ast.AST) -> Iterator[ast.Call]:
    """Calls that come back when a process or thread does, and at no other time."""
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        limited = call.args or any(each.arg == "timeout" for each in call.keywords)
        if isinstance(call.func, ast.Attribute) and call.func.attr in WAITS and not limited:
            yield call
    for block in (node for node in ast.walk(tree) if isinstance(node, ast.With)):
        for item in (each.context_expr for each in block.items):  # its end is waited for
            if isinstance(item, ast.Call) and ast.unparse(item.func) in ("subprocess.Popen", "Popen"):
                yield item


def awaited(tree: ast.AST) -> set[ast.AST]:
    """What an event loop waits for, which ends with its thread."""
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Await)}


@pytest.mark.parametrize(
    "source",
    [
        "process.wait()",
        "thread.join(\n)",
        "p.communicate(input=text)",
        "with subprocess.Popen(words) as process: pass",
    ],
)
def test_a_wait_without_a_limit_is_seen(source: str) -> None:
    assert SUSPECT.search(source)
    assert list(endless(ast.parse(source)))


def test_every_wait_has_a_limit() -> None:
    found = []
    for path in TESTS.rglob("*.py"):
        text = path.read_text()
        if not SUSPECT.search(text):
            continue
        tree = ast.parse(text)
        calls = {*endless(tree)} - awaited(tree)
        found += [f"{path.relative_to(TESTS)}:{call.lineno}: {ast.unparse(call)}" for call in calls]
    assert [each for each in found if not each.startswith("frameworks/")] == []


def test_a_test_whose_tidying_up_hangs_too_holds_up_nobody(tmp_path: Path) -> None:
    (tmp_path / "test_made.py").write_text(HANGS)
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tests.conftest",
        "-p",
        "no:cacheprovider",
        "-o",
        "timeout=1",
    ]
    done = subprocess.run(
        [*words, "-p", "no:randomly", "--rootdir", tmp_path, tmp_path],
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "1 failed, 1 passed, 1 error" in done.stdout
