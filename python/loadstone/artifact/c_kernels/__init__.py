# SPDX-License-Identifier: Apache-2.0
"""Operators of the graph as C, for the host: what the built-in operators of the C runtime do not
compute and no accelerator takes.

    body.py         statements under construction: operands, constants, requantization
    weighted.py     convolution, dense layer, product of two activations
    pooling.py      pools, mean
    reduction.py    sums and products over axes, L2 normalization
    elementwise.py  sums, products, quotients, softmax, layer normalization, index of
                    the largest
    movement.py     resizes

In:   an operator of the graph.
Out:  COperator; to the last bit what graph/reference.py computes. Softmax has an exp of its own,
      correct to the last place. Layer normalization's root may be one unit of a double off: what
      float32 makes of it differs beside a tie alone.
Next: `loadstone export` writes it for steps of function `loadstone.operator`.

Operands are the step's: inputs, the operator's arrays, outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from loadstone import graph as g
from loadstone.artifact.c_kernels.body import Body, operator_arrays
from loadstone.artifact.c_kernels.elementwise import (
    add,
    argmax,
    div,
    layer_norm,
    mul,
    softmax,
    squared_difference,
    sub,
)
from loadstone.artifact.c_kernels.movement import resize_bilinear, resize_nearest
from loadstone.artifact.c_kernels.pooling import average_pool2d, max_pool2d, mean
from loadstone.artifact.c_kernels.reduction import l2_normalize, reduce_product, reduce_sum
from loadstone.artifact.c_kernels.weighted import batch_matmul, conv2d, dense
from loadstone.artifact.c_text import COperator
from loadstone.errors import UnsupportedError

__all__ = ["c_kernel", "operator_arrays"]

_WRITERS: Mapping[type[g.Operator], Callable[[Any, Body], None]] = {
    g.Add: add,
    g.ArgMax: argmax,
    g.AveragePool2D: average_pool2d,
    g.BatchMatMul: batch_matmul,
    g.Conv2D: conv2d,
    g.Dense: dense,
    g.Div: div,
    g.L2Normalize: l2_normalize,
    g.LayerNorm: layer_norm,
    g.MaxPool2D: max_pool2d,
    g.Mean: mean,
    g.Mul: mul,
    g.ReduceProduct: reduce_product,
    g.ReduceSum: reduce_sum,
    g.ResizeBilinear: resize_bilinear,
    g.ResizeNearest: resize_nearest,
    g.Softmax: softmax,
    g.SquaredDifference: squared_difference,
    g.Sub: sub,
}


def c_kernel(operator: g.Operator) -> COperator | None:
    """The operator as C; None for one that has no kernel here."""
    writer = _WRITERS.get(type(operator))
    if writer is None:
        return None
    body = Body(operator)
    try:
        writer(operator, body)
    except UnsupportedError:
        return None
    return body.finished()
