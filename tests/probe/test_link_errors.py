"""What a node's links count while it is looked at."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.waiting import AT_ONCE
from watchdogd.probe import node_ranks

NVLINK = """GPU 0: NVIDIA H200 (UUID: GPU-11111111-2222-3333-4444-555555555555)
\t Link 0: Replay Errors: 0
\t Link 0: Recovery Errors: 2
\t Link 0: CRC Errors: <inactive>
GPU 1: NVIDIA H200 (UUID: GPU-11111111-2222-3333-4444-555555555556)
\t Link 17: Replay Errors: 7
\t Link 17: Rx packets: 12345
"""


def test_counters_that_grow(tmp_path: Path) -> None:
    counters = tmp_path / "mlx5_0" / "ports" / "1" / "counters"
    counters.mkdir(parents=True)
    for name, value in {
        "symbol_error": "3\n",
        "port_xmit_wait": "9\n",
        "link_downed": "x",
        "VL15_dropped": "1",
    }.items():
        (counters / name).write_text(value)
    before = node_ranks.port_errors(str(tmp_path))
    assert before == {"mlx5_0 port 1, symbol_error": 3}
    (counters / "symbol_error").write_text("15\n")
    after = node_ranks.port_errors(str(tmp_path))
    assert node_ranks.grown(before, after) == {"mlx5_0 port 1, symbol_error": 12}
    assert node_ranks.grown(after, before) == node_ranks.grown(before, {}) == {}


def test_what_nvlink_counts() -> None:
    assert node_ranks.read_nvlink(NVLINK) == {
        "GPU 0 NVLink 0, Recovery Errors": 2,
        "GPU 1 NVLink 17, Replay Errors": 7,
    }
    assert node_ranks.read_nvlink("NVML: Unknown Error\n") == {}


def test_nvlinks_are_asked_once_an_inquiry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smi, asked = tmp_path / "nvidia-smi", tmp_path / "asked"
    smi.write_text(f"#!/bin/sh\necho \"$*\" >>{asked}\n[ $1 != nvlink ] || cat <<'END'\n{NVLINK}END\n")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    before = time.monotonic()
    found = node_ranks.look("n1", [], before + 120)
    assert found.nvlinks == node_ranks.read_nvlink(NVLINK)
    assert found.links == {}
    assert asked.read_text().splitlines().count("nvlink -e") == 1
    assert time.monotonic() - before < AT_ONCE
