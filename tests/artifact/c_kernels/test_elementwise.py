"""artifact/c_kernels/elementwise.py: sums and products that broadcast, softmax, argmax."""

from __future__ import annotations

from loadstone import graph as g
from loadstone.artifact.c_kernels import c_kernel
from loadstone.numerics import Rounding
from tests.artifact.c_kernels.operators import OTHER, check, one, tensor

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


def softmax(rounding: Rounding, depth: int) -> g.Operator:
    x, y = tensor("x", 2, depth), tensor("y", 2, depth, grid=PROBABILITY)
    return one(g.Softmax, (x,), y, rounding=rounding)


def test_softmax_and_argmax() -> None:
    index = tensor("y", 1, 4, 5, dtype="int64", grid=None)
    check(
        {
            "softmax": softmax(Rounding.FLOAT32, 19),
            "argmax": one(g.ArgMax, (tensor("x", 1, 3, 4, 5),), index, axis=1),
        }
    )


def test_a_softmax_too_long_for_the_fixed_point_of_tflite_stays_with_python() -> None:
    assert c_kernel(softmax(Rounding.DOUBLE, 5000)) is None
