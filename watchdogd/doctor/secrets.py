"""Secrets: set where it will run, and nobody else can read their files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from watchdogd.config.secret import exposed
from watchdogd.doctor.finding import Finding, broken, fine, warning
from watchdogd.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from watchdogd.config.secret import Secret
    from watchdogd.doctor.scene import Scene

TOPIC = "secrets"


def look(scene: Scene) -> Iterator[Finding]:
    """Each secret by the key it stands under."""
    config = scene.config
    if scene.slurm and scene.site:
        yield from kept(tuple(config.secrets(relayed=False)), scene.site)
    yield from judge(tuple(config.secrets()), scene.home.group, dict(config.secrets(relayed=False)))


def kept(secrets: Sequence[tuple[str, Secret]], site: Mapping[str, str]) -> Iterator[Finding]:
    """Whether the site keeps what a link's environment holds (slurm.conf(5), AccountingStoreFlags)."""
    exported = [key for key, secret in secrets if secret.variable]
    if exported and "job_env" in site.get("AccountingStoreFlags", "").lower():
        text = f"the site's accounting keeps the environment of jobs, and so of links: {', '.join(exported)}"
        yield warning(TOPIC, text, "give them as file:PATH")


def judge(
    secrets: Sequence[tuple[str, Secret]], group: int | None, needed: Collection[str] | None = None
) -> Iterator[Finding]:
    """What is wrong with them; nothing of a secret is shown. `needed` are the keys of those that have to
    be here (all): what a relay alone sends with may lie elsewhere."""
    here = [(key, secret) for key, secret in secrets if needed is None or key in needed]
    found = [finding for key, secret in here for finding in _there(key, secret)]
    found += [warning(TOPIC, problem.what, problem.fix) for problem in exposed(secrets, group)]
    yield from found
    if here and not found:
        yield fine(TOPIC, f"{len(here)} {'is' if len(here) == 1 else 'are'} set, and nobody else's to read")


def _there(key: str, secret: Secret) -> Iterator[Finding]:
    try:
        secret.reveal()
    except ConfigError as error:
        fix = error.fix or f"write it into {secret.path}, and chmod 600 it"
        yield broken(TOPIC, f"{key}: {error.what}", fix)
        return
    if not secret.variable and not secret.path:
        yield warning(TOPIC, f"{key} stands readable in config.toml", "use file:PATH or env:NAME")
