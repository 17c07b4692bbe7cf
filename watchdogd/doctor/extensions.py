"""Plugins and drop-ins: all of them can be loaded, and belong to people who may write them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from watchdogd.doctor.finding import Finding, broken, fine, warning
from watchdogd.engine import dropins
from watchdogd.engine.catalog import skipped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from watchdogd.doctor.scene import Scene

TOPIC = "plugins"


def look(scene: Scene) -> Iterator[Finding]:
    """Those of home, of packages, and what lies in cron.*/."""
    bad = skipped(scene.setup.catalog.values())
    for entry in bad:
        yield broken(TOPIC, f"{entry.name} ({entry.origin}): {entry.skipped}", "mend or remove it")
    found = list(dropins.look(scene.home))
    for dropin in found:
        if dropin.refused:
            fix = dropin.refused.fix or "correct its rights, or take it out"
            yield broken("drop-ins", f"{dropin.name}: {dropin.refused.what}", fix)
        elif dropin.skipped and not dropin.aside:
            yield warning("drop-ins", f"{dropin.name}: {dropin.skipped}", "mend it, or name it *.disabled")
    if not bad:
        runs = sum(dropin.runs for dropin in found)
        dropped = f", {runs} drop-in{'' if runs == 1 else 's'}" if found else ""
        yield fine(TOPIC, f"{len(scene.setup.catalog)} can be loaded{dropped}")
