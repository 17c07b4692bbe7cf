"""`python -m benchmarks [NAME ...]`: the whole table, or the rows of some modules. It asserts nothing."""

from __future__ import annotations

import os
import platform
import sys
import time
from importlib import import_module
from pathlib import Path

from benchmarks import table
from benchmarks.resting import Resting

MODULES = ("light", "rounds", "builtin", "delivery", "resting", "logs", "stacks", "guard_poll", "alerting")


def main(chosen: list[str]) -> None:
    """Print the table row by row; a module that cannot be run is a row too."""
    if unknown := set(chosen) - set(MODULES):
        sys.exit(f"no module measures {', '.join(sorted(unknown))}: choose of {', '.join(MODULES)}")
    begin = time.monotonic()
    print(f"{_machine()}\n\n{table.head()}", flush=True)
    idle = None if chosen else Resting()
    for name in chosen or MODULES:
        try:
            for line in import_module(f"benchmarks.{name}").lines():
                print(table.row(line), flush=True)
        except Exception as error:  # noqa: BLE001 - whatever goes wrong is a row, and the others come all the same
            print(table.row(table.Line(name, f"not measured: {' '.join(str(error).split())[:150]}")))
        if idle:
            idle.settle()
    if idle:
        print(table.row(idle.line()))
    print(f"\nin {(time.monotonic() - begin) / 60:.0f} minutes", flush=True)


def _machine() -> str:
    models = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line]
    model = models[0].partition(":")[2].strip() if models else platform.machine()
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    return (
        f"{time.strftime('%Y-%m-%d')}: {os.cpu_count()} cores {model}, Linux {platform.release()}, "
        f"Python {platform.python_version()}; load before: {load}"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
