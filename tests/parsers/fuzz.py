"""`make fuzz FUZZ="--minutes 60"`: all readers of foreign text under libFuzzer (atheris), guided by coverage.

    python -m tests.parsers.fuzz [--minutes M] [--corpus FOLDER] [WORD ...]

It begins with the readers' samples and the texts of CORPUS. A text over which a reader raises anything but
its own errors, or takes SLOW seconds or LARGE bytes, is printed and kept in FOLDER; then it exits with 1.
`WORD ...` chooses readers by words of their names. What is found goes, made short, to CORPUS, which
test_foreign.py reads.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

CORPUS = Path(__file__).with_name("corpus.jsonl")
"""A line a text: the reader's name, and what it is given."""
SLOW = 1.0
"""Seconds of the processor, under instruments that make a reader some ten times as slow."""
LARGE = 128 << 10
"""KiB by which the process may grow over one text."""
LONGEST = 8192
FINDS = "finds.jsonl"


def kept() -> list[tuple[str, str]]:
    """Return the texts of CORPUS."""
    return [tuple(json.loads(line)) for line in CORPUS.read_text().splitlines()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument(
        "--corpus", type=Path, default=None, help="kept for the next run; left out: a new one"
    )
    parser.add_argument("words", nargs="*", metavar="WORD")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = args.corpus or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        own = [sys.executable, "-c", "from tests.parsers.fuzz import fuzz; fuzz()"]
        subprocess.run([*own, str(args.minutes), str(folder), *args.words], check=False)
        finds = folder / FINDS
        print(finds.read_text() if finds.exists() else "nothing was found")
        return int(finds.exists())


def fuzz() -> None:
    """Run libFuzzer in this process, which ends with it."""
    import atheris

    with atheris.instrument_imports(include=["watchdogd"]):
        from tests.parsers.foreign import READERS
        from watchdogd.errors import WatchdogError

    minutes, folder, *words = sys.argv[1:]
    names = sorted(READERS)
    chosen = [name for name in names if not words or any(word in name for word in words)]
    found: set[str] = set()

    def try_one(data: bytes) -> None:
        name, text = (
            chosen[data[0] % len(chosen)] if data else chosen[0],
            data[1:].decode(errors="replace"),
        )
        began, size = time.process_time(), _size()
        why = ""
        try:
            READERS[name][0](text)
        except WatchdogError as error:
            why = "" if str(error) else "says nothing"
        except Exception as error:  # noqa: BLE001 - that is what is looked for
            why = f"{type(error).__name__} at {traceback.extract_tb(error.__traceback__)[-1]}"
        if (took := time.process_time() - began) > SLOW:
            why = why or f"took {took:.0f} s"
        if (grown := _size() - size) > LARGE:
            why = why or f"took {grown >> 10} MiB"
        key = f"{name}: {why.partition(', line')[0] if ' at ' in why else why[:8]}"
        if why and key not in found:
            found.add(key)
            with (Path(folder) / FINDS).open("a") as file:
                file.write(json.dumps([name, text, why]) + "\n")

    seeds = [(name, READERS[name][1]) for name in chosen] + [each for each in kept() if each[0] in chosen]
    for number, (name, text) in enumerate(seeds):
        data = bytes([chosen.index(name)]) + text.encode(errors="replace")
        (Path(folder) / f"seed-{number}").write_bytes(data[:LONGEST])
    options = [
        f"-max_total_time={float(minutes) * 60:.0f}",
        f"-max_len={LONGEST}",
        "-rss_limit_mb=4096",
        "-timeout=60",
    ]
    atheris.Setup([sys.argv[0], *options, folder], try_one)
    atheris.Fuzz()


def _size() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    sys.exit(main())
