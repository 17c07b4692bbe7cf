"""Hours of a project: what sshare, sreport and sites' own commands say of them, judged, and when they end."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchdogd.errors import UnreadableError
from watchdogd.plugin import Amount, History, Plugin, Result, Status
from watchdogd.plugins.project_hours import budgets
from watchdogd.plugins.project_hours.budgets import Budget
from watchdogd.plugins.project_hours.check import judge, project_hours

HOURS: Plugin = project_hours
NONE = History()
NOW = 1_795_800_000.0
HOUR, DAY = 3600.0, 86400.0
SSHARE = """\
root|||cpu=900,mem=0,energy=0,node=40,billing=900,fs/disk=0,vmem=0,pages=0,gres/gpu=0
 root|root||cpu=0,node=0
 consortium||gres/gpu=6000000|cpu=900,node=40,gres/gpu=3000000
  proj_b||cpu=60000,gres/gpu=600000|cpu=6000,gres/gpu=590000
   proj_b|alice|gres/gpu=1200|cpu=60,gres/gpu=600
  proj_c|||cpu=0
   proj_c|bob|gres/gpu=5|gres/gpu=5
 other||cpu=5|cpu=5
"""
LUMI = """\
Data updated: 2026-11-28 11:00:13
Project             |                    CPU (used/allocated)|               GPU (used/allocated)
--------------------------------------------------------------------------------------------------
project_462000077   |         121/100000  (0.1%) core/hours|       9350/10000  (93.5%) gpu/hours
project_462000078   |           0/0                        |        100/4000   (2.5%) gpu/hours
"""
LUMI_PATTERN = r"^(?P<name>project_\d+)\s*\|[^|]*\|\s*(?P<used>[\d.]+)/(?P<limit>[\d.]+)"


def names(found: list[Budget]) -> list[tuple[str, str, float]]:
    return [(each.name, each.unit, each.left) for each in found]


def test_the_limits_of_the_user_of_its_accounts_and_of_those_above() -> None:
    assert names(budgets.of_sshare(SSHARE, "", "alice", "")) == [
        ("consortium", "GPU hours", 50_000.0),
        ("proj_b", "core hours", 900.0),
        ("proj_b", "GPU hours", 10_000 - 590_000 / 60),
        ("proj_b, user alice", "GPU hours", 10.0),
    ]
    assert names(budgets.of_sshare(SSHARE, "proj_c", "alice", "gres/gpu")) == [
        ("consortium", "GPU hours", 50_000.0)
    ]


@pytest.mark.parametrize(
    ("account", "resource", "said"),
    [
        ("proj_d", "", "sshare shows no account 'proj_d'; did you mean 'proj_"),
        ("proj_b", "node", "sshare shows no limit of node hours for account proj_b"),
        ("", "", "sshare shows no limit of hours for any account of carol"),
    ],
)
def test_where_sshare_shows_no_limit(account: str, resource: str, said: str) -> None:
    with pytest.raises(UnreadableError) as raised:
        budgets.of_sshare(SSHARE, account, "carol", resource)
    assert str(raised.value).startswith(said)


def test_what_sreport_says_of_an_account_counts_its_users_once() -> None:
    text = "proj_b||1200\nproj_b|alice|700\nproj_b|bob|500\n"
    assert budgets.of_sreport(text, "proj_b", "gres/gpu", 2000) == Budget(
        "proj_b", "GPU hours", 800, 1200, 2000
    )
    assert budgets.of_sreport("", "proj_b", "cpu", 2000).used == 0
    with pytest.raises(UnreadableError, match="sreport printed no use of account proj_b: 'whatever'"):
        budgets.of_sreport("whatever\n", "proj_b", "cpu", 2000)


def test_a_sites_own_command() -> None:
    both = budgets.of_command(LUMI, LUMI_PATTERN, "", "GPU hours", "lumi-allocations")
    assert names(both) == [
        ("project_462000077", "GPU hours", 650.0),
        ("project_462000078", "GPU hours", 3900.0),
    ]
    (one,) = budgets.of_command(LUMI, LUMI_PATTERN, "project_462000078", "GPU hours", "x")
    assert one.used == 100.0
    text = "Allocation of p1: 12,769.5 h granted, 1'000 h left"
    (left,) = budgets.of_command(
        text, r"(?P<limit>[\d,.]+) h granted, (?P<left>\S+) h", "p1", "GPU hours", "x"
    )
    assert (left.name, left.left, left.used, left.limit) == ("p1", 1000.0, 11_769.5, 12_769.5)
    (bare,) = budgets.of_command(text, r"(?P<left>\S+) h left", "", "GPU hours", "my-hours")
    assert bare == Budget("my-hours", "GPU hours", 1000.0)


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("", "write a pattern with the groups used and limit, or left"),
        ("(", "pattern '(' is no regular expression: "),
        (r"used (?P<used>\d+)", "what is left cannot be told from used '7'"),
        (r"none (?P<left>\d+)", "pattern 'none (?P<left>\\d+)' matches nothing that x printed: 'used 7 of"),
        (r"of (?P<left>\w+)", "what is left cannot be told from left 'plenty'"),
    ],
)
def test_a_pattern_that_is_of_no_use_is_told_in_a_line(pattern: str, said: str) -> None:
    with pytest.raises(UnreadableError) as raised:
        budgets.of_command("used 7 of plenty\n", pattern, "", "GPU hours", "x")
    assert str(raised.value).startswith(said)


@given(st.text(alphabet="ab|=,/ \n0123.gpu", max_size=200))
def test_no_text_of_sshare_breaks_it(text: str) -> None:
    with contextlib.suppress(UnreadableError):
        assert budgets.of_sshare(text, "", "a", "")


@pytest.mark.parametrize(
    ("left", "ends_in", "status", "summary"),
    [
        (8800, None, Status.OK, "p1: 8,800 of 10,000 GPU hours left"),
        (8800, 40 * DAY, Status.OK, "p1: 8,800 of 10,000 GPU hours left, they end in 40d at this rate"),
        (
            8800,
            9 * DAY,
            Status.WARNING,
            "GPU hours of p1 end in 9d at this rate, 8,800 of 10,000 left",
        ),
        (
            400,
            2 * DAY,
            Status.WARNING,
            "GPU hours of p1 end in 2d at this rate, 400 of 10,000 left",
        ),
        (400, None, Status.WARNING, "p1: 400 of 10,000 GPU hours left"),
        (90, None, Status.CRITICAL, "p1: 90 of 10,000 GPU hours left"),
        (-70, 0.0, Status.CRITICAL, "p1 has no GPU hours left: 10,070 of 10,000 used"),
    ],
)
def test_judged(left: float, ends_in: float | None, status: Status, summary: str) -> None:
    budget = Budget("p1", "GPU hours", left, 10_000 - left, 10_000)
    found = judge(budget, "s", ends_in, crit_left=Amount(absolute=100), ends_within=14 * DAY)
    assert (found.status, found.summary) == (status, summary)
    assert (found.recovery is not None) is (status is Status.OK)


def run(path: Path, text: str, history: History = NONE, **parameters: Any) -> list[Result]:
    """What the check says where a site's command prints this."""
    path.write_text(text)
    words = {"command": ("cat", str(path)), **parameters}
    return HOURS.results(words, {"history": history, "now": NOW})


def test_hours_that_go_by_a_hundred_a_day_end_when_they_are_used_up(tmp_path: Path) -> None:
    series = [(NOW - hour * HOUR, 9350 - hour * 100 / 24) for hour in range(120, 0, -1)]
    history = History({("project_462000077 GPU hours", "used"): series})
    first, second = run(tmp_path / "said", LUMI, history, pattern=LUMI_PATTERN)
    assert first.status is Status.WARNING
    assert first.summary == "GPU hours of project_462000077 end in 6d12h at this rate, 650 of 10,000 left"
    assert first.metrics["ends_in"].value == pytest.approx(6.5 * DAY, rel=0.01)
    assert second.status is Status.OK
    assert "ends_in" not in second.metrics


def test_what_was_never_granted_cannot_be_used_up(tmp_path: Path) -> None:
    text = LUMI + "project_462000079   | 5/10 | 0/0\n"
    assert len(run(tmp_path / "said", text, pattern=LUMI_PATTERN)) == 2
    (found,) = run(tmp_path / "said", text, pattern=LUMI_PATTERN, account="project_462000079")
    assert (found.status, found.summary) == (Status.UNKNOWN, "no hours are granted to project_462000079")


def test_what_only_is_left_has_a_forecast_too(tmp_path: Path) -> None:
    series = [(NOW - hour * HOUR, 100.0 + hour) for hour in range(48, 0, -1)]
    history = History({("p1 GPU hours", "left"): series})
    (found,) = run(tmp_path / "said", "left 100", history, pattern=r"left (?P<left>\d+)", account="p1")
    assert found.summary == "GPU hours of p1 end in 4d4h at this rate, 100 left"


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"command": ("false",), "pattern": "(?P<left>x)"}, "false ended with exit code 1"),
        ({"command": (), "budget": 100.0}, "name the account that the budget is for"),
        (
            {"command": (), "budget": 100.0, "account": "p1", "since": "May"},
            "since = 'May' is no day: write it as",
        ),
    ],
)
def test_what_cannot_be_found_out_is_unknown(tmp_path: Path, parameters: dict[str, Any], said: str) -> None:
    (found,) = run(tmp_path / "said", "", **parameters)
    assert found.status is Status.UNKNOWN
    assert found.summary.startswith(f"the project's hours are not known: {said}")
