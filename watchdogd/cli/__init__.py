"""The command line: find the verb, parse, call, and turn every error into one line.

A verb is a module of this folder with `arguments(parser)` and `run(args) -> int`; only the chosen one is
imported, so that the emergency verbs do not pay for what they do not use. `args` always has `verb`, `home`
(None: the default one), and what the verb's `arguments` added.
"""

from __future__ import annotations

import sys

from watchdogd.errors import EX_USAGE, UsageError, WatchdogError
from watchdogd.system import startup, umask

TYPE_CHECKING = False  # for type checkers: importing typing would cost emergency verbs a tenth more
if TYPE_CHECKING:
    import argparse
    from types import ModuleType
    from typing import NoReturn

GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "set up": {
        "init": ("setup.init", "make home and a commented config.toml for this machine"),
        "watch": ("setup.watch", "adopt a live Slurm job: adds its [runs.NAME] to config.toml"),
        "doctor": ("setup.doctor", "try everything that the configuration needs, with a fix for each line"),
        "config": ("setup.config", "show the effective configuration, and what each check came from"),
        "plugins": ("setup.plugins", "list the plugins; with PLUGIN, its parameters"),
        "notify": ("notify", "send a test notification"),
        "completion": (
            "setup.completion",
            "print what completes verbs, options and runs in bash, zsh or fish",
        ),
        "demo": ("setup.demo", "watch a training that hangs and fills its disk, in this terminal"),
    },
    "watch": {
        "start": ("start", "start the watchdog on Slurm, or here with --local"),
        "stop": ("start", "end the watchdog"),
        "restart": ("start", "end the watchdog and start it anew"),
        "ensure": ("start", "start it only where it is not alive; for cron and login scripts"),
        "run": ("run", "run the daemon in the foreground"),
        "tick": ("tick", "evaluate one round of what is due, for cron"),
        "status": ("status", "show whether it is alive, where, and what is open"),
        "queue": ("queue", "list the team's jobs: what runs, and what each waits for"),
        "check": ("check", "run checks now and print them"),
        "nodes": ("nodes", "list nodes under suspicion, which a run's next jobs leave out; --add, --remove"),
        "gpus": ("job.gpus", "show all GPUs of a run's nodes in one table"),
        "outbox": ("outbox", "list notifications that are not delivered yet, and why"),
        "relay": ("relay", "deliver notifications from here, where there is a way out; --follow for ever"),
        "web": ("web", "serve the page on loopback with a token; /metrics for Prometheus"),
    },
    "answer": {
        "incidents": ("incidents", "list what is open, or what was"),
        "ack": ("incidents", "say that you look after an incident: no more reminders"),
        "silence": ("incidents", "mute messages about a run, disk or check for a while"),
        "unsilence": ("incidents", "end a silence; what is still wrong is reported"),
        "stacks": (
            "job.stacks",
            "show where all processes of a run stand: equal stacks folded, suspects first",
        ),
    },
    "stop a training": {
        "kill-switch": ("switch", "tell the training to save and exit"),
        "save-switch": ("switch", "tell the training to save and go on"),
        "finish": ("finish", "mark a run finished: nothing more is expected of it"),
    },
    "in a job script": {
        "guard": ("job.guard", "run a program under the switches of its run: -- CMD ..."),
        "preflight": ("job.preflight", "smoke-test the nodes at the start of a job script"),
        "env": ("job.job_env", 'print shell exports of the run\'s live job: eval "$(watchdogd env RUN)"'),
        "probe": ("job.probe", "leave samples of a job's nodes in home, in the background of its script"),
    },
    "look back": {
        "history": ("history", "show results, incidents and metrics of the past"),
        "backtest": (
            "backtest",
            "show which alerts the present configuration would have brought",
        ),
        "digest": ("digest", "print the morning message: progress, hours lost, disks; --send sends it"),
        "report": ("web", "write all that is known as one HTML file, for a shared folder"),
        "export": (
            "export",
            "write all of the history as JSON lines, for another database or for safekeeping",
        ),
        "import": ("export", "read an export into a history that is empty"),
    },
}
"""Purpose → verb → (module in this folder, one line of help), in the order of help."""
VERBS = {verb: entry for verbs in GROUPS.values() for verb, entry in verbs.items()}
_EPILOG = "Home is --home DIR, else $WATCHDOGD_HOME, else ~/.watchdogd. See 'watchdogd VERB --help'."
_NO_VERDICT = {"status": 3, "check": 3, "doctor": 2, "preflight": 0}
"""Verb → its exit code if it cannot judge anything (no home, say), since 1 would mean a warning; 0 for
preflight, since a problem of watchdogd itself never costs an allocation."""
_WIDTH = 100
_INTERRUPTED = 130
_BROKEN_PIPE = 141
_NO_MEMORY = "no memory is left, on this machine or under this user's limits (see 'ulimit -v'): it ends"


def main(argv: list[str] | None = None) -> int:
    """Run one verb; return its exit code. Never raise."""
    words = list(sys.argv[1:] if argv is None else argv)
    if argv is None and sys.path[0] == sys.executable.rpartition("/")[0]:
        del sys.path[0]  # the script's folder, where Python would look for each module first
    startup.open_standard_streams()
    startup.correct_time_zone()
    _encode_anything()
    umask.begin()
    try:
        return _run(words)
    finally:
        umask.end()


def _run(words: list[str]) -> int:
    """Run the verb that these words name and return its exit code, whatever goes wrong."""
    try:
        code = _dispatch(words)
        sys.stdout.flush()
        return code
    except WatchdogError as error:
        if _is_broken_pipe(error):
            _silence_stdout()
            return _BROKEN_PIPE
        from watchdogd.cli.output import explained

        _complain(explained(error))
        return _failed(words) if error.exit_code == 1 else error.exit_code
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        _silence_stdout()
        return _BROKEN_PIPE
    except SystemExit as exit_:  # argparse leaves so after --help
        return exit_.code if isinstance(exit_.code, int) else 0
    except OSError as error:
        _silence_stdout()
        _complain(_os_sentence(error))
        return _failed(words)
    except Exception as error:  # noqa: BLE001 - the last net: nobody sees a traceback
        if "KeyboardInterrupt" in str(error):  # how pydantic reports Ctrl-C
            return _INTERRUPTED
        _complain(_NO_MEMORY if _is_shortage(error) else _internal(error, words))
        return _failed(words)


def _failed(words: list[str]) -> int:
    """Return the exit code of a verb that could not do its work."""
    return _NO_VERDICT.get(_split(words)[1] or "", 1)


def _dispatch(words: list[str]) -> int:
    """Find the verb among the words, import its module, parse the rest, run it."""
    before, verb, rest = _split(words)
    if verb is None:
        return _about(before)
    if verb not in VERBS:
        from watchdogd.system.text import nearest

        raise UsageError(f"there is no verb '{verb}'{nearest(verb, list(VERBS))}; see 'watchdogd --help'")
    name = f"watchdogd.cli.{VERBS[verb][0]}"
    __import__(name)  # importlib would import warnings too
    module = sys.modules[name]
    parser = parser_of(module, verb)
    args = parser.parse_args(_with_values(parser, before + rest))
    umask.suit(_group(args.home))
    code: int = module.run(args)
    return code


def _with_values(parser: argparse.ArgumentParser, words: list[str]) -> list[str]:
    """Join an option with a value that begins with a dash, which argparse would take for an option."""
    known = parser._option_string_actions
    for at in range(words.index("--") if "--" in words else len(words)):
        word, value = words[at], "".join(words[at + 1 : at + 2])
        takes = word in known and known[word].nargs is None
        if takes and value.startswith("-") and value != "--" and value.partition("=")[0] not in known:
            return [*words[:at], f"{word}={value}", *_with_values(parser, words[at + 2 :])]
    return words


def _group(home: str | None) -> int | None:
    """Return the group that shares this home; None if it has none, or there is no home."""
    from watchdogd.system.pathname import group_of, home_folder

    try:
        return group_of(home_folder(home))
    except (WatchdogError, OSError):
        return None


def _split(words: list[str]) -> tuple[list[str], str | None, list[str]]:
    """Return the options before the verb (`--home DIR` takes a word), the verb, and the words after it."""
    at = 0
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] == "--home" else 1
    return words[:at], words[at] if at < len(words) else None, words[at + 1 :]


def _about(options: list[str]) -> int:
    """Run `watchdogd` without a verb: print the version, or the overview."""
    if "--version" in options:
        from watchdogd import __version__

        print(f"watchdogd {__version__}")
        return 0
    unknown = [option for option in options if option not in ("-h", "--help")]
    if unknown:
        raise UsageError(f"'{unknown[0]}' needs a verb after it; see 'watchdogd --help'")
    print(_overview())
    return 0 if options else EX_USAGE


def _overview() -> str:
    """Return the page that `watchdogd --help` prints."""
    width = max(map(len, VERBS))
    lines = []
    for title, verbs in GROUPS.items():
        lines += ["", f"{title}:", *(f"  {verb:<{width}}  {help_}" for verb, (_, help_) in verbs.items())]
    return "\n".join(["usage: watchdogd [--home DIR] VERB ...", *lines, "", _EPILOG])


def parser_of(module: ModuleType, verb: str) -> argparse.ArgumentParser:
    """Return the parser for the words after the verb, with its module's options; it raises UsageError."""
    import argparse

    class Parser(argparse.ArgumentParser):
        """argparse, except that an error is a UsageError: one line, exit code 64."""

        def error(self, message: str) -> NoReturn:
            raise UsageError(f"{verb}: {message}; see 'watchdogd {verb} --help'")

    parser = Parser(
        prog=f"watchdogd {verb}",
        description=VERBS[verb][1],
        allow_abbrev=False,
        # argparse would import shutil to ask the terminal for its width
        formatter_class=lambda prog: argparse.HelpFormatter(prog, width=_width()),
    )

    class Homes(argparse.Action):
        """Action for --home: the last one counts; verbs that show several homes get all."""

        def __call__(
            self, _parser: object, found: argparse.Namespace, home: object, _as: object = None
        ) -> None:
            found.home, found.homes = home, [*found.homes, home]

    parser.set_defaults(verb=verb, homes=[])
    parser.add_argument(
        "--home", metavar="DIR", action=Homes, help="default: $WATCHDOGD_HOME, else ~/.watchdogd"
    )
    module.arguments(parser)
    return parser


def _width() -> int:
    """Return the columns for help: the terminal's, if there is one."""
    import os

    try:
        return min(_WIDTH, max(os.get_terminal_size(sys.stdout.fileno()).columns, 40))
    except (OSError, ValueError, AttributeError):
        return _WIDTH


def _is_shortage(error: Exception) -> bool:
    """Return True if memory ran out, which Python and the loader report in different ways."""
    return isinstance(error, MemoryError) or (
        isinstance(error, ImportError) and "failed to map segment" in str(error)
    )


def _complain(text: str) -> None:
    """Print one line on stderr, whatever the text contains; nothing if stderr is closed."""
    from watchdogd.cli.output import one_line

    try:
        print(f"watchdogd: {one_line(text)}", file=sys.stderr, flush=True)
    except OSError:
        return


def _os_sentence(error: OSError) -> str:
    """Return the system's reason, and the file if it names one."""
    reason = error.strerror or str(error) or type(error).__name__
    return f"{error.filename}: {reason}" if error.filename else reason


def _internal(error: Exception, words: list[str]) -> str:
    """Print one line for an internal error; its traceback goes to home/logs."""
    from watchdogd.cli.crash_log import record

    fault = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    before, verb, rest = _split(words)
    log = record(error, before + rest)
    where = f"send {log} with the report" if log else "say with the report what you did"
    return f"internal error in '{verb or 'watchdogd'}': {fault}. This is a bug: {where}"


def _is_broken_pipe(error: BaseException) -> bool:
    """Return True if the error only means that stdout's reader has left (`| head`).

    It may come as an error of the history, if rows are printed while they are read.
    """
    behind: BaseException | None = error
    while behind is not None and not isinstance(behind, BrokenPipeError):
        behind = behind.__cause__ or behind.__context__
    return behind is not None and _reader_left()


def _reader_left() -> bool:
    """Return True if the other end of stdout is closed, so that the broken pipe is not a database's."""
    import select

    poll = select.poll()
    try:
        poll.register(sys.stdout.fileno(), select.POLLOUT)
    except (OSError, ValueError, AttributeError):
        return False
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def _silence_stdout() -> None:
    """Discard what is still buffered for stdout, which nobody can read any more."""
    import os

    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _encode_anything() -> None:
    """Let streams escape characters that the terminal's encoding lacks instead of raising."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure:
            reconfigure(errors="backslashreplace")
