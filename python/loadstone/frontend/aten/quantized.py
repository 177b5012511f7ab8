# SPDX-License-Identifier: Apache-2.0
"""Quantization as PT2E writes it: the namespace quantized_decomposed.

In:   the arguments of an operator, tensors as Relax expressions.
Out:  quantize and dequantize.
Next: torch.py emits them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from loadstone.errors import UnsupportedError
from loadstone.frontend.aten.build import Build, clamped, importer, stored
from loadstone.frontend.aten.dynamic import WAYS, integers_by, reals_of
from loadstone.relax.compat import constant, dtype, is_constant, relax, scalar

if TYPE_CHECKING:
    from loadstone.relax.types import Expr

__all__: list[str] = []

#: Integers that activations may have, with their limits.
QUANTIZED = {"int8": (-128, 127), "uint8": (0, 255)}


@dataclass(frozen=True, eq=False)
class _PerTensor:
    """A tensor, its scale, and limits and type of the integers. out_dtype: of a dequantize
    alone."""

    x: Expr
    scale: Expr
    zero_point: Expr
    quant_min: Expr
    quant_max: Expr
    dtype: object
    out_dtype: object = None


@dataclass(frozen=True, eq=False)
class _PerChannel:
    """The same, with one scale and zero point for each index of an axis."""

    x: Expr
    scales: Expr
    zero_points: Expr
    axis: int
    quant_min: Expr
    quant_max: Expr
    dtype: object
    out_dtype: object = None


@importer("quantized_decomposed.quantize_per_tensor", gathers=_PerTensor)
def _quantize(build: Build, grid: _PerTensor) -> Expr:
    """round_half_to_even(x * float32(1 / scale)) + zero_point, clamped."""
    x, target = grid.x, _target(grid.dtype)
    limits = [int(_number(grid.quant_min)), int(_number(grid.quant_max))]
    if _is_computed(grid):
        return integers_by(build, x, grid.scale, grid.zero_point, (limits[0], limits[1]))
    step, zero = _number(grid.scale), _number(grid.zero_point)
    if limits != list(
        QUANTIZED[target]
    ):  # fewer integers than the type has: real numbers are clamped first
        x = clamped(build, x, *((limit - zero) * step for limit in limits))
    return relax.op.quantize(
        x, constant(np.float32(step)), constant(np.int32(zero)), axis=0, out_dtype=target
    )


@importer("quantized_decomposed.dequantize_per_tensor", gathers=_PerTensor)
def _dequantize(build: Build, grid: _PerTensor) -> Expr:
    x = grid.x
    _check_real(grid.out_dtype)
    if _is_computed(grid):
        return reals_of(build, x, grid.scale, grid.zero_point)
    step, zero = np.float32(_number(grid.scale)), np.int32(_number(grid.zero_point))
    if build.shape == () and is_constant(x):  # Relax's dequantize would make an array of it
        return constant(np.float32(int(scalar(x)) - zero) * step)
    return relax.op.dequantize(x, constant(step), constant(zero), axis=0)


@importer("quantized_decomposed.dequantize_per_channel", gathers=_PerChannel)
def _dequantize_per_channel(build: Build, grid: _PerChannel) -> Expr:
    _check_real(grid.out_dtype)
    steps = stored(grid.scales, "its scales").astype(np.float32)
    zeros = (
        np.zeros(steps.shape, np.int32)
        if grid.zero_points is None
        else stored(grid.zero_points, "its zero points").astype(np.int32)
    )
    return relax.op.dequantize(grid.x, constant(steps), constant(zeros), axis=grid.axis)


def _is_computed(grid: _PerTensor) -> bool:
    """Whether dynamic.py found scale and zero point. Raises UnsupportedError for others that the
    program computes, and for integers other than int8."""
    if not isinstance(grid.scale, relax.Expr) or is_constant(grid.scale):
        return False
    if (dtype(grid.scale), dtype(grid.zero_point)) != ("float32", "int32"):
        raise UnsupportedError(
            "its scale or zero point is computed by other operators than choose_qparams: " + WAYS
        )
    if _target(grid.dtype) != "int8":
        raise UnsupportedError(f"it quantizes to {grid.dtype} by a computed scale: {WAYS}")
    return True


def _target(kind: object) -> str:
    name = str(kind).removeprefix("torch.")
    if name not in QUANTIZED:
        raise UnsupportedError(f"it quantizes to {name}: Loadstone runs 8-bit activations")
    return name


def _check_real(out_dtype: object) -> None:
    if out_dtype is not None and str(out_dtype) != "torch.float32":
        raise UnsupportedError(
            f"it dequantizes to {out_dtype}: export the model in float32 (model.float())"
        )


def _number(expr: Expr) -> float | int:
    """A number, or the one in a constant tensor."""
    if isinstance(expr, relax.Expr) and not is_constant(expr):
        raise UnsupportedError(
            f"its limits or zero point are computed when the network runs: {WAYS}"
        )
    return scalar(expr)
