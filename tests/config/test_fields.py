"""Fields, not sentences: no part of watchdogd reads what another part wrote for people.

Held over the whole tree by its syntax: neither a string method nor a pattern nor `in` is applied to a
summary, to details, to the text of an error or of a fix. Why something is so is a kind, a number or an enum.
"""

from __future__ import annotations

import ast
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

import watchdogd
from watchdogd import errors
from watchdogd.errors import ConfigError, Problem, WatchdogError
from watchdogd.parsers.quota.models import BYTES, FILE_SYSTEM, Owner, StorageLimit

ROOT = Path(watchdogd.__file__).parents[1]
WORDS = frozenset(
    {"summary", "details", "headline", "body", "trouble", "why", "what", "fix", "mend"}
    | {"recovery", "doubt", "outcome", "sentence"}
)
"""Attributes, keys and names that hold what was worded for people."""
METHODS = frozenset(
    {"startswith", "endswith", "removeprefix", "removesuffix", "partition", "rpartition", "split", "rsplit"}
    | {"find", "rfind", "index", "rindex", "count"}
)
PATTERNS = frozenset({"search", "match", "fullmatch", "findall", "finditer", "sub", "split"})
OURS = frozenset(name for name, value in vars(errors).items() if isinstance(value, type))
ALLOWED = {
    "watchdogd/daemon/self_monitoring.py": ("_PATH.sub",),  # shortens paths for people, and decides nothing
    "watchdogd/incidents/message_wording.py": (
        "_OLD_NEWS.sub",
        "_MORE.sub",
    ),  # shorten a fact for a later message, and decide nothing
    "watchdogd/notify/message.py": (
        "event.summary",
    ),  # whose subject it names already: it is not named twice
    "watchdogd/system/text.py": (
        "body.split",
    ),  # the body's own form: what is indented is shown as it stands
}
"""By module what is no such thing, as it begins there, and why."""


def offences(text: str) -> Iterator[str]:
    """The tests of words that people are to read in a module's text, as they stand there."""
    tree = ast.parse(text)
    handlers = [each for each in ast.walk(tree) if isinstance(each, ast.ExceptHandler)]
    ours = [each for each in handlers if each.name and _names(each.type) & OURS]
    caught = {node: str(handler.name) for handler in ours for node in ast.walk(handler)}
    for node in ast.walk(tree):
        if any(_is_worded(each, caught.get(node, "")) for each in _tested(node)):
            yield ast.unparse(node)


def _names(node: ast.expr | None) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)} if node else set()


def _tested(node: ast.AST) -> Iterator[ast.expr]:
    """The texts that this piece of code looks into."""
    match node:
        case ast.Call(func=ast.Attribute(value=value, attr=attr), args=args):
            if attr in METHODS and args:
                yield value
            if attr in PATTERNS:
                yield from args
        case ast.Compare(left=ast.Constant(value=str()) | ast.JoinedStr() | ast.Name(), ops=ops):
            yield from (
                text
                for operator, text in zip(ops, node.comparators, strict=True)
                if isinstance(operator, ast.In | ast.NotIn)
            )


def _is_worded(text: ast.expr, caught: str) -> bool:
    """Whether it is one of WORDS, or the text of an error of ours, which is `caught` there."""
    match text:
        case (
            ast.Attribute(attr=name) | ast.Name(id=name) | ast.Subscript(slice=ast.Constant(value=str(name)))
        ):
            return name in WORDS
        case ast.Call(func=ast.Name(id="str" | "repr"), args=[ast.Name(id=name)]):
            return name == caught or name in WORDS
        case ast.Call(func=ast.Name(id="str" | "repr"), args=[inner]):
            return _is_worded(inner, caught)
        case ast.Call(func=ast.Attribute(attr="complaint")):
            return True
        case ast.Call(func=ast.Attribute(value=inner)):
            return _is_worded(inner, caught)
    return False


def test_nobody_reads_what_was_worded_for_people() -> None:
    allowed, found = dict[str, tuple[str, ...]](), dict[str, list[str]]()
    for path in ROOT.glob("[wp]*/**/*.py"):
        if "parsers" in path.parts:  # those read others' text
            continue
        name, codes = str(path.relative_to(ROOT)), [*offences(path.read_text("utf-8"))]
        known = tuple(each for each in ALLOWED.get(name, ()) if any(each in code for code in codes))
        allowed |= {name: known} if known else {}
        found[name] = [code for code in codes if not any(each in code for each in known)]
    assert len(found) > 300
    assert {name: codes for name, codes in found.items() if codes} == {}
    assert allowed == ALLOWED, "nothing needs this allowance any more"


@pytest.mark.parametrize(
    "code",
    [
        "incident.summary.startswith('no log:')",
        "re.search('CANCELLED by', incident.summary)",
        "_CANCELLED.search(seen['summary'])",
        "event.details.endswith('--clear')",
        "fix = finding.trouble.rpartition(': ')[2]",
        "'cannot be run' not in answer.trouble",
        "f'{name}:' in result.details.lower()",
        "word in alert.summary",
        "answer.complaint().removeprefix('watchdogd: ')",
        "try:\n    pass\nexcept (OSError, ConfigError) as error:\n    text = str(error).partition(': ')[0]",
        "what.startswith('stuck')",
    ],
)
def test_what_is_found(code: str) -> None:
    assert [*offences(code)]


@pytest.mark.parametrize(
    "code",
    [
        "' '.join(summary.split())",
        "answer.errors.startswith('squeue:')",
        "incident.fault in SWITCH_SET",
        "incident.summary == before.summary",
        "key in known",
        "try:\n    pass\nexcept ImportError as error:\n    'segment' in str(error)",
    ],
)
def test_what_is_none_of_it(code: str) -> None:
    assert [*offences(code)] == []


def test_a_problem_is_one_line_and_both_of_its_halves() -> None:
    problem = Problem("/a: b can be written by everybody", "chmod o-w '/a: b'")
    assert problem == "/a: b can be written by everybody: chmod o-w '/a: b'"
    assert (problem.what, problem.fix) == ("/a: b can be written by everybody", "chmod o-w '/a: b'")
    assert (problem.about("hook: ").what, problem.about("hook: ").fix) == (
        f"hook: {problem.what}",
        problem.fix,
    )
    assert not Problem()


def test_an_error_says_what_and_the_fix_and_has_them_apart() -> None:
    error: WatchdogError = ConfigError("secret file a: b cannot be read", fix="chmod u+r 'a: b'")
    assert str(error) == "secret file a: b cannot be read: chmod u+r 'a: b'"
    assert (error.what, error.fix) == ("secret file a: b cannot be read", "chmod u+r 'a: b'")
    assert (str(WatchdogError("a: b")), WatchdogError("a: b").fix) == ("a: b", "")


def test_the_owner_of_a_quota_is_words_with_the_user_apart_wherever_it_goes() -> None:
    owner = Owner("user", "alice in chains", " in fileset home")
    assert (owner, owner.user) == ("quota of user alice in chains in fileset home", "alice in chains")
    again = pickle.loads(pickle.dumps(StorageLimit(BYTES, owner, used=1.0)))
    assert (again.user, again.of) == ("alice in chains", owner)
    assert [StorageLimit(BYTES, of, used=1.0).user for of in (Owner("group", "six"), FILE_SYSTEM)] == ["", ""]
    problem = Problem("a", "b: c")
    assert pickle.loads(pickle.dumps(problem)).fix == "b: c"
