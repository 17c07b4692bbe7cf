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
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from scripts import constraints
from watchdogd import __version__

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


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what makes the package: a build leaves its folders in it."""
    tree = tmp_path_factory.mktemp("package") / "tree"
    tree.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", "config.example.toml", "Makefile"):
        shutil.copy(ROOT / name, tree)
    for name in ("watchdogd", "plugins", "docs", "deploy"):
        shutil.copytree(ROOT / name, tree / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    return tree


@pytest.fixture(scope="module")
def archives(tree: Path) -> tuple[Path, Path]:
    """The source archive, and the wheel that is built of it."""
    folder = tree.parent
    build(tree, "sdist", folder)
    [source] = folder.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        archive.extractall(folder / "source", filter="data")
    [unpacked] = (folder / "source").iterdir()
    build(unpacked, "wheel", folder)
    [wheel] = folder.glob("*.whl")
    return source, wheel


def test_the_example_of_a_configuration_is_installed(archives: tuple[Path, Path], tmp_path: Path) -> None:
    with zipfile.ZipFile(archives[1]) as archive:
        archive.extractall(tmp_path / "site")
    script = "import sys; from watchdogd.cli import main; sys.exit(main(['config', '--example']))"
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "site"), "HOME": str(tmp_path / "nowhere")}
    # In a folder of its own, so that the package is the wheel's.
    assert said([sys.executable, "-c", script], tmp_path, env) == (ROOT / "config.example.toml").read_text()


def test_an_index_would_take_the_archives(archives: tuple[Path, Path]) -> None:
    source, wheel = archives
    assert source.name == f"watchdogd-{__version__}.tar.gz"
    assert wheel.name == f"watchdogd-{__version__}-py3-none-any.whl"
    scripts = Path(sys.executable).parent
    assert said([scripts / "twine", "check", "--strict", source, wheel]).count("PASSED") == 2
    assert said([scripts / "check-wheel-contents", wheel]).endswith("OK\n")


@pytest.mark.root
def test_a_cluster_without_internet_installs_from_the_wheelhouse(tree: Path, tmp_path: Path) -> None:
    house, scripts = tmp_path / "house", Path(sys.executable).parent
    said(["make", "wheelhouse", f"VENV={scripts.parent}", f"WHEELHOUSE={house}", "EXTRAS="], tree)
    came = {canonicalize_name(wheel.name.partition("-")[0]) for wheel in house.glob("*.whl")}
    assert came - pinned_by(house / "constraints.txt").keys() == {"watchdogd"}
    alone: list[str | Path] = ["unshare", "--net"]
    offline: list[str | Path] = ["--no-index", "--find-links", house]
    pip: list[str | Path] = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--dry-run",
        "--ignore-installed",
        "--quiet",
    ]
    said([*alone, *pip, *offline, "-c", house / "constraints.txt", "watchdogd"])
    env = {**os.environ, "UV_TOOL_DIR": str(tmp_path / "tools"), "UV_TOOL_BIN_DIR": str(tmp_path / "bin")}
    env["UV_CACHE_DIR"] = str(tmp_path / "cache")
    uv: list[str | Path] = [
        scripts / "uv",
        "tool",
        "install",
        "--quiet",
        "--offline",
        "--python",
        sys.executable,
    ]
    said([*alone, *uv, *offline, "--constraints", house / "constraints.txt", "watchdogd"], env=env)
    assert said([*alone, tmp_path / "bin" / "watchdogd", "--version"]) == f"watchdogd {__version__}\n"


def test_the_constraints_and_the_recipe_name_all_that_is_needed_in_versions_that_are_allowed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*map(Requirement, project["dependencies"])]
    more = [Requirement(line) for extra in constraints.EXTRAS[1:] for line in extras[extra]]
    pinned = pinned_by(constraints.FILE)
    for want in (*wanted, *more):
        [exact] = pinned[want.name.lower()].specifier
        assert want.specifier.contains(exact.version)
    regex = "{% set version = load_file_regex("
    recipe = (ROOT / "deploy/conda/meta.yaml").read_text()
    assert regex in recipe
    text = re.sub(r"^{%.*%}$", "", recipe, flags=re.MULTILINE).replace("{{ version }}", "1")
    found = yaml.safe_load(text.replace("{{ PYTHON }}", "python"))["requirements"]
    names = {"python-tzdata": "tzdata", "prometheus_client": "prometheus-client"}

    def requirements(part: str) -> set[Requirement]:
        words = (line.split() for line in found[part] if not line.startswith("python >"))
        return {Requirement(names.get(name, name) + version) for name, version in words}

    assert requirements("run") == {Requirement(f"{each.name.lower()}{each.specifier}") for each in wanted}
    assert requirements("run_constrained") == {Requirement(f"{each.name}{each.specifier}") for each in more}


def pinned_by(path: Path) -> dict[str, Requirement]:
    lines = (line for line in path.read_text().splitlines() if not line.startswith("#"))
    return {each.name: each for each in map(Requirement, lines)}


def said(
    words: Sequence[str | Path], folder: Path | None = None, env: Mapping[str, str] | None = None
) -> str:
    """What a command prints, which does not fail."""
    done = subprocess.run(
        words, cwd=folder, env=env, check=False, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build(tree: Path, kind: str, target: Path) -> None:
    script = f"from setuptools.build_meta import build_{kind} as build; import sys; build(sys.argv[1])"
    said([sys.executable, "-W", "ignore", "-c", script, target], tree)


def test_the_training_file_imports_nothing_of_ours() -> None:
    text = (ROOT / "watchdogd/training.py").read_text()
    assert "import watchdogd" not in text
    assert "from watchdogd" not in "\n".join(
        line for line in text.splitlines() if not line.startswith((" ", "    from"))
    )
