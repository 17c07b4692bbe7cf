"""The schema: whether a database has the present one, and the way to it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import inspect, text

from watchdogd.errors import HistoryError

if TYPE_CHECKING:
    from sqlalchemy import Connection

HEAD = "0001"
"""The newest revision in migrations/versions. Known by heart, so that a start need not import Alembic."""
MIGRATIONS = Path(__file__).with_name("migrations")


def revision(connection: Connection) -> str | None:
    """Return the revision that a database has; None for an empty one."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return found


def upgrade(connection: Connection, target: str = "head") -> None:
    """Bring a database to `target` within the transaction at hand: all the way, or not at all.

    HistoryError where a newer watchdogd has written it.
    """
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    present = revision(connection)
    if present is not None and present not in known:
        raise HistoryError(
            f"history: a newer watchdogd has written it (schema {present}, this one knows {HEAD}): "
            "upgrade watchdogd, or set [history] url to another file"
        )
    command.upgrade(config, target)
