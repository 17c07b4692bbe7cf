"""A home whose history is a SQLite file, and the same with a real PostgreSQL server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.history.values import close_all, new_home, opened
from tests.lab.postgres import Postgres
from watchdogd.history.store import Store
from watchdogd.home.layout import Home

NewHome = Callable[..., Home]


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """One server for all tests of a run; each has a database of its own."""
    with Postgres() as server:
        yield server


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    close_all()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.server)])
def url(request: pytest.FixtureRequest) -> Callable[[], str]:
    """Each call is the URL of a history that is new."""
    if request.param == "sqlite":
        return lambda: ""
    server: Postgres = request.getfixturevalue("postgres")
    return server.url


@pytest.fixture
def home(tmp_path: Path, url: Callable[[], str]) -> Home:
    """A home, once with either database."""
    return new_home(tmp_path, url=url())


@pytest.fixture
def store(home: Home) -> Iterator[Store]:
    """Its history."""
    store = opened(home)
    yield store
    store.close()
