"""The machine on which alice and bob work."""

from collections.abc import Iterator

import pytest

from tests.lab.machine import Machine


@pytest.fixture(scope="session")
def machine() -> Iterator[Machine]:
    with Machine() as machine:
        yield machine
