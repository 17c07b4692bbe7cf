"""A kind of cause for which a training dies or hangs: the words by which its line is known."""

from __future__ import annotations

import re
from dataclasses import dataclass

_NONE_AFTER = re.compile(
    r"(?:s|\(s\)|[ _](?:errors?|events?|counts?|rate)){0,3}['\"]?\s*+(?:[:=]\s*+)?(?:0(?![\w.])|none\b)"
)
_MANY_AFTER = re.compile(r"s\b|[ _](?:errors|events)\b")
_OFF_AFTER = re.compile(r"[\w.-]{0,40}+['\"]?\s?[:=]\s{0,9}+['\"]?(?:none|no|off|false|never|disabled)\b")
_OPTION_BEFORE = re.compile(r"(?:^|\s)['\"]?-\S{0,40}$")
"""Of a setting that is off, and of an option of a command line: they only name what may happen."""
_NONE_BEFORE = re.compile(r"\b(?:no|without|avoid|avoiding)\s+$")
_ZERO_BEFORE = re.compile(r"\b0\s+$")


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of cause. Lower `weight` lies nearer to the root: what follows from others has a high one.

    One of `needles` (lower case) must stand in the line, and `pattern`, where there is one, must fit it.
    `quoted`: the line itself says more than its kind.
    """

    name: str
    weight: int
    needles: tuple[str, ...]
    pattern: re.Pattern[str] | None = None
    quoted: bool = False

    def fits(self, text: str, low: str) -> bool:
        """Whether a line (and the same in lower case) is of this kind."""
        if self.pattern is None:
            return any(_happened(low, needle) for needle in self.needles)
        return any(needle in low for needle in self.needles) and self.pattern.search(text) is not None


def _happened(low: str, needle: str) -> bool:
    """Whether a line says that it happened: not `ECC errors: 0`, `0 bus errors`, `no ...`."""
    at = low.find(needle)
    if at < 0:
        return False
    before, end = low[max(at - 12, 0) : at], at + len(needle)
    if _NONE_BEFORE.search(before) or _NONE_AFTER.match(low, end) or _OFF_AFTER.match(low, end):
        return False
    if _OPTION_BEFORE.search(low[max(at - 42, 0) : at]):
        return False
    return not (_ZERO_BEFORE.search(before) and _MANY_AFTER.match(low, end))


def kind(name: str, weight: int, *needles: str, only: str = "", quoted: bool = False) -> Kind:
    """A kind; `only` is its pattern."""
    return Kind(name, weight, needles, re.compile(only) if only else None, quoted)


EXCEPTION = r"^[\w.]{0,200}(?:Error|Exception|Timeout|Expired|Interrupt): "
"""The line in which Python names an exception that nobody caught."""
OF_A_TASK = r"^srun: error: \S+: tasks? [\d,-]+: "
EXIT_CODE = r"^\s*exitcode\s*: -?"
EXIT_OF = r"\bexitcode\s*: -"
"""Before the number of the signal that ended a rank, as torchrun writes it."""
