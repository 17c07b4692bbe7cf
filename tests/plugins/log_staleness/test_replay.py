"""A finished log is read by its own times: what would have been reported, and when."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from watchdogd.cli import main
from watchdogd.plugins.log_staleness.replay import replay, time_of

SAMPLES = Path(__file__).resolve().parents[2] / "samples" / "logs"
BEGIN = datetime(2026, 2, 3, 22, 0, 0)  # noqa: DTZ001 - as a log writes it, without a zone


def log(pauses: dict[int, float], count: int = 300, form: str = "%Y-%m-%d %H:%M:%S") -> list[str]:
    """A step each half minute; `pauses`: minutes of silence after a step."""
    now, lines = BEGIN, []
    for step in range(1, count):
        lines.append(f"{now.strftime(form)} step {step} loss 2.{step % 9}")
        now += timedelta(seconds=30, minutes=pauses.get(step, 0))
    return lines


@pytest.mark.parametrize(
    "form",
    [
        "%Y-%m-%d %H:%M:%S,123",
        "[%Y/%m/%d %H:%M:%S]",
        "%s.25",
        "[%H:%M:%S]",
        "%a %b %e %H:%M:%S %Y",
        "Tue %b %e %H:%M:%S UTC %Y:",
        "[%d/%b/%Y:%H:%M:%S +0000]",
        "INFO %d %B %Y %H:%M:%S",
    ],
)
def test_a_pause_that_was_no_usual_one_would_have_been_reported(form: str) -> None:
    assert replay(log({}, form=form))[1] == []
    (stall,) = replay(log({250: 40}, form=form))[1]
    assert stall.silent
    assert stall.until is not None
    assert 5 * 60 < stall.stood < 12 * 60


@pytest.mark.parametrize("wall", ["", "%a %b %e %H:%M:%S %Y "])
def test_the_dates_that_a_model_simulates_are_no_times_of_its_log(wall: str) -> None:
    lines, now, model = [], BEGIN, datetime(2016, 10, 6)  # noqa: DTZ001 - as a log writes it, without a zone
    for step in range(200):
        lines.append(f"{now.strftime(wall)}main: time {model:%Y-%m-%d_%H:%M:%S} on domain 1: {step % 7}.5 s")
        now, model = now + timedelta(seconds=40 + step % 7), model + timedelta(hours=2)
    if wall:
        assert replay(lines, ended=now.timestamp())[1] == []
    else:
        with pytest.raises(ValueError, match="no line tells"):
            replay(lines, ended=now.timestamp())


def test_lines_that_tell_nothing_new_would_have_been_reported() -> None:
    lines = log({}, 290)
    now = BEGIN + timedelta(seconds=30 * 290)
    lines += [f"{now + timedelta(seconds=30 * n):%Y-%m-%d %H:%M:%S} waiting for n7" for n in range(60)]
    (stall,) = replay(lines)[1]
    assert not stall.silent
    assert stall.until is None


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("no time", None),
        ("2026-13-45 10:00:00 x", 90_000.0),
        ("took 99:10:10", None),
        ("01:00:10 x", 90_010.0),
        ("00:59:00 x", 90_000.0),
        ("1799999999.5 x", 1799999999.0),
        ('{"time_ms": 1799999999500, "key": "epoch"}', 1799999999.0),
        ("1799999999500123456 x", 1799999999.0),
        ("17999999995 x", None),
    ],
)
def test_the_time_of_a_line(line: str, told: float | None) -> None:
    assert time_of(line, 90_000.0) == told


def test_people_and_programs_read_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    finished = tmp_path / "finished.log"
    finished.write_text("\n".join(log({250: 40})))
    assert main(["backtest", "--log", str(finished)]) == 0
    said = capsys.readouterr().out
    assert "CRITICAL no output for " in said
    assert "; it went on at " in said
    assert "counts as progress: '# step 299 loss " in said
    assert main(["backtest", "--log", str(finished), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["silent"] is True


@pytest.mark.parametrize(
    ("text", "why"), [("no time\n", "no line tells when"), (None, "cannot be read"), ("", "no line")]
)
def test_a_log_that_nobody_can_date_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, why: str
) -> None:
    if text is not None:
        (tmp_path / "x.log").write_text(text)
    assert main(["backtest", "--log", str(tmp_path / "x.log")]) == 64
    said = capsys.readouterr().err
    assert why in said
    assert said.count("\n") == 1


def test_lines_without_a_date_are_of_the_days_until_the_log_was_last_written_to() -> None:
    ended = datetime(2026, 2, 4, 1, 30, tzinfo=UTC).timestamp()
    (stall,) = replay(log({250: 40}, form="[%H:%M:%S]"), ended=ended)[1]
    assert ended - 7200 < stall.at < ended


def test_a_time_before_the_first_date_is_of_no_day() -> None:
    lines = ["10:00:00 job begins", *log({})]
    assert replay(lines)[1] == []


@pytest.mark.parametrize("name", ["events.out.tfevents.1800000000.n1", "metrics/loss"])
def test_records_that_bear_their_times_are_read_by_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    if name.startswith("events"):
        shutil.copy(SAMPLES / name, path)
    else:
        path.write_text("".join(f"{1_800_000_000_000 + n * 60_000} 2.5 {n}\n" for n in range(30)))
    assert main(["backtest", "--log", str(path)]) == 0
    assert "0 stalls would have been reported" in capsys.readouterr().out


def test_heartbeats_that_counted_for_a_while_are_reported_once_they_count_no_more() -> None:
    now, lines = BEGIN, []
    for n in range(500):
        now += timedelta(seconds=20 if n < 200 else 30)
        said = f"loss 1.{n * 7919 % 97:02}" if n < 200 else f"heartbeat {n} ok"
        lines.append(f"[{now:%Y-%m-%d %H:%M:%S}] {said}")
    (stall,) = replay(lines)[1]
    assert not stall.silent
    assert stall.until is None


def test_a_standstill_that_ended_says_when() -> None:
    now, lines = BEGIN, []
    for n in range(600):
        now += timedelta(seconds=20)
        step = n if n < 300 else max(300, n - 200)
        lines.append(f"[{now:%Y-%m-%d %H:%M:%S}] step {step} loss 1.5")
    (stall,) = replay(lines)[1]
    assert not stall.silent
    assert stall.until
    assert abs(stall.until - (BEGIN + timedelta(seconds=20 * 500)).astimezone().timestamp()) <= 120


def test_a_stall_names_the_line_or_the_clock_after_which_it_came(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    beats = [f"{BEGIN + timedelta(minutes=110 + n)} still here" for n in range(90)]
    finished = tmp_path / "finished.log"
    finished.write_text("\n".join(log({100: 40})))
    main(["backtest", "--log", str(finished)])
    assert " after '# step # loss #' (limit " in capsys.readouterr().out
    finished.write_text("\n".join([*log({}, count=220), *beats]))
    main(["backtest", "--log", str(finished)])
    assert " after '# step 219 loss " in capsys.readouterr().out
    finished.write_text("step 1\n")
    assert main(["backtest", "--log", str(finished)])
    assert "--explain` needs none" in capsys.readouterr().err
