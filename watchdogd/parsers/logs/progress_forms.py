"""Formats of frameworks for their progress; each has a needle, a word that must be in the line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from watchdogd.system.number import LARGEST

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

EPOCH = 1e9
"""Number that an epoch counts for if its number of batches is not known."""
WORK = "work"
"""Series of counters that are not the training's progress: batches evaluated, files loaded."""


@dataclass(frozen=True, slots=True)
class Format:
    """Format of one framework's progress.

    `pattern` is tried only if `needle` is in the line. `rounded`: the number is rounded; the rest of the line
    tells two reports apart. `coarse`: it grows seldom, next to more detailed lines in unknown formats.
    """

    series: str
    needle: str
    pattern: re.Pattern[str]
    read: Callable[[Sequence[str]], tuple[float, float | None]]
    rounded: bool = False
    coarse: bool = False


def plain(groups: Sequence[str]) -> tuple[float, float | None]:
    """Return a counter, and its total if it has one."""
    return to_number(groups[0]), to_number(groups[1]) if len(groups) > 1 and groups[1] else None


def of_epoch(groups: Sequence[str]) -> tuple[float, float | None]:
    """Return a counter that restarts with each epoch; without a known total, an epoch counts EPOCH."""
    epoch, number, total = groups
    return to_number(epoch) * (to_number(total) if total else EPOCH) + to_number(number), None


def scaled(groups: Sequence[str]) -> tuple[float, float | None]:
    """Return count and total of `2.13kit/100kit`, from four groups: number and prefix of each."""
    number, prefix, total, of = groups
    return to_number(number) * _THOUSANDS[prefix], to_number(total) * _THOUSANDS[of]


def _either(groups: Sequence[str]) -> tuple[float, float | None]:
    """Return the number of the one group that matched."""
    return to_number("".join(groups)), None


EPOCH_NAMED = (
    r"(?<!\w)(?<!per )(?<!max )(?<!total )epoch['\"]?[\s:=#\[|]{0,24}(\d{1,7}(?![\d]))(?:\s?/\s?(\d+))?"
)
"""Epoch that a line names; a number with more digits is a time in seconds since 1970."""
_LARGEST = float(LARGEST)
_THOUSANDS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


def to_number(text: str) -> float:
    """Parse a count as people write it: `1,200,000`."""
    number = float(text if text.isdecimal() else text.replace(",", "").replace(" ", ""))
    return number if number < _LARGEST else _LARGEST


def _format(
    series: str,
    needle: str,
    pattern: str,
    read: Callable[[Sequence[str]], tuple[float, float | None]] = plain,
    *,
    rounded: bool = False,
    coarse: bool = False,
) -> Format:
    return Format(series, needle, re.compile(pattern), read, rounded, coarse)


_RICH_EPOCH = r"(?:(?!Epoch \d+(?:/\d+)?\s).)*?"
_BAR_EPOCH = r"(?:(?!Epoch \d+:).)*?"
"""Text between an epoch and the count of its batches. It contains no other epoch: else a long line of epochs
would be searched to its end from each of them."""
# Patterns begin with letters and look back from there, which makes the search five times as fast.
FORMATS = (
    _format("iteration", "iteration", r"iteration(?<!\witeration)\s+(\d+)/\s*(\d+)\s*\|"),
    _format("step", "skipped=", r"step=(?<!\wstep=)(\d+), skipped="),
    _format("global_step", "global_step=", r"global_step=(?<!\wglobal_step=)(\d+(?:\.\d+)?)(?![\d.]*e)"),
    _format("step", "[step=", r"\[step=([\d,]+)(?:/([\d,]+))?"),
    _format("batch", "[batch=", r"\[batch=(\d+)(?:/(\d+))?\]"),
    _format("step", "step:", r"step:(?<!\wstep:)(?<!fps step:)\s*([\d,]*\d)(?=[\s,|]|$)"),
    _format("iter", "iter ", r"iter (?<![\w-]iter )(\d+): loss"),
    _format("iter", " - iter ", r"epoch (\d+) - iter (\d+)/(\d+)", of_epoch),
    _format("num_updates", "num_updates", r"num_updates['\"]?[:= ]+['\"]?(\d+)"),
    _format("update", '"update"', r"\"update\": \"?(\d+(?:\.\d+)?)"),
    _format(
        "train",
        "Progress on:",
        r"Progress on:train ([\d.]+)([kMG]?)it/([\d.]+)([kMG]?)it",
        scaled,
        rounded=True,
    ),
    _format(WORK, "Progress on:", r"Progress on:eval\S* ([\d.]+)([kMG]?)it/([\d.]+)([kMG]?)it", scaled),
    _format(WORK, "Epoch(val)", r"Epoch\((?:val|test)\)\s+\[(\d+)\]\[\s*(\d+)/(\d+)\]", of_epoch),
    _format(WORK, "[Eval batch=", r"\[Eval batch=(\d+)/(\d+)\]"),
    _format(WORK, "Inference done", r"Inference done (\d+)/(\d+)"),
    _format(WORK, "task/s", r"\] (\d+)/(\d+), [\d.]+ task/s"),
    _format(WORK, "Test: ", r"Test:\s+\[\s*(\d+)/(\d+)[ \]]"),
    _format(WORK, " subset ", r" subset +(\d+) / (\d+) loss"),
    _format("batch", "━", rf"Epoch (\d+)(?:/\d+)?\s{_RICH_EPOCH}(?<![\d.:])(\d+)/(\d+) ", of_epoch),
    _format("batch", "Epoch(train)", r"Epoch\(train\)\s+\[(\d+)\]\[\s*(\d+)/(\d+)\]", of_epoch),
    _format("iter", "Iter(train)", r"Iter\(train\)\s+\[\s*(\d+)/(\d+)\]"),
    _format("batch", "Epoch: [", r"Epoch: \[(\d+)\]\s*\[\s*(\d+)/(\d+)\]", of_epoch),
    _format("batch", "Epoch: ", r"Epoch: (\d+) \[ *(\d+)/(\d+)[ \]]", of_epoch),
    _format("batch", " batches", r"epoch +(\d+) \| +(\d+)/ *(\d+) batches", of_epoch),
    _format("batch", "Train: ", r"Train: (\d+) \[\s*(\d+)/(\d+) \(", of_epoch),
    _format("batch", "Epoch [", r"Epoch \[(\d+)\]\[(\d+)/(\d+)\]", of_epoch),
    _format("batch", "epoch ", r"epoch (\d+):? +(\d+) / (\d+) loss", of_epoch),
    _format("batch", "epoch:train:", r"(?<!\d)(\d++)epoch:train:\d+-(\d+)()batch", of_epoch),
    _format("iter", " iter, ", r"(?<![\w.])(\d+) iter, \d"),
    _format("timesteps", "total_timesteps", r"\| +total_timesteps +\| +(\d+)"),
    _format("iteration", "training_iteration", r"training_iteration\W+(\d+)"),
    _format(
        "step", "logging_writer", r"logging_writer\.py:\d+\] \[(\d+)\] (?!collection=(?:eval|infer|test))"
    ),
    _format("step", "work unit notes", r"work unit notes: [^(]{0,200}\((\d+)/(\d+)\)"),
    _format("step", "[#", r"\[#+-*\] +(\d+)/(\d+)(?![\w.])"),
    _format("step", "NSTEP", r"NSTEP =\s+(\d+)"),
    _format("step", "TIMING: ", r"^TIMING: (\d+) "),
    _format("step", "ENERGY: ", r"^ENERGY: +(\d+) "),
    _format("iteration", "]\t", r"(?:^|\s)\[(\d+)\]\t\w"),
    _format("iteration", "learn", r"^(\d+):\s+learn:? "),
    _format("batch", "/", r"\[(\d+)/\d+\] ?\[ *(\d+)/(\d+)\]", of_epoch),
    _format("batch", "poch ", r"[Ee]poch (\d+)(?:/\d+)?[ :|,-]{1,4}\[? *(\d+)/(\d+)[\] |,]", of_epoch),
    _format("batch", "] loss", r"^\[(\d+), +(\d+)()\] loss", of_epoch),
    _format("batch", "oss: ", r"oss: [\d.]{1,12} +\[ *(\d+)/(\d+)\]"),
    _format("batch", "%|", r"%\|[^|]{0,200}\| (\d+)/(\d+) \d+:\d\d"),
    _format("step", "step_i:", r"step_i: (\d+)"),
    _format("step", "Steps:", r"Steps:(?<!\wSteps:) ?(\d+)/(\d+)"),
    _format("step", "current_steps", r"current_steps['\"]?: *(\d+)"),
    _format("batch", "Epoch ", rf"Epoch (\d+):{_BAR_EPOCH}(?<![\d.])(\d+)(?:/(\d+)|/\?|it) \[", of_epoch),
    _format("epoch", "'epoch'", r"loss'(?:(?!loss').)*'epoch': '?(\d+(?:\.\d+)?)", rounded=True),
)
COARSE = (
    _format(
        "items",
        "se",
        r"(?:tokens|samples|examples|images)[ _]seen[:= ]+([\d,]*\d)(?![.\w])"
        r"|processed ([\d,]*\d) (?:examples|samples|images|tokens|batches|documents)",
        _either,
        coarse=True,
    ),
    _format(
        "step", " ", r"^ *(\d+)(?= [ \d.e+-]*\d\.\d)(?: +-?\d+(?:\.\d+)?(?:e[-+]?\d+)?){3,} *$", coarse=True
    ),
    _format("step", "step number", r"step number[\s=]{1,90}(\d+)", coarse=True),
    _format("step", " f= ", r"^ *(\d+) f= ", coarse=True),
    _format("step", "%", r"^[\d.]{1,8}%[,\t](\d+)[,\t]", coarse=True),
    _format("step", "  ", r"^ {2,}(\d+) +\d+\.\d{5}$", coarse=True),
    _format("epoch", "epoch", EPOCH_NAMED, coarse=True),
    _format(
        "step", "loss", r"(?<![\w./])[\[(]?(\d+)/(\d+)[\])]?[ ,:|-]{1,4}(?:\w{1,20}[ _-])?loss", coarse=True
    ),
)
"""Formats tried, in lower case, if nothing else reports progress: rows of a table (LAMMPS, GROMACS), amounts
processed, epochs, and counts before a loss."""
