"""One look at a real Slurm: what lives, how what is over has ended, and what cannot be known."""

from __future__ import annotations

import getpass
import os
import re
import shutil
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.cluster import Cluster
from tests.waiting import AT_ONCE, wait_until
from watchdogd.batch import slurm_snapshot, squeue
from watchdogd.batch.models import Ending, Job, Snapshot
from watchdogd.batch.slurmtext import FIELD

FOREVER = "exec sleep 3600"
QUIET = "--output=/dev/null"
HOSTILE = "a | name, with µ£ — and\na line break that is far longer than the forty characters of old"


@pytest.fixture(autouse=True)
def _this_cluster(slurm: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a daemon of root on this cluster has in its environment, and what it inherits from a job."""
    for key, value in slurm.env.items():
        monkeypatch.setenv(key, value)
    monkeypatch.setenv("SQUEUE_PARTITION", "none")
    monkeypatch.setenv("SLURM_TIME_FORMAT", "relative")


def look(
    *wanted: str, users: tuple[str, ...] = ("alice", "bob"), known: Mapping[str, float] | None = None
) -> Snapshot:
    return slurm_snapshot.look(wanted, users, known or {}, 20.0, time.time())


def submit(slurm: Cluster, script: str, *options: str, name: str = "tr11", user: str = "alice") -> str:
    return slurm.sbatch(user, script, QUIET, f"--job-name={name}", *options)


def the(found: tuple[Job, ...] | tuple[Ending, ...], raw_id: str) -> Job | Ending:
    (match,) = [each for each in found if each.raw_id == raw_id]
    return match


def end_of(raw_id: str, *wanted: str, known: Mapping[str, float] | None = None) -> Ending:
    """The end of a job, once it is told."""

    def told() -> list[Ending]:
        endings = look(*wanted, known=known).endings or ()
        return [end for end in endings if end.raw_id == raw_id and end.over]

    return wait_until(told, 30, f"the end of job {raw_id} is known").value[0]


class TestLiving:
    def test_names_of_any_kind_times_and_places(self, slurm: Cluster) -> None:
        job_id = submit(slurm, FOREVER, "--nodes=2", "--partition=gpu", "--time=1:00:00", name=HOSTILE)
        slurm.wait_for_state(job_id, "RUNNING")
        (job,) = look(HOSTILE).of(HOSTILE)
        assert (job.id, job.raw_id, job.user, job.partition) == (job_id, job_id, "alice", "gpu")
        assert (job.state, job.node_count, job.time_limit) == ("RUNNING", 2, 3600)
        assert job.nodes.startswith("node[")
        assert job.started_at == pytest.approx(time.time(), abs=120)
        assert job.ends_at == pytest.approx((job.started_at or 0) + 3600, abs=2)
        assert job.work_dir == str(slurm.home("alice"))

    def test_array_tasks_are_counted_and_raw_ids_are_those_that_slurm_takes(self, slurm: Cluster) -> None:
        array = submit(slurm, FOREVER, "--array=1-100:3%1")
        wait_until(lambda: len(look("tr11").of("tr11")) == 2, 30, "the first task runs")
        rest, first = sorted(look("tr11").of("tr11"), key=lambda job: job.tasks, reverse=True)
        assert (rest.array_id, rest.tasks, rest.reason) == (array, 33, "JobArrayTaskLimit")
        assert rest.waiting
        assert (first.id, first.tasks, first.state) == (f"{array}_1", 1, "RUNNING")
        slurm.run_as("alice", ["scancel", first.handle])

        def next_one() -> list[str]:
            return [job.id for job in look("tr11").of("tr11") if job.state == "RUNNING" and job != first]

        assert wait_until(next_one, 30, "the next task runs").value == [f"{array}_4"]

    def test_reasons(self, slurm: Cluster) -> None:
        held = submit(slurm, FOREVER, "--hold")
        long = submit(slurm, FOREVER, "--time=9-00:00:00")
        fails = submit(slurm, "exit 1", "--partition=gpu", name="other")
        never = submit(slurm, FOREVER, f"--dependency=afterok:{fails}")

        def reasons() -> dict[str, str]:
            return {job.raw_id: job.reason for job in look("tr11").of("tr11")}

        expected = {held: "JobHeldUser", long: "PartitionTimeLimit", never: "DependencyNeverSatisfied"}
        wait_until(lambda: reasons() == expected, 60, f"the reasons are {expected}")

    def test_het_components(self, slurm: Cluster) -> None:
        job_id = submit(slurm, FOREVER, "--ntasks=1", ":", "--ntasks=1")
        found = look("tr11").of("tr11")
        assert {job.id for job in found} == {f"{job_id}+0", f"{job_id}+1"}
        slurm.run_as("alice", ["scancel", found[-1].handle])
        wait_until(lambda: not look("tr11").of("tr11"), 30, "all of it is cancelled")

    def test_what_waits_of_an_array_by_its_handle(self, slurm: Cluster) -> None:
        submit(slurm, FOREVER, "--array=1-9%1")

        def rest() -> list[Job]:
            found = look("tr11").of("tr11")
            return [job for job in found if job.waiting] if len(found) == 2 else []

        (waiting,) = wait_until(rest, 30, "the first task runs").value
        assert waiting.tasks == 8
        slurm.run_as("alice", ["scontrol", "hold", waiting.handle])
        (held,) = rest()
        assert held.reason == "JobHeldUser"
        slurm.run_as("alice", ["scontrol", "release", held.handle])
        (released,) = rest()
        assert released.reason != "JobHeldUser"
        slurm.run_as("alice", ["scancel", released.handle])
        wait_until(lambda: [j.state for j in look("tr11").of("tr11")] == ["RUNNING"], 30, "the first is left")

    def test_a_job_that_is_renamed_is_told_for_as_long_as_it_lives(self, slurm: Cluster) -> None:
        job_id = submit(slurm, FOREVER, "--hold")
        seen = look("tr11")
        assert (seen.renamed, [*seen.known]) == ((), [job_id])
        slurm.run_as("alice", ["scontrol", "update", f"JobId={job_id}", "JobName=other"])
        for _ in range(2):
            seen = look("tr11", known=seen.known)
            assert [(job.raw_id, job.name) for job in seen.renamed] == [(job_id, "other")]
        assert look("tr11", "other", known=seen.known).renamed == ()

    def test_own_jobs_and_other_users_do_not_count(self, slurm: Cluster) -> None:
        submit(slurm, FOREVER, "--comment=watchdogd:ab12", "--hold")
        submit(slurm, FOREVER, "--hold", user="bob")
        seen = look("tr11", users=("alice",))
        assert seen.of("tr11") == ()
        assert [job.own for job in seen.jobs or ()] == [True]
        assert seen.known == {}

    def test_without_users_ones_own(self, slurm: Cluster) -> None:
        mine = submit(slurm, FOREVER, "--hold", user="root")
        submit(slurm, FOREVER, "--hold")
        seen = look("tr11", users=())
        assert [job.raw_id for job in seen.of("tr11")] == [mine]
        assert seen.users == {getpass.getuser()}

    def test_a_user_whom_nobody_knows_hides_nothing(self, slurm: Cluster) -> None:
        job_id = submit(slurm, FOREVER, "--hold")
        seen = look("tr11", "never", users=("alice", "nosuchuser"))
        assert [job.raw_id for job in seen.of("tr11")] == [job_id]
        assert (seen.trouble, seen.endings_trouble) == ("", "")
        nobody = look("tr11", users=("nosuchuser",))
        assert nobody.jobs is None
        assert nobody.trouble == "the name service knows none of the users nosuchuser"


class TestHostileTexts:
    def test_no_name_or_comment_makes_another_job_or_hides_one(self, slurm: Cluster) -> None:
        forged = (
            squeue.FORMAT.replace("%i", "9").replace("%A", "9").replace("%F", "9").replace("%T", "RUNNING")
        )
        forged = re.sub("%.", "1", forged.replace("%u", "alice").replace("%j", "tr11"))
        names = [f"x\n{forged}", f"x\n{forged[1:]}\n", "\x1b[2J\x1e\x1f", "é\r\x85\u2028", "a\x1fb\x1fc"]
        submitted = {
            submit(
                slurm, "true", "--hold", f"--comment={text}", "--partition=gpu", name=text, user="bob"
            ): text
            for text in names
        }
        mine = submit(slurm, "true", "--hold", "--partition=gpu")
        found = look("tr11")
        assert found.jobs is not None
        assert {job.raw_id: (job.user, job.name, job.comment) for job in found.jobs} == {
            mine: ("alice", "tr11", ""),
            **{job_id: ("bob", text, text) for job_id, text in submitted.items()},
        }


class TestEnded:
    def test_exit_code_of_a_job_that_squeue_may_never_have_seen(self, slurm: Cluster) -> None:
        job_id = submit(slurm, "exit 3")
        end = end_of(job_id, "tr11")
        assert (end.state, end.exit_code, end.how) == ("FAILED", 3, "FAILED (exit 3)")
        assert end.nodes == "node1"
        assert end.lasted is not None

    def test_how_a_vanished_job_ended(self, slurm: Cluster) -> None:
        job_id = submit(slurm, "exec sleep 2")
        slurm.wait_for_state(job_id, "RUNNING")
        stays = submit(slurm, FOREVER, "--hold")
        before = look("tr11")
        assert before.known.keys() == {job_id, stays}
        slurm.wait_for_state(job_id, "COMPLETED")
        after = look("tr11", known=before.known)
        assert [job.raw_id for job in after.of("tr11")] == [stays]
        assert the(after.ended("tr11"), job_id).state == "COMPLETED"
        assert after.known.keys() == {stays}

    def test_who_cancelled_it(self, slurm: Cluster) -> None:
        job_id = submit(slurm, FOREVER)
        slurm.wait_for_state(job_id, "RUNNING")
        slurm.run_as("alice", ["scancel", job_id])
        wait_until(lambda: end_of(job_id, "tr11").cancelled_by == "alice", 30, "accounting names who it was")

    def test_cancelled_before_it_could_start_which_accounting_does_not_know(self, slurm: Cluster) -> None:
        job_id = submit(slurm, FOREVER, "--hold")
        known = look("tr11").known
        slurm.run_as("alice", ["scancel", job_id])
        end = end_of(job_id, "tr11", known=known)
        assert (end.state, end.started_at) == ("CANCELLED", None)

    def test_a_signal(self, slurm: Cluster) -> None:
        job_id = submit(slurm, "kill -9 $$", name="killed")
        assert end_of(job_id, "killed").how == "FAILED by SIGKILL"

    def test_a_step_that_tells_more_than_its_job(self, slurm: Cluster) -> None:
        crash = "srun --ntasks=1 bash -c 'ulimit -c 0; kill -ABRT $$'"
        job_id = submit(slurm, f"{crash}\nexit 77", name="aborted")
        told = "FAILED (exit 77; step 0: CANCELLED by SIGABRT)"
        wait_until(lambda: end_of(job_id, "aborted").how == told, 60, "accounting has its step")

    def test_accounting_knows_a_name_with_quotes(self, slurm: Cluster) -> None:
        name = """the "best" of bob's | a\\b"""
        job_id = submit(slurm, FOREVER, name=name)
        slurm.wait_for_state(job_id, "RUNNING")
        slurm.run_as("alice", ["scancel", job_id])

        def told() -> list[str]:
            return [end.cancelled_by for end in look(name).ended(name) if end.over and end.cancelled_by]

        assert wait_until(told, 60, "accounting names who it was").value == ["alice"]

    def test_own_jobs_are_known_in_accounting_too(self, slurm: Cluster) -> None:
        job_id = submit(slurm, "exit 3", "--comment=watchdogd:ab12", name="mine")
        assert end_of(job_id, "mine").own
        wait_until(lambda: end_of(job_id, "mine").exit_code == 3, 30, "it is known with its exit code")
        assert look("mine").ended("mine") == ()

    def test_while_accounting_is_away_the_controller_has_the_exit_code(self, slurm: Cluster) -> None:
        slurm.stop_dbd()
        job_id = submit(slurm, "exit 7")
        slurm.wait_for_state(job_id, "FAILED")
        seen = look("tr11")
        end = the(seen.endings or (), job_id)
        assert isinstance(end, Ending)
        assert (end.state, end.exit_code) == ("FAILED", 7)
        assert seen.endings_trouble.startswith("sacct: ")
        assert seen.jobs == ()

    @pytest.mark.parametrize("option", ["--hold", "--begin=now+1hour"])
    def test_who_cancelled_what_was_never_eligible_to_start(self, slurm: Cluster, option: str) -> None:
        job_id = submit(slurm, FOREVER, option)
        known = look("tr11").known
        slurm.run_as("alice", ["scancel", job_id])
        slurm.wait_for_state(job_id, "CANCELLED")

        def told() -> Ending | None:
            ends = look("tr11", known=known).endings or ()
            return next((end for end in ends if end.raw_id == job_id and end.cancelled_by), None)

        end = wait_until(told, 30, "accounting knows who cancelled it").value
        assert end
        assert (end.state, end.cancelled_by, end.user) == ("CANCELLED", "alice", "alice")
        assert end.started_at is None

    def test_a_slurm_that_is_older_than_submit_lines(
        self, slurm: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """sacct before 21.08 refuses the field; this one does so, and is the real one else."""
        old = tmp_path / "sacct"
        refusal = "echo 'sacct: error: Invalid field requested: \"SubmitLine\"' >&2; exit 1"
        real = shutil.which("sacct")
        old.write_text(f'#!/bin/sh\ncase "$*" in *SubmitLine*) {refusal};; esac\nexec {real} "$@"\n')
        old.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        job_id = submit(slurm, "exit 3")
        assert end_of(job_id, "tr11").exit_code == 3
        assert look("tr11").endings_trouble == ""


class TestDoubt:
    def test_controller_away(self, slurm: Cluster) -> None:
        submit(slurm, FOREVER, "--hold")
        before = look("tr11")
        slurm.stop_controller()
        seen = slurm_snapshot.look(["tr11"], ["alice"], before.known, 20.0, time.time())
        assert seen.jobs is None
        assert seen.trouble.startswith("squeue: ")
        assert seen.known == before.known

    def test_controller_hangs(self, slurm: Cluster) -> None:
        slurm.freeze_controller()
        began = time.monotonic()
        seen = slurm_snapshot.look(["tr11"], ["alice"], {}, 2.0, time.time())
        assert time.monotonic() - began < AT_ONCE
        assert seen.jobs is None
        assert seen.trouble == "squeue did not answer within 2 s"

    @pytest.mark.parametrize("complaint", ["", "Socket timed out"])
    def test_an_empty_answer_with_exit_0_is_not_believed(
        self, slurm: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, complaint: str
    ) -> None:
        """A busy controller's squeue ends so; the controller itself and accounting are the real ones."""
        job_id = submit(slurm, FOREVER)
        slurm.wait_for_state(job_id, "RUNNING")
        known = look("tr11").known
        busy = tmp_path / "squeue"
        busy.write_text(
            f"#!/bin/sh\necho 'slurm_load_jobs error: {complaint}' >&2\n" if complaint else "#!/bin/sh\n"
        )
        busy.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        seen = look("tr11", known=known)
        assert seen.jobs is None
        assert (complaint or f"it still knows job {job_id}") in seen.trouble
        assert seen.known == known

    def test_an_answer_in_which_a_job_is_missing_is_not_believed(
        self, slurm: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As a federation's squeue gives where one of its clusters is silent: exit 0, some jobs."""
        submit(slurm, FOREVER, "--hold")
        job_id = submit(slurm, FOREVER, "--hold")
        known = look("tr11").known
        part = tmp_path / "squeue"
        raw_id = f"{FIELD}{job_id}{FIELD}"
        part.write_text(f'#!/bin/sh\n{shutil.which("squeue")} "$@" | grep -avF "{raw_id}"\n')
        part.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
        seen = look("tr11", known=known)
        assert seen.jobs is None
        doubt = "squeue does not list all, which the controller does not confirm (it still knows job"
        assert seen.trouble == f"{doubt} {job_id}, PENDING)"
        assert seen.known == known
        part.unlink()
        assert look("tr11", known={**known, "999999": time.time()}).jobs  # the controller knows no such job

    def test_a_queue_that_is_really_empty_is_believed(self, slurm: Cluster) -> None:
        submit(slurm, FOREVER, "--hold")
        known = look("tr11").known
        slurm.cancel_all()
        assert look("tr11", known=known).jobs == ()
        gone_for_good = look("tr11", users=("bob",), known={"999999": time.time()})
        assert gone_for_good.jobs == ()
        assert gone_for_good.trouble == ""

    def test_squeue_missing(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        assert look("tr11").trouble == "squeue cannot be run: No such file or directory"

    def test_squeue_speaks_in_tongues(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        (tmp_path / "squeue").write_text("#!/bin/sh\necho hello\n")
        (tmp_path / "squeue").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        assert look("tr11").trouble == "squeue printed a line that is no job: 'hello'"
