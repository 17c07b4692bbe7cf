"""A Python with watchdogd in it that every user of the machine can run.

The tests' own may stand where only root can go (a clone in /root, a pyenv below it), so watchdogd and
what it needs are copied, as an installation that is not editable, into a virtual environment of their
own: no network, no build.
"""

import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import Distribution, EntryPoint, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

from tests.lab.accounts import USERS
from tests.lab.people import People

PROJECT = Path(__file__).resolve().parents[2]
EXTRAS = ("stacks", "apprise", "")  # "": what is always needed


def install(folder: Path, people: People) -> Path:
    """Makes the environment in `folder`, for all of `people`, and returns its bin folder."""
    base = _base_python(people)
    subprocess.run(
        [base, "-m", "venv", "--without-pip", folder], check=True, capture_output=True, timeout=300
    )
    site = next(folder.glob("lib/python*/site-packages"))
    for needed in _needed("watchdogd", EXTRAS, {}).values():
        _copy_distribution(needed, site, folder / "bin")
    _copy_project(site)
    python = folder / "bin/python"
    subprocess.run([python, "-m", "compileall", "-q", site / "watchdogd"], check=True, timeout=300)
    for script in distribution("watchdogd").entry_points.select(group="console_scripts"):
        _write_script(folder / "bin" / script.name, python, script)
    return folder / "bin"


def _base_python(people: People) -> str:
    """One of the tests' own version, so that compiled packages fit, which the users can run."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    own = str(getattr(sys, "_base_executable", sys.executable))
    candidates = [own, *(f"{place}/{name}" for place in ("/usr/bin", "/usr/local/bin"))]
    for candidate in candidates:
        if _runs(candidate, people):
            return candidate
    raise AssertionError(
        f"the users can run no {name} (tried {', '.join(candidates)}): install one outside of /root, "
        f"for example: apt-get install -y {name}"
    )


def _runs(python: str, people: People) -> bool:
    """Whether the users can: not asked by setpriv, which lets them in where root can go."""
    try:
        trial = [python, "-I", "-c", "import sqlite3, ssl, venv"]
        return not people.run(USERS[0], trial, check=False).returncode
    except OSError:
        return False


def _needed(name: str, extras: tuple[str, ...], found: dict[str, Distribution]) -> dict[str, Distribution]:
    """The distributions that `name` needs, directly or not, by their names."""
    for line in distribution(name).requires or []:
        need = Requirement(line)
        wanted = need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in extras)
        if not wanted or need.name in found:
            continue
        try:
            found[need.name] = distribution(need.name)
        except PackageNotFoundError:
            continue  # of an extra that is not installed here; what is missing otherwise fails at import
        _needed(need.name, (*need.extras, ""), found)
    return found


def _copy_distribution(needed: Distribution, site: Path, scripts: Path) -> None:
    """Copies its files; of its commands only programs, since scripts name the interpreter they came from."""
    for file in needed.files or []:
        source = Path(str(needed.locate_file(file)))
        if ".." not in file.parts:
            target = site / file
        elif source.parent.name == "bin" and source.read_bytes()[:2] != b"#!":
            target = scripts / source.name
        else:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)


def _copy_project(site: Path) -> None:
    """Copies the packages that pyproject.toml names, from where it says that they are, and the metadata."""
    setuptools = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["setuptools"]
    elsewhere = setuptools.get("package-dir", {})
    ignore = shutil.ignore_patterns("__pycache__")
    for package in sorted(setuptools["packages"]):
        source = PROJECT / elsewhere.get(package, package.replace(".", "/"))
        target = site / package.replace(".", "/")
        shutil.copytree(source, target, ignore=ignore, dirs_exist_ok=True)
    project = distribution("watchdogd")
    metadata = site / f"watchdogd-{project.version}.dist-info"
    metadata.mkdir()
    for name in ("METADATA", "entry_points.txt"):
        (metadata / name).write_text(project.read_text(name) or "")


def _write_script(path: Path, python: Path, script: EntryPoint) -> None:
    path.write_text(
        f"#!{python}\nimport sys\nfrom {script.module} import {script.attr}\nsys.exit({script.attr}())\n"
    )
    path.chmod(0o755)
