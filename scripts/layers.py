"""Hold the imports of watchdogd to the layers of pyproject.toml: `python scripts/layers.py`.

import-linter does not follow the link from `watchdogd/plugins` to `plugins/`. So it looks at a copy in which
all lies as it is installed.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from importlinter.cli import lint_imports

ROOT = Path(__file__).resolve().parents[1]


def main() -> int:
    """Return 0 where every import is allowed; else print those that are not, and return 1."""
    with tempfile.TemporaryDirectory(prefix="watchdogd-layers-") as folder:
        installed = Path(folder, "watchdogd")
        shutil.copytree(ROOT / "watchdogd", installed, ignore=shutil.ignore_patterns("__pycache__"))
        sys.path.insert(0, folder)
        os.chdir(folder)
        return lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True)


if __name__ == "__main__":
    sys.exit(main())
