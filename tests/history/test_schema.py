"""The migrations lead to the tables, from every revision; a newer schema is left alone."""

import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, text

from tests.history.values import NOW, new_home, opened, round_of
from watchdogd.errors import HistoryError
from watchdogd.history import schema
from watchdogd.history.schema import metadata
from watchdogd.home.layout import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return new_home(tmp_path)


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    engine = create_engine(f"sqlite:///{tmp_path}/bare.db")
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def scripts() -> ScriptDirectory:
    config = Config()
    config.set_main_option("script_location", str(schema.MIGRATIONS))
    return ScriptDirectory.from_config(config)


def test_the_head_is_known_by_heart() -> None:
    assert scripts().get_heads() == [schema.HEAD]


def test_an_empty_database_gets_the_tables_and_the_newest_revision(connection: Connection) -> None:
    schema.upgrade(connection)
    schema.upgrade(connection)
    assert schema.revision(connection) == schema.HEAD
    differences = compare_metadata(
        MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True}),
        metadata,
    )
    assert differences == []


def test_the_tables_are_made_to_the_letter(connection: Connection, tmp_path: Path) -> None:
    """`compare_metadata` sees no WITHOUT ROWID, on which size and speed hang."""
    schema.upgrade(connection)
    connection.commit()
    with closing(sqlite3.connect(tmp_path / "plain.db")) as plain:
        engine = create_engine(f"sqlite:///{tmp_path}/plain.db")
        metadata.create_all(engine)
        engine.dispose()
        query = "SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'alembic%' AND sql IS NOT NULL"
        wanted = {name: " ".join(sql.split()) for name, sql in plain.execute(query)}
    found = {name: " ".join(sql.split()) for name, sql in connection.execute(text(query))}
    assert found == wanted
    assert len(found) > 15


def test_a_first_start_and_one_at_the_head_need_no_alembic(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "alembic", None)
    opened(home).close()
    monkeypatch.setattr(schema, "upgrade", lambda *_: pytest.fail("migrated though it was at the head"))
    opened(home).close()


def test_an_older_history_is_brought_up_whole(home: Home) -> None:
    store = opened(home)
    store.record(round_of(NOW, lag=1))
    store.close()
    with closing(sqlite3.connect(home.history)) as raw:
        raw.execute("DROP TABLE alembic_version")  # as one that was never begun: its tables are in the way
        raw.commit()
    with pytest.raises(HistoryError, match="already exists"):
        opened(home)
    with closing(sqlite3.connect(home.history)) as raw:
        tables = {name for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        assert "alembic_version" not in tables  # what failed in the middle left nothing behind
        assert raw.execute("SELECT count(*) FROM readings").fetchone() == (1,)


def test_a_history_of_another_version_is_refused_and_left_as_it_is(home: Home) -> None:
    opened(home).close()
    with closing(sqlite3.connect(home.history)) as raw:
        raw.execute("UPDATE alembic_version SET version_num = '9999'")
        raw.commit()
    before = home.history.read_bytes()
    for owner in (True, False):
        with pytest.raises(HistoryError) as error:
            opened(home, owner=owner)
        assert "9999" in str(error.value)
        assert "\n" not in str(error.value)
        assert ("use that version" in str(error.value)) is owner
    assert home.history.read_bytes() == before
