"""Measures in a training's log lines: loss, time for an iteration, throughput, skipped iterations.

Known without configuration: the frameworks of `progress`, in the formats of their public logs.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from watchdogd.system.number import digits

if TYPE_CHECKING:
    from collections.abc import Sequence

_NUMBER = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
_LOSS = re.compile(
    rf"oss(?:_step|/train/total| train)?['\"]?(?:\s*+(?:[:=]|is )|[^\S ]*+ )\s*+['\"]?"
    rf"({_NUMBER}|[-+]?(?i:nan|inf(?:inity)?))\b"
)
_LOSS_NAMES = (
    "lm ",
    "lm-",
    "lm_",
    "reduced_train_",
    "train_",
    "train ",
    "train/",
    "train/crossentropy",
    "total_",
    "epoch_",
    "batch_",
)
"""Text that may precede `loss`, most reliable first."""
_RECORD = re.compile(
    r"\b(?:best|lowest|min(?:imum|imal)?|prev(?:ious)?|last|old|target|initial|first|max(?:imum|imal)?)"
    r"[\w ]{0,16}[ :=_/-]{1,3}$"
)
"""Text before a loss that is a past record or a target."""
_NO_AIM = re.compile(
    r"reward|\bkl\b|[/_]kl\b|advantage|\bpg_|policy|entropy|clip_?(?:ratio|frac)|critic|actor|\breturns?\b"
)
"""Words beside a loss that is not meant to fall: a policy's, which is trained for a reward."""
_LENGTH = re.compile(
    r"\b(?:response|completions?|prompt|sequence|seq|episode|ep|rollout)[\w/]{0,12}len\w{0,4}[\w/]{0,8}"
    rf"['\"]?[:= ]+({_NUMBER})"
)
_NAME = re.compile(r"[\w./ -]*$")
_NOT_TRAINING = re.compile(r"\b(?:val|eval|test)\w*[ /_-]+(?:\w+[ /_-]+)?$")
_NAN_ITERATIONS = re.compile(r"number of nan iterations: *[1-9]")
_NAN_GRADIENT = re.compile(r"['\"]grad_norm['\"]: ['\"]?nan")
_SECONDS = (
    ("per iteration (ms)", re.compile(rf"per iteration \(ms\): *({_NUMBER})"), 0.001),
    ("per iteration (s)", re.compile(rf"per iteration \(s\): *({_NUMBER})"), 1.0),
    ("train_step_timing in s", re.compile(rf"train_step_timing in s[:=] *({_NUMBER})"), 1.0),
    ("s/it", re.compile(rf"(?<![\w.])({_NUMBER})s/it\b"), 1.0),
    ("ms, mfu", re.compile(rf"\btime ({_NUMBER})ms, mfu"), 0.001),
    ("iter time", re.compile(rf"\biter time: ({_NUMBER}) ?ms"), 0.001),
    ("seconds:", re.compile(rf"step: \d+, seconds: ({_NUMBER})"), 1.0),
)
_TOKENS = (
    ("tps:", re.compile(rf"\btps: *({_NUMBER})")),
    (
        "tokens",
        re.compile(rf"tokens(?:_per_|/| per )sec(?:ond)?\w{{0,40}}(?:/\w{{1,40}})?['\"]?[:= ]+({_NUMBER})"),
    ),
    ('"wps"', re.compile(rf"\"wps\": \"?({_NUMBER})")),
)
_SAMPLES = (
    (
        "amples",
        re.compile(rf"[Ss]amples(?:/s|/sec|[_ ]per[_ ]sec\w{{0,40}}|PerSec)['\"]?[:= ]+({_NUMBER})"),
    ),
)
_ITERATIONS = (("it/s", re.compile(rf"(?<![\w.])({_NUMBER})it/s\b")),)
"""Rates per second: a needle and the pattern for the number. The first in a line counts (an average)."""
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}\b)")
_BATCH = re.compile(r"global[ _]batch[ _]size: *(\d+)")
_SKIPPED = re.compile(r"skipped iterations: *(\d+)")
_SKIPPED_RUNNING = re.compile(r"(?<!\w)skipped=(\d+)")


Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Skipped:
    """Number of skipped iterations: since the last report, or (`running`) since the start."""

    count: int
    running: bool


class Spots(NamedTuple):
    """Places of a line's measures, as begin and end of each number; None if the line does not have it.

    They depend only on where digits stand, not on the digits.

    `name`: the text before the loss. `falls`: training is meant to make the loss fall.
    `doubted`: the loss may be NaN although the line does not say so directly.
    `seconds`: time of an iteration, in units of `unit` seconds.
    `tokens`, `samples`, `iterations`: rates per second. `batch`: size of a batch.
    `skipped`, `running`: see Skipped. `length`: length of answers, sequences or episodes.
    """

    loss: Span | None = None
    name: Span = (0, 0)
    falls: bool = True
    doubted: bool = False
    seconds: Span | None = None
    unit: float = 1.0
    tokens: Span | None = None
    samples: Span | None = None
    iterations: Span | None = None
    batch: Span | None = None
    skipped: Span | None = None
    running: bool = False
    length: Span | None = None


NOWHERE = Spots()


def spots_of(text: str) -> Spots:
    """Find the places of a line's measures."""
    loss = find_loss(text)
    seconds, unit = _find_seconds(text)
    skipped = _SKIPPED.search(text) or _SKIPPED_RUNNING.search(text) if "skipped" in text else None
    batch = _BATCH.search(text) if "batch" in text else None
    length = _LENGTH.search(text) if "len" in text else None
    return Spots(
        loss=loss and loss.span(1),
        name=(max(loss.start() - 24, 0), loss.start()) if loss else (0, 0),
        falls=loss is None or _NO_AIM.search(text.lower()) is None,
        doubted="nan iterations" in text or ("grad_norm" in text and bool(_NAN_GRADIENT.search(text))),
        seconds=seconds,
        unit=unit,
        tokens=_find_rate(text, _TOKENS),
        samples=_find_rate(text, _SAMPLES),
        iterations=_find_rate(text, _ITERATIONS),
        batch=batch and batch.span(1),
        skipped=skipped and skipped.span(1),
        running=skipped is not None and skipped.re is _SKIPPED_RUNNING,
        length=length and length.span(1),
    )


def find_loss(text: str) -> re.Match[str] | None:
    """Find the most reliable loss in a line, or None."""
    best = None
    for match in _LOSS.finditer(text) if "oss" in text else ():
        begin = match.start() - 1
        if text[begin : begin + 1] not in ("l", "L"):
            continue
        rank = _loss_rank(text[max(begin - 24, 0) : begin].lower())
        if rank is not None and (best is None or rank < best[0]):
            best = rank, match
    return best[1] if best else None


def _loss_rank(before: str) -> int | None:
    """Rank a loss by the text before it: 0 is surely the training's own; None: it is not."""
    for rank, name in enumerate(_LOSS_NAMES):
        if before.endswith(name):
            return rank
    if before[-1:].isalnum() or before[-1:] in ("_", "/"):
        return None
    if _NOT_TRAINING.search(before) or _RECORD.search(before):
        return None
    return len(_LOSS_NAMES)


def _find_seconds(text: str) -> tuple[Span | None, float]:
    for needle, pattern, unit in _SECONDS:
        if needle in text and (match := pattern.search(text)):
            return match.span(1), unit
    return None, 1.0


def _find_rate(text: str, patterns: Sequence[tuple[str, re.Pattern[str]]]) -> Span | None:
    """Find the place of a rate, whose number may contain commas."""
    for needle, pattern in patterns:
        if needle in text and (match := pattern.search(_THOUSANDS.sub("", text))):
            begin, end = match.span(1)
            for comma in _THOUSANDS.finditer(text):
                begin, end = begin + (comma.start() <= begin), end + (comma.start() < end)
            return begin, end
    return None


def loss(text: str, spots: Spots) -> float | None:
    """Return the training loss in a line (may be NaN or infinite), or None. Validation losses do not count.

    NaN also stands for Megatron's report of NaN iterations, which names no loss, and for the loss of 0 that
    HF Trainer prints beside a NaN gradient.
    """
    if spots.loss is None:
        return math.nan if spots.doubted and _NAN_ITERATIONS.search(text) else None
    value = float(text[spots.loss[0] : spots.loss[1]])
    return math.nan if not value and spots.doubted and _NAN_GRADIENT.search(text) else value


def loss_name(text: str, spots: Spots) -> str:
    """Return the text before a loss, which says which loss it is."""
    found = _NAME.search(text[spots.name[0] : spots.name[1]])
    return found[0].strip(" .-0123456789").lower() if found else ""


def length(text: str, spots: Spots) -> float | None:
    """Return the length of answers, sequences or episodes in a line, or None."""
    return _positive(text, spots.length)


def seconds(text: str, spots: Spots) -> float | None:
    """Return how many seconds one iteration takes according to a line, or None."""
    if spots.seconds:
        return _positive(text, spots.seconds, spots.unit)
    rate = _positive(text, spots.iterations)
    return 1.0 / rate if rate else None


def cost(text: str, spots: Spots, taken: float | None) -> tuple[str, float] | None:
    """Return a unit (token, sample or iteration) and its cost in seconds; None if the line has neither.

    `taken` is the result of `seconds`. A growing batch makes iterations longer, but not samples or tokens.
    """
    for unit, spot in (("token", spots.tokens), ("sample", spots.samples)):
        if rate := _positive(text, spot):
            return unit, 1.0 / rate
    if taken is None:
        return None
    batch = _positive(text, spots.batch)
    return ("sample", taken / batch) if batch else ("iteration", taken)


def skipped(text: str, spots: Spots) -> Skipped | None:
    """Return the iterations skipped because gradients overflowed (Megatron, DeepSpeed), or None."""
    if spots.skipped is None:
        return None
    return Skipped(digits(text[spots.skipped[0] : spots.skipped[1]]), spots.running)


def _positive(text: str, spot: Span | None, unit: float = 1.0) -> float | None:
    """Return the number at a place, if it is finite and above 0."""
    if spot is None:
        return None
    value = float(text[spot[0] : spot[1]].replace(",", "")) * unit
    return value if 0 < value < math.inf else None
