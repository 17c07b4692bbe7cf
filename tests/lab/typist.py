"""watchdogd as a cluster's people type it, forked from a process that has imported it: most of a verb's cost.

The server (`serve`) is root's, with the cluster's interpreter. What people start in place of `watchdogd` is a
client that imports nothing: it hands over its words, environment, folder, umask and streams, and ends as the
verb does, which is forked and becomes its user's. A client that is killed takes the verb along. Within a job,
and for what becomes another program, it is watchdogd itself.
"""

from __future__ import annotations

import ast
import atexit
import contextlib
import ctypes
import gc
import importlib
import os
import pwd
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Sequence
from typing import NoReturn

from watchdogd import cli

PRELOADED = (
    "alembic.command",
    "rich.table",
    "sqlalchemy.dialects.sqlite.pysqlite",
    "watchdogd.chain.live_links",
    "watchdogd.cli.lookup",
    "watchdogd.cli.status_screen",
    "watchdogd.daemon.status_file",
    "watchdogd.daemon.wiring",
    "watchdogd.history.store",
)
PR_SET_DUMPABLE = 4
CLIENT = """#!{python} -IS
import os, sys
from _socket import AF_UNIX, SCM_RIGHTS, SOCK_SEQPACKET, SOL_SOCKET, socket
if "SLURM_JOB_ID" in os.environ or {{"guard", "probe", "run"}} & {{*sys.argv}}:
    os.execv({real!r}, [{real!r}, *sys.argv[1:]])
umask = os.umask(0)
told = repr((sys.argv[1:], dict(os.environ), os.getcwd(), umask)).encode()
server = socket(AF_UNIX, SOCK_SEQPACKET)
server.connect({path!r})
server.sendmsg([told], [(SOL_SOCKET, SCM_RIGHTS, b"".join(n.to_bytes(4, sys.byteorder) for n in (0, 1, 2)))])
os._exit(int(server.recv(9) or b"70"))
"""
"""Of the modules it needs only those that are Python's own in C."""


def serve(path: str) -> None:
    """Fork for each client, for ever."""
    verbs = (f"watchdogd.cli.{module}" for module, _ in cli.VERBS.values())
    for name in {*verbs, *PRELOADED}:
        importlib.import_module(name)
    gc.freeze()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(f"{path}.coming")
    os.chmod(f"{path}.coming", 0o777)
    listener.listen(64)
    os.rename(f"{path}.coming", path)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those who attend
    while True:
        client, _ = listener.accept()
        if not os.fork():
            listener.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _attend(client)
        client.close()


def _attend(client: socket.socket) -> NoReturn:
    """One client: the verb in a process of its own, which ends with the client."""
    told, streams, _, _ = socket.recv_fds(client, 1 << 20, 3)
    _, uid, gid = struct.unpack("3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    if not (verb := os.fork()):
        client.close()
        _become(uid, gid, streams)
        _run(*ast.literal_eval(told.decode()))
    for each in streams:
        os.close(each)
    over = os.pidfd_open(verb)
    if over not in select.select([over, client.fileno()], [], [])[0]:
        for kill in (os.kill, os.killpg):
            with contextlib.suppress(ProcessLookupError):
                kill(verb, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(verb, 0)[1])
    with contextlib.suppress(OSError):
        client.send(b"%d" % (code if code >= 0 else 128 - code))
    os._exit(0)


def _become(uid: int, gid: int, streams: Sequence[int]) -> None:
    """A session of the user's, with the client's streams."""
    os.setsid()
    groups = os.getgrouplist(pwd.getpwuid(uid).pw_name, gid)
    os.setgroups(groups)
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1)  # else its /proc stays root's
    for number, each in enumerate(streams):
        os.dup2(each, number)
        os.close(each)


def _run(words: list[str], env: dict[str, str], folder: str, umask: int) -> NoReturn:
    """The verb, as if Python had come up for it."""
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    os.chdir(folder)
    os.umask(umask)
    sys.argv[:] = ["watchdogd", *words]
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", errors="backslashreplace", closefd=False)
    code = cli.main()
    atexit._run_exitfuncs()
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    serve(sys.argv[1])
