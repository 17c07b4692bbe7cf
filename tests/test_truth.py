"""The benchmark of truth tells its lives, and what log_staleness makes of some of them."""

from __future__ import annotations

import pytest

from benchmarks.truth.forms import all_forms
from benchmarks.truth.lives import Told, tell
from benchmarks.truth.story import FORMS, Phase


def told(name: str) -> Told:
    all_forms()
    return tell(FORMS.known[name])


def test_every_form_says_where_it_was_seen_and_what_goes_on_to_write() -> None:
    for form in all_forms():
        assert form.source
        assert form.chatter
        assert form.chatter_every > 0


@pytest.mark.parametrize("name", ["openfoam-pimple", "optuna", "wenet"])
def test_a_healthy_life_has_no_alarm_and_every_hang_is_reported(name: str) -> None:
    life = told(name)
    assert not life.false_alarms
    assert {fault.kind for fault in life.faults} >= {"silence", "chatter"}
    assert all(fault.delay is not None for fault in life.faults), life.faults
    assert all(fault.delay < 1200.0 for fault in life.faults if fault.phase is Phase.TRAIN and fault.delay)
