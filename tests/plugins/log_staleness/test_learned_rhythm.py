"""How long a run may be silent or stand still, by its own past."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from random import Random

import pytest

from watchdogd.plugins.log_staleness.learned_rhythm import BEAT, UNKNOWN, LogState, Reason
from watchdogd.plugins.log_staleness.stall_limit import patience
from watchdogd.system.codec import codec_of

CODEC = codec_of(LogState)

MINUTE = 60.0


def lived(minutes: int, line: Callable[[int], str] = lambda n: f"step {n} loss 2.{n % 9}") -> LogState:
    """A run that wrote a line each minute."""
    state = LogState()
    for n in range(1, minutes + 1):
        state.advance([(line(n), False)], n * MINUTE)
    return state


def test_a_young_run_has_more_patience_than_one_that_has_lived() -> None:
    young, old = lived(30), lived(200)
    assert young.silence(30 * MINUTE).seconds > old.silence(200 * MINUTE).seconds
    assert old.silence(200 * MINUTE).reason is Reason.KNOWN


def test_a_silence_is_judged_by_those_that_followed_such_a_line() -> None:
    state, now = LogState(), 0.0
    for cycle in range(6):
        for n in range(20):
            now += MINUTE
            state.advance([(f"step {cycle * 20 + n} loss 2.5", False)], now)
        state.advance([("writing the shards", False)], now + 1)
        if cycle == 0:
            assert state.silence(now).seconds == 1800.0, "the first of its kind"
        now += 10 * MINUTE
    assert 20 * MINUTE < state.silence(now).seconds <= 33 * MINUTE
    state.advance([("step 120 loss 2.5", False)], now)
    assert state.silence(now).seconds == 300.0, "steps are no saves"


def test_a_monitor_beside_it_does_not_hide_that_the_run_stands_still() -> None:
    state = LogState()
    for n in range(1, 200):
        lines = [(f"util 9{n % 10} %, sample {n}", False)]
        if n < 150:
            lines.append((f"epoch 1 batch {n * 3}/9000 loss 2.{n % 7}", False))
        state.advance(lines, n * MINUTE)
    stand = state.standstill(200 * MINUTE)
    assert stand is not None
    since, limit = stand
    assert since == 149 * MINUTE
    assert limit.seconds <= 10 * MINUTE


def evaluated(times: int, pause: float, *, announced: bool = True) -> tuple[LogState, float]:
    """A run with a step each minute, an evaluation each hour, and a monitor beside it; and the time."""
    state, now = LogState(), 0.0
    for n in range(1, times * 60 + 1):
        now += MINUTE
        state.advance([(f"step {n} loss 2.{n % 9}", False), (f"gpu {n % 7} C", False)], now)
        if n % 60:
            continue
        if announced:
            state.advance([("evaluating on 3 sets", False)], now + 1)
        for _ in range(int(pause / MINUTE)):
            now += MINUTE
            state.advance([(f"gpu {n % 5} C", False)], now)
    return state, now


def test_a_long_pause_is_allowed_again_only_where_what_began_it_was_said() -> None:
    state, now = evaluated(5, 20 * MINUTE)
    state.advance([("step 301 loss 2.1", False)], now + 60)
    state.advance([("gpu 3 C", False)], now + 120)
    stand = state.standstill(now + 120)
    assert stand
    assert stand[1].seconds <= 7 * MINUTE, "amid steps"
    state.advance([("evaluating on 3 sets", False)], now + 130)
    stand = state.standstill(now + 130)
    assert stand
    assert 30 * MINUTE <= stand[1].seconds <= 60 * MINUTE, "amid an evaluation"


def test_a_long_pause_that_nothing_announced_may_come_at_any_time() -> None:
    state, now = evaluated(5, 20 * MINUTE, announced=False)
    state.advance([("step 301 loss 2.1", False)], now + 60)
    state.advance([("gpu 3 C", False)], now + 120)
    stand = state.standstill(now + 120)
    assert stand
    assert stand[1].seconds >= 30 * MINUTE


def test_the_more_pauses_are_alike_the_less_longer_the_next_one_may_be() -> None:
    once, often = ([(n * 100.0, 600.0) for n in range(count)] for count in (1, 5))
    assert patience(300.0, once, 1000.0) == 1800.0
    assert patience(300.0, often, 1000.0) == 1200.0
    assert patience(300.0, [*often, (900.0, 3000.0)], 1000.0) == 7200.0, "one that is far longer"
    assert patience(300.0, [(0.0, 6000.0)], 1000.0) == 9000.0


def test_the_first_bar_that_is_full_ends_no_training_but_for_a_while() -> None:
    state = lived(20, lambda n: f"{n}/20 [loss 1.{n}]")
    assert state.silence(21 * MINUTE).reason is Reason.DONE
    assert state.silence(21 * MINUTE).seconds == 1800.0
    state = lived(400, lambda n: f"{n}/400 [loss 1.{n % 9}]")
    assert state.silence(401 * MINUTE).seconds == 7200.0, "it took hours"


def test_an_epoch_that_is_full_is_no_end_while_its_line_counts_epochs() -> None:
    state = lived(20, lambda n: f"epoch 1/9 {n}/20 [loss 1.{n}]")
    assert state.silence(21 * MINUTE).reason is not Reason.DONE


def test_after_the_last_step_there_is_more_patience_whatever_is_written() -> None:
    state = lived(400, lambda n: f"{n}/400 loss 1.{n % 9}")
    state.advance([("exporting", False)], 401 * MINUTE)
    state.advance([("exporting", False)], 402 * MINUTE)
    stand = state.standstill(420 * MINUTE)
    assert stand
    assert stand[1].reason is Reason.DONE
    assert stand[1].seconds == 7200.0


def test_what_counts_less_before_the_training_begins_teaches_no_rhythm() -> None:
    state = LogState()
    for n in range(1, 120):
        state.advance([(f"file {n * n}", False)], n * MINUTE)
    for n in range(1, 5):
        state.advance([(f"epoch {n} loss 2.{n}", False)], (120 + 50 * n) * MINUTE)
    stand = state.standstill(330 * MINUTE)
    assert stand is not None
    assert stand[1].seconds > 50 * MINUTE


def test_another_job_begins_anew_with_what_is_known_of_pauses() -> None:
    state = lived(200)
    state.renew()
    assert state.standstill(201 * MINUTE) is None or state.moved == 0.0
    state.advance([("step 150 loss 2.5", False)], 210 * MINUTE)
    state.advance([("step 151 loss 2.5", False)], 211 * MINUTE)
    assert state.moved == 211 * MINUTE
    assert state.silence(212 * MINUTE).reason is Reason.KNOWN


def test_the_guards_step_is_progress() -> None:
    state = LogState()
    for n in range(1, 30):
        state.count(BEAT, n, n * MINUTE)
    assert state.moved == 29 * MINUTE
    state.count(BEAT, 29, 40 * MINUTE)
    assert (state.moved, state.wrote) == (29 * MINUTE, 40 * MINUTE)


def test_the_state_is_plain_and_small() -> None:
    state = LogState()
    for n in range(500):
        text = "".join(chr(97 + (n * k) % 26) for k in range(1, 60))
        state.advance([(text, False), (f"step {n} loss 2.5", False)], n * MINUTE)
    kept = json.dumps(CODEC.dump(state))
    assert len(kept) < 20_000
    again = CODEC.load(json.loads(kept))
    assert again == state
    assert again.silence(9e4) == state.silence(9e4)


def test_the_next_step_is_late_long_before_that_means_a_hang() -> None:
    assert lived(1).due(MINUTE) == UNKNOWN
    assert lived(3).due(3 * MINUTE) == 3 * MINUTE
    assert lived(30).due(30 * MINUTE) == 1.5 * MINUTE
    state = lived(30)
    state.advance([("step 31 loss 2.5", False)], 45 * MINUTE)
    assert state.due(46 * MINUTE) == 22.5 * MINUTE, "an evaluation"
    quick = LogState()
    for n in range(90):
        quick.advance([(f"step {n} loss 2.5", False)], float(n))
    assert quick.due(90.0) == MINUTE


def test_a_total_that_was_reached_and_begun_anew_is_no_end() -> None:
    state = lived(200, lambda n: f"{n % 20 + 1}/20 loss 1.{n}")
    state.advance([("20/20 loss 1.1", False)], 201 * MINUTE)
    for n in range(202, 240):
        state.advance([("heartbeat", False)], n * MINUTE)
    stand = state.standstill(240 * MINUTE)
    assert stand is not None
    assert stand[1].seconds <= UNKNOWN
    assert state.silence(240 * MINUTE).seconds <= UNKNOWN


def test_what_is_full_within_a_training_that_goes_on_ends_nothing() -> None:
    state = lived(200, lambda n: f"iteration {n}/2400 loss 1.{n}")
    for part in range(1, 33):
        state.advance([(f"Evaluating iter {part}/32", False)], 200 * MINUTE + part)
    assert state.silence(201 * MINUTE).reason is not Reason.DONE
    assert state.standstill(240 * MINUTE) is not None


@pytest.mark.parametrize("none", ["nan", "NaN", "inf", "-inf"])
def test_a_measure_that_is_no_number_any_more_is_lost(none: str) -> None:
    state = lived(60, lambda n: f"pass {n} tr {n % 7 + 0.25 if n < 50 else none} (3 s)")
    assert state.lost is not None
    assert state.lost.lost == 11
    again = CODEC.load(json.loads(json.dumps(CODEC.dump(state))))
    assert again is not None
    assert again.lost is not None
    state.advance([("pass 61 tr 2.25 (3 s)", False)], 61 * MINUTE)
    assert state.lost is None, "it is a number again"


def test_what_was_never_a_measure_or_is_none_at_times_is_not_lost() -> None:
    assert lived(60, lambda n: f"pass {n} acc nan eta 0.{n}").lost is None
    assert lived(60, lambda n: f"pass {n} tr {'nan' if n % 4 else '2.5'}").lost is None
    assert lived(60, lambda n: f"pass {n} nantes inf-{n}").lost is None


def test_rows_before_a_count_is_known_for_one_are_no_pause() -> None:
    state = lived(20, lambda n: f"{n} 0.{90 - n}1 {n % 3}.5")
    assert max(gap for _, gap in state.pauses) <= 2 * MINUTE


WAITING = {
    "exporter": lambda n: f"scrape requests={1200 + n * 2 + n * n % 3} duration=0.{n * 37 % 9}1",
    "bare count": lambda n: f"rss {51_000 + n * 3 + n * n % 3} MB",
    "ever later": lambda n: f"no answer, retry {n}" if not n & (n + 1) else "",
    "regular": lambda n: f"heap {n * 37 % 9} M, collection {n}",
}
FORMS = {
    "bare": lambda n: f"done {n * 3} of them",
    "measured": lambda n: f"{n * 10}: {2 + n % 7 / 9:.3f}",
    "named": lambda n: f"epoch {n} loss 2.{n % 9}",
    "table": lambda n: f"| {n} | 2.{n % 9} | {n * n * 3 % 11}.5 |",
}


def stands_after(form: str, waiting: Callable[[int], str], hours: int) -> float:
    """Minutes after which a run that lived for hours is known to stand, while something else writes."""
    state, now = LogState(), 0.0
    for n in range(1, hours * 60):
        now += MINUTE + n * n % 11
        state.advance([(FORMS[form](n), False)], now)
    for minute in range(1, 301):
        now += MINUTE
        if line := waiting(minute - 1):
            state.advance([(line, False)], now)
        stand = state.standstill(now)
        if stand and now - stand[0] >= stand[1].seconds:
            return minute
    return float("inf")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("waiting", WAITING)
def test_what_begins_to_count_where_the_run_stopped_hides_that_for_a_while_only(
    form: str, waiting: str
) -> None:
    assert stands_after(form, WAITING[waiting], 6) <= 70


def test_a_next_stage_that_goes_on_for_longer_than_the_one_before_is_the_runs() -> None:
    state, now = lived(90, lambda n: f"indexed {n * n} records"), 90 * MINUTE
    for n in range(1, 400):
        now += MINUTE + n * n % 11
        state.advance([(f"{n} | 2.{n % 9} | {n * n % 7}.5", False)], now)
        if n > 120:
            assert state.progressed == now
    stand = state.standstill(now + 1)
    assert stand is None or stand[0] == now


@pytest.mark.parametrize("line", ["step {} of 4000 | 2.{}", "epoch {} loss 2.{}"])
def test_a_next_stage_that_is_named_or_has_a_total_is_the_runs_at_once(line: str) -> None:
    state, now = lived(90, lambda n: f"indexed {n * n} records"), 90 * MINUTE
    for n in range(1, 60):
        now += MINUTE
        state.advance([(line.format(n, n % 9), False)], now)
    assert state.progressed == now


def test_a_number_that_grows_in_lines_of_changing_words_is_no_standstill() -> None:
    state = LogState()
    words = ["plot file written", "buffers flushed", "energies summed"]
    for n in range(1, 20):
        now = n * 10 * MINUTE
        state.advance([(f"{n * 5003 + n % 7} t {n * 2.5e-3:.4E} {words[n % 3]}", False)], now)
        stand = state.standstill(now + 9 * MINUTE)
        assert stand is None or now + 9 * MINUTE - stand[0] < stand[1].seconds


def test_a_number_that_barely_grows_holds_a_report_back_for_two_hours_at_most() -> None:
    state = LogState()
    letters = "abcdefghijklmnopqrst"
    for n in range(30 * len(letters)):
        state.advance(
            [(f"waits {letters[n // 30]} {n}", False)] if n % 30 < 2 else [("waits", False)], n * MINUTE
        )
    assert state.stirred <= 121 * MINUTE


def test_steps_of_the_guard_count_whatever_waited_before() -> None:
    state = lived(60, lambda n: f"done {n * n} of them")
    for n in range(60, 120):
        state.advance([(f"scrape requests={n * 2} duration=0.{n * 37 % 9}1", False)], n * MINUTE)
    for n in range(120, 125):
        state.count(BEAT, n, n * MINUTE)
        assert state.progressed == n * MINUTE


def stands_still(state: LogState, now: float) -> bool:
    stand = state.standstill(now)
    return stand is not None and now - stand[0] >= stand[1].seconds


@pytest.mark.parametrize(
    "line",
    [
        "[ep {epoch}] {left} mini-batches to go, obj 2.{noise}",
        "{left} tiles left",
        "epoch {epoch}: remaining {left} of 1204",
    ],
)
def test_what_counts_down_gets_on_and_stands_still_where_it_stops(line: str) -> None:
    state, now = LogState(), 0.0
    for number in range(360):
        epoch, done = divmod(number, 100)
        now += MINUTE * (0.8 + (number * 7 % 5) / 10)
        said = line.format(epoch=epoch, left=1204 - 12 * done, noise=number * 37 % 89)
        state.advance([(said, False)], now)
        assert not stands_still(state, now), number
    for _ in range(30):
        now += MINUTE
        state.advance([("worker 3 is alive", False)], now)
    assert stands_still(state, now)


@pytest.mark.parametrize(
    "line",
    [
        "2027/01/15 08:{minute:02d}:00.214, 0, 100 %, 61 %, 12{noise}.{noise}4 W, 41",
        "load average: 3.{noise}, 4.{noise}, 4.11",
        "08:{minute:02d}:00 monitor: RSS {leak:.2f} GB, free 2{noise}.1 GB, load 1{noise}.{noise}",
        "[08:{minute:02d}:00] /scratch used {leak:.2f}T of 120T (68%)",
        "08:{minute:02d}:00: cache usage {minute} MB",
        "mem avail: {minute}2345 of 990812 MiB (61.2%), swap free: 0 of 0 MiB",
    ],
)
def test_a_monitor_alone_hides_no_start_that_hangs(line: str) -> None:
    state = LogState()
    state.advance([("loading the modules", False)], 1.0)
    for number in range(1, 60):
        said = line.format(minute=number, noise=number * 37 % 8 + 1, leak=12 + number / 80)
        state.advance([(said, False)], number * MINUTE)
    assert stands_still(state, 60 * MINUTE)


@pytest.mark.parametrize("line", ["{value:.6f}", "obj {value:.4f} reg 0.{noise}1"])
def test_a_measure_that_goes_somewhere_is_work_though_nothing_counts(line: str) -> None:
    state = LogState()
    for number in range(1, 200):
        value = 2 + 6 / (1 + number / 20) + (number * 37 % 11) / 200
        state.advance([(line.format(value=value, noise=number % 8 + 1), False)], number * MINUTE)
        assert not stands_still(state, number * MINUTE), number


def test_a_table_that_is_drawn_again_says_nothing_new() -> None:
    state, now = LogState(), 0.0
    for number in range(240):
        now += MINUTE
        table = [
            f"| walker_{row} | RUNNING | {3 * min(number, 120) + row} it | 4{row}.{row} s |"
            for row in range(4)
        ]
        state.advance([(said, False) for said in table * (1 + number % 2)], now)
        if number < 125:
            assert not stands_still(state, now), number
    assert stands_still(state, now)


def test_a_count_that_stands_for_several_lines_is_none_of_what_waits() -> None:
    state = LogState()
    for number in range(400):
        state.advance([(f"processing... {number // 14}%", False)], number * MINUTE)
        assert not stands_still(state, number * MINUTE), number


def test_a_buffer_that_is_written_when_it_is_full_cuts_a_line_anywhere() -> None:
    """The last whole line of a burst was never the last one before: of what follows it nothing is known."""
    state, now = LogState(), 0.0
    for burst in range(12):
        now += 22 * MINUTE
        lines = [(f"step {burst * 120 + n} loss 2.{n % 9}", False) for n in range(120)]
        cut = [("ste", True)] if burst % 3 == 2 else [(f"step {burst * 120 + 120} lo", True)]
        state.advance([*lines, *cut], now)
        if burst:
            assert state.silence(now).seconds > 24 * MINUTE, burst


def test_a_group_that_is_restarted_in_its_job_has_the_time_of_a_start() -> None:
    state = lived(180)
    state.renew(180 * MINUTE)
    state.advance([("rendezvous round 2", False), ("rendezvous round 3", False)], 180 * MINUTE)
    assert not stands_still(state, 200 * MINUTE)
    assert not state.moved


def test_a_count_that_was_full_before_and_began_again_ends_nothing() -> None:
    state, now = LogState(), 0.0
    for cycle in range(6):
        for n in range(1, 9):
            now += MINUTE
            state.advance([(f"waiting for rollouts ({n * 8}/64 groups collected)", False)], now)
        assert (state.full > 0) is (cycle < 2), cycle


def test_a_cycle_that_begins_a_little_later_than_the_last_one_is_one() -> None:
    state, now = LogState(), 0.0
    for cycle in range(8):
        for n in range((0, 7)[cycle % 2], 65, 3):
            now += MINUTE
            state.advance([(f"collected {n} groups in 3.{n % 9} s", False)], now)
            assert not stands_still(state, now), (cycle, n)


def test_lines_of_ever_new_kinds_hide_no_hang_for_long() -> None:
    state, letters = lived(180), "abcdefghijklmnopqrstuvwxyz"
    for n in range(1, 120):
        said = f"{letters[n % 26]}{letters[n // 26]} says something that it never said"
        state.advance([(said, False)], (180 + n) * MINUTE)
        assert n > 60 or not stands_still(state, (180 + n) * MINUTE), "something began"
    assert stands_still(state, 300 * MINUTE)


def test_games_that_all_say_the_same_have_the_time_of_what_is_new() -> None:
    state = lived(13)
    for n in range(14, 60):
        moves = [(f"self-play: move {move} of 40", False) for move in (10, 20, 30, 40)]
        state.advance(moves, n * MINUTE)
        assert n > 40 or not stands_still(state, n * MINUTE), n
    assert stands_still(state, 60 * MINUTE), "a loop that never ends"


def test_the_second_silence_of_a_kind_is_met_with_less_patience_than_the_first() -> None:
    state, now = LogState(), 0.0
    limits = []
    for cycle in range(4):
        for n in range(20):
            now += MINUTE
            state.advance([(f"step {cycle * 20 + n} loss 2.5", False)], now)
        state.advance([("writing the shards", False)], now + 1)
        limits.append(state.silence(now).seconds)
        now += 2 * MINUTE
    assert limits == sorted(limits, reverse=True)
    assert limits[0] == UNKNOWN
    assert limits[1] == UNKNOWN / 2
    assert limits[3] < 10 * MINUTE


@pytest.mark.parametrize(
    ("took", "spread", "bare"), [(75.4, 0.02, False), (75.4, 0.0, False), (60.2, 0.0, True)]
)
def test_a_count_of_steps_that_are_alike_is_no_sleep(took: float, spread: float, bare: bool) -> None:
    state, now = LogState(), 1000.0
    for n in range(90):
        now += took * (1 + spread * (n * 7919 % 13 - 6) / 6)
        state.advance([(f"done {n}", False)], now)
    assert state.bare is bare
    assert stands_still(state, now + 1) is bare


def test_what_only_waits_hides_a_hang_for_half_an_hour_in_all() -> None:
    state = LogState()
    for n in range(60):
        state.advance([(f"waiting for a GPU ({n})", False)], 1000.0 + n * MINUTE)
        assert stands_still(state, 1000.0 + n * MINUTE) is (n >= 30), n


def late(state: LogState, now: float) -> bool:
    """Whether it would be called, as silent or as standing still."""
    return now - state.wrote >= state.silence(now).seconds or stands_still(state, now)


@pytest.mark.parametrize(("step", "evaluation"), [(60, 420), (60, 600), (90, 900), (150, 1050), (240, 1680)])
def test_an_evaluation_that_nothing_announces_and_whose_result_follows_it_is_learned(
    step: float, evaluation: float
) -> None:
    state, now, called = LogState(), 0.0, []
    for n in range(1, 20 * 8):
        now += step
        state.advance([(f"step {n} loss 2.{n % 9}", False)], now)
        if n % 20:
            continue
        called += [n for seconds in range(0, int(evaluation), 60) if late(state, now + seconds)]
        now += evaluation
        state.advance([(f"accuracy 0.{n}1", False)], now)
    assert set(called) <= {20}, "only the first one may be met with too little patience"
    assert called == [] or evaluation > 900


@pytest.mark.parametrize("of", [2, 8])
@pytest.mark.parametrize(
    "line",
    [
        "2027/01/15 {hour:02}:{minute:02}:20.{ms}, {name}, {noise}, 9{digit} %, 61 MiB, 14{digit}.3{digit} W",
        "worker {name}: idle, {noise} MB",
    ],
)
def test_names_of_gpus_and_workers_are_no_clock(line: str, of: int) -> None:
    state, digits = LogState(), Random(17)
    state.advance([("loading", False)], MINUTE)
    for n in range(2, 120):
        said = [
            line.format(
                hour=8 + n // 60,
                minute=n % 60,
                ms=digits.randint(100, 999),
                name=name,
                noise=digits.randint(60, 69),
                digit=digits.randint(0, 9),
            )
            for _ in range(2)
            for name in range(of)
        ]
        state.advance([(each, False) for each in said], n * MINUTE)
        assert n < 50 or stands_still(state, n * MINUTE)


@pytest.mark.parametrize("frozen", [0, 60])
def test_each_trial_of_a_table_has_numbers_of_its_own(frozen: int) -> None:
    state, called, paces = LogState(), [], (0.31, 0.5, 0.42, 0.27)
    for n in range(1, 240):
        at = min(n, frozen or n)
        done = [int(at * pace) for pace in paces]
        rows = [
            f"| trial_{name:05} RUNNING 0.00{name} {steps} {2 - steps / 500:.4f} |"
            for name, steps in enumerate(done)
            if steps < 45
        ]
        status = (
            f"Total running time: {n // 60}hr {n % 60}min 0s" if n >= 60 else f"Total running time: {n}min 0s"
        )
        state.advance([(each, False) for each in (status, *rows)], n * MINUTE)
        called += [n] if stands_still(state, n * MINUTE) else []
    if not frozen:
        assert not called or min(called) > 45 / min(paces)
    else:
        assert min(called) <= frozen + 20
        assert called == list(range(min(called), 240)), "and nothing says that it goes on"


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ((7, "refinement iteration {n}"), "Time = {small:g}"),
        ((40, "epoch {n}/40 recon_loss 0.{n}"), "{hundreds} nll 4.{noise}"),
        ((51, "  {n}/1  1.17{noise}"), "  {on}/1  1.17{noise}  1.168 +/- 0.000{noise}"),
    ],
)
def test_a_count_takes_over_from_one_that_ended(first: tuple[int, str], then: str) -> None:
    many, form = first
    state, now, digits = LogState(), 0.0, Random(3)
    for n in range(1, many + 1):
        now += MINUTE
        state.advance([(form.format(n=n, noise=digits.randint(10, 99)), False)], now)
    state.advance([("next stage", False)], now + 1)
    for n in range(1, 200):
        now += MINUTE + digits.randint(-5, 5)
        values = {"small": n * 6e-5, "hundreds": 100 * n, "on": many + n, "noise": digits.randint(10, 99)}
        state.advance([(then.format(**values), False), (f"residual 1e-{n % 9}", False)], now)
        assert not late(state, now)
    stopped = now
    for n in range(1, 70):
        now += MINUTE
        state.advance([(f"still here, {n}", False)], now)
    assert late(state, now), f"hung for {now - stopped} s"


def _said_with_a_time(line: Callable[[int], str], form: str, *, every: float, stops: int) -> list[bool]:
    """Whether a run would be called at each look, whose lines have their time in front.

    From line `stops` on, heartbeats come in their place.
    """
    state, digits, found, now = LogState(), Random(5), [], 1_800_000_000.0
    state.advance([("begin", False)], now)
    for n in range(1, 400):
        now += every + digits.randint(-3, 3)
        at = time.strftime(form, time.gmtime(now - digits.randint(0, 2)))
        said = line(n) if n < stops else f"heartbeat {n} ok"
        state.advance([(f"{at}{each}", False) for each in said.split("\n")], now)
        found.append(late(state, now))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "every"),
    [
        (lambda n: f"loss {2 + n % 7 / 100:.2f}", 60.0),
        (lambda n: f"{n * 100} nll 4.{n % 9}", 60.0),
        (lambda n: f"sample{n} sorted", 600.0),
        (
            lambda n: "\n".join(
                f"| t_{i} | RUNNING | {3 * min(n, 150) + i} it | 4{i}.{i} s |" for i in range(4)
            ),
            60.0,
        ),
    ],
)
@pytest.mark.parametrize("stops", [200, 400])
def test_a_time_in_front_changes_no_verdict(line: Callable[[int], str], every: float, stops: int) -> None:
    plain, dated, clocked = (
        _said_with_a_time(line, form, every=every, stops=stops)
        for form in ("", "[%Y-%m-%d %H:%M:%S] ", "%T | ")
    )
    assert plain == dated == clocked


@pytest.mark.parametrize("line", ["train_loss 0.{a} val_loss 0.{b}", "lr 1.0e-04 loss 2.{a}"])
@pytest.mark.parametrize("epoch", [5, 10, 20])
def test_a_loss_without_a_count_is_progress_where_it_changes(line: str, epoch: int) -> None:
    state, now = LogState(), 0.0
    state.advance([("training begins", False)], now)
    for n in range(14):
        for _ in range(epoch):
            now += MINUTE
            assert not late(state, now)
        state.advance([(line.format(a=900 - n * 7, b=950 - n * 5), False)], now)
    for n in range(max(2 * epoch, 30)):
        now += MINUTE
        state.advance([(f"heartbeat {n} ok", False)], now)
    assert late(state, now + 2 * MINUTE)


def test_a_limit_says_whether_the_run_is_young_or_its_line_seldom() -> None:
    state = LogState()
    for n in range(40):
        state.advance([(f"step {n} loss 1.{n * 7 % 9}", False)], n * 5.0)
    assert state.silence(200.0).reason is Reason.YOUNG
    state.advance([("gathering the shards", False)], 201.0)
    assert state.silence(202.0).reason is Reason.SELDOM


def test_a_line_that_came_a_few_times_is_met_with_the_patience_of_its_run() -> None:
    state = LogState()
    for n in range(600):
        drawn = [("drawing samples", False)] if n in (100, 200, 300) else []
        state.advance([*drawn, (f"step {n} loss 1.{n * 7 % 9}", False)], n * 20.0)
    state.advance([("drawing samples", False)], 12_000.0)
    limit = state.silence(12_001.0)
    assert (limit.reason, limit.seconds) == (Reason.SELDOM, 7 * MINUTE)


def test_times_that_come_round_within_a_look_name_nothing() -> None:
    state = LogState()
    for look in range(6):
        lines = range(look * 120, look * 120 + 120)
        state.advance([(f"[10:{n % 60:02}:11] step {n} loss 1.5", False) for n in lines], look * MINUTE)
    assert len(state.templates) == 1
