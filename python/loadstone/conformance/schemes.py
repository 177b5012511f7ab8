# SPDX-License-Identifier: Apache-2.0
"""The cases in the form that a back end's own quantization scheme gives them.

In:   a Graph with any scales and zero points; a back end.
Out:  the same network with scales that are powers of two, without zero points, or with one scale
      for each layer's weights.
Next: check.py compares it on the device.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields, replace

import numpy as np

from loadstone import graph as g
from loadstone.backend.interface import Backend
from loadstone.numerics import Rounding

_SIDES = ("inputs", "outputs")

__all__ = ["in_scheme", "per_layer", "powers_of_two", "rounded_as_onnx", "symmetric"]


def in_scheme(graph: g.Graph, backend: Backend, number: int) -> g.Graph:
    """Case `number` as the back end's scheme has it: powers of two in every case where it only
    shifts, else in every fourth; no zero points, and the rounding of ONNX, in nine of ten cases of
    a symmetric one, which one of powers of two is; where weights have one scale for a layer, in as
    many."""
    usual = number % 10 != 9
    if backend.scheme in ("symmetric", "pow2") and usual:
        graph = symmetric(graph)
    if not backend.per_channel and usual:
        graph = per_layer(graph)
    if backend.scheme == "pow2" or number % 4 == 3:
        graph = powers_of_two(graph)
    return graph


def powers_of_two(graph: g.Graph) -> g.Graph:
    """The same network with the nearest power of two for every scale: all that a device can do that
    only shifts."""

    def rounded(levels: g.Quantization) -> g.Quantization:
        return g.Quantization(2.0 ** round(math.log2(levels.scale)), levels.zero_point)

    def weights(operator: g.Operator) -> g.Fields:
        if not isinstance(operator, g.Weighted):
            return {}
        scales = np.exp2(np.rint(np.log2(operator.weight_scales)))
        return {"weight_scales": scales.astype(np.float32)}

    return _mapped(graph, rounded, weights)


def symmetric(graph: g.Graph) -> g.Graph:
    """The same network without zero points, in the arithmetic of an ONNX model (rounding FLOAT32):
    what `loadstone quantize --scheme symmetric` makes."""

    def around_zero(levels: g.Quantization) -> g.Quantization:
        return g.Quantization(levels.scale, 0)

    def rest(operator: g.Operator) -> g.Fields:
        changed = _onnx_rounding(operator)
        if hasattr(operator, "low"):  # no clamp, or a ReLU
            changed["low"] = -128 if operator.low == -128 else 0
        return changed

    return _mapped(graph, around_zero, rest)


def rounded_as_onnx(graph: g.Graph) -> g.Graph:
    """The same network in the arithmetic of an ONNX model."""
    return _mapped(graph, lambda levels: levels, _onnx_rounding)


def _onnx_rounding(operator: g.Operator) -> g.Fields:
    """Of a softmax there is one rounding."""
    names = {field.name for field in fields(operator)}
    if "rounding" not in names or isinstance(operator, g.Softmax):
        return {}
    return {"rounding": Rounding.FLOAT32}


def per_layer(graph: g.Graph) -> g.Graph:
    """The same network, the weights of each layer with the mean of their channels' scales."""

    def rest(operator: g.Operator) -> g.Fields:
        if not isinstance(operator, g.Weighted):
            return {}
        scales = operator.weight_scales
        return {"weight_scales": np.full_like(scales, scales.mean())}

    return _mapped(graph, lambda levels: levels, rest)


def _mapped(
    graph: g.Graph,
    levels: Callable[[g.Quantization], g.Quantization],
    rest: Callable[[g.Operator], g.Fields],
) -> g.Graph:
    """The network with other scales and zero points. rest: the other fields that change."""

    def mapped(tensor: g.Tensor) -> g.Tensor:
        if tensor.quantization is None:
            return tensor
        return replace(tensor, quantization=levels(tensor.quantization))

    def operator_of(operator: g.Operator) -> g.Operator:
        sides: g.Fields = {side: tuple(map(mapped, getattr(operator, side))) for side in _SIDES}
        return replace(operator, **sides, **rest(operator))

    inputs, outputs = (tuple(map(mapped, side)) for side in (graph.inputs, graph.outputs))
    operators = tuple(map(operator_of, graph.operators))
    return replace(graph, inputs=inputs, outputs=outputs, operators=operators)
