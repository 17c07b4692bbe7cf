"""What a node's links count while it is looked at."""

from __future__ import annotations

from pathlib import Path

from watchdogd.probe import link_errors

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
    before = link_errors.read(1.0, str(tmp_path))
    assert before == {"mlx5_0 port 1, symbol_error": 3}
    (counters / "symbol_error").write_text("15\n")
    after = link_errors.read(1.0, str(tmp_path))
    assert link_errors.grown(before, after) == {"mlx5_0 port 1, symbol_error": 12}
    assert link_errors.grown(after, before) == link_errors.grown(before, {}) == {}


def test_what_nvlink_counts() -> None:
    assert link_errors.of_nvlink(NVLINK) == {
        "GPU 0 NVLink 0, Replay Errors": 0,
        "GPU 0 NVLink 0, Recovery Errors": 2,
        "GPU 1 NVLink 17, Replay Errors": 7,
    }
    assert link_errors.of_nvlink("NVML: Unknown Error\n") == {}
