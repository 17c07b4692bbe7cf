"""The first schema."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make all tables."""
    _measured()
    _decided()
    _said()
    _remembered()


def _measured() -> None:
    op.create_table(
        "subjects",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("check", sa.Text, nullable=False),
        sa.Column("run", sa.Text, nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("status", sa.SmallInteger, nullable=False),
        sa.UniqueConstraint("check", "run", "target", "subject", name="uq_subjects"),
    )
    op.create_table(
        "series",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("subject_id", sa.Integer, nullable=False),
        sa.Column("metric", sa.Text, nullable=False),
        sa.Column("unit", sa.Text, nullable=False),
        sa.UniqueConstraint("subject_id", "metric", "unit", name="uq_series"),
    )
    op.create_table(
        "readings",
        sa.Column("at", sa.BigInteger, primary_key=True),
        sa.Column("series_id", sa.Integer, primary_key=True),
        sa.Column("value", sa.Float),
        sqlite_with_rowid=False,
    )
    for name in ("fives", "hours"):
        op.create_table(
            name,
            sa.Column("series_id", sa.Integer, primary_key=True),
            sa.Column("slot", sa.Integer, primary_key=True),
            sa.Column("offset", sa.SmallInteger, nullable=False),
            sa.Column("low", sa.Float),
            sa.Column("mean", sa.Float),
            sa.Column("high", sa.Float),
            sa.Column("count", sa.Integer, nullable=False),
            sqlite_with_rowid=False,
        )
    op.create_table(
        "changes",
        sa.Column("at", sa.BigInteger, primary_key=True),
        sa.Column("subject_id", sa.Integer, primary_key=True),
        sa.Column("status", sa.SmallInteger, nullable=False),
        sa.Column("summary", sa.Text, nullable=False),
        sqlite_with_rowid=False,
    )


def _decided() -> None:
    op.create_table(
        "incidents",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("check", sa.Text, nullable=False),
        sa.Column("run", sa.Text, nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("status", sa.SmallInteger, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("opened_at", sa.Float, nullable=False),
        sa.Column("resolved_at", sa.Float),
        sa.Column("summary", sa.Text, nullable=False),
        sa.Column("details", sa.Text, nullable=False),
        sa.Column("value", sa.Text, nullable=False),
    )
    op.create_table(
        "standings",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("check", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("incident", sa.Integer),
        sa.Column("value", sa.Text, nullable=False),
    )
    op.create_table(
        "pulses",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("streak", sa.Integer, nullable=False),
        sa.Column("summary", sa.Text, nullable=False),
    )
    op.create_table(
        "events",
        sa.Column("at", sa.BigInteger, primary_key=True),
        sa.Column("kind", sa.Text, primary_key=True),
        sa.Column("check", sa.Text, primary_key=True),
        sa.Column("summary", sa.Text, primary_key=True),
        sa.Column("incident", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("run", sa.Text, nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("quiet", sa.Boolean(create_constraint=False), nullable=False),
        sqlite_with_rowid=False,
    )


def _said() -> None:
    op.create_table(
        "notifications",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("channel", sa.Text, nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("next_try", sa.Float, nullable=False),
        sa.Column("sent_at", sa.Float),
        sa.Column("failure", sa.Text, nullable=False),
        sa.Column("receipt", sa.Text, nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.UniqueConstraint("key", name="uq_notifications_key"),
    )
    op.create_index("ix_notifications_state", "notifications", ["state"])


def _remembered() -> None:
    op.create_table(
        "memories",
        sa.Column("check", sa.Text, primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "starts",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("check", sa.Text, nullable=False),
        sa.Column("at", sa.Float, nullable=False),
    )
    op.create_table(
        "gaps",
        sa.Column("begin", sa.Float, primary_key=True),
        sa.Column("end", sa.Float, primary_key=True),
        sa.Column("reason", sa.Text, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "touches",
        sa.Column("at", sa.BigInteger, primary_key=True),
        sa.Column("line", sa.Text, primary_key=True),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "facts",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
        sqlite_with_rowid=False,
    )
