"""Fixtures for the tests of notifications."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

Keep = Callable[[Any], Any]


@pytest.fixture
def keep() -> Iterator[Keep]:
    """Takes a sender, hands it back, and closes it after the test."""
    with ExitStack() as stack:

        def kept(sender: Any) -> Any:
            stack.enter_context(closing(sender))
            return sender

        yield kept
