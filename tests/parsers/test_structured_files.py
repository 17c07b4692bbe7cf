"""Files of a training that are no lines for people, read as such: real bytes of TensorBoard's writers."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from random import Random
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from watchdogd.parsers.logs import measures, structured_files

SAMPLES = Path(__file__).resolve().parents[1] / "samples" / "logs"
FIRST = (SAMPLES / "events.out.tfevents.1800000000.n1").read_bytes()
SECOND = (SAMPLES / "events.out.tfevents.1800000001.n2.v2").read_bytes()


def test_simple_values_of_tensorboardx_are_read() -> None:
    lines, done = structured_files.read_events(FIRST)
    assert done == len(FIRST)
    assert [line.text for line in lines[:2]] == ["step 10 train/loss: 4", "lr at 10: 0.001"]
    assert lines[-2].text == "step 120 train/loss: 1.25"


def test_tensors_of_tensorflows_second_version_are_read() -> None:
    lines, _ = structured_files.read_events(SECOND)
    assert [line.text for line in lines][:1] == ["step 1 epoch_loss: 2.4"]
    loss = measures.loss(lines[-1].text, measures.spots_of(lines[-1].text))
    assert loss is not None
    assert math.isnan(loss)


@pytest.mark.parametrize("data", [FIRST, SECOND])
def test_a_record_that_is_not_whole_yet_waits_for_its_rest(data: bytes) -> None:
    whole = [line.text for line in structured_files.read_events(data)[0]]
    for cut in range(0, len(data), 7):
        lines, done = structured_files.read_events(data[:cut])
        assert done <= cut
        again, _ = structured_files.read_events(data[done:])
        assert [line.text for line in [*lines, *again]] == whole


def test_reading_may_begin_amid_a_record() -> None:
    whole = [line.text for line in structured_files.read_events(FIRST)[0]]
    for begin in range(1, 400, 13):
        found = [line.text for line in structured_files.read_events(FIRST[begin:])[0]]
        assert found == whole[len(whole) - len(found) :]
        assert found


def test_a_damaged_record_costs_itself() -> None:
    broken = bytearray(FIRST)
    broken[len(FIRST) // 2] ^= 0xFF
    found = [line.text for line in structured_files.read_events(bytes(broken))[0]]
    assert "step 120 train/loss: 1.25" in found
    assert len(found) >= 22


@given(st.binary(max_size=300), st.integers(0, len(FIRST)))
def test_no_bytes_are_too_odd(noise: bytes, at: int) -> None:
    for data in (noise, FIRST[:at] + noise + FIRST[at:], struct.pack("<Q", 1 << 60) + noise):
        lines, done = structured_files.read_events(data)
        assert 0 <= done <= len(data)
        assert all("\n" not in line.text for line in lines)


def test_rows_below_a_header_are_told_by_name(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    text = "epoch,step,train_loss,val_loss\n0,49,2.31,\n0,99,,2.4\n1,1200,nan,\n"
    path.write_text(text)
    lines, done = structured_files.read(str(path), text[31:].encode())
    assert [line.text for line in lines] == [
        "epoch: 0, step: 49, train_loss: 2.31",
        "epoch: 0, step: 99, val_loss: 2.4",
        "epoch: 1, step: 1200, train_loss: nan",
    ]
    assert done == len(text) - 31


def test_a_csv_without_a_header_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("1,2\n3,4\n")
    assert [line.text for line in structured_files.read(str(path), b"3,4\n")[0]] == ["3,4"]


@given(st.text(st.sampled_from('a1,"\r\n\0\x0b\x1c\x85\u2028 '), max_size=30))
@example("step,loss\r1,2.5\r")
def test_no_header_of_a_csv_is_too_odd(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "odd.csv"
    path.write_text(text, newline="")
    lines, _ = structured_files.read(str(path), b"7,8\n")
    assert len(lines) == 1


def test_rows_of_a_csv_may_end_in_carriage_returns(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    path.write_bytes(b"step,loss\r1,2.5\r")
    assert [line.text for line in structured_files.read(str(path), b"1,2.5\r")[0]] == ["step: 1, loss: 2.5"]


def test_a_metric_file_bears_its_name() -> None:
    lines, _ = structured_files.read("/x/mlruns/0/ab/metrics/train_loss", b"1800000000123 2.5 40\n")
    assert [line.text for line in lines] == ["step 40 train_loss: 2.5"]


@pytest.mark.parametrize(
    ("data", "last"),
    [
        (
            json.dumps({"log_history": [{"loss": 2.5, "step": n} for n in range(90)]}),
            '{"loss": 2.5, "step": 89}',
        ),
        ('{"log_history": [{"loss"', None),
        ("[" * 100_000, None),
        ('{"log_history": 7}', '{"log_history": 7}'),
        ("[1]", None),
    ],
)
def test_the_history_of_a_trainer_is_read_as_a_whole(data: str, last: str | None) -> None:
    path = "/x/checkpoint-90/trainer_state.json"
    assert structured_files.is_whole(path)
    lines, done = structured_files.read(path, data.encode())
    assert (lines[-1].text if lines else None) == last
    assert done == len(data)


@pytest.mark.parametrize(
    ("name", "header", "row", "line"),
    [
        ("training.log", "epoch,accuracy,loss", "7,0.5,2.25", "epoch: 7, accuracy: 0.5, loss: 2.25"),
        ("log.tsv", "epoch\tstep\tloss", "1\t900\tnan", "epoch: 1, step: 900, loss: nan"),
        ("out.txt", "step\tloss\tval", "900\t2.5\t", "step: 900, loss: 2.5"),
        ("m.csv", "step;time;loss", "4;17.5;2.5", "step: 4, time: 17.5, loss: 2.5"),
        ("m.csv", "when,step", "2027-01-15 10:00,4", "when: 2027-01-15 10:00, step: 4"),
        ("out.txt", "Hello, world", "12, 1000 samples", "12, 1000 samples"),
        ("out.txt", "loading 4 shards", "12,900", "12,900"),
        ("out.txt", "1,2", "3,4", "3,4"),
    ],
)
def test_a_table_is_one_whatever_its_name_and_what_stands_between_its_cells(
    tmp_path: Path, name: str, header: str, row: str, line: str
) -> None:
    path = tmp_path / name
    path.write_text(f"{header}\n{row}\n")
    assert [each.text for each in structured_files.read(str(path), f"{row}\n".encode())[0]] == [line]


def test_a_metric_file_may_lie_in_folders_of_its_name() -> None:
    lines, _ = structured_files.read("/x/mlruns/0/ab/metrics/train/loss", b"1800000000123 2.5 40\n")
    assert [line.text for line in lines] == ["step 40 train/loss: 2.5"]
    assert structured_files.read("/x/metrics/out.txt", b"step 40 done\n")[0][0].text == "step 40 done"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (
            '{"_step": 7, "loss": 2.5, "gpu": {"0": {"w": 650}}}',
            ['{"_step": 7, "loss": 2.5, "gpu.0.w": 650}'],
        ),
        (
            '{\n "epoch": 7,\n "loss": [3.0, 2.5],\n "best": null\n}',
            ['{"epoch": 7, "loss count": 2, "loss": 2.5}'],
        ),
        ('[{"epoch": 1}, {"epoch": 2}, 3]', ['{"epoch": 1}', '{"epoch": 2}']),
        ('{"step": 1}\n{"step": 2}\n', ['{"step": 1}', '{"step": 2}']),  # one a line: it grows
        ('{"epoch": 7,\n', ['{"epoch": 7,']),  # it is being written
        ("7", []),
        (json.dumps({"x": "y" * structured_files.DOCUMENT_AT_MOST}), None),
    ],
)
def test_a_document_that_is_written_anew_each_time_is_read_as_one(
    tmp_path: Path, text: str, lines: list[str] | None
) -> None:
    path = tmp_path / "wandb-summary.json"
    path.write_text(text)
    found = structured_files.read(str(path), text.encode())[0]
    assert lines is None or [line.text.rstrip() for line in found] == lines
    assert all(len(line.text) <= 8192 + 5 for line in found)


def test_scalars_behind_images_of_many_megabytes_are_found() -> None:
    """A read may begin in the midst of one that is longer than what is read at once."""
    pixels = Random(7).randbytes(900_000)
    for noise in (pixels, b"\0" * 5_000, struct.pack("<d", 1.0) * 2_000):
        lines, done = structured_files.read_events(noise + FIRST)
        assert "step 120 train/loss: 1.25" in [line.text for line in lines]
        assert done == len(noise) + len(FIRST)


def test_what_has_no_record_at_all_is_given_up_soon() -> None:
    with patch.object(structured_files, "_checksum", wraps=structured_files._checksum) as checked:
        lines, done = structured_files.read_events(b"\0" * (8 << 20))
    assert lines == []
    assert done >= (8 << 20) - structured_files.HEAD
    assert checked.call_count <= structured_files.TRIED + 2
