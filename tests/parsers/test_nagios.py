"""The Nagios plugin API as real plugins of Debian speak it, and as broken ones do."""

from __future__ import annotations

import math
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchdogd.cli.check import nagios as written
from watchdogd.incidents.models import Observation
from watchdogd.parsers.nagios import LABEL_LIMIT, METRICS_LIMIT, Range, metrics, read, read_range
from watchdogd.plugin import Metric, Result, Status

PLUGINS = Path("/usr/lib/nagios/plugins")


def real(*words: str) -> Result:
    """What a plugin of monitoring-plugins-basic says now."""
    done = subprocess.run(
        [str(PLUGINS / words[0]), *words[1:]], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode in (0, 1, 2), done.stdout + done.stderr
    result = read(done.returncode, done.stdout, done.stderr)
    assert result.status is Status(done.returncode)
    return result


def test_check_disk_gives_bytes_with_thresholds() -> None:
    result = real("check_disk", "-w", "1%", "-c", "0%", "-p", "/")
    assert result.summary.startswith("DISK ")
    assert "|" not in result.summary
    used = result.metrics["/"]
    assert (used.unit, used.value > 0) == ("B", True)
    assert used.warn is not None
    assert used.crit is not None
    assert used.warn < used.crit


def test_check_load_gives_three_numbers() -> None:
    result = real("check_load", "-w", "500,400,300", "-c", "1000,800,600")
    assert result.status is Status.OK
    assert set(result.metrics) == {"load1", "load5", "load15"}
    assert (result.metrics["load5"].warn, result.metrics["load5"].crit) == (400.0, 800.0)


def test_check_procs_with_a_range() -> None:
    crowded = real("check_procs", "-w", "0:1", "-c", "1:90000")
    assert crowded.status is Status.WARNING
    procs = crowded.metrics["procs"]
    assert procs.warn == 1.0
    assert procs.value > 1


def test_check_users_file_age_and_ping(tmp_path: Path) -> None:
    assert real("check_users", "-w", "500", "-c", "1000").metrics["users"].crit == 1000.0
    file = tmp_path / "log"
    file.write_text("iteration 41\n")
    aged = real("check_file_age", "-w", "600", "-c", "900", "-f", str(file))
    assert aged.status is Status.OK
    age, size = aged.metrics["age"], aged.metrics["size"]
    assert (age.unit, age.warn, age.crit, size.value, size.unit) == ("s", 600.0, 900.0, 13.0, "B")
    assert real("check_dummy", "2", "hallo").summary == "hallo"


@pytest.mark.parametrize(("code", "status"), list(enumerate(Status)))
def test_the_exit_code_is_the_status(code: int, status: Status) -> None:
    assert read(code, "all | is=1 well\n").status is status


def test_all_parts_of_an_answer() -> None:
    result = read(
        1,
        "RAID WARNING - sdb rebuilds | done=41%;50:;20:;0;100\n"
        "md0: 2 of 3 discs\n"
        "md1: clean | 'speed of md0'=88.5MB;;;0\n"
        "eta=90m errors=0c;1;5\n",
        "note: sdb is slow\n",
    )
    assert result.summary == "RAID WARNING - sdb rebuilds"
    assert result.details == "md0: 2 of 3 discs\nmd1: clean\nnote: sdb is slow"
    assert result.metrics == {
        "done": Metric(41.0, "%", 50.0, 20.0),
        "speed of md0": Metric(88_500_000.0, "B"),
        "eta": Metric(90.0, "m"),
        "errors": Metric(0.0, "c", 1.0, 5.0),
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1", {"a": Metric(1.0)}),
        ("a=U b=2", {"b": Metric(2.0)}),
        ("'it''s 1'=-4.5ms;~:3;;", {"it's 1": Metric(-0.0045, "s", 0.003)}),
        ("a=1KiB;2;3 b=1kB", {"a": Metric(1024.0, "B", 2048.0, 3072.0), "b": Metric(1000.0, "B")}),
        ("t=250us;500;1000", {"t": Metric(0.00025, "s", 0.0005, 0.001)}),
        ("a=1;@10:20;~:9", {"a": Metric(1.0, "", 10.0, 9.0)}),
        ("a=1 a=2", {"a": Metric(1.0)}),
        ("a=1;nonsense;;; b=2", {"a": Metric(1.0), "b": Metric(2.0)}),
        ("junk =3 a==4 b=3,4 c=1e400 d=nan e= 'open=5", {}),
        ("a=1e3 b=.5 c=5. d=+2", {"a": Metric(1e3), "b": Metric(0.5), "c": Metric(5.0), "d": Metric(2.0)}),
        ("", {}),
    ],
)
def test_perfdata(text: str, expected: dict[str, Metric]) -> None:
    found = metrics(text)
    assert found.keys() == expected.keys()
    for name, metric in expected.items():
        assert found[name].unit == metric.unit
        for attribute in ("value", "warn", "crit"):
            assert getattr(found[name], attribute) == pytest.approx(getattr(metric, attribute))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("20", Range(0.0, 20.0)),
        ("10:20", Range(10.0, 20.0)),
        ("10:", Range(10.0, math.inf)),
        ("~:20", Range(-math.inf, 20.0)),
        ("@10:20", Range(10.0, 20.0)),
        ("@7", Range(0.0, 7.0)),
        ("-5:-1", Range(-5.0, -1.0)),
        (":20", Range(0.0, 20.0)),
        ("", None),
        ("~:", None),
        ("20:10", None),
        ("a:b", None),
        ("nan", None),
    ],
)
def test_ranges(text: str, expected: Range | None) -> None:
    assert read_range(text) == expected


def test_a_range_becomes_the_end_that_can_be_crossed() -> None:
    both = Range(10.0, 20.0)
    assert [both.bound(value) for value in (4.0, 11.0, 19.0, 25.0)] == [10.0, 10.0, 20.0, 20.0]
    assert Range(0.0, 20.0).bound(1.0) == 20.0
    assert Range(0.0, 20.0).bound(-1.0) == 0.0
    assert Range(10.0, math.inf).bound(500.0) == 10.0


def test_who_prints_nothing_is_judged_by_his_exit_code() -> None:
    assert read(0, "").status is Status.OK
    assert read(0, " \n\n").summary == "printed nothing and ended with exit code 0"
    failed = read(1, "", "Trace\n ...\nKeyError: 'x'\n")
    assert failed.status is Status.WARNING
    assert failed.summary == "printed nothing and ended with exit code 1: KeyError: 'x'"


@pytest.mark.parametrize(
    ("code", "output", "errors", "summary"),
    [
        (127, "", "sh: no foo", "ended with exit code 127, not a valid status (0 to 3): sh: no foo"),
        (4, "hm", "", "ended with exit code 4, not a valid status (0 to 3): hm"),
        (-11, "", "", "was killed by SIGSEGV"),
        (-9, "half", "", "was killed by SIGKILL: half"),
        (-64, "", "", "was killed by SIGRTMAX"),
        (-99, "", "", "was killed by signal 99"),
    ],
)  # fmt: skip
def test_what_is_no_answer_is_unknown_in_a_sentence(
    code: int, output: str, errors: str, summary: str
) -> None:
    result = read(code, output, errors)
    assert (result.status, result.summary) == (Status.UNKNOWN, summary)


def test_numbers_without_words_and_words_without_a_first_line() -> None:
    assert read(0, "| a=1 b=2").summary == "2 numbers and no words"
    assert read(1, "|\nthe second line").summary == "the second line"


def test_terminal_escapes_and_bars_stay_out_of_the_summary() -> None:
    result = read(2, "\x1b[31mred\x1b[0m\talert\u202e | '\x07bell'=1\r\n")
    assert result.summary == "red alert"
    assert list(result.metrics) == ["bell"]


def test_a_flood_is_bounded_and_quick() -> None:
    flood = " ".join(f"m{number}=1" for number in range(100_000))
    assert len(metrics(flood)) == METRICS_LIMIT
    assert metrics("'" * 1_000_000) == {}
    assert metrics(" 'a" * 300_000) == {}
    assert list(metrics("x" * 1_000_000 + "=1")) == ["x" * LABEL_LIMIT]


@given(st.integers(-70, 260), st.text(), st.text())
def test_any_text_gives_a_result_that_can_be_kept(code: int, output: str, errors: str) -> None:
    result = read(code, output, errors)
    assert result.summary
    assert result.summary == " ".join(result.summary.split())
    for name, metric in result.metrics.items():
        assert name.strip() == name
        numbers = [metric.value, *(bound for bound in (metric.warn, metric.crit) if bound is not None)]
        assert all(math.isfinite(number) for number in numbers)


@given(
    st.dictionaries(
        st.text("abc äö/%", min_size=1).filter(lambda name: name == " ".join(name.split())),
        st.builds(
            Metric,
            st.floats(0, 1e12),
            st.sampled_from(["", "s", "B", "%", "c"]),
            st.none() | st.floats(1, 1e12),
            st.none(),
        ),
    )
)
def test_what_watchdogd_prints_it_reads_again(measured: dict[str, Metric]) -> None:
    seen = Observation("c", "", "c", Result(Status.OK, "fine", measured), 0.0)
    again = read(0, written("c", [seen])).metrics
    assert again.keys() == measured.keys()
    for name, metric in measured.items():
        assert again[name].value == pytest.approx(metric.value)
        assert again[name].unit == metric.unit
        assert again[name].warn == (None if metric.warn is None else pytest.approx(metric.warn))
