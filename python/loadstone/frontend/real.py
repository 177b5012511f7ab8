# SPDX-License-Identifier: Apache-2.0
"""A real tensor that a network stores as integers, and the operations that apply to it directly.

In:   calls of a Relax function, and the integers with their scales.
Out:  Real; constants that are moved (transposed, reshaped) together with their scales; whether a
      pad or a clamp stays on the grid of the integers.
Next: canonical.py emits a dequantize for each reader.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from loadstone.numerics import Array, round_half_away
from loadstone.relax.compat import constant, dtype, integers, is_call, relax, scalar, shape, value

if TYPE_CHECKING:
    from loadstone.relax.types import Call, Expr

__all__ = [
    "Real",
    "clamps_on_grid",
    "flipped",
    "fold",
    "folded",
    "keeps_grid",
    "on_grid",
    "quantized_constant",
]


@dataclass(frozen=True, eq=False)
class Real:
    """A real tensor that is stored as integers: what a dequantize would give. It is emitted anew
    for each reader.

    stored: variable or constant of int8 or int32. scale, zero_point: one, or one per index of axis.
    """

    stored: Expr
    scale: NDArray[np.float32]
    zero_point: NDArray[np.int32]
    axis: int

    def same_quantization(self, other: Real) -> bool:
        """Whether equal integers of both mean the same numbers."""
        return np.array_equal(self.scale, other.scale) and np.array_equal(
            self.zero_point, other.zero_point
        )


def on_grid(stored: Expr, call: Call) -> Real:
    """The integers with the one scale and zero point of a quantize or dequantize."""
    return Real(stored, value(call.args[1]).reshape(-1), value(call.args[2]).reshape(-1), 0)


def flipped(stored: Expr) -> Expr:
    """uint8 constant -> int8, minus 128."""
    return constant((value(stored).astype(np.int16) - 128).astype(np.int8))


def quantized_constant(
    call: Call, real: Array, scale: Array, zero_point: Array, *, half_away: bool
) -> Expr:
    """Weights that a tool left in float before their QuantizeLinear are quantized now.

    real: any shape, which the result has. scale, zero_point: a scalar, or one for each index of the
        call's axis. half_away: how TFLite rounds; others round ties to even.
    """
    along = [
        -1 if axis == int(call.attrs.axis) % max(1, real.ndim) and scale.size > 1 else 1
        for axis in range(real.ndim)
    ]
    ratio = real.astype(np.float32) / scale.astype(np.float32).reshape(along)
    rounded = (round_half_away if half_away else np.rint)(ratio) + zero_point.astype(
        np.float64
    ).reshape(along)
    limits = np.iinfo(str(call.attrs.out_dtype))
    return constant(np.clip(rounded, limits.min, limits.max).astype(limits.dtype))


def keeps_grid(call: Call, source: Real) -> bool:
    """A pad must write a value that the integers have; the other operators only move elements."""
    if not is_call(call, "nn.pad"):
        return True
    quotient = np.float64(float(call.attrs.pad_value)) / source.scale[0] + source.zero_point[0]
    return (
        str(call.attrs.pad_mode) == "constant"
        and quotient == np.round(quotient)
        and -128 <= quotient <= 127
    )


def clamps_on_grid(clamp: Call, source: Call) -> bool:
    """Zero is always a point of the grid; another bound need not be one. Weights with a scale per
    channel have no one grid, and a bias is no int8."""
    if value(source.args[1]).size > 1 or dtype(source.args[0]) not in ("int8", "uint8"):
        return False
    if is_call(clamp, "nn.relu"):
        return True
    scale, zero_point = scalar(source.args[1]), scalar(source.args[2])
    points = [scalar(bound) / scale + zero_point for bound in clamp.args[1:]]
    return all(
        abs(point) == np.inf or abs(point - round(point)) < 1e-6 or not -128 < point < 127
        for point in points
    )


def folded(call: Call, source: Real) -> Real | None:
    """A move of a quantized constant; None where an axis with its own scales would be split or
    merged."""
    moved = fold(call, value(source.stored))
    if moved is None:
        return None
    if source.scale.size == 1:
        return replace(source, stored=constant(moved))
    along = np.zeros(
        [
            extent if axis == source.axis else 1
            for axis, extent in enumerate(value(source.stored).shape)
        ],
        np.int64,
    )
    along[...] = np.arange(source.scale.size).reshape(along.shape)
    index = fold(call, np.broadcast_to(along, value(source.stored).shape))
    assert index is not None
    for axis, extent in enumerate(index.shape):
        line = np.moveaxis(index, axis, 0).reshape(extent, -1)
        if extent == source.scale.size and np.array_equal(
            line, np.broadcast_to(np.arange(extent)[:, None], line.shape)
        ):
            return replace(source, stored=constant(moved), axis=axis)
    return None


def fold(call: Call, array: Array) -> Array | None:
    """What a move makes of a constant (any shape): the array in the call's own shape; None for
    moves that stay calls."""
    if is_call(call, "permute_dims"):
        return np.transpose(array, integers(call.attrs.axes))
    if is_call(call, "reshape", "squeeze", "expand_dims", "flatten") and shape(call) is not None:
        return array.reshape(shape(call))
    if is_call(call, "reshape") and isinstance(call.args[1], relax.ShapeExpr):
        return array.reshape(integers(call.args[1]))
    return None
