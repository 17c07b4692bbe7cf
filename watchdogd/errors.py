"""Errors of watchdogd, as a tree.

Every message is one line that says what to do; nobody sees a traceback.

WatchdogError                exit 1
├── UsageError               exit 64: the command line was wrong
├── ConfigError              exit 78: config.toml is broken; UnknownKeyError where it has a key too many
├── HomeError                home is missing, unsafe or cannot be used
├── HistoryError             the history cannot be read or written; NoHistoryError where there is none yet
├── UnitError                exit 64: a duration or a size that cannot be read (also a ValueError)
├── PluginError              a plugin is misspelt or cannot be loaded
├── UnreadableError          a tool said something that no reader understands
├── SlurmError               Slurm refused; SlurmSilentError where it did not answer, SlurmOddError
│                            where its answer made no sense, NoClusterError where none is set up
├── StalledError             exit 70: the daemon could go on, but does nothing any more
└── DeliveryError            a channel failed; `permanent` says whether trying again is of any use;
                             PartlyDeliveredError where some recipients have it
"""

from __future__ import annotations

EX_USAGE = 64
EX_SOFTWARE = 70
EX_CONFIG = 78


class Problem(str):
    """A line on what is wrong, `what: fix`, with both of them apart; empty where nothing is wrong.

    `fix` is a command to type, or (not `typed`) what to change; empty where nothing is known to do.
    """

    what: str
    fix: str
    typed: bool

    def __new__(cls, what: str = "", fix: str = "", *, typed: bool = True) -> Problem:
        """Return the line made of its two halves."""
        line = super().__new__(cls, f"{what}: {fix}" if fix else what)
        line.what, line.fix, line.typed = what, fix, typed
        return line

    def about(self, thing: str) -> Problem:
        """Return the same, with what it is about before it."""
        return Problem(f"{thing}{self.what}", self.fix, typed=self.typed)


class WatchdogError(Exception):
    """The root: its text is shown as it stands, after `watchdogd: `.

    `what` is wrong, and its `fix`, are the two halves of the text; where it came as one, `fix` is empty.
    """

    exit_code = 1

    def __init__(self, what: str = "", *, fix: str = "") -> None:
        super().__init__(str(Problem(what, fix)))
        self.what, self.fix = what, fix


class UsageError(WatchdogError):
    """The command line was wrong."""

    exit_code = EX_USAGE


class ConfigError(WatchdogError):
    """config.toml, or a file it names, is broken: the text names file, key, what is wrong and the fix.

    `line`: the line of config.toml, counted from 1; 0 if it is not known, or the text names it.
    """

    exit_code = EX_CONFIG
    line = 0


class UnknownKeyError(ConfigError):
    """config.toml has a key that its table does not know. The text is `found` with the `nearest` known key.

    `hint` is what was meant, `where` the path of the table, `known` its keys: whoever knows the plugins says
    by these where the key belongs (`daemon/misplaced_keys`).
    """

    def __init__(self, found: str, nearest: str, where: list[str], key: str, known: list[str]) -> None:
        super().__init__(found + nearest)
        self.found = found
        self.hint = nearest
        self.where = where
        self.key = key
        self.known = known


class HomeError(WatchdogError):
    """Home is missing, belongs to others, or cannot be read or written."""


class HistoryError(WatchdogError):
    """The history cannot be read or written just now."""


class NoHistoryError(HistoryError):
    """There is no history yet: nothing was ever started here."""


class UnitError(WatchdogError, ValueError):
    """A duration or size that cannot be read; in config.toml it becomes a ConfigError."""

    exit_code = EX_USAGE


class PluginError(WatchdogError):
    """A plugin is misspelt, has a parameter that cannot be configured, or cannot be loaded."""


class UnreadableError(WatchdogError):
    """A tool's output that no reader understands; carries the offending line."""


class SlurmError(WatchdogError):
    """Slurm answered, and said no."""


class SlurmSilentError(SlurmError):
    """Slurm did not answer in time, or its answer made no sense: nothing is known."""


class NoClusterError(SlurmSilentError):
    """Slurm's commands are installed, and no cluster is set up behind them."""


class StalledError(WatchdogError):
    """The daemon's rounds come about no more: it ends, so that another can be started in its place."""

    exit_code = EX_SOFTWARE


class SlurmOddError(SlurmSilentError):
    """Slurm's command said yes, and nothing that can be understood: something may have been done."""


class DeliveryError(WatchdogError):
    """A message could not be handed over.

    `permanent`: trying again is of no use (revoked hook, unknown address). `retry_after`: seconds that
    the server asked us to wait, or None.
    """

    def __init__(
        self, text: str, *, permanent: bool = False, retry_after: float | None = None, fix: str = ""
    ) -> None:
        super().__init__(text, fix=fix)
        self.permanent = permanent
        self.retry_after = retry_after


class PartlyDeliveredError(DeliveryError):
    """Some have it. `receipt` says who, so that another try goes to the rest alone.

    `permanent`: the rest will never take it, so that nothing is left to try.
    """

    def __init__(
        self, text: str, *, receipt: str, permanent: bool = False, retry_after: float | None = None
    ) -> None:
        super().__init__(text, permanent=permanent, retry_after=retry_after)
        self.receipt = receipt
