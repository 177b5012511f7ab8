# SPDX-License-Identifier: Apache-2.0
"""By how much a device's stated rounding is off: proven where that can be, else measured.

In:   an operator, a StatedRounding.
Out:  RoundingBound: the largest difference, the share of sums that differ, and how that is known.
Next: scope.py takes or refuses the operator by it; `--explain` prints it.

Four ways, of which the first that applies is taken:

    at every step     MultiplyShift and FloatScale never decrease while a sum grows, and no rule of
                      a framework does: between two steps of the rule the difference is largest at
                      an end. Every int32 that a sum can be is covered.
    for every sum     another function, where channels times sums are few enough to try all; of one
                      that is the same for all channels, the sums of all of them once
    for every input   of operators by elements with one or two inputs of int8: 256 or 65,536
    measured          all others: on some sums, or on random inputs
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from loadstone import graph as g
from loadstone.backend.rounding import FloatScale, MultiplyShift, StatedRounding
from loadstone.errors import LoweringError
from loadstone.graph.accumulators import grows_with_sums, integers_of, limits_of_sums
from loadstone.graph.reference import run_operator
from loadstone.numerics import Array

__all__ = ["RoundingBound", "bound_of", "stated_integers"]

_IntArray = NDArray[np.int64]
#: Sums to integers, each (n, O).
_Function: TypeAlias = Callable[[_IntArray], _IntArray]
#: Sums of all channels that are tried where nothing is known of a function.
_ALL_SUMS = 1 << 25
#: Sums of a channel that are tried where those are too many, and random inputs of other operators.
_SOME_SUMS, _SOME_INPUTS = 1 << 15, 16
_TOGETHER = 1 << 20


@dataclass(frozen=True)
class RoundingBound:
    """largest: difference, in levels. share, worst_share: of the sums (or inputs) that give another
    integer, of all channels and of the worst one. proven: for all that can occur. how: in words."""

    largest: int
    share: float
    worst_share: float
    proven: bool
    how: str

    @property
    def is_exact(self) -> bool:
        """Whether it is proven to be the framework's."""
        return self.proven and self.largest == 0

    def __str__(self) -> str:
        levels = f"at most {self.largest} level{'s' * (self.largest != 1)} off"
        if not self.largest:
            return f"{levels} ({self.how})"
        worst = f", {100 * self.worst_share:.2f} % in the worst channel"
        several = worst if self.worst_share > self.share else ""
        return f"{levels} ({self.how}; {100 * self.share:.2f} % of them differ{several})"


def bound_of(operator: g.Operator, stated: StatedRounding) -> RoundingBound:
    """Raises LoweringError for a function whose results have another shape or type than they
    should, or lie outside the output's type."""
    if not isinstance(operator, g.Weighted):
        return _of_inputs(operator, stated)
    low, high = limits_of_sums(operator)
    scales = operator.real_scales()
    alike = not stated.per_channel and bool((scales == scales[0]).all())
    limits = (low.min(keepdims=True), high.max(keepdims=True)) if alike else (low, high)

    def device(sums: _IntArray) -> _IntArray:
        return stated_integers(operator, stated, sums)

    def rule(sums: _IntArray) -> _IntArray:
        return integers_of(operator, sums)[:, : len(limits[0])]

    if isinstance(stated.function, MultiplyShift | FloatScale) and grows_with_sums(operator):
        return _by_steps(rule, device, *limits)
    return _by_trial(rule, device, *limits)


def stated_integers(operator: g.Operator, stated: StatedRounding, *inputs: Array) -> _IntArray:
    """What the function makes of sums, or of input arrays. Raises LoweringError as bound_of."""
    wanted = operator.output.shape
    if isinstance(operator, g.Weighted):
        (sums,) = inputs
        wanted = sums.shape if stated.per_channel else (sums.size, 1)
        got = np.asarray(stated.function(sums.reshape(wanted)))
    else:
        got = np.asarray(stated.function(*inputs))
    if got.shape != wanted or got.dtype.kind not in "iu":
        raise LoweringError(
            f"{operator.name}: its stated rounding gives {got.dtype}{list(got.shape)}, not "
            f"integers {list(wanted)}"
        )
    dtype = operator.output.dtype
    limits = np.iinfo(dtype)
    if got.size and not limits.min <= int(got.min()) <= int(got.max()) <= limits.max:
        raise LoweringError(
            f"{operator.name}: its stated rounding gives {got.min()} to {got.max()}, not {dtype}: "
            "it includes zero point and clamp"
        )
    shape = inputs[0].shape if isinstance(operator, g.Weighted) else wanted
    return got.astype(np.int64).reshape(shape)


# --- of sums --------------------------------------------------------------------------------------
def _by_steps(rule: _Function, device: _Function, low: _IntArray, high: _IntArray) -> RoundingBound:
    """Of two functions that never decrease. low, high: (O,), the sums that can occur."""
    ends = np.stack([low, high])
    both = np.stack([rule(ends), device(ends)])  # (2 functions, 2 ends, O)
    levels = np.arange(int(both.min()) + 1, int(both.max()) + 1)
    steps = _first_sums(rule, levels, low, high)
    # the first and the last sum are among them, where there are levels
    at = np.clip(np.concatenate([steps, steps - 1]), low, high)
    largest = int(np.abs(rule(at) - device(at)).max(initial=0))
    shares = _shares(steps, _first_sums(device, levels, low, high), low, high)
    return RoundingBound(
        largest, *shares, True, f"proven for the sums of {len(low)} channels, at each step"
    )


def _first_sums(
    function: _Function, levels: _IntArray, low: _IntArray, high: _IntArray
) -> _IntArray:
    """(levels, O): the least sum that gives at least this level; high + 1 where none does."""
    below = np.broadcast_to(low - 1, (len(levels), len(low))).copy()
    reached = np.broadcast_to(high + 1, below.shape).copy()
    while (reached - below > 1).any():
        middle = (below + reached) >> 1
        enough = function(np.clip(middle, low, high)) >= levels[:, None]
        between = reached - below > 1
        reached = np.where(between & enough, middle, reached)
        below = np.where(between & ~enough, middle, below)
    return reached


def _shares(
    rule: _IntArray, device: _IntArray, low: _IntArray, high: _IntArray
) -> tuple[float, float]:
    """Of the sums that give another integer: between the two functions' steps at any level.
    Their intervals may overlap, and neither their beginnings nor their ends decrease."""
    begin, end = np.minimum(rule, device), np.maximum(rule, device)
    before = np.concatenate([low[None], end[:-1]]) if len(end) else end
    lengths = np.maximum(end - np.maximum(begin, before), 0).sum(axis=0)
    shares = lengths / (high - low + 1)
    return float(shares.mean()), float(shares.max())


def _by_trial(rule: _Function, device: _Function, low: _IntArray, high: _IntArray) -> RoundingBound:
    """Of any functions: all sums, or those where the rule's steps are, and evenly spaced ones."""
    longest, channels = int((high - low).max()) + 1, len(low)
    everything = longest * channels <= _ALL_SUMS
    count = np.zeros(channels, np.int64)
    tried, largest = count.copy(), 0
    for sums, new in _every(low, high) if everything else _some(rule, low, high):
        apart = np.abs(rule(sums) - device(sums)) * new
        largest = max(largest, int(apart.max(initial=0)))
        count, tried = count + (apart > 0).sum(axis=0), tried + new.sum(axis=0)
    shares = count / tried
    how = (
        f"proven for all {tried.sum():,} sums"
        if everything
        else f"measured on {tried.sum():,} sums"
    )
    return RoundingBound(largest, float(shares.mean()), float(shares.max()), everything, how)


def _every(low: _IntArray, high: _IntArray) -> Iterator[tuple[_IntArray, _IntArray]]:
    """Sums (n, O) and, for each, whether it is a new one of its channel."""
    longest, rows = int((high - low).max()) + 1, max(1, _TOGETHER // len(low))
    for first, end in pairwise([*range(0, longest, rows), longest]):
        sums = low + np.arange(first, end)[:, None]
        yield np.minimum(sums, high), (sums <= high).astype(np.int64)


def _some(
    rule: _Function, low: _IntArray, high: _IntArray
) -> Iterator[tuple[_IntArray, _IntArray]]:
    fractions = np.linspace(0.0, 1.0, _SOME_SUMS)[:, None]
    even = low + np.rint(fractions * (high - low)).astype(np.int64)
    for first in range(0, len(even), max(1, _TOGETHER // len(low))):
        part = even[first : first + max(1, _TOGETHER // len(low))]
        yield part, np.ones_like(part)
    ends = rule(np.stack([low, high]))
    levels = np.arange(int(ends.min()) + 1, int(ends.max()) + 1)
    steps = _first_sums(rule, levels, low, high)
    for at in (steps, steps - 1):
        yield np.clip(at, low, high), np.ones_like(at)


# --- of other operators ---------------------------------------------------------------------------
def _is_by_elements(operator: g.Operator) -> bool:
    """Whether its elements depend on the elements of its inputs alone."""
    return isinstance(operator, g.Elementwise | g.Lookup | g.Requantize)


def _of_inputs(operator: g.Operator, stated: StatedRounding) -> RoundingBound:
    """Of every element of up to two inputs of int8, or of random inputs."""
    dtypes = [tensor.dtype for tensor in operator.inputs]
    if _is_by_elements(operator) and len(dtypes) <= 2 and {*dtypes} <= {"int8", "uint8"}:
        levels = [np.arange(np.iinfo(d).min, np.iinfo(d).max + 1, dtype=d) for d in dtypes]
        arrays = [np.ascontiguousarray(a).reshape(-1) for a in np.meshgrid(*levels, indexing="ij")]
        shape = arrays[0].shape
        inputs = tuple(replace(tensor, shape=shape) for tensor in operator.inputs)
        outputs = (replace(operator.output, shape=shape),)
        operator = replace(operator, inputs=inputs, outputs=outputs)
        return _compared(operator, stated, [arrays], True, f"proven for all {shape[0]:,} inputs")
    rng = np.random.default_rng(len(operator.name))
    draws = [[_random(tensor, rng) for tensor in operator.inputs] for _ in range(_SOME_INPUTS)]
    how = f"measured on {_SOME_INPUTS * operator.output.size:,} elements of random inputs"
    return _compared(operator, stated, draws, False, how)


def _random(tensor: g.Tensor, rng: np.random.Generator) -> Array:
    if np.dtype(tensor.dtype).kind == "f":
        return rng.normal(size=tensor.shape).astype(tensor.dtype)
    limits = np.iinfo(tensor.dtype)
    return rng.integers(limits.min, limits.max, tensor.shape, tensor.dtype, endpoint=True)


def _compared(
    operator: g.Operator,
    stated: StatedRounding,
    draws: list[list[Array]],
    proven: bool,
    how: str,
) -> RoundingBound:
    apart = np.concatenate(
        [
            np.abs(
                run_operator(operator, arrays)[0].astype(np.int64).reshape(-1)
                - stated_integers(operator, stated, *arrays).reshape(-1)
            )
            for arrays in draws
        ]
    )
    share = float((apart > 0).mean())
    return RoundingBound(int(apart.max()), share, share, proven, how)
