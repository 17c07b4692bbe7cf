"""Trial of a job's GPUs before it starts: a small computation on each, an all-reduce across nodes.

It uses the training's own PyTorch, that of the job script's `python3`; without one nothing is tested, and
that is reported. PROGRAM runs once a node, and prints lines that `read` parses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from watchdogd.plugin import Status
from watchdogd.preflight.verdicts import Finding
from watchdogd.stacks import stack_folding
from watchdogd.system.number import digits, real

PROGRAM = r"""
import datetime, os, sys, time
name = os.environ.get("SLURMD_NODENAME") or os.uname().nodename.partition(".")[0]
say = lambda *words: print("@@", *words, flush=True)
line = lambda error: (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
say("node", name)
try:
    import torch
except Exception as error:
    say("torch", "missing", line(error))
    sys.exit(0)
say("torch", torch.__version__)
count = torch.cuda.device_count()
for number in range(count):
    try:
        block = torch.ones(1024, 1024, device=f"cuda:{number}")
        found = float((block @ block).sum().item())
        wrong = f"fail it computes {found:g} where {2.0 ** 30:g} is right"
        say("gpu", number, "ok" if found == 2.0 ** 30 else wrong)
    except Exception as error:
        say("gpu", number, "fail", line(error))
if len(sys.argv) > 1:
    host, port, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    rank, world = int(os.environ.get("SLURM_PROCID", 0)), int(os.environ.get("SLURM_NTASKS", 1))
    try:
        import torch.distributed as dist
        dist.init_process_group(
            "nccl" if count else "gloo", init_method=f"tcp://{host}:{port}", rank=rank, world_size=world,
            timeout=datetime.timedelta(seconds=seconds),
        )
        block = torch.ones(16 << 20, device="cuda:0" if count else "cpu")
        dist.all_reduce(block)  # the first one makes the connections
        begin = time.monotonic()
        dist.all_reduce(block)
        found, took = float(block[-1].item()), time.monotonic() - begin
        say("reduce", "ok" if found == float(world) ** 2 else f"fail it sums up to {found:g}", f"{took:.3f}")
        dist.destroy_process_group()
    except Exception as error:
        say("reduce", "fail", line(error))
"""
"""Its arguments, for an all-reduce: the first node, a port, and seconds."""
TOPIC = "trial"
_GPU = re.compile(r"^@@ gpu (\d+) (ok|fail) ?(.*)$", re.MULTILINE)
_TORCH = re.compile(r"^@@ torch (missing )?(.*)$", re.MULTILINE)
_REDUCE = re.compile(r"^@@ reduce (ok|fail) ?(.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Tried:
    """Result of one node. `torch`: its version; `missing`: why there is none; `faults`: by GPU.

    `reduced`: seconds for an all-reduce of 64 MiB; `broken`: why it failed; neither: not requested or not
    reached.
    """

    torch: str = ""
    missing: str = ""
    gpus: int = 0
    faults: Mapping[int, str] = field(default_factory=dict)
    reduced: float | None = None
    broken: str = ""


@dataclass(frozen=True, slots=True)
class Trial:
    """Results by node, reasons of silent nodes, and whether an all-reduce was requested."""

    nodes: Mapping[str, Tried]
    silent: Mapping[str, str] = field(default_factory=dict)
    reduce: bool = False
    trouble: str = ""


def read(text: str) -> Tried:
    """Parse PROGRAM's output of one node."""
    torch, reduce, gpus = _TORCH.search(text), _REDUCE.search(text), _GPU.findall(text)
    well = reduce is not None and reduce[1] == "ok"
    return Tried(
        torch="" if torch is None or torch[1] else torch[2],
        missing=torch[2] if torch and torch[1] else "",
        gpus=len(gpus),
        faults={digits(number): why for number, verdict, why in gpus if verdict == "fail"},
        reduced=real(reduce[2]) if reduce and well else None,
        broken=reduce[2] if reduce and not well else "",
    )


def judge(trial: Trial, gpus: int | None) -> Iterator[Finding]:
    """Judge which results stop the job. `gpus`: number that each node should have; None or 0: none."""
    if trial.trouble:
        yield Finding(Status.WARNING, TOPIC, f"nothing could be tried: {trial.trouble}")
        return
    missing = next((each.missing for each in trial.nodes.values() if each.missing), "")
    if missing:
        status = Status.CRITICAL if trial.reduce else Status.OK
        yield Finding(status, TOPIC, f"nothing was tried: no PyTorch in this python3: {missing}")
        return
    for node, why in trial.silent.items():
        yield Finding(Status.CRITICAL, TOPIC, f"{node}: its GPUs were not tried to the end: {why}", (node,))
    for node, tried in trial.nodes.items():
        yield from _of_node(node, tried, gpus)
    yield from _together(trial)


def _of_node(node: str, tried: Tried, gpus: int | None) -> Iterator[Finding]:
    for number, why in tried.faults.items():
        yield Finding(
            Status.CRITICAL, TOPIC, f"{node} gpu{number}: nothing can be computed on it: {why}", (node,)
        )
    if gpus and tried.torch and tried.gpus < gpus:
        text = f"{node}: PyTorch sees {tried.gpus} GPUs of {gpus}"
        yield Finding(Status.CRITICAL, TOPIC, text, (node,))


def _together(trial: Trial) -> Iterator[Finding]:
    well = [name for name, tried in trial.nodes.items() if tried.gpus and not tried.faults]
    if well:
        yield Finding(Status.OK, TOPIC, f"each GPU of {stack_folding.names(well)} computes")
    if not trial.reduce:
        return
    broken = {name: tried.broken for name, tried in trial.nodes.items() if tried.broken}
    slowest = max(
        (tried.reduced for tried in trial.nodes.values() if tried.reduced is not None), default=None
    )
    count = len(trial.nodes) + len(trial.silent)
    if broken:
        node, why = next(iter(broken.items()))
        text = f"the all-reduce across {count} nodes fails, on {stack_folding.names(broken)}: {why}"
        yield Finding(Status.CRITICAL, TOPIC, text, (node,) if len(broken) == 1 < count else ())
    elif slowest is None or trial.silent:
        yield Finding(Status.CRITICAL, TOPIC, f"the all-reduce across {count} nodes did not come to its end")
    else:
        text = f"an all-reduce of 64 MiB across {count} nodes took {slowest * 1000:.0f} ms"
        yield Finding(Status.OK, TOPIC, text)


def argv(python: str, hosts: Sequence[str], job: str, *, reduce: bool, deadline: float) -> list[str]:
    words = [python, "-c", PROGRAM]
    port = 20000 + sum(map(ord, job)) * 131 % 10000
    return [*words, hosts[0], str(port), f"{deadline:.0f}"] if reduce else words
