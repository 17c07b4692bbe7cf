"""deploy/dropins/: each is a drop-in as it lies there, and does what its header says."""

from __future__ import annotations

import ast
import gzip
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.cluster import Cluster
from watchdogd.batch.slurm import script_options
from watchdogd.daemon.dropins.dropins import DropInKind, look
from watchdogd.home.layout import Home
from watchdogd.parsers.nagios import read
from watchdogd.plugin import Status

DROPINS = Path(__file__).parents[2] / "deploy" / "dropins"
DAY = 86400


def edited(name: str, folder: Path, **settings: str) -> Path:
    """A copy with its settings filled in, as its header asks for; the code behind each `=`."""
    text = (DROPINS / name).read_text()
    for key, code in settings.items():
        text, count = re.subn(rf"^{key} ?=.*?(?=  #|$)", f"{key}={code}", text, flags=re.MULTILINE)
        assert count == 1, f"{name} has one line that sets {key}"
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)
    return path


def run(path: Path, **env: str) -> subprocess.CompletedProcess[str]:
    words = ["python3", str(path)] if "python3" in path.read_text().partition("\n")[0] else [str(path)]
    return subprocess.run(
        words, capture_output=True, text=True, timeout=300, check=False, env={**os.environ, **env}
    )


def aged(path: Path, days: float, text: str = "iteration 41\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (time.time() - days * DAY,) * 2)
    return path


def test_each_is_a_drop_in_with_a_header(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.make()
    for path in DROPINS.iterdir():
        shutil.copy(path, home.path / "cron.daily")
        assert path.read_text().splitlines()[1].startswith("# "), f"{path.name} says what it does"
    kinds = {each.name.partition("/")[2]: each.kind for each in look(home)}
    assert kinds == {
        "old-logs": DropInKind.EXECUTABLE,
        "compress-logs": DropInKind.EXECUTABLE,
        "thin-checkpoints": DropInKind.EXECUTABLE,
        "mlocate-update.slurm": DropInKind.SLURM,
        "gpu-diagnostic.slurm": DropInKind.SLURM,
        "offload-checkpoints.slurm": DropInKind.SLURM,
    }
    assert "partition" in script_options((DROPINS / "gpu-diagnostic.slurm").read_text())
    assert "job-name" in script_options((DROPINS / "offload-checkpoints.slurm").read_text())


# ---------------------------------------------------------------------------- old-logs


def test_old_logs_go_and_nothing_else(tmp_path: Path) -> None:
    logs = tmp_path / "scratch" / "logs"
    old = [aged(logs / name, 40) for name in ("a.log", "deep/b.out", "with space.err")]
    stays = [aged(logs / "young.log", 20), aged(logs / "model.pt", 400), aged(tmp_path / "outside.log", 400)]
    (logs / "link.log").symlink_to(tmp_path / "outside.log")
    (logs / "away").symlink_to(tmp_path)
    script = edited("old-logs", tmp_path, folders=f"({logs})")
    done = run(script)
    result = read(done.returncode, done.stdout, done.stderr)
    assert result.status is Status.OK
    assert result.summary == "old-logs OK - 3 files older than 30 days removed"
    assert (result.metrics["removed"].value, result.metrics["freed"].value) == (3, 39)
    assert not any(path.exists() for path in old)
    assert all(path.exists() for path in stays)
    assert (logs / "link.log").is_symlink()
    again = run(script)
    assert again.stdout.startswith("old-logs OK - 0 files")


@pytest.mark.parametrize("folders", ["()", "(/)", "(/tmp)", "(relative/logs)", "(/nowhere/at/all)"])
def test_old_logs_needs_folders_that_are_meant(tmp_path: Path, folders: str) -> None:
    done = run(edited("old-logs", tmp_path, folders=folders))
    assert done.returncode in (2, 3)
    assert done.stdout.startswith("old-logs ")


# ---------------------------------------------------------------------------- compress-logs


def test_old_logs_are_compressed_once_and_what_was_cut_short_is_finished(tmp_path: Path) -> None:
    logs = tmp_path / "scratch" / "logs"
    text = "iteration 41 loss 2.31\n" * 900
    old = [aged(logs / name, 40, text) for name in ("a.log", "deep/with space.err")]
    stays = [aged(logs / "young.log", 2, text), aged(logs / "small.log", 40), aged(logs / "x.pt", 40, text)]
    script = edited("compress-logs", tmp_path, folders=f"({logs})")
    done = run(script)
    result = read(done.returncode, done.stdout, done.stderr)
    assert (result.status, result.metrics["compressed"].value) == (Status.OK, 2)
    assert result.metrics["freed"].value > 30_000
    assert all(path.exists() for path in stays)
    for path in old:
        packed = path.with_name(f"{path.name}.gz")
        assert gzip.decompress(packed.read_bytes()).decode() == text
        assert time.time() - packed.stat().st_mtime > 39 * DAY
        assert not path.exists()
    aged(old[0], 40, text)  # it was packed, and the end came before it was removed
    assert run(script).stdout.startswith("compress-logs OK - 0 files")
    assert not old[0].exists()
    aged(old[0], 40, f"another file\n{text}")
    assert run(script).returncode == 0
    assert old[0].exists(), "a packed file of another content replaces nothing"


@pytest.mark.parametrize("folders", ["()", "(/tmp)", "(relative/logs)"])
def test_compress_logs_needs_folders_that_are_meant(tmp_path: Path, folders: str) -> None:
    assert run(edited("compress-logs", tmp_path, folders=folders)).returncode in (2, 3)


# ---------------------------------------------------------------------------- thin-checkpoints


def test_old_checkpoints_are_thinned_and_a_second_run_finds_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    for step in range(1000, 31000, 1000):
        aged(folder / f"global_step{step}" / "model_00.pt", 30 - step / 1000)
        os.utime(folder / f"global_step{step}", (time.time() - 20 * DAY,) * 2)
    (folder / "latest").write_text("global_step7000")
    aged(folder / ".global_step500.thinned" / "model_00.pt", 30)
    script = edited("thin-checkpoints", tmp_path, CHECKPOINTS=f' "{folder}/global_step*"')
    done = run(script)
    result = read(done.returncode, done.stdout, done.stderr)
    left = sorted(int(path.name.removeprefix("global_step")) for path in folder.glob("global_step*"))
    assert left == [1000, 7000, 10000, 20000, 28000, 29000, 30000]
    assert result.metrics["removed"].value == 23
    assert not list(folder.glob(".*"))
    assert run(script).stdout.startswith("thin-checkpoints OK - 0 of 7 checkpoints removed")
    assert run(edited("thin-checkpoints", tmp_path)).returncode == 3


@pytest.mark.parametrize(
    ("names", "beside"),
    [
        (["gpt--val_loss=2.4{odd}-step={step}-consumed_samples={samples}.0.ckpt"], {}),
        (["epoch={epoch}-step={step}.ckpt"], {"epoch=1-step=3000-v1.ckpt": "", "last.ckpt": ""}),
        (
            [f"ep0-ba{{step}}-rank{rank}.pt" for rank in range(4)],
            {"latest-rank0.pt": "-> ep0-ba2000-rank0.pt"},
        ),
        (
            [
                f"model.ckpt-{{step}}.{part}"
                for part in ("index", "data-00000-of-00002", "data-00001-of-00002")
            ],
            {"checkpoint": 'model_checkpoint_path: "model.ckpt-2000"'},
        ),
        (["step{step}/model.pt", "step{step}-unsharded/model.pt"], {"latest": "-> step2000"}),
        (["checkpoint_1_{step}.pt"], {"checkpoint_best.pt": "", "checkpoint_last.pt": ""}),
        (["iter_{step:07d}/mp_rank_00/model.pt"], {"latest_checkpointed_iteration.txt": "2000"}),
    ],
)
def test_all_files_of_a_step_stay_or_go_whatever_their_names(
    tmp_path: Path, names: list[str], beside: dict[str, str]
) -> None:
    folder = tmp_path / "checkpoints"
    written: dict[int, set[Path]] = {}
    for step in range(1000, 7000, 1000):
        fields = {"step": step, "epoch": step // 2000, "odd": 99 - step // 90, "samples": 8 * step}
        written[step] = {aged(folder / name.format(**fields), 30 - step / 500) for name in names}
    for name, text in beside.items():
        if text.startswith("-> "):
            (folder / name).symlink_to(text[3:])
        else:
            aged(folder / name, 1, text)
    done = run(edited("thin-checkpoints", tmp_path, CHECKPOINTS=f' "{folder}/*"', YOUNGEST=" 0"))
    assert done.returncode == 0, done.stdout + done.stderr
    stays = {1000, 4000, 5000, 6000} | ({2000} if "2000" in str(beside) else set())
    assert {step for step, files in written.items() if all(file.exists() for file in files)} == stays
    assert not [
        file for step, files in written.items() if step not in stays for file in files if file.exists()
    ]
    assert all(os.path.lexists(folder / name) for name in beside)


def test_checkpoints_whose_order_is_not_certain_stay(tmp_path: Path) -> None:
    for number, name in enumerate(["a-1-9.pt", "a-3-2.pt", "a-2-7.pt", "a-4-1.pt"]):
        aged(tmp_path / "ck" / name, 30 - number)
    script = edited("thin-checkpoints", tmp_path, CHECKPOINTS=f' "{tmp_path}/ck/*"', KEEP=" 2")
    assert run(script).stdout.startswith("thin-checkpoints OK - 0 of 0 checkpoints removed")
    assert len(list((tmp_path / "ck").iterdir())) == 4


def test_each_run_keeps_its_own(tmp_path: Path) -> None:
    for run_name, days in (("old", 40.0), ("new", 20.0)):
        for step in range(1000, 5000, 1000):
            aged(tmp_path / run_name / f"checkpoint-{step}" / "model.pt", days - step / 1000)
    script = edited("thin-checkpoints", tmp_path, CHECKPOINTS=f' "{tmp_path}/*/checkpoint-*"', KEEP=" 2")
    assert run(script).stdout.startswith("thin-checkpoints OK - 2 of 8 checkpoints removed")
    assert not list(tmp_path.glob("*/checkpoint-2000"))


# ---------------------------------------------------------------------------- mlocate-update


def test_the_list_of_files_finds_what_is_there(tmp_path: Path) -> None:
    project = tmp_path / "project"
    aged(project / "checkpoints" / "global_step1200" / "model_00.pt", 1)
    database = tmp_path / "files.db"
    database.write_text("an old one")
    script = edited("mlocate-update.slurm", tmp_path, project=str(project), database=str(database))
    done = run(script)
    assert done.returncode == 0, done.stderr
    found = subprocess.run(
        ["locate", "-d", str(database), "model_00"], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == str(project / "checkpoints/global_step1200/model_00.pt")
    assert [path.name for path in tmp_path.glob("files.db*")] == ["files.db"]


def test_the_list_wants_its_settings(tmp_path: Path) -> None:
    done = run(edited("mlocate-update.slurm", tmp_path))
    assert done.returncode == 1
    assert "name the project" in done.stderr


# ---------------------------------------------------------------------------- offload-checkpoints


class Storage:
    """Checkpoints that a training wrote, and an archive."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.checkpoints, self.archive = place / "checkpoints", place / "archive"
        self.archive.mkdir()

    def checkpoint(self, step: int, days: float) -> Path:
        folder = self.checkpoints / f"global_step{step}"
        aged(folder / "model_00.pt", days, f"weights of {step}" * 1000)
        aged(folder / "zero" / "rank 0.pt", days, f"optimizer of {step}")
        (folder / "latest_model").symlink_to("model_00.pt")
        for path in (folder, folder / "latest_model"):
            os.utime(path, (time.time() - days * DAY,) * 2, follow_symlinks=False)
        return folder

    def offload(self, **settings: str) -> subprocess.CompletedProcess[str]:
        pattern, archive = f"{self.checkpoints}/global_step*", str(self.archive)
        script = edited(
            "offload-checkpoints.slurm",
            self.place,
            **{"CHECKPOINTS": repr(pattern), "ARCHIVE": repr(archive), **settings},
        )
        return run(script)

    def left(self) -> list[int]:
        return sorted(
            int(path.name.removeprefix("global_step")) for path in self.checkpoints.glob("global_step*")
        )

    def archived(self) -> list[str]:
        return sorted(path.name for path in self.archive.iterdir())


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(tmp_path)


def test_the_newest_two_stay_and_the_others_are_in_the_archive_whole(storage: Storage) -> None:
    for step, days in ((900, 5), (1000, 4), (1100, 3), (1200, 2)):  # 900 < 1000, also as text
        storage.checkpoint(step, days)
    done = storage.offload()
    assert done.returncode == 0, done.stderr
    assert storage.left() == [1100, 1200]
    assert storage.archived() == ["global_step1000", "global_step900"]
    copy = storage.archive / "global_step900"
    assert (copy / "model_00.pt").read_text() == "weights of 900" * 1000
    assert os.readlink(copy / "latest_model") == "model_00.pt"
    check = subprocess.run(
        ["sha256sum", "-c", "SHA256SUMS"], cwd=copy, capture_output=True, text=True, check=True
    )
    assert sorted(check.stdout.splitlines()) == ["model_00.pt: OK", "zero/rank 0.pt: OK"]
    again = storage.offload()
    assert (again.returncode, again.stdout) == (0, "")


def test_fewer_than_two_are_never_kept(storage: Storage) -> None:
    for step in (1, 2, 3):
        storage.checkpoint(step, 9 - step)
    assert storage.offload(KEEP="0").returncode == 0
    assert storage.left() == [2, 3]


def test_a_copy_that_differs_stops_the_removal(storage: Storage) -> None:
    for step in (1, 2, 3, 4):
        storage.checkpoint(step, 9 - step)
    shutil.copytree(storage.checkpoints / "global_step1", storage.archive / "global_step1", symlinks=True)
    text = (storage.archive / "global_step1" / "model_00.pt").read_text()
    (storage.archive / "global_step1" / "model_00.pt").write_text("W" + text[1:])
    done = storage.offload()
    assert done.returncode == 1
    assert "its copy of model_00.pt" in done.stderr
    assert storage.left() == [1, 3, 4]  # the other one is moved all the same


def test_an_interrupted_one_is_taken_up_again(storage: Storage) -> None:
    for step in (1, 2, 3, 4):
        storage.checkpoint(step, 9 - step)
    aged(storage.archive / "global_step1.partial" / "model_00.pt", 1, "half")
    shutil.copytree(storage.checkpoints / "global_step2", storage.archive / "global_step2", symlinks=True)
    assert storage.offload().returncode == 0
    assert storage.left() == [3, 4]
    assert storage.archived() == ["global_step1", "global_step2"]


def test_what_is_young_or_resumed_from_stays(storage: Storage) -> None:
    for step, days in ((1, 9.0), (2, 8.0), (3, 0.1), (4, 0.1), (5, 0.1)):
        storage.checkpoint(step, days)
    (storage.checkpoints / "latest").write_text("global_step1\n")
    assert storage.offload().returncode == 0
    assert storage.left() == [1, 3, 4, 5]
    (storage.checkpoints / "latest").unlink()
    (storage.checkpoints / "latest_checkpointed_iteration.txt").write_text("1")
    assert storage.offload().returncode == 0
    assert storage.left() == [1, 3, 4, 5]


def test_a_pipe_in_it_and_an_archive_that_is_away_are_faults(storage: Storage) -> None:
    for step in (1, 2, 3):
        storage.checkpoint(step, 9 - step)
    os.mkfifo(storage.checkpoints / "global_step1" / "pipe")
    os.utime(storage.checkpoints / "global_step1" / "pipe", (time.time() - 5 * DAY,) * 2)
    os.utime(storage.checkpoints / "global_step1", (time.time() - 5 * DAY,) * 2)
    done = storage.offload()
    assert (done.returncode, storage.left()) == (1, [1, 2, 3])
    assert "is no plain file" in done.stderr
    storage.archive.rmdir()
    assert "is it mounted?" in storage.offload().stderr
    assert "at the top of this file" in storage.offload(ARCHIVE='""').stderr


@pytest.mark.root
def test_an_archive_without_room_takes_nothing(storage: Storage) -> None:
    for step in (1, 2, 3):
        storage.checkpoint(step, 9 - step)
    (storage.checkpoints / "global_step1" / "model_00.pt").write_bytes(os.urandom(2_000_000))
    aged(storage.checkpoints / "global_step1" / "model_00.pt", 5, "x" * 2_000_000)
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(storage.archive)]
    subprocess.run(mount, check=True)
    try:
        done = storage.offload()
        assert (done.returncode, storage.left()) == (1, [1, 2, 3])
        assert "has no room for its" in done.stderr
        assert list(storage.archive.iterdir()) == []
    finally:
        subprocess.run(["umount", str(storage.archive)], check=True)


def test_it_is_written_in_the_oldest_python_that_it_names() -> None:
    source = (DROPINS / "offload-checkpoints.slurm").read_text()
    ast.parse(source, feature_version=(3, 8))


# ---------------------------------------------------------------------------- on the real Slurm


@pytest.mark.slurm
@pytest.mark.root
def test_the_offload_is_a_job_of_the_real_slurm(slurm: Cluster) -> None:
    storage = Storage(slurm.new_folder())
    for step in (1, 2, 3):
        storage.checkpoint(step, 9 - step)
    settings = {
        "CHECKPOINTS": repr(f"{storage.checkpoints}/global_step*"),
        "ARCHIVE": repr(str(storage.archive)),
    }
    script = edited("offload-checkpoints.slurm", storage.place, **settings)
    log = storage.place / "job.out"
    job = slurm.run_as("root", ["sbatch", "--parsable", "--mem=100M", f"--output={log}", str(script)]).stdout
    assert slurm.wait_for_state(job.strip(), "COMPLETED", "FAILED") == "COMPLETED", log.read_text()
    assert storage.left() == [2, 3]
    assert log.read_text() == f"offloaded {storage.checkpoints}/global_step1\n"


DCGMI = """#!/bin/sh
# The form of dcgmi diag -r 2 (DCGM 3): a table of tests with Pass or Fail.
echo '| Memory                    | Pass - All                                     |'
[ "$SLURMD_NODENAME" = "$BAD_NODE" ] || exit 0
echo '| PCIe                      | Fail - GPU: 3                                  |'
exit 226
"""


@pytest.mark.slurm
@pytest.mark.root
def test_the_diagnostic_takes_idle_nodes_and_names_the_bad_one(slurm: Cluster) -> None:
    place = slurm.new_folder()
    tool = place / "bin" / "dcgmi"
    tool.parent.mkdir()
    tool.write_text(DCGMI)
    tool.chmod(0o755)
    busy = slurm.sbatch(
        "root", "sleep 60", "--partition=gpu", "--exclusive", "--nodelist=node2", "--output=/dev/null"
    )
    slurm.wait_for_state(busy, "RUNNING")
    log = place / "job.out"

    def diagnosed(bad: str) -> str:
        env = {"PATH": f"{tool.parent}:{os.environ['PATH']}", "BAD_NODE": bad}
        words = ["sbatch", "--parsable", f"--output={log}", str(DROPINS / "gpu-diagnostic.slurm")]
        job = slurm.run_as("root", words, env=env).stdout.strip()
        return slurm.wait_for_state(job, "COMPLETED", "FAILED")

    assert diagnosed("") == "COMPLETED"
    assert sorted(log.read_text().splitlines()) == ["node3: well", "node4: well"]
    log.unlink()
    assert diagnosed("node4") == "FAILED"
    assert "node3: well" in log.read_text()
    assert "node4: NOT WELL (exit code 226): | PCIe                      | Fail - GPU: 3" in log.read_text()
    tool.unlink()
    log.unlink()
    assert diagnosed("") == "FAILED"
    assert "neither dcgmi nor rvs is installed" in log.read_text()
