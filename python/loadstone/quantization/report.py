# SPDX-License-Identifier: Apache-2.0
"""The report of a quantization: the scales of each layer, and its cost in accuracy.

In:   Network, Plan, Calibration, Comparison, sensitivities.
Out:  a dictionary for JSON; a page of HTML with histograms.
Next: people; `loadstone quantize --report`.
"""

from __future__ import annotations

import html
import json
import math
from collections.abc import Sequence

import numpy as np

from loadstone.files import JsonObject
from loadstone.graph import Quantization
from loadstone.quantization.accuracy import (
    decibels_text,
    host_kind,
    host_text,
    outputs_text,
    warnings_of,
)
from loadstone.quantization.calibrate import Calibration
from loadstone.quantization.compare import Comparison, saturation
from loadstone.quantization.mixed import Sensitivities
from loadstone.quantization.network import Layer, Network, Role
from loadstone.quantization.plan import Plan
from loadstone.quantization.statistics import Histogram
from loadstone.quantization.wide_plan import WIDE_BITS, wide_grid, wide_groups
from loadstone.relax.compat import shape

__all__ = ["as_html", "as_json", "report"]

#: Bars of a histogram on the page.
BARS = 64


def report(
    network: Network,
    plan: Plan,
    calibration: Calibration,
    comparison: Comparison,
    sensitivities: Sensitivities | None = None,
    steps: Sequence[str] = (),
) -> JsonObject:
    """steps: the steps that were taken, in order, as sentences. Decibels without noise: None.
    silent: the outputs that are zero on all samples, where the noise is not known."""
    layers = [
        _layer(network, layer, plan, calibration, comparison, sensitivities)
        for layer in network.layers
    ]
    return {
        "scheme": plan.scheme.name,
        "method": plan.method,
        "samples": calibration.samples,
        "steps": list(steps),
        "output_sqnr_db": [_finite(value) for value in comparison.outputs],
        "silent_outputs": [k for k, v in enumerate(comparison.outputs) if _is_silent(v)],
        "sample_faults": [],
        "float_top1": comparison.float_top1,
        "top1": comparison.top1,
        "host": sorted(plan.host),
        "host_bits": plan.host_bits,
        "host_gain_db": None,
        "host_of": "",
        "host_cycles": sum(sensitivities.cycles[name] for name in plan.host)
        if sensitivities is not None
        else 0,
        "layers": [entry for entry in layers if entry is not None],
    }


def as_json(contents: JsonObject) -> str:
    """Indented; the same numbers as the page."""
    return json.dumps(contents, indent=2)


def _is_silent(value: float | None) -> bool:
    return value is not None and (math.isnan(value) or value == -math.inf)


def _finite(value: float | None) -> float | None:
    return round(value, 2) if value is not None and math.isfinite(value) else None


def _layer(
    network: Network,
    layer: Layer,
    plan: Plan,
    calibration: Calibration,
    comparison: Comparison,
    sensitivities: Sensitivities | None,
) -> JsonObject | None:
    if layer.output not in network.quantized:
        return None
    group = network.groups[layer.output]
    quantization, histogram, bits = plan.activations[group], calibration.histograms[group], 8
    if group in wide_groups(network, plan):
        quantization, bits = wide_grid(quantization), WIDE_BITS
    low, high = _bounds(quantization, bits)
    entry: JsonObject = {
        "name": layer.name,
        "kind": layer.kind.removeprefix("nn."),
        "shape": list(shape(layer.output) or ()),
        "macs": layer.macs if layer.role is Role.WEIGHTED else 0,
        "on_host": layer.name in plan.host or layer.role is Role.FLOAT,
        "bits": bits,
        "scale": quantization.scale,
        "zero_point": quantization.zero_point,
        "range": [low, high],
        "seen": [histogram.low, histogram.high],
        "saturation": saturation(histogram, plan.activations[group]),
        "sqnr_db": _finite(comparison.tensors.get(layer.output)),
        "silent": _is_silent(comparison.tensors.get(layer.output)),
        "histogram": _bars(histogram),
    }
    if layer.name in plan.weights:
        scales = plan.weights[layer.name]
        entry["weight_scales"] = [float(scales.min()), float(scales.max())]
    if sensitivities is not None and layer.name in sensitivities.layers:
        noise = sensitivities.layers[layer.name] + sensitivities.groups[group]
        entry["alone_sqnr_db"] = _finite(-10 * math.log10(noise)) if noise > 0 else None
        entry["host_cycles"] = sensitivities.cycles[layer.name]
    return entry


def _bounds(quantization: Quantization, bits: int) -> tuple[float, float]:
    end = 1 << (bits - 1)
    low, high = (
        (limit - quantization.zero_point) * quantization.scale for limit in (-end, end - 1)
    )
    return low, high


def _bars(histogram: Histogram) -> JsonObject:
    """The distribution between its extremes; zeros are left out."""
    if histogram.width == 0:
        return {"low": 0.0, "high": 0.0, "counts": []}
    counts, edges = np.histogram(
        histogram.centres, BARS, (histogram.low, histogram.high), weights=histogram.counts
    )
    return {
        "low": float(edges[0]),
        "high": float(edges[-1]),
        "counts": [int(count) for count in counts],
    }


# --------------------------------------------------------------------------------------------------
# The page
# --------------------------------------------------------------------------------------------------

_STYLE = """
body { font: 14px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 88em; padding: 0 1em }
body { color: #222; background: #fff }
table { border-collapse: collapse; width: 100% }
th, td { text-align: right; padding: .25em .5em; white-space: nowrap }
th, td { border-bottom: 1px solid #ddd }
th { position: sticky; top: 0; background: #fff }
th:first-child, td:first-child, td.kind, th.kind { text-align: left }
td:first-child { max-width: 15em; overflow: hidden; text-overflow: ellipsis }
.bad { color: #b00020; font-weight: 600 } .host { color: #777 } svg { vertical-align: middle }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0 1.5em }
dt { color: #555 } dd { margin: 0 }
@media (prefers-color-scheme: dark) {
  body, th { background: #181818; color: #ddd } th, td { border-color: #444 } dt { color: #aaa }
}
"""
#: A layer is marked when it falls below this, in decibels, or saturates more often than this.
_MARK_DB, _MARK_SATURATION = 20.0, 1e-3


def as_html(contents: JsonObject, title: str) -> str:
    """One page, without scripts or other files."""
    facts = {
        "scheme, method": f"{contents['scheme']}, {contents['method']}",
        "samples": contents["samples"],
        "what was done": "; ".join(contents["steps"]) or "nothing but rounding",
        "signal to noise of the outputs": outputs_text(contents),
    }
    if warnings := warnings_of(contents):
        facts["warnings"] = "; ".join(warnings)
    if contents["top1"] is not None:
        facts["top-1"] = f"{contents['float_top1']:.2%} in float, {contents['top1']:.2%} quantized"
    if contents["host"]:
        facts["left on the host"] = f"{host_kind(contents)}: {host_text(contents)}"
    for entry in contents.get("weight_errors", ()):
        beside = f", {entry['int8']:.3%} in int8" if "int8" in entry else ""
        facts[f"weights of {entry['name']}, relative error"] = f"{entry['error']:.3%}{beside}"
    rows = "\n".join(_row(entry) for entry in contents["layers"])
    listed = "".join(
        f"<dt>{html.escape(key)}</dt><dd>{html.escape(str(value))}</dd>"
        for key, value in facts.items()
    )
    return (
        '<!doctype html><html lang="en"><meta '
        f'charset="utf-8"><title>{html.escape(title)}</title><style>{_STYLE}</style>\n'
        f"<h1>{html.escape(title)}</h1>\n<dl>{listed}</dl>\n<table>\n<tr><th>tensor<th "
        "class=kind>operator<th class=kind>values"
        "<th>signal to noise<th>alone<th>range<th>seen<th>saturated<th>scale<th>zero</tr>\n"
        f"{rows}\n</table>\n<p>Signal to noise: of this tensor against the float network, "
        "all quantized before it. Alone: of the outputs, "
        "when only this layer is quantized. Values: how often each occurs, on a scale of "
        "square roots, "
        "zeros left out; the lines are the range of int8. Tensors that share a scale share "
        "range and histogram.</p></html>\n"
    )


def _row(entry: JsonObject) -> str:
    name = html.escape(entry["name"])
    sqnr, share = entry["sqnr_db"], entry["saturation"]
    weak = " class=bad" if sqnr is not None and sqnr < _MARK_DB else ""
    full = " class=bad" if share > _MARK_SATURATION else ""
    alone = decibels_text(entry["alone_sqnr_db"]) if "alone_sqnr_db" in entry else ""
    ratio = "zero on all samples" if entry["silent"] else decibels_text(sqnr)
    cells = [
        f'<td title="{name}"{" class=host" if entry["on_host"] else ""}>{name}',
        f"<td class=kind>{html.escape(entry['kind'])}{' (host)' if entry['on_host'] else ''}",
        f"<td>{_svg(entry)}",
        f"<td{weak}>{ratio}<td>{alone}",
        *(f"<td>{low:.4g} ... {high:.4g}" for low, high in (entry["range"], entry["seen"])),
        f"<td{full}>{share:.2%}<td>{entry['scale']:.4g}<td>{entry['zero_point']}",
    ]
    return f"<tr>{''.join(cells)}</tr>"


def _svg(entry: JsonObject) -> str:
    """Bars on a square-root scale, so that tails are visible; two lines at the ends of int8."""
    bars, (low, high) = entry["histogram"], entry["range"]
    if not bars["counts"]:
        return ""
    width, height = 3 * BARS, 28
    peak = math.sqrt(max(bars["counts"])) or 1
    begin, end = min(bars["low"], low), max(bars["high"], high)

    def x(value: float) -> float:
        return float(round((value - begin) / (end - begin) * width, 1))

    step = (bars["high"] - bars["low"]) / len(bars["counts"])
    path = "".join(
        f"M{x(bars['low'] + (index + 0.5) * step)} "
        f"{height}V{round(height * (1 - math.sqrt(count) / peak), 1)}"
        for index, count in enumerate(bars["counts"])
        if count
    )
    lines = "".join(f'<path d="M{x(value)} 0V{height}" stroke="#b00020"/>' for value in (low, high))
    return (
        f'<svg width="{width}" height="{height}" role="img"><path d="{path}" '
        f'stroke="#4a78b8" stroke-width="2.2"/>{lines}</svg>'
    )
