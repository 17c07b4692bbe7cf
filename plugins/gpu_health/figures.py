"""Figures of several GPUs (utilisation, power, temperature, memory): for history, and in words. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from watchdogd.parsers.gpu.models import Gpu
from watchdogd.plugin import Metric
from watchdogd.plugins.gpu_health.activity import NamedGpu
from watchdogd.plugins.gpu_health.faults import GpuLimits


def _measured(gpus: Sequence[Gpu]) -> Iterator[tuple[str, str, list[float]]]:
    """Yield name, unit and values of each figure that GPUs report."""
    well = [gpu for gpu in gpus if not gpu.trouble]  # values of GPUs in trouble mean nothing
    cells = (
        ("utilisation", "%", [gpu.utilisation for gpu in well]),
        ("power", "W", [gpu.power_w for gpu in well]),
        ("temperature", "C", [gpu.temperature_c for gpu in well]),
        ("vram", "%", [gpu.vram for gpu in well]),
    )
    for name, unit, values in cells:
        known = [value for value in values if value is not None]
        if known:
            yield name, unit, known


def metrics_of(gpus: Sequence[Gpu], limits: GpuLimits) -> dict[str, Metric]:
    """Return the mean of each figure, or the maximum of those that are judged by their worst GPU."""
    thresholds = {
        "utilisation": (None, None),
        "power": (limits.power_warn, limits.power_crit),
        "temperature": (limits.temperature_warn, limits.temperature_crit),
        "vram": (limits.vram_warn, limits.vram_crit),
    }
    found = {}
    for name, unit, known in _measured(gpus):
        warn, crit = thresholds[name]
        worst = name in ("temperature", "vram") or warn is not None or crit is not None
        found[name] = Metric(round(max(known) if worst else sum(known) / len(known), 1), unit, warn, crit)
    return found


def spreads(gpus: Sequence[Gpu]) -> Iterator[str]:
    """Return each figure in words: `power 71 to 650 W`."""
    for name, unit, known in _measured(gpus):
        low, high = min(known), max(known)
        spread = f"{low:.0f} to {high:.0f}" if high - low >= 1 else f"{sum(known) / len(known):.0f}"
        yield f"{name} {spread} {'°C' if unit == 'C' else unit}"


def describe_gpu(each: NamedGpu) -> str:
    """Return one GPU in words, as evidence: `100 % 124 W 41 °C memory 74 % GPU-...`."""
    gpu = each.gpu
    cells = (
        f"{gpu.utilisation:.0f} %" if gpu.utilisation is not None else "",
        f"{gpu.power_w:.0f} W" if gpu.power_w is not None else "",
        f"{gpu.temperature_c:.0f} °C" if gpu.temperature_c is not None else "",
        f"memory {gpu.vram:.0f} %" if gpu.vram is not None else "",
        gpu.uuid,
        gpu.trouble,
    )
    return " ".join(cell for cell in cells if cell)


def gpus_cell(metrics: Mapping[str, Metric]) -> str:
    """Return the cell for `status` and the page from the metrics of all GPUs: `8: 97 % 412 W`."""
    units = {"utilisation": "%", "power": "W"}
    figures = [f"{metrics[name].value:.0f} {unit}" for name, unit in units.items() if name in metrics]
    return f"{metrics['gpus'].value:.0f}: {' '.join(figures)}"
