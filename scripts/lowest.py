"""The oldest versions of what watchdogd needs that pyproject.toml allows, as requirements for pip."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

EXTRAS = ("apprise", "postgres", "prometheus", "stacks")


def lowest(requirement: str) -> str:
    """`APScheduler==3.10.4` of `APScheduler>=3.10.4,<4`; ValueError where no lower bound is given."""
    if not (found := re.fullmatch(r"([\w.-]+(?:\[[\w,]+\])?)>=([\w.]+)(?:,.*)?", requirement)):
        raise ValueError(f"pyproject.toml: '{requirement}' has no lower bound: write NAME>=VERSION")
    return f"{found[1]}=={found[2]}"


if __name__ == "__main__":
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]
    extras = [each for name in EXTRAS for each in project["optional-dependencies"][name]]
    print("\n".join(map(lowest, [*project["dependencies"], *extras])))
