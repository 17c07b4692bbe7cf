"""Nodes that the evidence of a stall puts under suspicion."""

from __future__ import annotations

from pathlib import Path

import pytest

from watchdogd.home import suspect_nodes
from watchdogd.home.layout import Home
from watchdogd.incidents.models import EventKind, Incident, IncidentEvent
from watchdogd.plugin import Job, Result, Run, Status
from watchdogd.probe.node_ranks import NodeRanks, RankProcess
from watchdogd.remediation import stall_inquiry
from watchdogd.remediation.models import EVIDENCE, ActionRecord, ActionTask
from watchdogd.remediation.stall_inquiry import StallInquiry


@pytest.mark.parametrize(
    ("states", "backend", "at", "listed"),
    [
        (["T (stopped)"], "slurm", "n[16-17]", ["n17"]),
        (["T (stopped)"], "slurm", "n16.example.org,n17.example.org", ["n17.example.org"]),
        (["T (stopped)"], "slurm", "n[1-3]", []),
        (["T (stopped)"], "process", "n[16-17]", []),
        (["D (disk sleep)"], "slurm", "n[16-17]", []),
        (["S (sleeping)"], "slurm", "n[16-17]", []),
    ],
)
def test_a_node_is_put_under_suspicion_by_strong_evidence_alone(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    states: list[str],
    backend: str,
    at: str,
    listed: list[str],
) -> None:
    home = Home(tmp_path / "home")
    home.make()
    others = [RankProcess(100 + rank, rank, "S (sleeping)", (), "", {}) for rank in range(7)]
    bad = [RankProcess(200, 7, state, (), "", {}) for state in states]
    nodes = (NodeRanks("n16", (), tuple(others)), NodeRanks("n17", (), tuple(bad)))
    monkeypatch.setattr(stall_inquiry, "look_at", lambda run, queue: stall_inquiry.RunEvidence(nodes))
    incident = Incident(3, "glide/log_staleness", "glide", "glide", "", Status.CRITICAL, 0.0, "stalled")
    event = IncidentEvent(
        EventKind.OPENED, 0.0, "glide/log_staleness", "glide", "glide", "stalled", incident=incident
    )
    record, run = ActionRecord(3, "glide", "on_hang", EVIDENCE, 0.0), Run("glide", "glide", backend)
    job = Job("501", "501", "glide", "ann", "RUNNING", nodes=at)
    task = ActionTask(record, incident, home, run, queue=(job,))
    stall_inquiry.with_evidence(
        [StallInquiry(event, Result(Status.CRITICAL, "stalled"), task, stacks=True)], [event]
    )
    assert [each.node for each in suspect_nodes.listed(home)] == listed
