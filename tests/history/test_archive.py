"""export and import: all of a history as text, and back, from either database to either."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import select

from tests.history.values import (
    NOW,
    alerts,
    incident,
    new_home,
    notification,
    opened,
    opening,
    seen,
    standing,
)
from tests.lab.postgres import Postgres
from watchdogd import cli
from watchdogd.errors import HistoryError
from watchdogd.history.models import Gap, Record
from watchdogd.history.schema import metadata
from watchdogd.history.store import Store
from watchdogd.home.layout import Home
from watchdogd.incidents.models import Observation
from watchdogd.plugin import Metric, Result, Status

DAY = 86_400.0


def filled(home: Home) -> Store:
    """Ten days with something in every table, names that are not ASCII, odd numbers and open incidents."""
    store = opened(home)
    for day in range(10):
        at = NOW - DAY * (10 - day)
        odd = {
            "größe": Metric(0.1 + day),
            "終": Metric(float("inf")),
            "nan": Metric(float("nan")),
            "1/3": Metric(1 / 3),
        }
        result = Result(Status.OK, "läuft", odd, subject="node\u2028 5|\t")
        store.record(Record(at, (Observation(f"läuft/{day % 3}", "läuft", "läuft", result, at),)))
    store.thin(NOW, 90 * DAY)
    store.record(
        Record(
            NOW,
            (seen(NOW, lag=12.0),),
            alerts=alerts(
                standing(about=incident(summary='Ωmega "quoted"\nline')), pending_recoveries=(incident(9),)
            ),
            events=(opening(),),
            notifications=(notification("a@mail"), notification("b@slack", state="sent", sent_at=NOW)),
            memories={"run-17/log_staleness": '{"offset":1200,"name":"Zürich 🐕"}'},
            started={"run-17/log_staleness": NOW - 1.125},
            gaps=(Gap(1.5, 2.5, "moved"),),
            touches=("alice pressed ☠",),
        )
    )
    return store


def rows(store: Store) -> dict[str, list[tuple[object, ...]]]:
    with store._database.transaction() as connection:
        return {
            table.name: [
                tuple(row) for row in connection.execute(select(table).order_by(*table.primary_key.columns))
            ]
            for table in metadata.sorted_tables
        }


def lines_of(store: Store) -> list[str]:
    said: list[str] = []
    store.export(said.append)
    return said


@pytest.fixture(
    params=[
        pytest.param("sqlite", marks=pytest.mark.server),
        pytest.param("postgresql", marks=pytest.mark.server),
    ]
)
def other(request: pytest.FixtureRequest, tmp_path: Path) -> Home:
    """An empty history to go over to."""
    server: Postgres = request.getfixturevalue("postgres")
    return new_home(tmp_path / "other", url="" if request.param == "sqlite" else server.url())


def test_all_of_a_history_goes_over_and_goes_on(home: Home, other: Home) -> None:
    old = filled(home)
    said = lines_of(old)
    new = opened(other)
    assert new.bring_in(said) == len(said) - 2
    assert all(rows(old).values()), "a table has nothing to lose"
    assert rows(new) == rows(old)
    assert lines_of(new) == said
    assert new.past() == old.past()
    for store in (old, new):  # what comes then gets the same numbers in both
        store.record(Record(NOW + 60, (seen(NOW + 60, new=1.0),), notifications=(notification("c@mail"),)))
    assert rows(new) == rows(old)
    old.close()
    new.close()


def test_each_line_is_json_by_the_letter_also_where_a_number_is_infinite(home: Home) -> None:
    store = filled(home)
    store.record(Record(NOW + 60, (seen(NOW + 60, up=float("inf"), down=float("-inf")),)))
    said = lines_of(store)
    store.close()

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    values = [json.loads(line, parse_constant=refuse).get("value") for line in said]
    assert {float("inf"), float("-inf")} <= {value for value in values if isinstance(value, float)}


def test_what_is_not_empty_is_left_as_it_is(home: Home) -> None:
    store = filled(home)
    said, before = lines_of(store), rows(store)
    with pytest.raises(HistoryError, match="not empty"):
        store.bring_in(said)
    assert rows(store) == before
    store.close()


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (lambda said: said[:-1], "cut off"),
        (lambda said: [*said[:-2], said[-1]], "damaged"),
        (lambda said: [*said, said[-1]], "damaged"),
        (lambda said: said[1:], "no file that"),
        (lambda said: [said[0], said[1][:-5], *said[2:]], "line 2 is no JSON"),
        (lambda said: [said[0].replace('"1"', '"0000"'), *said[1:]], "schema 0000"),
        (lambda said: [said[0], '{"table": "secrets", "id": 1}', said[-1]], "no table 'secrets'"),
        (lambda said: [said[0], '{"table": "facts", "name": "x"}', '{"rows": 1}'], "has not its columns"),
        (lambda said: [], "no file that"),
    ],
)
def test_a_file_that_is_not_whole_leaves_nothing_behind(
    tmp_path: Path, harm: Callable[[list[str]], list[str]], told: str
) -> None:
    old = filled(new_home(tmp_path / "old"))
    said = lines_of(old)
    old.close()
    new = opened(new_home(tmp_path / "new"))
    with pytest.raises(HistoryError, match=told) as error:
        new.bring_in(harm(said))
    assert "\n" not in str(error.value)
    assert not any(rows(new).values())
    assert new.bring_in(said) == len(said) - 2
    new.close()


def test_the_verbs_write_and_read_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = new_home(tmp_path / "old"), new_home(tmp_path / "new")
    filled(old).close()
    file = tmp_path / "all.jsonl"
    assert cli.main(["export", "--home", str(old.path), "-o", str(file)]) == 0
    assert cli.main(["import", "--home", str(new.path), str(file)]) == 0
    assert f"{len(file.read_text().splitlines()) - 2} rows" in capsys.readouterr().out
    assert cli.main(["export", "--home", str(new.path)]) == 0
    assert capsys.readouterr().out == file.read_text()
    assert cli.main(["import", "--home", str(new.path), str(file)]) == 1
    assert "not empty" in capsys.readouterr().err
    assert cli.main(["export", "--home", str(old.path), "--csv"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("time,run,check,subject,status,metric,value")
    assert sum("größe" in line for line in out) == 10
    assert json.loads(file.read_text().splitlines()[0])["archive"] == "watchdogd history"
    assert list(tmp_path.glob(".*")) == []


def test_import_says_what_is_wrong_with_its_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = new_home(tmp_path)
    (tmp_path / "picture").write_bytes(b"\x89PNG\xff\n")
    for name, expected in (("picture", "no text in UTF-8"), ("missing", "missing: No such file")):
        assert cli.main(["import", "--home", str(home.path), str(tmp_path / name)]) == 1
        told = capsys.readouterr().err
        assert expected in told
        assert len(told.splitlines()) == 1
