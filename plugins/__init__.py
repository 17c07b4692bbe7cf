"""Built-in checks, one folder each: `check.py` holds the plugin, the files beside it what it needs."""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType


def modules() -> list[ModuleType]:
    """Import `check.py` of each folder, by name."""
    folders = [each.name for each in pkgutil.iter_modules(__path__) if each.ispkg]
    return [importlib.import_module(f"{__name__}.{folder}.check") for folder in folders]
