"""Queries to quota tools: which commands to run, for whom, and what their answers mean.

The parsers of the answers are pure and live in parsers/quota/; this module runs the commands.
"""

from __future__ import annotations

import errno
import grp
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from watchdogd.errors import UnreadableError
from watchdogd.parsers.quota import beegfs, gpfs, lfs_quota, site_tool, zfs_btrfs_ceph
from watchdogd.parsers.quota.models import StorageLimit
from watchdogd.parsers.quota.tool_output import ParsedOutput, ToolOutput
from watchdogd.plugins.disk_quota import du
from watchdogd.plugins.disk_quota.coverage import covering, is_device
from watchdogd.system.account import user_name
from watchdogd.system.command import Answer, ask
from watchdogd.system.mounts import Mount, mount_table, read_mounts

DEADLINE = 20.0
"""Seconds that one command may take; the commands of one source run in parallel."""
_BY_TYPE = {
    "lustre": "lustre",
    "gpfs": "gpfs",
    "beegfs": "beegfs",
    "beegfs_nodev": "beegfs",
    "fhgfs": "beegfs",
    "ceph": "cephfs",
    "fuse.ceph": "cephfs",
    "fuse.ceph-fuse": "cephfs",
    "nfs": "posix",
    "nfs4": "posix",
}
_LOCAL = frozenset({"ext2", "ext3", "ext4", "xfs", "f2fs"})
_GPFS_TOOLS = "/usr/lpp/mmfs/bin"
_FORBIDDEN = re.compile(r"not permitted|permission denied|no permission", re.IGNORECASE)
_NOT_ENABLED = re.compile(r"quotas? (?:is|are) not enabled|no quota management installed", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class QuotaPath:
    """Directory whose quotas are asked for, and the mount that it is on."""

    path: str
    mount: Mount
    now: float


@dataclass(frozen=True, slots=True)
class Quotas:
    """Answer of a source: limits, storage targets, and one line on what went wrong.

    `missing` says in one line which quota was asked for and not shown, while others were.
    """

    limits: tuple[StorageLimit, ...] = ()
    targets: tuple[lfs_quota.StorageTarget, ...] = ()
    trouble: str = ""
    missing: str = ""


def automatic(mount: Mount) -> str:
    """Return the source for a type of file system; `statvfs` if it has no quotas or no tool for them."""
    local = mount.type in _LOCAL and "quota" in mount.options
    source = _BY_TYPE.get(mount.type, "posix" if local else "statvfs")
    return "statvfs" if source == "posix" and not shutil.which("quota") else source


def ask_quotas(
    source: str | Mapping[str, Any], place: QuotaPath, counted: du.DuState | None = None
) -> Quotas:
    """Return all limits that apply at a path, from one source: a name, or a table of `command`, `pattern`.

    `counted` is the state of the background count, which is updated here; None: there was none so far.
    """
    if not isinstance(source, str):
        return _tool(source, place)
    if source == "du":
        limits, trouble = du.usage(place.path, counted or du.DuState(), place.now)
        return Quotas(limits, trouble=trouble)
    return _SOURCES[source](place) if source in _SOURCES else Quotas()


# One function for each source.


def _lustre(place: QuotaPath) -> Quotas:
    answer = ask(["lfs", "project", "-d", place.path], deadline=DEADLINE)
    if _hangs(answer):
        return Quotas(trouble=answer.trouble)
    project = lfs_quota.read_project(answer.output)
    whose = [("-u", user_name(os.getuid())), *(("-g", group) for group in _groups(place.path))]
    if project:
        whose.append(("-p", str(project)))
    commands = [["lfs", "quota", flag, name, place.path] for flag, name in whose]
    answers = _all([*commands, ["lfs", "df", place.path], ["lfs", "df", "-i", place.path]])
    quotas = _read(answers[:-2], lambda said: lfs_quota.read_limits(said, place.now))
    return replace(quotas, targets=tuple(dict.fromkeys((*_targets(answers[-2]), *_targets(answers[-1])))))


def _hangs(answer: Answer) -> bool:
    """Return True if a tool used up its time; it is not asked for anything else then."""
    return answer.silent and answer.seconds >= DEADLINE


def _targets(answer: Answer) -> tuple[lfs_quota.StorageTarget, ...]:
    """Return the storage targets, none if they cannot be read: quotas do not depend on them."""
    try:
        return tuple(lfs_quota.read_targets(answer.output))
    except UnreadableError:
        return ()


def _gpfs(place: QuotaPath) -> Quotas:
    device = os.path.basename(place.mount.source)
    answer = ask([gpfs_tool("mmlsattr"), "-L", place.path], deadline=DEADLINE)
    if _hangs(answer):
        return Quotas(trouble=answer.trouble)
    fileset = gpfs.read_fileset(answer.output)
    asked = [[], *(["-g", group] for group in _groups(place.path)), *([["-j", fileset]] if fileset else [])]
    commands = [[gpfs_tool("mmlsquota"), *whose, "-Y", device] for whose in asked]
    return _read(_all(commands), lambda said: gpfs.read_quotas(said, device, fileset))


def gpfs_tool(name: str) -> str:
    """Return the path of a GPFS command: on PATH, else in its usual folder."""
    return shutil.which(name) or os.path.join(_GPFS_TOOLS, name)


def _beegfs(place: QuotaPath) -> Quotas:
    if not shutil.which("beegfs-ctl") and shutil.which("beegfs"):
        words = ["quota", "list-usage", "--uids", "current", "--gids", "current", "--output", "ndjson"]
        return _read(_all([["beegfs", *words]]), beegfs.read_usage)
    whose = [("user", "--uid", user_name(os.getuid()))]
    whose += [("group", "--gid", group) for group in _groups(place.path)]
    mount = f"--mount={place.mount.point}"
    answers = _all([["beegfs-ctl", "--getquota", flag, name, mount, "--csv"] for _, flag, name in whose])
    found = [
        _read([answer], lambda said, kind=kind: beegfs.read_quotas(said, kind))  # type: ignore[misc]  # mypy cannot infer a lambda's default
        for answer, (kind, _, _) in zip(answers, whose, strict=True)
    ]
    return Quotas(
        tuple(limit for quotas in found for limit in quotas.limits),
        trouble=next((quotas.trouble for quotas in found if quotas.trouble), ""),
        missing=next((quotas.missing for quotas in found if quotas.missing), ""),
    )


def _posix(place: QuotaPath) -> Quotas:
    answers = _all([["quota", "-w", "-p", "-u"], ["quota", "-w", "-p", "-g"]])
    # It prints nothing at all where no file system has quotas.
    quotas = _read(answers, lambda said: lfs_quota.read_limits(said, place.now) if said.text.strip() else [])
    here = tuple(limit for limit in quotas.limits if is_device(limit.path, place.mount))
    failed = next((line for answer in answers for line in _failures(answer, place.mount)), "")
    return replace(quotas, limits=here, trouble=quotas.trouble or ("" if here else failed))


def _failures(answer: Answer, mount: Mount) -> list[str]:
    """Return what quota(1) could not query for this mount (any mount, if it printed nothing else)."""
    lines = [line.strip() for line in answer.errors.splitlines() if line.strip()]
    here = [line for line in lines if mount.source in line.split()]
    return here or [line for line in lines if not answer.output.strip() and "/" not in line]


def _cephfs(place: QuotaPath) -> Quotas:
    """Read the quotas of the directory and of all directories above it."""
    found: list[StorageLimit] = []
    path = os.path.realpath(place.path)
    try:
        while True:
            found += zfs_btrfs_ceph.ceph_limits(path, _attributes(path))
            if path in (place.mount.point, "/"):
                return Quotas(tuple(found))
            path = os.path.dirname(path)
    except (OSError, UnreadableError) as error:
        return Quotas(tuple(found), trouble=f"CephFS attributes of {path} cannot be read: {error}")


def _attributes(path: str) -> dict[str, bytes]:
    found = {}
    for name in zfs_btrfs_ceph.CEPH_ATTRIBUTES:
        try:
            found[name] = os.getxattr(path, name)
        except OSError as error:
            if error.errno != errno.ENODATA:
                raise
    return found


def _tool(source: Mapping[str, Any], place: QuotaPath) -> Quotas:
    """Read the output of a site's command, as far as it is about this disk's file system."""
    argv, pattern = [str(word) for word in source.get("command", ())], source.get("pattern")
    row, unit = source.get("row"), str(source.get("unit", ""))
    if not argv:
        return Quotas(trouble="write quota = { command = ['tool', 'argument'], pattern = '...' }")
    name = os.path.basename(argv[0])
    quotas = _read(_all([argv]), lambda said: site_tool.read(said, pattern, name, place.now, row, unit))
    quotas = replace(quotas, limits=tuple(replace(each, by_site=True) for each in quotas.limits))
    if row:
        return quotas  # a named row is this disk's by configuration
    paths = (place.path, os.path.realpath(place.path))
    mounts = read_mounts(mount_table())
    here = covering(quotas.limits, paths, place.mount, mounts, whole=not quotas.trouble)
    if quotas.limits and not here and not quotas.trouble:
        names = ", ".join(sorted({limit.path for limit in quotas.limits}))
        why = f"'{' '.join(argv)}' speaks of {names} and not of {place.mount.source} at {place.mount.point}"
        return Quotas(trouble=f"{why}: write a pattern for its row")
    return replace(quotas, limits=tuple(here))


_SOURCES: dict[str, Callable[[QuotaPath], Quotas]] = {
    "lustre": _lustre,
    "gpfs": _gpfs,
    "beegfs": _beegfs,
    "posix": _posix,
    "cephfs": _cephfs,
}


# Shared by the sources.


def _all(commands: Sequence[Sequence[str]]) -> list[Answer]:
    with ThreadPoolExecutor(max_workers=4) as pool:
        return list(pool.map(lambda argv: ask(argv, deadline=DEADLINE), commands))


def _read(answers: Sequence[Answer], reader: Callable[[ToolOutput], Sequence[StorageLimit]]) -> Quotas:
    """Merge the answers to several queries.

    A kind of quota that may not be read (a group's over NFS) is no problem if another kind was read; a kind
    for which no quota is shown is reported as missing then.
    """
    limits: list[StorageLimit] = []
    troubles: list[str] = []
    refused: list[str] = []
    bare: list[str] = []
    for answer in answers:
        found, trouble, words = _one(answer, reader)
        limits += found.limits
        bare += found.bare
        if trouble:
            (refused if _FORBIDDEN.search(words) else troubles).append(trouble)
    reasons = troubles if len(refused) < len(answers) else refused
    headings = ", ".join(line.strip(" :") for line in bare)
    missing = f"no quota is shown under '{headings}'" if bare else ""
    trouble = next(iter(reasons), "" if limits else missing)
    return Quotas(tuple(dict.fromkeys(limits)), trouble=trouble, missing=missing)


def _one(
    answer: Answer, reader: Callable[[ToolOutput], Sequence[StorageLimit]]
) -> tuple[ParsedOutput, str, str]:
    """Return the limits in one answer, what went wrong, and the tool's own words for it.

    The exit code alone says little: quota(1) returns 1 for "over the limit". An answer without any limit is a
    failure nevertheless.
    """
    if answer.silent:
        return ParsedOutput(), answer.trouble, ""
    if _NOT_ENABLED.search(answer.errors) and not answer.output.strip():
        return ParsedOutput(), "", ""  # this kind of quota does not exist there
    said, why = ToolOutput(answer.output), answer.complaint()
    try:
        found = said.reading(reader(said))
        if found.limits or found.unread or answer.ok:
            words = found.unread[0] if found.unread else found.doubt or answer.errors
            return found, _doubts(answer, found), words
    except UnreadableError as error:
        nothing = not (answer.output.strip() or answer.errors.strip())
        if answer.ok and (answer.output.strip() or nothing):
            why = "it printed nothing" if nothing else str(error)
    return ParsedOutput(), f"'{' '.join(answer.argv)}' cannot be read: {why}", answer.said


def _doubts(answer: Answer, found: ParsedOutput) -> str:
    """Return why the answer may be incomplete or wrong, or empty."""
    asked = f"'{' '.join(answer.argv)}'"
    if found.unread:
        more = f" and {len(found.unread) - 1} more" if len(found.unread) > 1 else ""
        return f"{asked} was read only in part, not understood: '{found.unread[0]}'{more}"
    if answer.truncated:
        return f"{asked} was read only in part: it prints too much"
    doubt = found.doubt or lfs_quota.doubt(answer.errors)
    if doubt or any(limit.inaccurate for limit in found.limits):
        return f"the figures of {asked} are inaccurate: {doubt or 'it puts them in brackets'}"
    return ""


def _groups(path: str) -> list[str]:
    """Return the groups whose quotas may count: the directory's (if we are in it), then our own."""
    ours = {os.getgid(), *os.getgroups()}
    wanted = dict.fromkeys(gid for gid in (os.stat(path).st_gid, os.getgid()) if gid in ours)
    return [_group(gid) for gid in wanted]


def _group(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
