"""TCP ports that are one's own, also beside another run of the tests."""

import socket


def reserve_port() -> socket.socket:
    """A socket bound to a free port of 127.0.0.1 that never listens.

    While it is open the kernel gives this port to nobody who asks for "any"; a server that sets
    SO_REUSEADDR, as all of ours do, can listen on it and come back to it; and while none listens, a
    connection is refused.
    """
    holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    return holder


def port_of(holder: socket.socket) -> int:
    """The number of a reserved port."""
    port: int = holder.getsockname()[1]
    return port


def answers(port: int) -> bool:
    """Whether somebody listens on that port of 127.0.0.1."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as caller:
        caller.settimeout(1.0)
        return caller.connect_ex(("127.0.0.1", port)) == 0
