"""A training's log lines as numbers: how far it is, its loss, and how long an iteration takes.

Known without configuration: Megatron(-DeepSpeed), DeepSpeed, torchtitan, MaxText, nanoGPT, Composer, OLMo,
NeMo, Lightning, HF Trainer, fairseq, flair, Levanter, and tqdm bars. Forms as their public logs show them.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_NUMBER = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
_LOSSES = tuple(
    re.compile(rf"(?<![\w/]){name}['\"]?\s*[:= ]\s*['\"]?({_NUMBER}|nan|[-+]?inf(?:inity)?)\b", re.IGNORECASE)
    for name in (
        r"lm[ -]loss",
        r"reduced_train_loss",
        r"(?:train[ _/])?loss(?:_step)?(?:/train/total)?",
        r"train/(?:CrossEntropyLoss|loss)",
        r"train loss/train/total",
    )
)
_NOT_TRAINING = re.compile(r"\b(?:val|valid|validation|eval|test)\w*[ /_-]+(?:\w+[ /_-]+)?$", re.IGNORECASE)
_SECONDS = (
    (re.compile(r"elapsed time per iteration \(ms\): *(" + _NUMBER + ")"), 0.001),
    (re.compile(r"(?<![\w.])(" + _NUMBER + r")s/it\b"), 1.0),
)


@dataclass(frozen=True, slots=True)
class Report:
    """One line that says how far the training is. `series` tells different counters apart."""

    series: str
    number: float
    total: float | None = None


@dataclass(frozen=True, slots=True)
class Format:
    """How one framework writes its progress: `needle` must stand in the line before `pattern` is tried."""

    series: str
    needle: str
    pattern: re.Pattern[str]
    read: Callable[[re.Match[str]], tuple[float, float | None]]


def _plain(match: re.Match[str]) -> tuple[float, float | None]:
    return _float(match[1]), _float(match[2]) if match.re.groups > 1 and match[2] else None


def _of_epoch(match: re.Match[str]) -> tuple[float, float | None]:
    """A counter that begins anew with each epoch; where no total is known an epoch counts as a million."""
    total = _float(match[3]) if match[3] else None
    return _float(match[1]) * (total or 1e6) + _float(match[2]), None


def _float(text: str) -> float:
    return float(text.replace(",", "").replace(" ", ""))


def _format(
    series: str,
    needle: str,
    pattern: str,
    read: Callable[[re.Match[str]], tuple[float, float | None]] = _plain,
) -> Format:
    return Format(series, needle, re.compile(pattern), read)


FORMATS = (
    _format("iteration", "iteration", r"(?<!\w)iteration\s+(\d+)/\s*(\d+)\s*\|"),
    _format("step", "skipped=", r"(?<!\w)step=(\d+), skipped="),
    _format("global_step", "global_step=", r"(?<!\w)global_step=(\d+(?:\.\d+)?)"),
    _format("step", "[step=", r"\[step=([\d,]+)(?:/([\d,]+))?"),
    _format("batch", "[batch=", r"\[batch=(\d+)(?:/(\d+))?\]"),
    _format("step", "step:", r"(?<!\w)step:\s*([\d,]*\d)(?=[\s,|]|$)"),
    _format("iter", "iter ", r"(?<![\w-])iter (\d+): loss"),
    _format("iter", " - iter ", r"epoch (\d+) - iter (\d+)/(\d+)", _of_epoch),
    _format("num_updates", "num_updates", r"num_updates['\"]?[:= ]+['\"]?(\d+)"),
    _format("update", '"update"', r"\"update\": \"?(\d+(?:\.\d+)?)"),
    _format("train", "Progress on:", r"Progress on:train ([\d.]+)(?:k?it)/([\d.]+)"),
    _format("epoch", "Epoch ", r"Epoch (\d+):.*?(?<![\d.])(\d+)(?:/(\d+)|it) \[", _of_epoch),
    _format("epoch", "'epoch'", r"loss'.*'epoch': '?(\d+(?:\.\d+)?)"),
)
_BAR = re.compile(r"(?<![\d.])(\d+)/(\d+) \[\d+:\d\d(?::\d\d)?<")
_ANY = re.compile(
    r"(?<![\w-])(?:global[_ ]step|iteration|iter|step|update|batch)[\s:=#\[]{0,4}"
    r"(\d+)(?:\s*/\s*(\d+))?(?![\d.]*[A-Za-z])",
    re.IGNORECASE,
)
_NO_PROGRESS = re.compile(
    r"checkpoint|load|sav(?:e|ing)|resum|restor|skip|error|warn|timeout|valid|eval", re.IGNORECASE
)


def progress(text: str) -> Report | None:
    """How far the training says it is in this line, in any known format, or None."""
    for known in FORMATS:
        if known.needle in text and (match := known.pattern.search(text)):
            number, total = known.read(match)
            return Report(known.series, number, total)
    if "/" in text and (bars := _BAR.findall(text)):
        number, total = bars[-1]
        return Report(f"bar of {total}", float(number), float(total))
    match = _ANY.search(text)
    if match and not _NO_PROGRESS.search(text):
        return Report("step", *_plain(match))
    return None


@lru_cache(maxsize=256)
def compiled(pattern: str) -> re.Pattern[str]:
    """A configured pattern, compiled once."""
    return re.compile(pattern)


def progress_by(pattern: str, text: str) -> Report | None:
    """The number that the user's own pattern finds: its first group, else all of the match."""
    match = compiled(pattern).search(text)
    if not match:
        return None
    try:
        return Report("progress", _float(match[1] if match.re.groups and match[1] else match[0]))
    except ValueError:
        return None


def loss(text: str) -> float | None:
    """The training loss in this line (may be NaN or infinite), or None. Validation losses do not count."""
    if "loss" not in text and "Loss" not in text:
        return None
    for pattern in _LOSSES:
        match = pattern.search(text)
        if match and not _NOT_TRAINING.search(text[: match.start()]):
            return float(match[1])
    return None


def seconds(text: str) -> float | None:
    """How long one iteration takes by this line's own words, or None."""
    for pattern, unit in _SECONDS:
        match = pattern.search(text)
        if match:
            value = float(match[1]) * unit
            return value if math.isfinite(value) and value > 0 else None
    return None
