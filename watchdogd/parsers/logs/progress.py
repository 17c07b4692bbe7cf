"""Progress of a training, as its log lines report it.

Known without configuration: Megatron(-DeepSpeed), DeepSpeed, torchtitan, MaxText, Pax, nanoGPT, Composer,
OLMo, NeMo, Lightning, HF Trainer, fairseq, flair, timm, OpenCLIP, big_vision, Keras, Levanter, mmcv, ESPnet,
t5x, stable-baselines3, RLlib, verl, molecular dynamics, boosted trees, epochs alone, bars of tqdm and rich.

The formats (`progress_forms`) are those of their public logs. Every pattern takes a time linear in the length
of the line, since lines of megabytes occur.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from watchdogd.parsers.logs import measures
from watchdogd.parsers.logs.log_lines import OPEN_AT_MOST
from watchdogd.parsers.logs.progress_forms import (
    COARSE,
    EPOCH,
    EPOCH_NAMED,
    FORMATS,
    WORK,
    Format,
    of_epoch,
    plain,
    scaled,
    to_number,
)
from watchdogd.system.number import digits

if TYPE_CHECKING:
    from watchdogd.parsers.logs.log_lines import LogLine
    from watchdogd.parsers.logs.measures import Span

_GLUED = 1000
"""A line longer than this (characters) may hold many states, written one after the other."""


class ProgressReport(NamedTuple):
    """Progress reported by one line; `series` distinguishes different counters.

    `mark`, if not 0, distinguishes two reports whose rounded numbers are equal (HF Trainer's epoch).
    `coarse`: it counts only if no finer counter is reported. `seldom`: `Format.coarse`.
    """

    series: str
    number: float
    total: float | None = None
    mark: float = 0.0
    coarse: bool = False
    seldom: bool = False


_OF_EACH_EPOCH = " of each epoch"
_BAR_SERIES = "bar of "
_BAR = re.compile(
    r"(?<![\d.])(\d+)/(\d+) (?:\[(?:\d+:\d\d(?::\d\d)?<|[=>.]{3,}\])"
    r"|━{9,40} (?:\d+s|\d+:[\d:]+) \d+[mu]?s/step|[\d.]+(?:it/s|s/it) [\d:.]+s?(?:<|\s|$))"
)
_SCALED_BAR = re.compile(r"(?<![\d.])(\d+(?:\.\d+)?)([kMGT]?)/(\d+(?:\.\d+)?)([kMGT]?) \[\d+:\d\d(?::\d\d)?<")
_ENDLESS_BAR = re.compile(r"(?<![\w./])(\d+)(?:it|ex|batch(?:es)?| ?(?:steps?|samples?|examples)) \[\d+:\d\d")
_ANY_WORDS = ("step", "iter", "batch", "update", "episode")
_ANY = re.compile(
    r"(?:global[_ ]step|iteration|iter|step|update|batch|episode)(?:[ _](?:idx|index|num))?"
    r"['\"]?[\s:=#\[(]{0,8}['\"]?"
    r"(\d{1,3}(?:,\d{3})+(?!,?\d)|\d+(?!\d*,\d{3}(?!\d)))(?:\s*/\s*(\d+))?(?![\d.]*[a-z])"
)
_PLURAL = re.compile(
    r"(?<![\w.])(?<!total )(?<!max )(?:steps|iterations|iters|updates|timesteps?|it|ep|rounds?|generation)"
    r"[\s:=#\[]{0,4}(\d{1,3}(?:,\d{3})+|\d+)(?:\s*/\s*(\d+))?(?=[\s,:|)\]]|$)"
)
"""Words that name a counter only next to a loss; elsewhere they announce how many there will be."""
_RATE_OF = re.compile(r"(?:\b(?:ms|s|secs?|seconds?|time|tokens?|samples?)/|\bper[ _]|\bfps )$")
"""Text before `batch 35.33` that makes it no counter: `ms/batch`, `s/step`, `per step`, `fps step`."""
_BYTES_BAR = re.compile(
    r"(?<![\d.])(\d+(?:\.\d+)?)([kMGT]?)B?/(\d+(?:\.\d+)?)([kMGT]?)B? "
    r"\[\d+:\d\d(?::\d\d)?<[^\]\r]{0,40}B/s"
)
_EVALUATES = re.compile(r"\b(?:eval|valid)\w*\b[^/.,;\d]*$")
_NO_TRAINING = re.compile(
    r"\b(?:eval\w*|valid\w*|val|test(?:ing)?|inference|predict\w*|load(?:ing)?|download\w*|fetch\w*|map|filter|sanity|tokeniz\w*|extract\w*|upload\w*|saving"
    r"|resolving|scanning|caching|preprocess\w*)\b[^/.]*$"
)
_NAMED_WITHIN = 60
"""Characters before a count that are searched for what it counts."""
_IN_EPOCH = re.compile(EPOCH_NAMED)
_BARS = Format(_BAR_SERIES, "", _BAR, plain)
_SCALED_BARS = Format("scaled bar", "", _SCALED_BAR, scaled, rounded=True)
_ENDLESS_BARS = Format("iteration of a bar", "", _ENDLESS_BAR, plain)
_BYTES = Format(WORK, "", _BYTES_BAR, scaled)
_WORK_BARS = Format(WORK, "", _BAR, plain)
_WORK_COUNTERS = Format(WORK, "", _ANY, plain)
_COUNTERS = Format("step", "", _ANY, plain)
_PLURALS = Format("step", "", _PLURAL, plain)
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
    "waiting",
    "retry",
    "timeout",
    "valid",
    "eval",
)


class Spot(NamedTuple):
    """Place in a line that reports progress; it depends only on where digits stand, not on the digits.

    `start`: where the match begins. `groups`: places of the pattern's groups. `epoch`: place of the epoch,
    for a counter that restarts with each epoch.
    """

    form: Format
    series: str
    start: int
    groups: tuple[Span, ...]
    epoch: Span | None = None
    coarse: bool = False


def progress(text: str) -> ProgressReport | None:
    """Return the progress that a line reports, in any format, or None."""
    spot = spot_of(text)
    return reported(text, spot) if spot else None


def lowered(text: str) -> str:
    """Return the text in lower case without changing its length (İ alone would become two characters)."""
    return text.replace("\u0130", "i").lower()


def spot_of(text: str) -> Spot | None:
    """Find the place in a line that reports progress, or None."""
    for form in FORMATS:
        if form.needle in text and (match := form.pattern.search(text)):
            return _spot(form, match)
    bar = "<" in text or " [=" in text or " [>" in text or " [." in text or "s/step" in text or "━" in text
    low = lowered(text)
    bars = ((_BYTES, "b/s" in low), (_BARS, bar), (_SCALED_BARS, "<" in text), (_ENDLESS_BARS, " [" in text))
    for form, possible in bars:
        states = list(form.pattern.finditer(text)) if possible else []
        if states:
            named = low[max(states[-1].start() - _NAMED_WITHIN, 0) : states[-1].start()]
            other = form is _BARS and _NO_TRAINING.search(named)
            return _spot(_WORK_BARS if other else form, states[-1])
    return _any_counter(low) or _coarse(low)


def _spot(form: Format, match: re.Match[str], epoch: Span | None = None, *, coarse: bool = False) -> Spot:
    endless = epoch or (form.read is of_epoch and not match[3])
    series = f"{form.series}{_OF_EACH_EPOCH}" if endless else form.series
    groups = tuple(match.span(number) for number in range(1, match.re.groups + 1))
    return Spot(form, series, match.start(), groups, epoch, coarse or form.coarse)


def epoch_spot(low: str) -> Span | None:
    """Find the epoch that a line (in lower case) names, as in `Epoch 3/10` or `epoch=3`, or None."""
    match = _IN_EPOCH.search(low) if "epoch" in low else None
    return match.span(1) if match else None


def reported(text: str, spot: Spot) -> ProgressReport:
    """Read the progress at a place that was found in this line, or in another one of its shape."""
    form, groups = spot.form, [text[begin:end] for begin, end in spot.groups]
    number, total = form.read(groups)
    if spot.epoch:
        number, total = digits(text[spot.epoch[0] : spot.epoch[1]]) * EPOCH + number, None
    mark = float(crc32(text[spot.start :].encode())) if form.rounded else 0.0
    series = f"{_BAR_SERIES}{groups[1]}" if form is _BARS else spot.series
    return ProgressReport(series, number, total, mark, spot.coarse, form.coarse)


def _any_counter(text: str) -> Spot | None:
    """Find a counter in a format of the user's own: `step 12`, `iter: 7/90`, `batch=3`.

    Words such as `load` rule it out, since it may be a step of something else; but not in a line that has the
    training's loss.
    """
    told = measures.find_loss(text) is not None
    found = _ANY.finditer(text) if any(map(text.__contains__, _ANY_WORDS)) else ()
    match = next((each for each in found if _counts(text, each, told=told)), None)
    if match and _EVALUATES.search(text[max(match.start() - _NAMED_WITHIN, 0) : match.start()]):
        return _spot(_WORK_COUNTERS, match)
    if not told and any(map(text.__contains__, _NO_PROGRESS)):
        return None
    if match:
        return _spot(_COUNTERS, match, epoch_spot(text), coarse=not told)
    plural = _PLURAL.search(text) if told else None
    return _spot(_PLURALS, plural, epoch_spot(text)) if plural else None


def _coarse(text: str) -> Spot | None:
    """Find a counter that grows seldom or stands beside the real one."""
    if any(map(text.__contains__, _NO_PROGRESS)) and measures.find_loss(text) is None:
        return None
    for form in COARSE:
        if form.needle in text and (match := form.pattern.search(text)):
            return _spot(form, match)
    return None


def _counts(text: str, match: re.Match[str], *, told: bool) -> bool:
    """Return True if it is a counter: a word by itself, no time or rate, no size of a batch."""
    if match[0].startswith("batch ") and not (told or match[2] or epoch_spot(text)):
        return False
    before = text[max(match.start() - 10, 0) : match.start()]
    return not before[-1:].isalnum() and not _RATE_OF.search(before)


@lru_cache(maxsize=256)
def compiled(pattern: str) -> re.Pattern[str]:
    """Compile a configured pattern once."""
    return re.compile(pattern)


def words(series: str, number: float, total: float | None = None) -> str:
    """Return a report in words: `iteration 12/9,000`, `epoch 3, batch 12`; for a bar just `12/90`."""
    parts = in_epoch(series, number)
    if parts:
        return f"epoch {parts[0]:.0f}, {series.removesuffix(_OF_EACH_EPOCH)} {parts[1]:.0f}"
    count = f"{number:,.10g}/{total:,.10g}" if total else f"{number:,.10g}"
    return f"{unit(series)} {count}".lstrip()


def unit(series: str) -> str:
    """Return the name of what is counted; empty for a bar, which does not say."""
    return "" if series.startswith(_BAR_SERIES) else series


def latest(line: LogLine, pattern: str | None = None) -> str:
    """Return the last of many states in one line; the whole line if it has only one."""
    if not line.open and len(line.text) <= _GLUED:
        return line.text
    text = line.text[-OPEN_AT_MOST:]
    if pattern:
        found = list(compiled(pattern).finditer(text))
        return text[found[-2].end() :] if len(found) > 1 else text
    found = _states(text)
    return text[found[-1].start() :] if len(found) > 1 else text


def _states(text: str) -> list[re.Match[str]]:
    """Find all matches of which `progress` would take the first."""
    for form in FORMATS:
        if form.needle in text and (found := list(form.pattern.finditer(text))):
            return found
    if found := list(_BAR.finditer(text)) or list(_ENDLESS_BAR.finditer(text)):
        return found
    counters = [(each[0][: each.start(1) - each.start()], each) for each in _ANY.finditer(text.lower())]
    return [each for word, each in counters if word == counters[0][0]]


def in_epoch(series: str, number: float) -> tuple[float, float] | None:
    """Return epoch and batch of a counter that restarts with each epoch and has no total.

    None for other series, whose number can be shown as it is.
    """
    return divmod(number, EPOCH) if series.endswith(_OF_EACH_EPOCH) else None


def progress_by(pattern: str, text: str) -> ProgressReport | None:
    """Return the number found by the user's own pattern: its first group, else the whole match."""
    match = compiled(pattern).search(text)
    if not match:
        return None
    try:
        return ProgressReport("progress", to_number(match[1] if match.re.groups and match[1] else match[0]))
    except ValueError:
        return None
