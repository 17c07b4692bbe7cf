"""NCCL's RAS subsystem as its port behaves, with answers in the forms of its releases, written anew."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

HEAD = """NCCL version {version} compiled with CUDA 13.0
CUDA runtime version 13000, driver version 13000

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
{nodes:7d}  {per_node:9d}  {gpus:11d}  {size:9d}  {size:7d}

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0  {comms:8d}  {nodes:8d}  {per_node:8d}  {size:8d}  {size:8d}   RUNNING  {errors}

"""


def text(body: str = "", size: int = 4, errors: str = "MISMATCH", version: str = "2.28.9") -> str:
    """An answer in text; `body` are its sections Errors and Warnings."""
    head = HEAD.format(version=version, nodes=1, per_node=size, gpus=1, size=size, comms=1, errors=errors)
    return head + (body or "Errors\n======\n\nWarnings\n========\n\n")


def mismatch(lines: Sequence[str], kind: str = "AllReduce", name: str = "#0-0 (5bd01c0ffee5a1e0)") -> str:
    """The section of one communicator whose ranks have launched different numbers of operations."""
    said = f"{name} MISMATCH\n  Communicator ranks have different {kind} operation counts\n"
    return "Errors\n======\n\nWarnings\n========\n\n" + said + "".join(f"  {line}\n" for line in lines) + "\n"


def gpu(number: int, pid: int, node: str = "192.0.2.17") -> str:
    """How the text names a rank's place."""
    return f"GPU {number} managed by process {pid} on node {node}"


Says = Callable[[], str | None]
"""Its answer; None: it says nothing, as a process that is stopped."""


@dataclass
class FakeRas:
    """What it was told, and what it says."""

    says: Says
    address: str = ""
    heard: list[str] = field(default_factory=list)


@contextmanager
def serving(says: Says) -> Iterator[FakeRas]:
    """RAS on a free port of the loopback."""
    fake = FakeRas(says)
    ended = threading.Event()

    class Talk(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            for raw in self.rfile:
                line = raw.decode().strip()
                fake.heard.append(line)
                if line == "verbose status":
                    self.wfile.write((fake.says() or "").encode())
                    return
                if fake.says() is None:
                    ended.wait(60)
                    return
                known = line.startswith("timeout ")
                self.wfile.write(b"OK\n" if known else f"ERROR: Unknown command {line}\n".encode())

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        block_on_close = False

    with Server(("127.0.0.1", 0), Talk) as server:
        fake.address = f"127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield fake
        finally:
            ended.set()
            server.shutdown()
            thread.join(10)
