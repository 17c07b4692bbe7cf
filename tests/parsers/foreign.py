"""All readers of foreign text in one table: each with an output that it understands."""

# ruff: noqa: E501 - tools' lines stand as they are printed

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from tests.notify.values import letter
from tests.parsers.gpu_samples import sample, sample_bytes
from tests.servers import ras
from watchdogd import training
from watchdogd.batch import (
    node_steps,
    pending_reasons,
    qstat,
    sacct,
    scontrol,
    sinfo,
    slurm,
    slurmtext,
    squeue,
)
from watchdogd.chain import link_script
from watchdogd.chain.live_links import begins_of
from watchdogd.checks import checkpoint_files, checkpoint_shards
from watchdogd.cli import lookup, status
from watchdogd.config import switch_places
from watchdogd.config.loading import parse
from watchdogd.daemon import inbox_reader, status_file
from watchdogd.daemon.chat_answers import AnswerBook
from watchdogd.doctor import setup_wizard, tools
from watchdogd.home import inbox, lease_record, markers, switches, touchfile
from watchdogd.home.layout import Home
from watchdogd.notify import locks, mail_replies
from watchdogd.notify.answers import EVERYBODY
from watchdogd.notify.http_client import WebReply
from watchdogd.notify.slack_reactions import SlackReactions
from watchdogd.parsers import (
    faulthandler,
    guard_heartbeat,
    nagios,
    nccl_ras,
    nccl_ras_reports,
    probe_sample,
    pyspy,
)
from watchdogd.parsers import probe_sample as probes
from watchdogd.parsers.gpu import amd_smi, kernel_log, node_script, nvidia_smi, rocm_smi
from watchdogd.parsers.logs import failures, line_shapes, log_lines, measures, progress, structured_files
from watchdogd.parsers.quota import beegfs, gpfs, lfs_quota, repquota, site_tool, zfs_btrfs_ceph
from watchdogd.plugins.log_staleness import replay
from watchdogd.plugins.project_hours import budgets
from watchdogd.preflight import affinity, gpu_trial, inspection, surroundings
from watchdogd.probe import node_answers, node_ranks
from watchdogd.remediation import executor, flight_recorder
from watchdogd.stacks import node_stacks, stack_collection
from watchdogd.system import mounts
from watchdogd.system.account import group_id
from watchdogd.system.bounded_io import BoundedIO
from watchdogd.system.number import digits
from watchdogd.system.smallfile import MISSHAPEN
from watchdogd.system.times import parse_walltime
from watchdogd.units import parse_amount, parse_duration, parse_rate, parse_size
from watchdogd.web.metrics import metrics_text

STATUS = json.dumps(
    {"last_round": "2026-11-28T10:11:12+01:00", "round_every": 60.0, "link": {"job": "88"}, "gaps": [],
     "silences": [{"target": "tr4", "until": "2026-11-28T12:00:00+01:00", "by": "ines", "reason": "x"}],
     "incidents": [{"id": 7, "status": "CRITICAL", "check": "tr4/log_staleness", "target": "tr4", "run": "tr4",
                    "summary": "stalled", "opened_at": "2026-11-28T10:00:00+01:00", "acknowledged_by": None}],
     "checks": [{"check": "scratch/disk_quota", "run": None, "target": "scratch", "subject": None, "status": "OK",
                 "summary": "79 %", "at": "2026-11-28T10:11:12+01:00",
                 "metrics": {"used": {"value": 1.0, "unit": "B", "warn": None, "crit": 2.0}}}]}
)  # fmt: skip
DELIVERED = '{"key": "k", "channel": "hook", "receipt": "", "partly": false, "at": 1795800000.5}\n{"holder": {"host": "n1"}}\n'
FLIGHT = """Not all ranks joining collective, sequence number: 12
internal record id: 11
group info: 0:default_pg
collective: nccl:all_reduce
missing ranks: {1, 3}
input sizes: [[1024]]
error msg: Culprit rank 1; all_reduce: sizes differ
"""
PATIENT = BoundedIO("home")
MANIFEST = json.dumps(
    {"kill_switch": "/scratch/kill", "save_switch": "/scratch/save", "inbox": "/h/inbox", "group": "six",
     "memory_free": "5%", "node_disks": ["/tmp"]}
)  # fmt: skip
F, R = slurmtext.FIELD, slurmtext.RECORD
JOB = R + F.join(
    ["88_[1-4%2]", "88", "88", "RUNNING", "None", "ines", "gpu", "six", "(null)", "n[1-2]", "", "2",
     "1795800000", "1795800100", "1795900000", "1-00:00:00", "/work", "(null)", "tr 4"]
) + "\n"  # fmt: skip
END = F.join(
    ["88", "88", "FAILED", "1:0", "1795800000", "1795800100", "1795900000", "ines", "4012", "n[1-2]", "None",
     "", "sbatch t.slurm", "tr4"]
) + "\n"  # fmt: skip
NODE = F.join(["n1", "gpu", "idle*", "1795800000", "root", "none"]) + "\n"
LOG = """2026-11-28 10:00:00 iteration 12/ 900 | elapsed time per iteration (ms): 812.4 | lm loss: 2.31E+00 | grad norm: 1.2
Epoch 3: 12%|#4   | 120/1000 [00:10<01:20, 11.0it/s, loss=2.31]
{"loss": 2.3, "step": 12, "epoch": 0.4}
[rank3]: RuntimeError: NCCL communicator was aborted; Connection refused 10.0.0.1:2950
n1: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 79 GiB
n1:77:77 [0] NCCL INFO Using network IB 10.0.0.1<0>
\x1b[31mFATAL\x1b[0m core dumped: Segmentation fault (core dumped)
number of skipped iterations: 3 | global batch size: 512 | tokens per second: 1,234.5
"""
DMESG = """[Sat Nov 28 10:11:12 2026] NVRM: Xid (PCI:0000:9b:00): 79, pid=77, GPU has fallen off the bus.
2026-11-28T10:11:12,123456+01:00 NVRM: Xid (PCI:0000:9b:00): 48, DBE
[  12.3] amdgpu 0000:c1:00.0: amdgpu: 3 uncorrectable hardware errors detected in umc block
"""
BEAT = json.dumps({"run": "tr4", "job": "88", "host": "n1", "pid": 7, "step": 12.0, "loss": 2.3, "losses": 3})
PROBED = json.dumps(
    {"kind": "sample", "run": "tr4", "job": "88", "node": "n1",
     "gpus": {"list": [{"index": 0, "power_w": 61.5}], "absent": "", "complete": True, "trouble": ""},
     "memory": {"pool": "node", "left": 1.0, "total": 2.0, "anonymous": 0.5,
                "processes": [{"pid": 7, "command": "x", "anonymous": 0.5}]},
     "disks": {"/tmp": {"free": 1.0, "total": 2.0}}}
)  # fmt: skip
QSTAT = """Job Id: 12[].srv
    Job_Name = tr4
    Job_Owner = ines@login
    job_state = R
    exec_host = n1/0*8+n2/0*8
    qtime = Sat Nov 28 10:11:12 2026
    Resource_List.walltime = 24:00:00
    array_state_count = Queued:3 Running:1
"""
PBS = '{"Jobs": {"12.srv": {"Job_Name": "tr4", "job_state": "F", "Exit_status": 271, "qtime": "x"}}}'
SPY = """Process 77: python train.py
Python v3.11.7 (/usr/bin/python3.11)

Thread 77 (active+gil): "MainThread"
    step (train.py:12)
"""
SPY_JSON = (
    '[{"pid": 77, "thread_id": 1, "thread_name": "M", "active": true, "frames": [{"name": "f", "line": 3}]}]'
)
FAULT = """{"run": "tr4", "host": "n1", "time": 1795800000.5, "pid": 77, "rank": 3}
Current thread 0x00007f (most recent call first):
  File "train.py", line 12 in step
"""
LFS = """Disk quotas for usr ines (uid 4012):
     Filesystem  kbytes   quota   limit   grace   files   quota   limit   grace
       /scratch [2097152] 3145728 4194304       - 9120*   9000   10000  6d23h59m
"""
LFS_DF = """UUID                   1K-blocks        Used   Available Use% Mounted on
ark-OST0000_UUID     7807622500  5787591216  2020022376  74% /ark[OST:0]
OST000b             : inactive device
"""
MMLS_Y = """mmlsquota::HEADER:version:reserved:reserved:filesystemName:quotaType:id:name:blockUsage:blockQuota:blockLimit:blockInDoubt:blockGrace:filesUsage:filesQuota:filesLimit:filesInDoubt:filesGrace:remarks:quota:defQuota:fid:filesetname:
mmlsquota::0:1:::fs1:USR:4012:ines:1048576:2097152:3145728:1024:none:6286:0:0:14:none:i:on:off:2:tr4:
"""
MMLS = """Disk quotas for group six (gid 601):
                         Block Limits                                               |     File Limits
Filesystem Fileset    type             TB      quota      limit   in_doubt    grace |    files   quota    limit in_doubt    grace
fs1        tr4        GRP             120        180        196          1  5 days  |       33       0     2000        0     none
"""
BEEGFS = """Quota information for storage pool Default (ID: 1):
     name      |  id  ||    used    |    hard    ||  used   |  hard
six           |   601||   2.50 TiB |    4.00 TiB||    12345|unlimited
name,id,size,hard,files,hard
"""
REPQUOTA = """*** Report for user quotas on device /dev/sdc1
                        Block limits                File limits
User            used    soft    hard  grace    used  soft  hard  grace
ines      +-  204800  150000  300000  6days      40  1000  2000
Project quota on /data (/dev/vdb)
                               Blocks
Project ID       Used       Soft       Hard    Warn/Grace
#7              81920   52428800   52428800     00 [--------]
"""
VOLUMES = """TYPE        NAME    USED  QUOTA  OBJUSED  OBJQUOTA
POSIX User  ines    95G   100G      812K      none
qgroupid         rfer         excl     max_rfer     max_excl
0/257        95.00GiB     95.00GiB    100.00GiB         none
# file: mnt/c/six
ceph.quota.max_bytes="100000000000"
"""
CONFIG = """[daemon]
interval = "1m"
confirm = 2
[runs.tr4]
gpus_per_node = 8
memory_free = "5%"
[disks.scratch]
path = "/scratch"
warn_free = "10TB"
"""
PARTS = "@@ part 77 1 1 eJyrVkrLz1eyUlBKSixSqgUAIWcEcw==\n"
SCONTROL = """JobId=88 ArrayJobId=88 JobName=tr4
   JobState=FAILED Reason=None
   Requeue=0 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=1:9
   StdOut=/data/log.txt
   BatchHost=n1
     Nodes=n[1-2] CPU_IDs=0-3 Mem=0 GRES=gpu:a100:4(IDX:0-3)
PrivateData = jobs,usage
ReservationName=maint StartTime=2026-11-28T10:00:00 EndTime=2026-11-29T10:00:00
"""


RAS_JSON = """{"nccl_version": "2.28.9", "communicators": [{"hash": "0x5b", "size": 2, "ranks": [{"rank": 0, "pid": 7, "host": "n1", "nvml_dev": 0,
 "collective_counts": {"AllReduce": 12}, "status": {"init_state": 0, "async_error": 0, "abort_flag": false,
  "finalize_called": false, "destroy_flag": false}}], "missing_ranks": []}]}
"""
SSHARE = """root|||cpu=900,node=40
 six||gres/gpu=6000|cpu=900,gres/gpu=3000
  six|ines|gres/gpu=1200|cpu=60,gres/gpu=600
"""
MAIL = """From: Ines <ines@example.org>
To: watch@example.org
Message-ID: <r1@example.org>
In-Reply-To: <m1@example.org>
Content-Type: multipart/alternative; boundary="b"

--b
Content-Type: text/html; charset="utf-8"

<div>silence 2h</div><blockquote>it</blockquote>
--b--
"""
REACTIONS = """{"ok": true, "message": {"reactions": [{"name": "eyes", "users": ["U0000A11CE"]}]},
 "user": {"profile": {"display_name": "Ines"}, "is_bot": false}}"""
RANKS = """@@ node n1
  0: @@ rank 0 0 n1 0-3 0|0-3|0000:9b:00.0=0-3=0x2330=0|GPU0	X	0-3	0|
@@ rank 1 1 n1 4,5 |
"""


class _Slack:
    """Slack, for whatever one asks."""

    host = "slack.test"

    def __init__(self, text: str) -> None:
        self._text = text

    def post(self, *_: object) -> WebReply:
        return WebReply(200, self._text, None)


def _reactions(text: str) -> object:
    reader = SlackReactions("xoxb-1", "http://127.0.0.1:9", ("U0000A11CE",))
    reader.close()
    reader._web = _Slack(text)  # type: ignore[assignment]
    return reader.read([replace(letter(channel="bot"), receipt="C1 1.2")])


def _reply(text: str) -> object:
    parsed = mail_replies._parsed([(b"1 (RFC822)", text.encode("utf-8", "surrogatepass"))])
    return mail_replies.reply_of(parsed, letter(channel="mail"), EVERYBODY)


def _of_guard(text: str) -> object:
    try:
        return training._tables(text)
    except (ValueError, RecursionError):  # as `_configured` expects it
        return None


def _events(text: str) -> object:
    data = text.encode("latin-1", "replace")
    found = []
    for name in (".tfevents.1.n1", ".csv", ".log", "trainer_state.json"):
        with tempfile.NamedTemporaryFile(suffix=name) as file:
            file.write(data)
            file.flush()
            found.append(structured_files.read(file.name, data, timed=True))
    return found


def _log(text: str) -> object:
    """All that is read of a training's log."""
    found, _ = log_lines.read_lines(text.encode("utf-8", "surrogatepass"))
    addresses: dict[str, str] = {}
    log_lines.learn(found, addresses)
    for line in found:
        found_there = line_shapes.shape_of(line.text)
        spots = found_there.measures
        found_there.layout.values(line.text)
        measures.cost(line.text, spots, measures.seconds(line.text, spots))
        measures.skipped(line.text, spots)
        measures.length(line.text, spots)
        measures.loss(line.text, spots)
        progress.latest(line)
        progress.progress_by(r"iteration\s+(\d+)", line.text)
    return failures.find(found)


def _of_home(name: str, read: Callable[[Home], object]) -> Callable[[str], object]:
    """What reads a file of home."""

    def read_it(text: str) -> object:
        with tempfile.TemporaryDirectory() as folder:
            home = Home(Path(folder))
            for place in (home.inbox, home.switches, home.logs):
                place.mkdir()
            (home.path / name).write_bytes(text.encode("utf-8", "surrogatepass"))
            (home.path / name).chmod(0o600)
            return read(home)

    return read_it


def _status(home: Home) -> object:
    """All that is shown of it; what no round writes is caught by those who show it."""
    found: list[object] = [status_file.left_behind(home), lookup.silenced_targets(home)]
    left = status._left_behind(home)
    with contextlib.suppress(*MISSHAPEN):
        found.append(status.nagios_line(status.read(home, dict(left)), 0))
    with contextlib.suppress(*MISSHAPEN):
        found.append(status._shown(home, status.read(home, dict(left))))
    with contextlib.suppress(*MISSHAPEN):
        found.append(metrics_text({**left, "alive": True}))
    return found


def _switches(home: Home) -> object:
    switch = switch_places.find_or_default(str(home.path), "tr4", "kill")
    return switch, switches.read(switch), group_id(switch.group or "")


def _guard_places(home: Home) -> object:
    try:
        return training.places("tr4", str(home.path))
    except ValueError:  # as the Guard expects it
        return None


def _checkpoints(text: str) -> object:
    """A line a checkpoint: what is in it, each with its size."""
    complete: dict[str, checkpoint_shards.Shards] = {}
    flaws = []
    for line in text.splitlines():
        kinds: dict[str, checkpoint_shards.Shards] = {}
        for word in line.split():
            name, _, size = word.partition("=")
            checkpoint_shards.add(kinds, name, digits(size) if size.isdecimal() else 0)
        flaws.append(checkpoint_shards.flaw(kinds, complete))
        complete = kinds
    return checkpoint_shards.steps(text.split()), flaws


def _locks(text: str) -> object:
    return list(locks._deliveries(text.encode("utf-8", "surrogatepass")))


def _answers(home: Home) -> object:
    return AnswerBook(home, PATIENT).read()


def _gpus(read: Callable[[str], object], name: str) -> tuple[Callable[[str], object], str]:
    return read, sample(name)


READERS: dict[str, tuple[Callable[[str], object], str]] = {
    "squeue": (squeue.read, JOB),
    "sacct": (sacct.read_all, END),
    "sinfo": (sinfo.read, NODE),
    "scontrol exit codes": (scontrol.exit_codes, SCONTROL),
    "scontrol states": (scontrol.states, SCONTROL),
    "scontrol stdout": (scontrol.stdout, SCONTROL),
    "scontrol host": (scontrol.host, SCONTROL),
    "scontrol settings": (scontrol.settings, SCONTROL),
    "scontrol privacy": (scontrol.hides_jobs, SCONTROL),
    "scontrol words": (scontrol.words, SCONTROL),
    "scontrol reservations": (begins_of, SCONTROL),
    "scontrol gpus": (scontrol.allocated_gpus, SCONTROL),
    "sinfo partitions": (sinfo.read_partitions, "gpu*|1-00:00:00|12|gpu:a100:4|OVERSUBSCRIBE\n"),
    "hostlist": (slurmtext.expand_hostlist, "n[1-20,007],login[1-2][3-4]"),
    "reason": (pending_reasons.judge, "Nodes required for job are DOWN, DRAINED or reserved"),
    "sbatch lines": (slurm.script_options, "#!/bin/sh\n#SBATCH --job-name=tr4 --time=1\n"),
    "walltime": (parse_walltime, "1-02:03:04"),
    "qstat": (lambda text: qstat.jobs(qstat.records(text)), QSTAT),
    "qstat ended": (lambda text: qstat.endings(qstat.records(text)), PBS),
    "qstat gpus": (lambda text: qstat.gpus(text, "12.srv"), PBS),
    "log": (_log, LOG),
    "beat": (lambda text: guard_heartbeat.read(text, 1.0), BEAT),
    "probe gpus": (probes.read_gpus, PROBED),
    "probe usage": (probe_sample.read_usage, PROBED),
    "stat of a disk": (probe_sample.read_stat, "100 50 40 4096 10 5"),
    "free of disks": (lambda text: list(inspection.read_disks("n1", text)), "free 1000 /tmp\n"),
    "stacks of a node": (node_stacks.parcels, PARTS),
    "stacks of a probe": (stack_collection._taken, json.dumps({"run": "tr4", "node": "n1", "text": PARTS})),
    "faulthandler": (faulthandler.handed, FAULT),
    "py-spy": (pyspy.read, SPY),
    "py-spy json": (pyspy.read, SPY_JSON),
    "ras": (
        lambda text: nccl_ras.accused(nccl_ras_reports.read(text)),
        ras.text(
            ras.mismatch(
                [
                    "3 ranks have launched up to operation 7",
                    f"Rank 1 has launched up to operation 8 -- {ras.gpu(1, 61)}",
                ]
            )
        ),
    ),
    "ras json": (lambda text: nccl_ras.accused(nccl_ras_reports.read(text)), RAS_JSON),
    "ranks of a node": (node_ranks.read, PARTS),
    "usage of a node": (node_answers._node_heard, f"@@ node n1\n{PROBED}"),
    "gpus of a probe": (node_answers._gpu_sample, PROBED),
    "srun": (node_steps._texts, f"0: @@ node n1\n1: @@ node n2\n0: {PROBED}\n"),
    "srun errors": (
        node_steps.reason,
        "srun: error: Unable to create step for job 88: Invalid node name specified\n",
    ),
    "sacct steps": (sacct.read_steps, END.replace("88", "88.0", 1)),
    "scontrol users": (scontrol.users, SCONTROL),
    "scontrol files": (lambda text: scontrol.files(text, "88"), SCONTROL),
    "scontrol demand": (
        lambda text: (
            scontrol.demand(text),
            scontrol.excluded(text),
            scontrol.requested(text),
            scontrol.is_heterogeneous(text),
        ),
        SCONTROL,
    ),
    "sinfo usable": (sinfo.usable, "n1|idle|\nn2|down*|gpu\n"),
    "sshare": (lambda text: budgets.of_sshare(text, "six", "ines", ""), SSHARE),
    "sreport": (lambda text: budgets.of_sreport(text, "six", "gres/gpu", 100.0), "six||120\nsix|ines|120\n"),
    "hours of a site": (
        lambda text: budgets.of_command(text, r"(?P<used>[\d.]+)/(?P<limit>[\d.]+)", "", "hours", "q"),
        "six 12.5/100",
    ),
    "affinity": (lambda text: list(affinity.judge(affinity.read(text, {"n1": affinity.cpus("0-7")}))), RANKS),
    "mask": (affinity.cpus, "0-3,8"),
    "threads": (inspection.read_cpus, "Cpus_allowed_list:\t0-3,8\n"),
    "gpu trial": (
        gpu_trial.read,
        "@@ torch 2.4\n@@ gpu 0 ok\n@@ gpu 1 fail it is broken\n@@ reduce ok 0.004\n",
    ),
    "stripes": (surroundings.stripes, "4\n"),
    "time of a line": (
        lambda text: replay.time_of(text, 1795800000.0),
        "Sat Nov 28 03:12:44 2026 2026-11-28T10:11:12 iteration 3",
    ),
    "metric files": (_events, sample_bytes("events.out.tfevents.1800000000.n1") + "step,loss\n1,2.5\n"),
    "reply": (_reply, MAIL),
    "reactions": (_reactions, REACTIONS),
    "crontab": (partial(tools.judge_cron, alive=True), "*/5 * * * * watchdogd ensure\n"),
    "tables of a Guard": (_of_guard, CONFIG),
    "tables of an old Guard": (training._run_tables, CONFIG),
    "times of a Guard": (
        lambda text: (training._walltime(text), training._pbs_time(text), training._parse_end(text)),
        "1-02:03:04",
    ),
    "wizard": (partial(setup_wizard.appended, table="[runs.x]\n"), CONFIG),
    "nagios": (partial(nagios.read, 0), "OK - fine | a=1.5s;2:;@3:4;0;9 'b c'=1GB\nlong | d=2"),
    "tracker": (lambda text: checkpoint_files.read_tracker("/x", text, 1.0), "global_step1000"),
    "lease": (
        lambda text: lease_record.read_record(text.encode("utf-8", "surrogatepass")),
        '{"host": "n1", "pid": 7}',
    ),
    "answers": (
        _of_home("answers.json", _answers),
        '[{"key": "C1 1.2 eyes U1", "channel": "bot", "receipt": "C1 1.2", "incidents": [7]}]',
    ),
    "taken papers": (_of_home(".taken.json", inbox_reader.stored), '["run-1.touch.n1.77.json"]'),
    "ticks": (_of_home(".ticks", markers.last_ticks), "[1795800000.5, 1795800060.5]"),
    "stopped jobs": (_of_home(".stopped-jobs", markers._ended_jobs), '["88", "91"]'),
    "how it was started": (
        _of_home("link.json", link_script.remembered),
        '{"partition": "cpu", "account": "six", "time": "", "mode": "tick", "walltime": 900.0}',
    ),
    "switch": (
        _of_home("switches/tr4.kill", lambda home: touchfile.read(str(home.switches / "tr4.kill"))),
        '{"by": "ines", "host": "n1", "at": 1795800000.5, "reason": "diverges", "automatic": true}',
    ),
    "manifest of switches": (_of_home("switches/tr4.json", _switches), MANIFEST),
    "manifest of a Guard": (_of_home("switches/tr4.json", _guard_places), MANIFEST),
    "status": (_of_home("status.json", _status), STATUS),
    "papers": (
        _of_home("inbox/tr4.silence.n1.77.json", inbox.take),
        '{"kind": "silence", "target": "tr4", "seconds": 3600.0, "reason": "maintenance"}',
    ),
    "locks": (_locks, DELIVERED),
    "checkpoints": (
        _checkpoints,
        "global_step100/mp_rank_00.pt=2048 global_step100/mp_rank_01.pt=2048\nglobal_step200/mp_rank_00.pt=2048\n",
    ),
    "unfinished checkpoints": (
        lambda text: [bool(checkpoint_files._MARK.search(name)) for name in text.split()],
        "tmp-checkpoint-500 x.ckpt-unfinished step_12.tmp.3",
    ),
    "flight recorder": (flight_recorder.read_mismatch, FLIGHT),
    "annotate": (
        executor.read_notes,
        '{"name": "MLflow", "said": "tag watchdogd.incident.7 set", "ok": true}\n{ not ours }\n',
    ),
    "mounts": (mounts.read_mounts, "22 1 8:2 / / rw - ext4 /dev/sda2 rw,quota\n"),
    "fstab": (mounts.read_fstab, "/dev/sda2 / ext4 defaults 0 1\n"),
    "configuration": (partial(parse, path=Path("/h/config.toml")), CONFIG),
    "size": (parse_size, "500 GiB"),
    "duration": (parse_duration, "1h30m"),
    "amount": (parse_amount, "10%"),
    "rate": (parse_rate, "18.4TB/d"),
    "quota table": (lfs_quota.read_limits, LFS),
    "quota report": (repquota.read, REPQUOTA),
    "quota beegfs": (lambda text: beegfs.read_quotas(text, "user"), BEEGFS),
    "quota beegfs 8": (
        beegfs.read_usage,
        '{"name":"ines","type":"user","space":"1GiB/2GiB","inode":"1k/9"}\n',
    ),
    "quota gpfs for machines": (gpfs.read_quotas, MMLS_Y),
    "quota gpfs": (gpfs.read_quotas, MMLS),
    "quota fileset": (gpfs.read_fileset, "fileset name:         tr4\n"),
    "quota targets": (lfs_quota.read_targets, LFS_DF),
    "quota project": (lfs_quota.read_project, "  77001 P /scratch/tr4\n"),
    "quota volumes": (zfs_btrfs_ceph.read, VOLUMES),
    "quota of a site": (lambda text: site_tool.read(text, None, "q", 0.0), LFS + MMLS + BEEGFS + VOLUMES),
    "quota json": (
        lambda text: site_tool.read_json(text, "q"),
        '[{"used_bytes": 1, "limit_bytes": "2TB", "updated_at": "2026-11-28T10:00:00"}]',
    ),
    "quota pattern": (
        lambda text: site_tool.read_text(text, r"(?P<used>\S+) of (?P<limit>\S+) at (?P<updated>\S+)", "q"),
        "1G of 2G at 1795800000",
    ),
    "kernel": (kernel_log.read, DMESG + sample("kernel.txt")),
    "amd json": _gpus(amd_smi.read, "amd-metric.json"),
    "amd text": _gpus(amd_smi.read, "amd-metric.txt"),
    "amd monitor": _gpus(amd_smi.read, "amd-monitor-ecc.txt"),
    "rocm json": _gpus(rocm_smi.read, "rocm-all.json"),
    "rocm blocks": _gpus(rocm_smi.read, "rocm-blocks.txt"),
    "rocm table": _gpus(rocm_smi.read, "rocm-concise-node.txt"),
    "rocm errors": _gpus(rocm_smi.read, "rocm-ras.txt"),
    "rocm csv": _gpus(rocm_smi.read, "rocm.csv"),
    "nvidia q": _gpus(nvidia_smi.read, "nvidia-q.txt"),
    "nvidia table": _gpus(nvidia_smi.read, "nvidia-table.txt"),
    "nvidia mig": _gpus(nvidia_smi.read, "nvidia-table-mig.txt"),
    "nvidia csv": (
        lambda text: nvidia_smi.read(text, ("index", "power.draw", "memory.total")),
        "index, power.draw [W], memory.total [MiB]\n0, 61.20 W, 81559 MiB\n",
    ),
    "node": (
        node_script.read,
        "@@ node n1\n@@ run nvidia-smi --query-gpu=index,name\nindex, name\n0, H100\n@@ exit 0\n",
    ),
}
"""By name: the reader, and what it understands."""
