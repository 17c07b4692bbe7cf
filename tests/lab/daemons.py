"""All daemons of one cluster, each with its command line."""

import secrets
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.lab import typist
from tests.lab.daemon import Daemon
from tests.lab.settings import Ports
from tests.ports import answers
from tests.waiting import wait_until


class Daemons:
    """munged, MariaDB, slurmdbd, slurmctld and one slurmd a node, below one folder."""

    def __init__(self, folder: Path, ports: Ports, env: Mapping[str, str]) -> None:
        self._folder = folder
        self._ports = ports
        self._env = env
        self.munged = self._daemon("munged", _munged(folder), user="munge")
        self.database = self._daemon("mariadbd", _mariadbd(folder, ports.database), user="mysql")
        self.slurmdbd = self._daemon("slurmdbd", ["slurmdbd", "-D"])
        self.slurmctld = self._daemon("slurmctld", ["slurmctld", "-D"])
        self.typist: Daemon | None = None
        self.slurmd = {
            node: self._daemon(f"slurmd-{node}", ["slurmd", "-D", "-N", node]) for node in ports.slurmd
        }

    def start_base(self, password: str) -> None:
        """munged and the database, side by side; returns when both answer."""
        self._prepare_munge()
        self.munged.start()
        self._prepare_database(password)
        self.database.start()
        self._ready(self.munged, (self._folder / "munge/socket").exists, "munged has its socket")
        self._listens(self.database, self._ports.database)

    def start_slurmdbd(self) -> None:
        """Returns when it listens."""
        self.slurmdbd.start()
        self._listens(self.slurmdbd, self._ports.slurmdbd)

    def start_slurmctld(self) -> None:
        """Returns when it listens."""
        self.slurmctld.start()
        self._listens(self.slurmctld, self._ports.slurmctld)

    def start_slurmd(self, *nodes: str) -> None:
        """Starts those of some nodes; returns when they listen."""
        for node in nodes:
            (self._folder / "spool" / node).mkdir(parents=True, exist_ok=True)
            self.slurmd[node].start()
        for node in nodes:
            self._listens(self.slurmd[node], self._ports.slurmd[node])

    def start_typist(self, program: Path, real: Path) -> None:
        """What forks watchdogd for those who type `program`; returns when it listens."""
        path = self._folder / "run/typist"
        argv = [str(real.with_name("python")), "-P", typist.__file__, str(path)]
        self.typist = self._daemon("typist", argv)
        self.typist.start()
        program.parent.mkdir()
        program.write_text(typist.CLIENT.format(python=argv[0], path=str(path), real=str(real)))
        program.chmod(0o755)
        self._ready(self.typist, path.exists, "watchdogd can be typed")

    def kill(self) -> None:
        """Ends all at once: first those that would miss the others."""
        for daemon in self._all():
            daemon.kill()

    def pids(self) -> set[int]:
        """The process ids of those that run."""
        return {daemon.pid for daemon in self._all() if daemon.pid is not None}

    def _all(self) -> list[Daemon]:
        ours = [self.typist] if self.typist else []
        return [*ours, *self.slurmd.values(), self.slurmctld, self.slurmdbd, self.database, self.munged]

    def _daemon(self, name: str, argv: list[str], user: str | None = None) -> Daemon:
        return Daemon(argv, log=self._folder / f"log/{name}.out", env=self._env, user=user)

    def _prepare_munge(self) -> None:
        """A key of our own; munged wants it and its folder to be its user's alone."""
        place = self._folder / "munge"
        place.mkdir(mode=0o755)
        key = place / "key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        for path in (place, key):
            shutil.chown(path, "munge", "munge")

    def _prepare_database(self, password: str) -> None:
        data = self._folder / "database"
        data.mkdir()
        shutil.chown(data, "mysql", "mysql")
        argv = ["mariadb-install-db", *_database_options(data), "--user=mysql", "--skip-test-db"]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=300, env=self._env, check=False)
        if done.returncode:
            raise AssertionError(f"mariadb-install-db failed: {done.stdout} {done.stderr}")
        first = self._folder / "first.sql"
        first.write_text(_first_statements(password))

    def _listens(self, daemon: Daemon, port: int) -> None:
        self._ready(daemon, lambda: answers(port), f"{daemon.name} listens on port {port}")

    def _ready(self, daemon: Daemon, condition: Callable[[], bool], what: str) -> None:
        def ready() -> bool:
            daemon.must_run()
            return condition()

        wait_until(ready, 60.0, what, every=0.02)


def _first_statements(password: str) -> str:
    """What MariaDB executes at its start, one statement a line."""
    user = "slurm@'127.0.0.1'"
    return (
        "CREATE DATABASE IF NOT EXISTS slurm_acct;\n"
        f"CREATE USER IF NOT EXISTS {user} IDENTIFIED BY '{password}';\n"
        f"GRANT ALL ON slurm_acct.* TO {user};\n"
    )


def _munged(folder: Path) -> list[str]:
    files = {"socket": "socket", "key-file": "key", "pid-file": "pid", "seed-file": "seed"}
    options = [f"--{option}={folder}/munge/{name}" for option, name in files.items()]
    return ["munged", "--foreground", "--num-threads=10", *options]


def _mariadbd(folder: Path, port: int) -> list[str]:
    data = folder / "database"
    place = [f"--socket={data}/socket", f"--pid-file={data}/pid"]
    network = [f"--port={port}", "--bind-address=127.0.0.1", "--skip-name-resolve"]
    return ["mariadbd", *_database_options(data), *place, *network, f"--init-file={folder}/first.sql"]


def _database_options(data: Path) -> list[str]:
    """A small one, of which little is written at the start: a fifth of the usual size.

    It keeps its temporary files to itself: in /tmp, one MariaDB at its start deletes those of others.
    """
    small = ["--innodb-buffer-pool-size=64M", "--innodb-log-file-size=8M"]
    place = [f"--datadir={data}", f"--tmpdir={data}"]
    return ["--no-defaults", *place, *small, "--innodb-flush-log-at-trx-commit=0"]
