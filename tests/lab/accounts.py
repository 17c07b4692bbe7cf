"""The users of the cluster: real ones, shared by all runs of the tests on this machine."""

import grp
import pwd
import subprocess
from pathlib import Path

from tests.lab import processes

USERS = ("alice", "bob")
GROUP = "six"
MARK = "made by the tests of watchdogd"  # the comment of a user whom these tests made
GROUP_MARK = "!made-by-the-tests-of-watchdogd"  # in place of the group's password: "!" is none, a mark it is


def ensure() -> None:
    """Makes the users and their group where they are missing; what was there before is kept at the end."""
    if not _group_exists():
        _run("groupadd", "--password", GROUP_MARK, GROUP)
    for user in USERS:
        if not exists(user):
            _run("useradd", "--create-home", "--shell", "/bin/bash", "--comment", MARK, user)
        if user not in grp.getgrnam(GROUP).gr_mem:
            _run("gpasswd", "--add", user, GROUP)


def remove_made() -> None:
    """Removes those users that `ensure` made, with their processes and homes, and the group likewise."""
    for user in USERS:
        if exists(user) and pwd.getpwnam(user).pw_gecos == MARK:
            processes.end(processes.of_user(pwd.getpwnam(user).pw_uid))
            _run("userdel", "--remove", user)
    if f"\n{GROUP}:{GROUP_MARK}:" in f"\n{Path('/etc/gshadow').read_text()}":
        _run("groupdel", GROUP)


def exists(user: str) -> bool:
    """Whether the name service knows this user."""
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True


def _group_exists() -> bool:
    try:
        grp.getgrnam(GROUP)
    except KeyError:
        return False
    return True


def _run(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise AssertionError(f"{' '.join(argv)} ended with {done.returncode}: {done.stderr.strip()}")
