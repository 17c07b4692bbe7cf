"""How often Python looks for values that hold each other, where many are kept from round to round."""

from __future__ import annotations

import gc

SEVERAL = 100_000
"""New values that live, before the youngest are looked through: a round of a thousand checks leaves so many,
and none of them holds another in a circle. By Python's own measure, 700, that took a third of the round."""


def sweep_seldom() -> None:
    """Look through new values seldom, and never again through those that are here by now."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(SEVERAL)
