"""GPUs of a job's nodes, in the words of several Slurms."""

from __future__ import annotations

import pytest

from watchdogd.batch import scontrol

JOB = """JobId=4711 JobName=tr11
   UserId=alice(2001) GroupId=alice(2001) MCS_label=N/A
   NumNodes=3 NumCPUs=96 NumTasks=3 CPUs/Task=32 ReqB:S:C:T=0:0:*:*
   TRES=cpu=96,node=3,billing=96,gres/gpu=20
   JOB_GRES=gpu:20
{lines}
   MinCPUsNode=32 MinMemoryNode=0 MinTmpDiskNode=0
"""


@pytest.mark.parametrize(
    ("lines", "gpus"),
    [
        ("     Nodes=node7 CPU_IDs=0-5 Mem=0 GRES=gpu:1(IDX:0)", {"node7": 1}),
        ("     Nodes=node[07-08] CPU_IDs=0-5 Mem=9000 GRES=gpu:a100:4(IDX:0-3)", {"node07": 4, "node08": 4}),
        (
            "     Nodes=node1 CPU_IDs=0-5 Mem=0 GRES=gpu:mi250:8(IDX:0-7)\n"
            "     Nodes=node2 CPU_IDs=0-5 Mem=0 GRES=gpu:mi250:2(IDX:1,5),nvme:1(CNT:1)",
            {"node1": 8, "node2": 2},
        ),
        ("     Nodes=node1 CPU_IDs=0-5 Mem=0 GRES_IDX=gpu:v100(IDX:0-1,3)", {"node1": 3}),
        ("     Nodes=node1 CPU_IDs=0-5 Mem=0 GRES=gpu:h100:2(IDX:0-1),gpu:a40:1(IDX:2)", {"node1": 3}),
        ("     Nodes=node[1-2] CPU_IDs=0-5 Mem=0 GRES=", {"node1": 0, "node2": 0}),
        ("      Nodes=big CPU_IDs=0-1 Mem=0 GRES=nvme:1(CNT:1)", {"big": 0}),
        ("   NodeList=node[1-2]", {}),
    ],
)
def test_gpus_of_each_node(lines: str, gpus: dict[str, int]) -> None:
    assert scontrol.allocated_gpus(JOB.format(lines=lines)) == gpus
