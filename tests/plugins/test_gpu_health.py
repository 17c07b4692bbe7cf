"""gpu_health with smi tools that print real forms, lie with their exit codes, and hang."""

from __future__ import annotations

import json
import os
import pwd
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.parsers.gpu_samples import sample
from tests.plugins.words import commands_of, text_of
from tests.waiting import AT_ONCE
from watchdogd.batch.models import Job, Snapshot
from watchdogd.batch.run_models import SURE
from watchdogd.parsers import probe_sample as samples
from watchdogd.parsers.gpu.models import Gpu, Readout
from watchdogd.parsers.gpu.node_script import GpuNode
from watchdogd.parsers.probe_sample import GpuSample
from watchdogd.plugin import Plugin, Progress, Result, Run, Sign, Status, Strength
from watchdogd.plugins.gpu_health import activity
from watchdogd.plugins.gpu_health.activity import NamedGpu
from watchdogd.plugins.gpu_health.check import gpu_health, judge
from watchdogd.plugins.gpu_health.faults import GpuLimits, without_sensors
from watchdogd.plugins.gpu_health.gpu_state import GpuHealthState
from watchdogd.plugins.gpu_health.standstill import Patience
from watchdogd.probe.node_answers import GpuSurvey
from watchdogd.system import command
from watchdogd.system.command import Answer

HEALTH: Plugin = gpu_health
START = 1_795_800_000.0
HEADER = (
    "index, uuid, utilization.gpu [%], power.draw [W], power.limit [W], temperature.gpu, memory.used [MiB], "
    "memory.total [MiB], ecc.errors.uncorrected.aggregate.total, ecc.errors.uncorrected.volatile.total"
)
WORKS, STALLED, WAITS, UNUSED = (100, 650, 60000), (0, 125, 60000), (100, 124, 60000), (0, 71, 4)
"""Utilisation, watts and MiB of a GPU in each state, as measured on H100."""
HERE = os.uname().nodename.partition(".")[0]


def uuid(number: int) -> str:
    return f"GPU-0c5e77aa-1111-4222-8333-{number:012d}"


def csv(
    *states: tuple[int, int, int], first: int = 0, heat: int = 60, ecc: dict[int, int] | None = None
) -> str:
    """What nvidia-smi prints of GPUs in these states; `ecc`: their uncorrectable errors by number."""
    rows = [
        f"{number}, {uuid(number)}, {use} %, {power}.10 W, 700.00 W, {heat}, {used} MiB, 81559 MiB, "
        f"{(ecc or {}).get(number, 0)}, 0"
        for number, (use, power, used) in enumerate(states, first)
    ]
    return "\n".join([HEADER, *rows]) + "\n"


@dataclass
class Machine:
    """A machine with fake tools on its PATH, and the check that looks at it minute by minute."""

    folder: Path
    now: float = START
    job: Job | None = field(
        default_factory=lambda: Job("88", "88", "run-17", "alice", "RUNNING", started_at=START - 60)
    )
    wanted: dict[str, Any] = field(default_factory=dict)
    memory: dict[str, Any] = field(default_factory=dict)
    backend: str = "process"
    progress: Progress | None = None
    signs: tuple[Sign, ...] = ()
    notices: list[str] = field(default_factory=list)

    def tool(self, name: str, text: str, code: int = 0, before: str = "") -> None:
        """A tool that prints `text`, whatever it is asked for."""
        (self.folder / f"{name}.txt").write_text(text)
        script = self.folder / name
        script.write_text(f"#!/bin/sh\n{before}\ncat '{self.folder}/{name}.txt'\nexit {code}\n")
        script.chmod(0o755)

    def look(self, minutes: float = 2.0) -> dict[str, Result]:
        """The results by subject, `minutes` after the last look; the memory goes through JSON."""
        self.now += 60 * minutes
        inbox = str(self.folder / "inbox")
        run = Run("run-17", "run-17", self.backend, inbox=inbox, progress=self.progress, signs=self.signs)
        jobs = (self.job,) if self.job else ()
        memory = json.loads(json.dumps(self.memory))
        injected = {
            "run": run,
            "snapshot": Snapshot(self.now, jobs=jobs, backend=self.backend),
            "memory": memory,
            "now": self.now,
        }
        defaults = {name: each.default for name, each in HEALTH.parameters.items()}
        results = HEALTH.results({**defaults, **self.wanted}, injected)
        self.memory = memory
        self.notices += [text_of(result) for result in results if result.notice]
        return {result.subject: result for result in results if not result.notice}

    def bad(self, minutes: float = 2.0) -> dict[str, Status]:
        """What is not OK."""
        found = self.look(minutes)
        return {subject: each.status for subject, each in found.items() if each.status is not Status.OK}


SAID: dict[object, Answer] = {}
"""What the script said on a machine with the same tools, which takes twenty processes to find out."""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine whose tools are asked once for all tests in which they are the same to the letter."""
    ask = command.ask

    def asked_once(argv: Sequence[str], *, deadline: float, **limits: Any) -> Answer:
        tools = {file.name: file.read_bytes() for file in tmp_path.iterdir() if file.is_file()}
        letters = {name: text.replace(bytes(tmp_path), b"") for name, text in tools.items()}
        key = (tuple(argv), deadline, repr(limits), tuple(sorted(letters.items())))
        if key not in SAID:
            SAID[key] = ask(argv, deadline=deadline, **limits)
        return SAID[key]

    monkeypatch.setattr(command, "ask", asked_once)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (tmp_path / "inbox").mkdir()
    return Machine(tmp_path)


def test_working_gpus_are_well_and_measured(machine: Machine) -> None:
    machine.wanted = {"gpus_per_node": 2}
    machine.tool("nvidia-smi", csv(WORKS, (97, 612, 60000)))
    found = machine.look()
    assert set(found) == {"", HERE}
    whole = found[""]
    assert whole.status is found[HERE].status is Status.OK
    assert "2 GPUs on 1 node" in text_of(whole)
    assert whole.metrics["utilisation"].value == 98.5
    assert whole.metrics["power"].unit == "W"
    assert uuid(1) in whole.details


def test_fewer_gpus_than_wanted_says_which_is_gone(machine: Machine) -> None:
    machine.wanted = {"gpus_per_node": 3}
    machine.tool("nvidia-smi", csv(WORKS, WORKS, WORKS))
    assert machine.bad() == {}
    machine.tool("nvidia-smi", csv(WORKS, WORKS))
    lost = machine.look()[HERE]
    assert lost.status is Status.CRITICAL
    assert "gpu2 is gone, 2 of 3 GPUs are left" in text_of(lost)
    machine.tool("nvidia-smi", csv(WORKS, WORKS, WORKS))
    assert machine.look()[HERE].status is Status.OK


def test_partitions_count_as_devices_or_as_boards(machine: Machine) -> None:
    for wanted in (2, 4):
        machine.wanted = {"gpus_per_node": wanted}
        machine.tool("amd-smi", sample("amd-monitor-xcp.txt"))
        assert machine.bad() == {}
    machine.wanted = {"gpus_per_node": 3}
    assert machine.bad() == {HERE: Status.CRITICAL}


@pytest.mark.parametrize("tool", ["rocm-smi", "amd-smi"])
def test_no_driver_though_the_tool_exits_0(machine: Machine, tool: str) -> None:
    line = "ERROR:root:Driver not initialized (amdgpu not found in modules)"
    machine.tool(tool, line + "\n")
    found = machine.look()
    assert found[HERE].status is Status.UNKNOWN, "nobody said that it should have GPUs"
    machine.wanted = {"gpus_per_node": 8}
    found = machine.look()
    assert found[HERE].status is Status.CRITICAL
    assert line in text_of(found[HERE])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Failed to initialize NVML: Driver/library version mismatch\n", "version mismatch"),
        ("gibberish\n", "'gibberish'"),
        ("", "nothing"),
    ],
)
def test_what_cannot_be_read_is_unknown_with_the_line(machine: Machine, text: str, said: str) -> None:
    machine.wanted = {"gpus_per_node": 8}
    machine.tool("nvidia-smi", text, code=9)
    found = machine.look()
    assert {subject: each.status for subject, each in found.items()} == {"": Status.UNKNOWN}
    assert said in text_of(found[""])


def test_no_tool_at_all_is_unknown(machine: Machine) -> None:
    machine.wanted = {"gpus_per_node": 8}
    assert "no nvidia-smi, amd-smi or rocm-smi" in text_of(machine.look()[""])
    assert machine.bad() == {"": Status.UNKNOWN}


@pytest.mark.slow
def test_a_tool_that_hangs_is_unknown_in_time(machine: Machine) -> None:
    machine.wanted = {"gpus_per_node": 8, "deadline": 6.0}
    machine.tool("nvidia-smi", csv(WORKS), before="trap '' TERM; sleep 600 & wait; sleep 600")
    began = time.monotonic()
    found = machine.look()
    assert time.monotonic() - began < AT_ONCE
    assert found[""].status is Status.UNKNOWN
    assert "nvidia-smi hangs" in text_of(found[""])


@pytest.mark.slow
def test_another_tool_tells_where_one_hangs(machine: Machine) -> None:
    machine.wanted = {"gpus_per_node": 3, "deadline": 12.0}
    machine.tool("amd-smi", "", before="sleep 600")
    machine.tool("rocm-smi", sample("rocm-concise-node.txt"), code=2)
    assert machine.bad() == {f"{HERE}/gpu2": Status.CRITICAL}


def test_exit_codes_lie(machine: Machine) -> None:
    machine.wanted = {"gpus_per_node": 3}
    machine.tool("amd-smi", sample("amd-metric.json"), code=2)
    assert machine.bad() == {f"{HERE}/gpu0": Status.WARNING, f"{HERE}/gpu2": Status.UNKNOWN}


def test_a_tool_that_knows_only_one_form_is_asked_for_it(machine: Machine) -> None:
    machine.wanted = {"gpus_per_node": 2}
    only = 'case "$*" in *--query-gpu*) ;; *) exit {code} ;; esac'
    for code in (0, 1):
        machine.tool("nvidia-smi", csv(WORKS, WORKS), before=only.format(code=code))
        assert machine.bad() == {}
    machine.wanted = {"gpus_per_node": 3}
    (machine.folder / "nvidia-smi").unlink()
    machine.tool(
        "rocm-smi", sample("rocm-concise-node.txt"), before='test $# = 0 || { echo "usage:"; exit 2; }'
    )
    assert machine.bad() == {f"{HERE}/gpu2": Status.CRITICAL}


def test_lost_and_half_dead_gpus_of_the_table(machine: Machine) -> None:
    machine.wanted = {"gpus_per_node": 4}
    machine.tool("nvidia-smi", sample("nvidia-table.txt"))
    found = machine.look()
    assert {subject: each.status for subject, each in found.items() if subject.startswith(f"{HERE}/")} == {
        f"{HERE}/gpu1": Status.CRITICAL,
        f"{HERE}/gpu2": Status.CRITICAL,
        f"{HERE}/gpu3": Status.WARNING,
    }
    assert "fan: ERR!" in text_of(found[f"{HERE}/gpu3"])


def test_a_gpu_off_the_bus_that_hides_the_others(machine: Machine) -> None:
    machine.wanted = {"gpus_per_node": 8}
    line = "Unable to determine the device handle for GPU 0000:91:00.0: GPU is lost.  Reboot the system"
    machine.tool("nvidia-smi", line + "\n", code=15)
    found = machine.look()
    assert found[f"{HERE}/gpu-0000:91:00.0"].status is Status.CRITICAL
    assert found[HERE].status is Status.UNKNOWN, "seven others may be there: they are not called gone"


def test_uncorrectable_errors_alarm_when_they_rise_and_are_known_in_the_next_job(machine: Machine) -> None:
    subject = f"{HERE}/gpu1"
    machine.tool("nvidia-smi", csv(WORKS, WORKS, ecc={1: 5}))
    assert machine.bad() == {}, "what the card counted in its life is no alarm"
    machine.tool("nvidia-smi", csv(WORKS, WORKS, ecc={1: 7}))
    risen = machine.look()[subject]
    assert risen.status is Status.CRITICAL
    assert "2 uncorrectable ECC errors" in text_of(risen)
    assert machine.bad() == {subject: Status.CRITICAL}, "it stays so for this job"

    machine.job = Job("89", "89", "run-17", "alice", "RUNNING", started_at=machine.now)
    recalled = machine.look()[subject]
    assert recalled.status is Status.WARNING
    assert "was bad in job 88" in text_of(recalled)
    assert [(each.node, each.strength) for each in recalled.suspects] == [(HERE, SURE)]
    assert "--exclude" not in text_of(recalled), "a plain process waits for no scheduler"
    assert machine.bad(minutes=90) == {}, "an hour of work, and it is trusted again"

    machine.job = Job("90", "90", "run-17", "alice", "RUNNING", started_at=machine.now)
    assert machine.bad() == {}


def test_a_bad_gpu_is_known_by_its_uuid_under_another_number(machine: Machine) -> None:
    machine.tool("nvidia-smi", csv(WORKS, WORKS))
    machine.look()
    machine.tool("nvidia-smi", csv(WORKS, WORKS, ecc={1: 1}))
    machine.look()
    machine.job = Job("89", "89", "run-17", "alice", "RUNNING", started_at=machine.now)
    machine.tool("nvidia-smi", csv(WORKS, first=1, ecc={1: 1}).replace(f"1, {uuid(1)}", f"0, {uuid(1)}"))
    recalled = machine.look()[f"{HERE}/gpu0"]
    assert f"then {HERE}/gpu1, was bad in job 88" in text_of(recalled)


def test_errors_that_came_between_two_jobs_are_seen(machine: Machine) -> None:
    machine.tool("nvidia-smi", csv(WORKS))
    machine.look()
    machine.job = Job("89", "89", "run-17", "alice", "RUNNING", started_at=machine.now)
    machine.tool("nvidia-smi", csv(WORKS, ecc={0: 3}))
    assert machine.bad() == {f"{HERE}/gpu0": Status.CRITICAL}


def test_remaps_throttling_and_the_cards_own_limit(machine: Machine) -> None:
    text = sample("nvidia-q.txt").replace("Attached GPUs                                          : 3", "")
    machine.tool("nvidia-smi", text)
    first = machine.look()[f"{HERE}/gpu0"]
    assert first.status is Status.WARNING
    assert "needs a reset" in text_of(first)
    assert "hw thermal slowdown" in text_of(first)
    failed = text.replace(
        "Remapping Failure Occurred                     : No", "Remapping Failure Occurred : Yes"
    )
    machine.tool("nvidia-smi", failed.replace(": 78 C", ": 93 C"))
    first = machine.look()[f"{HERE}/gpu0"]
    assert first.status is Status.CRITICAL
    assert "93 °C hot, slows down at 92 °C" in text_of(first)


@pytest.mark.parametrize(
    ("lines", "status", "said"),
    [
        ("    GPU Recovery Action : Drain P2P", Status.WARNING, "drain p2p"),
        ("    GPU Recovery Action : Reboot", Status.CRITICAL, "reboot"),
        (
            "    Fabric\n        State : Completed\n        Status : Failed",
            Status.WARNING,
            "fabric is not well: failed",
        ),
        (
            "    ECC Errors\n        Unrepairable Memory : Yes",
            Status.CRITICAL,
            "memory that cannot be repaired",
        ),
        ("    ECC Errors\n        TPC Repair Pending : Yes", Status.WARNING, "needs a reset after this job"),
    ],
)
def test_what_a_driver_asks_for_is_told(machine: Machine, lines: str, status: Status, said: str) -> None:
    works = "    Utilization\n        GPU : 99 %\n    GPU Power Readings\n        Power Draw : 600.00 W\n"
    machine.tool("nvidia-smi", f"Attached GPUs : 1\nGPU 00000000:1B:00.0\n{works}{lines}\n")
    found = machine.look()[f"{HERE}/gpu0"]
    assert found.status is status
    assert said in text_of(found)


def test_thresholds(machine: Machine) -> None:
    machine.wanted = {
        "vram_warn": 70.0,
        "vram_crit": 90.0,
        "temperature_warn": 80.0,
        "temperature_crit": 90.0,
        "power_warn": 660.0,
        "power_crit": 720.0,
    }
    machine.tool("nvidia-smi", csv(WORKS, heat=79))
    assert machine.bad() == {f"{HERE}/gpu0": Status.WARNING}
    machine.tool("nvidia-smi", csv((100, 650, 76000), heat=79))
    assert machine.bad() == {f"{HERE}/gpu0": Status.CRITICAL}
    machine.tool("nvidia-smi", csv((100, 650, 6000), heat=90))
    hot = machine.look()[f"{HERE}/gpu0"]
    assert (hot.status, "90 °C hot, limit 90 °C" in text_of(hot)) == (Status.CRITICAL, True)
    machine.tool("nvidia-smi", csv((100, 700, 6000), heat=50))
    assert machine.look()[f"{HERE}/gpu0"].summary.endswith("draws 700 W, limit 660 W")
    machine.tool("nvidia-smi", csv((100, 725, 6000), heat=50))
    assert machine.bad() == {f"{HERE}/gpu0": Status.CRITICAL}
    machine.tool("nvidia-smi", csv((100, 650, 6000), heat=50))
    assert machine.bad() == {}


def test_a_small_hold_on_a_large_gpu_can_be_a_suspect() -> None:
    """On H200 a process that has just begun holds 2 GB of 151, less than 1 % on larger GPUs."""
    sizes: dict[str, Any] = {"power_cap_w": 1000.0, "vram_total": 288 << 30}
    waits = Gpu(0, utilisation=100.0, power_w=120.5, vram_used=2 << 30, **sizes)
    guilty = Gpu(1, utilisation=0.0, power_w=120.1, vram_used=2 << 30, **sizes)
    idle = Gpu(2, utilisation=0.0, power_w=78.0, vram_used=283 << 20, **sizes)
    moment = activity.classify([NamedGpu(gpu.label, gpu) for gpu in (waits, guilty, idle)])
    assert moment.hung
    assert [each.name for each in moment.quiet] == ["gpu1"]


def test_a_hung_collective_names_its_suspects(machine: Machine) -> None:
    machine.wanted = {"gpus_per_node": 4}
    machine.tool("nvidia-smi", csv(WORKS, WORKS, WORKS, WORKS))
    assert machine.bad() == {}
    machine.tool("nvidia-smi", csv(WAITS, WAITS, STALLED, WAITS))
    hung = machine.look()["collective"]
    assert (hung.status, hung.trigger) == (Status.WARNING, "")
    assert "3 GPUs show full utilisation at 124 W" in text_of(hung)
    assert f": {HERE}/gpu2 (125 W) at 0 %, " in text_of(hung)
    assert "watchdogd stacks run-17" in commands_of(hung)
    assert machine.bad(minutes=11) == {"collective": Status.CRITICAL}
    assert machine.bad(minutes=30) == {"collective": Status.CRITICAL}, "the suspect's idleness is told there"
    assert machine.look()["collective"].trigger == "on_hang"
    machine.tool("nvidia-smi", csv(WORKS, WORKS, WORKS, WORKS))
    assert machine.look()["collective"].status is Status.OK


@pytest.mark.parametrize("cells", [(WAITS, STALLED), (STALLED, STALLED)])
def test_in_a_quiet_phase_gpus_may_wait_for_one_another(machine: Machine, cells: Any) -> None:
    """All wait for the one that saves, at a barrier of theirs or on the processor."""
    machine.tool("nvidia-smi", csv(WORKS, WORKS))
    machine.look()
    machine.progress = Progress(pause="quiet phase 'saving checkpoint'")
    machine.tool("nvidia-smi", csv(*cells))
    assert [machine.bad() for _ in range(15)] == [{}] * 15
    machine.progress = None
    assert Status.CRITICAL not in machine.bad().values()
    assert machine.bad(minutes=16)


@pytest.mark.parametrize("gap", [True, False])
def test_what_gpus_did_before_a_requeue_is_none_of_the_next_attempt(machine: Machine, gap: bool) -> None:
    """It has the same id, and begins with loading."""
    assert machine.job
    machine.tool("nvidia-smi", csv(WORKS, WORKS))
    machine.look()
    machine.tool("nvidia-smi", csv(STALLED, STALLED))
    assert machine.bad(minutes=2) == {}
    assert machine.bad(minutes=20) == {"idle": Status.WARNING}
    if gap:
        job, machine.job = machine.job, None
        machine.look()
        machine.job = job
    else:
        machine.job = replace(machine.job, started_at=machine.now)
    assert machine.bad() == {}


def test_all_wait_and_none_stands_out(machine: Machine) -> None:
    machine.tool("nvidia-smi", csv(WAITS, WAITS))
    assert machine.bad() == {}, "nobody knows yet that these GPUs can draw more"
    machine.tool("nvidia-smi", csv(WORKS, WORKS))
    assert machine.bad() == {}
    machine.tool("nvidia-smi", csv(WAITS, WAITS))
    assert "none stands out" in text_of(machine.look()["collective"])


@pytest.mark.parametrize(
    "states",
    [
        (WORKS, WORKS, STALLED),  # one between two batches
        (STALLED, STALLED, STALLED),  # the data loader is slow
        (WORKS, WAITS, STALLED),  # a pipeline's bubble
        ((100, 240, 60000), (100, 250, 60000), UNUSED),  # light work, and a GPU that nobody holds
        ((55, 180, 60000), (40, 150, 60000), STALLED),
    ],
)
def test_what_is_no_hang(machine: Machine, states: tuple[tuple[int, int, int], ...]) -> None:
    machine.wanted = {"gpus_per_node": 3}
    machine.tool("nvidia-smi", csv(*states))
    assert machine.bad() == {}
    assert machine.bad() == {}


def test_idle_gpus_while_the_job_runs(machine: Machine) -> None:
    machine.tool("nvidia-smi", csv(STALLED, STALLED))
    assert machine.bad() == {}
    assert machine.bad(minutes=10) == {}
    idle = machine.look(minutes=6)["idle"]
    assert (idle.status, "all 2 GPUs idle for 16m" in text_of(idle)) == (Status.WARNING, True)
    machine.tool("nvidia-smi", csv(WORKS, STALLED))
    idle = machine.look()["idle"]
    assert f"1 of 2 GPUs idle for 18m: {HERE}/gpu1" in text_of(idle)
    machine.tool("nvidia-smi", csv(WORKS, WORKS))
    assert machine.look()["idle"].status is Status.OK
    assert machine.bad(minutes=60) == {}


def test_the_drivers_reports_of_this_job(machine: Machine) -> None:
    table = csv(WORKS).replace("uuid,", "uuid, pci.bus_id,")
    machine.tool("nvidia-smi", table.replace(uuid(0), f"{uuid(0)}, 00000000:1B:00.0"))
    report = "kern  :warn  : {date} NVRM: Xid (PCI:0000:{bus}:00): {xid}, pid=88, x\n"
    old = report.format(date="2020-01-01T00:00:00,000000+00:00", bus="1b", xid=79)
    machine.tool("dmesg", old)
    assert machine.bad() == {}, "it came long before this job"
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S,000000+00:00", time.gmtime(START))
    machine.tool(
        "dmesg",
        old + report.format(date=stamp, bus="1b", xid=119) + report.format(date=stamp, bus="c1", xid=79),
    )
    assert machine.bad() == {f"{HERE}/gpu0": Status.CRITICAL, f"{HERE}/gpu-0000:c1:00": Status.CRITICAL}


def test_a_gpu_that_fell_off_the_bus_in_three_lines(machine: Machine) -> None:
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S,000000+00:00", time.gmtime(START))
    blank = " " * len(stamp)
    machine.tool("nvidia-smi", csv(WORKS))
    machine.tool(
        "dmesg",
        f"{stamp} NVRM: The NVIDIA GPU 0000:3a:00.0\n"
        f"{blank} NVRM: (PCI ID: 10de:2330) installed in this system has\n"
        f"{blank} NVRM: fallen off the bus and is not responding to commands.\n",
    )
    lost = machine.look()[f"{HERE}/gpu-0000:3a:00"]
    assert lost.status is Status.CRITICAL
    assert "fallen off the bus" in text_of(lost)


def test_reports_of_amds_driver(machine: Machine) -> None:
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S,000000+00:00", time.gmtime(START))
    machine.tool("rocm-smi", '{"card0": {"PCI Bus": "0000:1C:00.0", "GPU use (%)": "97"}}\n')
    machine.tool("dmesg", f"{stamp} amdgpu 0000:1c:00.0: amdgpu: GPU reset begin!\n")
    gpu = machine.look()[f"{HERE}/gpu0"]
    assert (gpu.status, "its driver reports: it was reset" in text_of(gpu)) == (Status.WARNING, True)


def stamped(*lines: str) -> str:
    """Lines of the kernel log since this job began."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S,000000+00:00", time.gmtime(START))
    return "".join(f"kern  :warn  : {stamp} {line}\n" for line in lines)


RESET = (
    "NVRM: nvAssertOkFailedNoLog: Assertion failed: Reset required [NV_ERR_RESET_REQUIRED] (0x62) returned"
)


def test_a_report_that_names_no_gpu_is_the_nodes(machine: Machine) -> None:
    machine.tool("nvidia-smi", csv(WORKS, WORKS))
    machine.tool("dmesg", stamped(*[RESET] * 200))
    node = machine.look()[HERE]
    assert node.status is Status.CRITICAL
    assert "its driver reports: Reset required [NV_ERR_RESET_REQUIRED]" in text_of(node)
    machine.tool("dmesg", stamped("NVRM: krcWatchdog_IMPL: RC watchdog: GPU is probably locked!"))
    assert machine.bad() == {HERE: Status.WARNING}
    machine.tool("dmesg", "")
    assert machine.bad() == {}


def test_many_reports_without_a_gpu_hide_no_xid_and_are_of_its_gpu(machine: Machine) -> None:
    machine.tool("nvidia-smi", csv(WORKS))
    machine.tool(
        "dmesg", stamped("NVRM: Xid (PCI:0000:c1:00): 79, GPU has fallen off the bus.", *[RESET] * 200)
    )
    assert machine.bad() == {f"{HERE}/gpu-0000:c1:00": Status.CRITICAL}


@pytest.mark.slow
def test_where_the_tool_hangs_the_kernel_says_what_is_broken(machine: Machine) -> None:
    machine.wanted = {"deadline": 6.0}
    machine.tool("nvidia-smi", "", before="sleep 60")
    machine.tool("dmesg", stamped("NVRM: Xid (PCI:0000:c1:00): 119, Timeout after 6s of waiting for RPC"))
    found = machine.look()
    assert (found[""].status, found[HERE].status) == (Status.UNKNOWN, Status.CRITICAL)
    assert "0000:c1:00 Xid 119" in text_of(found[HERE])
    machine.tool("nvidia-smi", csv(WORKS))
    machine.tool("dmesg", "")
    assert machine.look()[HERE].status is Status.OK


LIVE, MUTE = "auto", "n/a"
"""A line of rocm-smi's table whose sensors are read, and one of which none is."""


def rocm(*kinds: str) -> str:
    """rocm-smi's concise table: of all cards use and memory are told."""
    rows = {
        LIVE: "{}    51.0c  318.0W  1502Mhz  1600Mhz  0%   auto  560.0W   61%   98%",
        MUTE: "{}    N/A    N/A     None     None     0%   auto  560.0W    0%    0%",
        "busy": "{}    N/A    N/A     None     None     0%   auto  560.0W   61%   97%",
        "second": "{}    47.0c  N/A     800Mhz   1600Mhz  0%   auto  0.0W     61%   98%",
        "bare": "{}    N/A    0.0W    None     None     0%   auto  0.0W     61%   98%",
        "clock": "{}    N/A    N/A     800Mhz   1600Mhz  0%   auto  0.0W     61%   98%",
    }
    table = "\n".join(rows[kind].format(number) for number, kind in enumerate(kinds))
    title = "============ ROCm System Management Interface ============\n"
    head = "GPU  Temp   AvgPwr  SCLK     MCLK     Fan  Perf  PwrCap  VRAM%  GPU%\n"
    return f"{title}{head}{table}\n=================== End of ROCm SMI Log ===================\n"


@pytest.mark.parametrize(
    ("kinds", "bad"),
    [
        ([LIVE] * 3 + [MUTE] + [LIVE] * 4, {3: Status.CRITICAL}),
        ([LIVE] * 6 + [MUTE] + [LIVE], {6: Status.CRITICAL}),
        ([LIVE] * 7 + ["busy"], {7: Status.WARNING}),
        ([LIVE, "second"] * 4, {}),
        ([LIVE, "bare"] * 4, {}),
        ([LIVE, "bare", MUTE, "bare", LIVE, "bare", LIVE, "bare"], {2: Status.CRITICAL}),
        ([LIVE, "second", LIVE, MUTE, LIVE, "second", LIVE, "second"], {3: Status.CRITICAL}),
        ([LIVE] * 7 + ["clock"], {}),
        ([MUTE] * 8, {}),
    ],
)
def test_a_gpu_of_which_no_sensor_is_read_is_held_against_its_kind(
    machine: Machine, kinds: list[str], bad: dict[int, Status]
) -> None:
    machine.tool("rocm-smi", rocm(*kinds))
    expected = {f"{HERE}/gpu{number}": status for number, status in bad.items()}
    assert machine.bad() == expected
    assert machine.bad() == expected


def test_a_gpu_whose_sensors_fell_silent_is_held_against_itself(machine: Machine) -> None:
    machine.tool("rocm-smi", rocm(LIVE))
    assert machine.bad() == {}
    machine.tool("rocm-smi", rocm(MUTE))
    found = machine.look()[f"{HERE}/gpu0"]
    assert (found.status, "can be read of it any more" in text_of(found)) == (Status.CRITICAL, True)
    machine.tool("rocm-smi", rocm(LIVE))
    assert machine.bad() == {}


@pytest.mark.parametrize(
    "part", [{"mig": 0}, {"partition": 1}, {"name": "a display card"}, {"trouble": "GPU is lost"}]
)
def test_what_has_no_sensors_of_its_own_is_not_held_against_what_has(part: dict[str, Any]) -> None:
    board = Gpu(0, name="H100", temperature_c=50.0, power_w=300.0)
    other = Gpu(**{"index": 1, "name": "H100", "utilisation": 0.0, **part})
    named = [NamedGpu(gpu.label, gpu) for gpu in (board, other)]
    assert without_sensors(named, frozenset()) == {}
    assert without_sensors([*named, NamedGpu("x", Gpu(2, name="H100", utilisation=0.0))], frozenset()) == {
        "x": "as of the others"
    }


UNIFIED = {"power_cap_w": None, "vram_used": None, "vram_total": None}
"""A GPU that shares the machine's memory and has no cap of its own."""
BIG = {"power_cap_w": 1200.0, "vram_used": 60 << 30, "vram_total": 185 << 30}


@pytest.mark.parametrize(
    ("kind", "worked", "now", "hung"),
    [
        (UNIFIED, 60.0, 13.0, True),
        (UNIFIED, 60.0, 25.0, False),  # lighter work, where no cap says more
        (BIG, 984.0, 440.0, True),
        (BIG, 984.0, 600.0, False),
        (BIG, 460.0, 440.0, False),
        (BIG, 984.0, 300.0, True),
    ],
)
def test_a_power_near_idle_is_one_far_below_its_own_before(
    kind: dict[str, Any], worked: float, now: float, hung: bool
) -> None:
    def gpus(watts: float, use: float) -> list[NamedGpu]:
        return [NamedGpu(f"n/gpu{n}", Gpu(n, utilisation=use, power_w=watts, **kind)) for n in range(2)]

    alerts = GpuHealthState()
    for watts in (worked, worked * 1.3, worked, worked, worked, worked):
        moment = activity.classify(gpus(watts, 98.0), frozenset(alerts.used), alerts.power)
        assert not moment.hung
        alerts.worked([each.name for each in moment.busy], moment.drawn)
    for _ in range(30):
        moment = activity.classify(gpus(now, 96.0), frozenset(alerts.used), alerts.power)
        alerts.worked([each.name for each in (*moment.busy, *moment.waiting)], moment.drawn)
        assert moment.hung is hung


def test_while_steps_come_in_their_rhythm_ranks_may_wait_for_one_another(machine: Machine) -> None:
    """A trainer waits for rollouts of another job for longer than its update takes."""
    machine.tool("nvidia-smi", csv(WORKS, WORKS, WORKS))
    machine.look()
    machine.tool("nvidia-smi", csv(STALLED, WAITS, WAITS))
    for _ in range(30):
        machine.progress = Progress(at=machine.now - 60.0, within=720.0)
        assert machine.bad() == {}
    assert machine.bad(minutes=7.0) == {}
    assert machine.bad(minutes=2.0) == {"collective": Status.CRITICAL}, "the next step is late"
    hung = machine.look()["collective"]
    assert hung.progress
    assert hung.progress.stalled
    machine.progress = Progress(at=machine.now + 100.0, within=720.0)
    over = machine.look()["collective"]
    assert (over.status, over.progress) == (Status.OK, Progress())


@pytest.mark.parametrize(
    "progress", [None, Progress(), Progress(stalled=True, at=START), Progress(at=START - 900.0, within=300.0)]
)
def test_without_a_step_in_its_time_the_signature_stands(machine: Machine, progress: Progress | None) -> None:
    machine.progress = progress
    machine.tool("nvidia-smi", csv(STALLED, WAITS, WAITS))
    assert machine.bad() == {"collective": Status.WARNING}
    assert machine.bad(minutes=11) == {"collective": Status.CRITICAL}


def test_nothing_is_judged_without_a_job(machine: Machine) -> None:
    machine.tool("nvidia-smi", sample("nvidia-table.txt"))
    assert machine.bad()
    machine.job = None
    for _ in range(3):  # as often as the end has to be confirmed
        found = machine.look()
        assert len(found) > 1
        assert {each.status for each in found.values()} == {Status.OK}
        assert all(each.quiet for subject, each in found.items() if subject)


# ------------------------------------------------------------------ the figures of each node


def judged(alerts: GpuHealthState, *nodes: GpuNode) -> dict[str, Result]:
    """Results by subject of one look at a job on these nodes."""
    job = Job("88", "88", "run-17", "alice", "RUNNING", started_at=START)
    run, patience = Run("run-17", "run-17"), Patience(600.0, 900.0, 3600.0)
    limits = GpuLimits(gpus_per_node=2, temperature_crit=95.0)
    found = list(judge(GpuSurvey(nodes), alerts, limits, patience, job, run, START))
    assert len({result.subject for result in found}) == len(found), "each subject is spoken of once"
    return {result.subject: result for result in found}


def node(name: str, *gpus: Gpu) -> GpuNode:
    return GpuNode(name, Readout(gpus))


COOL = Gpu(0, utilisation=90.0, power_w=600.0, temperature_c=60.0, vram_percent=40.0)
HOT = Gpu(1, utilisation=100.0, power_w=650.0, temperature_c=71.0, vram_percent=80.0)


def test_each_node_has_figures_of_its_own() -> None:
    found = judged(GpuHealthState(), node("node5", COOL, HOT), node("node6", COOL, COOL))
    figures = {name: metric.value for name, metric in found["node5"].metrics.items()}
    assert figures == {"utilisation": 95.0, "power": 625.0, "temperature": 71.0, "vram": 80.0}
    assert found["node6"].metrics["temperature"].value == 60.0
    assert found["node5"].metrics["temperature"].crit == 95.0
    assert found["node5"].status is Status.OK
    assert found["node5"].summary == (
        "node5: utilisation 90 to 100 %, power 600 to 650 W, temperature 60 to 71 °C, vram 40 to 80 %"
    )


def test_a_node_that_is_told_of_keeps_its_figures_and_says_when_it_is_well_again() -> None:
    alerts = GpuHealthState()
    lost = judged(alerts, node("node5", COOL), node("node6", COOL, HOT))["node5"]
    assert (lost.status, lost.metrics["temperature"].value) == (Status.CRITICAL, 60.0)
    again = judged(alerts, node("node5", COOL, HOT), node("node6", COOL, HOT))["node5"]
    assert (again.status, again.metrics["temperature"].value) == (Status.OK, 71.0)
    assert again.summary == "node5 is healthy again"


def test_a_gpu_that_is_lost_and_one_that_tells_nothing_have_no_figures() -> None:
    broken = Gpu(1, trouble="GPU is lost", utilisation=0.0, temperature_c=0.0)
    found = judged(GpuHealthState(), node("node5", COOL, broken), node("node6", Gpu(0), Gpu(1)))
    assert found["node5"].metrics["utilisation"].value == 90.0
    assert "node6" not in found


def test_of_a_large_job_the_first_nodes_and_the_bad_ones_are_recorded() -> None:
    nodes = [node(f"node{number:03}", COOL, HOT) for number in range(300)]
    found = judged(GpuHealthState(), *nodes, node("node300", COOL))
    recorded = [subject for subject, result in found.items() if subject and result.metrics]
    assert len(recorded) == 65
    assert "node300" in recorded
    assert found[""].metrics["gpus"].value == 601


# ------------------------------------------------------------------ samples that the job's own probe left

OTHER = "nobody"


def leave(
    machine: Machine, name: str, *gpus: Gpu, job: str = "88", age: float = 0.0, user: str = OTHER
) -> None:
    """A sample of node `name`, `age` seconds old."""
    path = machine.folder / "inbox" / f"run-17.sample.{name}.77.json"
    path.write_text(samples.gpus_json(GpuSample("run-17", job, GpuNode(name, Readout(gpus)))))
    entry = pwd.getpwnam(user)
    os.chown(path, entry.pw_uid, entry.pw_gid)
    os.utime(path, (machine.now + 120 - age,) * 2)


@pytest.fixture
def foreign(machine: Machine) -> Machine:
    """A job of somebody else on two nodes."""
    machine.backend = "slurm"
    machine.job = Job("88", "88", "run-17", OTHER, "RUNNING", nodes="node[5-6]", started_at=START)
    machine.wanted = {"gpus_per_node": 1}
    return machine


@pytest.mark.root
def test_samples_in_the_inbox_are_judged(foreign: Machine) -> None:
    work = Gpu(0, utilisation=97.0, power_w=600.0)
    leave(foreign, "node5", work)
    leave(foreign, "node6", Gpu(0, trouble="GPU is lost"))
    assert foreign.bad() == {"node6/gpu0": Status.CRITICAL}
    leave(foreign, "node5", work)
    leave(foreign, "node6", work, age=900)
    found = foreign.look()
    assert (found["node6"].status, "silent for 15m" in text_of(found["node6"])) == (Status.UNKNOWN, True)
    leave(foreign, "node5", work)
    leave(foreign, "node6", work, job="87")
    assert "left no sample" in text_of(foreign.look()["node6"])


@pytest.mark.root
def test_only_the_jobs_owner_is_believed(foreign: Machine) -> None:
    leave(foreign, "node5", Gpu(0, trouble="GPU is lost"), user="daemon")
    assert foreign.bad() == {}
    assert len(foreign.notices) == 1


def test_no_way_in_is_told_once_and_is_no_standing_unknown(foreign: Machine) -> None:
    for _ in range(3):
        assert foreign.bad() == {}
    (notice,) = foreign.notices
    assert "watchdogd probe --run run-17 &" in notice


# ------------------------------------------------------------------ an own job, through srun


@pytest.fixture
def own(machine: Machine) -> Machine:
    """An own job on two nodes; srun answers for node5, and for node6 as `node6` in the folder says."""
    machine.backend = "slurm"
    me = pwd.getpwuid(os.geteuid()).pw_name
    machine.job = Job("88", "88", "run-17", me, "RUNNING", nodes="node[5-6]", started_at=START)
    machine.wanted = {"gpus_per_node": 1, "deadline": 2.0}
    (machine.folder / "node5").write_text(answer("node5"))
    script = (
        f'echo "$@" >> {machine.folder}/calls; n=0\n'
        f"for node in node5 node6; do case $* in *nodelist=*$node*) "
        f'sed "s/^/$n: /" {machine.folder}/$node; n=$((n+1));; esac; done\n'
    )
    machine.tool("srun", "", before=script)
    return machine


def answer(node: str) -> str:
    """A probe's whole output."""
    return f"@@ node {node}\n@@ run nvidia-smi -q\n{csv(WORKS)}@@ exit 0\n@@ end\n"


def test_a_node_that_stays_silent_is_left_in_peace_for_a_while(own: Machine) -> None:
    (own.folder / "node6").write_text("")
    for _ in range(4):
        assert own.bad(minutes=1) == {"node6": Status.UNKNOWN}
    calls = (own.folder / "calls").read_text().split("--nodelist=")[1:]
    asked = [call.split()[0] for call in calls]
    assert asked == ["node5,node6", "node5,node6", "node5", "node5"]
    (own.folder / "node6").write_text(answer("node6"))
    found = own.look(minutes=5)
    assert found["node6"].status is Status.OK
    assert found[""].summary.startswith("2 GPUs on 2 nodes")


def test_a_step_that_slurm_refuses_is_told_once(own: Machine) -> None:
    own.tool("srun", "", before="echo 'srun: error: Access/permission denied' >&2; exit 1")
    assert own.bad() == {}
    assert own.bad() == {}
    assert len(own.notices) == 1


def test_no_node_answers_is_one_unknown(own: Machine) -> None:
    (own.folder / "node5").write_text("")
    (own.folder / "node6").write_text("")
    for _ in range(3):
        assert own.bad(minutes=1) == {"": Status.UNKNOWN}


@pytest.mark.root
def test_fresh_samples_of_an_own_job_save_the_step(own: Machine) -> None:
    assert own.job is not None
    for name in ("node5", "node6"):
        leave(own, name, Gpu(0, utilisation=97.0), user=own.job.user)
    assert own.bad() == {}
    assert not (own.folder / "calls").exists()


# ------------------------------------------------------------------ signs of work


def strength_of(machine: Machine, *states: tuple[int, int, int], gets_on: bool = False) -> Strength | None:
    """What one look says of the run's work; its log tells progress now, or has told none for an hour."""
    machine.tool("nvidia-smi", csv(*states))
    machine.progress = Progress(at=machine.now if gets_on else machine.now - 3600.0, within=300.0)
    found = machine.look()[""].signs
    assert len(found) <= 1
    return found[0].strength if found else None


@pytest.mark.parametrize(
    ("usual", "now", "strength"),
    [
        (WORKS, WORKS, Strength.STRONG),
        (WORKS, (97, 480, 60000), Strength.STRONG),
        (WORKS, (100, 400, 60000), None),
        (WORKS, WAITS, Strength.AGAINST),
        (WORKS, STALLED, Strength.AGAINST),
        (WORKS, (100, 300, 60000), Strength.AGAINST),  # spins at more than near idle: as some cards do
        ((45, 290, 60000), (60, 260, 60000), Strength.STRONG),  # it waits for data half of the time
        ((45, 290, 60000), WAITS, Strength.AGAINST),
        ((100, 140, 9000), WAITS, None),  # work so light draws what waiting draws: nobody can say
    ],
)
def test_gpus_work_where_they_draw_what_they_drew_while_the_run_got_on(
    machine: Machine,
    usual: tuple[int, int, int],
    now: tuple[int, int, int],
    strength: Strength | None,
) -> None:
    for _ in range(6):
        strength_of(machine, usual, usual, gets_on=True)
    assert strength_of(machine, now, now) is strength


def test_gpus_that_hang_teach_nothing_of_what_work_draws(machine: Machine) -> None:
    strength_of(machine, WORKS, WORKS, gets_on=True)
    for _ in range(30):
        assert strength_of(machine, STALLED, WAITS, gets_on=True) is Strength.AGAINST
    [sign] = machine.look()[""].signs
    assert sign.what == "its 2 GPUs draw only 125 W each, 650 W while it got on"
    assert sign.at - sign.since == 30 * 120.0


@pytest.mark.parametrize(("watts", "strength"), [(650, Strength.STRONG), (260, None)])
def test_before_the_first_step_only_a_power_far_above_idle_is_work(
    machine: Machine, watts: int, strength: Strength | None
) -> None:
    assert strength_of(machine, (100, watts, 60000), (100, watts, 60000)) is strength


def test_gpus_that_the_run_does_not_use_say_nothing(machine: Machine) -> None:
    for _ in range(3):
        strength_of(machine, WORKS, UNUSED, UNUSED, UNUSED, gets_on=True)
    assert strength_of(machine, WORKS, UNUSED, UNUSED, UNUSED) is Strength.STRONG


def test_gpus_that_wait_while_a_checkpoint_grows_are_no_hang_for_as_long_as_a_save_may_take(
    machine: Machine,
) -> None:
    machine.tool("nvidia-smi", csv(WORKS, WORKS))
    machine.look()
    machine.tool("nvidia-smi", csv(STALLED, WAITS))
    begin = machine.now
    for _ in range(20):
        machine.signs = (Sign("checkpoints", "they grew", machine.now, begin),)
        assert machine.bad() == {}
    machine.signs = (Sign("checkpoints", "they grew", machine.now, machine.now - 3 * 3600.0),)
    assert machine.bad() == {"collective": Status.WARNING}
