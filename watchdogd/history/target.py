"""Whom a question is about: a run, a disk or check by its short name, a check's full name; None: all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import or_

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Table


def about(table: Table, target: str | None) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions on a table with the columns run, target and check."""
    return (named(table, target),) if target is not None else ()


def named(table: Table, target: str) -> ColumnElement[bool]:
    """Return the condition that a row is about `target`."""
    return or_(table.c.run == target, table.c.target == target, table.c.check == target)
