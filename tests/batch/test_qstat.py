"""qstat -f in the ways in which PBS and TORQUE break lines, and the JSON that PBS writes."""

from __future__ import annotations

import re
import time

import pytest

from watchdogd.batch import pending_reasons, qstat
from watchdogd.batch.pending_reasons import Wait
from watchdogd.errors import UnreadableError

PBS = """Job Id: 4711.batch
    Job_Name = tr11-176B-ml
    Job_Owner = alice@login2.cluster
    resources_used.walltime = 00:10:00
    job_state = R
    queue = gpu
    exec_host = node1/0*64+node2/0*64
    exec_vnode = (node1:ncpus=64:ngpus=4:mem=400gb)+(node2[0]:ncpus=32:ngpus=2+node2[1
\t]:ncpus=32:ngpus=2)
    Resource_List.walltime = 24:00:00
    stime = Sat Nov 28 09:00:00 2026
    Variable_List = PBS_O_HOME=/home/alice,PBS_O_LOGNAME=alice,
\tPBS_O_PATH=/usr/local/bin:/usr/b
\tin

Job Id: 4712.batch
    Job_Name = tr11-176B-ml
    Job_Owner = bob@login2.cluster
    job_state = Q
    comment = Not Running: Node is offline
line two
    qtime = Sat Nov 28 08:00:00 2026
"""
TORQUE = """
Job Id: 55.server.example
    Job_Name = a-rather-long-name
    Job_Owner = alice@calc1
    job_state = R
    Error_Path = calc1:/shared/sandbox/04/aRatherLong
        NameThatGoesOn.err
    exec_host = n175.example/17+n175.example/16+n176.example/3
    exec_gpus = n175.example-gpu/1+n175.example-gpu/0+n176.example-gpu/0
    Resource_List.walltime = 120:00:00
    start_time = Sat Nov 28 09:00:00 2026
"""
NINE = time.mktime((2026, 11, 28, 9, 0, 0, 0, 0, -1))


def test_pbs() -> None:
    running, waiting = qstat.jobs(qstat.records(PBS))
    assert (running.id, running.name, running.user) == ("4711.batch", "tr11-176B-ml", "alice")
    assert (running.state, running.nodes, running.node_count) == ("RUNNING", "node1,node2", 2)
    assert (running.started_at, running.ends_at) == (NINE, NINE + 86400)
    assert (waiting.state, waiting.waiting, waiting.nodes) == ("PENDING", True, "")
    assert waiting.reason == "Not Running: Node is offline\nline two"
    assert qstat.gpus(PBS, "4711.batch") == {"node1": 4, "node2": 4}
    assert qstat.gpus(PBS, "none") == {}


def test_torque() -> None:
    (job,) = qstat.jobs(qstat.records(TORQUE))
    assert (job.nodes, job.started_at) == ("n175.example,n176.example", NINE)
    assert job.ends_at == NINE + 120 * 3600
    assert qstat.gpus(TORQUE, job.id) == {"n175.example": 2, "n176.example": 1}


JSON = r"""{
    "timestamp":1795856400,
    "pbs_version":"20.0.1",
    "pbs_server":"batch",
    "Jobs":{
        "88[].batch":{
            "Job_Name":"tr4", "Job_Owner":"alice@login1", "job_state":"B", "queue":"gpu",
            "array":"True", "array_state_count":"Queued:2 Running:1 Exiting:0 Expired:1 "
        },
        "88[0].batch":{
            "Job_Name":"tr4", "Job_Owner":"alice@login1", "job_state":"X", "queue":"gpu",
            "exec_host":"n7/0*32", "stime":"Sat Nov 28 09:00:00 2026", "Exit_status":3, "substate":93,
            "obittime":"Sat Nov 28 09:10:00 2026", "mtime":"Sat Nov 28 09:11:00 2026"
        },
        "88[1].batch":{
            "Job_Name":"tr4", "Job_Owner":"alice@login1", "job_state":"R", "queue":"gpu",
            "exec_host":"n8/0*32+n9/0*32", "exec_vnode":"(n8:ncpus=32:ngpus=4)+(n9:ncpus=32:ngpus=4)",
            "Resource_List":{"ncpus":64, "walltime":"12:00:00"},
            "stime":"Sat Nov 28 09:00:00 2026",
            "Variable_List":{"PBS_O_WORKDIR":"/scratch/tr4", "BASH_FUNC":"() { echo \'a\, b\' }", "N":007}
        },
        "88[2].batch":{
            "Job_Name":"tr4", "Job_Owner":"alice@login1", "job_state":"Q", "queue":"gpu",
            "estimated":{"start_time":"Sat Nov 28 09:00:00 2026"}
        },
        "90.batch":{"Job_Name":5, "Job_Owner":"bob@login1", "job_state":"H", "Hold_Types":"u"}
    }
}
"""


def test_json_as_pbs_writes_it() -> None:
    found = qstat.records(JSON)
    running, waiting, held = qstat.jobs(found)
    assert (running.id, running.array_id, running.state) == ("88[1].batch", "88[].batch", "RUNNING")
    assert (running.nodes, running.started_at, running.ends_at) == ("n8,n9", NINE, NINE + 12 * 3600)
    assert running.work_dir == "/scratch/tr4"
    assert (waiting.state, waiting.start_estimate, waiting.started_at) == ("PENDING", NINE, None)
    assert (held.name, held.reason) == ("5", "Hold_Types u")
    assert qstat.gpus(JSON, "88[1].batch") == {"n8": 4, "n9": 4}
    (end,) = qstat.endings(found)
    assert (end.id, end.how, end.lasted) == ("88[0].batch", "FAILED (exit 3)", 600.0)
    assert qstat.records('{"timestamp":1, "pbs_version":"19.1.1", "pbs_server":"batch"}') == {}


@pytest.mark.parametrize(
    ("fields", "how"),
    [
        ("Exit_status = 0", "COMPLETED"),
        ("Exit_status = 1", "FAILED (exit 1)"),
        ("Exit_status = 137", "FAILED (exit 137)"),
        ("Exit_status = 271\n    substate = 91", "CANCELLED by SIGTERM"),
        ("Exit_status = 267\n    substate = 93", "FAILED by SIGSEGV"),
        ("Exit_status = -29", "TIMEOUT"),
        ("Exit_status = -27", "OUT_OF_MEMORY"),
        ("Exit_status = -3", "FAILED"),
        ("exit_status = 271\n    resources_used.walltime = 01:00:08", "TIMEOUT by SIGTERM"),
        ("substate = 91", "CANCELLED"),
    ],
)
def test_ends(fields: str, how: str) -> None:
    limit = "    Resource_List.walltime = 01:00:00\n    mtime = Sat Nov 28 09:00:00 2026\n"
    limit += "    Output_Path = login1:/home/alice/x.o9\n"
    text = f"Job Id: 9.batch\n    job_state = F\n{limit}    {fields}\n    stime = Sat Nov 28 08:00:00 2026\n"
    (end,) = qstat.endings(qstat.records(text))
    assert (end.how, end.ended_at, end.over) == (how, NINE, True)
    assert end.outputs == ("/home/alice/x.o9",), "where its last words stand"


@pytest.mark.parametrize(
    ("fields", "wait"),
    [
        ("H\n    Hold_Types = u", Wait.HELD),
        ("H\n    Hold_Types = so", Wait.NEVER),
        ("H\n    Hold_Types = s\n    comment = job held, too many failed attempts to run", Wait.NEVER),
        ("H\n    Hold_Types = s\n    depend = afterok:8.batch@batch", Wait.PASSES),
        ("W\n    Execution_Time = Sat Nov 28 11:00:00 2026", Wait.PASSES),
        ("Q\n    comment = Not Running: Insufficient amount of resource: ngpus", Wait.PASSES),
        ("Q\n    comment = Can Never Run: Insufficient amount of resource: ngpus (R: 9 T: 8)", Wait.NEVER),
    ],
)
def test_why_it_waits(fields: str, wait: Wait) -> None:
    (job,) = qstat.jobs(qstat.records(f"Job Id: 9.batch\n    job_state = {fields}\n"))
    assert pending_reasons.judge(job.reason, job.state).wait is wait


def test_letters_alone_and_nothing() -> None:
    text = "".join(f"Job Id: {n}.localhost\n    job_state = {letter}\n" for n, letter in enumerate("CRQSEH"))
    states = ["RUNNING", "PENDING", "SUSPENDED", "COMPLETING", "PENDING"]
    assert [job.state for job in qstat.jobs(qstat.records(text))] == states
    assert [end.id for end in qstat.endings(qstat.records(text))] == ["0.localhost"]
    assert qstat.jobs(qstat.records("")) == ()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Job Id: 1.b\n    job_state = ?\n", "job 1.b the unknown state '?'"),
        ("Job ID  Name\n", "'Job ID  Name'"),
        ('{"Jobs": [1]}', "holds no jobs"),
        ('{"Jobs": {', "cannot be read"),
    ],
)
def test_what_cannot_be_read_is_named(text: str, told: str) -> None:
    with pytest.raises(UnreadableError, match=re.escape(told)):
        qstat.jobs(qstat.records(text))
