"""Hours of a project as sshare, sreport or a site's own command report them. Pure.

Slurm counts resources (TRES) in minutes: an account's limit is GrpTRESMins, and what is used of it
GrpTRESRaw. Both include all accounts below it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from watchdogd.errors import UnreadableError
from watchdogd.system.number import real
from watchdogd.system.text import nearest, one_line

SSHARE = ("sshare", "--noheader", "--parsable2", "--format=Account,User,GrpTRESMins,GrpTRESRaw")
GPU = "gres/gpu"
_UNITS = {GPU: "GPU hours", "cpu": "core hours", "node": "node hours", "billing": "billing hours"}
_GROUPS = frozenset({"used", "limit", "left"})


@dataclass(frozen=True, slots=True)
class Budget:
    """Hours of one project: its name, the resource, hours left, used and granted.

    `used` and `limit` are None if the source only reports what is left.
    """

    name: str
    unit: str
    left: float
    used: float | None = None
    limit: float | None = None


def unit_of(resource: str) -> str:
    return _UNITS.get(resource) or f"{resource.removeprefix('gres/')} hours"


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of sshare: the accounts from the root down, the user (empty: the account itself), the minutes."""

    path: tuple[str, ...]
    user: str
    limits: Mapping[str, float]
    used: Mapping[str, float]


def of_sshare(text: str, account: str, user: str, resource: str) -> list[Budget]:
    """Return the limits that apply to this user's jobs under this account, including the accounts above.

    Without an account, those of all the user's accounts. Raise UnreadableError if none is known.
    """
    rows = list(_rows(text))
    if account and not any(row.path[-1] == account for row in rows):
        known = sorted({row.path[-1] for row in rows})
        raise UnreadableError(f"sshare shows no account '{account}'{nearest(account, known)}")
    paths = {row.path for row in rows if (row.path[-1] == account if account else row.user == user)}
    above = {path[:length] for path in paths for length in range(1, len(path) + 1)}
    found = []
    for row in (each for each in rows if each.path in above and each.user in ("", user)):
        name = f"{row.path[-1]}, user {user}" if row.user else row.path[-1]
        for tres, limit in row.limits.items():
            if resource in ("", tres):
                used = row.used.get(tres, 0.0) / 60
                found.append(Budget(name, unit_of(tres), limit / 60 - used, used, limit / 60))
    if not found:
        whose = f"account {account}" if account else f"any account of {user}"
        raise UnreadableError(
            f"sshare shows no limit of {unit_of(resource) if resource else 'hours'} for {whose}"
        )
    return found


def _rows(text: str) -> Iterator[_Row]:
    """Yield the rows with their accounts; each level is indented by one more blank."""
    path: list[tuple[int, str]] = []
    for line in text.splitlines():
        cells = line.split("|")
        if len(cells) != 4 or not cells[0].strip():
            continue
        name, user = cells[0].strip(), cells[1].strip()
        depth = len(cells[0]) - len(cells[0].lstrip())
        if not user:
            path = [each for each in path if each[0] < depth] + [(depth, name)]
        own = [each for each in path if not user or each[0] < depth] or [(depth, name)]
        yield _Row(tuple(each for _, each in own), user, _minutes(cells[2]), _minutes(cells[3]))


def _minutes(cell: str) -> dict[str, float]:
    """Return minutes by resource; resources without a limit are left out."""
    entries = (entry.partition("=") for entry in cell.split(","))
    amounts = {name.strip(): real(amount) for name, found, amount in entries if found and name}
    return {name: amount for name, amount in amounts.items() if amount is not None}


def sreport(account: str, resource: str, since: str, until: str) -> tuple[str, ...]:
    """Return the command that asks for the hours an account used between two days."""
    return (
        "sreport", "--noheader", "--parsable2", "-t", "hours", "-T", resource,
        "cluster", "AccountUtilizationByUser", f"accounts={account}", f"start={since}", f"end={until}",
        "format=Account,Login,Used",
    )  # fmt: skip


def of_sreport(text: str, account: str, resource: str, granted: float) -> Budget:
    """Return the rest of the granted hours; rows of users are parts of the account's own row."""
    rows = [line.split("|") for line in text.splitlines() if line.strip()]
    amounts = [real(row[2]) for row in rows if len(row) == 3 and row[0].strip() == account and not row[1]]
    if rows and not any(amount is not None for amount in amounts):
        raise UnreadableError(f"sreport printed no use of account {account}: '{one_line(text, 100)}'")
    used = sum(amount for amount in amounts if amount is not None)
    return Budget(account, unit_of(resource), granted - used, used, granted)


def of_command(text: str, pattern: str, account: str, unit: str, tool: str) -> list[Budget]:
    """Return the budget in each match of `pattern`, with the groups name, used, limit and left.

    If matches have names and an account is given, only that account's. Raise UnreadableError if nothing
    matches, or a match has too few groups.
    """
    try:
        expression = re.compile(pattern, re.MULTILINE)
    except re.error as error:
        raise UnreadableError(f"pattern '{pattern}' is no regular expression: {error}") from None
    if not pattern or not _GROUPS & set(expression.groupindex):
        raise UnreadableError("write a pattern with the groups used and limit, or left: (?P<left>[0-9.,]+)")
    matches = [match.groupdict() for match in expression.finditer(text)]
    meant = [each for each in matches if not account or (each.get("name") or account).strip() == account]
    if not meant:
        of = f"of account {account} " if matches else ""
        raise UnreadableError(
            f"pattern '{pattern}' matches nothing {of}that {tool} printed: '{one_line(text, 100)}'"
        )
    return [_matched(each, account or tool, unit) for each in meant]


def _matched(groups: Mapping[str, str | None], name: str, unit: str) -> Budget:
    used, limit, left = (_amount(groups.get(key)) for key in ("used", "limit", "left"))
    if left is None and used is not None and limit is not None:
        left = limit - used
    if left is None:
        shown = ", ".join(f"{key} '{value}'" for key, value in groups.items() if value is not None)
        raise UnreadableError(f"what is left cannot be told from {shown or 'an empty match'}")
    used = limit - left if used is None and limit is not None else used
    return Budget(
        (groups.get("name") or name).strip(), unit, left, used, left + used if used is not None else limit
    )


def _amount(text: str | None) -> float | None:
    """Return a number as sites write it: `12,769`, `12 769`, `12'769.5`."""
    return real(re.sub(r"(?<=[0-9])[, '_\u2019\u202f](?=[0-9]{3})", "", text or ""))
