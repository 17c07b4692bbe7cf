"""The order of one channel: kept within a thread, free among threads."""

from dataclasses import replace

from tests.notify.values import NOON, letter
from watchdogd.notify.queue import Queue


def _queue(*letters: tuple[str, int]) -> Queue:
    queue = Queue()
    for name, number in letters:
        queue.add(letter(number, name=name))
    return queue


def test_what_came_first_goes_first() -> None:
    queue = _queue(("a", 1), ("b", 2))
    first = queue.take(NOON)
    assert first is not None
    assert first.key == "a@slack"


def test_a_thread_waits_for_its_first_and_no_other_thread_does() -> None:
    queue = _queue(("a", 1), ("b", 1), ("c", 2))
    first = queue.take(NOON)
    assert first is not None
    queue.again(replace(first, next_try=NOON + 60, attempts=1))
    other = queue.take(NOON)
    assert other is not None
    assert other.key == "c@slack"
    assert queue.take(NOON) is None
    assert queue.next_time(NOON) == NOON + 60


def test_the_next_of_a_thread_follows_when_the_first_is_done() -> None:
    queue = _queue(("a", 1), ("b", 1))
    first = queue.take(NOON)
    assert first is not None
    assert queue.next_time(NOON) is None
    queue.done(first)
    assert queue.next_time(NOON) == NOON
    second = queue.take(NOON)
    assert second is not None
    assert second.key == "b@slack"


def test_a_message_about_two_incidents_stands_in_both_threads() -> None:
    queue = Queue()
    queue.add(letter(1, name="a"))
    queue.add(letter(2, name="both", incidents=(1, 2)))
    queue.add(letter(2, name="b"))
    taken = queue.take(NOON)
    assert taken is not None
    assert queue.take(NOON) is None
    queue.done(taken)
    both = queue.take(NOON)
    assert both is not None
    assert both.key == "both@slack"
    assert queue.take(NOON) is None


def test_what_was_refused_least_goes_first() -> None:
    queue = _queue(("a", 1), ("b", 2))
    first = queue.take(NOON)
    assert first is not None
    queue.refused(replace(first, attempts=1, next_try=NOON))
    second = queue.take(NOON)
    assert second is not None
    assert second.key == "b@slack"


def test_what_steps_aside_holds_its_thread_up_no_more() -> None:
    queue = _queue(("a", 1), ("b", 1))
    first = queue.take(NOON)
    assert first is not None
    queue.step_aside(replace(first, attempts=1, next_try=NOON + 60))
    second = queue.take(NOON)
    assert second is not None
    assert second.key == "b@slack"
    assert len(queue) == 2


def test_one_that_waits_in_the_middle_can_leave() -> None:
    queue = _queue(("a", 1), ("b", 1), ("c", 1))
    middle = next(each for each in queue if each.key == "b@slack")
    queue.done(middle)
    keys = []
    while (taken := queue.take(NOON)) is not None:
        keys.append(taken.key)
        queue.done(taken)
    assert keys == ["a@slack", "c@slack"]


def test_those_that_are_too_old_are_found_and_the_oldest_stays_known() -> None:
    queue = Queue()
    queue.add(letter(1, name="old", now=NOON - 100))
    queue.add(letter(2, name="new", now=NOON))
    assert queue.oldest == NOON - 100
    assert [each.key for each in queue.created_before(NOON - 50)] == ["old@slack"]
    queue.done(letter(1, name="old", now=NOON - 100))
    assert queue.oldest == NOON
    queue.done(letter(2, name="new"))
    assert queue.oldest == float("inf")
