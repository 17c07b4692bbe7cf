"""The chain without a Slurm: who follows whom, how a link is submitted, what is told, and that stop wins."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.waiting import wait_until
from watchdogd.batch import sinfo, slurm
from watchdogd.batch.models import Job
from watchdogd.batch.sinfo import Partition
from watchdogd.chain import chain as chain_module
from watchdogd.chain import launch, link_script, live_links, shutdown
from watchdogd.chain import leadership as tenure_module
from watchdogd.chain.chain import Chain
from watchdogd.chain.leadership import DaemonLeadership
from watchdogd.chain.link_script import LinkJob, LinkOptions
from watchdogd.chain.live_links import SLOW_START, SuccessionPlan, decide
from watchdogd.config.loading import load, parse
from watchdogd.doctor import delivery
from watchdogd.errors import HomeError, SlurmError, SlurmSilentError, UnitError, WatchdogError
from watchdogd.home import markers
from watchdogd.home.layout import Home
from watchdogd.home.lease import Lease
from watchdogd.system import account, command
from watchdogd.system.command import Answer
from watchdogd.system.times import format_walltime, parse_walltime, walltime_margin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

NOW = 1_800_000_000.0
DAY = 86400.0


def running(number: int, since: float = NOW, walltime: float = DAY, **changed: object) -> Job:
    """A link that runs."""
    plain = Job(
        str(number),
        str(number),
        "watch",
        "alice",
        "RUNNING",
        nodes="node1",
        started_at=since,
        ends_at=since + walltime,
        time_limit=walltime,
    )
    return replace(plain, **changed)  # type: ignore[arg-type]  # the tests name fields of Job


def waiting(number: int, after: int = 0, reason: str = "Dependency") -> Job:
    """A link that waits, for link `after` where there is one."""
    dependency = f"afterany:{after}(unfulfilled)" if after else ""
    return Job(str(number), str(number), "watch", "alice", "PENDING", reason, dependency=dependency)


@pytest.fixture(autouse=True)
def _usual_signals() -> Iterator[None]:
    """A link's handlers of Slurm's signals go with its test."""
    usual = {number: signal.getsignal(number) for number in (signal.SIGUSR1, signal.SIGTERM)}
    yield
    for number, handler in usual.items():
        signal.signal(number, handler)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.make()
    home.config.write_text('[slurm]\npartition = "small"\naccount = "project"\noptions = ["--qos=normal"]\n')
    return home


# Who follows whom


def test_a_link_without_a_successor_submits_one_that_overlaps() -> None:
    assert decide([running(5)], "5", NOW) == SuccessionPlan(submit=("--dependency=afterany:5?after:5+1410",))
    assert decide([running(5, walltime=180)], "5", NOW) == SuccessionPlan(
        submit=("--dependency=afterany:5?after:5+2",)
    )
    assert decide([running(5, walltime=120)], "5", NOW) == SuccessionPlan(
        submit=("--dependency=afterany:5?after:5+1",)
    )


def test_the_minutes_follow_the_real_end_of_the_link() -> None:
    """--time-min may have shortened it, an administrator extended it."""
    mine = running(5, walltime=DAY, ends_at=NOW + 3600)
    assert decide([mine], "5", NOW) == SuccessionPlan(submit=("--dependency=afterany:5?after:5+54",))


def test_a_link_without_a_limit_is_followed_at_its_end() -> None:
    mine = running(5, ends_at=None, time_limit=None)
    assert decide([mine], "5", NOW) == SuccessionPlan(submit=("--dependency=afterany:5",))


def test_one_that_waits_is_the_successor_whoever_submitted_it() -> None:
    for heir in (waiting(6, after=5), waiting(6), waiting(4, after=3)):
        assert decide([running(5), heir], "5", NOW) == SuccessionPlan(successor=heir)


def test_of_several_the_one_that_waits_for_me_stays() -> None:
    links_ = [waiting(3, after=2), running(5), waiting(6), waiting(7, after=5), waiting(8, after=5)]
    assert decide(links_, "5", NOW) == SuccessionPlan(successor=links_[3], cancel=("3", "6", "8"))
    assert decide([running(5), waiting(6), waiting(8)], "5", NOW).cancel == ("8",)


def test_a_newer_link_is_left_to_see_to_its_own_successor() -> None:
    old, new = running(5, since=NOW - 1000), running(6, since=NOW - 10)
    assert decide([old, new], "5", NOW) == SuccessionPlan(successor=new)
    assert decide([old, new], "6", NOW).submit == ("--dependency=afterany:6?after:6+1410",)


def test_a_newer_link_that_does_nothing_is_not_waited_for() -> None:
    old, new = running(5, since=NOW - 1000), running(6, since=NOW - SLOW_START)
    assert decide([old, new], "5", NOW).submit == ("--dependency=afterany:5?after:5+1410",)


def test_links_of_one_second_agree_on_who_is_newer() -> None:
    two = [running(5), running(6)]
    assert [decide(two, me, NOW).submit is None for me in ("5", "6")] == [True, False]


def test_a_link_that_is_ending_is_nobodys_successor() -> None:
    old, new = running(5), running(6, since=NOW + 1, state="COMPLETING")
    assert decide([old, new], "5", NOW + 2).submit is not None


def test_a_newer_link_under_a_flag_of_slurms_is_alive() -> None:
    for state in ("SIGNALING", "CONFIGURING", "POWER_UP_NODE"):
        new = running(6, since=NOW - 10, state=state)
        assert decide([running(5, since=NOW - 1000), new], "5", NOW) == SuccessionPlan(successor=new)


def test_nothing_is_done_where_the_queue_does_not_show_ourselves() -> None:
    assert decide([], "5", NOW) == SuccessionPlan(unseen=True)
    assert decide([waiting(6)], "5", NOW) == SuccessionPlan(unseen=True)


def test_a_link_that_the_controller_lost_gets_a_successor_at_once() -> None:
    assert decide([], "5", NOW, lost=True) == SuccessionPlan(submit=())
    assert decide([running(6)], "5", NOW, lost=True) == SuccessionPlan(successor=running(6))


def test_a_requeued_link_that_waits_submits_nothing_for_itself() -> None:
    me = waiting(5)
    assert decide([me, waiting(6, after=5)], "5", NOW).submit is None


def test_a_tick_is_followed_by_time() -> None:
    assert decide([running(5)], "5", NOW, every=300) == SuccessionPlan(submit=("--begin=now+300",))


# How a link is submitted


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("12h", 43200), ("90", 5400), ("2:30", 150), ("01:00:00", 3600), ("1-0", DAY), ("1-02:03", 93780),
        ("1-00:00:30", DAY + 30), ("1d12h", 1.5 * DAY), (" 30m ", 1800),
    ],
)  # fmt: skip
def test_walltimes_are_read_as_people_and_slurm_write_them(text: str, seconds: float) -> None:
    assert parse_walltime(text) == seconds
    assert parse_walltime(format_walltime(seconds)) == seconds


@pytest.mark.parametrize("text", ["", "soon", "1:2:3:4", "-5", "12 hours"])
def test_what_is_no_walltime(text: str) -> None:
    with pytest.raises(UnitError, match="is no walltime"):
        parse_walltime(text)


def test_the_margin_is_a_tenth_within_bounds() -> None:
    assert [walltime_margin(seconds) for seconds in (120, 600, 3600, 43200)] == [60, 60, 360, 1800]


def test_the_options_of_a_link(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*link_script._EXPORTED, "HOOK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/bin")
    monkeypatch.setenv("HOOK", "https://canary")
    home.config.write_text(
        home.config.read_text() + '[channels.s]\ntype = "slack"\nwebhook_url = "env:HOOK"\n'
    )
    form = link_script.link_job(home, load(home), LinkOptions(partition="cpu"), 43200, 21600)
    options = form.sbatch_options("--dependency=afterany:5")
    assert options == (
        "--job-name=watchdogd",
        f"--comment=watchdogd:{home.id}",
        f"--chdir={home.path}",
        f"--output={home.logs}/link.log",
        "--time=12:00:00",
        "--time-min=06:00:00",
        "--export=PATH,HOOK",
        "--partition=cpu",
        "--account=project",
        "--qos=normal",
        "--dependency=afterany:5",
    )
    assert "canary" not in " ".join(options) + form.script()
    assert (form.environment()["HOOK"], command.environment().get("HOOK")) == ("https://canary", None)


def test_a_home_with_signs_of_slurm_and_of_the_shell_in_its_name(tmp_path: Path) -> None:
    home = Home(tmp_path / "it's 100%j $HOME")
    home.make()
    form = LinkJob(home, "w")
    assert f"--output={str(home.logs).replace('%', '%%')}/link.log" in form.sbatch_options()
    words = command.ask(["bash", "-n"], deadline=10, stdin=form.script())
    assert words.ok
    last = form.script().splitlines()[-1].removeprefix("exec ")
    said = command.ask(["bash", "-c", f"printf '%s\\n' {last}"], deadline=10).output.splitlines()
    assert said == [sys.executable, "-P", "-m", "watchdogd", "run", "--home", str(home.path)]


def test_the_example_in_deploy_is_what_is_submitted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/opt/watchdogd/bin/python")
    script = LinkJob(Home(Path("/shared/team/watchdogd")), "w").script()
    example = (Path(__file__).parents[2] / "deploy" / "link.slurm").read_text()
    assert example.startswith("#!/bin/bash\n")
    assert example.endswith(script.removeprefix("#!/bin/bash\n"))


def test_a_tick_link_ticks(home: Home) -> None:
    script = LinkJob(home, "w", mode="tick").script()
    assert "export WATCHDOGD_LINK=tick\n" in script
    assert " -m watchdogd tick --home " in script


def test_how_it_was_started_is_remembered(home: Home) -> None:
    assert link_script.remembered(home) == (LinkOptions(), 0.0)
    link_script.remember(home, LinkOptions("small", "a", "2h", "tick"), 7200)
    assert link_script.remembered(home) == (LinkOptions("small", "a", "2h", "tick"), 7200)
    (home.path / "link.json").write_text("{")
    with pytest.raises(HomeError, match=r"link\.json is broken: remove it"):
        link_script.remembered(home)


def test_a_long_log_is_rotated(home: Home) -> None:
    log = home.logs / "link.log"
    link_script.prepare_log(home)
    assert (log.read_text(), log.stat().st_mode & 0o777) == ("", home.file_mode)
    log.write_text("short")
    link_script.prepare_log(home)
    assert log.read_text() == "short"
    log.write_bytes(b"x" * (link_script.LOG_LIMIT + 1))
    link_script.prepare_log(home)
    assert (log.read_text(), (home.logs / "link.log.1").exists()) == ("", True)


# What Slurm refuses


def said(errors: str, code: int | None = 1, trouble: str = "") -> Answer:
    return Answer(("sbatch",), code, "", errors, 0.1, trouble)


@pytest.mark.parametrize(
    ("errors", "mend"),
    [
        ("sbatch: error: invalid partition specified: smal\nsbatch: error: Batch job submission failed: "
         "Invalid partition name specified", "sbatch was refused: Invalid partition name specified: name "),
        ("sbatch: error: Batch job submission failed: Invalid account or account/partition combination "
         "specified", 'name yours: account = "..."'),
        ("sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, "
         "user's size and/or time limits)", "as many jobs queued as your limit allows"),
        ("sbatch: unrecognized option '--qoz=1'\nTry \"sbatch --help\" for more", "correct [slurm]"),
        ("sbatch: error: Batch job submission failed: Requested time limit is invalid (missing or exceeds "
         "some limit)", "ask for less"),
        ("sbatch: error: Batch job submission failed: Invalid generic resource (gres) specification",
         "correct --gres"),
        ("sbatch: error: Batch job submission failed: Access denied to requested reservation",
         "correct --reservation"),
        ("sbatch: error: Batch job submission failed: MaxJobCount limit reached", "no more jobs just now"),
        ("sbatch: fatal: Could not establish a configuration source", "`watchdogd start --local` watches"),
        ("sbatch: error: something new", "sbatch was refused: something new"),
        ("sbatch: error: Batch script contains DOS line breaks (\\r\\n)\nsbatch: error: instead of expected "
         "UNIX line breaks (\\n).", r"breaks (\r\n) instead of expected UNIX line breaks (\n): sed -i"),
        ("sbatch: error: This does not look like a batch script.  The first\nsbatch: error: line must start "
         "with #! followed by the path to an interpreter.\nsbatch: error: For instance: #!/bin/sh",
         "The first line must start with #!"),
        ("sbatch: error: AssocMaxSubmitJobLimit\nsbatch: error: Batch job submission failed: Job violates "
         "accounting/QOS policy (job submit limit, user's size and/or time limits)", "refused: Job violates"),
    ],
)  # fmt: skip
def test_a_refusal_names_the_mend(errors: str, mend: str) -> None:
    error = slurm.refusal(said(errors))
    assert not isinstance(error, SlurmSilentError)
    assert mend in str(error)
    assert "\n" not in str(error)


def test_of_a_machine_without_a_cluster_one_line_is_told_not_its_lookups() -> None:
    lookups = (
        "sbatch: error: resolve_ctls_from_dns_srv: res_nsearch error: Unknown host\n"
        "sbatch: error: fetch_config: DNS SRV lookup failed\n"
        "sbatch: error: _establish_config_source: failed to fetch config\n"
        "sbatch: fatal: Could not establish a configuration source\n"
    )
    refused = str(slurm.refusal(said(lookups)))
    assert refused.startswith("sbatch was refused: Could not establish a configuration source: on a machine ")


def test_a_refusal_of_a_drop_in_is_mended_in_its_script() -> None:
    refused = said("sbatch: error: Batch job submission failed: Invalid feature specification")
    assert "--constraint under [slurm] options" in str(slurm.refusal(refused))
    mended = "Invalid feature specification: correct its #SBATCH lines"
    assert mended in str(slurm.refusal(refused, dropin=True))


@pytest.mark.parametrize(
    "answer",
    [
        said("", None, "sbatch did not answer within 45 s"),
        said(
            "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)"
        ),
        said("sbatch: error: Batch job submission failed: Socket timed out on send/recv operation"),
        said("sbatch: error: slurm_receive_msg: Zero Bytes were transmitted or received"),
        said("sbatch: error: Batch job submission failed: Rate limit exceeded, please retry momentarily"),
        said("sbatch: error: Batch job submission failed: Message receive failure"),
    ],
)
def test_no_answer_is_no_refusal(answer: Answer) -> None:
    assert isinstance(slurm.refusal(answer), SlurmSilentError)


def answering(monkeypatch: pytest.MonkeyPatch, answer: Answer) -> list[tuple[str, ...]]:
    """Let every command answer so; returns what is asked."""
    asked: list[tuple[str, ...]] = []

    def ask(argv: tuple[str, ...], **_: object) -> Answer:
        asked.append(tuple(argv))
        return answer

    monkeypatch.setattr(command, "ask", ask)
    return asked


@pytest.mark.parametrize(("output", "job"), [("88\n", "88"), ("88;lab\n", "88"), ("note\n88\n", "88")])
def test_the_id_of_a_submitted_job(monkeypatch: pytest.MonkeyPatch, output: str, job: str) -> None:
    asked = answering(monkeypatch, Answer(("sbatch",), 0, output, "", 0.1))
    assert slurm.sbatch(["--time=1"], "script") == job
    assert asked == [("sbatch", "--parsable", "--time=1")]


def test_an_sbatch_that_says_nothing_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, Answer(("sbatch",), 0, "\n", "", 0.1))
    with pytest.raises(SlurmSilentError, match="printed no job id"):
        slurm.sbatch([], "script")


def test_scancel_of_what_is_over_is_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = Answer(
        ("scancel",), 1, "", "scancel: error: Kill job error on job id 9: Invalid job id specified", 0.1
    )
    asked = answering(monkeypatch, gone)
    slurm.scancel(["9"])
    slurm.scancel([])
    assert len(asked) == 1
    answering(monkeypatch, replace(gone, errors="scancel: error: Access/permission denied"))
    with pytest.raises(SlurmError, match="permission denied"):
        slurm.scancel(["9"])


def test_an_empty_queue_with_a_complaint_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, Answer(("squeue",), 0, "", "slurm_load_jobs error: timed out", 0.1))
    with pytest.raises(SlurmSilentError, match="timed out"):
        live_links.queued_links("watchdogd:abc")


def test_commands_of_slurm_without_a_cluster_are_as_none(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    alone = Answer(("squeue",), 1, "", "squeue: fatal: Could not establish a configuration source", 0.1)
    answering(monkeypatch, alone)
    assert launch.already_running(home) is None
    link_script.remember(
        home, LinkOptions(), DAY
    )  # but where it was a chain once, its links may be queued somewhere
    with pytest.raises(SlurmSilentError):
        launch.already_running(home)
    assert launch.already_running(home, local=True) is None


def test_a_silent_controller_keeps_no_local_daemon_from_starting(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    answering(monkeypatch, Answer(("squeue",), 1, "", "slurm_load_jobs error: Socket timed out", 0.1))
    with pytest.raises(SlurmSilentError):
        launch.already_running(home)
    assert launch.already_running(home, local=True) is None


# The partition

SITE = sinfo.Site(
    (
        Partition("small", "1-00:00:00", 2, gpus=False, default=True),
        Partition("gpu", "infinite", 4, gpus=True, default=False),
        Partition("short", "30:00", 4, gpus=False, default=False),
    )
)


def test_the_walltime_is_the_smaller_of_a_day_and_the_limit() -> None:
    assert sinfo.allowed_walltime(SITE.chosen(""), None) == DAY
    assert sinfo.allowed_walltime(SITE.chosen("gpu"), None) == DAY
    assert sinfo.allowed_walltime(SITE.chosen("small,short"), None) == 1800
    assert sinfo.allowed_walltime(SITE.chosen("gpu"), 9 * DAY) == 9 * DAY


def test_what_the_partition_does_not_allow_is_refused_beforehand() -> None:
    with pytest.raises(SlurmError, match="partition short allows 00:30:00 at most: ask for less"):
        sinfo.allowed_walltime(SITE.chosen("short"), 1801)
    with pytest.raises(SlurmError, match="two minutes at least"):
        sinfo.allowed_walltime(SITE.chosen("short"), 60)
    with pytest.raises(SlurmError, match="there is no partition 'smal'; did you mean 'small'"):
        SITE.chosen("smal")


def test_gpus_are_warned_of() -> None:
    assert "partition gpu has GPUs: a CPU partition costs less (small, short)" in sinfo.gpu_warning(
        SITE.chosen("gpu"), SITE
    )
    assert sinfo.gpu_warning(SITE.chosen("small"), SITE) == ""


# A maintenance ahead

RESERVATIONS = (
    "ReservationName=weekly StartTime=2027-01-15T09:00:00 EndTime=2027-01-15T12:00:00 Duration=03:00:00 "
    "Nodes=node[1-5] NodeCnt=5 CoreCnt=20 Features=(null) PartitionName=(null) "
    "Flags=MAINT,IGNORE_JOBS,SPEC_NODES "
    "TRES=cpu=20 Users=root Groups=(null) Accounts=(null) Licenses=(null) State=INACTIVE BurstBuffer=(null)\n"
    "ReservationName=course StartTime=2027-01-15T08:30:00 EndTime=2027-01-15T12:00:00 Duration=03:30:00 "
    "Nodes=node2 NodeCnt=1 CoreCnt=4 Features=(null) PartitionName=gpu Flags=SPEC_NODES TRES=cpu=4\n"
)


def test_only_a_maintenance_makes_links_short(monkeypatch: pytest.MonkeyPatch) -> None:
    (begin,) = live_links.begins_of(RESERVATIONS)
    assert time.strftime("%F %T", time.localtime(begin)) == "2027-01-15 09:00:00"
    assert live_links.begins_of("No reservations in the system\n") == []
    answering(monkeypatch, Answer(("scontrol",), 0, RESERVATIONS, "", 0.1))
    assert live_links.shortest(DAY, begin - DAY / 2) == 0.9 * DAY / 2
    assert live_links.shortest(DAY, begin - 1900) == 1800
    assert live_links.shortest(DAY, begin - 2 * DAY) == 0
    assert live_links.shortest(DAY, begin + 1) == 0
    assert live_links.shortest(DAY, begin - 1700) == 0  # too near for any link
    assert live_links.shortest(600, begin - 300) == 0
    answering(monkeypatch, Answer(("scontrol",), None, "", "", 20.0, "no answer"))
    assert live_links.shortest(DAY, begin - DAY / 2) == 0


def test_a_successor_that_a_maintenance_holds_up_is_replaced_once(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    reason = "ReqNodeNotAvail, Reserved for maintenance"
    queue = Queue(running(5), waiting(6, after=5, reason=reason)).use(monkeypatch)
    chain = Chain(home, load(home), "5")
    drive(chain, NOW, 60)
    assert [job.raw_id for job in queue.jobs] == ["5", "6"]
    assert len(queue.submitted) == 1
    queue.jobs[1] = waiting(6, after=5, reason=reason)
    drive(chain, NOW + 60, 1000)
    assert len(queue.submitted) == 1


# A link at work


class Queue:
    """A queue in memory in the place of Slurm: what is submitted waits in it."""

    def __init__(self, *jobs: Job) -> None:
        self.jobs = list(jobs)
        self.submitted: list[tuple[str, ...]] = []
        self.refuses: SlurmError | None = None
        self.takes_all_the_same = False
        self.silent = False
        self.known = True
        self.looks = 0
        self.meanwhile: Callable[[], object] = lambda: None

    def queued(self, mark: str, users: object = None) -> tuple[Job, ...]:
        self.looks += 1
        if self.silent:
            raise SlurmSilentError("squeue did not answer")
        return tuple(self.jobs)

    def sbatch(self, options: tuple[str, ...], script: str, env: Mapping[str, str]) -> str:
        self.submitted.append(tuple(options))
        self.meanwhile()
        number = max((int(job.raw_id) for job in self.jobs), default=9) + 1
        if self.refuses is None or self.takes_all_the_same:
            self.jobs.append(waiting(number))
        if self.refuses:
            raise self.refuses
        return str(number)

    def scancel(self, job_ids: list[str]) -> None:
        self.jobs = [job for job in self.jobs if job.raw_id not in job_ids]

    def use(self, monkeypatch: pytest.MonkeyPatch) -> Queue:
        monkeypatch.setattr(live_links, "queued_links", self.queued)
        monkeypatch.setattr(live_links, "links_and_dropin_jobs", self.queued)
        monkeypatch.setattr(live_links, "is_unknown", lambda job_id: not self.known)
        monkeypatch.setattr(live_links, "shortest", lambda walltime, now: 0.0)
        monkeypatch.setattr(slurm, "sbatch", self.sbatch)
        monkeypatch.setattr(slurm, "scancel", self.scancel)
        return self


def drive(chain: Chain, begin: float, seconds: float) -> list[str]:
    """One step a second; returns the last troubles."""
    troubles: list[str] = []
    for second in range(int(seconds)):
        troubles = chain.step(begin + second)
    return troubles


@pytest.mark.parametrize(
    ("program", "mode", "told"),
    [
        ("", 0o700, "sbatch cannot be run: No such file or directory"),
        ("#!/bin/sh\necho 6", 0o600, "sbatch cannot be run: Permission denied"),
        ("#!/bin/sh\nexec yes", 0o700, "sbatch"),
    ],
    ids=["missing", "not executable", "flood"],
)
def test_an_sbatch_that_is_no_sbatch_is_told_in_two_minutes_whenever_the_next_look_is(
    home: Home, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, program: str, mode: int, told: str
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    if program:
        (tools / "sbatch").write_text(program)
        (tools / "sbatch").chmod(mode)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin" if "yes" in program else str(tools))
    monkeypatch.setenv("WATCHDOGD_LINK", "daemon")
    monkeypatch.setenv("SLURM_JOB_ID", "5")
    monkeypatch.setattr(live_links, "queued_links", lambda _mark: (running(5, since=time.time()),))
    leadership = DaemonLeadership(home, load(home))
    assert leadership.chain
    leadership.chain.step(time.time() - chain_module.TELL_AFTER)
    [trouble] = leadership.troubles()
    assert trouble.startswith("the next watchdog job is not queued: ")
    assert told in trouble


@pytest.mark.slow
def test_an_sbatch_that_hangs_stalls_nothing_is_told_and_the_chain_goes_on_when_it_is_well(
    home: Home, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hangs = tmp_path / "hangs"
    hangs.touch()
    sbatch = tmp_path / "sbatch"
    sbatch.write_text(f"#!/bin/sh\n[ -e {hangs} ] && exec sleep 1000\necho 6\n")
    sbatch.chmod(0o700)
    really = slurm.sbatch
    Queue(running(5, since=time.time() - DAY + 600)).use(monkeypatch)  # near its end: told at once
    monkeypatch.setattr(slurm, "sbatch", really)
    monkeypatch.setattr(slurm, "SBATCH_DEADLINE", 1.0)
    monkeypatch.setattr(chain_module, "_QUICK", 0.1)
    monkeypatch.setattr(tenure_module, "_FIRST_STEP", 0.1)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv(chain_module.ENVIRONMENT, "daemon")
    monkeypatch.setenv("SLURM_JOB_ID", "5")
    leadership = DaemonLeadership(home, load(home))
    leadership.begin()  # it acts, though its first sbatch hangs

    def told(words: str) -> bool:
        assert leadership.watch()
        return any(words in trouble for trouble in leadership.troubles())

    what = "job is not queued: sbatch got no answer from Slurm: sbatch did not answer within 1 s"
    wait_until(lambda: told(what), 60, "the hang is told")
    hangs.unlink()
    chain = leadership.chain
    assert chain
    wait_until(lambda: leadership.watch() and chain.as_json()["successor"], 60, "a successor is submitted")
    assert chain.as_json()["successor"]["job_id"] == "6"
    leadership.end()


@pytest.mark.slow
def test_a_tick_asks_no_second_time_while_its_first_sbatch_hangs(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    over, begun = threading.Event(), []

    def hang(chain: Chain, now: float) -> list[str]:
        begun.append(now)
        over.wait(60)
        return []

    monkeypatch.setenv(chain_module.ENVIRONMENT, "tick")
    monkeypatch.setenv("SLURM_JOB_ID", "5")
    monkeypatch.setattr(Chain, "step", hang)
    monkeypatch.setattr(tenure_module, "_FIRST_STEP", 0.1)
    leadership = DaemonLeadership(home, load(home))
    leadership.begin()
    leadership.settle(1.5)
    assert len(begun) == 1
    over.set()
    leadership.end()


def test_while_sbatch_has_not_answered_that_is_what_is_told(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = Queue(running(5, since=NOW - DAY + 600)).use(monkeypatch)
    chain, told = Chain(home, load(home), "5"), []
    drive(chain, NOW, 60)
    queue.scancel(["6"])
    queue.refuses = SlurmError("sbatch was refused")
    queue.meanwhile = lambda: told.extend(chain.troubles(NOW + 500))
    drive(chain, NOW + 400, 1)
    chain._trouble = ""
    drive(chain, NOW + 420, 1)
    assert told[-1].startswith(
        "the next watchdog job is not queued: sbatch is asked for one, and has not answered yet; "
    )


def test_a_look_at_the_chain_that_hangs_for_ever_is_told(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setenv(chain_module.ENVIRONMENT, "daemon")
    monkeypatch.setenv("SLURM_JOB_ID", "5")
    monkeypatch.setattr(Chain, "step", lambda chain, now: over.wait(60))
    monkeypatch.setattr(tenure_module, "_FIRST_STEP", 0.1)
    leadership = DaemonLeadership(home, load(home))
    leadership.begin()
    assert leadership.troubles() == []
    monkeypatch.setattr(tenure_module, "_HANGS", 0.0)
    (trouble,) = leadership.troubles()
    assert trouble.startswith("nobody looks after the chain: the last look at it hangs for ")
    over.set()
    leadership.end()


def test_one_successor_and_never_a_second(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = Queue(running(5)).use(monkeypatch)
    assert drive(Chain(home, load(home), "5"), NOW, 3600) == []
    assert len(queue.submitted) == 1
    assert queue.submitted[0][-1] == "--dependency=afterany:5?after:5+1410"


def test_a_restarted_daemon_knows_its_successor_again(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = Queue(running(5)).use(monkeypatch)
    for _ in range(3):
        chain = Chain(home, load(home), "5")
        drive(chain, NOW, 60)
    assert len(queue.submitted) == 1
    assert chain.successor == "6"
    assert chain.as_json()["successor"]["job_id"] == "6"
    assert json.dumps(chain.as_json())


def test_a_successor_is_known_from_its_submission_on(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = Queue(running(5)).use(monkeypatch)
    chain = Chain(home, load(home), "5")
    chain.step(NOW)
    assert chain.as_json()["successor"] == {"job_id": "6", "state": "PENDING", "reason": "just submitted"}
    drive(chain, NOW + 1, 60)
    assert chain.as_json()["successor"]["reason"] == "Dependency"
    queue.scancel(["6"])
    queue.refuses = SlurmError("sbatch was refused")
    drive(chain, NOW + 61, 600)
    assert chain.as_json()["successor"] is None, "what was submitted once is not told for ever"


def test_slurm_is_asked_rarely(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = Queue(running(5)).use(monkeypatch)
    drive(Chain(home, load(home), "5"), NOW, 3600)
    assert 10 < queue.looks <= 3600 / 300 + 3


def test_a_cancelled_successor_is_replaced(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = Queue(running(5)).use(monkeypatch)
    chain = Chain(home, load(home), "5")
    drive(chain, NOW, 60)
    queue.scancel(["6"])
    assert drive(chain, NOW + 60, 400) == []
    assert [job.state for job in queue.jobs] == ["RUNNING", "PENDING"]


def test_a_refused_sbatch_is_tried_again_and_told(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = Queue(running(5)).use(monkeypatch)
    queue.refuses = SlurmError("sbatch was refused: job submit limit")
    chain = Chain(home, load(home), "5")
    assert drive(chain, NOW, 100) == []
    (trouble,) = drive(chain, NOW + 100, 100)
    assert trouble.startswith(
        "the next watchdog job is not queued: sbatch was refused: job submit limit; this one ends at "
    )
    drive(chain, NOW + 200, 3400)
    assert 8 < len(queue.submitted) < 20
    queue.refuses = None
    assert drive(chain, NOW + 3600, 400) == []
    assert chain.successor


def test_near_the_end_a_missing_successor_is_told_at_once(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = Queue(running(5, since=NOW - DAY + 600)).use(monkeypatch)
    queue.refuses = SlurmError("sbatch was refused")
    assert len(Chain(home, load(home), "5").step(NOW)) == 1


def test_an_sbatch_that_failed_though_the_job_was_taken(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = Queue(running(5)).use(monkeypatch)
    queue.refuses, queue.takes_all_the_same = SlurmSilentError("sbatch got no answer"), True
    assert drive(Chain(home, load(home), "5"), NOW, 1000) == []
    assert len(queue.submitted) == 1


def test_a_silent_slurm_leads_to_no_second_successor(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = Queue(running(5)).use(monkeypatch)
    chain = Chain(home, load(home), "5")
    drive(chain, NOW, 60)
    queue.silent = True
    assert drive(chain, NOW + 60, 3600) == []
    queue.silent = False
    drive(chain, NOW + 3660, 600)
    assert len(queue.submitted) == 1


def test_a_queue_that_does_not_show_ourselves_is_not_believed(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = Queue().use(monkeypatch)
    chain = Chain(home, load(home), "5")
    (trouble,) = drive(chain, NOW, 400)
    assert "squeue does not show this link, job 5" in trouble
    assert queue.submitted == []
    queue.known = False
    drive(chain, NOW + 400, 400)
    assert len(queue.submitted) == 1
    assert not [word for word in queue.submitted[0] if word.startswith("--dependency")]


def test_a_clock_that_is_set_back_does_not_stop_the_chain(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = Queue(running(5)).use(monkeypatch)
    chain = Chain(home, load(home), "5")
    drive(chain, NOW + 18_000, 60)
    queue.scancel(["6"])
    queue.refuses = SlurmError("sbatch was refused: no")
    drive(chain, NOW + 18_060, 300)
    (trouble,) = drive(chain, NOW, 1500)
    assert "sbatch was refused: no" in trouble
    queue.refuses = None
    assert drive(chain, NOW - 18_000, 400) == []
    assert chain.successor


def test_successors_that_end_at_once_are_not_submitted_for_ever(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = Queue(running(5)).use(monkeypatch)
    chain = Chain(home, load(home), "5")
    troubles: list[str] = []
    for second in range(3600):
        troubles = chain.step(NOW + second)
        queue.jobs = [running(5)]
    assert 5 < len(queue.submitted) < 20
    assert troubles[0].startswith(
        "the next watchdog job is not queued: it was submitted, but is not in the queue; "
    )


def test_a_link_that_ends_soon_does_not_complain_of_the_successor_it_has_just_submitted(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each tick of tick mode is such a link: its walltime is a quarter of an hour."""
    Queue(running(5, walltime=900)).use(monkeypatch)
    chain = Chain(home, load(home), "5", "tick")
    assert chain.step(NOW) == []
    assert drive(chain, NOW + 1, 300) == []
    assert chain.successor == "6"


def test_a_link_that_ends_soon_tells_at_once_what_was_refused_and_soon_what_is_missing(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = Queue(running(5, walltime=900)).use(monkeypatch)
    queue.refuses = SlurmError("sbatch was refused: no")
    (trouble,) = Chain(home, load(home), "5", "tick").step(NOW)
    assert trouble.startswith(
        "the next watchdog job is not queued: sbatch was refused: no; this one ends at "
    )
    queue.refuses = None
    chain = Chain(home, load(home), "5", "tick")
    for second in range(60):
        troubles = chain.step(NOW + second)
        queue.jobs = [running(5, walltime=900)]
    assert troubles[0].startswith(
        "the next watchdog job is not queued: it was submitted, but is not in the queue; "
    )


def test_a_successor_that_will_never_start_is_told_with_the_mend(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    Queue(running(5), waiting(6, after=5, reason="JobHeldUser")).use(monkeypatch)
    (trouble,) = Chain(home, load(home), "5").step(NOW)
    assert "link 6 will not start (JobHeldUser)" in trouble
    assert "scontrol release 6" in trouble


@pytest.mark.parametrize(
    "reason",
    ["QOSMaxJobsPerUserLimit", "AssocMaxJobsLimit", "AssocGrpJobsLimit", "QOSGrpCpuLimit", "PartitionDown",
     "ReqNodeNotAvail, UnavailableNodes:node[1-2]",
     "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions"],
)  # fmt: skip
def test_a_successor_that_waits_for_a_limit_is_told_once_its_time_has_come(
    home: Home, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    queue = Queue(running(5), waiting(6, after=5, reason=reason)).use(monkeypatch)
    chain = Chain(home, load(home), "5")
    assert chain.step(NOW) == []
    (trouble,) = chain.step(NOW + DAY - 1700)
    assert (
        f"link 6 does not wait for its turn, but for a limit or what is out of service ({reason})" in trouble
    )
    assert "this one ends at" in trouble
    queue.jobs[1] = waiting(6, after=5, reason="Priority")
    assert drive(chain, NOW + DAY - 1690, 120) == []


def test_only_waiting_for_ones_turn_is_no_trouble() -> None:
    for reason in ("Priority", "Resources", "Dependency", "BeginTime", "None", ""):
        assert live_links.held_up(waiting(6, reason=reason)) == ""
    assert live_links.held_up(running(6, reason="AssocMaxJobsLimit")) == ""
    assert "link 6 will not start (PartitionTimeLimit)" in live_links.held_up(
        waiting(6, reason="PartitionTimeLimit")
    )


@pytest.mark.parametrize(
    ("reason", "why"),
    [
        ("Job's account not permitted to use this partition (big allows root,lab2 not lab)", "its account"),
        ("Job's QOS not permitted to use this partition (big allows high not normal)", "its QOS"),
        ("Job's_account_not_permitted_to_use_this_partition_(big_allows_root_not_lab)", "its account"),
    ],
)
def test_sentences_of_slurmctld_are_reasons_too(reason: str, why: str) -> None:
    assert f"{why} may not use this partition: scancel 6" in live_links.held_up(waiting(6, reason=reason))


def test_a_gap_that_is_near_is_told(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    Queue(running(5, since=NOW - DAY + 500), waiting(6, after=5, reason="Priority")).use(monkeypatch)
    (trouble,) = Chain(home, load(home), "5").step(NOW)
    assert trouble.startswith("the successor, job 6, still waits (Priority); this one ends at ")


def test_a_successor_may_be_cut_to_what_is_left_before_a_maintenance_when_it_is_to_start(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[float, float]] = []

    def shortest(walltime: float, start: float) -> float:
        asked.append((walltime, start))
        return 43_200.0

    queue = Queue(running(5, since=NOW - 3600)).use(monkeypatch)
    monkeypatch.setattr(live_links, "shortest", shortest)
    Chain(home, load(home), "5").step(NOW)
    assert asked == [(DAY, NOW - 3600 + DAY - 1800)]
    assert "--time-min=12:00:00" in queue.submitted[0]


def test_one_that_replaces_a_successor_that_was_too_long_may_be_short(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = waiting(6, after=5, reason="ReqNodeNotAvail, Reserved for maintenance")
    queue = Queue(running(5), late).use(monkeypatch)
    drive(Chain(home, load(home), "5"), NOW, 60)
    assert "--time-min=00:30:00" in queue.submitted[0]


def test_a_link_that_is_ended_from_outside_lets_its_successor_go(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slurm requeues a link only after two minutes, and a successor that depends on it waits for that."""
    Queue(running(5)).use(monkeypatch)
    monkeypatch.setenv(chain_module.ENVIRONMENT, "daemon")
    monkeypatch.setenv("SLURM_JOB_ID", "5")
    asked = answering(monkeypatch, Answer(("scontrol",), 0, "", "", 0.1))
    leadership = DaemonLeadership(home, load(home))
    leadership.begin()
    leadership.end()
    assert asked == [("scontrol", "update", "JobId=6", "Dependency=")]
    leadership.begin()
    leadership.lease._request()
    assert not leadership.watch()  # a successor asks: it runs
    leadership.end()
    assert len(asked) == 1


def test_a_requeued_link_ends_where_the_chain_went_on_without_it(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(chain_module.ENVIRONMENT, "daemon")
    monkeypatch.setenv("SLURM_JOB_ID", "5")
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    other = Lease(home, "6")
    other.acquire()
    Queue(running(5, since=NOW + 130), running(6), waiting(7, after=6)).use(monkeypatch)
    with pytest.raises(HomeError, match=r"\(job 6\) watches since this link was requeued, and is followed"):
        DaemonLeadership(home, load(home)).begin()
    assert other.held()
    other.release()
    queue = Queue(running(5, since=NOW + 130), running(6)).use(monkeypatch)
    leadership = DaemonLeadership(home, load(home))
    leadership.begin()  # it is the successor of 6 itself
    assert len(queue.submitted) == 1
    leadership.lease.release()


def test_a_stopped_chain_submits_nothing(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = Queue(running(5)).use(monkeypatch)
    markers.mark_stopped(home)
    chain = Chain(home, load(home), "5")
    assert chain.stopped()
    assert drive(chain, NOW, 60) == []
    assert queue.submitted == []


def test_a_stop_while_sbatch_is_under_way_wins(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = Queue(running(5)).use(monkeypatch)
    real = queue.sbatch

    def slow(options: tuple[str, ...], script: str, env: Mapping[str, str]) -> str:
        markers.mark_stopped(home)
        return real(options, script, env)

    monkeypatch.setattr(slurm, "sbatch", slow)
    Chain(home, load(home), "5").step(NOW)
    assert [job.raw_id for job in queue.jobs] == ["5"]


def test_a_link_that_slurm_cannot_reach_takes_the_others_with_it(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = Queue(running(5), waiting(6, after=5)).use(monkeypatch)
    chain = Chain(home, load(home), "5")
    chain.wind_up()
    assert len(queue.jobs) == 2
    markers.mark_stopped(home, "maintenance")
    assert ": maintenance" in markers.stop_words(home)
    chain.wind_up()
    assert [job.raw_id for job in queue.jobs] == ["5"]


def test_a_broken_home_does_not_end_the_link(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    Queue(running(5)).use(monkeypatch)
    chain = Chain(home, load(home), "5")
    (home.path / "link.json").write_text("{")
    (trouble,) = drive(chain, NOW, 200)
    assert "link.json is broken" in trouble


def test_a_link_knows_itself_by_its_environment(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load(home)
    monkeypatch.setenv("SLURM_JOB_ID", "5")
    assert Chain.of_this_job(home, settings) is None
    for said_, mode in (("1", "daemon"), ("daemon", "daemon"), ("tick", "tick")):
        monkeypatch.setenv(chain_module.ENVIRONMENT, said_)
        chain = Chain.of_this_job(home, settings)
        assert chain is not None
        assert (chain.job_id, chain.mode) == ("5", mode)


# A tenure


def test_a_link_submits_first_and_then_asks_for_the_lease(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = Queue(running(5)).use(monkeypatch)
    monkeypatch.setenv(chain_module.ENVIRONMENT, "daemon")
    monkeypatch.setenv("SLURM_JOB_ID", "5")
    leadership = DaemonLeadership(home, load(home))
    leadership.begin()
    assert len(queue.submitted) == 1
    assert leadership.watch()
    os.kill(os.getpid(), signal.SIGUSR1)
    assert leadership.watch()
    wait_until(lambda: leadership.chain and leadership.chain.successor, 30, "the successor is seen")
    assert leadership.troubles() == []
    markers.mark_stopped(home)
    assert not leadership.watch()
    leadership.end()
    assert not leadership.lease.held()
    assert [job.raw_id for job in queue.jobs] == ["5"]
    with pytest.raises(HomeError, match=r"the watchdog was stopped by .*: this link ends"):
        DaemonLeadership(home, load(home)).begin()


def test_a_plain_process_that_is_run_by_hand_lifts_the_stop(home: Home) -> None:
    markers.mark_stopped(home)
    leadership = DaemonLeadership(home, load(home))
    leadership.begin()
    assert leadership.watch()
    with pytest.raises(HomeError, match=f"process {os.getpid()} on .* watches for .* already"):
        DaemonLeadership(home, load(home)).begin()
    leadership.end()


@pytest.mark.slow
def test_a_tick_link_waits_until_its_successor_is_seen(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = Queue(running(5)).use(monkeypatch)
    monkeypatch.setattr(chain_module, "_QUICK", 0.1)
    monkeypatch.setenv(chain_module.ENVIRONMENT, "tick")
    monkeypatch.setenv("SLURM_JOB_ID", "5")
    leadership = DaemonLeadership(home, load(home))
    leadership.begin()
    begin = time.monotonic()
    assert leadership.settle(30) == []
    assert time.monotonic() - begin < 20
    assert leadership.chain is not None
    assert leadership.chain.successor == "6"
    assert queue.submitted[0][-1] == "--begin=now+300"
    leadership.end()


# Starting


@pytest.mark.parametrize("variable", ["APPTAINER_CONTAINER", "SINGULARITY_CONTAINER"])
def test_start_refuses_inside_a_container_image(
    home: Home, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    queue = Queue().use(monkeypatch)
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setenv(variable, "/scratch/watchdogd.sif")
    with pytest.raises(SlurmError, match="from an installation that the nodes see, or use 'watchdogd run'"):
        launch.start(home, load(home), LinkOptions())
    assert queue.submitted == []


def test_start_refuses_where_a_secret_is_not_set(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOOK", raising=False)
    home.config.write_text('[channels.s]\ntype = "slack"\nwebhook_url = "env:HOOK"\n')
    with pytest.raises(WatchdogError, match="environment variable HOOK is not set") as caught:
        launch.start(home, load(home), LinkOptions())
    assert caught.value.exit_code == 1


def test_what_the_relay_alone_sends_with_need_not_be_where_the_daemon_runs(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOOK", raising=False)
    home.config.write_text('[channels.s]\ntype = "slack"\nrelay = true\nwebhook_url = "env:HOOK"\n')
    known = load(home)
    launch.check_secrets(known, home)
    assert "HOOK" not in link_script.link_job(home, known, LinkOptions(), 3600.0, 600.0).needed
    assert list(delivery.judge_secrets(tuple(known.secrets()), None, ())) == []


def test_users_that_nobody_knows_are_warned_of(home: Home) -> None:
    home.config.write_text('[slurm]\nusers = ["root", "no-such-user"]\n')
    (warning,) = launch.unknown_users(load(home))
    assert "'no-such-user'" in warning


def test_ensure_respects_a_stop(home: Home) -> None:
    markers.mark_stopped(home, "maintenance")
    outcome = launch.ensure(home, load(home), LinkOptions())
    assert not outcome.changed
    assert f"'watchdogd --home {home.path} start' starts it again" in outcome.lines[0]
    assert markers.is_stopped(home)
    markers.stop_path(home).write_text("garbage")
    said = markers.stop_words(home)
    assert said.startswith(f"stopped by {account.user_name(os.geteuid())} at ")
    assert said.endswith(": garbage")


def test_a_restart_that_was_ended_midway_does_not_stop_it_for_good(home: Home) -> None:
    """Found by `make chaos`, seed 200: `ensure` respected the marker of a restart that nobody ended."""
    markers.mark_stopped(home, "restart", jobs_go_on=True)
    assert "restart" in launch.ensure(home, load(home), LinkOptions()).lines[0]
    for by in (-1, 1):  # the clock may have been set back since
        at = time.time() + by * 2 * markers.RESTART
        os.utime(markers.stop_path(home), (at, at))
        assert (markers.is_stopped(home), markers.stop_words(home)) == (False, "")
    markers.mark_stopped(home, "maintenance")
    os.utime(markers.stop_path(home), (0, 0))
    assert markers.is_stopped(home)


def test_who_stopped_it_first_stays_named(home: Home) -> None:
    markers.mark_stopped(home, "restart", jobs_go_on=True)
    markers.mark_stopped(home, "maintenance")
    markers.mark_stopped(home, "was it stopped?")
    signature = markers.stopped_by(home)
    assert signature is not None
    assert signature.reason == "maintenance"


def test_without_slurm_the_way_out_is_named(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(SlurmError, match="start it where Slurm is, or with --local"):
        launch.start(home, load(home), LinkOptions())


@pytest.mark.parametrize("local", [True, False], ids=["here", "Slurm"])
def test_a_start_that_fails_leaves_who_stopped_it(
    home: Home, monkeypatch: pytest.MonkeyPatch, local: bool
) -> None:
    markers.mark_stopped(home, "new racks")
    before = markers.stopped_by(home)
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    if not local:
        starting(home, monkeypatch)
        monkeypatch.setattr(slurm, "sbatch", _refuses)
    with pytest.raises(WatchdogError, match=r"ended at once|invalid account"):
        launch.start(home, load(home), LinkOptions(mode="local" if local else "daemon"))
    assert before is not None
    assert markers.stopped_by(home) == before


def test_a_start_of_which_slurm_says_nothing_has_lifted_the_stop(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    markers.mark_stopped(home, "new racks")
    starting(home, monkeypatch)
    monkeypatch.setattr(slurm, "sbatch", _hangs)
    with pytest.raises(SlurmSilentError):
        launch.start(home, load(home), LinkOptions())
    assert not markers.is_stopped(home), "the job may be there"


def test_a_start_without_a_cluster_names_the_home_that_it_was_for(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sbatch(*_: object) -> str:
        raise slurm.refusal(said("sbatch: fatal: Could not establish a configuration source"))

    starting(home, monkeypatch)
    monkeypatch.setattr(slurm, "sbatch", sbatch)
    with pytest.raises(SlurmError, match="configuration source: ") as refused:
        launch.start(home, load(home), LinkOptions())
    assert f"`{home.command('start --local')}` watches" in str(refused.value)
    assert str(home.path) in home.command("start --local")


def _refuses(*_: object) -> str:
    raise SlurmError("sbatch was refused: invalid account")


def _hangs(*_: object) -> str:
    raise SlurmSilentError("sbatch did not answer within 30 s")


@pytest.mark.parametrize(
    ("wish", "verb"),
    [
        (LinkOptions(), "start"),
        (LinkOptions(mode="local"), "start --local"),
        (
            LinkOptions("gpu small", "p1", "2h", "tick"),
            "start --partition 'gpu small' --account p1 --time 2h",
        ),
    ],
    ids=["plain", "local", "options"],
)
def test_the_hint_to_start_again_starts_it_as_it_was_started(
    home: Home, wish: LinkOptions, verb: str
) -> None:
    link_script.remember(home, wish, 3600.0)
    again = verb + (" --mode tick" if wish.mode == "tick" else "")
    assert markers.start_verb(home) == again
    markers.mark_stopped(home)
    assert f"'{home.command(again)}' starts it again" in launch.ensure(home, load(home), wish).lines[0]


def test_a_broken_record_of_the_last_start_is_a_plain_start(home: Home) -> None:
    (home.path / "link.json").write_text('{"mode": 7}')
    assert markers.start_verb(home) == "start"


def starting(home: Home, monkeypatch: pytest.MonkeyPatch, *jobs: Job) -> Queue:
    """A site on which `start` submits into a queue in memory; these jobs come in during its sbatch."""
    queue = Queue().use(monkeypatch)
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(sinfo, "ask_partitions", lambda: SITE)
    real = queue.sbatch

    def sbatch(options: tuple[str, ...], script: str, env: Mapping[str, str]) -> str:
        queue.jobs += jobs
        return real(options, script, env)

    monkeypatch.setattr(slurm, "sbatch", sbatch)
    monkeypatch.setattr(live_links, "all_links", lambda home, dropins=False: tuple(queue.jobs))
    return queue


def test_of_two_starts_at_one_moment_the_first_wins(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = starting(home, monkeypatch, waiting(8, reason="Priority"))
    outcome = launch.start(home, load(home), LinkOptions())
    assert (outcome.changed, outcome.lines) == (False, ("it runs already: job 8 PENDING (Priority)",))
    assert [job.raw_id for job in queue.jobs] == ["8"]


def test_a_start_that_slurm_took_though_it_did_not_say_so(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = starting(home, monkeypatch)
    queue.refuses, queue.takes_all_the_same = SlurmSilentError("sbatch got no answer"), True
    assert launch.start(home, load(home), LinkOptions()).changed
    assert len(queue.jobs) == 1
    queue.jobs, queue.takes_all_the_same = [], False
    with pytest.raises(SlurmSilentError, match="sbatch got no answer"):
        launch.start(home, load(home), LinkOptions())


def test_a_stop_during_a_start_wins(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = starting(home, monkeypatch)
    real = slurm.sbatch

    def slow(options: tuple[str, ...], script: str, env: Mapping[str, str]) -> str:
        markers.mark_stopped(home)
        return real(options, script, env)

    monkeypatch.setattr(slurm, "sbatch", slow)
    with pytest.raises(WatchdogError, match=r"it was stopped by .* meanwhile: link 10 was cancelled again"):
        launch.start(home, load(home), LinkOptions())
    assert queue.jobs == []


def test_a_first_link_that_waits_for_a_limit_is_warned_of(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = starting(home, monkeypatch)
    monkeypatch.setattr(launch, "_settled", lambda home, job_id: waiting(10, reason="QOSMaxJobsPerUserLimit"))
    warning = launch.start(home, load(home), LinkOptions()).warnings[-1]
    assert "a limit or what is out of service (QOSMaxJobsPerUserLimit)" in warning
    queue.jobs = [waiting(10, reason="QOSMaxJobsPerUserLimit")]
    assert launch.start(home, load(home), LinkOptions()).warnings == (warning,)  # so does a second one


def test_a_first_link_that_is_gone_at_once_is_no_start(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = starting(home, monkeypatch)

    def gone(home: Home, job_id: str) -> None:
        queue.jobs = []

    monkeypatch.setattr(launch, "_settled", gone)
    with pytest.raises(
        SlurmError, match=r"Slurm took link 10, but it ended at once: .* doctor --on-partition"
    ):
        launch.start(home, load(home), LinkOptions())


def test_a_tick_is_short_whatever_walltime_is_configured(home: Home) -> None:
    chosen = SITE.chosen("small")
    home.config.write_text('[slurm]\npartition = "small"\ntime = "12h"\n')
    settings = load(home)
    assert launch._walltime(chosen, settings, LinkOptions()) == 43_200
    assert launch._walltime(chosen, settings, LinkOptions(mode="tick")) == launch.TICK
    assert launch._walltime(chosen, settings, LinkOptions(mode="tick", time="30m")) == 1800
    five = [replace(chosen[0], max_time="5:00")]
    assert launch._walltime(five, parse("", home.config), LinkOptions(mode="tick")) == 300


# Ending


def test_a_drop_in_that_ends_with_the_watchdog_is_noted_by_what_sbatch_called_it(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancelled: list[str] = []
    monkeypatch.setattr(slurm, "scancel", lambda ids: cancelled.extend(ids))
    mark = link_script.mark_of(home)
    comment = f"{mark} cron.daily/many.slurm"
    jobs = [
        running(5, comment=mark),
        running(8, id="7_1", array_id="7", comment=comment),
        running(9, id="7_2", array_id="7", comment=comment),
        replace(waiting(7), id="7_[3-9%2]", array_id="7", comment=comment),
        running(11, comment=f"{mark} cron.daily/one.slurm", state="COMPLETING"),
    ]
    shutdown.cancel(home, jobs)
    assert cancelled == ["7_[3-9]", "5", "7_1", "7_2"]
    assert [markers.ended_with_watchdog(home, number) for number in ("5", "7", "8", "11")] == [
        False,
        True,
        False,
        True,
    ]


def test_a_stop_that_slurm_does_not_answer_leaves_its_mark(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(home: Home, *, dropins: bool = False) -> tuple[Job, ...]:
        raise SlurmSilentError("squeue did not answer: connection refused")

    monkeypatch.setattr(live_links, "all_links", silent)
    monkeypatch.setattr(shutdown, "_SILENT", 0.1)
    with pytest.raises(
        WatchdogError, match=r"in the queue \(squeue did not answer.*\) may go on: the stop mark"
    ):
        shutdown.stop(home, "broken")
    assert ": broken" in markers.stop_words(home)


def test_what_is_over_and_does_not_leave_its_node_is_no_failed_stop(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else `restart` would leave nobody watching behind a long epilog."""
    leaving = running(5, state="COMPLETING", nodes="node1", comment=link_script.mark_of(home))
    monkeypatch.setattr(live_links, "all_links", lambda home, dropins=False: (leaving,))
    monkeypatch.setattr(shutdown, "_is_mine", lambda job: True)
    monkeypatch.setattr(shutdown, "_GONE", 0.1)
    monkeypatch.setattr(slurm, "scancel", lambda ids: None)
    outcome = shutdown.stop(home)
    assert outcome.lines == ("ended job 5",)
    assert outcome.warnings == ("job 5 COMPLETING on node1 is over, but has not left yet",)
    assert launch.already_running(home) is None


def test_what_only_a_colleague_can_end_is_named(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = waiting(9, reason="Priority")
    theirs = replace(theirs, user="bob", comment=f"{link_script.mark_of(home)} cron.daily/tidy.slurm")
    monkeypatch.setattr(live_links, "all_links", lambda home, dropins=False: (theirs,) if dropins else ())
    monkeypatch.setattr(shutdown, "_is_mine", lambda job: False)
    monkeypatch.setattr(slurm, "scancel", lambda ids: None)
    outcome = shutdown.stop(home)
    assert outcome.lines == ("it was not running",)
    assert outcome.warnings == (
        "job 9 PENDING (Priority) (cron.daily/tidy.slurm) goes on: only bob can end it",
    )


def test_a_pause_is_known_after_it(home: Home) -> None:
    assert markers.last_pause(home) is None
    markers.lift_stop(home)
    markers.mark_stopped(home, "a new disk", jobs_go_on=True)
    assert markers.jobs_go_on(home)
    markers.lift_stop(home)
    assert not markers.is_stopped(home)
    assert not markers.jobs_go_on(home)
    pause = markers.last_pause(home)
    assert pause is not None
    assert pause.words.endswith(": a new disk")
    assert abs(pause.begin - time.time()) < 60
    assert abs(pause.end - time.time()) < 60
    (home.path / ".stopped").write_text("[]")
    assert markers.last_pause(home) is None


def test_a_home_that_init_did_not_make_says_how_to_make_it(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("[daemon]\n")
    with pytest.raises(
        HomeError, match=r"nothing was started: .* a folder of it is missing: 'watchdogd --home .* init'"
    ):
        launch.start(Home(tmp_path), load(Home(tmp_path)), LinkOptions(mode="local"))


@pytest.mark.root
def test_a_full_home_says_so_and_goes_on_where_it_was_started_before(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", small], check=True)
    try:
        home = Home(small / "home")
        home.make()
        link_script.remember(home, LinkOptions("small"), 7200)
        with contextlib.suppress(OSError), open(small / "filler", "wb", buffering=0) as filler:
            while True:
                filler.write(b"x" * 4096)
        link_script.remember(home, LinkOptions(mode="tick", account="project"), 900)
        assert link_script.remembered(home) == (LinkOptions(mode="tick", account="project"), 900)
        (home.path / "link.json").unlink()
        (small / "more").write_bytes(b"x" * 4096)
        with pytest.raises(HomeError, match=r"nothing was started: .* is full: free space"):
            launch.start(home, parse("", home.config), LinkOptions(mode="local"))
    finally:
        subprocess.run(["umount", small], check=True)
