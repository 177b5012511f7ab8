# SPDX-License-Identifier: Apache-2.0
"""Finding requantizations that equal a framework's rule on every value that can occur.

In:   all sums that can occur (a range of integers), and what the framework's rule makes of each.
Out:  `Requantization`: RQ operands that give the same integers, or None.
Next: an operator with None stays on the host, with a reason.

RQ knows three roundings of acc * scale. An average, a float32 sum or a rule with its own constants
is none of them by name, but may be one of them by value: each candidate is tried on all sums,
exhaustively.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from loadstone import graph as g
from loadstone.graph import reference as graph_reference
from loadstone.numerics import INT32_MAX, Rounding, quantize_multiplier, rq, scale_lane, shift_lane

__all__ = ["OutputRange", "Requantization", "find_requantization", "on_all_values"]

#: Left shifts tried before a fixed-point multiplication: more bits make the first of DOUBLE's two
#: roundings finer.
_PRE_SHIFTS = (0, 4, 8, 10, 12, 16)
#: Distances from the nearest multiplier: a little more or less decides ties.
_NUDGES = (0, 1, -1, 2, 8, -8, 16, -16, 32, -32, 64, -64)
#: Distances from the nearest float32 scale.
_STEPS = (0, 1, -1, 2, -2, 3, -3)


@dataclass(frozen=True)
class Requantization:
    """clamp(requantize(sum + bias, multiplier, shift, rounding) + zero_point, low, high);
    multiplier and shift are lanes."""

    bias: int
    multiplier: int
    shift: int
    rounding: Rounding
    zero_point: int
    low: int
    high: int

    def apply(self, sums: NDArray[np.int64]) -> NDArray[np.int64]:
        """What RQ makes of sums, in the shape of sums."""
        result = rq(
            sums,
            self.bias,
            self.multiplier,
            self.shift,
            zero_point=self.zero_point,
            low=self.low,
            high=self.high,
            rounding=self.rounding,
        )
        return np.asarray(result, np.int64)


@dataclass(frozen=True)
class OutputRange:
    """What follows the scaling: + zero_point, and a clamp to [low, high]."""

    zero_point: int
    low: int = -128
    high: int = 127


def on_all_values(op: g.Elementwise | g.Requantize | g.Concatenate) -> NDArray[np.int64]:
    """The operator's rule on every value (256, 1), or every pair of values (256, 256), of its int8
    inputs."""
    shapes = [(256, 1), (1, 256)][: len(op.inputs)]
    inputs = tuple(
        replace(tensor, shape=shape) for tensor, shape in zip(op.inputs, shapes, strict=True)
    )
    output = replace(op.output, shape=(256, 256) if len(inputs) == 2 else (256, 1))
    values = [np.arange(-128, 128).astype(np.int8).reshape(shape) for shape in shapes]
    (result,) = graph_reference.run_operator(replace(op, inputs=inputs, outputs=(output,)), values)
    return result.astype(np.int64)


def find_requantization(
    sums: NDArray[np.int64],
    wanted: NDArray[np.int64],
    scale: float,
    bias: int,
    output: OutputRange,
    first: Rounding = Rounding.DOUBLE,
) -> Requantization | None:
    """The first candidate near `scale` that gives `wanted` for every one of `sums`, None
    where none does.

    sums, wanted: of the same shape. scale: real, of one unit of the sums in units of the output.
    first: the arithmetic to begin with.
    """
    largest = int(np.max(np.abs(sums + bias), initial=1))
    for multiplier, shift, rounding in sorted(
        _candidates(scale, largest), key=lambda candidate: candidate[2] is not first
    ):
        found = Requantization(
            bias, multiplier, shift, rounding, output.zero_point, output.low, output.high
        )
        if np.array_equal(found.apply(sums), wanted):
            return found
    return None


def _candidates(scale: float, largest: int) -> Iterator[tuple[int, int, Rounding]]:
    """(multiplier lane, shift lane, rounding) of every arithmetic that comes near sum * scale;
    |sum| <= largest."""
    for rounding in (Rounding.DOUBLE, Rounding.SINGLE):
        for pre_shift in _PRE_SHIFTS:
            if largest << pre_shift > INT32_MAX:
                break
            multiplier, shift = (
                int(value) for value in quantize_multiplier(scale / (1 << pre_shift))
            )
            for nudge in _NUDGES:
                if 0 < multiplier + nudge <= INT32_MAX:
                    yield multiplier + nudge, int(shift_lane(shift, pre_shift)), rounding
    nearest = int(
        scale_lane(np.float32(scale))
    )  # neighbours of a positive float32 are neighbours as integers
    for step in _STEPS:
        yield nearest + step, 0, Rounding.FLOAT32
