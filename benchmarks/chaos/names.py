"""A name service of a campaign's own: it answers for the channels' hosts, or refuses, hangs and fails."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import threading
from pathlib import Path
from typing import Self

PORT = 53
DOMAIN = "campaign.test"
HEADER = 12
NO_SUCH_NAME, SERVER_FAILED, REFUSED = 3, 2, 5
FAILING = {"knows nobody": NO_SUCH_NAME, "fails": SERVER_FAILED, "refuses": REFUSED}
LATE = 3.0
MOODS = (*FAILING, "is silent", "answers late")


class NameServer:
    """A context manager: `resolv.conf` of this mount namespace names it, until the namespace is gone."""

    def __init__(self, folder: Path) -> None:
        self._conf = folder / "resolv.conf"
        number = os.getpid() % 65536
        self._address = f"127.77.{number // 256}.{number % 256}"  # campaigns run side by side
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.mood = ""

    def __enter__(self) -> Self:
        self._socket.bind((self._address, PORT))
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()
        self._conf.write_text(f"nameserver {self._address}\n")
        subprocess.run(["mount", "--bind", self._conf, "/etc/resolv.conf"], check=True)
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(["umount", "--lazy", "/etc/resolv.conf"], check=False)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(b"", (self._address, PORT))
        self._thread.join(60)
        self._socket.close()

    def _serve(self) -> None:
        while True:
            question, asker = self._socket.recvfrom(4096)
            if not question:
                return
            if self.mood == "answers late":
                threading.Timer(LATE, self._socket.sendto, (answer(question), asker)).start()
            elif self.mood != "is silent":
                self._socket.sendto(answer(question, FAILING.get(self.mood, 0)), asker)


def answer(question: bytes, failure: int = 0) -> bytes:
    """Return the reply of RFC 1035 to one question: 127.0.0.1 for an address of IPv4, nothing else."""
    end = question.index(b"\0", HEADER) + 5
    asked = question[HEADER:end]
    found = not failure and asked[-4:] == b"\0\1\0\1"
    head = question[:2] + struct.pack(">5H", 0x8180 | failure, 1, int(found), 0, 0)
    record = b"\xc0\x0c\0\1\0\1" + struct.pack(">IH", 0, 4) + socket.inet_aton("127.0.0.1")
    return head + asked + (record if found else b"")
