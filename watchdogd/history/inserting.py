"""INSERT with ON CONFLICT, which each database has in a dialect of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlalchemy import Table


def insert(dialect: str, table: Table) -> Any:
    """An INSERT that takes `on_conflict_do_update`; `dialect` is `sqlite` or `postgresql`.

    Only that dialect is imported: a verb that looks something up waits for each.
    """
    if dialect == "sqlite":
        from sqlalchemy.dialects import sqlite

        return sqlite.insert(table)
    from sqlalchemy.dialects import postgresql

    return postgresql.insert(table)
