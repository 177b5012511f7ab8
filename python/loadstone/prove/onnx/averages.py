# SPDX-License-Identifier: Apache-2.0
"""Averages of levels: integer sums, divided and rescaled in float32 at once.

In:   nodes; the OnnxGraph that they add to.
Out:  Pending values, of which `averages` makes requantizations.
Next: operators.py names them in its table, graph.py quantizes them.

The sum of levels less their zero point is exact, and is multiplied once by a float32 number, the
input's scale / (count * the output's scale): the arithmetic of ONNX Runtime's integer kernel
(QLinearGlobalAveragePool). Its kernels on real numbers round each addition, in an order of their
own; they give the same level but where the quotient is a tie but for their rounding, and there a
neighbour of it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from loadstone.prove.onnx.file import NodeRecord
from loadstone.prove.onnx.graph import OnnxGraph
from loadstone.prove.onnx.values import Pending, Value
from loadstone.prove.onnx.weighted import geometry

__all__ = ["average_pool", "global_average_pool", "reduce_mean"]


def average_pool(g: OnnxGraph, node: NodeRecord) -> Value:
    """AveragePool: of the taps inside, or of all of the window where padding counts."""
    x, scale = g.dequantized(node, 0)
    kernel = node.integers("kernel_shape", ())
    window, size = geometry(g, node, x.shape[2:], kernel)
    if window.pop("dilations") != (1, 1):
        raise g.refusal(node, "is dilated", "a plain window is understood")
    counts = _counts(x.shape[2:], size, kernel, window)
    if 0 in counts:
        raise g.refusal(node, "has a window of padding alone", "export it anew")
    padded = bool(node.integer("count_include_pad", 0))
    if padded:
        counts = dict.fromkeys(counts, int(np.prod(kernel)))
    said = {"kernel": kernel, "zero_point": scale.zero_point, "count_include_pad": padded}
    attributes = {**window, **said, "averages": counts}
    unit = np.array([scale.scale], np.float32)
    return Pending("average_pool", x.sources, (*x.shape[:2], *size), attributes, unit)


def _counts(
    inside: tuple[int, ...],
    size: tuple[int, ...],
    kernel: tuple[int, ...],
    window: Mapping[str, object],
) -> dict[int, int]:
    """Every number of taps that lie inside at some position, as what their sum is divided by."""
    strides, pads = window["strides"], window["pads"]
    assert isinstance(strides, tuple)
    assert isinstance(pads, tuple)
    along = []
    for axis in (0, 1):
        begin = np.arange(size[axis]) * strides[axis] - pads[axis]
        end = np.minimum(begin + kernel[axis], inside[axis])
        along.append(np.unique(np.maximum(end - np.maximum(begin, 0), 0)).tolist())
    return {rows * columns: rows * columns for rows in along[0] for columns in along[1]}


def global_average_pool(g: OnnxGraph, node: NodeRecord) -> Value:
    """GlobalAveragePool: the mean over rows and columns."""
    x, scale = g.dequantized(node, 0)
    if len(x.shape) != 4:
        raise g.refusal(node, f"pools {list(x.shape)}", "4 axes are understood")
    attributes = {"axes": (2, 3), "keep_dims": True, "count": int(np.prod(x.shape[2:]))}
    unit = np.array([scale.scale], np.float32)
    return Pending("global_average_pool", x.sources, (*x.shape[:2], 1, 1), attributes, unit)


def reduce_mean(g: OnnxGraph, node: NodeRecord) -> Value:
    """ReduceMean over any axes."""
    x, scale = g.dequantized(node, 0)
    rank = len(x.shape)
    stated = node.integers("axes", ()) or (g.integers(node, 1) if len(node.inputs) > 1 else ())
    axes = tuple(sorted({axis % rank for axis in stated})) or tuple(range(rank))
    keeps = bool(node.integer("keepdims", 1))
    shape = tuple(1 if k in axes else n for k, n in enumerate(x.shape) if keeps or k not in axes)
    count = int(np.prod([x.shape[axis] for axis in axes]))
    attributes = {"axes": axes, "keep_dims": keeps, "count": count}
    unit = np.array([scale.scale], np.float32)
    return Pending("mean", x.sources, shape, attributes, unit)
