"""Lines that have the form of an error, whatever program writes them.

The forms are those in which run-time systems (C, C++, Python, Go, Rust, Java, Julia, R, Fortran), launchers,
shells and the kernel report that a program ends, and records of logging libraries. It is no list of what can
go wrong.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from watchdogd.parsers.logs.log_lines import LogLine

NEEDLES = (
    "error",
    "fatal",
    "panic",
    "abort",
    "exception",
    "terminat",
    "critical",
    "severe",
    "failed",
    "core dumped",
    "smashing",
    "corrupt",
    "invalid ",
    "halted",
    "caused by",
    "noticed",
    "not found",
    "no such file",
    "segfault",
    "goroutine",
    "killed",
    "signal (",
    "stop ",
)
"""A line (in lower case) is looked at only if it has one of these words."""
_POSSIBLE = re.compile(
    r"ERROR|FATAL|CRITICAL|SEVERE|STOP|[Ff]atal|panic|[Ee]rror(?: ?[:!]| in | using | term|['\"])|Exception"
    r"|Failure|[Aa]bort|ABORT|terminat|severe|failed|core dumped|smashing|corrupt|invalid |halted|Caused"
    r"|noticed|not found|[Nn]o such|segfault|protection|signal \(|goroutine|level|Killed|make: "
)
"""Second, narrower filter: `relative error 1e-3` does not pass it."""
_STAMP = r"(?:[\[(<]?\d[\d\-/:.,T_+Z ]{3,35}[\])>]?[\s|:,-]{0,4})?"
_NAME = r"[A-Za-z_][\w.]{0,200}"
_HOST = r"(?:[A-Za-z][\w.-]{0,60}\d[\w.-]{0,60}: )?"
"""Prefix of pdsh and similar tools: a host name with a number in it."""
_DIES = re.compile(
    rf"^\s{{0,8}}{_STAMP}{_HOST}(?:"
    r"thread '[^']{1,99}'(?: \(\d+\))? panicked at"
    r"|panic: |goroutine \d+ \[running\]|(?i:fatal (?:python )?error):|FATAL(?: ERROR)?(?:[:!]| -|$)"
    r"|terminate called |what\(\): |libc\+\+abi: terminating"
    r"|forrtl: (?:severe|error)|Fortran runtime error: |Error termination|ERROR STOP\b|STOP [1-9]\d{0,3}$"
    r"|\*\*\* (?:stack smashing|glibc detected|Process received signal|Check failure)"
    r"|(?:free|realloc|malloc|munmap_chunk)\(\): |corrupted (?:size|double)|double free or corruption"
    r"|F\d{4} \d\d:\d\d:\d\d|amrex::(?:Abort|Error)::|-{2,3}> FOAM FATAL|ERROR: LoadError: "
    r"|Exception in thread \"main\" |Kernel panic|signal \(\d+\): (?!Terminated)"
    r"|(?:mpirun|mpiexec|prterun) noticed|Error in routine "
    r")"
    r"|^[^\s:]{1,200}:(?:\d+:)? .{0,300}\bAssertion .{1,300} failed"
    r"|^\S{0,200}:? ?(?:line \d+: )?[ \d]{0,12}"
    r"(?:Aborted|Killed|Segmentation fault|Bus error|Floating point exception|Illegal instruction)"
    r"(?: {1,40}\(core dumped\)| {6,40}\S)"
    r"|^\[\s{0,8}\d+\.\d+\] .{0,99}(?:segfault at|general protection|Kernel panic)"
)
"""Lines in which a program reports its own end, or the kernel, shell or launcher reports it."""
_BARE = re.compile(
    r"^(?:Execution halted|.{0,99}MPI_ERRORS_ARE_FATAL|Primary job +terminated|\*\*\* Check failure"
    r"|[^(]{0,200}\(core dumped\)|make: \*\*\* |goroutine \d+ )"
)
"""Those of them that do not say why."""
_SAYS = re.compile(
    rf"^\s{{0,8}}{_STAMP}(?:"
    rf"(?:{_NAME})?(?:Error|Exception|Failure|ERROR|CRITICAL|SEVERE|error)(?: ?[:!]| on proc)"
    r"\s{0,9}+\S"
    r"|[*!#]{2,9} ?(?i:abort|error|fatal|stop)\w{0,3}\b"
    r"|Error (?:in|using) |Caused by: |Exception in thread |make: \*\*\* |fatal: "
    r")"
    r"|^[^\s:]{1,200}: (?:line \d+: )?.{1,200}: (?:command not found|No such file or directory)$"
    r"|^ERROR\b|^.{0,200}?\blevel(?:name)?['\"]?[:=] ?['\"]?(?i:error|fatal|critical)\b"
)
"""Exceptions and errors, also as shells print them."""
_LEVEL = re.compile(r"(?<![A-Za-z\d_])(?:ERROR|CRITICAL|FATAL|SEVERE)(?:[\])|:>]| {1,9}[-|:\d\[(])")
_WORD = re.compile(r"[A-Za-z_.]{2,}+")
_BEFORE, _WORDS = 100, 3
"""At most so many characters and words (time, logger) precede the level in a record of a logging library."""
_NOTHING = re.compile(
    r"(?:error|fatal|critical|exception|failure)\w{0,3}['\"]?\s?[:=]\s{0,9}+"
    r"(?:[-+]?[\d.]+(?:e[-+]?\d+)?%?|none|no|false|null)\s{0,9}$",
    re.IGNORECASE,
)
"""End of a line that gives just a number, or says that there is no error."""
_CAUGHT = re.compile(
    r"Exception (?:ignored )?in |Logging error|\b(?:ERROR|WARN(?:ING)?|CRITICAL)\b"
    r"|\b(?:ignor|skip|retry|caught|handled)"
)
"""Words before a traceback that was only logged, or belongs to a thread: the program continues."""
_TRACEBACK = "Traceback (most recent call last)"
_RAISED = re.compile(rf"^(?!Traceback){_NAME}(?:: |$)")
_GOES_ON = re.compile(
    r"(?i:\b(?:retry(?:ing)?|retries|skipp(?:ing|ed)|ignor(?:ing|ed)|resum(?:ing|ed)|restart(?:ing|ed)"
    r"|continu(?:ing|ed)|falling back|recover(?:ing|ed)|attempt \d+|trying again|try again)\b)"
)


class ErrorForm(NamedTuple):
    """Form of an error line.

    `dies`: the line reports the end of the program. `bare`: it does not say why.
    """

    dies: bool
    bare: bool = False


def form_of(text: str) -> ErrorForm | None:
    """Return the form of an error line, or None if the line is none."""
    if not _POSSIBLE.search(text) or _NOTHING.search(text[-60:]):
        return None
    if _BARE.match(text):
        return ErrorForm(not text.startswith("make: "), bare=True)
    if _DIES.match(text):
        return ErrorForm(dies=True)
    return ErrorForm(dies=False) if _SAYS.match(text) or _is_record(text) else None


def _is_record(text: str) -> bool:
    level = _LEVEL.search(text, 0, _BEFORE)
    return level is not None and len(_WORD.findall(text, 0, level.start())) <= _WORDS


def goes_on(text: str) -> bool:
    """Return True if a line reports that the program continues after an error."""
    return _GOES_ON.search(text) is not None


class Tracebacks:
    """Reader of Python tracebacks, line by line, with lines of several ranks mixed."""

    def __init__(self) -> None:
        self._last: dict[str, str] = {}
        self._open: dict[str, bool] = {}
        self._said: dict[str, str] = {}

    def ends_in(self, line: LogLine) -> bool | None:
        """Return True if the exception that ends a traceback here was caught; None if none ends here."""
        before, self._last[line.rank] = self._last.get(line.rank, ""), line.text
        if line.text.startswith(_TRACEBACK):
            if not before.startswith(("During handling", "The above exception")):
                self._open[line.rank], self._said[line.rank] = _CAUGHT.search(before) is not None, before
            else:
                self._open.setdefault(line.rank, False)
            return None
        if line.rank in self._open and _RAISED.match(line.text):
            name = line.text.partition(":")[0].rpartition(".")[2].strip()
            # a program that names the exception before the traceback has caught it
            return self._open.pop(line.rank) or name in self._said.pop(line.rank, "")
        return None
