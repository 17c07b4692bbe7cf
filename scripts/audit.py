#!/usr/bin/env python3
"""Looks the installed packages up with pip-audit, and says in one line what was looked up and what was not.

Exit code 0: all were, and none has a known weakness; 1: some have; 2: some could not be looked up, so that
nothing is known of them (an index without data on weaknesses, no way out to one).
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

ARGV = (sys.executable, "-m", "pip_audit", "--skip-editable", "--progress-spinner", "off", "--format", "json")
_DEADLINE = 600.0


def main() -> int:
    """Print the verdict on what pip-audit says."""
    said = subprocess.run(ARGV, capture_output=True, text=True, timeout=_DEADLINE, check=False)
    try:
        found = json.loads(said.stdout)["dependencies"]
    except (ValueError, KeyError, TypeError):
        last = said.stderr.strip().rpartition("\n")[2] or f"exit code {said.returncode}"
        print(f"audit: nothing was looked up, so nothing is known: pip-audit: {last}")
        return 2
    lines, code = verdict(found)
    print("\n".join(lines))
    return code


def verdict(packages: Sequence[Mapping[str, Any]]) -> tuple[list[str], int]:
    """A line for each weakness, then the one that sums up; with the exit code."""
    own = [each for each in packages if "editable" not in each.get("skip_reason", "")]
    known = [each for each in own if "skip_reason" not in each]
    unknown = sorted(each["name"] for each in own if "skip_reason" in each)
    lines = [
        f"{each['name']} {each['version']}: {weakness['id']}"
        + (f", mended in {', '.join(weakness['fix_versions'])}" if weakness.get("fix_versions") else "")
        for each in known
        for weakness in each["vulns"]
    ]
    if not known:
        return [f"audit: none of {len(own)} packages could be looked up: nothing is known of them"], 2
    weak = sum(bool(each["vulns"]) for each in known)
    total = f"audit: {len(known)} of {len(own)} packages were looked up, {weak} with known weaknesses"
    if unknown:
        total += f"; not looked up, so nothing is known of them: {', '.join(unknown)}"
    return [*lines, total], 1 if weak else 2 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
