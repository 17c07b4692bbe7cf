"""Tools of the site that misbehave, one after another or side by side, under one daemon.

Each fault is told as what nobody knows, never as a run, GPU or quota that is gone; a lever is told meanwhile.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import shlex
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.faults.rig import Rig
from tests.servers.web import WebServer
from tests.waiting import wait_until
from watchdogd.batch import slurm, slurm_snapshot, squeue
from watchdogd.errors import SlurmOddError, SlurmSilentError
from watchdogd.plugins.disk_quota import quota_sources
from watchdogd.system.mounts import Mount

SLEEP = f"31416.{os.getpid()}"
"""Seconds for which tools that hang are to sleep: by this they are known, each test process's own."""
FAULTS = f"""
fault() {{
    case $1$2 in floods--query-gpu*|floods-g) set lies ;; esac
    case $1 in
    hangs) trap '' TERM; while :; do sleep {SLEEP}; done ;;
    rubbish) head -c 5000 /dev/urandom | tr -d '\\036\\037'; exit 0 ;;
    half) printf %s "$half"; exit 0 ;;
    lies) echo "error: the controller is away" >&2; exit 0 ;;
    foreign) printf 'Fehler: der Verwalter antwortet nicht (Zeit\\374berschreitung)\\n'; exit 0 ;;
    floods) yes 'error: the same line comes again and again' | head -c 1000000000; exit 0 ;;
    esac
}}
fault_of() {{ cat "{{place}}/$1.fault" 2>/dev/null; }}
"""
IN_PLACE = ("hangs", "rubbish", "half", "lies", "foreign", "floods")
"""Faults of a tool that runs; the others are that it is `gone`, or `locked`: not executable."""
SLOW = ("hangs", "floods")
TOOLS = {
    "squeue": 'half=$(head -c 60 "$place/queue"); fault "$(fault_of squeue)"; cat "$place/queue"',
    "sacct": 'half="300${f}300${f}COMPL"; fault "$(fault_of sacct)"',
    "scontrol": 'echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1',
    "sbatch": 'half=51; for last; do :; done; name=${last##*/}; fault "${name%.slurm}"; echo 5001',
    "lfs": """
half="Disk quotas for usr root (uid 0):\n /scr 10 20"
for last; do :; done
name=${last##*/}
case $name$2 in floods-u) ;; floods*) name=lies ;; esac
fault "$name"
""",
    "quota": 'half="Disk quotas for user root (uid 0):\n /scr 10 20"; fault "$(fault_of quota)" "$3"',
    "nvidia-smi": 'half=$(head -n 5 "$place/gpus"); fault "$SLURMD_NODENAME" "$1"; cat "$place/gpus"',
    "srun": """
half='0: @@ no'
for word; do
    case $word in --jobid=*) job=${word#*=} ;; --nodelist=*) nodes=${word#*=} ;; esac
done
fault "$(fault_of "srun-$job")"
while [ "$1" != -- ]; do shift; done
shift
nodes=$(echo "$nodes" | tr , ' ')
for node in $nodes; do
    case $node in gone) path=$place/bin ;; locked) path=$place/locked:$place/bin ;; *) path=$PATH ;; esac
    PATH=$path SLURMD_NODENAME=$node "$@" >"$place/$job.$node" 2>&1 &
done
wait
for node in $nodes; do
    number=$((number + 1))
    sed "s/^/$number: /" "$place/$job.$node"
done""",
}
GPUS = """Attached GPUs                             : 2
GPU 00000000:1B:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    GPU UUID                              : GPU-0c5e77aa-0000-4000-8000-000000000001
    Utilization
        Gpu                               : 97 %
GPU 00000000:3D:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    GPU UUID                              : GPU-0c5e77aa-0000-4000-8000-000000000002
    Utilization
        Gpu                               : 98 %
"""
SQUEUE = {
    "hangs": "squeue did not answer within",
    "rubbish": "squeue printed a line",
    "half": "breaks off",
    "lies": "squeue listed nothing and said: error: the controller is away",
    "foreign": "squeue printed a line that is no job",
    "floods": "squeue (printed more than 64 MiB|did not answer)",
    "gone": "squeue cannot be run: No such file",
    "locked": "squeue cannot be run: Permission denied",
}
SACCT = {
    "hangs": "sacct did not answer within",
    "rubbish": "sacct printed a line",
    "half": "sacct printed a line that breaks off",
    "lies": "sacct listed nothing and said: error: the controller is away",
    "foreign": "sacct printed a line that is no job",
    "floods": "sacct(: sacct)? (printed more than 64 MiB|did not answer)",
    "gone": "sacct cannot be run: No such file",
    "locked": "sacct cannot be run: Permission denied",
}
QUOTA = {
    "hangs": "quota did not answer within",
    "rubbish": "cannot be read",
    "half": "cannot be read",
    "lies": "the controller is away",
    "foreign": "cannot be read",
    "floods": "quota printed more than 64 MiB|did not answer within",
    "gone": "quota cannot be run: No such file",
    "locked": "quota cannot be run: Permission denied",
}
LFS = {**{name: words.replace("quota", "lfs") for name, words in QUOTA.items()}, "half": "cannot be read"}
SBATCH = {
    "rubbish": "sbatch printed no job id",
    "half": "sbatch printed no job id: '51'",
    "lies": "sbatch printed no job id: 'error: the controller is away'",
    "foreign": "sbatch printed no job id: 'Fehler",
}
SMI = {
    "hangs": "nvidia-smi hangs",
    "rubbish": "says nothing of GPUs",
    "half": "there may be more",
    "lies": "says nothing of GPUs: 'error: the controller is away'",
    "foreign": "says nothing of GPUs: 'Fehler",
    "floods": "^UNKNOWN floods: ",
    "gone": "there is no nvidia-smi",
    "locked": "^UNKNOWN locked: ",
}
SRUN = {
    "hangs": "did not answer within",
    "rubbish": "it said nothing",
    "half": "it said nothing",
    "lies": "error: the controller is away",
    "foreign": "it said nothing",
    "floods": "printed more than 64 MiB|did not answer",
    "gone": "srun cannot be run: No such file",
    "locked": "srun cannot be run: Permission denied",
}
OFTEN = ("srun-gone", "srun-locked", "srun-hangs", "srun-floods", "slow", "gone", "locked", "quota")
"""Runs and disks whose tools change, or take until a deadline: looked at each second, others each tenth."""
PATIENT = 50.0
"""Seconds for what answers, however busy the machine: a node that was silent is not asked for a while."""
DEADLINES = {"srun-hangs": 2.0, "slow": 15.0}
"""Seconds for what hangs."""
SRUN_JOBS = {name: str(200 + number) for number, name in enumerate(SRUN)}


class Site:
    """The daemon, and the tools on its PATH. It has nothing else of Slurm's, nor a quota tool."""

    def __init__(self, place: Path, endpoint: WebServer) -> None:
        self.place = place
        self.tools = place / "tools"
        self.user = pwd.getpwuid(os.geteuid()).pw_name
        for folder in (self.tools, place / "locked", place / "bin"):
            folder.mkdir()
        for tool in Path("/usr/bin").iterdir():
            if tool.name not in TOOLS:
                (place / "bin" / tool.name).symlink_to(tool)
        text = FAULTS.replace("{place}", str(place))
        for name, body in TOOLS.items():
            head = f"#!/bin/sh\nplace={shlex.quote(str(place))}\nf=$(printf '\\037')\n{text}\n"
            (self.tools / name).write_text(f"{head}{body}\n")
            (self.tools / name).chmod(0o755)
        (place / "locked" / "nvidia-smi").write_text("#!/bin/sh\n")
        (place / "gpus").write_text(GPUS)
        quick = [name for name in SMI if name not in SLOW]
        self.jobs = {
            "100": ("bloom", [*quick, "well"]),
            "300": ("vanished", ["well"]),
            "301": ("lost", ["well"]),
        }
        self.jobs |= {job: (f"srun-{name}", ["well"]) for name, job in SRUN_JOBS.items()}
        self.jobs["400"] = ("slow", [*SLOW, "well"])
        self.show(*self.slow)
        for name, job in SRUN_JOBS.items():
            if name in IN_PLACE:
                self.break_(f"srun-{job}", name)
        self.rig = Rig(place / "home", place, endpoint, more=self._config())
        self.rig.env["PATH"] = f"{self.tools}:{place / 'bin'}"
        config = self.rig.home / "config.toml"
        config.write_text(config.read_text().replace('"3s"', '"8s"', 1))

    def drop_in(self, name: str) -> None:
        """A script for sbatch, which has the fault of that name with it."""
        script = self.rig.home / "cron.hourly" / f"{name}.slurm"
        script.write_text("#!/bin/sh\n#SBATCH --time=1\n")
        script.chmod(0o700)

    @property
    def slow(self) -> tuple[str, ...]:
        """The jobs of which there is no answer for a while."""
        return "400", *(SRUN_JOBS[fault] for fault in SLOW)

    def _config(self) -> str:
        runs = "".join(
            f'[runs.{name}]\ngpus_per_node = 2\nabsent_after = "{"5s" if name == "lost" else "1h"}"\n'
            f'[runs.{name}.checks.gpu_health]\ndeadline = "{DEADLINES.get(name, PATIENT)}s"\n'
            f'every = "{"1s" if name in OFTEN else "10s"}"\n'
            for name, _ in self.jobs.values()
        )
        disks = ""
        for name in (*LFS, "quota"):
            path = self.place / "lfs" / name
            path.mkdir(parents=True)
            if name == "hangs":
                continue
            disks += (
                f'[disks.lfs-{name}]\npath = "{path}"\nquota = "{"posix" if name == "quota" else "lustre"}"\n'
                'warn_free = "1B"\ncrit_free = "1B"\nwarn_inodes_free = "1"\ncrit_inodes_free = "1"\n'
                f'[disks.lfs-{name}.checks.disk_quota]\nevery = "{"1s" if name in OFTEN else "10s"}"\n'
            )
        return f'[slurm]\nmin_poll = "0.5s"\nusers = ["{self.user}"]\n{runs}{disks}'

    def show(self, *without: str) -> None:
        """What squeue lists: all jobs but those."""
        now = int(time.time())
        times = {"V": now - 900, "S": now - 600, "e": now + 90_000, "l": "1-00:00:00"}
        records = []
        for job, (name, nodes) in self.jobs.items():
            said = {
                **dict.fromkeys("iAF", job),
                **times,
                "T": "RUNNING",
                "u": self.user,
                "P": "gpu",
                "j": name,
            }
            said |= {"N": ",".join(nodes), "D": len(nodes)}
            if job not in without:
                records.append(_record(said))
        self._write("queue", "".join(f"{record}\n" for record in records))

    def _write(self, name: str, text: str) -> None:
        (self.place / "draft").write_text(text)
        (self.place / "draft").rename(self.place / name)

    def break_(self, tool: str, fault: str) -> None:
        """From now on it has that fault."""
        if fault == "gone":
            (self.tools / tool).rename(self.place / f"{tool}.gone")
        elif fault == "locked":
            (self.tools / tool).chmod(0o644)
        else:
            self._write(f"{tool}.fault", fault)

    def mend(self, tool: str) -> None:
        """It does what it should."""
        (self.place / f"{tool}.fault").unlink(missing_ok=True)
        if (self.place / f"{tool}.gone").exists():
            (self.place / f"{tool}.gone").rename(self.tools / tool)
        (self.tools / tool).chmod(0o755)

    def said(self, check: str) -> list[str]:
        """What a check said last of each subject, with its status."""
        status: dict[str, Any] = json.loads((self.rig.home / "status.json").read_text())
        return [
            "; ".join([f"{each['status']} {each['summary']}", *each.get("facts", ())])
            for each in status["checks"]
            if each["check"] == check
        ]

    def wait_said(self, check: str, status: str, words: str) -> None:
        def heard() -> bool:
            said = self.said(check)
            assert not any(each.startswith("CRITICAL") for each in said), said
            return any(each.startswith(status) and re.search(words, each) for each in said)

        try:
            waited = wait_until(heard, 150, f"{check} says {status} {words!r}")
        except AssertionError:
            print(f"{check} says {self.said(check)}")
            raise
        print(f"{check} says {status} {words!r} after {waited.seconds:.1f} s")


def _record(said: dict[str, Any]) -> str:
    """A job as squeue prints it: fields by their letters."""
    return re.sub("%(.)", lambda at: str(said.get(at[1], "(null)")), squeue.FORMAT)


@pytest.fixture
def site(tmp_path: Path, endpoint: WebServer) -> Site:
    return Site(tmp_path, endpoint)


def sleepers() -> list[int]:
    """Tools that hang still."""
    return [each.pid for each in psutil.process_iter(["cmdline"]) if SLEEP in (each.info["cmdline"] or ())]


def squeue_fails(site: Site) -> None:
    for fault, words in SQUEUE.items():
        site.break_("squeue", fault)
        site.wait_said("bloom/job_liveness", "UNKNOWN", words)
        site.mend("squeue")
    site.wait_said("bloom/job_liveness", "OK", "")


def others_fail(site: Site) -> None:
    """sacct is asked since a job is out of the queue; beside it quota, lfs and srun have the same fault."""
    site.show("300", *site.slow)
    for fault in SACCT:
        if fault == "hangs":
            continue
        missing = fault not in IN_PLACE
        broken = ("quota", "sacct", *(("lfs", "srun") if missing else ()))
        for tool in broken:
            site.break_(tool, fault)
        site.wait_said("vanished/job_liveness", "OK", SACCT[fault])
        site.wait_said("lfs-quota/disk_quota", "UNKNOWN", QUOTA[fault])
        if missing:
            site.wait_said(f"lfs-{fault}/disk_quota", "UNKNOWN", LFS[fault])
            site.wait_said(f"srun-{fault}/gpu_health", "UNKNOWN", SRUN[fault])
        for tool in broken:
            site.mend(tool)


def all_are_slow(site: Site) -> None:
    """What hangs, or prints a gigabyte."""
    site.show("300")
    for fault in SLOW:
        site.wait_said(f"srun-{fault}/gpu_health", "UNKNOWN", SRUN[fault])
        site.wait_said("slow/gpu_health", "UNKNOWN", SMI[fault])
    site.show("300", "301", *site.slow)


@pytest.mark.timeout(1800)
def test_each_fault_of_each_tool(site: Site) -> None:
    rig = site.rig
    rig.start()
    try:
        squeue_fails(site)
        rig.pull()
        for fault, words in SMI.items():
            if fault not in SLOW:
                site.wait_said("bloom/gpu_health", "UNKNOWN", words)
        others_fail(site)
        rig.pull()
        lever = rig.break_lever()
        all_are_slow(site)
        rig.wait_told(f"[CRITICAL] {lever.name}")
        rig.mend_lever(lever)
        site.break_("sacct", "lies")
        site.drop_in("lies")
        rig.wait_told("[CRITICAL] lost: gone, last seen", "sacct listed nothing")
        for fault in IN_PLACE:
            rig.wait_told(f"[UNKNOWN] srun-{fault}: ")
            if fault != "hangs":
                rig.wait_told(f"[UNKNOWN] lfs-{fault}: ")
        rig.wait_told("[UNKNOWN] cron.hourly/lies.slurm: ", "sbatch printed no job id")
        rig.wait_told("[UNKNOWN] bloom-watch: Slurm does not answer")
        wait_until(lambda: rig.recorded() == rig.pulled, 60, "all is recorded", every=0.5)
        wait_until(lambda: not sleepers(), 60, "no tool is left", every=0.5)
        bad = {body["target"] for body in map(json.loads, rig.bodies) if body["status"] == "CRITICAL"}
        assert bad == {"lost", *rig.pulled}
        logs = "".join(path.read_text() for path in (rig.home / "logs").iterdir())
        assert "Traceback" not in logs + rig.output
    finally:
        rig.end()


def test_what_hangs_is_left_at_its_deadline(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those that have a long one. A drop-in tells of an sbatch without an answer after a while."""
    monkeypatch.setenv("PATH", f"{site.tools}:{site.place / 'bin'}")
    for fault, words in SBATCH.items():
        with pytest.raises(SlurmOddError, match=words):
            slurm.sbatch((fault,), "")
    monkeypatch.setattr(slurm, "SBATCH_DEADLINE", 0.5)
    monkeypatch.setattr(quota_sources, "DEADLINE", 0.5)
    with pytest.raises(SlurmSilentError, match=r"sbatch did not answer within 0\.5 s"):
        slurm.sbatch(("hangs",), "")
    site.break_("quota", "hangs")
    site.break_("sacct", "hangs")
    place = quota_sources.QuotaPath(str(site.place / "lfs" / "hangs"), Mount("/", "/dev/sda1", "ext4"), 0.0)
    for source, tool in (("posix", "quota"), ("lustre", "lfs")):
        said = quota_sources.ask_quotas(source, place)
        assert (said.limits, said.trouble) == ((), f"{tool} did not answer within 0.5 s")
    seen = slurm_snapshot.look({"bloom"}, {site.user}, {"300": 1.0, "99": 1.0}, 10.0, 2.0)
    assert seen.jobs
    assert re.search(SACCT["hangs"], seen.endings_trouble)
    wait_until(lambda: not sleepers(), 60, "no tool is left", every=0.1)
