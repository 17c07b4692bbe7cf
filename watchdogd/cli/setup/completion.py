"""`watchdogd completion SHELL`: a script that completes verbs, options and runs without calling us at Tab."""

from __future__ import annotations

import argparse
import importlib
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from watchdogd import cli


@dataclass(frozen=True, slots=True)
class Option:
    """An option with all its names; `value` is what it takes, `choices` the allowed values."""

    names: tuple[str, ...]
    value: str
    help: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Positional:
    """A positional argument of the verb: `RUN`, `NAME...`."""

    name: str
    help: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb. `usage` is its usage line without `usage:`."""

    name: str
    help: str
    usage: str
    options: tuple[Option, ...]
    places: tuple[Positional, ...]

    @property
    def about_a_run(self) -> bool:
        """True if its argument names a run, or something else that is watched."""
        return any(place.name in ("RUN", "TARGET", "NAME") for place in self.places)


def all_verbs() -> tuple[Verb, ...]:
    """Return all verbs, in the order of `watchdogd --help`. Imports every verb's module."""
    return tuple(_verb(name, module, help_) for name, (module, help_) in cli.VERBS.items())


def _verb(name: str, module: str, help_: str) -> Verb:
    parser = cli.parser_of(importlib.import_module(f"watchdogd.cli.{module}"), name)
    usage = " ".join(parser.format_usage().removeprefix("usage: ").split())
    actions: Sequence[argparse.Action] = parser._actions  # argparse has no other way to list them
    options = tuple(_option(each) for each in actions if each.option_strings)
    places = tuple(
        Positional(_metavar(each), _help(each), _choices(each)) for each in actions if not each.option_strings
    )
    return Verb(name, help_, usage, options, places)


def _option(action: argparse.Action) -> Option:
    value = "" if action.nargs == 0 else _metavar(action)
    return Option(tuple(action.option_strings), value, _help(action), _choices(action))


def _metavar(action: argparse.Action) -> str:
    shown = action.metavar or action.dest.upper()
    return shown if isinstance(shown, str) else " ".join(shown)


def _help(action: argparse.Action) -> str:
    return "" if action.help in (None, argparse.SUPPRESS) else str(action.help).replace("%%", "%")


def _choices(action: argparse.Action) -> tuple[str, ...]:
    return tuple(map(str, action.choices or ()))


_INCIDENTS = """grep -o '"id": *[0-9]*' "$home/status.json" 2>/dev/null | grep -o '[0-9]*'"""
_JOBS = (
    """timeout 3 squeue --noheader --me --format='%i %j|%k' 2>/dev/null """
    """| sed -n '/|watchdogd:/!s/|.*//p' | tr ' ' '\\n'"""
)
"""Shell commands that list the numbers of open incidents, and ids and names of the user's live jobs, without
those of the chain and of drop-ins, which have our mark as their comment."""
_ASKED = {"ack": _INCIDENTS, "watch": _JOBS}
"""Verb → the command whose output completes its argument."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument(
        "shell",
        metavar="SHELL",
        choices=tuple(SHELLS),
        help='bash, zsh or fish; in ~/.bashrc: eval "$(watchdogd completion bash)"',
    )


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    print(SHELLS[args.shell](all_verbs()), end="")
    return 0


def bash(verbs: Sequence[Verb]) -> str:
    """Return the script for bash: `eval "$(watchdogd completion bash)"`."""
    cases = "\n".join(
        f"        {verb.name}) words={shlex.quote(' '.join(_words(verb)))}"
        f"{'; runs=1' if verb.about_a_run else ''}{_asked(verb)} ;;"
        for verb in verbs
    )
    every = shlex.quote(" ".join([*(verb.name for verb in verbs), "--home", "--help", "--version"]))
    return f"""\
_watchdogd() {{
    local cur="${{COMP_WORDS[COMP_CWORD]}}" prev="${{COMP_WORDS[COMP_CWORD-1]}}" verb= words= runs= i word
    local home="${{WATCHDOGD_HOME:-$HOME/.watchdogd}}" found=
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        case "${{COMP_WORDS[i]}}" in
        --home) home="${{COMP_WORDS[++i]}}" ;;
        -*) ;;
        *) verb="${{COMP_WORDS[i]}}"; break ;;
        esac
    done
    if [[ $prev == --home ]]; then
        COMPREPLY=($(compgen -d -- "$cur")); return
    fi
    home="${{home/#\\~/$HOME}}"
    case "$verb" in
        '') words={every} ;;
{cases}
    esac
    if [[ -n $runs || $prev == --run ]]; then
        found+=" $(cd "$home/switches" 2>/dev/null && printf '%s\\n' *.json)"
    fi
    while read -r word; do  # compgen would execute a name such as $(this)
        [[ $word == *[!A-Za-z0-9._~%-]* ]] || words+=" ${{word%.json}}"
    done <<< "$found"
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
}}
complete -o default -F _watchdogd watchdogd
"""


def zsh(verbs: Sequence[Verb]) -> str:
    """Return the script for zsh, after compinit: `eval "$(watchdogd completion zsh)"`."""
    listed = "\n".join(f"        {_described(verb.name, verb.help)}" for verb in verbs)
    cases = "\n".join(
        f"        {verb.name}) options=({' '.join(_zsh_options(verb))})"
        f"{'; runs=1' if verb.about_a_run else ''}{_asked(verb)} ;;"
        for verb in verbs
    )
    return f"""\
#compdef watchdogd
_watchdogd() {{
    local -a verbs options known
    local verb= runs= found= i home="${{WATCHDOGD_HOME:-$HOME/.watchdogd}}"
    verbs=(
{listed}
    )
    for ((i = 2; i < CURRENT; i++)); do
        case "$words[i]" in
        --home) ((i++)); home="$words[i]" ;;
        -*) ;;
        *) verb="$words[i]"; break ;;
        esac
    done
    home="${{home/#\\~/$HOME}}"
    case "$verb" in
        '') _describe verb verbs; return ;;
{cases}
    esac
    if [[ -n $runs || $words[CURRENT-1] == --run ]]; then
        known=($home/switches/*.json(N:t:r))
    fi
    known+=(${{(f)found}})
    (( $#known )) && compadd -a known
    (( $#options )) && _describe -o option options
    _files
}}
compdef _watchdogd watchdogd
"""


def fish(verbs: Sequence[Verb]) -> str:
    """Return the script for fish: `watchdogd completion fish | source`."""
    names = " ".join(verb.name for verb in verbs)
    lines = [
        "function __watchdogd_home",
        "    set -q WATCHDOGD_HOME; and echo $WATCHDOGD_HOME; or echo ~/.watchdogd",
        "end",
        "function __watchdogd_runs",
        "    for file in (__watchdogd_home)/switches/*.json",
        "        string replace -r '.*/(.*)\\.json$' '$1' $file",
        "    end",
        "end",
        *_fish_functions(),
        "complete -c watchdogd -l home -r -a '(__fish_complete_directories)' -d 'home'",
        f"complete -c watchdogd -f -n 'not __fish_seen_subcommand_from {names}' -l version",
    ]
    for verb in verbs:
        fresh, seen = f"not __fish_seen_subcommand_from {names}", f"__fish_seen_subcommand_from {verb.name}"
        lines.append(f"complete -c watchdogd -f -n '{fresh}' -a {verb.name} -d {_fish_quoted(verb.help)}")
        lines += [
            f"complete -c watchdogd -n '{seen}' {_fish_option(option)}"
            for option in verb.options
            if "--home" not in option.names
        ]
        lines += [
            f"complete -c watchdogd -f -n '{seen}' -a '{' '.join(place.choices)}'"
            for place in verb.places
            if place.choices
        ]
        if verb.about_a_run:
            lines.append(f"complete -c watchdogd -n '{seen}' -f -a '(__watchdogd_runs)'")
        if verb.name in _ASKED:
            lines.append(f"complete -c watchdogd -n '{seen}' -f -a '(__watchdogd_{verb.name})'")
    return "\n".join([*lines, ""])


def _asked(verb: Verb) -> str:
    """Return the shell code by which bash and zsh ask for this verb's arguments."""
    return f"; found=$({_ASKED[verb.name]} || :)" if verb.name in _ASKED else ""


def _fish_functions() -> Iterator[str]:
    for name, command in _ASKED.items():
        yield f"function __watchdogd_{name}"
        yield "    set -l home (__watchdogd_home)"
        yield f"    {command}"
        yield "end"


def _words(verb: Verb) -> Iterator[str]:
    """Yield what bash offers after a verb."""
    for place in verb.places:
        yield from place.choices
    for option in verb.options:
        yield from (name for name in option.names if name.startswith("--"))
        yield from option.choices


def _zsh_options(verb: Verb) -> Iterator[str]:
    for place in verb.places:
        yield from (_described(choice, place.help) for choice in place.choices)
    for option in verb.options:
        yield from (_described(name, option.help) for name in option.names if name.startswith("--"))


def _described(name: str, text: str) -> str:
    """Return `'name:text'`; a colon in the name is escaped."""
    return shlex.quote(f"{name}:{text}" if text else name)


def _fish_option(option: Option) -> str:
    words = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names]
    if option.value:
        known = "(__watchdogd_runs)" if option.value == "RUN" else " ".join(option.choices)
        words.append(f"-x -a '{known}'" if known else "-r")
    return " ".join([*words, f"-d {_fish_quoted(option.help)}"] if option.help else words)


def _fish_quoted(text: str) -> str:
    """Quote text for fish, which knows only two escapes in single quotes."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


SHELLS: dict[str, Callable[[Sequence[Verb]], str]] = {"bash": bash, "zsh": zsh, "fish": fish}
