# SPDX-License-Identifier: Apache-2.0
"""TFLite's operators that make one number of many: SUM, REDUCE_PROD, L2_NORMALIZATION.

In:   int8 activations with their `Quantization`.
Out:  int8 activations in the output's quantization.
Next: __init__.py gives them to callers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from loadstone.graph import Quantization
from loadstone.graph.kernels.fixed_point import inverse_square_root
from loadstone.graph.kernels.tflite.levels import Int8Array, centred, finish
from loadstone.numerics import quantize_multiplier, requantize_double, wrap_int32

__all__ = ["l2_normalize", "reduce_product", "reduce_sum"]


def reduce_sum(
    x: Int8Array, axes: Sequence[int], q_in: Quantization, q_out: Quantization
) -> Int8Array:
    """SUM over `axes`, which stay with length 1: the sum of x - zero point, requantized once.

    x: of any shape. Rounding DOUBLE.
    """
    total = wrap_int32(centred(x, q_in).sum(tuple(axes), keepdims=True))
    scale = np.float64(q_in.scale) / np.float64(q_out.scale)
    return finish(requantize_double(total, *quantize_multiplier(scale)), q_out.zero_point)


def reduce_product(
    x: Int8Array, axes: Sequence[int], q_in: Quantization, q_out: Quantization
) -> Int8Array:
    """REDUCE_PROD over `axes`, which stay with length 1: a requantization behind every factor, the
    first axis slowest.

    x: of any shape. The n factors share one scale: that of the input over the n-th root of the
    output's, with 15 bits.
    """
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    shape = tuple(1 if axis in axes else n for axis, n in enumerate(x.shape))
    factors = np.moveaxis(centred(x, q_in), kept, range(len(kept))).reshape(math.prod(shape), -1)
    count = factors.shape[1]
    multiplier, shift = (
        int(v)
        for v in quantize_multiplier(
            float(np.float32(q_in.scale)) / math.pow(float(np.float32(q_out.scale)), 1 / count)
        )
    )
    result = factors[:, 0]
    for index in range(1, count):
        result = _scaled(result * factors[:, index], multiplier, shift)
    return finish(_scaled(result, multiplier, shift), q_out.zero_point).reshape(shape)


def _scaled(x: NDArray[np.int64], multiplier: int, shift: int) -> NDArray[np.int64]:
    """x * multiplier * 2^(shift - 31) of 48-bit x: the multiplier rounded to 15 bits, the product
    once, ties upward; the low 32 bits of the result."""
    reduced = (multiplier + (1 << 15)) >> 16 if multiplier < 0x7FFF0000 else 0x7FFF
    result = (x * reduced + (1 << (14 - shift))) >> (15 - shift)
    return wrap_int32(result).astype(np.int64)


def l2_normalize(x: Int8Array, q_in: Quantization, *, unsigned: bool = False) -> Int8Array:
    """L2_NORMALIZATION over the last axis: x / sqrt(sum x^2); the output's scale is 1/128 and its
    zero point 0.

    x: (..., depth), and so is the result. The inverse root is that of `inverse_square_root`, and
    the rounding DOUBLE. A row of zeros stays zeros.
    unsigned: a uint8 model, whose kernel multiplies by 128 before it shifts.
    """
    distance = centred(x, q_in)
    multiplier, shift = inverse_square_root(np.square(distance).sum(-1, keepdims=True))
    if unsigned:
        return finish(requantize_double(distance << 7, multiplier, shift), 0)
    return finish(requantize_double(distance, multiplier, shift.astype(np.int64) + 7), 0)
