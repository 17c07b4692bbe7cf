"""Schema of the history: tables, the revision of a database, and its upgrade.

Tables of measurements have millions of rows, so these are narrow: times of readings and changes are whole
milliseconds since the epoch (six bytes in SQLite, a float takes eight); other times are seconds. `value`
columns hold JSON.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Float,
    Index,
    Integer,
    MetaData,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    inspect,
    text,
)

from watchdogd.errors import HistoryError

HEAD = "1"
"""Newest revision in migrations/versions, repeated here so that a start need not import Alembic."""
MIGRATIONS = Path(__file__).with_name("migrations")
_VERSION = """CREATE TABLE IF NOT EXISTS alembic_version (
    version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"""
"""Alembic's own table; importing Alembic would take most of the time of a first start."""


def revision(connection: Connection) -> str | None:
    """Return a database's revision; None for an empty one."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return found


def upgrade(connection: Connection) -> None:
    """Upgrade a database to HEAD in the current transaction.

    An empty one gets the tables below; migrations/versions are for older ones. HistoryError where an unknown
    version has written it.
    """
    present = revision(connection)
    if present is None:
        metadata.create_all(connection, checkfirst=False)
        connection.execute(text(_VERSION))
        connection.execute(text("INSERT INTO alembic_version VALUES (:head)"), {"head": HEAD})
        return
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if present not in known:
        raise HistoryError(
            f"history: another version of watchdogd wrote it (schema {present}, this one knows {HEAD}): "
            "use that version, or set [history] url to another file"
        )
    command.upgrade(config, "head")


metadata = MetaData()

subjects = Table(
    "subjects",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("check", Text, nullable=False),
    Column("run", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("status", SmallInteger, nullable=False),
    UniqueConstraint("check", "run", "target", "subject", name="uq_subjects"),
)
"""Subjects of results, with their last status, from which a change differs."""

series = Table(
    "series",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("subject_id", Integer, nullable=False),
    Column("metric", Text, nullable=False),
    Column("unit", Text, nullable=False),
    UniqueConstraint("subject_id", "metric", "unit", name="uq_series"),
)

# In order of time, not of series: a round appends to one or two pages. By series it would rewrite (and
# journal) a page for each: 24 MB a round for 3,000 series, on a file system across a network.
readings = Table(
    "readings",
    metadata,
    Column("at", BigInteger, primary_key=True),
    Column("series_id", Integer, primary_key=True),
    Column("value", Float),
    sqlite_with_rowid=False,
)


def _folded(name: str) -> Table:
    """Return a table whose rows aggregate many readings.

    It is rarely written and read by series, hence in order of series. `slot`: number since the epoch;
    `offset`: mean of the readings' seconds in it, so that a lone reading keeps its time.
    """
    return Table(
        name,
        metadata,
        Column("series_id", Integer, primary_key=True),
        Column("slot", Integer, primary_key=True),
        Column("offset", SmallInteger, nullable=False),
        Column("low", Float),
        Column("mean", Float),
        Column("high", Float),
        Column("count", Integer, nullable=False),
        sqlite_with_rowid=False,
    )


fives = _folded("fives")
hours = _folded("hours")

changes = Table(
    "changes",
    metadata,
    Column("at", BigInteger, primary_key=True),
    Column("subject_id", Integer, primary_key=True),
    Column("status", SmallInteger, nullable=False),
    Column("summary", Text, nullable=False),
    sqlite_with_rowid=False,
)

incidents = Table(
    "incidents",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("check", Text, nullable=False),
    Column("run", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("status", SmallInteger, nullable=False),
    Column("state", Text, nullable=False),
    Column("opened_at", Float, nullable=False),
    Column("resolved_at", Float),
    Column("summary", Text, nullable=False),
    Column("details", Text, nullable=False),
    Column("value", Text, nullable=False),
)

check_states = Table(
    "check_states",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("check", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("incident", Integer),
    Column("value", Text, nullable=False),
)
"""`value`: the state without its incident and without the columns of `pulses`."""

pulses = Table(
    "pulses",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("at", Float, nullable=False),
    Column("streak", Integer, nullable=False),
    Column("summary", Text, nullable=False),
)
"""Parts of a check state that every result changes: most rounds write only these few bytes."""

events = Table(
    "events",
    metadata,
    Column("at", BigInteger, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("check", Text, primary_key=True),
    Column("summary", Text, primary_key=True),
    Column("incident", Integer, primary_key=True, autoincrement=False),
    Column("run", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("quiet", Boolean(create_constraint=False), nullable=False),
    sqlite_with_rowid=False,
)
"""`incident` is 0 for a notice."""

notifications = Table(
    "notifications",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("key", Text, nullable=False),
    Column("channel", Text, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("state", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("next_try", Float, nullable=False),
    Column("sent_at", Float),
    Column("failure", Text, nullable=False),
    Column("receipt", Text, nullable=False),
    Column("message", Text, nullable=False),
    UniqueConstraint("key", name="uq_notifications_key"),
    Index("ix_notifications_state", "state"),
)

memories = Table(
    "memories",
    metadata,
    Column("check", Text, primary_key=True),
    Column("value", Text, nullable=False),
    sqlite_with_rowid=False,
)

starts = Table(
    "starts",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("check", Text, nullable=False),
    Column("at", Float, nullable=False),
)

gaps = Table(
    "gaps",
    metadata,
    Column("begin", Float, primary_key=True),
    Column("end", Float, primary_key=True),
    Column("reason", Text, nullable=False),
    sqlite_with_rowid=False,
)

touches = Table(
    "touches",
    metadata,
    Column("at", BigInteger, primary_key=True),
    Column("line", Text, primary_key=True),
    sqlite_with_rowid=False,
)

facts = Table(
    "facts",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
    sqlite_with_rowid=False,
)
"""Single values: `last_round`, `silences`, `pending_recoveries`, `next_id`, `thinned`."""
