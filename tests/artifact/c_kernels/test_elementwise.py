# SPDX-License-Identifier: Apache-2.0
"""artifact/c_kernels/elementwise.py: sums and products that broadcast, softmax, argmax."""

from __future__ import annotations

import numpy as np

from loadstone import graph as g
from loadstone.artifact.c_kernels import c_kernel
from loadstone.numerics import Rounding
from tests.artifact.c_kernels.operators import GRID, OTHER, check, one, tensor

PROBABILITY = g.Quantization(1 / 256, -128)


def pair(kind: type[g.Elementwise], rounding: Rounding, *second: int) -> g.Operator:
    inputs = (tensor("a", 1, 3, 4, 5), tensor("b", *second, grid=OTHER))
    output = tensor("y", 1, 3, 4, 5, grid=g.Quantization(0.125, 3))
    return one(kind, inputs, output, low=-120, high=125, rounding=rounding)


def test_sums_and_products() -> None:
    shapes = ((1, 3, 4, 5), (1, 1, 1, 5), (1, 3, 1, 1))
    check(
        {
            f"{kind.kind} {rounding.name} {shape}": pair(kind, rounding, *shape)
            for kind in (g.Add, g.Sub, g.Mul)
            for rounding in (Rounding.DOUBLE, Rounding.FLOAT32)
            for shape in shapes
        }
    )


def tflite(
    kind: type[g.Elementwise], *grids: g.Quantization, second: tuple[int, ...]
) -> g.Operator:
    inputs = (tensor("a", 1, 8, 8, 5, grid=grids[0]), tensor("b", *second, grid=grids[1]))
    y = tensor("y", 1, 8, 8, 5, grid=grids[2])
    return one(kind, inputs, y, low=-120, high=125, rounding=Rounding.DOUBLE)


def test_quotients_and_squared_differences() -> None:
    """Large scales move a quotient by more than 31 bits; divisors of zero are among them."""
    grids = [(GRID, OTHER, g.Quantization(scale, 3)) for scale in (0.125, 2**-7, 500.0, 2.0**31)]
    grids += [(OTHER, GRID, g.Quantization(0.5, -128))]
    operators: dict[str, g.Operator] = {}
    for k, (a, b, y) in enumerate(grids):
        for second in ((1, 8, 8, 5), (1, 1, 1, 5)):
            operators[f"quotient {k} {second}"] = tflite(g.Div, a, b, y, second=second)
            if y.scale < 100:
                made = tflite(g.SquaredDifference, a, b, y, second=second)
                operators[f"difference {k} {second}"] = made
    check(operators)


def softmax(rounding: Rounding, depth: int) -> g.Operator:
    x, y = tensor("x", 2, depth), tensor("y", 2, depth, grid=PROBABILITY)
    return one(g.Softmax, (x,), y, rounding=rounding)


def test_softmax_and_argmax() -> None:
    index = tensor("y", 1, 4, 5, dtype="int64", grid=None)
    check(
        {
            "softmax": softmax(Rounding.FLOAT32, 19),
            "softmax of a long row": softmax(Rounding.FLOAT32, 65),
            "argmax": one(g.ArgMax, (tensor("x", 1, 3, 4, 5),), index, axis=1),
        }
    )


def test_layer_normalization() -> None:
    """Over one axis and two, of rows that are all one number."""
    rng = np.random.default_rng(5)
    operators: dict[str, g.Operator] = {}
    for shape, depth in (((3, 17), 17), ((2, 3, 4), 12), ((5, 1), 1), ((2, 700), 700)):
        gamma, beta = (rng.normal(mean, 0.5, depth).astype(np.float32) for mean in (1, 0))
        x, y = tensor("x", *shape), tensor("y", *shape, grid=g.Quantization(0.03125, 5))
        made = one(g.LayerNorm, (x,), y, gamma=gamma, beta=beta, epsilon=1e-5)
        operators[f"{shape} {depth}"] = made
    check(operators)


def test_a_softmax_too_long_for_the_fixed_point_of_tflite_stays_with_python() -> None:
    assert c_kernel(softmax(Rounding.DOUBLE, 5000)) is None
