"""Texts made up to hold a pattern up, from the pattern's own parts, and how long it takes over them."""

from __future__ import annotations

import ast
import importlib
import re
import time
from collections.abc import Callable, Iterator
from itertools import chain, islice
from pathlib import Path
from types import ModuleType
from typing import Any

_parser: Any = importlib.import_module("re._parser")
_compiler: Any = importlib.import_module("re._compiler")

SIZES = (32, 128, 384, 3072)
"""Letters of the texts."""
QUICK = 0.004
"""Seconds of the processor in which nobody is held up, whatever the pattern."""
GROWTH = 24
"""How many times as long the long text may take as the short one, which is an eighth of it: 8 where a pattern
is linear, 64 where it is quadratic."""
_ALPHABET = [chr(number) for number in (9, 10, 27, *range(32, 127), 0x391)]
_ENDS = ("", "\0\n")
_REPEATS = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")
_SINGLE = ("LITERAL", "NOT_LITERAL", "ANY", "IN")
_USES = re.compile(r"\b(\w+)(?:\[\w+\])?\.(search|match|fullmatch|finditer|findall|subn?|split)\(")
_ASSIGNED = re.compile(r"^\s*(\w+)\b.*=", re.MULTILINE)

Methods = frozenset[str]
_CLASSES: dict[tuple[str, int], frozenset[str]] = {}
"""The letters that a part takes, by the part and the flags."""


class Made:
    """Texts made of one parsed pattern."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self._tree = _parser.parse(pattern.pattern, pattern.flags)
        self._flags = pattern.flags
        self._letters = self._telling()

    def attacks(self) -> Iterator[tuple[str, str]]:
        """What a text begins with, and what then is repeated: each repeat of the pattern with what stands
        before it, by each kind of letter that the pattern tells apart."""
        seen = set()
        for before, inner in self._repeats(self._tree, ""):
            for body in self._bodies(inner):
                for text in ((before, body), ("", before + body), ("", body)):
                    if text not in seen and text[1]:
                        seen.add(text)
                        yield text

    def _repeats(self, tree: Any, before: str) -> Iterator[tuple[str, Any]]:
        """The repeats in a tree, each with a text that matches what stands before it."""
        for node in tree:
            kind, value = str(node[0]), node[1]
            if kind in _REPEATS:
                if value[1] >= 64:
                    yield before, value[2]
                yield from self._repeats(value[2], before)
            for inner in _inside(kind, value):
                yield from self._repeats(inner, before)
            before += self._sample([node])

    def _bodies(self, inner: Any) -> Iterator[str]:
        if len(inner) == 1 and str(inner[0][0]) in _SINGLE:
            yield from sorted(self._class(inner[0]) & self._letters)
            return
        yield self._sample(inner)
        yield self._sample(inner, last=True)

    def _sample(self, tree: Any, last: bool = False) -> str:
        """A text that matches, as good as can be: first alternatives and few repeats, or the `last` ones."""
        made = ""
        for node in tree:
            kind, value = str(node[0]), node[1]
            if kind in _SINGLE:
                letters = sorted(self._class(node) & self._letters) or sorted(self._class(node)) or ["\0"]
                made += letters[-1 if last else len(letters) // 2]
            elif kind in _REPEATS:
                made += self._sample(value[2], last) * max(value[0], min(1 + last, value[1]))
            elif kind == "BRANCH":
                made += self._sample(value[1][-1 if last else 0], last)
            elif kind not in ("ASSERT", "ASSERT_NOT"):
                made += "".join(self._sample(each, last) for each in _inside(kind, value))
        return made

    def _class(self, node: Any) -> frozenset[str]:
        """The letters that a part of the pattern takes."""
        key = (repr(node), self._flags)
        if key not in _CLASSES:
            part = _parser.SubPattern(self._tree.state, [node])
            takes = _compiler.compile(part, self._flags & ~re.DEBUG).match
            _CLASSES[key] = frozenset(each for each in _ALPHABET if takes(each))
        return _CLASSES[key]

    def _telling(self) -> frozenset[str]:
        """One letter of each kind that the parts of the pattern tell apart."""
        classes = {self._class(node) for node in _singles(self._tree)}
        kinds = {tuple(letter in each for each in classes): letter for letter in _ALPHABET}
        return frozenset(kinds.values())


def _inside(kind: str, value: Any) -> list[Any]:
    if kind == "BRANCH":
        return list(value[1])
    if kind in ("SUBPATTERN", "ASSERT", "ASSERT_NOT"):
        return [value[-1]]
    return [value] if kind == "ATOMIC_GROUP" else []


def _singles(tree: Any) -> Iterator[Any]:
    for node in tree:
        kind, value = str(node[0]), node[1]
        if kind in _SINGLE:
            yield node
        inner = [value[2]] if kind in _REPEATS else _inside(kind, value)
        yield from chain.from_iterable(map(_singles, inner))


def slow(pattern: re.Pattern[str], methods: Methods, longest: int | None = None, each: int = 1) -> str:
    """What the pattern takes far too long for; empty where there is nothing.

    `longest`: letters of the longest text that it is ever tried on, where there is such a bound.
    Every attack is tried, or the first of `each` so many.
    """
    for before, again in islice(Made(pattern).attacks(), None, None, each):
        for end in _ENDS:
            texts = [(before + again * (size // len(again) + 1) + end)[:longest] for size in SIZES]
            for method in methods:
                if _too_slow(_call(pattern, method), texts):
                    return f"{method} of {before!r} + {again!r} * n + {end!r}"
    return ""


def _too_slow(look: Callable[[str], Any], texts: list[str]) -> bool:
    """Short texts come first: what takes far too long for few letters is not tried with many."""
    for text in texts[:-1]:
        if _seconds(look, text) > QUICK and _seconds(look, text, 3) > QUICK:
            return True
    if _seconds(look, texts[-1]) < QUICK:
        return False
    return _seconds(look, texts[-1], 3) > max(QUICK, GROWTH * _seconds(look, texts[-2], 3))


def _call(pattern: re.Pattern[str], method: str) -> Callable[[str], Any]:
    return getattr(pattern, method) if method in ("search", "match", "fullmatch") else pattern.findall


def _seconds(look: Callable[[str], Any], text: str, best_of: int = 1) -> float:
    taken = []
    for _ in range(best_of):
        began = time.process_time()
        look(text)
        taken.append(time.process_time() - began)
    return min(taken)


def patterns(module: ModuleType) -> dict[str, tuple[re.Pattern[str], Methods]]:
    """By name: the patterns of a module, each with the methods that it is used by."""
    source = Path(str(module.__file__)).read_text()
    uses: dict[str, set[str]] = {}
    for name, method in _USES.findall(source):
        uses.setdefault(name, set()).add(method)
    found: dict[str, tuple[re.Pattern[str], Methods]] = {}
    own_names = {*_ASSIGNED.findall(source)}
    for name, value in vars(module).items():
        if name in own_names:
            own = isinstance(value, re.Pattern)
            known = uses.get(name) if own else {"fullmatch"} if "Rule(" in repr(value) else None
            for number, pattern in enumerate(_within(value)):
                found[name if own else f"{name}.{number}"] = (pattern, frozenset(known or {"search"}))
    return found | _written(source)


def _within(value: Any, depth: int = 4) -> Iterator[re.Pattern[str]]:
    """The patterns that a module's value holds."""
    if isinstance(value, re.Pattern):
        if isinstance(value.pattern, str):
            yield value
    elif depth and isinstance(value, tuple | list | frozenset | set):
        yield from chain.from_iterable(_within(each, depth - 1) for each in value)
    elif depth and isinstance(value, dict):
        yield from chain.from_iterable(_within(each, depth - 1) for each in value.values())
    elif depth and hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        fields = (getattr(value, name, None) for name in value.__dataclass_fields__)
        yield from chain.from_iterable(_within(each, depth - 1) for each in fields)


def _written(source: str) -> dict[str, tuple[re.Pattern[str], Methods]]:
    """The patterns that stand in calls: `re.search("...", text)`."""
    found: dict[str, tuple[re.Pattern[str], Methods]] = {}
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="re"), attr=method),
                args=[ast.Constant(value=str() as text), *_],
                keywords=_,
            ) if method != "compile":
                flags = [ast.unparse(each).removeprefix("re.") for each in (*node.args[2:], *_flags(node))]
                flag = re.RegexFlag(0)
                for each in flags:
                    flag |= getattr(re, each, 0)
                found[f"line {node.lineno}"] = (re.compile(text, flag), frozenset({method}))
    return found


def _flags(call: ast.Call) -> list[ast.expr]:
    return [each.value for each in call.keywords if each.arg == "flags"]
