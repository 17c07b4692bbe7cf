"""Loading of the code that a Source names, in any process.

Run as a process (`MODULE|FILE ORIGIN`) for the registry, it prints the plugins of a module.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import pickle
import shlex
import stat
import sys
from importlib.machinery import SourceFileLoader
from types import CodeType, ModuleType

from watchdogd.errors import PluginError


class _Source(SourceFileLoader):
    """Loader that ignores `__pycache__`, where another writer could have put other code."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        code: CodeType = self.source_to_code(self.get_data(path), path)
        return code


def load(module: str) -> ModuleType:
    """Import a module by its dotted name, or a file by its path, under a name made from the path."""
    if "/" not in module:
        return importlib.import_module(module)
    name = "watchdogd_plugin_" + hashlib.sha256(module.encode()).hexdigest()[:12]
    if name in sys.modules:
        return sys.modules[name]
    _distrust_cache(os.path.join(os.path.dirname(module), "__pycache__"))
    spec = importlib.util.spec_from_file_location(name, module, loader=_Source(name, module))
    if spec is None or spec.loader is None:
        raise PluginError(f"{module} is no Python file")
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[name] = loaded
    spec.loader.exec_module(loaded)
    return loaded


def _distrust_cache(folder: str) -> None:
    """Raise PluginError where everybody can write the `__pycache__` from which a plugin imports."""
    try:
        mode = os.stat(folder).st_mode
    except OSError:
        return
    if mode & stat.S_IWOTH:
        raise PluginError(f"{folder} can be written by everybody: rm -r {shlex.quote(folder)}")


def main() -> int:
    """Print the entries, pickled, as a line of hex digits; on failure, one line on stderr and exit code 1."""
    from watchdogd.daemon.registry.plugin_registry import entries_of  # not needed by workers

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
