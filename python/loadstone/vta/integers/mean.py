# SPDX-License-Identifier: Apache-2.0
"""Chains that make a mean of a sum: average pools and means, between any scales.

In:   how many elements are summed, what the sum is divided by, quantizations, and the rule.
Out:  a chain proven on every sum that can occur; None where none was found.
Next: operators/pool.py lowers it.

Half away from zero needs no correction: a multiplier a little too large takes both halves away.
Half to even, which is frequent where the count is a power of two, takes the quotient's parity.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from loadstone import graph as g
from loadstone.graph.kernels import onnx, tflite
from loadstone.numerics import requantize_double, requantize_float32
from loadstone.vta.integers.chain import Chain
from loadstone.vta.integers.linear_form import Correction
from loadstone.vta.integers.linear_search import LinearProblem, find_chain

__all__ = ["MeanRounding", "MeanRule", "integer_means", "mean_chain"]

IntArray = NDArray[np.int64]


class MeanRounding(Enum):
    """Whose mean."""

    INTEGERS = "TFLite's AVERAGE_POOL_2D: of the integers as they are, half away from zero"
    RAISED = "the same in uint8 models: of x + 128"
    DOUBLE = "TFLite's MEAN: one multiplication, rounded twice"
    FLOAT32 = "ONNX: half to even"


@dataclass(frozen=True)
class MeanRule:
    """taps: elements of the sum. count: what it is divided by: taps, or more where padding
    counts."""

    taps: int
    count: int
    q_in: g.Quantization
    q_out: g.Quantization
    low: int
    high: int
    rounding: MeanRounding

    def apply(self, sums: IntArray) -> IntArray:
        """What the framework makes of sums of integers, in the shape of `sums`."""
        centred = sums - self.taps * self.q_in.zero_point
        match self.rounding:
            case MeanRounding.INTEGERS:
                result = integer_means(sums, self.count, 0)
            case MeanRounding.RAISED:
                result = integer_means(sums, self.count, 128)
            case MeanRounding.DOUBLE:
                constants = tflite.mean_multiplier(self.count, self.q_in, self.q_out)
                levels = requantize_double(centred, *constants).astype(np.int64)
                result = levels + self.q_out.zero_point
            case MeanRounding.FLOAT32:
                scale = np.float32(onnx.mean_scale(self.count, self.q_in, self.q_out))
                levels = requantize_float32(centred, scale).astype(np.int64)
                result = levels + self.q_out.zero_point
        return np.clip(result, self.low, self.high).astype(np.int64)


def integer_means(sums: IntArray, count: int, offset: int) -> IntArray:
    """TFLite's average of integers, to each of which `offset` is added before and taken off after:
    half away from zero. In the shape of `sums`."""
    raised = sums + offset * count
    return np.asarray(np.sign(raised) * ((np.abs(raised) + count // 2) // count) - offset, np.int64)


@lru_cache(maxsize=256)
def mean_chain(rule: MeanRule) -> Chain | None:
    """The chain of a rule; its input 0 is the sum, whose tiles each product takes."""
    sums = np.arange(-128 * rule.taps, 127 * rule.taps + 1)
    of_integers = rule.rounding in (MeanRounding.INTEGERS, MeanRounding.RAISED)
    centre = 0 if of_integers else rule.taps * rule.q_in.zero_point
    problem = LinearProblem(
        inputs=(sums,),
        wanted=rule.apply(sums),
        factors=((1 if of_integers else rule.q_in.scale / rule.q_out.scale) / rule.count,),
        zero_points=(centre - 128 * rule.taps * (rule.rounding is MeanRounding.RAISED),),
        low=rule.low,
        high=rule.high,
        taps=rule.taps,
    )
    if rule.rounding is MeanRounding.FLOAT32:
        return find_chain(problem, (Correction.NONE, Correction.EVEN))
    return find_chain(problem, (Correction.NONE, Correction.NEGATIVE))
