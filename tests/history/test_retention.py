"""What is kept how long: the plan by itself, and what it does to real readings."""

from collections.abc import Callable
from math import ceil, nan
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.history.values import new_home, notification, opened, opening, round_of, seen
from watchdogd.history.models import Record
from watchdogd.history.retention import DAY, FIVE, FIVES, HOUR, RAW, Thinned, plan
from watchdogd.history.store import Store
from watchdogd.home.layout import Home
from watchdogd.plugin import Status

BEGIN = 1_790_035_200
"""A midnight."""
KEEP = 90.0 * DAY


def moments(step: object) -> tuple[str, int, int]:
    return step.work, step.begin - BEGIN, step.end - BEGIN  # type: ignore[attr-defined]  # a Step


def test_a_young_history_is_only_folded() -> None:
    steps = plan(BEGIN + 1234.5, KEEP, Thinned(BEGIN, BEGIN, BEGIN))
    assert [moments(step) for step in steps[:-1]] == [("fold raw", 0, 900)]
    assert steps[-1].work == "drop old"
    assert steps[-1].after == Thinned(BEGIN + 900, BEGIN, BEGIN)


def test_what_was_done_is_not_done_again() -> None:
    steps = plan(BEGIN + 1234.5, KEEP, Thinned(BEGIN, BEGIN, BEGIN))
    assert [step.work for step in plan(BEGIN + 1240, KEEP, steps[-1].after)] == ["drop old"]


@given(
    age=st.floats(0, 400 * DAY),
    keep=st.floats(60, 200 * DAY),
    folded=st.integers(0, 300 * DAY),
    raw=st.integers(0, 300 * DAY),
    fives=st.integers(0, 300 * DAY),
)
def test_a_plan_loses_nothing_and_comes_to_an_end(
    age: float, keep: float, folded: int, raw: int, fives: int
) -> None:
    begin = Thinned(
        *(BEGIN + offset // HOUR * HOUR for offset in (folded, min(raw, folded), min(fives, raw, folded)))
    )
    now = BEGIN + age
    at = begin
    for step in plan(now, keep, at):
        if step.work == "fold raw":
            assert (step.begin, step.after.folded) == (at.folded, step.end)
            assert step.begin % FIVE == step.end % FIVE == 0
            assert step.end <= now
        if step.work == "drop raw":
            assert step.end <= max(at.folded, step.begin)
            assert step.end <= max(now - RAW, now - keep)
        if step.work == "fold fives":
            assert step.begin % HOUR == step.end % HOUR == 0
            assert (step.begin, step.after.fives) == (at.fives, step.end)
            assert step.end <= max(now - FIVES, now - keep)
        if step.work == "drop old":
            assert step.end <= now - keep
        assert step.end - step.begin <= DAY or step.work == "drop old"
        at = step.after
    assert {step.work for step in plan(now, keep, at)} == {"drop old"}


# ---------------------------------------------------------------------- on real readings


def fill(store: Store, begin: float, end: float, every: float, *, offset: float = 0.0) -> None:
    """One result every so many seconds, all in one round."""
    times = [begin + offset + every * step for step in range(ceil((end - begin - offset) / every))]
    seen_then = tuple(seen(at, lag=(at - BEGIN) / 60, loss=nan) for at in times)
    store.record(Record(times[-1], seen_then))


CHECK = "run-17/log_staleness"


def test_readings_become_five_minutes_and_then_hours(store: Store) -> None:
    fill(store, BEGIN, BEGIN + 2 * HOUR, 60)
    store.thin(BEGIN + 10 * DAY, KEEP)
    lines = [line for line in store.readings(since=BEGIN + 1) if line.metric == "lag"]
    assert [(line.at - BEGIN, line.low, line.value, line.high) for line in lines] == [
        (1770, 0.0, 29.5, 59.0),
        (HOUR + 1770, 60.0, 89.5, 119.0),
    ]


def test_two_days_stay_as_they_came_beside_their_five_minutes(store: Store) -> None:
    fill(store, BEGIN, BEGIN + HOUR, 60)
    raw = store.readings()
    means = ((BEGIN + 120, 2.0), (BEGIN + 420, 7.0), (BEGIN + 720, 12.0))
    store.thin(BEGIN + 15 * 60 + 60, KEEP)
    assert store.readings() == raw
    assert store.series(CHECK, 0)["", "lag"][:4] == (*means, (BEGIN + 900, 15.0))
    assert store.measures()[0][5:] == (60, 0.0, 29.5, 59.0)
    store.thin(BEGIN + 3 * DAY, KEEP)
    kept = [line for line in store.readings() if line.metric == "lag"]
    assert [(line.at, line.value) for line in kept[:3]] == list(means)
    assert len(kept) == 12
    assert store.measures()[0][5:] == (60, 0.0, 29.5, 59.0)


def test_a_reading_every_six_hours_keeps_its_time(store: Store) -> None:
    fill(store, BEGIN, BEGIN + 30 * DAY, 6 * HOUR, offset=1234)
    before = store.series(CHECK, 0)
    for age in (1, 4, 12, 30):
        store.thin(BEGIN + age * DAY, KEEP)
    assert store.series(CHECK, 0) == before


def test_thinning_every_few_hours_comes_to_the_same_as_thinning_once(
    tmp_path: Path, url: Callable[[], str]
) -> None:
    found, few = [], 3 * HOUR
    for name, every in (("often", few), ("once", 12 * DAY)):
        (tmp_path / name).mkdir()
        store = opened(new_home(tmp_path / name, url=url()))
        for at in range(BEGIN, BEGIN + 12 * DAY, few):
            fill(store, at, at + few, 1800, offset=7)
            if (at + few - BEGIN) % every == 0:
                store.thin(at + few, KEEP)
        [measure] = store.measures()
        whole = measure._replace(mean=round(measure.mean, 6))  # sums in another order differ in the last bit
        found.append((store.readings(), whole, store.series(CHECK, 0)))
        store.close()
    assert found[0] == found[1]


def test_what_is_older_than_keep_goes_but_for_what_happened(store: Store) -> None:
    fill(store, BEGIN, BEGIN + HOUR, 60)
    notes = (notification("old@mail", "sent", created_at=BEGIN), notification("due@mail", created_at=BEGIN))
    bad = seen(BEGIN + HOUR, status=Status.CRITICAL)
    store.record(Record(BEGIN + HOUR, (bad,), events=(opening(),), notifications=notes, touches=("bob did",)))
    store.thin(BEGIN + 100 * DAY, KEEP)
    assert store.measures() == []
    assert store.series(CHECK, 0) == {}
    assert [each.key for each in store.notifications()] == ["due@mail"]
    assert len(store.changes()) == 2
    assert len(store.incidents()) == len(store.events()) == len(store.touches()) == 1


def test_less_than_two_days_may_be_kept(store: Store) -> None:
    fill(store, BEGIN, BEGIN + 3 * DAY, HOUR)
    store.thin(BEGIN + 3 * DAY, 1.0 * DAY)
    assert [line.at for line in store.readings() if line.metric == "lag"] == [
        BEGIN + 2 * DAY + hour * HOUR for hour in range(24)
    ]


def test_the_past_that_is_remembered_between_two_folds_is_what_the_database_holds(home: Home) -> None:
    store = opened(home)

    def same() -> bool:
        fresh = opened(home)
        both = [(each.series(CHECK, 0), each.series(CHECK, BEGIN + HOUR)) for each in (store, fresh)]
        fresh.close()
        return both[0] == both[1] and bool(both[0][0])

    fill(store, BEGIN, BEGIN + 6 * HOUR, 120)
    store.thin(BEGIN + 6 * HOUR, KEEP)
    assert len(store.series(CHECK, BEGIN + 3 * HOUR)) == 1  # it reaches less far back than what is asked next
    assert same()
    store.record(round_of(BEGIN + 3 * HOUR + 60, lag=1000.0))  # late: folded anew, up to the same time
    store.thin(BEGIN + 6 * HOUR, KEEP)
    assert same()
    fill(store, BEGIN + 6 * HOUR, BEGIN + 8 * HOUR, 120)
    assert same()
    store.thin(BEGIN + 9 * DAY, KEEP)
    assert same()


def test_a_round_that_waited_in_memory_is_folded_too(store: Store) -> None:
    fill(store, BEGIN, BEGIN + 6 * HOUR, 120)
    store.thin(BEGIN + 6 * HOUR, KEEP)
    store.series(CHECK, 0)
    store.record(round_of(BEGIN + 3 * HOUR + 60, lag=1000.0))
    assert (BEGIN + 3 * HOUR + 60, 1000.0) in store.series(CHECK, 0)["", "lag"]
    store.thin(BEGIN + 6 * HOUR + 60, KEEP)
    assert max(value for _at, value in store.series(CHECK, 0)["", "lag"]) == (180 + 182 + 184 + 1000) / 4
    store.thin(BEGIN + 9 * DAY, KEEP)
    assert store.measures()[0].readings == 181
    assert store.measures()[0].high == 1000.0


def test_an_empty_history_has_nothing_to_thin(store: Store) -> None:
    store.thin(BEGIN, KEEP)
    assert store.measures() == []
