"""A campaign in mount namespaces of its own: whatever it mounts goes with it, and nobody else sees it."""

from __future__ import annotations

import os
import sys

MARK = "CHAOS_NAMESPACE"
PREPARE = 'mount --make-rshared / && exec "$@"'
"""Shared within: a manager of systemd's, which has a namespace of its own, sees home come and go."""


def enter() -> None:
    """Begin this program anew in there."""
    if MARK in os.environ:
        return
    words = ["unshare", "--mount", "--propagation", "private", "sh", "-c", PREPARE, "sh"]
    own = [sys.executable, "-m", "benchmarks.chaos", *sys.argv[1:]]
    os.execvpe("unshare", [*words, *own], {**os.environ, MARK: "1"})
