"""What a run short of memory is told to do: what can be done with it, and who holds most said once."""

from __future__ import annotations

from watchdogd.batch.models import Job
from watchdogd.parsers.probe_sample import JobProcess, NodeMemory
from watchdogd.plugin import Amount, Run
from watchdogd.plugins.memory_leak.check import MemoryLimits, judge, relief

LIMITS = MemoryLimits(Amount(share=0.1), 3600.0, 600.0)
JOB = Job("77_3", "78", "pike", "dora", "RUNNING")


def held(count: int) -> NodeMemory:
    processes = tuple(JobProcess(pid, "python", 9e9) for pid in range(count))
    return NodeMemory("cgroup job_77", 1e9, 64e9, 60e9, processes)


def test_a_run_is_saved_and_requeued_by_name_and_number() -> None:
    save, again, fewer = relief(Run("pike run", "pike"), [JOB])
    assert (save.command, save.action) == ("watchdogd save-switch 'pike run'", "save-switch")
    assert (again.command, again.action) == ("scontrol requeue 77_3", "requeue")
    assert "(as dora)" in again.sentence
    assert not fewer.command


def test_a_process_has_no_queue_to_go_back_to() -> None:
    advice = relief(Run("pike", "pike", backend="process"), [JOB])
    assert [each.command for each in advice] == ["watchdogd save-switch pike", "", ""]


def test_who_holds_most_is_said_once() -> None:
    few = judge("n1", held(2), LIMITS, [(0.0, 60e9)])
    assert not few.details
    assert "python[0] 9 GB, python[1] 9 GB" in few.facts[-1]
    many = judge("n1", held(5), LIMITS, [(0.0, 60e9)])
    assert "python[4] 9 GB" in many.details
    assert "python[4]" not in "".join(many.facts)
