"""What the history costs: CPU per stored observation, size and speed after 90 days.

    python -m benchmarks.history [--days 90] [--checks 100] [--observations 2000] [--folder DIR]

Beside the recording stands a bare `sqlite3.executemany` of the same readings, with the same journal.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from watchdogd.history.models import Record
from watchdogd.history.retention import DAY, FIVES, RAW
from watchdogd.history.store import Store
from watchdogd.home.layout import Home
from watchdogd.incidents.models import AlertState, CheckState, Observation
from watchdogd.plugin import Metric, ok

START = 1_780_000_000.0
KEEP = 90 * 86400.0


def observations(count: int, at: float, noise: random.Random) -> tuple[Observation, ...]:
    """One round: every second check measures two things, the others one."""
    return tuple(
        Observation(
            f"run-{number}/log_staleness",
            f"run-{number}",
            f"run-{number}",
            ok(
                f"log written {noise.randrange(60)} s ago",
                **_metrics(number, noise),
            ),
            at,
        )
        for number in range(count)
    )


def _metrics(number: int, noise: random.Random) -> dict[str, Any]:
    age = {"age": Metric(noise.random() * 60, "s", 1200.0)}
    return age | {"size": Metric(noise.randrange(10**9), "B")} if number % 2 else age


def alerts(seen: tuple[Observation, ...], streak: int) -> AlertState:
    """The book after such a round: every standing is new, as it is after each round."""
    return AlertState(
        {
            (each.check, ""): CheckState(
                each.check,
                "",
                each.result.status,
                each.result.summary,
                each.at,
                START,
                streak,
                run=each.run,
                target=each.target,
            )
            for each in seen
        }
    )


def cpu(function: Callable[[], object]) -> float:
    """CPU seconds of one call."""
    begin = time.process_time()
    function()
    return time.process_time() - begin


@contextlib.contextmanager
def bare(path: Path) -> Iterator[sqlite3.Connection]:
    """The yardstick: one table, one executemany."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode=TRUNCATE")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE r (at INT, s INT, value REAL, PRIMARY KEY (at, s)) WITHOUT ROWID")
    yield connection
    connection.close()


def recording(folder: Path, count: int, turns: int = 15) -> None:
    """µs of CPU per observation, of each part in turn, and of a bare insert of the same readings."""
    noise = random.Random(1)
    names = ("bare sqlite3, readings alone", "observations", "+ check states and starts", "+ a memory each")
    spent: dict[str, list[float]] = {name: [] for name in names}
    stores = [Store.open(f"sqlite:///{number}.db", Home(folder)) for number in range(3)]
    with bare(folder / "bare.db") as connection:
        for turn in range(turns):
            at = START + 60 * turn
            seen = observations(count, at, noise)
            lean = Record(at, seen)
            judged = replace(lean, alerts=alerts(seen, turn), started={each.check: at for each in seen})
            whole = replace(
                judged, memories={each.check: json.dumps({"offset": turn, "seen": [at, at]}) for each in seen}
            )
            spent[names[0]].append(cpu(partial(_insert, connection, _rows(seen))))
            for name, store, record in zip(names[1:], stores, (lean, judged, whole), strict=True):
                spent[name].append(cpu(partial(store.record, record)))
    for store in stores:
        store.close()
    medians = {name: statistics.median(times[1:]) / count * 1e6 for name, times in spent.items()}
    for name, median in medians.items():
        print(f"record: {name:30} {median:6.1f} µs per observation, {median / medians[names[0]]:4.1f} ×")


def _rows(seen: tuple[Observation, ...]) -> list[tuple[int, int, float]]:
    return [
        (round(each.at * 1000), number * 2 + place, metric.value)
        for number, each in enumerate(seen)
        for place, metric in enumerate(each.result.metrics.values())
    ]


def _insert(connection: sqlite3.Connection, rows: list[tuple[int, int, float]]) -> None:
    connection.executemany("INSERT INTO r VALUES (?, ?, ?)", rows)
    connection.commit()


def grow(home: Home, days: int, checks: int) -> float:
    """A history of so many days up to now, thinned every day; its size in MB.

    One round a minute in the days of which that is kept. Before them only the rounds are made that leave
    the same rows: one in each five minutes while those are kept, two an hour before that.
    """
    noise = random.Random(2)
    store = Store.open("sqlite:///history.db", home)
    # Making results takes longer than storing them: a few rounds serve for all, with times of their own.
    rounds = [observations(checks, START, noise) for _ in range(20)]
    now = time.time()
    for age in range(days, 0, -1):
        at = now - age * DAY
        told = [
            Observation(each.check, each.run, each.target, each.result, at + 60 * minute)
            for minute in range(0, DAY // 60, _apart(age * DAY))
            for each in noise.choice(rounds)
        ]
        store.record(Record(at, tuple(told)))
        store.thin(at + DAY, KEEP)
    store.close()
    return home.history.stat().st_size / 1e6


def _apart(age: float) -> int:
    """Minutes between two rounds of such an age."""
    return 1 if age < RAW + DAY else 5 if age < FIVES + DAY else 30


def growth(folder: Path, days: int, checks: int) -> None:
    """Size and speed of such a history."""
    home = Home(folder)
    size = grow(home, days, checks)
    now = time.time()
    print(f"{days} days of {checks} results a minute: {size:.1f} MB")
    store = Store.open("sqlite:///history.db", home, owner=False)
    for name, look in (
        ("measures, 24 h", lambda: store.measures(since=now - 86400)),
        ("readings, 24 h", lambda: store.readings(since=now - 86400)),
        ("series of one check, 7 days", lambda: store.series("run-3/log_staleness", now - 7 * 86400)),
        ("series of one check, 90 days", lambda: store.series("run-3/log_staleness", now - KEEP)),
        ("past", store.past),
        ("incidents, open", lambda: store.incidents(open_only=True)),
    ):
        begin = time.perf_counter()
        found = look()
        took = (time.perf_counter() - begin) * 1000
        many = f", {len(found)} rows" if isinstance(found, list) else ""
        print(f"  {name:30} {took:8.1f} ms{many}")
    store.close()
    begin = time.perf_counter()
    Store.open("sqlite:///history.db", home).backup()
    print(f"  {'opened as owner, backed up':30} {(time.perf_counter() - begin) * 1000:8.1f} ms")


def main() -> None:
    """Print all of it."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--days", type=int, default=90)
    options.add_argument("--checks", type=int, default=100)
    options.add_argument("--observations", type=int, default=2000)
    options.add_argument("--folder", help="where to put the databases (default: $TMPDIR)")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
        recording(Path(folder), chosen.observations)
    with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
        growth(Path(folder), chosen.days, chosen.checks)


if __name__ == "__main__":
    main()
