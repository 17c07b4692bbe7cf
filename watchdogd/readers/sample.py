"""A sample of one node's GPUs, as the job's own probe leaves it in home: inbox/RUN.sample.HOST.PID.json.

One JSON object, replaced atomically, its date the file's time:

    {"kind": "sample", "run": "run-17", "job": "4711", "node": "node5",
     "gpus": {"list": [{"index": 3, "uuid": "GPU-...", "utilisation": 97.0, ...}], "absent": "",
              "complete": true, "trouble": ""}}

`job` is the raw id. A GPU has the fields of `Gpu`, those that are not known left out. Other keys beside
`gpus` (memory, disks) belong to other checks; unknown ones are passed over, so that old and new go together.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import Any

from watchdogd.errors import UnreadableError
from watchdogd.readers.gpu.gpu import Gpu, Readout
from watchdogd.readers.gpu.probe import Node
from watchdogd.system.number import needed, real
from watchdogd.system.smallfile import parse_json

_NAMES = {field.name: field.type for field in fields(Gpu)}
_TUPLES = frozenset({"throttled", "doubts"})


@dataclass(frozen=True, slots=True)
class Sample:
    """The GPUs of one node of one job."""

    run: str
    job: str
    node: Node


def dump(sample: Sample) -> str:
    """The file's text."""
    readout = sample.node.readout
    gpus = {
        "list": [_known(gpu) for gpu in readout.gpus],
        "absent": readout.absent,
        "complete": readout.complete,
        "trouble": sample.node.trouble,
    }
    document = {
        "kind": "sample",
        "run": sample.run,
        "job": sample.job,
        "node": sample.node.name,
        "gpus": gpus,
    }
    return json.dumps(document) + "\n"


def read(text: str) -> Sample | None:
    """The sample, or None where the file speaks of no GPUs. UnreadableError where it is no sample."""
    try:
        said = parse_json(text)
        gpus = said.get("gpus")
        if gpus is None:
            return None
        readout = Readout(
            tuple(_gpu(entry) for entry in gpus["list"]), str(gpus["absent"]), bool(gpus["complete"])
        )
        node = Node(str(said["node"]), readout, str(gpus["trouble"]))
        return Sample(str(said["run"]), str(said["job"]), node)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UnreadableError(f"no sample of a probe ({type(error).__name__}: {error})") from None


def _known(gpu: Gpu) -> dict[str, Any]:
    values = {name: getattr(gpu, name) for name in _NAMES}
    return {name: value for name, value in values.items() if value not in (None, "", ())}


def _gpu(entry: dict[str, Any]) -> Gpu:
    """ValueError where a value is of another kind than its field."""
    found: dict[str, Any] = {}
    for name, value in entry.items():
        if name in _TUPLES:
            found[name] = tuple(str(item) for item in value)
        elif name in _NAMES:
            found[name] = _typed(name, value)
    return Gpu(**found)


def _typed(name: str, value: Any) -> Any:
    wanted = str(_NAMES[name])
    kinds: dict[str, tuple[type, ...]] = {
        "str": (str,),
        "int": (int,),
        "bool": (bool,),
        "float": (int, float),
    }
    if not isinstance(value, kinds[wanted.partition(" ")[0]]) or (
        isinstance(value, bool) and "bool" not in wanted
    ):
        raise ValueError(f"{name}: {str(value)[:80]}")
    return needed(real(value)) if isinstance(value, float) else value
