# SPDX-License-Identifier: Apache-2.0
"""artifact/c_kernels/reduction.py: sums and products over any axes, L2 normalization."""

from __future__ import annotations

from loadstone import graph as g
from tests.artifact.c_kernels.operators import GRID, OTHER, check, one, tensor


def reduction(
    kind: type[g.Operator], axes: tuple[int, ...], *shape: int, scale: float
) -> g.Operator:
    output = tensor("y", *shape, grid=g.Quantization(scale, 5))
    return one(kind, (tensor("x", 1, 6, 5, 4),), output, axes=axes)


def test_sums_and_products() -> None:
    shapes = {(1, 2): (1, 1, 1, 4), (1,): (1, 5, 4), (3,): (1, 6, 5), (2, 3): (1, 6)}
    kinds = {g.ReduceSum: (0.5, 2**-6), g.ReduceProduct: (0.5, 1e6)}
    operators = {
        f"{kind.kind} {axes} {scale}": reduction(kind, axes, *shape, scale=scale)
        for kind, scales in kinds.items()
        for axes, shape in shapes.items()
        for scale in scales
    }
    check(operators)


def test_l2_normalization() -> None:
    """A row of one element has a length below every shift; one of 4,000 above."""
    unit = g.Quantization(1 / 128, 0)
    operators = {
        f"{depth} {unsigned} {grid.zero_point}": one(
            g.L2Normalize,
            (tensor("x", 3, depth, grid=grid),),
            tensor("y", 3, depth, grid=unit),
            unsigned=unsigned,
        )
        for depth in (1, 2, 7, 300, 40_000)
        for unsigned in (False, True)
        for grid in (GRID, OTHER)
    }
    check(operators, samples=30)
