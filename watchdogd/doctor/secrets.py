"""Secrets: set where it will run, and nobody else can read their files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from watchdogd.doctor.finding import Finding, broken, fine, warning
from watchdogd.errors import ConfigError
from watchdogd.secret import exposed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from watchdogd.doctor.scene import Scene
    from watchdogd.secret import Secret

TOPIC = "secrets"


def look(scene: Scene) -> Iterator[Finding]:
    """Each secret by the key it stands under."""
    return judge(tuple(scene.config.secrets()), scene.home.group)


def judge(secrets: Sequence[tuple[str, Secret]], group: int | None) -> Iterator[Finding]:
    """What is wrong with them; nothing of a secret is shown."""
    found = [finding for key, secret in secrets for finding in _there(key, secret)]
    found += [warning(TOPIC, *_apart(line)) for line in exposed(secrets, group)]
    yield from found
    if secrets and not found:
        yield fine(
            TOPIC, f"{len(secrets)} {'is' if len(secrets) == 1 else 'are'} set, and nobody else's to read"
        )


def _there(key: str, secret: Secret) -> Iterator[Finding]:
    try:
        secret.reveal()
    except ConfigError as error:
        text, _, mend = str(error).partition(": ")
        yield broken(TOPIC, f"{key}: {text}", mend or f"write it into {secret.path}, and chmod 600 it")
        return
    if not secret.variable and not secret.path:
        yield warning(TOPIC, f"{key} stands readable in config.toml", "use file:PATH or env:NAME")


def _apart(line: str) -> tuple[str, str]:
    """What is wrong, and the mend that stands behind the last colon."""
    text, _, mend = line.rpartition(": ")
    return text, mend
