# SPDX-License-Identifier: Apache-2.0
"""artifact/c_kernels/weighted.py: every rounding of convolution and dense layer; the
product of two activations."""

from __future__ import annotations

import numpy as np

from loadstone import graph as g
from loadstone.numerics import Rounding
from tests.artifact.c_kernels.operators import GRID, OTHER, RNG, check, one, tensor


def constants(outputs: int, *rest: int, zero_points: bool = False) -> dict[str, object]:
    return {
        "weights": RNG.integers(-127, 128, (outputs, *rest)).astype(np.int8),
        "weight_scales": RNG.uniform(0.002, 0.02, outputs).astype(np.float32),
        "weight_zero_points": RNG.integers(-9, 9, outputs).astype(np.int32) * zero_points,
        "bias": RNG.integers(-2000, 2000, outputs).astype(np.int32),
    }


def convolution(rounding: Rounding, groups: int = 1, zero_points: bool = False) -> g.Operator:
    return one(
        g.Conv2D,
        (tensor("x", 1, 7, 6, 4),),
        tensor("y", 1, 4, 5, 8, grid=OTHER),
        **constants(8, 3, 2, 4 // groups, zero_points=zero_points),
        strides=(2, 1),
        dilation=(1, 2),
        padding=(1, 0, 1, 1),
        groups=groups,
        low=-100,
        high=120,
        rounding=rounding,
    )


def layer(rounding: Rounding) -> g.Operator:
    return one(
        g.Dense,
        (tensor("x", 3, 20),),
        tensor("y", 3, 7, grid=OTHER),
        **constants(7, 20),
        low=-128,
        high=127,
        rounding=rounding,
    )


def test_every_rounding() -> None:
    kinds = {f"conv {r.name}": convolution(r) for r in Rounding}
    kinds |= {f"dense {r.name}": layer(r) for r in Rounding}
    kinds["groups"] = convolution(Rounding.DOUBLE, groups=2)
    kinds["depthwise"] = convolution(Rounding.FLOAT32, groups=4)
    kinds["zero points"] = convolution(Rounding.DOUBLE, zero_points=True)
    check(kinds)


def test_products_of_two_activations() -> None:
    """Leading axes of either side broadcast."""
    shapes = {
        "matrices": ((4, 5), (5, 3), (4, 3)),
        "heads": ((1, 2, 4, 5), (1, 2, 5, 3), (1, 2, 4, 3)),
        "first side for all": ((4, 5), (2, 3, 5, 2), (2, 3, 4, 2)),
        "second side for all": ((2, 3, 4, 5), (1, 3, 5, 2), (2, 3, 4, 2)),
    }
    check(
        {
            name: one(
                g.BatchMatMul,
                (tensor("a", *a, grid=GRID), tensor("b", *b, grid=OTHER)),
                tensor("y", *y, grid=g.Quantization(0.25, 9)),
            )
            for name, (a, b, y) in shapes.items()
        }
    )
