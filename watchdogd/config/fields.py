"""The kinds of values that stand in config.toml, and what every table of it has."""

from __future__ import annotations

import os
import re
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer

from watchdogd.secret import Secret
from watchdogd.units import Duration


def _secret(value: object) -> Secret:
    if not isinstance(value, str) or not value:
        raise ValueError("give a secret as env:NAME or file:PATH")
    return Secret(value)


def _pattern(value: object) -> object:
    if isinstance(value, str):
        try:
            re.compile(value)
        except re.error as error:
            raise ValueError(f"'{value}' is no regular expression: {error}") from None
    return value


def _rate(value: object) -> object:
    """Messages per second of `1/s`, `30/m`, or None of `none`."""
    if value is None or value == "none":
        return None
    if isinstance(value, int | float) and value > 0:
        return float(value)
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*/\s*(s|m|h)", str(value))
    if not match or float(match[1]) == 0:
        raise ValueError(f"'{value}' is no sending rate: write it as 1/s, 30/m or none")
    return float(match[1]) / {"s": 1, "m": 60, "h": 3600}[match[2]]


def _expand(value: object) -> object:
    return os.path.expandvars(os.path.expanduser(value)) if isinstance(value, str) else value


SecretField = Annotated[Secret, BeforeValidator(_secret), PlainSerializer(str)]
Pattern = Annotated[str, BeforeValidator(_pattern)]
SendingRate = Annotated[float | None, BeforeValidator(_rate)]
PathText = Annotated[str, BeforeValidator(_expand), Field(min_length=1)]
Positive = Annotated[Duration, Field(gt=0)]


class Section(BaseModel):
    """One table of config.toml: unknown keys are errors, values do not change."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, arbitrary_types_allowed=True, populate_by_name=True
    )
