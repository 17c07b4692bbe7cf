"""PostgreSQL as docs/history.md has an administrator set it up, with a real server."""

from __future__ import annotations

import os
import subprocess
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.docs.pages import FOLDER, steps, tables
from tests.history.values import new_home, opened

if TYPE_CHECKING:
    from tests.lab.postgres import Postgres

PAGE = FOLDER / "history.md"


def asked(server: Postgres, database: str, query: str) -> set[tuple[object, ...]]:
    """What the administrator is answered."""
    with psycopg.connect(f"host={server.folder} user=alice dbname={database}") as connection:
        return set(connection.execute(query.encode()).fetchall())


@pytest.mark.server
def test_the_page_of_the_history_can_be_followed(postgres: Postgres, tmp_path: Path) -> None:
    lines = [step.text for step in steps(PAGE) if step.text.startswith(("createuser ", "createdb "))]
    assert len(lines) == 2
    for line in lines:
        subprocess.run(
            ["bash", "-c", line],
            env={**os.environ, **postgres.env},
            input="correct horse\ncorrect horse\n",
            text=True,
            timeout=120,
            check=True,
            capture_output=True,
            start_new_session=True,  # else the password is asked for on the terminal
        )
    (url,) = (each["history"]["url"] for each in map(tomllib.loads, tables(PAGE)))
    store = opened(new_home(tmp_path, url=url.replace("db.example.org/", "/") + f"?host={postgres.folder}"))
    assert list(store.incidents()) == []
    store.close()
    owners = asked(postgres, "bloom_watch", "SELECT tableowner FROM pg_tables WHERE schemaname = 'public'")
    assert owners == {("watchdogd",)}
    query = "SELECT rolsuper, rolpassword IS NOT NULL FROM pg_authid WHERE rolname = 'watchdogd'"
    assert asked(postgres, "postgres", query) == {(False, True)}
