"""Python stacks of one process at one moment, as py-spy or faulthandler report them."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass

_LIBRARY = re.compile(r"(?:^|/)(?:site-packages|dist-packages|lib/python3[^/]*)/")
_PACKAGES = frozenset(
    {
        "accelerate",
        "apex",
        "datasets",
        "deepspeed",
        "flax",
        "horovod",
        "jax",
        "jaxlib",
        "lightning",
        "megatron",
        "mpi4py",
        "numpy",
        "pytorch_lightning",
        "ray",
        "sglang",
        "tensorflow",
        "torch",
        "tqdm",
        "transformers",
        "vllm",
        "wandb",
        "watchdogd",
        "zmq",
    }
)
"""First folders of short file names that belong to libraries, for when the full path is not known."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame. `file` is the short name (`torch/cuda/__init__.py`) or a library, `path` the full one.

    `path` is empty, and `line` None, if not known; native frames never have a line.
    """

    function: str
    file: str = ""
    line: int | None = None
    path: str = ""

    @property
    def native(self) -> bool:
        """True for a frame of C or C++, which only --native shows."""
        return self.line is None

    @property
    def library(self) -> bool:
        if self.native or self.file.startswith("<"):
            return True
        if "/" in self.path:
            return bool(_LIBRARY.search(self.path))
        first = re.split(r"[/.]", self.file, maxsplit=1)[0]
        return first in sys.stdlib_module_names or ("/" in self.file and first in _PACKAGES)

    def __str__(self) -> str:
        """Return `next_batch (loader.py:88)`."""
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{self.function} ({place})" if place else self.function


@dataclass(frozen=True, slots=True)
class Thread:
    """One thread, innermost frame first.

    `id` is written as by the tool; `os_id` is the kernel's thread id, None if not known.
    """

    id: str = ""
    os_id: int | None = None
    name: str = ""
    frames: tuple[Frame, ...] = ()


@dataclass(frozen=True, slots=True)
class StackDump:
    """Threads of one process; `pid` is None if the text does not give it."""

    pid: int | None = None
    threads: tuple[Thread, ...] = ()

    @property
    def main(self) -> Thread | None:
        """The main thread: by its name, else by its id, else the first that has frames."""
        named = [thread for thread in self.threads if thread.name == "MainThread"]
        numbered = [thread for thread in self.threads if self.pid and thread.os_id == self.pid]
        framed = [thread for thread in self.threads if thread.frames]
        return next(iter(named or numbered or framed), None)


@dataclass(frozen=True, slots=True)
class LoopLooks:
    """Places of a rank's loop in several looks, and how often, over so many steps of `step_seconds` each.

    `synchronous`: who waits for other ranks stands in that call, and does not queue up work for a GPU.
    """

    steps: int
    step_seconds: float
    places: tuple[tuple[int, tuple[Frame, ...]], ...]
    synchronous: bool = False

    @property
    def number(self) -> int:
        """Return how many looks there were."""
        return sum(times for times, _ in self.places)


@dataclass(frozen=True, slots=True)
class StackTrouble:
    """Reason for a missing stack: `kind` in one word, `line` as the tool printed it, `advice` what to do."""

    kind: str
    line: str
    advice: str = ""

    def __str__(self) -> str:
        """Return it in one line."""
        return f"{self.line}: {self.advice}" if self.advice else self.line
