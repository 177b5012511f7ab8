# SPDX-License-Identifier: Apache-2.0
"""Cases of operators for which only TFLite has an integer rule: quotients, squares, sums, products
over axes, L2 normalization, products of activations; and layer normalization.

In:   a random generator.
Out:  one function for each kind, which returns a Graph.
Next: conformance/cases.py has them in its table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from loadstone import graph as g
from loadstone.conformance.draw import Rng, grid, image, one, pick
from loadstone.numerics import Rounding

__all__ = ["REDUCTION_CASES"]


def _times(quantization: g.Quantization, factor: float, rng: Rng) -> g.Quantization:
    return g.Quantization(float(np.float32(quantization.scale * factor)), grid(rng).zero_point)


def _grid(tensor: g.Tensor) -> g.Quantization:
    assert tensor.quantization is not None
    return tensor.quantization


def _two(kind: type[g.Elementwise], rng: Rng) -> g.Graph:
    a = image(rng, "a")
    b = g.Tensor("b", a.shape, "int8", grid(rng))
    scale = a.scale / b.scale / 3 if kind is g.Div else max(a.scale, b.scale) ** 2 * 100
    y = g.Tensor("y", a.shape, "int8", g.Quantization(float(np.float32(scale)), 3))
    return one(
        kind(name="y", inputs=(a, b), outputs=(y,), low=-128, high=127, rounding=Rounding.DOUBLE)
    )


def _div(rng: Rng) -> g.Graph:
    return _two(g.Div, rng)


def _squared_difference(rng: Rng) -> g.Graph:
    return _two(g.SquaredDifference, rng)


def _reduce_sum(rng: Rng) -> g.Graph:
    x = image(rng)
    y = g.Tensor("y", (1, 1, 1, x.shape[3]), "int8", _times(_grid(x), x.shape[1] * 2, rng))
    return one(g.ReduceSum(name="y", inputs=(x,), outputs=(y,), axes=(1, 2)))


def _reduce_product(rng: Rng) -> g.Graph:
    x = g.Tensor("x", (1, 2, int(pick(rng, (8, 16))), 16), "int8", grid(rng))
    y = g.Tensor("y", (1, 1, *x.shape[2:]), "int8", _times(_grid(x), 60 * x.scale, rng))
    return one(g.ReduceProduct(name="y", inputs=(x,), outputs=(y,), axes=(1,)))


def _l2_normalize(rng: Rng) -> g.Graph:
    x = g.Tensor("x", (1, int(pick(rng, (4, 8, 16)))), "int8", grid(rng))
    y = g.Tensor("y", x.shape, "int8", g.Quantization(1 / 128, 0))
    return one(g.L2Normalize(name="y", inputs=(x,), outputs=(y,)))


def _layer_norm(rng: Rng) -> g.Graph:
    x = g.Tensor("x", (1, int(pick(rng, (3, 8))), int(pick(rng, (8, 16, 40)))), "int8", grid(rng))
    y = g.Tensor("y", x.shape, "int8", g.Quantization(1 / 32, grid(rng).zero_point))
    gamma, beta = (rng.normal(mean, 0.3, x.shape[-1]).astype(np.float32) for mean in (1, 0))
    return one(
        g.LayerNorm(name="y", inputs=(x,), outputs=(y,), gamma=gamma, beta=beta, epsilon=1e-5)
    )


def _batch_matmul(rng: Rng) -> g.Graph:
    """turned: most of the time, as the front ends write it."""
    rows, depth, columns = (int(pick(rng, (3, 8, 16, 20, 40))) for _ in range(3))
    leading = ((1,), (2,), (1, 3), (2, 2))[int(rng.integers(4))]
    turned = int(rng.integers(4)) > 0
    rounding = Rounding.FLOAT32 if int(rng.integers(2)) else Rounding.DOUBLE
    last = (columns, depth) if turned else (depth, columns)
    a = g.Tensor("a", (*leading, rows, depth), "int8", grid(rng))
    b = g.Tensor("b", (*leading, *last), "int8", grid(rng))
    scale = _times(_grid(a), b.scale * 75 * depth**0.5, rng)
    y = g.Tensor("y", (*leading, rows, columns), "int8", scale)
    return one(
        g.BatchMatMul(name="y", inputs=(a, b), outputs=(y,), turned=turned, rounding=rounding)
    )


#: Kind -> what makes a case of it.
REDUCTION_CASES: Mapping[str, Callable[[Rng], g.Graph]] = {
    "div": _div,
    "squared_difference": _squared_difference,
    "reduce_sum": _reduce_sum,
    "reduce_product": _reduce_product,
    "l2_normalize": _l2_normalize,
    "layer_norm": _layer_norm,
    "batch_matmul": _batch_matmul,
}
