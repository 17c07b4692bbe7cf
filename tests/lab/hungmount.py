"""A file system that does not answer: whoever looks into it waits in the kernel, also after kill -9."""

from __future__ import annotations

import ctypes
import os
import select
import struct
import subprocess
import threading
from pathlib import Path
from types import TracebackType

_INIT, _FORGET = 26, 2
_IN, _OUT = struct.Struct("<IIQQIIIHH"), struct.Struct("<IiQ")
_INIT_OUT = struct.Struct("<IIIIHHIIHHI28x")
"""Of linux/fuse.h: fuse_in_header, fuse_out_header, fuse_init_out; as root on a little-endian machine."""


class HungMount:
    """A FUSE file system at `place` whose server takes every request and answers none.

    A request that the server has read cannot be taken back: its caller sleeps uninterruptibly. At the end
    all callers get an error, and the file system is gone.
    """

    def __init__(self, place: Path) -> None:
        self._place = place
        self._ended = threading.Event()

    def __enter__(self) -> HungMount:
        self._server = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
        options = f"fd={self._server},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
        mount = ctypes.CDLL(None, use_errno=True).mount
        if mount(b"fuse", os.fsencode(self._place), b"fuse", 0, options):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(self._place))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join(240)
        os.close(self._server)
        subprocess.run(["umount", "--lazy", str(self._place)], check=True)

    def _serve(self) -> None:
        while not self._ended.is_set():
            if not select.select([self._server], [], [], 0.1)[0]:
                continue
            try:
                request = os.read(self._server, 2**17)
            except BlockingIOError:
                continue
            _length, opcode, unique, *_rest = _IN.unpack_from(request)
            if opcode == _INIT:
                answer = _INIT_OUT.pack(7, 23, 65536, 0, 12, 9, 4096, 1, 0, 0, 0)
                os.write(self._server, _OUT.pack(_OUT.size + len(answer), 0, unique) + answer)
