"""qstat -f in the ways in which PBS and TORQUE break lines."""

from __future__ import annotations

import time

from watchdogd.readers import qstat

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
    running, waiting = qstat.read(PBS)
    assert (running.id, running.name, running.user) == ("4711.batch", "tr11-176B-ml", "alice")
    assert (running.state, running.nodes, running.node_count) == ("RUNNING", "node1,node2", 2)
    assert (running.started_at, running.ends_at) == (NINE, NINE + 86400)
    assert (waiting.state, waiting.waiting, waiting.nodes) == ("PENDING", True, "")
    assert waiting.reason == "Not Running: Node is offline\nline two"
    assert qstat.gpus(PBS, "4711.batch") == {"node1": 4, "node2": 4}
    assert qstat.gpus(PBS, "none") == {}


def test_torque() -> None:
    (job,) = qstat.read(TORQUE)
    assert (job.nodes, job.started_at) == ("n175.example,n176.example", NINE)
    assert job.ends_at == NINE + 120 * 3600
    assert qstat.gpus(TORQUE, job.id) == {"n175.example": 2, "n176.example": 1}


def test_letters_alone_and_nothing() -> None:
    text = "".join(f"Job Id: {n}.localhost\n    job_state = {letter}\n" for n, letter in enumerate("CRQSEH?"))
    states = ["COMPLETED", "RUNNING", "PENDING", "SUSPENDED", "COMPLETING", "PENDING", "UNKNOWN"]
    assert [job.state for job in qstat.read(text)] == states
    assert qstat.read("") == ()
