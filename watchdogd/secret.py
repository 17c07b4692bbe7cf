"""Secrets: given as `env:NAME` or `file:PATH`, revealed only where they are used."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from watchdogd import trust
from watchdogd.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Secret:
    """A reference to a secret; its text never shows by printing, logging or comparing this value."""

    reference: str

    @property
    def variable(self) -> str:
        """The environment variable it comes from, or empty."""
        return self.reference[4:] if self.reference.startswith("env:") else ""

    @property
    def path(self) -> str:
        """The file it comes from, or empty."""
        return self.reference[5:] if self.reference.startswith("file:") else ""

    def reveal(self) -> str:
        """The secret itself. ConfigError, naming the reference alone, where it is not there."""
        if self.variable:
            value = os.environ.get(self.variable, "")
            if not value:
                raise ConfigError(
                    f"environment variable {self.variable} is not set: export it, or use file:PATH"
                )
            return value
        if self.path:
            try:
                value = Path(self.path).expanduser().read_text(encoding="utf-8").strip()
            except OSError as error:
                raise ConfigError(f"secret file {self.path} cannot be read: {error.strerror}") from None
            except UnicodeDecodeError:
                raise ConfigError(
                    f"secret file {self.path} holds no text: write the secret into it"
                ) from None
            if not value or not value.isprintable():
                raise ConfigError(f"secret file {self.path} shall hold the secret alone, on one line")
            return value
        return self.reference

    def __str__(self) -> str:
        """The reference where it is one, else a mask."""
        return self.reference if self.variable or self.path else "****"

    def __repr__(self) -> str:
        """As str: a secret shows nowhere."""
        return f"Secret({self})"


def exposed(secrets: Iterable[tuple[str, Secret]], group: int | None) -> tuple[str, ...]:
    """A line for each secret, with its key, whose file others can read than its owner and `group`."""
    found = (
        (key, trust.exposed(Path(secret.path).expanduser(), group)) for key, secret in secrets if secret.path
    )
    return tuple(f"{key}: secret file {reason}" for key, reason in found if reason)
