"""NCCL's RAS subsystem as its port behaves, with answers in the forms of its releases, written anew."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

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


@dataclass(frozen=True)
class Rank:
    """A rank of a communicator in JSON; `counts` None: it does not answer."""

    rank: int
    counts: Mapping[str, int] | None
    pid: int
    host: str = "192.0.2.17"
    gpu: int = 0
    dead: bool = False

    def as_json(self) -> dict[str, Any]:
        said: dict[str, Any] = {"rank": self.rank, "host": self.host, "pid": self.pid}
        said |= {"cuda_dev": 0, "nvml_dev": self.gpu}
        if self.counts is None:
            return {**said, "status": {"unresponsive": True, "considered_dead": self.dead}}
        status = {"init_state": 0, "async_error": 0, "finalize_called": False, "abort_flag": False}
        return {**said, "status": status, "collective_counts": dict(self.counts)}


def document(*comms: Sequence[Rank], version: str = "2.29.1") -> str:
    """An answer as JSON, one list of ranks a communicator."""
    said = [
        {
            "hash": f"0x{0xA0 + number:x}",
            "secondary_hash": "0x1:0x2",
            "size": len(ranks),
            "ranks_count": sum(each.counts is not None for each in ranks),
            "missing_ranks_count": sum(each.counts is None for each in ranks),
            "ranks": [each.as_json() for each in ranks if each.counts is not None],
            "missing_ranks": [each.as_json() for each in ranks if each.counts is None],
        }
        for number, ranks in enumerate(comms)
    ]
    ras = {"collection_time_sec": 0.001, "timeouts_count": 0}
    whole = {"nccl_version": version, "cuda_runtime_version": 13000, "timestamp": "2026-11-29 08:00:00"}
    return json.dumps(
        {**whole, "communicators_count": len(said), "communicators": said, "ras": ras}, indent=2
    )


Says = Callable[[bool], str | None]
"""Whether JSON was asked for → the answer; None: it says nothing, as a process that is stopped."""


@dataclass
class FakeRas:
    """What it was told, and what it says: `json` False refuses the format, as releases before 2.28.7 do."""

    says: Says
    json: bool = True
    address: str = ""
    heard: list[str] = field(default_factory=list)


@contextmanager
def serving(says: Says, *, json: bool = True) -> Iterator[FakeRas]:
    """RAS on a free port of the loopback."""
    fake = FakeRas(says, json)
    ended = threading.Event()

    class Talk(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            wanted = False
            for raw in self.rfile:
                line = raw.decode().strip()
                fake.heard.append(line)
                if line == "verbose status":
                    self.wfile.write((fake.says(wanted) or "").encode())
                    return
                if fake.says(wanted) is None:
                    ended.wait(60)
                    return
                known = line.startswith("timeout ") or (line == "set format json" and fake.json)
                wanted = wanted or (line == "set format json" and fake.json)
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
