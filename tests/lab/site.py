"""Where one cluster stands: its folder, ports, people and daemons, and how they come up and go."""

import os
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from tests.lab import accounts, folders
from tests.lab.daemons import Daemons
from tests.lab.people import People
from tests.lab.settings import ACCOUNT, CLUSTER, Ports, slurm_conf, slurmdbd_conf
from tests.ports import port_of, reserve_port

PACKAGES = "slurm-wlm slurmctld slurmd slurm-client slurmdbd slurm-wlm-basic-plugins munge mariadb-server"
PROGRAMS = (
    "munged",
    "mariadbd",
    "mariadb-install-db",
    "slurmdbd",
    "slurmctld",
    "slurmd",
    "sbatch",
    "sacctmgr",
)


class Site:
    """Takes a folder and ports when it is made; `tear_down` gives all of it back, in whatever state it is."""

    def __init__(self, nodes: Sequence[str], settings: Mapping[str, str], lines: Sequence[str]) -> None:
        missing = missing_requirements()
        if missing:
            raise AssertionError(missing)
        with folders.one_at_a_time():
            folders.sweep()
            self.folder, self._lock = folders.create()
        names = ("database", "slurmdbd", "slurmctld", *nodes)
        self._holders = {name: reserve_port() for name in names}
        numbers = {name: port_of(holder) for name, holder in self._holders.items()}
        base = (numbers.pop("database"), numbers.pop("slurmdbd"), numbers.pop("slurmctld"))
        self._ports = Ports(*base, slurmd=numbers)
        self._conf = slurm_conf(self.folder, self._ports, settings, lines)
        self.people = People(self.folder)
        self.daemons = Daemons(self.folder, self._ports, self.people.env("root"))

    def bring_up(self) -> None:
        """Starts everything; returns when all daemons listen and accounting knows cluster and users."""
        with usual_umask():
            for name in ("log", "run", "state", "spool", "home"):
                (self.folder / name).mkdir()
            with folders.one_at_a_time():
                accounts.ensure()
            self.people.make_homes()
            password = secrets.token_hex(16)
            self._write_confs(password)
            self.daemons.start_base(password)
        self.daemons.start_slurmdbd()
        self._manage("cluster", CLUSTER)
        self.daemons.start_slurmctld()
        self.daemons.start_slurmd(*self._ports.slurmd)
        self._manage("account", ACCOUNT, f"Cluster={CLUSTER}")
        self._manage("user", ",".join(("root", *accounts.USERS)), f"Account={ACCOUNT}")

    def tear_down(self) -> None:
        """Ends all processes, removes the folder, and the made users when no other cluster has them."""
        self.people.end()
        self.daemons.kill()
        with folders.one_at_a_time():
            folders.remove(self.folder)
            os.close(self._lock)
            if not folders.in_use():
                accounts.remove_made()
        for holder in self._holders.values():
            holder.close()

    def _write_confs(self, password: str) -> None:
        (self.folder / "slurm.conf").write_text(self._conf)
        private = self.folder / "slurmdbd.conf"  # slurmdbd looks for it beside slurm.conf, and wants it 0600
        private.touch(mode=0o600)
        private.write_text(slurmdbd_conf(self.folder, self._ports, password))

    def _manage(self, *words: str) -> None:
        self.people.run("root", ["sacctmgr", "--immediate", "add", *words])


@contextmanager
def usual_umask() -> Iterator[None]:
    """Files are readable for all, whatever the umask of the tests is."""
    before = os.umask(0o022)
    try:
        yield
    finally:
        os.umask(before)


def missing_requirements() -> str:
    """The line that helps, when this machine cannot run a cluster; else nothing."""
    if os.geteuid():
        return "the real Slurm needs root (users, munge): run these tests as root"
    missing = [program for program in PROGRAMS if not shutil.which(program)]
    mend = f"apt-get install -y --no-install-recommends {PACKAGES}"
    return f"the real Slurm needs {', '.join(missing)}: {mend}" if missing else ""
