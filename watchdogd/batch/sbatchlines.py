"""Which of sbatch's options a batch script names itself: its `#SBATCH` lines, as sbatch(1) reads them."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_LETTERS = {"p": "partition", "A": "account", "o": "output", "D": "chdir", "J": "job-name"}
_LEAST = {"partition": 3, "account": 4, "output": 2, "chdir": 2, "job-name": 3}
"""The long options asked after, and the letters that an abbreviation of each has at least (getopt_long)."""


def named(script: str) -> frozenset[str]:
    """Of partition, account, output, chdir and job-name those that the script sets.

    sbatch stops at the first line that is neither empty nor a comment.
    """
    return frozenset(option for word in _words(script) for option in _option(word))


def _words(script: str) -> Iterator[str]:
    for line in script.splitlines():
        if line.strip() and not line.startswith("#"):
            return
        if line.startswith("#SBATCH"):
            yield from _split(line.removeprefix("#SBATCH"))


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text, comments=True)
    except ValueError:  # a quote that is not closed
        return text.split()


def _option(word: str) -> Iterator[str]:
    if word.startswith("--"):
        given = word[2:].partition("=")[0]
        for option, least in _LEAST.items():
            if len(given) >= least and option.startswith(given):
                yield option
    elif word.startswith("-") and word[1:2] in _LETTERS:
        yield _LETTERS[word[1]]
