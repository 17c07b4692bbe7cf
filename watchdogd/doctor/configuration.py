"""config.toml: it loads, watches something, and tells somebody."""

from __future__ import annotations

from typing import TYPE_CHECKING

from watchdogd.config.channels import ConsoleChannel, StatuslogChannel
from watchdogd.doctor.finding import Finding, fine, warning

if TYPE_CHECKING:
    from collections.abc import Iterator

    from watchdogd.doctor.scene import Scene

TOPIC = "config"


def look(scene: Scene) -> Iterator[Finding]:
    """That it loads was seen before: without it there is no scene."""
    config = scene.config
    parts = (("check", scene.setup.checks), ("run", config.runs), ("disk", config.disks))
    counts = ", ".join(f"{len(found)} {what}{'' if len(found) == 1 else 's'}" for what, found in parts)
    yield fine(TOPIC, f"{scene.home.config} is sound: {counts}")
    if not config.runs:
        yield warning(TOPIC, "no run is watched", "watchdogd watch JOB, or add [runs.NAME]")
    if not config.disks:
        yield warning(TOPIC, "no disk is watched", 'add [disks.scratch] with path = "..."')
    local = ConsoleChannel | StatuslogChannel
    if all(isinstance(config.channels.get(name), local) for name in config.default_channels):
        where = ", ".join(config.default_channels) or "no channel at all"
        yield warning(
            TOPIC, f"nobody is told: messages go to {where}", "add [channels.slack] or [channels.mail]"
        )
