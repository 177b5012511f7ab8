# SPDX-License-Identifier: Apache-2.0
"""What the frameworks' kernels make of a sum of products: one integer to one level.

In:   sums, as int64 arrays of values that fit 32 bits; scales as the framework computes them.
Out:  levels: integers between the least and the greatest level of the output.
Next: the readers attach a Requantization to an operator; the engine compares it with the device's.

Stated anew from the documented arithmetic, and compared in tests with LiteRT and ONNX Runtime:

    rule      arithmetic                                                     used by
    DOUBLE    the upper half of twice a 32-bit product, rounded half away    LiteRT: convolutions,
              from zero of its integers (ties of negative ones upward), then products, additions,
              a right shift, rounded half away from zero                     means, requantization
    SINGLE    a 64-bit product, one right shift, ties upward                 LiteRT with single
                                                                             rounding
    AWAY      a float64 product, rounded half away from zero                 LiteRT: dense
    FLOAT32   float32 of the sum, a float32 product, rounded half to even    ONNX Runtime
    AVERAGE   divided by the count, half away from zero                      LiteRT: average pools

Every rule is a non-decreasing function of the sum.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Requantization", "Rule", "Sums", "quantize_multiplier"]

Sums = NDArray[np.int64]
Rule = enum.Enum("Rule", "DOUBLE SINGLE AWAY FLOAT32 AVERAGE")


def quantize_multiplier(real: float) -> tuple[int, int]:
    """(multiplier, shift) of a scale: real = multiplier * 2^(shift - 31), the multiplier in
    [2^30, 2^31) and rounded half up; (0, 0) below 2^-32, the greatest above 2^30, as LiteRT has
    it."""
    if real == 0:
        return 0, 0
    fraction, shift = math.frexp(real)
    multiplier = math.floor(math.ldexp(fraction, 31) + 0.5)
    if multiplier == 1 << 31:
        multiplier, shift = 1 << 30, shift + 1
    if shift < -31:
        return 0, 0
    return (multiplier, shift) if shift <= 30 else ((1 << 31) - 1, 30)


@dataclass(frozen=True, eq=False)
class Requantization:
    """The requantization of an operator's sums, channel by channel.

    multipliers, shifts: of DOUBLE and SINGLE; reals: of AWAY and FLOAT32; counts: of AVERAGE. Each
    has one element, or one for each output channel. low, high: the clamp, levels of the output.
    """

    rule: Rule
    zero_point: int
    low: int
    high: int
    multipliers: tuple[int, ...] = ()
    shifts: tuple[int, ...] = ()
    reals: tuple[float, ...] = ()
    counts: tuple[int, ...] = ()

    def levels(self, sums: Sums, channel: int = 0) -> Sums:
        """The levels of one channel's sums; the result has their shape."""
        raise NotImplementedError
