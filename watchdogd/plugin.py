"""The plugin API: all that a check needs, built-in or yours.

    from watchdogd.plugin import check, critical, ok, warning, Metric

    @check(every="10m", timeout="20s")
    def queue_length(partition: str = "gpu", warn: int = 50):
        \"\"\"Jobs waiting in one partition.\"\"\"
        waiting = ...
        result = warning if waiting > warn else ok
        return result(f"{waiting} jobs wait in {partition}", waiting=Metric(waiting, warn=warn))

A check returns one Result, or yields several, each with its own `subject=`. It gets what it names:
`run` (Run or None), `snapshot` (Snapshot of this round), `state` (see below), `history` (History) and `now`
(seconds since the epoch). All other parameters are typed and come from the configuration. An exception
becomes UNKNOWN with its text.

What a check remembers between rounds is a dataclass: it gets the last one as `state`, and yields the next
among its results. `state: Queue` begins as `Queue()`, `state: Queue | None` as None; so does one that was
kept of a class with other fields or of another `VERSION`, or is damaged. `memory`, a dict that the check
changes, is the same without types.
"""

from __future__ import annotations

import contextlib
import enum
import inspect
import re
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from itertools import starmap
from typing import Any, Literal, TypeVar, overload

from watchdogd.batch.models import Ending, Job, Snapshot
from watchdogd.batch.run_models import STATES, Progress, Run, Sign, Strength, Suspect
from watchdogd.declaration import Chart, Column, Declaration
from watchdogd.errors import PluginError, Problem
from watchdogd.system.codec import codec_of
from watchdogd.units import Amount, AmountField, Duration, Percent, Rate, Share, Size, parse_duration

__all__ = [
    "STATES",
    "Advice",
    "Amount",
    "AmountField",
    "Chart",
    "Column",
    "Duration",
    "Ending",
    "History",
    "Job",
    "Metric",
    "Percent",
    "Plugin",
    "Progress",
    "Rate",
    "Recovery",
    "Result",
    "Run",
    "Share",
    "Sign",
    "Size",
    "Snapshot",
    "Status",
    "Strength",
    "Suspect",
    "check",
    "critical",
    "notice",
    "ok",
    "unknown",
    "warning",
]

T = TypeVar("T")
INJECTED = frozenset({"run", "snapshot", "memory", "history", "now", "failed"})
"""Parameters that a plugin receives by naming them. `failed`: how many looks in a row, up to now, were killed
or raised an error with this memory: what they could not get through is better not read again."""
STATE = "state"
"""The parameter, of a dataclass, for what a check remembers; and the key under which a memory keeps it."""


STOPPED, SWITCH_LEFT, DISOBEYS = "stopped", "switch left", "disobeys"
CANCELLED = "cancelled"
"""Kind of a fault: somebody cancelled the last job of a run, which is gone by that."""
DIVERGED = "diverged"
"""Kind of a fault: the loss is no number any more; the run's state in one word."""
SLOW = "slow"
"""Kind of a fault: the run gets on, and takes longer than it did; its nodes are asked who is slow."""
SWITCH_SET = frozenset({STOPPED, SWITCH_LEFT, DISOBEYS})
"""Kinds of fault of a run whose kill switch is set: no message offers to press it."""
UNWATCHED = "nobody is alerted until it is seen again"
"""What is so of a run that its kill switch had stopped, once that is cleared and nothing runs."""


class Status(enum.IntEnum):
    """Status of a result; the numbers are the exit codes of the Nagios plugin API."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3

    @property
    def severity(self) -> int:
        """For comparing: OK < WARNING < UNKNOWN < CRITICAL."""
        return (0, 1, 3, 2)[self]


@dataclass(frozen=True)
class Metric:
    """A number with its unit (`s`, `B`, `%`, `c` or none) and the thresholds it was held against."""

    value: float
    unit: str = ""
    warn: float | None = None
    crit: float | None = None


@dataclass(frozen=True)
class Recovery:
    """End of a fault in words: `what` it is now (`makes progress again`), and the number that shows it.

    `timed`: how long it lasted stands between the two: `makes progress again after 4m, step 395`.
    `recovered`: it is good again; False: nothing shows that, and `what` is what ended it: `its job ended`, in
    a message `its job ended before it recovered, after 20m: stalled`; alone where not `timed`.
    """

    what: str
    now: str = ""
    timed: bool = True
    recovered: bool = True


@dataclass(frozen=True)
class Advice:
    """One thing that helps: a `sentence` that says when or what for, and the `command` to type, if any.

    `action`: the kind of automatic action (`requeue`) that does the same; while watchdogd is about to do it
    by itself, a message offers the command only in case that fails. `recurs`: what it corrects would come
    again in a job that starts unchanged, which is said where watchdogd is about to start one. `shows`: what
    the command shows, if it does not do by itself what the sentence says: `how it was submitted`.
    """

    sentence: str = ""
    command: str = ""
    action: str = ""
    recurs: bool = False
    shows: str = ""

    @classmethod
    def of(cls, problem: Problem) -> Advice:
        """Return what helps with a problem, as far as it says."""
        fix = problem.fix
        if not fix:
            return cls()
        return cls("To correct it:", fix) if problem.typed else cls(f"{fix[0].upper()}{fix[1:]}.")

    @property
    def lines(self) -> tuple[str, ...]:
        """Return what there is of it, a line each."""
        return tuple(filter(None, (self.sentence, self.command)))

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Callable[[Any], Any]) -> Any:
        """Return how the history reads it: an earlier version kept a line of text, which was a command."""
        from pydantic_core import core_schema

        def fields(kept: Any) -> Any:
            return {"command": kept} if isinstance(kept, str) else kept

        return core_schema.no_info_before_validator_function(fields, handler(source))


@dataclass(frozen=True)
class Result:
    """Result of one execution for one subject.

    `summary` is one line that is read on a phone: the fact first, then for how long and the number that
    matters, in 80 characters. Paths, times and reasons are `facts`, a line each below it; `advice` is what
    helps with just this (see Advice); `details` are evidence, such as lines of a log.
    `recovery`: of what is OK, in which words a fault that it ends is over.
    `notice`: reported once, never an incident, with `label` as its word in brackets: INFO for what people or
    jobs did, WARNING for what people must know; the plugin itself remembers that it was reported.
    `quiet`: an incident that this result ends is closed without a message; if UNKNOWN, it opens none.
    `unanswered`: what was to be looked at does not answer, or is away: of what lies there nothing is known.
    Where the whole file system is silent, that is reported once, and this is noted in it.
    `progress`: whether the run gets on, where this check can say so; None: it says nothing of that.
    `kind`: which of the faults that the check can find this is, in a word (`held`, `gone`); another one has a
    beginning and a confirmation of its own. Left out: whatever is bad is one and the same fault. Of a run
    whose kill switch is set (a kind of SWITCH_SET) no message offers to press it.
    `trigger`: the key of the run (one of TRIGGERS) whose actions are to be done once this is confirmed.
    `signs`: evidence that the run works, or does not, which is no progress by itself.
    `run_state`: what the jobs of the run do, one of STATES, where the check declares that it looks at them.
    `cells`: what stands in the columns that the check declares, by title: a text, or a time (see Column).
    `short`: the fact of `summary` in a few words (`stalled for 22m at iteration 7/90`), for a first line that
    has more to say; `suspects`: who may be the reason.
    `since`: when the fault began (the last output, the last good number), in seconds since the epoch; left
    out: when it was first seen.
    """

    status: Status
    summary: str
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    details: str = ""
    subject: str = ""
    notice: bool = False
    quiet: bool = False
    unanswered: bool = False
    progress: Progress | None = None
    label: str = "INFO"
    kind: str = ""
    trigger: str = ""
    signs: tuple[Sign, ...] = ()
    run_state: str = ""
    cells: Mapping[str, str | float] = field(default_factory=dict)
    short: str = ""
    suspects: tuple[Suspect, ...] = ()
    facts: tuple[str, ...] = ()
    advice: tuple[Advice, ...] = ()
    recovery: Recovery | None = None
    since: float | None = None

    def of_kind(self, kind: str) -> Result:
        """Return the same result with that kind; what is OK has none."""
        return self if self.status is Status.OK else replace(self, kind=kind)

    def showing(self, cells: Mapping[str, str | float] | None = None, **more: str | float) -> Result:
        """Return the same result, with these texts or times in the columns of those titles."""
        return replace(self, cells={**self.cells, **(cells or {}), **more})

    def saying(self, *facts: str, advice: Iterable[Advice | str] = ()) -> Result:
        """Return the same result with these lines below its summary; empty ones are left out.

        Advice that is text alone is a command.
        """
        more = (Advice(command=each) if isinstance(each, str) else each for each in advice)
        return replace(
            self,
            facts=(*self.facts, *filter(None, facts)),
            advice=(*self.advice, *(each for each in more if each.lines)),
        )

    def ending(self, what: str, now: str = "", *, timed: bool = True, recovered: bool = True) -> Result:
        """Return the same result, in these words for a fault that it ends (see Recovery)."""
        return replace(self, recovery=Recovery(what, now, timed=timed, recovered=recovered))

    def dated(self, since: float) -> Result:
        """Return the same result, as a fault that began then."""
        return replace(self, since=since)

    def triggers(self, key: str) -> Result:
        """Return the same result, asking for what is configured under this key of the run (`on_hang`)."""
        return replace(self, trigger=key)


def _result(
    status: Status, summary: str, subject: str, details: str, metrics: Mapping[str, Metric | float]
) -> Result:
    named = {
        name: metric if isinstance(metric, Metric) else Metric(metric) for name, metric in metrics.items()
    }
    return Result(status, " ".join(summary.split()), named, details, subject)


def ok(summary: str, *, subject: str = "", details: str = "", **metrics: Metric | float) -> Result:
    """Return a result that all is well."""
    return _result(Status.OK, summary, subject, details, metrics)


def warning(summary: str, *, subject: str = "", details: str = "", **metrics: Metric | float) -> Result:
    """Return a result that something needs attention soon."""
    return _result(Status.WARNING, summary, subject, details, metrics)


def critical(summary: str, *, subject: str = "", details: str = "", **metrics: Metric | float) -> Result:
    """Somebody should look at it now."""
    return _result(Status.CRITICAL, summary, subject, details, metrics)


def unknown(summary: str, *, subject: str = "", details: str = "", **metrics: Metric | float) -> Result:
    """Return a result that it could not be found out; never a statement about the thing itself."""
    return _result(Status.UNKNOWN, summary, subject, details, metrics)


def notice(summary: str, *, details: str = "", label: str = "INFO") -> Result:
    """Return something to be reported once that is no fault: a restart, the end of a run.

    `label`: INFO, or WARNING.
    """
    return Result(Status.OK, " ".join(summary.split()), details=details, notice=True, label=label)


@dataclass(frozen=True)
class History:
    """Measurements of earlier rounds for this check: series of (time, value), oldest first."""

    points: Mapping[tuple[str, str], Sequence[tuple[float, float]]] = field(default_factory=dict)

    def series(self, metric: str, subject: str = "") -> Sequence[tuple[float, float]]:
        """Return one metric of one subject."""
        return self.points.get((subject, metric), ())


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter that the configuration may set: its type, its default (`REQUIRED` where it has none)."""

    name: str
    type: Any
    default: Any
    doc: str = ""


REQUIRED = inspect.Parameter.empty
Rejudge = Callable[[str, Mapping[str, float], Mapping[str, Any]], Result | None]
"""(subject, recorded numbers, present parameters) → what the check says of them; None: as it was then."""
Explain = Callable[[Any, float], Iterable[str]]
"""(what the check remembers, now) → lines that say what its verdict rests on."""


def remembered(cls: type[T], stored: Mapping[str, Any]) -> T | None:
    """Return the state of this class that is stored of a check; None where there is none."""
    return codec_of(cls).load(stored.get(STATE))


@dataclass(frozen=True, slots=True)
class Kept:
    """Storage of a check's `state` in its memory. `needed`: it begins as its class, else as None.

    `ours`: our own tests hold it to the types of its fields.
    """

    cls: type[Any]
    needed: bool
    ours: bool = False

    def load(self, stored: Mapping[str, Any]) -> Any:
        found = remembered(self.cls, stored)
        return self.cls() if found is None and self.needed else found

    def dump(self, answers: list[Any], stored: dict[str, Any]) -> list[Any]:
        """Put the last state among a check's answers into what is stored of it; returns the others."""
        states = [each for each in answers if isinstance(each, self.cls)]
        if states:
            stored.clear()
            stored[STATE] = self._dumped(states[-1])
        return [each for each in answers if not isinstance(each, self.cls)]

    def _dumped(self, state: Any) -> list[Any]:
        """TypeError where it would not come back."""
        codec, plain = codec_of(self.cls), None
        with contextlib.suppress(TypeError, ValueError, AttributeError):
            plain = codec.dump(state)
        if plain is None or (not self.ours and codec.load(plain) is None):
            raise TypeError(f"the {self.cls.__name__} that it yields does not fit the types of its fields")
        return plain


@dataclass(frozen=True, slots=True)
class Plugin:
    """A check function with what registration found out about it. Calling it calls the function."""

    name: str
    function: Callable[..., Any]
    description: str
    parameters: Mapping[str, Parameter]
    wants: frozenset[str]
    every: float | None = None
    timeout: float | None = None
    follows: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    remembers: float = 0.0
    rejudge: Rejudge | None = None
    explain: Explain | None = None
    declared: Declaration = field(default_factory=Declaration)
    kept: Kept | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function as it was written."""
        return self.function(*args, **kwargs)

    def results(self, parameters: Mapping[str, Any], injected: Mapping[str, Any]) -> list[Result]:
        """Call the function with `parameters` and of `injected` what it names; always at least one Result."""
        given = {"failed": 0, **injected}
        if self.kept:
            given[STATE] = self.kept.load(given["memory"])
        answer = self.function(**parameters, **{name: given[name] for name in self.wants})
        if isinstance(answer, Result):
            return self._checked([answer])
        answers = list(answer) if isinstance(answer, Iterable) and not isinstance(answer, str) else []
        results = self.kept.dump(answers, given["memory"]) if self.kept else answers
        if not results or not all(isinstance(result, Result) for result in results):
            return [unknown(f"plugin {self.name} returned no result: return ok(...), warning(...) ...")]
        return self._checked(results)

    def _checked(self, results: list[Result]) -> list[Result]:
        """Return the results. PluginError where one has what its declaration does not name."""
        for result in results:
            if wrong := self._undeclared(result):
                raise PluginError(f"plugin {self.name} {wrong}")
        return results

    def _undeclared(self, result: Result) -> str:
        """Return what a result has that was not declared, with what to write, or empty."""
        key, state = result.trigger, result.run_state
        if key and key not in self.declared.triggers:
            return f"asks for {key}: declare it, @check(triggers=('{key}',))"
        if state and not self.declared.jobs:
            return "says what a run's jobs do: declare it, @check(jobs=True)"
        if state and state not in STATES:
            return f"says that the jobs are '{state}': say one of {', '.join(STATES)}"
        return next(filter(None, starmap(self._misfilled, result.cells.items())), "")

    def _misfilled(self, title: str, cell: str | float) -> str:
        """Return what is wrong with a cell, with what to write, or empty."""
        column = next((column for column in self.declared.columns if column.title == title), None)
        if column is None:
            return f"fills the column '{title}': declare it, @check(columns=(Column('{title}'),))"
        if isinstance(cell, int | float if column.time else str):
            return ""
        wanted = "a time in seconds since 1970" if column.time else "text"
        return f"fills the column '{title}' with {cell!r}: it takes {wanted}"

    @property
    def remembers_something(self) -> bool:
        return self.kept is not None or "memory" in self.wants

    def explained(self, memory: Mapping[str, Any], now: float) -> list[str]:
        """Return what its verdict rests on, by what it remembers; nothing where it has no words for that."""
        if self.explain is None:
            return []
        return list(self.explain(self.kept.load(memory) if self.kept else memory, now))


@overload
def check(function: Callable[..., Any], /) -> Plugin: ...
@overload
def check(
    *,
    every: str | float | None = None,
    timeout: str | float | None = None,
    follows: tuple[str, ...] = (),
    after: tuple[str, ...] = (),
    remembers: str | float = 0,
    rejudge: Rejudge | None = None,
    explain: Explain | None = None,
    watches: Literal["", "run", "disk"] = "",
    needs: str = "",
    jobs: bool = False,
    evidence: tuple[str, ...] = (),
    triggers: tuple[str, ...] = (),
    columns: tuple[Column, ...] = (),
    charts: tuple[Chart, ...] | None = None,
    trend: str = "",
) -> Callable[[Callable[..., Any]], Plugin]: ...
def check(
    function: Callable[..., Any] | None = None,
    /,
    *,
    every: str | float | None = None,
    timeout: str | float | None = None,
    follows: tuple[str, ...] = (),
    after: tuple[str, ...] = (),
    remembers: str | float = 0,
    rejudge: Rejudge | None = None,
    explain: Explain | None = None,
    watches: Literal["", "run", "disk"] = "",
    needs: str = "",
    jobs: bool = False,
    evidence: tuple[str, ...] = (),
    triggers: tuple[str, ...] = (),
    columns: tuple[Column, ...] = (),
    charts: tuple[Chart, ...] | None = None,
    trend: str = "",
) -> Plugin | Callable[[Callable[..., Any]], Plugin]:
    """Make a function a plugin.

    every      cadence where the configuration names none; left out: `[daemon] interval`
    timeout    deadline of one execution; left out: `[daemon] timeout`
    follows    plugins whose incident about the same run explains this one's: it is then noted inside
               theirs, not sent beside it
    after      plugins whose answer about the same run in the same round is waited for: `run.progress` is
               then as fresh as theirs
    remembers  how far back `history` reaches
    rejudge    what `backtest` asks: pure, from recorded numbers and present parameters to a Result
    explain    what `check --explain` prints: lines that say what the verdict rests on
    watches    what brings it by itself: each `run`, or each `disk`; left out: a table [checks.NAME]
    needs      the key of the run or disk that has to be set for that; left out: none
    jobs       it looks at the jobs of its run and says what they do (`Result.run_state`): what people do to
               the run is reported through it
    evidence   plugins whose last details about the same run go into the message of an incident of this one
    triggers   keys of a run (see TRIGGERS) whose actions its results may ask for
    columns    columns of `status` and of the page that its results fill
    charts     how the page draws its metrics; left out: each as it is; () for none
    trend      the metric whose course of the last day stands in the messages of its incidents
    """

    declared = Declaration(watches, needs, jobs, evidence, triggers, columns, charts, trend)

    def register(target: Callable[..., Any]) -> Plugin:
        name = target.__name__
        if declared.fault:
            raise PluginError(f"plugin {name}: {declared.fault}")
        documentation = inspect.getdoc(target) or ""
        types = _types(name, target)
        kept = _kept(name, types)
        given = INJECTED | {STATE} if kept else INJECTED
        return Plugin(
            name=name,
            function=target,
            description=documentation.partition("\n\n")[0].replace("\n", " "),
            parameters=_parameters(name, target, types, given, documentation),
            wants=given.intersection(inspect.signature(target).parameters),
            every=None if every is None else parse_duration(every),
            timeout=None if timeout is None else parse_duration(timeout),
            follows=follows,
            after=after,
            remembers=parse_duration(remembers),
            rejudge=rejudge,
            explain=explain,
            declared=declared,
            kept=kept,
        )

    return register if function is None else register(function)


def _types(name: str, target: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(target, include_extras=True)
    except (NameError, TypeError) as error:
        raise PluginError(f"plugin {name}: a parameter's type cannot be found: {error}") from None


def _kept(name: str, types: Mapping[str, Any]) -> Kept | None:
    """Return how the check's state is kept; None where it names none. PluginError where it cannot be kept.

    `state` of another type is a parameter like any other.
    """
    hint = types.get(STATE)
    classes: list[Any] = [each for each in (typing.get_args(hint) or (hint,)) if is_dataclass(each)]
    if not classes:
        return None
    if "memory" in types:
        raise PluginError(f"plugin {name}: it remembers a state or a memory, not both")
    try:
        found = Kept(classes[0], is_dataclass(hint), classes[0].__module__.startswith("watchdogd."))
        found.load({})
    except (TypeError, NameError, RecursionError) as error:
        raise PluginError(f"plugin {name}: its state cannot be kept: {error}") from None
    return found


def _parameters(
    name: str,
    target: Callable[..., Any],
    types: Mapping[str, Any],
    given: Collection[str],
    documentation: str,
) -> dict[str, Parameter]:
    """Return the configurable parameters of a function.

    PluginError where one has no type or no name of its own.
    """
    found = {}
    for parameter in inspect.signature(target).parameters.values():
        if parameter.name in given:
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise PluginError(f"plugin {name}: write each parameter by name, not {parameter}")
        if parameter.name not in types:
            raise PluginError(
                f"plugin {name}: parameter '{parameter.name}' has no type: write {parameter.name}: str"
            )
        doc = re.search(rf"^[ \t]*+{parameter.name}: (.+(?:\n\s{{4,}}.+)*)", documentation, re.MULTILINE)
        found[parameter.name] = Parameter(
            parameter.name,
            types[parameter.name],
            parameter.default,
            " ".join(doc[1].split()) if doc else "",
        )
    return found
