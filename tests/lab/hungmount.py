"""A file system that does not answer: whoever looks into it waits in the kernel, also after kill -9.

Its server is a process of its own, which ends after some minutes whatever happens: were it in the tests', one
of them that looks into the file system could never be ended, nor all that waits for it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import struct
import subprocess
import sys
from pathlib import Path
from types import TracebackType

LIMIT = 300
"""Seconds that it hangs at most."""
_INIT = 26
_IN, _OUT = struct.Struct("<IIQQIIIHH"), struct.Struct("<IiQ")
_INIT_OUT = struct.Struct("<IIIIHHIIHHI28x")
"""Of linux/fuse.h: fuse_in_header, fuse_out_header, fuse_init_out; as root on a little-endian machine."""


class HungMount:
    """A FUSE file system at `place` whose server takes every request and answers none.

    A request that the server has read cannot be taken back: its caller sleeps uninterruptibly. One that is
    `silent` reads none, so that callers can be killed. At the end all callers get an error, and the file
    system is gone.
    """

    def __init__(self, place: Path, *, silent: bool = False) -> None:
        self._place = place
        self._words = [str(place), "silent" if silent else ""]

    def __enter__(self) -> HungMount:
        words = [sys.executable, __file__, *self._words]
        self._server = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._server.stdout
        if not self._server.stdout.readline():
            self._end()
            raise AssertionError("no file system was mounted: see above")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
        subprocess.run(["umount", "--lazy", str(self._place)], check=True, timeout=60)

    def wait_for_a_caller(self) -> None:
        """Wait until the server has read a request: from then on its caller cannot be killed."""
        assert self._server.stdout
        assert self._server.stdout.readline()

    def _end(self) -> None:
        self._server.kill()
        self._server.communicate(timeout=60)


def _mount(place: str, more: str) -> int:
    server = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
    options = f"fd={server},rootmode=40000,user_id=0,group_id=0{more}".encode()
    mount = ctypes.CDLL(None, use_errno=True).mount
    if mount(b"fuse", os.fsencode(place), b"fuse", 0, options):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), place)
    return server


def _serve(server: int) -> None:
    """Take what comes, and say so, until whoever started this is gone."""
    os.set_blocking(sys.stdout.fileno(), False)
    while sys.stdin.fileno() not in select.select([server, sys.stdin.fileno()], [], [])[0]:
        try:
            request = os.read(server, 2**17)
        except BlockingIOError:
            continue
        _length, opcode, unique, *_rest = _IN.unpack_from(request)
        if opcode == _INIT:
            answer = _INIT_OUT.pack(7, 23, 65536, 0, 12, 9, 4096, 1, 0, 0, 0)
            os.write(server, _OUT.pack(_OUT.size + len(answer), 0, unique) + answer)
        else:
            with contextlib.suppress(BlockingIOError):  # nobody asks for them
                os.write(sys.stdout.fileno(), b"read\n")


def main(place: str, silent: str) -> None:
    """Mount it, say so, and serve it."""
    signal.alarm(LIMIT)
    server = _mount(place, "" if silent else ",allow_other")
    print("mounted", flush=True)
    if silent:
        sys.stdin.read()
    else:
        _serve(server)


if __name__ == "__main__":
    main(*sys.argv[1:])
