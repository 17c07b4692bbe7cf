"""How far a training is, as its log lines say.

Known without configuration: Megatron(-DeepSpeed), DeepSpeed, torchtitan, MaxText, Pax, nanoGPT, Composer,
OLMo, NeMo, Lightning, HF Trainer, fairseq, flair, timm, OpenCLIP, big_vision, Keras, Levanter, and tqdm bars.
Forms as their public logs show them. Every pattern reads a line in a time that grows as its length does:
lines of megabytes occur.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from watchdogd.readers.lines import OPEN_AT_MOST

if TYPE_CHECKING:
    from collections.abc import Callable

    from watchdogd.readers.lines import Line

_GLUED = 1000
"""Characters of a line, above which it may hold many states that were written one after the other."""


class Report(NamedTuple):
    """One line that says how far the training is. `series` tells different counters apart.

    `mark` tells two reports apart whose numbers were rounded to one (HF Trainer's epoch), where it is not 0.
    """

    series: str
    number: float
    total: float | None = None
    mark: float = 0.0


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
    """A counter that begins anew with each epoch; where no total is known, an epoch counts _EPOCH."""
    total = _float(match[3]) if match[3] else _EPOCH
    return _float(match[1]) * total + _float(match[2]), None


def _scaled(match: re.Match[str]) -> tuple[float, float | None]:
    """`2.13kit/100kit`: four groups, each number before its prefix."""
    number, prefix, total, of = match.groups()
    return _float(number) * _THOUSANDS[prefix], _float(total) * _THOUSANDS[of]


_THOUSANDS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}


def _float(text: str) -> float:
    return float(text.replace(",", "").replace(" ", ""))


def _format(
    series: str,
    needle: str,
    pattern: str,
    read: Callable[[re.Match[str]], tuple[float, float | None]] = _plain,
) -> Format:
    return Format(series, needle, re.compile(pattern), read)


_RICH_EPOCH = r"(?:(?!Epoch \d+(?:/\d+)?\s).)*?"
_BAR_EPOCH = r"(?:(?!Epoch \d+:).)*?"
"""What may stand between an epoch and the count of its batches: no other epoch, lest a long line of epochs
be searched to its end from each of them."""
# A pattern begins with its letters, and looks back behind them: so it is searched for in a fifth of the time.
FORMATS = (
    _format("iteration", "iteration", r"iteration(?<!\witeration)\s+(\d+)/\s*(\d+)\s*\|"),
    _format("step", "skipped=", r"step=(?<!\wstep=)(\d+), skipped="),
    _format("global_step", "global_step=", r"global_step=(?<!\wglobal_step=)(\d+(?:\.\d+)?)"),
    _format("step", "[step=", r"\[step=([\d,]+)(?:/([\d,]+))?"),
    _format("batch", "[batch=", r"\[batch=(\d+)(?:/(\d+))?\]"),
    _format("step", "step:", r"step:(?<!\wstep:)\s*([\d,]*\d)(?=[\s,|]|$)"),
    _format("iter", "iter ", r"iter (?<![\w-]iter )(\d+): loss"),
    _format("iter", " - iter ", r"epoch (\d+) - iter (\d+)/(\d+)", _of_epoch),
    _format("num_updates", "num_updates", r"num_updates['\"]?[:= ]+['\"]?(\d+)"),
    _format("update", '"update"', r"\"update\": \"?(\d+(?:\.\d+)?)"),
    _format("train", "Progress on:", r"Progress on:train ([\d.]+)([kMG]?)it/([\d.]+)([kMG]?)it", _scaled),
    _format("batch", "━", rf"Epoch (\d+)(?:/\d+)?\s{_RICH_EPOCH}(?<![\d.:])(\d+)/(\d+) ", _of_epoch),
    _format("batch", "Epoch(train)", r"Epoch\(train\)\s+\[(\d+)\]\[\s*(\d+)/(\d+)\]", _of_epoch),
    _format("iter", "Iter(train)", r"Iter\(train\)\s+\[\s*(\d+)/(\d+)\]"),
    _format("batch", "Epoch: [", r"Epoch: \[(\d+)\]\s*\[\s*(\d+)/(\d+)\]", _of_epoch),
    _format("batch", "Epoch: ", r"Epoch: (\d+) \[ *(\d+)/(\d+) \(", _of_epoch),
    _format("batch", " batches", r"epoch +(\d+) \| +(\d+)/ *(\d+) batches", _of_epoch),
    _format("batch", "Train: ", r"Train: (\d+) \[\s*(\d+)/(\d+) \(", _of_epoch),
    _format("step", "step_i:", r"step_i: (\d+)"),
    _format("step", "Steps:", r"Steps:(?<!\wSteps:) ?(\d+)/(\d+)"),
    _format("step", "current_steps", r"current_steps['\"]?: *(\d+)"),
    _format("batch", "Epoch ", rf"Epoch (\d+):{_BAR_EPOCH}(?<![\d.])(\d+)(?:/(\d+)|it) \[", _of_epoch),
    _format("epoch", "'epoch'", r"loss'(?:(?!loss').)*'epoch': '?(\d+(?:\.\d+)?)"),
)
_EPOCH = 1e9
_OF_EACH_EPOCH = " of each epoch"
_BAR_SERIES = "bar of "
_BAR = re.compile(
    r"(?<!\d)(\d+)/(\d+) (?:\[(?:\d+:\d\d(?::\d\d)?<|[=>.]{3,}\])|━{9,40} (?:\d+s|\d+:[\d:]+) \d+[mu]?s/step)"
)
_ENDLESS_BAR = re.compile(r"(?<![\w./])(\d+)it \[\d+:\d\d")
_ANY_WORDS = ("step", "iter", "batch", "update")
_ANY = re.compile(
    r"(?:global[_ ]step|iteration|iter|step|update|batch)['\"]?[\s:=#\[]{0,8}"
    r"(\d{1,3}(?:,\d{3})+(?!,?\d)|\d+(?!\d*,\d{3}(?!\d)))(?:\s*/\s*(\d+))?(?![\d.]*[a-z])"
)
_RATE_OF = re.compile(r"(?:\b(?:ms|s|secs?|seconds?|time|tokens?|samples?)/|\bper[ _])$")
"""What stands before `batch 35.33` where that is no count: `ms/batch`, `s/step`, `per step`."""
_IN_EPOCH = re.compile(r"(?<!\w)(?<!per )epoch['\"]?[\s:=#\[]{0,4}(\d+)")
_BARS = Format(_BAR_SERIES, "", _BAR, _plain)
_ENDLESS_BARS = Format("iteration of a bar", "", _ENDLESS_BAR, _plain)
_COUNTERS = Format("step", "", _ANY, _plain)
_NO_PROGRESS = (
    "slurm",
    "srun:",
    "checkpoint",
    "load",
    "save",
    "saving",
    "resum",
    "restor",
    "skip",
    "error",
    "warn",
    "timeout",
    "valid",
    "eval",
)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What may stand in some lines: the formats of progress, whether any other counter (`counters`), and
    words of lines that tell none."""

    formats: tuple[Format, ...]
    counters: bool
    no_progress: tuple[str, ...]


ANYTHING = Vocabulary(FORMATS, True, _NO_PROGRESS)


def vocabulary(text: str, low: str) -> Vocabulary:
    """What stands in a text (and the same in lower case): one search of it all for what each of its lines
    then need not be searched for."""
    return Vocabulary(
        tuple(each for each in FORMATS if each.needle in text),
        any(word in low for word in _ANY_WORDS),
        tuple(word for word in _NO_PROGRESS if word in low),
    )


class Spot(NamedTuple):
    """Where a line says how far the training is: in which form, and where that begins."""

    form: Format
    start: int


def progress(text: str, known: Vocabulary = ANYTHING) -> Report | None:
    """How far the training says it is in this line, in any format of `known`, or None."""
    spot = spot_of(text, known)
    return reported(text, spot) if spot else None


def spot_of(text: str, known: Vocabulary = ANYTHING) -> Spot | None:
    """Where `progress` reads, or None. It depends on no digit, only on where digits stand."""
    for form in known.formats:
        if form.needle in text and (match := form.pattern.search(text)):
            return Spot(form, match.start())
    bar = "<" in text or " [=" in text or " [>" in text or " [." in text or "s/step" in text
    for form, possible in ((_BARS, bar), (_ENDLESS_BARS, "it [" in text)):
        states = list(form.pattern.finditer(text)) if possible else []
        if states:
            return Spot(form, states[-1].start())
    return _any_counter(text.lower(), known)


def epoch_of(text: str) -> float | None:
    """The epoch that a line names: `Epoch 3/10`, `epoch=3`; None where it names none."""
    match = _IN_EPOCH.search(text.lower())
    return float(match[1]) if match else None


def reported(text: str, spot: Spot) -> Report:
    """What a line says at a spot that was found in it, or in another one of its shape."""
    form = spot.form
    match = form.pattern.match(text.lower() if form is _COUNTERS else text, spot.start)
    assert match is not None
    number, total = form.read(match)
    if form is _COUNTERS and (epoch := epoch_of(text)) is not None:
        return Report(f"{form.series}{_OF_EACH_EPOCH}", epoch * _EPOCH + number)
    if form is _BARS:
        return Report(f"{_BAR_SERIES}{match[2]}", number, total)
    mark = float(crc32(text[spot.start :].encode())) if form.needle == "'epoch'" else 0.0
    endless = form.read is _of_epoch and not match[3]
    return Report(f"{form.series}{_OF_EACH_EPOCH}" if endless else form.series, number, total, mark)


def _any_counter(text: str, known: Vocabulary) -> Spot | None:
    """`step 12`, `iter: 7/90`, `batch=3`: what a training that somebody wrote himself says."""
    if not known.counters or any(map(text.__contains__, known.no_progress)):
        return None
    return next((Spot(_COUNTERS, each.start()) for each in _ANY.finditer(text) if _counts(text, each)), None)


def _counts(text: str, match: re.Match[str]) -> bool:
    """Whether it is a count: a word of its own, and no time or rate of one."""
    before = text[max(match.start() - 10, 0) : match.start()]
    return not before[-1:].isalnum() and not _RATE_OF.search(before)


@lru_cache(maxsize=256)
def compiled(pattern: str) -> re.Pattern[str]:
    """A configured pattern, compiled once."""
    return re.compile(pattern)


def words(series: str, number: float, total: float | None = None) -> str:
    """A report as people read it: `iteration 12/90`; of a progress bar only `12/90`; `epoch 3, batch 12`."""
    parts = in_epoch(series, number)
    if parts:
        return f"epoch {parts[0]:.0f}, {series.removesuffix(_OF_EACH_EPOCH)} {parts[1]:.0f}"
    count = f"{number:.10g}/{total:.10g}" if total else f"{number:.10g}"
    return count if series.startswith(_BAR_SERIES) else f"{series} {count}"


def latest(line: Line, pattern: str | None = None, known: Vocabulary = ANYTHING) -> str:
    """Of a line that may hold many states, one behind the other, the last; all of it where it holds one."""
    if not line.open and len(line.text) <= _GLUED:
        return line.text
    text = line.text[-OPEN_AT_MOST:]
    if pattern:
        found = list(compiled(pattern).finditer(text))
        return text[found[-2].end() :] if len(found) > 1 else text
    found = _states(text, known)
    return text[found[-1].start() :] if len(found) > 1 else text


def _states(text: str, known: Vocabulary) -> list[re.Match[str]]:
    """All that `progress` could take the first of."""
    for form in known.formats:
        if form.needle in text and (found := list(form.pattern.finditer(text))):
            return found
    if found := list(_BAR.finditer(text)) or list(_ENDLESS_BAR.finditer(text)):
        return found
    counters = [(each[0][: each.start(1) - each.start()], each) for each in _ANY.finditer(text.lower())]
    return [each for word, each in counters if word == counters[0][0]]


def in_epoch(series: str, number: float) -> tuple[float, float] | None:
    """Epoch and batch of a bar that begins anew with each epoch and has no total; None for all other series,
    whose number people can read."""
    return divmod(number, _EPOCH) if series.endswith(_OF_EACH_EPOCH) else None


def progress_by(pattern: str, text: str) -> Report | None:
    """The number that the user's own pattern finds: its first group, else all of the match."""
    match = compiled(pattern).search(text)
    if not match:
        return None
    try:
        return Report("progress", _float(match[1] if match.re.groups and match[1] else match[0]))
    except ValueError:
        return None
