"""Several processes in one log."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.truth.clock import Clock
from benchmarks.truth.story import Event, Life, Phase, form


@form(
    "four-seeds",
    field="several runs in one job",
    source="https://www.gnu.org/software/parallel (--tag --line-buffer) in job scripts",
    chatter=("seed=11\tjax: 1 live buffer of 2.1 GB", "seed=23\tjax: 1 live buffer of 2.1 GB"),
    chatter_every=90.0,
    tells_loss=True,
)
def four_seeds(life: Life) -> Iterator[Event]:
    """Four independent trainings under tags, of which the fastest ends an hour before the slowest."""
    clock = Clock()
    seeds = {"seed=11": 5.6, "seed=23": 6.4, "seed=31": 6.8, "seed=47": 7.7}
    yield Phase.START
    for tag in seeds:
        yield f"{tag}\tloading shakespeare.bin\n"
    yield from clock.wait(life.about(60))
    yield Phase.TRAIN
    due = sorted((60 + step * pace, tag, step) for tag, pace in seeds.items() for step in range(20, 1601, 20))
    for at, tag, step in due:
        yield from clock.wait(max(at + life.random.uniform(-3, 3) - clock.passed, 0.01))
        yield f"{tag}\tstep {step:5}/1600  nll {life.loss(step / 1600, 4.2, 1.3):.4f}  lr 3.0e-04  {life.about(1.2):.2f} it/s\n"
        if step % 400 == 0:
            yield f"{tag}\teval nll {life.loss(step / 1600, 4.3, 1.4):.4f}, best so far\n"
        if step == 1600:
            yield f"{tag}\tdone\n"
    yield Phase.AFTER
    yield "collecting\n"
    yield from clock.wait(life.about(100))


@form(
    "flower-rounds",
    field="federated learning",
    source="https://github.com/flwrlabs/flower/issues/999 and /pull/996",
    chatter=(
        "(ClientAppActor pid=9911) WARNING flower 2026-02-03 {clock},311 | connection.py:68 | gRPC keepalive ping, {seconds} s idle",
    ),
    chatter_every=60.0,
)
def flower(life: Life) -> Iterator[Event]:
    """Rounds of sampled clients of two minutes, each client in its own words under its actor; some fail and are passed over."""
    clock = Clock()

    def line(level: str, place: str, text: str) -> str:
        return f"{level} flower {clock()},{life.random.randint(100, 999)} | {place} | {text}\n"

    yield Phase.START
    yield line("INFO", "app.py:77", "Flower server running (insecure, 70 rounds)")
    yield from clock.wait(life.about(50))
    yield Phase.PREPARE
    yield line("INFO", "server.py:304", "Requesting initial parameters from one random client")
    yield from clock.wait(life.about(70))
    yield line("INFO", "server.py:133", "FL starting")
    for number in range(1, 71):
        yield Phase.TRAIN
        yield line("DEBUG", "server.py:251", "fit_round: strategy sampled 10 clients (out of 100)")
        for client in range(10):
            yield from clock.wait(life.about(12, 0.4))
            yield f"(ClientAppActor pid={9900 + client % 4}) [Client {life.random.randrange(100)}] fit, config: {{'local_epochs': 2}} loss {life.about(2.3 / number**0.3, 0.2):.3f}\n"
        failed = life.random.choice((0, 0, 0, 1, 2))
        yield line(
            "DEBUG", "server.py:260", f"fit_round received {10 - failed} results and {failed} failures"
        )
        yield Phase.EVALUATE
        yield line("DEBUG", "server.py:201", "evaluate_round: strategy sampled 20 clients (out of 100)")
        yield from clock.wait(life.about(38))
        yield line(
            "INFO",
            "server.py:148",
            f"fit progress: ({number}, {2.3 / number**0.3:.6f}, {{'accuracy': {0.8 - 0.7 / number**0.5:.4f}}}, {clock.passed:.6f})",
        )
    yield Phase.AFTER
    yield line("INFO", "server.py:172", f"FL finished in {clock.passed:.3f}")
