"""Who called another collective, by the tracebacks that the ranks wrote into one log."""

from __future__ import annotations

from pathlib import Path

import pytest

from watchdogd.parsers.logs import log_lines
from watchdogd.plugins.job_liveness.postmortem import Remains, post_mortem
from watchdogd.stacks import stack_summary

LIBRARY = "/env/lib/python3.12/site-packages/torch"
MISMATCH = (
    "terminate called after throwing an instance of 'gloo::EnforceNotMet'\n"
    "  what():  [enforce fail at pair.cc:456] op.preamble.length <= op.nbytes. 512 vs 8."
    " Received data size doesn't match expected size."
    " Is there a distributed collective mismatch in your code?\n"
)
ENDS = "RuntimeError: [pair.cc:553] Connection closed by peer [192.0.2.7]:40151\n"


def ended(rank: int, where: str) -> str:
    """What a rank writes that stood in a collective, in backward, or in a function of the user's own."""
    lines = [
        "Traceback (most recent call last):",
        '  File "/home/ann/glide.py", line 91, in train',
        "    step()",
    ]
    if where == "all_reduce":
        lines += [
            f'  File "{LIBRARY}/distributed/distributed_c10d.py", line 32, in all_reduce',
            "    work.wait()",
        ]
    elif where == "backward":
        lines += [f'  File "{LIBRARY}/_tensor.py", line 62, in backward', "    engine.run()"]
    else:
        lines += [f'  File "/home/ann/glide.py", line 12, in {where}', "    call()"]
    return "".join(f"[rank{rank}]: {line}\n" for line in lines) + f"[rank{rank}]: {ENDS}"


@pytest.mark.parametrize(
    ("places", "said"),
    [
        (["all_reduce", "all_reduce", "backward", "all_reduce"],
         "rank 2 stood in train (glide.py:91), the others in all_reduce"),
        (["all_reduce", "load", "all_reduce"],
         "rank 1 stood in load (glide.py:12), the others in all_reduce"),
        (["all_reduce", "backward"], ""),
        (["all_reduce", "all_reduce", "backward", "backward"], ""),
        (["all_reduce"] * 4 + ["backward", "load"], ""),
        (["all_reduce"] * 4, ""),
        (["load", "backward", "backward"], ""),
        ([], ""),
    ],
)  # fmt: skip
def test_the_one_that_stood_elsewhere(places: list[str], said: str, tmp_path: Path) -> None:
    text = "iteration 7/90\n" + MISMATCH + "".join(ended(rank, where) for rank, where in enumerate(places))
    assert stack_summary.odd_one(log_lines.read_lines(text.encode())[0]) == said
    (tmp_path / "train.log").write_text(text)
    found = post_mortem(Remains("501", "501", None, 2e9), str(tmp_path / "train.log"), "")
    assert found.cause == ": ".join(filter(None, ["ranks called different collectives", said]))


def test_a_traceback_that_a_rank_survived_accuses_it_of_nothing() -> None:
    survived = ended(1, "probe").replace(ENDS, "ImportError: no such extension\n")
    text = survived + "".join(ended(rank, "all_reduce") for rank in range(4))
    assert stack_summary.odd_one(log_lines.read_lines(text.encode())[0]) == ""
    text += ended(0, "probe").replace(ENDS, "KeyError: 'tidying up'\n")
    assert len(stack_summary.read(log_lines.read_lines(text.encode())[0])) == 4


def test_without_a_mismatch_who_stood_elsewhere_is_accused_of_nothing(tmp_path: Path) -> None:
    """The last to hear of a rank that was killed may have been a collective further."""
    places = ["all_reduce", "all_reduce", "backward", "all_reduce"]
    (tmp_path / "train.log").write_text("".join(ended(rank, where) for rank, where in enumerate(places)))
    found = post_mortem(Remains("501", "501", None, 2e9), str(tmp_path / "train.log"), "")
    assert "stood in" not in found.cause
