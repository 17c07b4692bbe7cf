"""Finding the code that a Source names, in whatever process shall run it."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from typing import TYPE_CHECKING

from watchdogd.errors import PluginError

if TYPE_CHECKING:
    from types import ModuleType


def load(module: str) -> ModuleType:
    """A module by its dotted name, or by a file's path (then under a name of its own)."""
    if "/" not in module:
        return importlib.import_module(module)
    name = "watchdogd_plugin_" + hashlib.sha256(module.encode()).hexdigest()[:12]
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, module)
    if spec is None or spec.loader is None:
        raise PluginError(f"{module} is no Python file")
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[name] = loaded
    spec.loader.exec_module(loaded)
    return loaded
