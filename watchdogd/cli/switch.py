"""kill-switch and save-switch: set, show, clear, and wait until the run has obeyed."""

from __future__ import annotations

import sys

from watchdogd.cli.output import complain, explained, note, print_json, print_line
from watchdogd.config import switch_places
from watchdogd.errors import UsageError, WatchdogError
from watchdogd.home import switches
from watchdogd.home.switches import SwitchError
from watchdogd.system.pathname import home_folder

TYPE_CHECKING = False  # without importing typing: see watchdogd/cli/__init__.py
if TYPE_CHECKING:
    import argparse

    from watchdogd.home.switches import Switch
    from watchdogd.home.touchfile import Signature


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("runs", metavar="RUN", nargs="*", help="whose switch; several may be given")
    parser.add_argument("--all", action="store_true", help="of every run; asks first")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--show", action="store_true", help="who set it and why; exit 0 set, 1 not")
    what.add_argument("--clear", action="store_true", help="remove it")
    parser.add_argument("--reason", default="", metavar="TEXT", help="why, for the team and the log")
    parser.add_argument(
        "--wait",
        nargs="?",
        const="",
        metavar="DURATION",
        help="until the run obeyed, for so long at most (30m): its jobs left the queue, or the training "
        "removed the save switch",
    )
    parser.add_argument("--json", action="store_true", help="print the state as JSON")


def run(args: argparse.Namespace) -> int:
    """Set, show or clear; return 1 if a switch is not set (--show), failed, or was not obeyed in time."""
    home = home_folder(args.home)
    patience = _patience(args)
    names = _names(args, home)
    if not names:
        raise UsageError(f"{args.verb}: name a run, or --all")
    found, unknown = _find(args, home, names)
    if args.all and found and not args.show and not args.yes and not _agreed(args, found):
        return 1
    code = max([_act(args, found), *map(complain, unknown)])
    if patience is None or code or args.show or args.clear:
        return code
    from watchdogd.cli.switch_wait import wait

    return wait(home, found, patience)


def _patience(args: argparse.Namespace) -> float | None:
    """Return the seconds that --wait allows, or None. `--wait run-17` is --wait and a run."""
    if not args.wait:
        return None if args.wait is None else float("inf")
    from watchdogd.errors import UnitError
    from watchdogd.units import parse_duration

    try:
        return parse_duration(args.wait)
    except UnitError:
        args.runs.append(args.wait)
        return float("inf")


def _find(args: argparse.Namespace, home: str, names: list[str]) -> tuple[list[Switch], list[WatchdogError]]:
    """Return the switches of these runs, and errors for names that have none.

    In an emergency a typing error in one name must not keep other runs from being stopped.
    """
    found, unknown = [], []
    for name in dict.fromkeys(names):
        try:
            found.append(switch_places.find(home, name, args.verb.partition("-")[0]))
        except WatchdogError as error:
            unknown.append(error)
    return found, unknown


def _names(args: argparse.Namespace, home: str) -> list[str]:
    if not args.all:
        return list(args.runs)
    if args.runs:
        raise UsageError(f"{args.verb}: either name runs, or --all")
    names = _every(home)
    if not names:
        raise WatchdogError(f"no run is known in {home}: give it a [runs.NAME] in config.toml")
    return names


def _every(home: str) -> list[str]:
    """Return the runs of config.toml; if it is broken, those that the daemon knew before."""
    from watchdogd.config.loading import load
    from watchdogd.errors import ConfigError
    from watchdogd.home.layout import Home

    try:
        return sorted(load(Home.existing(home), pressing=True).runs)
    except ConfigError as error:
        note(f"{explained(error)}: these are the runs as they were")
        return switches.runs(home)


def _agreed(args: argparse.Namespace, found: list[Switch]) -> bool:
    """Return True if the user confirms it for all runs. Raise UsageError if there is no terminal."""
    action = "Clear" if args.clear else "Set"
    names = ", ".join(switch.run for switch in found)
    question = f"{action} the {found[0].name} of {len(found)} runs ({names})? [y/N] "
    if sys.stdin is None or not sys.stdin.isatty():
        raise UsageError(f"{args.verb}: --all asks first, and there is no terminal to ask on: say --yes too")
    print(question, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _act(args: argparse.Namespace, found: list[Switch]) -> int:
    """Set, clear or show each switch, even if one before failed; return the worst exit code."""
    state, code = [], 0
    for switch in found:
        try:
            touch, line, troubles = _one(args, switch)
        except WatchdogError as error:
            complain(error)
            code = 1
            continue
        code = max([code, *(complain(SwitchError(trouble)) for trouble in troubles)])
        if not line:
            continue
        code = max(code, 1 if args.show and touch is None else 0)
        if touch and not (args.show or troubles) and (unheard := switches.unpolled(switch)):
            note(unheard)
        state.append(_as_json(switch, touch))
        if not args.json:
            print_line(line)
    if args.json:
        print_json(state)
    return code


def _one(args: argparse.Namespace, switch: Switch) -> tuple[Signature | None, str, list[str]]:
    """Return who has set it now, the line to print (empty: nothing was done), and what went wrong."""
    what = f"{switch.name} of {switch.run}"
    if args.show:
        touch = switches.read(switch)
        return touch, f"{what} is set {touch}" if touch else f"{what} is not set", []
    mine = switches.my_signature(args.reason)
    if args.clear:
        before = switches.clear(switch, mine)
        return None, f"{what} is cleared; it was set {before}" if before else f"{what} was not set", []
    pressed = switches.press(switch, mine)
    before, troubles = pressed.before, [*pressed.failed, *switches.unseen_by(switch, pressed)]
    if pressed.made:
        return before or mine, f"{what} is set: {' and '.join(pressed.made)}", troubles
    return before, f"{what} was set already, {before}" if before else "", troubles


def _as_json(switch: Switch, touch: Signature | None) -> dict[str, object]:
    state = {"run": switch.run, "switch": switch.kind, "path": switch.path, "set": touch is not None}
    return state | {"places": list(switch.places)} | (touch.fields() if touch else {})
