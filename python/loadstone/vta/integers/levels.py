# SPDX-License-Identifier: Apache-2.0
"""Multipliers and constants as int8 weights, level by level.

In:   integers per lane: multipliers of digits, a constant, and the exponents of the levels.
Out:  int8 diagonals and constants that one GEMM step each can add at their level.
Next: plan.py puts them into a `Chain`; operators/rescaled.py makes weight tiles of them.

    ((S0 >> 8) + S1 >> 8) + S2 ...       floors compose, so this is (S0 + 256 S1 + 65536 S2) >> 16

A multiplier is written in signed base-256 digits, least first: S0 holds what its lowest digit
multiplies. Nothing is ever larger than a few products of int8, so no level overflows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from loadstone.vta.integers.lanes import Lanes
from loadstone.vta.integers.runs import IntArray

__all__ = [
    "constant_limit",
    "constant_parts",
    "constant_steps",
    "constant_tile",
    "split_constant",
    "split_constants",
    "split_levels",
]

Int8Array = NDArray[np.int8]
#: The lanes of the constant input tile, from which a weight tile makes any constant: 1 for the
#: units, 127 for the rest.
_UNIT, _COARSE = 1, 127


def constant_tile(block: int) -> Int8Array:
    """(block,): the lanes of the constant input tile."""
    tile = np.full(block, _COARSE, np.int8)
    tile[0] = _UNIT
    return tile


def constant_limit(block: int) -> int:
    """The largest constant that one GEMM step can add."""
    return _COARSE * _COARSE * (block - 1)


def constant_parts(values: IntArray, block: int) -> list[IntArray]:
    """What one GEMM step each can add, (lanes,), in all `values` (lanes,); as few as it takes."""
    parts: list[IntArray] = []
    rest = np.asarray(values, np.int64)
    limit = constant_limit(block)
    while rest.any():
        parts.append(np.minimum(np.maximum(rest, -limit), limit))
        rest = rest - parts[-1]
    return parts


def constant_steps(values: IntArray, block: int) -> list[Int8Array]:
    """Weight tiles (lanes, block), whose products with the constant tile add up to `values`
    (lanes,); as few as it takes."""
    tiles: list[Int8Array] = []
    for part in constant_parts(values, block):
        coarse = (part + _COARSE // 2) // _COARSE
        tile = np.zeros((len(part), block), np.int64)
        tile[:, 0] = part - _COARSE * coarse
        # Each lane takes what the lanes before it left, at most a byte's worth.
        left = np.abs(coarse)[:, None] - _COARSE * np.arange(block - 1)
        tile[:, 1:] = np.minimum(np.maximum(left, 0), _COARSE) * np.sign(coarse)[:, None]
        tiles.append(tile.astype(np.int8))
    return tiles


def split_levels(multiplier: IntArray, exponents: tuple[int, ...]) -> list[list[Int8Array]]:
    """For each level the int8 diagonals whose sum, times 2^exponent, adds up to `multiplier` (of
    any shape) over all levels. The last level takes what is left, and the first at which the rest
    of a lane is a weight takes it all: the levels above may be nearer to each other than a byte."""
    rest = np.asarray(multiplier, np.int64)
    levels: list[list[Int8Array]] = []
    for position, exponent in enumerate(exponents):
        digit = rest
        if position + 1 < len(exponents):
            bits = exponents[position + 1] - exponent
            half = 1 << bits >> 1
            digit = ((rest + half) & ((1 << bits) - 1)) - half
            digit = np.where((rest >= -128) & (rest <= 127), rest, digit)
            rest = (rest - digit) >> bits
        steps: list[Int8Array] = []
        least, most = int(digit.min()), int(digit.max())
        while least < -128 or most > 127:
            step = np.minimum(np.maximum(digit, -128), 127)
            steps.append(step.astype(np.int8))
            digit = digit - step
            least, most = min(least + 128, 0), max(most - 127, 0)
        if least < 0 or most > 0:
            steps.append(digit.astype(np.int8))
        levels.append(steps)
    return levels


def split_constant(
    constant: IntArray, exponents: tuple[int, ...], block: int
) -> list[IntArray | None]:
    """What to add at each level so that `constant` (lanes,) is added in all; None: nothing."""
    lanes = Lanes.of([0], len(constant), len(constant))
    levels = split_constants(constant, lanes, exponents, block)
    return [level if level.any() else None for level in levels]


def split_constants(
    constant: IntArray, lanes: Lanes, exponents: tuple[int, ...], block: int
) -> IntArray:
    """(levels, lanes): what to add at each level so that `constant` (lanes,) is added in all. A
    block adds it at the lowest level where one step reaches, else a digit there, and the rest as
    high as one digit can bridge."""
    rest = np.asarray(constant, np.int64)
    levels = np.zeros((len(exponents), len(rest)), np.int64)
    limit, position = constant_limit(block), 0
    reach = limit.bit_length()
    while rest.any():
        if position + 1 == len(exponents):
            levels[position] = rest
            break
        within = lanes.each(lanes.most(np.abs(rest)) <= limit)
        following = max(
            later
            for later in range(position + 1, len(exponents))
            if later == position + 1 or exponents[later] - exponents[position] <= reach
        )
        bits = exponents[following] - exponents[position]
        half = 1 << bits >> 1
        digit = ((rest + half) & ((1 << bits) - 1)) - half
        levels[position] = np.where(within, rest, digit)
        rest = (rest - levels[position]) >> bits
        position = following
    return levels
