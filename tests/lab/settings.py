"""slurm.conf and slurmdbd.conf of a cluster on loopback."""

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

CLUSTER = "lab"
ACCOUNT = "lab"
CPUS = 4
MEMORY = 2000  # MB


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports of one cluster's daemons."""

    database: int
    slurmdbd: int
    slurmctld: int
    slurmd: Mapping[str, int]


def slurmdbd_conf(folder: Path, ports: Ports, password: str) -> str:
    """The accounting daemon: our own database, our own munged."""
    return _lines(
        {
            "AuthType": "auth/munge",
            "AuthInfo": f"socket={folder}/munge/socket",
            "DbdHost": "localhost",
            "DbdPort": str(ports.slurmdbd),
            "SlurmUser": "root",
            "StorageType": "accounting_storage/mysql",
            "StorageHost": "127.0.0.1",
            "StoragePort": str(ports.database),
            "StorageUser": "slurm",
            "StoragePass": password,
            "StorageLoc": "slurm_acct",
            "LogFile": f"{folder}/log/slurmdbd.log",
            "PidFile": f"{folder}/run/slurmdbd.pid",
        }
    )


def slurm_conf(folder: Path, ports: Ports, settings: Mapping[str, str], lines: Sequence[str]) -> str:
    """The whole slurm.conf; `settings` replace ours, `lines` are added at its end."""
    nodes = [_node_line(name, port) for name, port in ports.slurmd.items()]
    small, gpu = partitions(list(ports.slurmd))
    queues = [f"PartitionName=small Nodes={','.join(small)} Default=YES MaxTime=1-00:00:00 State=UP"]
    if gpu:
        queues.append(f"PartitionName=gpu Nodes={','.join(gpu)} MaxTime=2-00:00:00 State=UP")
    return _lines({**_settings(folder, ports), **settings}) + "\n".join([*nodes, *queues, *lines, ""])


def partitions(nodes: Sequence[str]) -> tuple[list[str], list[str]]:
    """The nodes of `small` (the first and, of five or more, the last one) and those of `gpu` (the others)."""
    small = [nodes[0], nodes[-1]] if len(nodes) >= 5 else [nodes[0]]
    return small, [node for node in nodes if node not in small]


def _settings(folder: Path, ports: Ports) -> dict[str, str]:
    return {
        "ClusterName": CLUSTER,
        "SlurmctldHost": f"{_host()}(127.0.0.1)",
        "SlurmctldPort": str(ports.slurmctld),
        "SlurmctldPidFile": f"{folder}/run/slurmctld.pid",
        "SlurmctldLogFile": f"{folder}/log/slurmctld.log",
        "SlurmdPidFile": f"{folder}/run/slurmd-%n.pid",
        "SlurmdLogFile": f"{folder}/log/slurmd-%n.log",
        "SlurmdSpoolDir": f"{folder}/spool/%n",
        "StateSaveLocation": f"{folder}/state",
        "SlurmUser": "root",
        "SlurmdUser": "root",
        "AuthType": "auth/munge",
        "AuthInfo": f"socket={folder}/munge/socket",
        "AccountingStorageType": "accounting_storage/slurmdbd",
        "AccountingStorageHost": "localhost",
        "AccountingStoragePort": str(ports.slurmdbd),
        "AccountingStoragePass": f"{folder}/munge/socket",  # sacct looks here, not at AuthInfo
        "JobAcctGatherType": "jobacct_gather/linux",
        "JobAcctGatherFrequency": "5",
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/none",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core_Memory",
        "SchedulerType": "sched/backfill",
        "SchedulerParameters": "bf_interval=1,sched_interval=2",
        "ScronParameters": "enable",
        "SlurmdParameters": "config_overrides",  # nodes have what is written here, not this machine's CPUs
        "MpiDefault": "none",
        "MailProg": "/bin/true",
        "DefMemPerCPU": "64",
        "JobRequeue": "1",
        "ReturnToService": "2",
        "KillWait": "3",
        "MinJobAge": "20",
        "InactiveLimit": "0",
        "SlurmctldTimeout": "30",
        "SlurmdTimeout": "30",
    }


def _node_line(name: str, port: int) -> str:
    shape = f"CPUs={CPUS} Boards=1 SocketsPerBoard=1 CoresPerSocket={CPUS} ThreadsPerCore=1"
    place = f"NodeHostname={_host()} NodeAddr=127.0.0.1 Port={port}"
    return f"NodeName={name} {place} {shape} RealMemory={MEMORY} State=UNKNOWN"


def _host() -> str:
    return socket.gethostname().split(".")[0]


def _lines(settings: Mapping[str, str]) -> str:
    return "".join(f"{key}={value}\n" for key, value in settings.items())
