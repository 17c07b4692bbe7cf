"""The Guard in the training frameworks: one line in each, and the framework is imported with its own only.

from watchdogd.integrations import LightningGuard
trainer = lightning.Trainer(callbacks=[LightningGuard("run-17", "run-17.ckpt")])
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from watchdogd.integrations.accelerate_guard import AccelerateGuard
    from watchdogd.integrations.composer_guard import ComposerGuard
    from watchdogd.integrations.deepspeed_guard import DeepSpeedGuard
    from watchdogd.integrations.lightning_guard import LightningGuard
    from watchdogd.integrations.trainer_guard import TrainerGuard

__all__ = ["AccelerateGuard", "ComposerGuard", "DeepSpeedGuard", "LightningGuard", "TrainerGuard"]

_FRAMEWORKS = {"composer": "mosaicml", "lightning": "lightning", "transformers": "transformers"}
"""What is imported with a Guard, and the package that has it."""


def __getattr__(name: str) -> Any:
    """Return one of them. ImportError, with the command that helps, where its framework is missing."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}: it has {', '.join(__all__)}")
    try:
        module = importlib.import_module(f"{__name__}.{name.removesuffix('Guard').lower()}_guard")
    except ModuleNotFoundError as error:
        package = _FRAMEWORKS.get((error.name or "").partition(".")[0])
        if package is None:
            raise
        raise ImportError(
            f"{name} needs {error.name}, which is not installed: pip install {package}"
        ) from None
    return getattr(module, name)


def __dir__() -> list[str]:
    return __all__
