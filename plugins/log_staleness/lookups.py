"""Look-ups for the present cause of a run's log."""

from __future__ import annotations

from dataclasses import replace

from watchdogd.checks.cause_lookups import core_file, peer_node
from watchdogd.plugin import Job
from watchdogd.plugins.log_staleness.run_log import Peer, RunLog


def looked_up(log: RunLog, job: Job | None) -> RunLog:
    """Look up what the present cause needs: once the node with an address, each time the job's core file."""
    seen = log.told.cause
    if seen is None or job is None:
        return log
    told, cause = log.told, seen.cause
    if cause.peer and (told.peer is None or told.peer.address != cause.peer):
        told = replace(told, peer=Peer(cause.peer, peer_node(cause.peer, job.nodes, log.files.addresses)))
    if cause.kind == "segmentation fault" and not cause.core:
        core = core_file(job.work_dir, job.started_at or 0.0)
        told = replace(told, cause=replace(seen, core=core))
    return log if told is log.told else replace(log, told=told)
