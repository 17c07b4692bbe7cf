"""`scontrol --details show job`: which GPUs a running job has on each node."""

from __future__ import annotations

import re

from watchdogd.batch import hostlist
from watchdogd.system.number import count, digits

_NODES = re.compile(r"^[ \t]*+Nodes=(\S+) CPU_IDs=\S* Mem=\S* GRES(?:_IDX)?=(.*)$", re.MULTILINE)
_GPU = re.compile(r"(?:^|,)gpu(?::[^:,()]+)*?(?::(\d+))?\((?:IDX:)?([^()]*+)\)")


def gpus(text: str) -> dict[str, int]:
    """Node → GPUs of `Nodes=node[1-2] CPU_IDs=0-3 Mem=0 GRES=gpu:a100:4(IDX:0-3)`; 0 where it has none.

    Older ones (before 20.11) write `GRES_IDX=gpu:a100(IDX:0-3)`. Empty without such lines: the job waits, or
    `--details` was left out.
    """
    return {
        node: sum(_count(*found) for found in _GPU.findall(gres))
        for nodes, gres in _NODES.findall(text)
        for node in hostlist.expand(nodes)
    }


def _count(number: str, indices: str) -> int:
    """The number as it stands, else that of the indices `0-1,3`."""
    if number:
        return digits(number)
    spans = [span.partition("-") for span in indices.split(",")]
    numbers = ((count(first), count(last or first)) for first, _, last in spans)
    return sum(last - first + 1 for first, last in numbers if first is not None and last is not None)
