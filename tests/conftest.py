"""Fixtures for all tests: a clean environment, the real Slurm, and the servers that watchdogd talks to."""

import gc
import itertools
import os
import re
import signal
import sys
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from pytest_timeout import Settings

from tests.cluster import Cluster
from tests.lab.site import missing_requirements
from tests.needs import SLURMS, TOGETHER, needs, order
from tests.servers.slack import SlackServer
from tests.servers.smtp import Mailbox
from tests.servers.web import WebServer
from watchdogd.daemon import daemon_log
from watchdogd.system import command

gc.disable()  # until all tests are collected: nothing of them is ever garbage

SLURM = ("SLURM_", "SLURMD_", "SBATCH_", "SALLOC_", "SRUN_", "SQUEUE_", "SACCT_", "SINFO_")
FOREIGN = ("WATCHDOGD_", *SLURM, "COLUMNS", "LINES")  # pytest's readline leaves the last two to its processes

TIDYING = Settings(timeout=300, method="signal", func_only=False, disable_debugger_detection=False)
"""How long what comes after a test may take, the end of a Slurm included."""
WAITING = 1500
"""Seconds for a test that may wait for the environment of the examples or of the oldest libraries."""

# The machine may be busy, so nothing fails for being slow; and what one run tries, every run tries.
# To look for more: HYPOTHESIS_PROFILE=default pytest
settings.register_profile(
    "steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("quick", settings.get_profile("steady"), max_examples=20)  # of `make quick`
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))

# Where it is set, each of a test's many processes would compile all of the product anew.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A shell that runs us in the background, or nohup, has us ignore these, and so all that we start: it could
# not be ended as people end it.
signal.signal(signal.SIGINT, signal.default_int_handler)
for _number in (signal.SIGHUP, signal.SIGQUIT):
    signal.signal(_number, signal.SIG_DFL)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A file of which `-m 'not (slurm or ...)'` leaves nothing is not even read."""
    if not (unwanted := re.fullmatch(r"not \((\w+(?: or \w+)*)\)", config.option.markexpr)):
        return None
    place = collection_path.relative_to(config.rootpath) if collection_path.suffix == ".py" else ""
    return True if {*needs(str(place))} & {*unwanted[1].split(" or ")} else None


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None]:
    """Marks each test with what it needs before they are chosen, and puts the longer ones first at last."""
    slurms = itertools.cycle(range(SLURMS))
    for item in items:
        for need in needs(item.nodeid.partition("::")[0]):
            item.add_marker(need)
        if hasattr(item.config, "workerinput"):  # one of several processes
            marks = {mark.name for mark in item.iter_markers()}
            slurm = [f"slurm{next(slurms)}"] if "slurm" in marks else []
            for group in slurm or [need for need in TOGETHER if need in marks]:
                item.add_marker(pytest.mark.xdist_group(group))
        if {"torch", "lowest"} & {mark.name for mark in item.iter_markers()}:
            item.add_marker(pytest.mark.timeout(WAITING))
    yield
    items.sort(key=lambda item: order({mark.name for mark in item.iter_markers()}))


def pytest_collection_finish() -> None:
    """What was collected stays to the end: no later search for garbage looks at it."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    """Tidying up has its own limit: that of the test is gone as soon as the test has failed."""
    item.ihook.pytest_timeout_cancel_timer(item=item)
    item.ihook.pytest_timeout_set_timer(item=item, settings=TIDYING)
    return (yield)


@pytest.fixture(scope="session")
def _homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A place for each test's HOME: the one before as long as nobody has put anything there."""

    def places() -> Iterator[Path]:
        folder = tmp_path_factory.mktemp("homes")
        for number in itertools.count():
            home = folder / str(number)
            home.mkdir()
            while home.is_dir() and not os.listdir(home):
                yield home

    return places()


@pytest.fixture(autouse=True)
def _clean_environment(_homes: Iterator[Path]) -> Iterator[None]:
    """No test sees the home, cluster, proxies or terminal of who runs it, nor where another went or logs to.

    It is done for thousands of tests of some milliseconds: in one fixture, without `monkeypatch`.
    """
    folder, home = os.getcwd(), str(next(_homes))
    ours = {"HOME": home, "NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost"}
    before = {name: os.environ.get(name) for name in (*ours, *filter(_foreign, os.environ))}
    _put({**dict.fromkeys(before), **ours})
    withheld, command._withheld = command._withheld, set()
    yield
    daemon_log.end()
    command._withheld = withheld
    os.chdir(folder)
    _put(before)


def _foreign(name: str) -> bool:
    return name.startswith(FOREIGN)


def _put(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """The one real Slurm of this process, started when first asked for; prefer `slurm`, which tidies up."""
    missing = missing_requirements()
    if missing:
        pytest.fail(missing, pytrace=False)  # never skipped: without it the daemon is not tested
    with Cluster() as running:
        yield running


@pytest.fixture
def slurm(cluster: Cluster) -> Iterator[Cluster]:
    """The real Slurm, brought back to its first state after the test, whatever the test did to it."""
    yield cluster
    cluster.restore()


@pytest.fixture
def mailbox(tmp_path: Path) -> Iterator[Mailbox]:
    """A real SMTP server and what came in."""
    with Mailbox(tmp_path) as server:
        yield server


@pytest.fixture
def slack() -> Iterator[SlackServer]:
    """A server that speaks as Slack does."""
    with SlackServer() as server:
        yield server


@pytest.fixture
def endpoint() -> Iterator[WebServer]:
    """A plain HTTP server, for webhooks and heartbeats."""
    with WebServer() as server:
        yield server
