"""The Guards of frameworks without the frameworks; with them: tests/test_examples.py."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from watchdogd import integrations
from watchdogd.integrations import AccelerateGuard, DeepSpeedGuard, guarded_loop
from watchdogd.integrations.guarded_loop import GuardedLoop
from watchdogd.training import Guard


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home, of whose Guards there is one rank."""
    (tmp_path / "switches").mkdir()
    monkeypatch.setenv("WATCHDOGD_HOME", str(tmp_path))
    monkeypatch.setattr(guarded_loop, "torch_agree", lambda: lambda code: code)
    return tmp_path


@pytest.fixture
def guard(home: Path) -> Iterator[Guard]:
    guard = Guard("run-17", every=0.0)
    yield guard
    guard.close()


def press(home: Path, kind: str) -> Path:
    switch = home / "switches" / f"run-17.{kind}"
    switch.touch()
    return switch


@pytest.mark.parametrize(
    ("name", "package"),
    [("LightningGuard", "lightning"), ("TrainerGuard", "transformers"), ("ComposerGuard", "mosaicml")],
)
def test_a_framework_that_is_missing_is_named_with_what_brings_it(
    name: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for framework in ("lightning", "pytorch_lightning", "transformers", "composer"):
        monkeypatch.setitem(sys.modules, framework, None)  # as if it were not installed
    with pytest.raises(ImportError, match=f"{name} needs .*: pip install {package}"):
        getattr(integrations, name)


def test_a_name_that_there_is_none_of_is_told_with_those_that_there_are() -> None:
    with pytest.raises(AttributeError, match="no attribute 'KerasGuard': it has AccelerateGuard, "):
        integrations.KerasGuard  # noqa: B018
    assert dir(integrations) == integrations.__all__


def test_the_ranks_agree_as_often_as_is_wished_and_a_stop_is_told_once(
    home: Path, guard: Guard, capsys: pytest.CaptureFixture[str]
) -> None:
    loop = GuardedLoop(guard, agree_every=3)
    loop.begin(0)
    press(home, "kill")
    stops = [loop.step(step, 0.5, lambda: None) for step in range(1, 10)]
    assert stops == [False, False, True] + 6 * [False]
    assert capsys.readouterr().out == "watchdogd: run-17, step 3: kill switch set\n"
    with pytest.raises(ValueError, match="agree_every = 0"):
        GuardedLoop(guard, agree_every=0)


def test_nothing_is_saved_in_the_midst_of_an_accumulation(home: Path, guard: Guard) -> None:
    saved: list[str | None] = []
    accelerator = SimpleNamespace(process_index=0, sync_gradients=False, save_state=saved.append)
    accelerate = AccelerateGuard(guard, accelerator, "kept/{step}")
    engine = SimpleNamespace(global_rank=0, global_steps=7, save_checkpoint=saved.append)
    deepspeed = DeepSpeedGuard(guard, engine, "kept")
    switch = press(home, "save")
    assert not accelerate.step(4)
    assert not deepspeed.step(0.5)
    assert saved == []
    accelerator.sync_gradients, engine.global_steps = True, 8
    assert not accelerate.step(4)
    assert (saved, switch.exists()) == (["kept/4"], False)
    press(home, "kill")
    assert deepspeed.step({"loss": 0.5})
    assert saved == ["kept/4", "kept"]
