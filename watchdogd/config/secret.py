"""Secrets: given as `env:NAME` or `file:PATH`, read only where they are used."""

from __future__ import annotations

import base64
import contextlib
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

from watchdogd.errors import ConfigError, Problem
from watchdogd.home import file_trust
from watchdogd.system import command
from watchdogd.system.smallfile import read_plain

if TYPE_CHECKING:
    from watchdogd.home.layout import Home

MASK = "****"
_SECRET_LENGTH = 8
"""Minimum length of a URL's part to count as secret; `api` and `hooks` do not."""
_PASSWORD = re.compile(r"(://[^:/@\s]*:)[^@\s]+(?=@)")
_IN_QUERY = re.compile(r"([?&][^=&\s]*(?:password|token|secret|key)[^=&\s]*=)[^&\s]+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Secret:
    """Reference to a secret, which never appears when this value is printed, logged or compared."""

    reference: str

    @property
    def variable(self) -> str:
        """Return the name of its environment variable, or empty."""
        return self.reference[4:] if self.reference.startswith("env:") else ""

    @property
    def path(self) -> str:
        """Return the path of its file, or empty."""
        return self.reference[5:] if self.reference.startswith("file:") else ""

    def reveal(self) -> str:
        """Return the secret. ConfigError, naming only the reference, where it is missing."""
        if self.variable:
            value = os.environ.get(self.variable, "").strip()
            if not value:
                what = f"environment variable {self.variable} is not set"
                raise ConfigError(what, fix="export it, or use file:PATH")
            if not value.isprintable():
                what = f"environment variable {self.variable} has line breaks or control characters in it"
                raise ConfigError(what, fix="export the secret alone")
            return value
        if self.path:
            try:
                value = read_plain(os.path.expanduser(self.path), follow=True).strip()
            except OSError as error:
                raise ConfigError(f"secret file {self.path} cannot be read: {error.strerror}") from None
            except UnicodeDecodeError:
                what = f"secret file {self.path} holds no text"
                raise ConfigError(what, fix="write the secret into it") from None
            if not value or not value.isprintable():
                raise ConfigError(f"secret file {self.path} shall hold the secret alone, on one line")
            return value
        return self.reference

    def __str__(self) -> str:
        """Return the reference, or a mask for a literal secret."""
        return self.reference if self.variable or self.path else MASK

    def __repr__(self) -> str:
        """Return the reference or a mask."""
        return f"Secret({self})"


def masked(text: str, words: Iterable[str]) -> str:
    """Return a text from outside with these words masked, also in percent-encoding and in base64."""
    found = sorted({form for word in words if word for form in _forms(word)}, key=len, reverse=True)
    return re.sub("|".join(map(re.escape, found)), MASK, text) if found else text


def _forms(word: str) -> tuple[str, ...]:
    sent = word.encode("utf-8", "surrogateescape")
    coded = [
        base64.b64encode(each).decode().rstrip("=") for each in (sent, word.encode("latin-1", "replace"))
    ]
    return word, quote(sent), quote(sent, safe=""), *coded


def secret_parts(url: str) -> tuple[str, ...]:
    """Return the parts of a URL that may be secret: the whole, the path and longer parts; not the host."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return (url,)
    user = parts.netloc.rpartition("@")[0]
    behind = f"{parts.path}?{parts.query}" if parts.query else parts.path
    pieces = (behind, parts.path, *re.split(r"[/?&=:]", f"{user}/{behind}"))
    found = {url, *(piece for piece in pieces if len(piece) >= _SECRET_LENGTH)}
    if ":" in user:  # a password of any length
        found |= {user, user.partition(":")[2]}
    return tuple(found | {unquote(piece) for piece in found})


def without_passwords(text: str) -> str:
    """Return a text with the passwords in its URLs masked."""
    return _IN_QUERY.sub(rf"\1{MASK}", _PASSWORD.sub(rf"\1{MASK}", text))


def withhold(home: Home) -> None:
    """Hide the variables that config.toml names as secrets from commands; the file may be broken."""
    with contextlib.suppress(OSError):
        text = read_plain(home.config, errors="replace", follow=True)
        command.withhold(re.findall(r"""["']env:([A-Za-z_]\w*)["']""", text))


def exposed(secrets: Iterable[tuple[str, Secret]], group: int | None) -> tuple[Problem, ...]:
    """Return the secrets whose files others than owner and `group` can read, by key, with the fix."""
    found = (
        (key, file_trust.exposed(Path(os.path.expanduser(secret.path)), group))
        for key, secret in secrets
        if secret.path
    )
    return tuple(reason.about(f"{key}: secret file ") for key, reason in found if reason)
