# SPDX-License-Identifier: Apache-2.0
"""What TFLite's 16x8 operators ask of their tensors: types, scales, limits.

In:   an operator of a TFLite file; what tflite_integers.py asks of its Converter.
Out:  numbers of the file, or an UnsupportedError; integers as the output has them.
Next: tflite_wide.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from loadstone.errors import UnsupportedError
from loadstone.frontend.tflite_file import TensorRecord
from loadstone.frontend.tflite_integers import Integers, Stateful
from loadstone.numerics import quantize_multiplier, round_half_away
from loadstone.relax.compat import exact_constant, relax

if TYPE_CHECKING:
    from loadstone.relax.types import Expr

__all__ = [
    "ENDS",
    "check_same_grid",
    "check_types",
    "checked_scale",
    "give_levels",
    "half_away",
    "limits_of",
    "scale_of",
    "target_of",
    "tensor_at",
]

ENDS = np.iinfo(np.int16)
#: LiteRT's kernels shift by so many bits at most.
_MOST_SHIFT = 31
#: Number of ActivationFunctionType -> its real bounds.
_BOUNDS = {0: (-np.inf, np.inf), 1: (0.0, np.inf), 2: (-1.0, 1.0), 3: (0.0, 6.0)}


def tensor_at(converter: Stateful, position: int) -> TensorRecord:
    """Input number `position`."""
    return converter.file.tensors[converter.record.inputs[position]]


def target_of(converter: Stateful) -> TensorRecord:
    """The first output."""
    return converter.file.tensors[converter.record.outputs[0]]


def scale_of(record: TensorRecord) -> np.float64:
    """The one scale of a tensor whose zero point is 0. Raises UnsupportedError."""
    if record.scales is None or record.scales.size != 1:
        raise UnsupportedError(f'"{record.name}" has no single scale: convert the model anew')
    if record.dtype == "int16" and np.any(record.zero_points):
        raise UnsupportedError(
            f'"{record.name}" is int16 with a zero point other than 0: convert the model anew'
        )
    return np.float64(np.float32(record.scales[0]))


def check_types(converter: Stateful, *types: str) -> None:
    """Raises UnsupportedError unless the activations have these types."""
    tensors = [tensor_at(converter, k) for k in range(len(types) - 1)]
    found = [record.dtype for record in (*tensors, target_of(converter))]
    if found != list(types):
        raise UnsupportedError(
            f"its tensors are {', '.join(found)}, and beside int16 {', '.join(types)} are known: "
            "convert with int8 activations"
        )


def limits_of(converter: Stateful) -> tuple[int, int]:
    """Of the fused activation, as LiteRT rounds them: in float32, half away from zero."""
    number = converter.record.options["fused_activation_function"]
    if number not in _BOUNDS:
        raise UnsupportedError(f"its activation has the number {number}, which is no clamp")
    scale = np.float32(scale_of(target_of(converter)))
    ends = [ENDS.min, ENDS.max]
    for which, bound in enumerate(_BOUNDS[number]):
        if np.isfinite(bound):
            level = int(round_half_away(np.float32(bound) / scale))
            ends[which] = min(max(level, ENDS.min), ENDS.max)
    return ends[0], ends[1]


def give_levels(converter: Stateful, levels: Expr, limits: tuple[int, int]) -> None:
    """int64 levels as the output's type."""
    clamped = Integers(converter.bb).clamped(levels, *limits)
    kind = target_of(converter).dtype
    converter.give(converter.record.outputs[0], relax.op.astype(clamped, kind))


def half_away(converter: Stateful, real: Expr) -> Expr:
    """float64 to the nearest int64, ties away from zero; what is far from int16 stays far."""
    bb = converter.bb
    half, far = exact_constant(np.array(0.5)), exact_constant(np.array(2.0**20))
    size = bb.emit(relax.op.minimum(bb.emit(relax.op.abs(real)), far))
    away = bb.emit(relax.op.floor(bb.emit(relax.op.add(size, half))))
    positive = bb.emit(relax.op.greater(real, exact_constant(np.array(0.0))))
    signed = bb.emit(relax.op.where(positive, away, bb.emit(relax.op.negative(away))))
    return Integers(bb).wide(signed)


def checked_scale(scale: ArrayLike, bits: int) -> ArrayLike:
    """A scale, () or (O,), of sums of so many bits. Raises UnsupportedError where LiteRT's shifts
    do not reach so far, or what they make does not fit 32 bits: its integers mean nothing there."""
    _, shift = quantize_multiplier(scale)
    low, high = int(np.min(shift)), int(np.max(shift))
    if low < -_MOST_SHIFT or high > _MOST_SHIFT - bits:
        raise UnsupportedError(
            f"its scales make {float(np.max(scale)):.3g} steps of the output of one of its sums, "
            "which LiteRT's fixed point does not hold: scales of its input or output are wrong"
        )
    return scale


def check_same_grid(converter: Stateful) -> None:
    """Raises UnsupportedError where the output has another scale than the input."""
    scales = {float(scale_of(record)) for record in (tensor_at(converter, 0), target_of(converter))}
    if len(scales) > 1:
        raise UnsupportedError("its input and output have other scales: convert the model anew")
