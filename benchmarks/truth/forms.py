"""All forms of logs that the benchmark knows: `open` ones, and `held` ones, kept from whoever tunes."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from benchmarks.truth import held, open  # noqa: A004 - the folder of the forms that tuning may look at
from benchmarks.truth.story import FORMS, Form


def all_forms() -> list[Form]:
    """Every form, in the order of modules and of their lines."""
    for package in (open, held):
        for module in sorted(each.name for each in pkgutil.iter_modules(package.__path__)):
            import_module(f"{package.__name__}.{module}")
    return list(FORMS.known.values())
