"""What is installed: every folder of the project that holds code."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_folder_with_code_is_installed() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    code = [path.relative_to(ROOT) for path in (ROOT / "watchdogd").rglob("*.py")]
    code += ["watchdogd" / path.relative_to(ROOT) for path in (ROOT / "plugins").rglob("*.py")]
    assert set(listed) == {".".join(path.parent.parts) for path in code}


def test_what_is_an_extra_is_imported_where_it_is_used() -> None:
    """Nobody who did without an extra misses a verb for it."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    wanted = [name for extra, names in extras.items() if extra not in ("dev", "examples") for name in names]
    packages = {re.split(r"\W", name.replace("-", "_"))[0] for name in wanted}
    assert {"prometheus_client", "apprise", "psycopg"} <= packages
    for path in [*(ROOT / "watchdogd").rglob("*.py"), *(ROOT / "plugins").rglob("*.py")]:
        text = path.read_text()
        for node in ast.parse(text).body if any(map(text.count, packages)) else []:
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not packages & {name.partition(".")[0] for name in names}, path


def test_the_example_of_a_configuration_is_installed(tmp_path: Path) -> None:
    """From a wheel that is built of the source archive, in a copy: a build leaves its folders in the tree."""
    tree = tmp_path / "tree"
    tree.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", "config.example.toml"):
        shutil.copy(ROOT / name, tree)
    for name in ("watchdogd", "plugins", "docs"):
        shutil.copytree(ROOT / name, tree / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    build(tree, "sdist", tmp_path)
    [source] = tmp_path.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path / "source", filter="data")
    [unpacked] = (tmp_path / "source").iterdir()
    build(unpacked, "wheel", tmp_path)
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    script = "import sys; from watchdogd.cli import main; sys.exit(main(['config', '--example']))"
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "site"), "HOME": str(tmp_path / "nowhere")}
    # In a folder of its own, so that the package is the wheel's.
    printed = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=env, check=True, capture_output=True, text=True
    )
    assert printed.stdout == (ROOT / "config.example.toml").read_text()


def build(tree: Path, kind: str, target: Path) -> None:
    script = f"from setuptools.build_meta import build_{kind} as build; import sys; build(sys.argv[1])"
    command = [sys.executable, "-W", "ignore", "-c", script, str(target)]
    done = subprocess.run(command, cwd=tree, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_training_file_imports_nothing_of_ours() -> None:
    text = (ROOT / "watchdogd/training.py").read_text()
    assert "import watchdogd" not in text
    assert "from watchdogd" not in "\n".join(
        line for line in text.splitlines() if not line.startswith((" ", "    from"))
    )
