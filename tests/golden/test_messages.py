"""The file of all messages is as they are now, each first line keeps the rules, and no kind is missing."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from types import FrameType

import pytest

from tests.golden import messages
from tests.golden.checks import CONFIG, DROPINS
from tests.golden.messages import FILE, ISO, PATH, first_lines, rendered
from watchdogd.cli import VERBS
from watchdogd.config.loading import parse
from watchdogd.daemon.dependencies import queue_name
from watchdogd.daemon.registry.check_factory import build
from watchdogd.daemon.registry.plugin_registry import built_in
from watchdogd.daemon.self_monitoring import SUBJECTS
from watchdogd.home.layout import Home
from watchdogd.incidents import message_wording
from watchdogd.incidents.models import DELIVERY, SELF
from watchdogd.notify.reports import Reports
from watchdogd.plugin import Result, Status
from watchdogd.remediation.executor import _DOERS
from watchdogd.units import age

ROOT = Path(__file__).parents[2]
SAYING = {"warning", "critical", "unknown", "notice"}
PLACES = ("plugins", "watchdogd/checks", "watchdogd/daemon")
ELSEWHERE = {
    "_rejudge": "backtest asks it; the check itself says the same",
    "stated": "gives back what was made elsewhere",
    "doubt": "holds others back for a round, and is gone",
    "result": "backtest gives back what was recorded",
}
"""Functions that make a result and need no message of their own in the file, and why."""
Places = set[tuple[str, int]]
"""Calls: file and line."""


@pytest.fixture(scope="module")
def made() -> tuple[str, Places]:
    """The file as it is made now, and the lines in which its results were made."""
    seen: Places = set()
    real = Result.__init__

    def noted(self: Result, *args: object, **fields: object) -> None:
        frame: FrameType | None = sys._getframe(1)
        while frame and frame.f_code.co_filename.endswith(("watchdogd/plugin.py", "dataclasses.py")):
            frame = frame.f_back
        if frame:
            seen.add((_place(frame.f_code.co_filename), frame.f_lineno))
        real(self, *args, **fields)  # type: ignore[arg-type]

    Result.__init__ = noted  # type: ignore[method-assign]
    try:
        return rendered(), seen
    finally:
        Result.__init__ = real  # type: ignore[method-assign]


def _place(path: str) -> str:
    return str(Path(path).resolve().relative_to(ROOT))


def test_the_file_is_as_the_messages_are(made: tuple[str, Places]) -> None:
    assert made[0] == FILE.read_text(encoding="utf-8"), "look at it: python -m tests.golden.messages"


def test_every_first_line_keeps_the_rules() -> None:
    for title, line in first_lines():
        match = re.fullmatch(r"\[([A-Z]+)\] ([^:]+): (.+)", line)
        assert match, f"{title}: {line}"
        assert len(line) <= message_wording.LIMIT, title
        assert match.start(3) < 40, f"{title}: the fact begins late"
        assert not PATH.search(line), f"{title}: a path: {line}"
        assert not ISO.search(line), f"{title}: a time of machines: {line}"
        assert match[1] != "OK" or title == "delivery: it works again", f"{title}: OK is a good result"
        assert title.startswith("action: ") == (match[1] == "ACTION"), title
        assert not title.startswith("people: ") or match[1] == "INFO", title
        assert re.search(r"[a-z]{2}", match[3][:40]), f"{title}: no words"


CLAUSE = re.compile(r"[;,:] | \(|$")
OTHERS = ("delivery: ", "the watchdog: ", "gpu_health: its GPUs cannot be watched", "several ")
ALERTS = ("CRITICAL", "WARNING", "UNKNOWN")


def test_a_phone_shows_the_fact_and_it_says_nothing_twice() -> None:
    """The first clause ends where a phone cuts, the word in brackets is not said again."""
    for title, line in first_lines():
        word, fact = line[1:].split("] ", 1)[0], line.split(": ", 1)[1]
        end = CLAUSE.search(fact, 15)
        assert end, title
        assert len(line) - len(fact) + end.start() <= 80, f"{title}: {line}"
        assert word not in fact, f"{title}: {line}"
        assert "see above" not in fact.lower(), title


def test_what_comes_and_goes_says_how_often_in_what_time() -> None:
    (line,) = [line for title, line in first_lines() if title == "an incident: it comes and goes"]
    assert re.search(r": comes and goes, \d+ times in \d+m: stalled", line)


CHANGED = ("requeue", "cancel", "kill-switch", "save-switch", "resubmit", "hold", "cancel-pending")


def test_what_watchdogd_did_comes_with_the_way_back() -> None:
    told = {title: lines for title, lines in _mails() if title.startswith("action: ")}
    for kind in CHANGED:
        assert "What you can do:" in told[f"action: {kind} done"], kind
    stopped = "\n".join(told["action: stacks failed"])
    assert "the process is stopped" in stopped
    assert "watchdogd stacks" not in stopped, "a stopped process has none to give"


def test_nothing_is_offered_that_cannot_help() -> None:
    """No stacks of what is gone or stopped, no end of the watch over what still runs, or may still come."""
    for title, lines in _mails():
        text = "\n".join(lines)
        if title.startswith(("job_liveness: gone", "job_liveness: a process", "job_liveness: cancelled")):
            assert not re.search(r"watchdogd stacks|scontrol requeue|kill-switch", text), title
        if re.search("suspended|still runs|never seen|never starts|held by", lines[0]):
            assert "watchdogd finish" not in text, title
        if "suspended" in lines[0]:
            assert "watchdogd stacks" not in text, title


def _mails() -> list[tuple[str, list[str]]]:
    """Title and lines of each message as mail, without what is quoted."""
    parts = FILE.read_text(encoding="utf-8").split("=" * 100 + "\n")[1:]
    mails = [(part.split("\n")[0], part.split("-- mail\n")[1].split("-- mail, HTML")[0]) for part in parts]
    return [(title, text.replace("\n  ", "\n").split("\n")[2:]) for title, text in mails]


UNHEARD = frozenset(f"watchdogd: trouble with {each}" for each in ("home", "inbox", "history")) | {
    "watchdogd: home does not answer"
}


def test_an_alert_says_first_what_helps_then_since_when_and_last_how_to_answer() -> None:
    for title, lines in _mails():
        status = lines[0][1:].partition("]")[0]
        heads = [line for line in lines if re.match(r"What you can do|Since |Lasted |Once you work", line)]
        kinds = [head.split(" ")[0] for head in heads]
        if status in ALERTS and not title.startswith(OTHERS):
            unheard = title in UNHEARD  # an answer would have no effect
            assert kinds == ["What", "Since", *([] if unheard else ["Once"])], title
        one = len([kind for kind in kinds if kind in ("Since", "Lasted")]) <= 1
        assert one or title.startswith("several "), title
        assert not any(re.search(r"\bsince \d", line) for line in lines), title


COMMANDS = {
    "watchdogd", "scontrol", "scancel", "sacct", "squeue", "sinfo", "sbatch", "srun", "du", "df", "free",
    "ps", "ls", "chmod", "setfacl", "sed", "uptime", "kill", "cp", "findmnt", "ulimit", "/work/notify-oncall",
}  # fmt: skip
"""Programs that a message gives to type."""


def _answers() -> Iterator[tuple[str, list[str]]]:
    """Title and lines of what each message gives to do, and how to answer."""
    for title, lines in _mails():
        for at, line in enumerate(lines):
            if line.startswith(("What you can do:", "Once you work on")):
                found = lines[at:]
                yield title, found[: found.index("") if "" in found else len(found)]


def test_a_block_to_copy_is_a_command_and_what_it_is_for_stands_above_it() -> None:
    told = list(_answers())
    assert len(told) > 200
    for title, lines in told:
        for before, line in pairwise(lines):
            if line.startswith("    "):
                assert line.split()[0] in COMMANDS, f"{title}: {line}"
                acks = before.startswith("    ") and " ack " in f"{before} ack "
                assert before.endswith(":") or acks, f"{title}: {line}"
            elif line.endswith(":"):
                assert line[0].isupper(), f"{title}: {line}"
            else:
                assert re.match(r"[A-Z].*\.", line), f"{title}: {line}"


def test_what_watchdogd_will_do_comes_first_with_what_ends_that_and_is_not_asked_of_people() -> None:
    promised = [
        (title, lines) for title, lines in _mails() if any("watchdogd will" in each for each in lines)
    ]
    assert len(promised) > 4
    for title, lines in promised:
        text = "\n".join(lines)
        begins = next(at for at, line in enumerate(lines) if line.startswith(("What you can do", "stacks:")))
        assert text.index("watchdogd will") < text.index(lines[begins]), title
        assert re.search(
            "An acknowledgement( of incident 7)? or a silence stops that.|To stop that:\n    watchdogd ack 7",
            text,
        ), title
        for command in ("watchdogd stacks", "scontrol requeue"):
            at = next((at for at, line in enumerate(lines) if line.startswith(f"    {command}")), None)
            expected = "To restart it (as bob):" if "It will not " in text else "Only if watchdogd could not "
            assert at is None or lines[at - 1].startswith(expected), f"{title}: {command}"


def test_what_says_how_long_says_since_when_itself() -> None:
    """The fault's begin is one field: no second "since" stands below."""
    lasting = re.compile(r"\bfor \d+[smhd]|\b\d+[smhd]\w* (?:later than|after its)|\blast seen \d")
    for title, found in messages.results():
        if found.status is not Status.OK and not found.notice and lasting.search(found.summary):
            assert found.since is not None, f"{title}: {found.summary}"


def test_an_end_without_recovery_says_so_and_is_not_green() -> None:
    for title, line in first_lines():
        if line.startswith("[RESOLVED]") and re.search(r"judged|watched|job ended|removed", line):
            assert "before it recovered" in line, f"{title}: {line}"
    text = FILE.read_text(encoding="utf-8")
    ends = re.findall(r"(\S+) \*\[RESOLVED\] .*before it recovered", text)
    assert len(ends) > 2
    assert set(ends) == {"\u26aa"}


def test_nothing_is_said_twice_of_one_incident() -> None:
    """A change, a call and an end have words of their own."""
    lives = [line for title, line in first_lines() if title.startswith("an incident: ") and "scratch" in line]
    assert len(set(lives)) == len(lives) > 5
    assert "\n  Worst: [CRITICAL] 1 TB of 50 TB free (2 %)\n" in FILE.read_text(encoding="utf-8")


def test_one_thing_has_one_word_everywhere() -> None:
    """The words that CONTRIBUTING names are not replaced by those that it rules out."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^  \| (.+) \| (.+) \| (.+) \|$", text, re.MULTILINE)[2:]
    others = {word for *_, out in rows for word in out.split(", ")}
    assert len(others) > 15
    told = "\n".join(line for _, lines in _mails() for line in lines if not line.startswith("    "))
    told = told.replace("in the kernel and cannot be killed", "")  # a process, by the system's own word
    assert {word for word in others if re.search(rf"\b{word}\b", told)} == set()


def test_what_comes_as_a_time_has_its_zone() -> None:
    text = FILE.read_text(encoding="utf-8")
    clocks = re.findall(
        r"(?<![\d:])\d\d:\d\d:\d\d(?! (?:CET|CEST))", re.sub(r"\d{4}-\d\d-\d\dT\S+", "", text)
    )
    assert clocks == []


CLOCK = r"(\d+ \w+ \d\d:\d\d:\d\d) CET"


@dataclass(frozen=True)
class Told:
    """A message as a terminal shows it: its title, when it came, its first line, what stands below it."""

    title: str
    at: float
    head: str
    text: str

    @property
    def of(self) -> str:
        """Check and subject that it is about."""
        found = re.search(r"; check (.+?)(?:, incident \d+)?$", self.text, re.MULTILINE)
        return found[1] if found else ""


def _told() -> list[Told]:
    parts = FILE.read_text(encoding="utf-8").split("=" * 100 + "\n")[1:]
    found = []
    for part in parts:
        shown = part.split("-- terminal\n")[1].split("-- page\n")[0].replace("\n  ", "\n")
        first, _, text = shown.strip().partition("\n")
        at, head = re.fullmatch(f"{CLOCK} (.+)", first).groups()  # type: ignore[union-attr]
        found.append(Told(part.partition("\n")[0], _seconds(at), head, text))
    return found


def _seconds(clock: str) -> float:
    return datetime.strptime(f"2026 {clock}+0100", "%Y %d %b %H:%M:%S%z").timestamp()


AGO = re.compile(r"\b(?:no output|progress|stalled|others|last seen|log)(?: for)? (\d\w*)")


def test_a_message_has_one_clock() -> None:
    """What it says of times and of how long they are ago agrees, and nothing has happened after it."""
    for each in _told():
        spans = re.findall(rf"^Since {CLOCK}, for (\S+)\.$", each.text, re.MULTILINE)
        assert [lasted for _, lasted in spans] == [age(each.at - _seconds(at)) for at, _ in spans], each.title
        ago = AGO.search(each.head)
        assert not (ago and spans) or ago[1] == spans[0][1], f"{each.title}: {each.head}, {spans[0]}"
        for lasted, since, end in re.findall(rf"Lasted (\S+), from {CLOCK} to {CLOCK}", each.text):
            assert (lasted, each.at) == (age(_seconds(end) - _seconds(since)), _seconds(end)), each.title
            after = re.search(r" after (\d\w+)", each.head)
            assert not after or after[1] == lasted, each.title
        late = [
            at
            for at in re.findall(
                rf"(?<!until )(?<!Recovered at ){CLOCK}(?! at the earliest)", each.text, re.MULTILINE
            )
            if _seconds(at) > each.at
        ]
        assert late == [], f"{each.title}: yet to come"


def test_an_end_is_that_of_its_own_beginning() -> None:
    """Some message of the same check and subject said before what an end says that it was."""
    everything = _told()
    ends = [each for each in everything if each.head.startswith("[RESOLVED]")]
    assert len(ends) > 10
    for each in ends:
        was = re.search(r"(?:It was|Worst): \[(\w+)\] (.+)", each.text)
        assert was, each.title
        before = [
            other
            for other in everything
            if other.of == each.of and other.at < each.at and was[2] in f"{other.head}\n{other.text}"
        ]
        assert before, f"{each.title}: nothing of {each.of} was {was[0]}"


def test_each_command_is_of_something_that_is_there(tmp_path: Path) -> None:
    """A verb that exists, with a check, run, disk, channel or incident of the home that the file is about."""
    home, catalog = Home(tmp_path), {entry.name: entry for entry in built_in()}
    config = parse(CONFIG, home.config)
    built = build(config, catalog, home, "slurm", whole=False)
    checks = {SELF, DELIVERY, queue_name("slurm"), f"{SELF}/files:/scratch", *config.checks}
    checks |= {*(check.name for check in built), *(f"cron.hourly/{name}" for name in DROPINS)}
    names = {config.daemon.name, *checks, *config.runs, *config.disks, *config.channels}
    for each in _told():
        about = each.of.partition(" ")[0]
        assert not about or about in checks, f"{each.title}: there is no check {about}"
        numbers = re.findall(r"\bincidents? (\d+)", each.text)
        numbers += ["8", "9"] if each.title.startswith("several ") else []
        for verb, word in COMMAND.findall(each.text):
            assert verb in VERBS, f"{each.title}: {verb}"
            there = word in (numbers if verb == "ack" else names)
            assert there or not word or word.startswith("-"), f"{each.title}: watchdogd {verb} {word}"


COMMAND = re.compile(r"(?:^ +|: )watchdogd (?!ended)([a-z-]+)(?: ([\w./-]+))?", re.MULTILINE)


def sayings() -> Iterator[tuple[str, str, range]]:
    """Each call in which a check says that something is wrong, or once that something is so: its lines."""
    for place in PLACES:
        for path in sorted((ROOT / place).rglob("*.py")):
            for function in ast.walk(ast.parse(path.read_text())):
                if isinstance(function, ast.FunctionDef):
                    calls = [
                        each for each in ast.walk(function) if isinstance(each, ast.Call) and _says(each)
                    ]
                    for each in calls:
                        lines = range(each.lineno, (each.end_lineno or each.lineno) + 1)
                        yield str(path.relative_to(ROOT)), function.name, lines


def _says(call: ast.Call) -> bool:
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    return name in SAYING or (name == "Result" and not _fine(call))


def _fine(call: ast.Call) -> bool:
    return bool(call.args) and ast.unparse(call.args[0]) == "Status.OK"


def test_no_kind_of_message_is_missing(made: tuple[str, Places]) -> None:
    missing = [
        f"{path}:{lines.start} {function}"
        for path, function, lines in sayings()
        if function not in ELSEWHERE and not any((path, line) in made[1] for line in lines)
    ]
    assert missing == []
    titles = {title for title, _ in first_lines()}
    assert {subject for subject in SUBJECTS if f"watchdogd: trouble with {subject}" not in titles} == set()


def test_no_action_no_report_and_nothing_that_people_do_is_missing() -> None:
    titles = {title for title, _ in first_lines()}
    assert {kind for kind in _DOERS if f"action: {kind} done" not in titles} == set()
    said = {name for name, each in vars(Reports).items() if callable(each) and not name.startswith("_")}
    assert said == {"broken", "works", "partly", "refused", "expired"}, "add it to messages.delivery"
    words = {
        name
        for name, each in vars(message_wording).items()
        if getattr(each, "__module__", "") == message_wording.__name__
    }
    source = Path(messages.__file__).read_text(encoding="utf-8")
    assert words - set(re.findall(r"wording\.(\w+)", source)) == {
        "acknowledged", "ended", "silenced", "unsilenced", "stopped", "started", "reminder", "unacknowledged",
        "flapping", "switched", "follower", "first_line", "cut", "outcome", "upcoming", "_why", "fits",
        "joined", "_room", "beginning", "_others", "eased", "recovered", "ActionWords",
        "calm", "known_again", "late_line", "recovers", "_says_how_long", "_later",
    }, "what is new there needs a message in the file"  # fmt: skip
