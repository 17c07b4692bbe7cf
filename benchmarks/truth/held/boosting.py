"""Boosted trees and forests."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.truth.clock import Clock
from benchmarks.truth.story import Event, Life, Phase, form


@form(
    "caret",
    field="boosting",
    source="https://topepo.github.io/caret (trainControl(verboseIter = TRUE))",
    chatter=("Warning message:\nIn readRDS(con) : connection to node 3 timed out, trying again",),
    chatter_every=240.0,
)
def caret(life: Life) -> Iterator[Event]:
    """`+ Fold03.Rep2: eta=0.3, ...` begins and `- Fold03.Rep2: ...` ends a fit; no percent and no time."""
    clock = Clock()
    yield Phase.START
    yield "Loading required package: ggplot2\nLoading required package: lattice\n"
    yield from clock.wait(life.about(50))
    yield Phase.TRAIN
    for repeat in (1, 2, 3):
        for fold in range(1, 11):
            for eta in ("0.3", "0.4"):
                for depth in (2, 4, 6):
                    fit = f"Fold{fold:02}.Rep{repeat}: eta={eta}, max_depth={depth}, colsample_bytree=0.8, nrounds=150"
                    yield f"+ {fit} \n"
                    yield from clock.wait(life.about(30 + 14 * depth))
                    yield f"- {fit} \n"
    yield "Aggregating results\nSelecting tuning parameters\nFitting nrounds = 150, max_depth = 4, eta = 0.3 on full training set\n"
    yield Phase.AFTER
    yield from clock.wait(life.about(300))
    yield "    user   system  elapsed \n14412.101   91.221 15011.4\n"
