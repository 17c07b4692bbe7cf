"""A server that never ends: it says one byte now and then, so that no read of its client ever times out."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def dripping(beginning: bytes, drop: bytes) -> Iterator[int]:
    """Listens on the port it gives, says `beginning`, then `drop` every 50 ms, until the block ends."""
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.1)
        thread = threading.Thread(target=_serve, args=(listener, beginning, drop, ended))
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            ended.set()
            thread.join(240)


def _serve(listener: socket.socket, beginning: bytes, drop: bytes, ended: threading.Event) -> None:
    while not ended.is_set():
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            continue
        with connection:
            try:
                connection.sendall(beginning)
                while not ended.wait(0.05):
                    connection.sendall(drop)
            except OSError:
                continue  # its client went away
