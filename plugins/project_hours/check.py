"""project_hours: hours that a project has used and has left, and when they run out at this rate.

Once its hours are used up, a project starts no more jobs, often in the middle of a run, and the only hint is
a reason in the queue (AssocGrpGRESMinutes). Slurm itself knows what is left if the site sets the limits of
accounts there (GrpTRESMins, read by `sshare`): those of the account, of the accounts above it and of the
user, each with its own forecast. If hours are granted outside Slurm, `budget` sets their number, and
`sreport` reports how many were used since `since`. If the site has its own command, a `pattern` reads its
output, with the groups `used` and `limit`, or `left`, and `name` if it lists several projects. For LUMI:

    command = ["lumi-allocations"]
    pattern = '^(?P<name>project_\\d+)\\s*\\|[^|]*\\|\\s*(?P<used>[\\d.]+)/(?P<limit>[\\d.]+)'

The **forecast** is a trend over two weeks, computed as for a disk: it needs readings that differ, and a calm
weekend does not hide the consumption of the days before.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime, timedelta

from watchdogd.checks.trend import filling_rate, time_to_full
from watchdogd.errors import UnreadableError
from watchdogd.plugin import (
    Advice,
    Amount,
    AmountField,
    Chart,
    Duration,
    History,
    Metric,
    Result,
    Status,
    check,
    critical,
    ok,
    unknown,
    warning,
)
from watchdogd.plugins.project_hours import budgets
from watchdogd.plugins.project_hours.budgets import Budget
from watchdogd.system.account import own_name
from watchdogd.system.command import ask
from watchdogd.units import age

DEADLINE = 45.0
"""Seconds for one question."""
_KEYS = Advice(
    "Correct account, budget or command of project_hours in config.toml, or wait if Slurm is down."
)
_MORE = Advice("Ask the project's manager for more, or let less urgent jobs wait.")
_SPENT = "Slurm lets no further job of it start (AssocGrp…Minutes), or bills it at a lower priority"
WARN_LEFT = Amount(share=0.05)


@check(
    every="1h",
    timeout="60s",
    remembers="14d",
    charts=(Chart("used", unit="h", group="Project hours", limit="limit", full_in="ends_in"),),
    trend="left",
)
def project_hours(
    history: History,
    now: float,
    account: str = "",
    resource: str = "",
    budget: float = 0.0,
    since: str = "",
    command: tuple[str, ...] = (),
    pattern: str = "",
    warn_left: AmountField | None = None,
    crit_left: AmountField | None = None,
    ends_within: Duration = 14 * 86400.0,
) -> Iterator[Result]:
    """Hours that a project has used and has left, and when they end.

    account: the project; default: all accounts of this user
    resource: what Slurm counts (gres/gpu, cpu, node, billing); default: all that have a limit, else gres/gpu
    budget: hours that were granted, if Slurm has no limit; sreport then reports how many are used
    since: the day from which the budget counts, 2027-01-31; default: the first of January
    command: the site's own command, in place of Slurm's
    pattern: reads its output, with the groups used and limit, or left, and name
    warn_left: WARNING below so many hours, a number or a share; default: 5 %
    crit_left: CRITICAL below so many; default: none left
    ends_within: WARNING if they end sooner than this at the present rate
    """
    try:
        if command:
            found = _site(command, pattern, account, budgets.unit_of(resource or budgets.GPU))
        elif budget:
            found = [_granted(account, resource or budgets.GPU, budget, since, now)]
        else:
            found = budgets.of_sshare(_said(budgets.SSHARE), account, own_name(), resource)
    except UnreadableError as error:
        yield unknown(f"the project's hours are not known: {error}").saying(advice=[_KEYS])
        return
    granted = [each for each in found if each.limit or each.used or each.limit is None]
    if not granted:
        none = unknown(f"no hours are granted to {', '.join(each.name for each in found)}")
        yield none.saying(advice=[_KEYS])
    for each in granted:
        subject = f"{each.name} {each.unit}"
        yield judge(each, subject, _ends_in(each, history, subject, now), warn_left, crit_left, ends_within)


def judge(
    budget: Budget,
    subject: str,
    ends_in: float | None,
    warn_left: Amount | None = None,
    crit_left: Amount | None = None,
    ends_within: float = 0.0,
) -> Result:
    """Judge one budget; `ends_in`: seconds until it is used up at this rate, or None."""
    whole, left = budget.limit or 0.0, max(budget.left, 0.0)
    warn = (WARN_LEFT if warn_left is None else warn_left).of(whole)
    crit = 0.0 if crit_left is None else crit_left.of(whole)
    number = f"{left:,.0f} of {whole:,.0f}" if whole else f"{left:,.0f}"
    words = f"{budget.name}: {number} {budget.unit} left"
    if budget.left <= 0:
        used = "" if budget.used is None else f": {budget.used:,.0f} of {whole:,.0f} used"
        result = critical(f"{budget.name} has no {budget.unit} left{used}").saying(_SPENT)
    elif ends_in is not None and budget.left >= crit and ends_in < ends_within:
        soon = f"{budget.unit} of {budget.name} end in {age(ends_in)} at this rate, {number} left"
        result = warning(soon).saying(f"warned where they end within {age(ends_within)}")
    elif budget.left < max(warn, crit):
        status, limit = (critical, crit) if budget.left < crit else (warning, warn)
        result = status(words).saying(f"warned below {limit:,.0f} hours")
    else:
        rate = "" if ends_in is None else f", they end in {age(ends_in)} at this rate"
        result = ok(f"{words}{rate}").ending("hours are left again", words)
    if result.status is not Status.OK:
        result = result.saying(advice=[_MORE])
    metrics = {"left": Metric(round(budget.left, 1), "h", warn, crit)}
    metrics |= {} if budget.used is None else {"used": Metric(round(budget.used, 1), "h")}
    metrics |= {"limit": Metric(round(whole, 1), "h")} if whole else {}
    metrics |= {} if ends_in is None else {"ends_in": Metric(round(ends_in), "s")}
    return replace(result, subject=subject, metrics=metrics)


def _ends_in(budget: Budget, history: History, subject: str, now: float) -> float | None:
    """Return the seconds until nothing is left, None if not known. New grants do not count."""
    series, sign, level = ("left", -1.0, budget.left) if budget.used is None else ("used", 1.0, budget.used)
    points = [*((at, sign * value) for at, value in history.series(series, subject)), (now, sign * level)]
    return time_to_full(budget.left, filling_rate(points, budget.left), points)


def _granted(account: str, resource: str, hours: float, since: str, now: float) -> Budget:
    """Ask sreport; its days end at midnight, so the end is tomorrow's date to include today."""
    if not account:
        raise UnreadableError("name the account that the budget is for")
    today = datetime.fromtimestamp(now).astimezone().date()
    try:
        begin = date.fromisoformat(since) if since else date(today.year, 1, 1)
    except ValueError:
        raise UnreadableError(f"since = '{since}' is no day: write it as {today.year}-01-31") from None
    argv = budgets.sreport(account, resource, begin.isoformat(), (today + timedelta(days=1)).isoformat())
    return budgets.of_sreport(_said(argv), account, resource, hours)


def _site(command: tuple[str, ...], pattern: str, account: str, unit: str) -> list[Budget]:
    return budgets.of_command(_said(command), pattern, account, unit, os.path.basename(command[0]))


def _said(argv: tuple[str, ...]) -> str:
    """Return a command's output. Raise UnreadableError if it failed."""
    answer = ask(argv, deadline=DEADLINE)
    if answer.silent or not (answer.ok or answer.output.strip()):
        raise UnreadableError(answer.complaint())
    return answer.output
