"""The environments beside the tests' own, which `make test` may still be bringing while they run."""

import os
from pathlib import Path

import pytest

from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
MINUTES = 8
"""That one takes at most where only the network is slow."""


def python_of(name: str, bringing: str) -> Path:
    """The interpreter of `.venv/NAME` once all is installed there, which `make BRINGING` does."""
    ready = ROOT / ".venv" / name / "ready"
    failed = ready.with_name("ready.failed")
    if str(ready.relative_to(ROOT)) in os.environ.get("COMING", "").split():
        wait_until(lambda: ready.exists() or failed.exists(), MINUTES * 60, f"{ready} is there")
    if not ready.exists():
        pytest.fail(f".venv/{name} is missing: make {bringing} brings it", pytrace=False)
    return ready.with_name("bin") / "python"
