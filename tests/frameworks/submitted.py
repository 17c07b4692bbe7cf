"""A training as submitit runs it in a job, with its own handlers; what it would ask of Slurm is printed."""

import os
import pickle
import sys
import time
from pathlib import Path

os.environ["SUBMITIT_PREEMPT_SIGNAL"] = "USR1"
from submitit.core.job_environment import JobEnvironment
from submitit.core.utils import DelayedSubmission, JobPaths

from watchdogd.training import Guard


class Training:
    """Steps until it is told to stop."""

    def __call__(self):
        guard = Guard("submitted", every=0.0)
        heard = None
        while not guard.poll(step=1).stop:
            time.sleep(0.05)
            if heard is None and Path("out").read_text().count("Bypassing"):
                heard = time.monotonic()
            elif heard and time.monotonic() - heard > 0.3:
                heard = float("inf")
                print("a poll later", flush=True)
        print("told to stop", flush=True)

    def checkpoint(self):
        Path("checkpoint").touch()
        return DelayedSubmission(Training())


class Environment(JobEnvironment):
    """The first rank of a job."""

    _env = {"job_id": "JOB", "global_rank": "RANK_OF_JOB", "num_tasks": "TASKS"}  # noqa: RUF012

    def _requeue(self, countdown):
        print("requeued after its checkpoint" if Path("checkpoint").exists() else "too early", flush=True)


os.environ["JOB"] = "4711"
submission = DelayedSubmission(Training())
submission.set_timeout(60, 3)
paths = JobPaths(Path.cwd(), job_id="4711", task_id=0)
with open(paths.submitted_pickle, "wb") as file:
    pickle.dump("", file)
Environment()._handle_signals(paths, submission)
sys.exit(submission.result())
