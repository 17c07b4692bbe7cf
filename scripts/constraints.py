"""deploy/constraints.txt: all that watchdogd and its extras need, in the versions that are installed here."""

from __future__ import annotations

from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

FILE = Path(__file__).parents[1] / "deploy" / "constraints.txt"
EXTRAS = ("", "apprise", "postgres", "prometheus", "stacks")
HEAD = """\
# All that watchdogd and its extras need, in versions with which every test passed; for pip and uv, as in
#   pip install -c deploy/constraints.txt .
# Written by: python scripts/constraints.py
"""


def needed(name: str, extras: frozenset[str], found: dict[str, frozenset[str]]) -> None:
    """Add to `found` what a distribution needs with these extras, by name; and what those need."""
    wants = [Requirement(line) for line in distribution(name).requires or []]
    for want in wants:
        if want.marker and not any(want.marker.evaluate({"extra": extra}) for extra in extras):
            continue
        key, more = want.name.lower().replace("_", "-"), frozenset({"", *want.extras})
        if not more <= found.get(key, frozenset()):
            found[key] = found.get(key, frozenset()) | more
            needed(want.name, found[key], found)


def pinned() -> dict[str, str]:
    """Versions that are installed here, by name."""
    found: dict[str, frozenset[str]] = {}
    needed("watchdogd", frozenset(EXTRAS), found)
    return {name: distribution(name).version for name in sorted(found)}


if __name__ == "__main__":
    FILE.write_text(HEAD + "".join(f"{name}=={version}\n" for name, version in pinned().items()), "utf-8")
