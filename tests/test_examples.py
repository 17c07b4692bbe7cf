"""The examples with the real PyTorch, transformers and Lightning, which `make test` brings."""

import json
import os
import pwd
import re
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.lab.environments import python_of
from tests.waiting import wait_until

STOPPED = f"kill switch set by {pwd.getpwuid(os.getuid()).pw_name} (the file says bob): lunch"
ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
FRAMEWORKS = ROOT / "tests" / "frameworks"
PATIENCE = (
    300.0  # seconds: loading PyTorch alone takes twenty where the processors are shared, the first time more
)
PYTHON = str(ROOT / ".venv" / "examples" / "bin" / "python")
pytestmark = pytest.mark.timeout(1800)  # the environment may have to come first
TORCHRUN = (PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


@pytest.fixture(autouse=True, scope="module")
def _libraries() -> None:
    python_of("examples", "examples")


@contextmanager
def running(
    folder: Path, *command: str, home: Path, env: Mapping[str, str] | None = None
) -> Iterator["subprocess.Popen[str]"]:
    """The command in a session of its own, its output in folder/out; nothing of it survives."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("SLURM_", "PBS_"))}
    environment = {**kept, "WATCHDOGD_HOME": str(home), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    environment["TORCH_EXTENSIONS_DIR"] = str(ROOT / ".venv" / "examples" / "extensions")
    environment.update(env or {})
    with (folder / "out").open("w") as out:
        process = subprocess.Popen(
            command, text=True, stdout=out, stderr=subprocess.STDOUT, env=environment, cwd=folder
        )
    try:
        yield process
    finally:
        process.terminate()  # torchrun takes its ranks with it
        try:
            process.wait(PATIENCE)
        finally:
            process.kill()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return made(tmp_path / "home")


def made(home: Path) -> Path:
    for name in ("switches", "inbox"):
        (home / name).mkdir(parents=True)
    return home


def said(folder: Path) -> str:
    return (folder / "out").read_text()


def beats(home: Path, process: "subprocess.Popen[str]") -> Callable[[], bool]:
    """Whether the training has begun; a program that has ended begins no more."""

    def begun() -> bool:
        assert process.poll() is None, said(home.parent)
        return any((home / "inbox").glob("*.beat.*"))

    return begun


def told(folder: Path) -> list[tuple[int, str]]:
    """Steps and reasons. Two ranks share one output: one's line end may come after the other's words."""
    found = re.findall(r"step (\d+): (.*?)(?=rank \d+, step|$)", said(folder), re.MULTILINE)
    return [(int(step), why) for step, why in found]


def test_both_ranks_leave_at_the_step_where_one_of_them_sees_the_switch(tmp_path: Path) -> None:
    homes = [made(tmp_path / name) for name in ("home-0", "home-1")]
    rank = f'WATCHDOGD_HOME={tmp_path}/home-$RANK exec "$@"'
    script = (PYTHON, str(EXAMPLES / "torch_ddp.py"), str(tmp_path / "ddp.pt"), "100000")
    command = (*TORCHRUN, "--no-python", "sh", "-c", rank, "rank", *script)
    with running(tmp_path, *command, home=homes[0]) as process:
        wait_until(beats(homes[0], process), PATIENCE, "the ranks begin")
        (homes[1] / "switches" / "torch-ddp.kill").write_text('{"by": "bob", "reason": "lunch"}\n')
        process.wait(PATIENCE)
    assert process.returncode == 0, said(tmp_path)
    steps, reasons = zip(*sorted(told(tmp_path), key=lambda each: each[1]), strict=True)
    assert len(set(steps)) == 1
    assert reasons == ("kill switch (seen by another rank)", STOPPED)
    assert (tmp_path / "ddp.pt").exists()


TRAINED = {
    "lightning": "lightning_callback",
    "hf-trainer": "hf_trainer",
    "accelerate": "accelerate_loop",
    "deepspeed": "deepspeed_loop",
    "composer": "composer_trainer",  # the last: none of the others is to find its torchvision
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What came of each framework's example; one process for all, since each loads PyTorch."""
    folder = tmp_path_factory.mktemp("trained")
    words = [f"{run}={module}" for run, module in TRAINED.items()]
    with running(
        folder, PYTHON, str(FRAMEWORKS / "trained.py"), str(folder), *words, home=made(folder / "home")
    ) as process:
        assert process.wait(3 * PATIENCE) == 0, said(folder)
    lines = [json.loads(line) for line in said(folder).splitlines() if line.startswith('{"run"')]
    return {line["run"]: line for line in lines}


@pytest.mark.parametrize("run", TRAINED)
def test_a_framework_saves_stops_resumes_and_finishes(run: str, trained: dict[str, Any]) -> None:
    found = trained[run]
    (saved, why), (stopped, end) = found["acted"]
    assert (why, end) == ("save switch set", STOPPED)
    assert saved < stopped
    assert found["unfinished"]  # stopped is not finished
    assert found["left"] == 0  # what is finished begins no more
    assert stopped < found["resumed"] <= stopped + 5
    assert found["beat"]["rank"] == 0
    assert isinstance(found["beat"]["loss"], float)


def slurm(folder: Path) -> dict[str, str]:
    """A job's environment, with a scontrol that notes what it was asked."""
    tools = folder / "bin"
    tools.mkdir()
    (tools / "scontrol").write_text(f'#!/bin/sh\nls {folder} >{folder}/before\necho "$@" >{folder}/asked\n')
    (tools / "scontrol").chmod(0o755)
    job = {"JOB_ID": "4711", "JOB_NAME": "tr11", "NTASKS": "1", "PROCID": "0", "LOCALID": "0", "NODEID": "0"}
    named = {f"SLURM_{key}": value for key, value in job.items()} | {"SLURM_JOB_NODELIST": "localhost"}
    return {**named, "SLURM_SRUN_COMM_HOST": "localhost", "PATH": f"{tools}:{os.environ['PATH']}"}


def test_lightning_requeues_its_job_where_the_guard_comes_after_it(tmp_path: Path, home: Path) -> None:
    """That one that was made first is no hindrance either, tests/slurm/test_lightning.py shows."""
    command = (PYTHON, str(FRAMEWORKS / "requeued.py"), "after")
    with running(tmp_path, *command, home=home, env=slurm(tmp_path)) as process:
        wait_until(beats(home, process), PATIENCE, "it trains")
        process.send_signal(signal.SIGUSR1)
        assert process.wait(PATIENCE) == 0, said(tmp_path)
    assert (tmp_path / "asked").read_text() == "requeue 4711\n"
    before = (tmp_path / "before").read_text().split()
    assert "hpc_ckpt_1.ckpt" in before
    assert "stopped.ckpt" not in before  # the Guard's stop came after Lightning's checkpoint and requeue
    assert (tmp_path / "stopped.ckpt").exists()
    assert [why for _, why in told(tmp_path)] == ["signal SIGUSR1"]


def test_submitit_requeues_its_job_and_is_not_left_at_the_signals_that_it_passes_over(
    tmp_path: Path, home: Path
) -> None:
    with running(tmp_path, PYTHON, str(FRAMEWORKS / "submitted.py"), home=home) as process:
        wait_until(beats(home, process), PATIENCE, "it trains")
        process.send_signal(signal.SIGTERM)

        def goes_on() -> bool:
            assert process.poll() is None, said(tmp_path)
            return "a poll later" in said(tmp_path)

        wait_until(goes_on, PATIENCE, "submitit has passed over SIGTERM, and the loop goes on")
        process.send_signal(signal.SIGUSR1)
        process.wait(PATIENCE)
    assert process.returncode == 255, said(tmp_path)  # submitit's exit
    assert "requeued after its checkpoint" in said(tmp_path)
    assert "told to stop" not in said(tmp_path)
