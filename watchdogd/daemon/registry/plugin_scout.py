"""A process of its own that loads a plugin module and prints what it holds: `scout MODULE|FILE ORIGIN`."""

from __future__ import annotations

import pickle
import sys

from watchdogd.daemon.registry.plugin_loading import load
from watchdogd.daemon.registry.plugin_registry import entries_of


def main() -> int:
    """Print the entries, pickled, as one line of hex; a failure is one line on stderr and exit code 1."""
    module, origin = sys.argv[1:3]
    try:
        entries = entries_of(load(module), module, origin)
        print(pickle.dumps(entries).hex())
    except BaseException as error:  # noqa: BLE001 - a plugin may raise anything, SystemExit included
        print(f"{type(error).__name__}: {error}".splitlines()[0], file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
