"""sinfo's lines: states with flags, reasons with anything in them, and what is no node."""

from __future__ import annotations

import pytest

from watchdogd.batch import sinfo
from watchdogd.batch.sinfo import SlurmNode
from watchdogd.errors import UnreadableError


def line(*fields: str) -> str:
    return "\x1f".join(fields) + "\n"


def test_a_node_that_is_well_and_one_that_is_drained() -> None:
    text = line("cn01", "gpu", "idle", "Unknown", "Unknown", "none")
    text += line("cn02", "gpu", "draining", "1795825721", "slurm", "Kill task failed | twice")
    well, bad = sinfo.read(text)
    assert well == SlurmNode("cn01", "gpu", "idle")
    assert bad == SlurmNode("cn02", "gpu", "draining", "", 1795825721.0, "slurm", "Kill task failed | twice")
    assert (bad.drained, bad.kill_failed, bad.spare, bad.down) == (True, True, False, False)


def test_a_reason_of_several_lines_is_one_and_hides_no_node() -> None:
    text = line("cn02", "gpu", "drained", "1795825721", "root", "not\nresponding; x=1 [root]\n\nsee mail")
    bad, well = sinfo.read(text + line("cn03", "gpu", "idle", "Unknown", "Unknown", "none"))
    assert (bad.reason, well.name) == ("not responding; x=1 [root] see mail", "cn03")


@pytest.mark.parametrize(
    ("state", "spare", "drained", "down", "silent"),
    [
        ("idle", True, False, False, False),
        ("idle~", True, False, False, False),
        ("idle#", True, False, False, False),
        ("idle*", False, False, False, True),
        ("idle$", False, False, False, False),
        ("idle-", False, False, False, False),
        ("mixed", False, False, False, False),
        ("allocated+", False, False, False, False),
        ("drained*", False, True, False, True),
        ("draining", False, True, False, False),
        ("down*", False, False, True, True),
        ("power_up", False, False, False, False),
    ],
)
def test_states(state: str, spare: bool, drained: bool, down: bool, silent: bool) -> None:
    [node] = sinfo.read(line("cn01", "gpu", state, "Unknown", "Unknown", "none"))
    assert (node.spare, node.drained, node.down, node.silent) == (spare, drained, down, silent)


@pytest.mark.parametrize(
    "text", ["slurm_load_partitions: Unable to contact", line("cn01", "gpu", "?", "", "", "")]
)
def test_what_is_no_node_is_named(text: str) -> None:
    with pytest.raises(UnreadableError, match="something other than a node"):
        sinfo.read(text)
