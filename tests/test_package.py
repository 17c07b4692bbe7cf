"""What is installed: every folder of the project that holds code."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_folder_with_code_is_installed() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    folders = {".".join(path.parent.relative_to(ROOT).parts) for path in (ROOT / "watchdogd").rglob("*.py")}
    assert set(listed) == folders | {"watchdogd.plugins"}


def test_the_training_file_imports_nothing_of_ours() -> None:
    text = (ROOT / "watchdogd/training.py").read_text()
    assert "import watchdogd" not in text
    assert "from watchdogd" not in "\n".join(
        line for line in text.splitlines() if not line.startswith((" ", "    from"))
    )
