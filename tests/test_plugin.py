"""The plugin API: what is right registers, what is misspelt fails at registration."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest

from watchdogd.errors import PluginError
from watchdogd.plugin import Duration, Metric, Result, Status, check, critical, notice, ok, unknown, warning


def test_a_check_is_registered_with_what_it_says_of_itself() -> None:
    @check(every="10m", timeout="20s", follows=("job_liveness",))
    def queue_length(memory: dict[str, Any], partition: str = "gpu", wait: Duration = 60.0) -> Result:
        """Jobs waiting in one partition.

        partition: whose queue is
            counted
        wait: seconds
        """
        return ok(f"{partition} {wait} {memory}")

    assert (queue_length.name, queue_length.every, queue_length.timeout) == ("queue_length", 600, 20)
    assert queue_length.description == "Jobs waiting in one partition."
    assert queue_length.wants == {"memory"}
    assert list(queue_length.parameters) == ["partition", "wait"]
    assert queue_length.parameters["partition"].doc == "whose queue is counted"
    assert queue_length({}, "cpu", 1).summary == "cpu 1 {}"
    found = queue_length.results({"partition": "a", "wait": 2.0}, {"memory": {}, "now": 0})
    assert [result.summary for result in found] == ["a 2.0 {}"]


def test_misspelt_plugins_fail_at_registration() -> None:
    with pytest.raises(PluginError, match="'n' has no type"):

        @check
        def untyped(n=3):  # type: ignore[no-untyped-def] # what this test is about
            return ok("x")

    with pytest.raises(PluginError, match="write each parameter by name"):

        @check
        def starred(*args: str) -> Result:
            return ok("x")

    with pytest.raises(PluginError, match="cannot be found"):

        @check
        def unheard_of(a: "NoSuchType") -> Result:  # type: ignore[name-defined] # noqa: F821, UP037 - what this test is about
            return ok("x")


def test_several_results_come_from_a_generator_and_nonsense_is_unknown() -> None:
    @check
    def two():  # type: ignore[no-untyped-def] # as users write it
        yield ok("a", subject="one")
        yield critical("b", subject="two", used=Metric(3, warn=2))

    assert [result.subject for result in two.results({}, {})] == ["one", "two"]
    for nonsense in (None, [], "text", [3], 7):

        @check
        def wrong(value: Any = nonsense) -> Any:
            return value

        [result] = wrong.results({"value": nonsense}, {})
        assert result.status is Status.UNKNOWN


@dataclass(frozen=True)
class Queue:
    """The longest queue so far."""

    VERSION: ClassVar[int] = 1
    waiting: int = 0


@check
def longest(state: Queue, waiting: int) -> Iterator[Queue | Result]:
    """The longest queue."""
    yield ok(f"{state.waiting} before")
    yield Queue(max(waiting, state.waiting))


def test_what_a_check_remembers_is_built_and_kept() -> None:
    assert longest.remembers_something
    assert list(longest.parameters) == ["waiting"]
    memory: dict[str, Any] = {"by an earlier version": 3}
    said = [longest.results({"waiting": n}, {"memory": memory})[0].summary for n in (4, 2, 9)]
    assert said == ["0 before", "4 before", "4 before"]
    assert longest.kept
    assert longest.kept.load(json.loads(json.dumps(memory))) == Queue(9)
    memory["state"][0] = "of another version"
    assert longest.results({"waiting": 1}, {"memory": memory})[0].summary == "0 before"


def test_a_state_may_be_none_at_first() -> None:
    @check
    def seen(state: Queue | None) -> list[Queue | Result]:
        return [Queue(1), ok(f"{state}")]

    memory: dict[str, Any] = {}
    said = [seen.results({}, {"memory": memory})[0].summary for _ in range(2)]
    assert said == ["None", "Queue(waiting=1)"]


def test_a_parameter_may_be_called_state() -> None:
    @check
    def nodes(state: str = "idle") -> Result:
        return ok(state)

    assert not nodes.remembers_something
    assert nodes.results({"state": "drain"}, {})[0].summary == "drain"


def test_a_state_that_cannot_be_kept_fails_at_registration() -> None:
    @dataclass
    class Needs:
        number: int

    @dataclass
    class Odd:
        anything: object = None

    for kind, words in ((Needs, "missing 1 required"), (Odd, "'object'> cannot be remembered")):

        def odd(state: Any) -> Result:
            return ok(f"{state}")

        odd.__annotations__["state"] = kind
        with pytest.raises(PluginError, match=words):
            check(odd)


@dataclass
class Tree:
    """One that holds others of its kind."""

    children: list[Tree] = field(default_factory=list)


def test_a_state_that_holds_itself_and_one_beside_a_memory_fail_at_registration() -> None:
    def grows(state: Tree) -> Result:
        return ok(f"{state}")

    def both(state: Queue, memory: dict[str, Any]) -> Result:
        return ok(f"{state} {memory}")

    for function, words in ((grows, "cannot be kept"), (both, "not both")):
        with pytest.raises(PluginError, match=words):
            check(function)


def test_a_state_that_would_not_come_back_is_an_error_at_once() -> None:
    @check
    def wrong(state: Queue) -> Iterator[Queue | Result]:
        yield Queue("many")  # type: ignore[arg-type] # what this test is about
        yield ok("well")

    memory: dict[str, Any] = {}
    with pytest.raises(TypeError, match="the Queue that it yields does not fit the types of its fields"):
        wrong.results({}, {"memory": memory})


def test_of_a_class_that_is_derived_what_was_named_is_kept() -> None:
    @dataclass(frozen=True)
    class Longer(Queue):
        at: float = 0.0

    @check
    def derived(state: Queue) -> list[Queue | Result]:
        return [Longer(state.waiting + 1, 7.0), ok(f"{state.waiting}")]

    memory: dict[str, Any] = {}
    assert [derived.results({}, {"memory": memory})[0].summary for _ in range(3)] == ["0", "1", "2"]


def test_results_are_one_line_and_statuses_are_ordered_by_severity() -> None:
    assert warning("a\n b\tc").summary == "a b c"
    assert notice("told").notice
    assert unknown("?", load=3).metrics["load"] == Metric(3)
    assert max(Status, key=lambda status: status.severity) is Status.CRITICAL
    assert [int(status) for status in Status] == [0, 1, 2, 3]
