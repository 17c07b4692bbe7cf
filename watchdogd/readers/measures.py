"""What a training's log lines measure: its loss, how long an iteration takes, and what was skipped.

Known without configuration: the frameworks of `trainlog`, in the forms that their public logs show.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from watchdogd.system.number import digits

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
"""What may stand before `loss`; the first ones are the surest."""
_RECORD = re.compile(
    r"\b(?:best|lowest|min(?:imum|imal)?|prev(?:ious)?|last|old|target|initial|first|max(?:imum|imal)?)"
    r"[\w ]{0,16}[ :=_/-]{1,3}$"
)
"""What stands before a loss that is a record of the past, or an aim."""
_NO_AIM = re.compile(
    r"reward|\bkl\b|[/_]kl\b|advantage|\bpg_|policy|entropy|clip_?(?:ratio|frac)|critic|actor|\breturns?\b"
)
"""What stands beside a loss that is not meant to fall: that of a policy, which is trained for a reward."""
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
_RATES = {
    "token": (
        ("tps:", re.compile(rf"\btps: *({_NUMBER})")),
        (
            "tokens",
            re.compile(
                rf"tokens(?:_per_|/| per )sec(?:ond)?\w{{0,40}}(?:/\w{{1,40}})?['\"]?[:= ]+({_NUMBER})"
            ),
        ),
        ('"wps"', re.compile(rf"\"wps\": \"?({_NUMBER})")),
    ),
    "sample": (
        (
            "amples",
            re.compile(rf"[Ss]amples(?:/s|/sec|[_ ]per[_ ]sec\w{{0,40}}|PerSec)['\"]?[:= ]+({_NUMBER})"),
        ),
    ),
    "iteration": (("it/s", re.compile(rf"(?<![\w.])({_NUMBER})it/s\b")),),
}
"""How much a second, by what of: needles and the number; of several in a line the first (an average)."""
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}\b)")
_BATCH = re.compile(r"global[ _]batch[ _]size: *(\d+)")
_SKIPPED = re.compile(r"skipped iterations: *(\d+)")
_SKIPPED_RUNNING = re.compile(r"(?<!\w)skipped=(\d+)")


@dataclass(frozen=True, slots=True)
class Skipped:
    """Skipped iterations: since the last report, or all since the start (`running`)."""

    count: int
    running: bool


def loss(text: str) -> float | None:
    """The training loss in this line (may be NaN or infinite), or None. Validation losses do not count.

    Also NaN: a report of Megatron about NaN iterations, which then names no loss, and the loss of 0 that HF
    Trainer prints beside a gradient that is NaN.
    """
    return loss_at(text, loss_spot(text))


def loss_spot(text: str) -> int | None:
    """Where the surest loss begins, or None. It depends on no digit, only on where digits stand."""
    best = None
    for match in _LOSS.finditer(text) if "oss" in text else ():
        begin = match.start() - 1
        if text[begin : begin + 1] not in ("l", "L"):
            continue
        rank = _loss_rank(text[max(begin - 24, 0) : begin].lower())
        if rank is not None and (best is None or rank < best[0]):
            best = rank, match.start()
    return best[1] if best else None


def loss_name(text: str, spot: int | None) -> str:
    """What stands before a loss: which one it is."""
    found = None if spot is None else _NAME.search(text[max(spot - 24, 0) : spot])
    return found[0].strip(" .-0123456789").lower() if found else ""


def falls(text: str) -> bool:
    """Whether the loss that this line tells is one that training makes fall."""
    return _NO_AIM.search(text.lower()) is None


def loss_at(text: str, spot: int | None) -> float | None:
    """The loss that a line tells, where it tells one at `spot`."""
    match = None if spot is None else _LOSS.match(text, spot)
    if match is None:
        return math.nan if "nan iterations" in text and _NAN_ITERATIONS.search(text) else None
    value = float(match[1])
    return math.nan if not value and "grad_norm" in text and _NAN_GRADIENT.search(text) else value


def _loss_rank(before: str) -> int | None:
    """How surely a loss is the training's, by what stands before it: 0 is the surest, None: it is not."""
    for rank, name in enumerate(_LOSS_NAMES):
        if before.endswith(name):
            return rank
    if before[-1:].isalnum() or before[-1:] in ("_", "/"):
        return None
    if _NOT_TRAINING.search(before) or _RECORD.search(before):
        return None
    return len(_LOSS_NAMES)


def length(text: str) -> float | None:
    """How long what is worked on is, by this line: answers, sequences, episodes; or None."""
    match = _LENGTH.search(text)
    return float(match[1]) if match else None


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
    for needle, pattern in _RATES[unit]:
        if needle in text and (match := pattern.search(_THOUSANDS.sub("", text))):
            return _positive(float(match[1]))
    return None


def _positive(value: float) -> float | None:
    return value if math.isfinite(value) and value > 0 else None


def batch_size(text: str) -> float | None:
    """Samples in one iteration, as Megatron says it, or None."""
    match = _BATCH.search(text) if "batch" in text else None
    return _positive(float(match[1])) if match else None


def skipped(text: str) -> Skipped | None:
    """Iterations skipped for overflowing gradients, as Megatron and DeepSpeed say it, or None."""
    if "skipped" not in text:
        return None
    if match := _SKIPPED.search(text):
        return Skipped(digits(match[1]), running=False)
    match = _SKIPPED_RUNNING.search(text)
    return Skipped(digits(match[1]), running=True) if match else None
