"""A training's log lines as numbers: how far it is, its loss, and how long an iteration takes.

Known without configuration: Megatron(-DeepSpeed), DeepSpeed, torchtitan, MaxText, nanoGPT, Composer, OLMo,
NeMo, Lightning, HF Trainer, fairseq, flair, timm, Levanter, and tqdm
bars. Forms as their public logs show them.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING
from zlib import crc32

from watchdogd.readers.lines import OPEN_AT_MOST

if TYPE_CHECKING:
    from collections.abc import Callable

_NUMBER = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
_LOSS = re.compile(
    rf"oss(?:_step|/train/total| train)?['\"]?\s*[:= ]\s*['\"]?({_NUMBER}|[-+]?(?i:nan|inf(?:inity)?))\b"
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
)
"""What may stand before `loss`; the first ones are the surest."""
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
_RATES = (
    ("token", "tps:", re.compile(rf"\btps: *({_NUMBER})")),
    (
        "token",
        "tokens",
        re.compile(rf"tokens(?:_per_|/| per )sec(?:ond)?\w*(?:/\w+)?['\"]?[:= ]+({_NUMBER})"),
    ),
    ("token", '"wps"', re.compile(rf"\"wps\": \"?({_NUMBER})")),
    (
        "sample",
        "amples",
        re.compile(rf"[Ss]amples(?:/s|/sec|[_ ]per[_ ]sec\w*|PerSec)['\"]?[:= ]+({_NUMBER})"),
    ),
    ("iteration", "it/s", re.compile(rf"(?<![\w.])({_NUMBER})it/s\b")),
)
"""How much a second: what of, a needle and the number; of several in a line the first (a running average)."""
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}\b)")


_BATCH = re.compile(r"global[ _]batch[ _]size: *(\d+)")
_SKIPPED = re.compile(r"skipped iterations: *(\d+)")
_SKIPPED_RUNNING = re.compile(r"(?<!\w)skipped=(\d+)")


@dataclass(frozen=True, slots=True)
class Report:
    """One line that says how far the training is. `series` tells different counters apart.

    `mark` tells two reports apart whose numbers were rounded to one (HF Trainer's epoch), where it is not 0.
    """

    series: str
    number: float
    total: float | None = None
    mark: float = 0.0


@dataclass(frozen=True, slots=True)
class Skipped:
    """Skipped iterations: since the last report, or all since the start (`running`)."""

    count: int
    running: bool


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
    total = _float(match[3]) if match[3] else _EPOCH
    return _float(match[1]) * total + _float(match[2]), None


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
    _format("batch", "━", r"Epoch (\d+)(?:/\d+)?\s.*?(?<![\d.:])(\d+)/(\d+) ", _of_epoch),
    _format("batch", "Epoch(train)", r"Epoch\(train\)\s+\[(\d+)\]\[\s*(\d+)/(\d+)\]", _of_epoch),
    _format("iter", "Iter(train)", r"Iter\(train\)\s+\[\s*(\d+)/(\d+)\]"),
    _format("batch", "Epoch: [", r"Epoch: \[(\d+)\]\s*\[\s*(\d+)/(\d+)\]", _of_epoch),
    _format("batch", "Epoch: ", r"Epoch: (\d+) \[(\d+)/(\d+) \(", _of_epoch),
    _format("batch", "Train: ", r"Train: (\d+) \[\s*(\d+)/(\d+) \(", _of_epoch),
    _format("step", "current_steps", r"current_steps['\"]?: *(\d+)"),
    _format("batch", "Epoch ", r"Epoch (\d+):.*?(?<![\d.])(\d+)(?:/(\d+)|it) \[", _of_epoch),
    _format("epoch", "'epoch'", r"loss'.*'epoch': '?(\d+(?:\.\d+)?)"),
)
_EPOCH = 1e6
_OF_EACH_EPOCH = " of each epoch"
_BAR_SERIES = "bar of "
_BAR = re.compile(r"(\d+)/(\d+) \[(?:\d+:\d\d(?::\d\d)?<|[=>.]{3,}\])")
_ENDLESS_BAR = re.compile(r"(?<![\w./])(\d+)it \[\d+:\d\d")
_ANY_WORDS = ("step", "iter", "batch", "update")
_ANY = re.compile(
    r"(?:global[_ ]step|iteration|iter|step|update|batch)['\"]?[\s:=#\[]{0,4}(\d+)"
    r"(?:\s*/\s*(\d+))?(?![\d.]*[a-z])"
)
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
    """What may stand in some lines: the formats of progress, and words of lines that tell none."""

    formats: tuple[Format, ...]
    no_progress: tuple[str, ...]


ANYTHING = Vocabulary(FORMATS, _NO_PROGRESS)


def vocabulary(text: str, low: str) -> Vocabulary:
    """What stands in a text (and the same in lower case): one search of it all for what each of its lines
    then need not be searched for."""
    return Vocabulary(
        tuple(each for each in FORMATS if each.needle in text),
        tuple(word for word in _NO_PROGRESS if word in low),
    )


def progress(text: str, known: Vocabulary = ANYTHING) -> Report | None:
    """How far the training says it is in this line, in any format of `known`, or None."""
    for form in known.formats:
        if form.needle in text and (match := form.pattern.search(text)):
            number, total = form.read(match)
            mark = float(crc32(text[match.start() :].encode())) if form.needle == "'epoch'" else 0.0
            endless = form.read is _of_epoch and not match[3]
            return Report(f"{form.series}{_OF_EACH_EPOCH}" if endless else form.series, number, total, mark)
    if ("<" in text or " [=" in text or " [>" in text or " [." in text) and (bars := _BAR.findall(text)):
        number, total = bars[-1]
        return Report(f"{_BAR_SERIES}{total}", float(number), float(total))
    if "it [" in text and (counts := _ENDLESS_BAR.findall(text)):
        return Report("iteration of a bar", float(counts[-1]))
    return _any_counter(text.lower(), known)


def _any_counter(text: str, known: Vocabulary) -> Report | None:
    """`step 12`, `iter: 7/90`, `batch=3`: what a training that somebody wrote himself says."""
    match = _ANY.search(text) if any(map(text.__contains__, _ANY_WORDS)) else None
    if not match or text[match.start() - 1 : match.start()].isalnum():
        return None
    if any(map(text.__contains__, known.no_progress)):
        return None
    return Report("step", *_plain(match))


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


def latest(text: str, pattern: str | None, known: Vocabulary = ANYTHING) -> str:
    """Of a line that holds many states, one behind the other, the last; all of it where it holds one."""
    text = text[-OPEN_AT_MOST:]
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


def loss(text: str) -> float | None:
    """The training loss in this line (may be NaN or infinite), or None. Validation losses do not count.

    Also NaN: a report of Megatron about NaN iterations, which then names no loss, and the loss of 0 that HF
    Trainer prints beside a gradient that is NaN.
    """
    best = None
    for match in _LOSS.finditer(text) if "oss" in text else ():
        begin = match.start() - 1
        if text[begin : begin + 1] not in ("l", "L"):
            continue
        rank = _loss_rank(text[max(begin - 24, 0) : begin].lower())
        if rank is not None and (best is None or rank < best[0]):
            best = rank, float(match[1])
    if best is None:
        return math.nan if "nan iterations" in text and _NAN_ITERATIONS.search(text) else None
    return math.nan if not best[1] and "grad_norm" in text and _NAN_GRADIENT.search(text) else best[1]


def _loss_rank(before: str) -> int | None:
    """How surely a loss is the training's, by what stands before it: 0 is the surest, None: it is not."""
    for rank, name in enumerate(_LOSS_NAMES):
        if before.endswith(name):
            return rank
    if before[-1:].isalnum() or before[-1:] in ("_", "/") or _NOT_TRAINING.search(before):
        return None
    return len(_LOSS_NAMES)


def seconds(text: str) -> float | None:
    """How long one iteration takes by this line's own words, or None."""
    for needle, pattern, unit in _SECONDS:
        if needle in text and (match := pattern.search(text)):
            return _positive(float(match[1]) * unit)
    rate = _rate(text, "iteration")
    return 1.0 / rate if rate else None


def cost(text: str, taken: float | None) -> tuple[str, float] | None:
    """Seconds for one token, sample or iteration, and which of them; None where the line does not say.

    `taken` is what `seconds` says of it. A batch that grows lengthens iterations, not samples or tokens.
    """
    for unit in ("token", "sample"):
        if rate := _rate(text, unit):
            return unit, 1.0 / rate
    if taken is None:
        return None
    batch = batch_size(text)
    return ("sample", taken / batch) if batch else ("iteration", taken)


def _rate(text: str, unit: str) -> float | None:
    """Units a second."""
    for name, needle, pattern in _RATES:
        if name == unit and needle in text and (match := pattern.search(_THOUSANDS.sub("", text))):
            return _positive(float(match[1]))
    return None


def _positive(value: float) -> float | None:
    return value if math.isfinite(value) and value > 0 else None


def batch_size(text: str) -> float | None:
    """Samples in one iteration, as Megatron says it, or None."""
    match = _BATCH.search(text) if "batch" in text else None
    return float(match[1]) or None if match else None


def skipped(text: str) -> Skipped | None:
    """Iterations skipped for overflowing gradients, as Megatron and DeepSpeed say it, or None."""
    if "skipped" not in text:
        return None
    if match := _SKIPPED.search(text):
        return Skipped(int(match[1]), running=False)
    match = _SKIPPED_RUNNING.search(text)
    return Skipped(int(match[1]), running=True) if match else None
