# SPDX-License-Identifier: Apache-2.0
"""Weights of 4 bits in groups of 32, as int8 that a device unpacks.

In:   float32 weights (outputs, inputs) that a file keeps as 16 values in each group of 32.
Out:  int8 levels and a scale for each output. In a group every level is

          minimum + (number * multiplier + 4 >> 3)      a number of 4 bits, a multiplier of 8

      And by how much integers change weights, with 4 bits and without.
Next: frontend/gguf.py; vta/region/pack_weights.py finds multipliers, minima and numbers again.

What kind of encoding the file has does not matter (Q4_0, Q4_1, Q4_K): numbers are read off the
values. The file's own numbers stay, so that only each group's scale and minimum are rounded: to an
eighth of a level, and to a level. A span of 8 to 15 numbers is found for any values that have one
of fewer, so that no multiplier is above 254.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from loadstone.files import JsonObject

__all__ = ["GROUP", "error_entry", "grid_levels", "grid_numbers", "weights_error"]

Floats = NDArray[np.float32]

GROUP = 32
_NUMBERS = 16
_MOST = 127
#: Of a step, which rounding of the file's floats may leave.
_TOLERANCE = 1 / 256
#: Outputs that are looked at together: what stands in memory.
_OUTPUTS = 1024


def grid_numbers(weights: Floats) -> tuple[NDArray[np.uint8], Floats, Floats] | None:
    """Numbers (outputs, groups, 32), steps and minima (outputs, groups), whose number * step +
    minimum is the weights; None where some group has more than 16 equidistant values, or the
    inputs are no whole groups."""
    if weights.ndim != 2 or weights.shape[1] % GROUP:
        return None
    found = []
    for some in np.array_split(weights, -(-len(weights) // _OUTPUTS)):
        part = _numbers(some.reshape(len(some), -1, GROUP))
        if part is None:
            return None
        found.append(part)
    numbers, steps, minima = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return numbers, steps, minima


def _numbers(groups: Floats) -> tuple[NDArray[np.uint8], Floats, Floats] | None:
    """Of some outputs (outputs, groups, 32)."""
    shape = groups.shape[:2]
    flat = groups.reshape(-1, GROUP)
    low = flat.min(1)
    span = flat.max(1) - low
    steps = np.zeros(len(flat), np.float32)
    numbers = np.zeros(flat.shape, np.uint8)
    open_ = np.flatnonzero(span > 0)
    for most in range(_NUMBERS - 1, 0, -1):
        if not open_.size:
            break
        step = span[open_] / np.float32(most)
        ratio = (flat[open_] - low[open_, None]) / step[:, None]
        nearest = np.rint(ratio)
        fits = np.abs(ratio - nearest).max(1) <= _TOLERANCE
        done = open_[fits]
        numbers[done], steps[done] = nearest[fits].astype(np.uint8), step[fits]
        open_ = open_[~fits]
    if open_.size:
        return None
    return numbers.reshape(groups.shape), steps.reshape(shape), low.reshape(shape)


def grid_levels(weights: Floats) -> tuple[Floats, NDArray[np.int8]] | None:
    """(scales (outputs, 1), levels (outputs, inputs)); None where the weights have no such groups.

    A scale is the least that leaves every level in [-127, 127] and every multiplier in 8 bits."""
    found = grid_numbers(weights)
    if found is None:
        return None
    numbers, steps, minima = found
    scales = np.abs(weights).max(1, keepdims=True) / np.float32(_MOST)
    scales[scales == 0] = 1
    levels = np.empty(weights.shape, np.int8)
    left = np.arange(len(weights))
    while left.size:
        made = _levels(numbers[left], steps[left], minima[left], scales[left])
        most = np.abs(made).max((1, 2))
        fits = most <= _MOST
        levels[left[fits]] = made[fits].reshape(-1, weights.shape[1]).astype(np.int8)
        scales[left[~fits], 0] *= np.maximum(most[~fits] / np.float32(_MOST), np.float32(1.001))
        left = left[~fits]
    return scales, levels


def _levels(
    numbers: NDArray[np.uint8], steps: Floats, minima: Floats, scales: Floats
) -> NDArray[np.int32]:
    """(outputs, groups, 32), not yet limited. The minimum is the level that leaves the least mean
    error of the group."""
    multipliers = np.rint(8 * steps / scales).astype(np.int32)
    products = numbers * multipliers[..., None] + 4 >> 3
    wanted = (numbers * steps[..., None] + minima[..., None]) / scales[..., None]
    least = np.rint((wanted - products).mean(-1)).astype(np.int32)
    return np.asarray(least[..., None] + products, np.int32)


def weights_error(weights: Floats, levels: NDArray[np.int8], scales: Floats) -> float:
    """What levels * scales, which have the shape of the weights, are off from them: the root of
    the mean square, relative to that of the weights. 0 where all weights are zero."""
    size = float(np.square(weights, dtype=np.float64).sum())
    off = np.square(levels.astype(np.float64) * scales - weights).sum()
    return float(np.sqrt(off / size)) if size else 0.0


def error_entry(name: str, error: float, int8: float | None = None) -> JsonObject:
    """A layer of a report's `weight_errors`: its weights_error, of four digits. int8: what int8
    alone would leave, where the weights keep 4 bits."""
    beside = {} if int8 is None else {"int8": float(f"{int8:.4g}")}
    return {"name": name, "error": float(f"{error:.4g}"), **beside}
