# SPDX-License-Identifier: Apache-2.0
"""artifact/c_kernels/pooling.py: pools and means of every rounding, with and without padding."""

from __future__ import annotations

from typing import Any

from loadstone import graph as g
from loadstone.numerics import Rounding
from tests.artifact.c_kernels.operators import GRID, OTHER, check, one, tensor


def pool(kind: type[g.Pool2D], rounding: Rounding, **fields: Any) -> g.Operator:
    grid = OTHER if rounding is Rounding.FLOAT32 and kind is g.AveragePool2D else GRID
    return one(
        kind,
        (tensor("x", 1, 7, 6, 3),),
        tensor("y", 1, 4, 3, 3, grid=grid),
        kernel=(3, 2),
        strides=(2, 2),
        padding=(1, 0, 1, 0),
        low=-110,
        high=100,
        rounding=rounding,
        **fields,
    )


def mean(axes: tuple[int, ...], *shape: int, rounding: Rounding) -> g.Operator:
    limits = {"low": -128, "high": 127}
    x = (tensor("x", 1, 6, 5, 4),)
    return one(g.Mean, x, tensor("y", *shape, grid=OTHER), axes=axes, rounding=rounding, **limits)


def test_pools_and_means() -> None:
    average = g.AveragePool2D
    kinds = {
        "max": pool(g.MaxPool2D, Rounding.DOUBLE),
        "average": pool(average, Rounding.DOUBLE, count_include_pad=False),
        "unsigned": pool(average, Rounding.DOUBLE, count_include_pad=False, unsigned=True),
        "onnx": pool(average, Rounding.FLOAT32, count_include_pad=False),
        "onnx with padding": pool(average, Rounding.FLOAT32, count_include_pad=True),
    }
    for rounding in (Rounding.DOUBLE, Rounding.FLOAT32):
        kinds[f"mean of the image {rounding.name}"] = mean((1, 2), 1, 4, rounding=rounding)
        kinds[f"mean of rows {rounding.name}"] = mean((1,), 1, 5, 4, rounding=rounding)
        kinds[f"mean of channels {rounding.name}"] = mean((3,), 1, 6, 5, rounding=rounding)
    check(kinds)
