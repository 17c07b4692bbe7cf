"""A course is the tuple of its points, in order, on both sides of a socket."""

from __future__ import annotations

import pickle

from hypothesis import given
from hypothesis import strategies as st

from watchdogd.history.measurements import Course

POINTS = st.lists(st.tuples(st.floats(0, 9), st.floats(allow_nan=False)), max_size=20)


@given(POINTS, st.floats(0, 9))
def test_it_holds_each_point_once_in_order_of_time(points: list[tuple[float, float]], begin: float) -> None:
    course = Course(points)
    assert {*course} == {*points}
    assert len(course) == len({*points})
    assert [at for at, _ in course] == sorted(at for at, _ in course)
    assert course.since(begin) == tuple(point for point in course if point[0] >= begin)
    assert pickle.loads(pickle.dumps(course)) == course == tuple(course)


def test_it_is_cut_joined_and_looked_into_as_a_sequence() -> None:
    early, late = Course([(1.0, 5.0), (2.0, 6.0)]), Course([(3.0, 7.0)])
    both = early.then(late)
    assert both == ((1.0, 5.0), (2.0, 6.0), (3.0, 7.0))
    assert both[-1] == (3.0, 7.0)
    assert both[1:] == ((2.0, 6.0), (3.0, 7.0))
    both.forget(2.5)
    assert both == late != early
    assert not Course()
