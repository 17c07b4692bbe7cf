"""What a server does with its next clients: in turn, or standing."""

import threading
from collections import deque
from collections.abc import Sequence
from typing import Generic, TypeVar

B = TypeVar("B")


class Behaviours(Generic[B]):
    """A queue of behaviours before a standing one; safe between threads."""

    def __init__(self, normal: B) -> None:
        self._normal = normal
        self._standing = normal
        self._queue: deque[B] = deque()
        self._lock = threading.Lock()

    def set(self, wish: B | Sequence[B]) -> None:
        """One behaviour stands until the next call; a list is used up one a client, then all is normal."""
        with self._lock:
            if isinstance(wish, Sequence):
                self._queue, self._standing = deque(wish), self._normal
            else:
                self._queue, self._standing = deque(), wish

    def next(self) -> B:
        """The behaviour for the client that has just come."""
        with self._lock:
            return self._queue.popleft() if self._queue else self._standing
