"""What the daemon decides by itself: how long it goes on where home is gone."""

from watchdogd.engine.daemon import GONE, Absence


def test_a_home_that_is_gone_may_come_back_for_a_while() -> None:
    absence = Absence()
    assert absence.bearable(1000.0)
    assert absence.bearable(1000.0 + GONE - 1)
    assert not absence.bearable(1000.0 + GONE)
