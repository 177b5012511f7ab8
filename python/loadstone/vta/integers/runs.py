# SPDX-License-Identifier: Apache-2.0
"""What a framework's rule makes of every accumulator that can occur: runs of equal outputs.

In:   a convolution or dense layer; a product of two activations.
Out:  `Runs`: for each output channel the intervals of accumulators with one output.
Next: search.py finds integers that give the same outputs; proof.py compares at the runs' ends.

    output    3          ______          The rule never decreases, so a channel has at most 256
              2    ______      |         runs. A function that never decreases either, and is right
              1 __|            |         at the first and the last accumulator of every run, is
                |             |          right everywhere: this is all that a proof has to look at.
              low          high
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from loadstone import graph as g
from loadstone.numerics import (
    INT32_MAX,
    Array,
    Rounding,
    quantize_multiplier,
    requantize_double,
    requantize_float32,
    requantize_float64,
    requantize_single,
)

__all__ = ["IntArray", "Runs", "runs_of", "runs_of_product", "runs_of_rule"]

IntArray = NDArray[np.int64]
#: Accumulators (C, n) to the integers of a framework's rounding.
_Rule: TypeAlias = Callable[[IntArray], Array]
#: Steps of the walk from where a real scale would change the output to where the rule does; then a
#: bisection goes on.
_WALK = 16
#: Channels whose runs are made together: what is made on the way fits the processor's cache. Of
#: 960 channels at once, the rule alone took four times as long, most of it for fresh pages.
_TOGETHER = 64
#: A scale this small changes no output.
_NONE = 2.0**-80


@dataclass(frozen=True)
class Runs:
    """Runs of C channels, each (C, R) int64; a channel with fewer than R repeats its last one.

    first, last: accumulators of the run, bias included. value: the output, zero point included.
    scale: (C,) real, what an accumulator is multiplied by. low, high: the clamp.
    Where both signs occur, a run ends at -1: rules that round away from zero differ there.
    alike: runs of each scale that several channels share, over all that any of them reaches;
    member: (C,) which of these a channel belongs to. ties_to_even: the rule's, in float32.
    tolerance: by so much an output may differ from `value`.
    """

    first: IntArray
    last: IntArray
    value: IntArray
    scale: NDArray[np.float64]
    zero_point: int
    low: int
    high: int
    alike: Runs | None = None
    member: IntArray | None = None
    ties_to_even: bool = False
    tolerance: int = 0

    def take(self, channels: IntArray | slice) -> Runs:
        """Some of the channels: their numbers, (n,)."""
        return Runs(
            self.first[channels],
            self.last[channels],
            self.value[channels],
            self.scale[channels],
            self.zero_point,
            self.low,
            self.high,
            tolerance=self.tolerance,
        )

    def cut(self, at: IntArray) -> Runs:
        """With one run of each channel in two, the second of which begins at `at` (C,)."""
        rows = np.arange(len(at))
        inside = (at > self.first[:, 0]) & (at <= self.last[:, -1])
        at = np.where(inside, at, self.first[:, 0])
        number = np.where(inside, (self.first <= at[:, None]).sum(axis=1) - 1, 0)
        begin, end = self.first[rows, number], self.last[rows, number]
        same = (self.first == begin[:, None]) & (at > begin)[:, None]
        last = np.where(same, at[:, None] - 1, self.last)
        first = np.concatenate([self.first, at[:, None]], axis=1)
        order = np.argsort(first, axis=1, kind="stable")
        last = np.concatenate([last, end[:, None]], axis=1)
        value = np.concatenate([self.value, self.value[rows, number][:, None]], axis=1)
        first, last, value = (
            np.take_along_axis(side, order, axis=1) for side in (first, last, value)
        )
        clamp = (self.zero_point, self.low, self.high)
        return Runs(first, last, value, self.scale, *clamp, tolerance=self.tolerance)

    @cached_property
    def constant(self) -> NDArray[np.bool_]:
        """(C,): channels with one output whatever comes in: of pruned networks, for one."""
        return np.asarray(self.value[:, 0] == self.value[:, -1])

    @cached_property
    def changing(self) -> tuple[IntArray, IntArray]:
        """(C,) each: the accumulators between which the output is not, or not yet, at its clamp."""
        rows = np.arange(len(self.scale))
        begins, ends = self.value == self.value[:, :1], self.value == self.value[:, -1:]
        last_of_first = self.last[rows, begins.sum(axis=1) - 1]
        first_of_last = self.first[rows, -ends.sum(axis=1)]
        low = np.where(self.value[:, 0] == self.low, last_of_first, self.first[:, 0])
        high = np.where(self.value[:, -1] == self.high, first_of_last, self.last[:, -1])
        return low, high


def runs_of(op: g.Weighted) -> Runs | None:
    """The runs of every output channel; None where a sum can leave 32 bits."""
    weights = op.weights.reshape(len(op.bias), -1).astype(np.int32)
    weights -= op.weight_zero_points[:, None]
    zero_point = op.input.zero_point
    upper, lower = 127 - zero_point, -128 - zero_point
    total, magnitude = (side.sum(axis=1, dtype=np.int64) for side in (weights, np.abs(weights)))
    positive, negative = (total + magnitude) >> 1, (total - magnitude) >> 1
    bias = op.bias.astype(np.int64)
    least = bias + positive * lower + negative * upper
    most = bias + positive * upper + negative * lower
    if max(int(most.max()), -int(least.min())) > INT32_MAX:
        return None
    if op.rounding is Rounding.FLOAT32:
        scale = op.requantization()[0].view(np.float32).astype(np.float64)
    else:
        scale = op.real_scales()
        left = np.maximum(quantize_multiplier(scale)[1], 0).astype(np.int64)
        if (np.maximum(np.abs(least), np.abs(most)) << left).max() > INT32_MAX:
            return None  # the rule wraps, so it is no step function
    runs = _with_alike(op, _runs(op, (least, most), scale))
    runs = replace(runs, ties_to_even=op.rounding is Rounding.FLOAT32)
    # The weights of a channel with one output are left out, and its bias, which is often huge.
    sums = magnitude * 128 + np.abs(bias - zero_point * total)
    return None if np.any(sums[~runs.constant] > INT32_MAX // 2) else runs


def runs_of_product(op: g.BatchMatMul, lanes: int) -> Runs | None:
    """The runs of a product of two activations, the same for all of its lanes; None where a sum can
    leave 32 bits."""
    sides = [(-128 - t.zero_point, 127 - t.zero_point) for t in op.inputs]
    extremes = [first * second for first in sides[0] for second in sides[1]]
    least, most = (op.input.shape[-1] * each for each in (min(extremes), max(extremes)))
    if op.rounding is Rounding.FLOAT32:
        left, scale = 0, op.requantization()[0].view(np.float32).astype(np.float64)
    else:
        scale = op.real_scales()
        left = max(int(quantize_multiplier(scale)[1][0]), 0)
    if max(most, -least) << left > INT32_MAX:
        return None
    one = _runs(op, (np.array([least]), np.array([most])), scale)
    member = np.zeros(lanes, np.int64)
    even = op.rounding is Rounding.FLOAT32
    return replace(one.take(member), alike=one, member=member, ties_to_even=even)


def _with_alike(op: g.Weighted, runs: Runs) -> Runs:
    """Channels of one scale can have one set of multipliers: found once, loaded once."""
    scale, member = np.unique(runs.scale, return_inverse=True)
    if len(scale) == len(runs.scale):
        return runs
    least = np.full(len(scale), INT32_MAX, np.int64)
    most = -least
    live = ~runs.constant
    np.minimum.at(least, member[live], runs.first[live, 0])
    np.maximum.at(most, member[live], runs.last[live, -1])
    unused = least > most
    least[unused] = most[unused] = 0
    return replace(runs, alike=_runs(op, (least, most), scale), member=member)


def _runs(
    op: g.Weighted | g.BatchMatMul, reach: tuple[IntArray, IntArray], scale: NDArray[np.float64]
) -> Runs:
    """By the operator's rule."""
    least, most = reach
    parts, rule_of = [], _rule(op, scale)
    for at in range(0, len(scale), _TOGETHER):
        some = slice(at, at + _TOGETHER)
        rule, edges = rule_of(some)
        parts.append(runs_of_rule(rule, (least[some], most[some]), scale[some], op, edges))
    return _stacked(parts, scale)


def _stacked(parts: Sequence[Runs], scale: NDArray[np.float64]) -> Runs:
    """The channels of all, with as many runs as the richest has."""
    shape = (3, len(scale), max(part.first.shape[1] for part in parts))
    sides, at = np.empty(shape, np.int64), 0
    for part in parts:
        count, width = part.first.shape
        own = sides[:, at : at + count]
        own[:, :, :width] = part.first, part.last, part.value
        own[:, :, width:] = own[:, :, width - 1 : width]
        at += count
    return replace(parts[0], first=sides[0], last=sides[1], value=sides[2], scale=scale)


def _rule(
    op: g.Weighted | g.BatchMatMul, scale: NDArray[np.float64]
) -> Callable[[slice], tuple[_Rule, NDArray[np.float64]]]:
    """Of some channels: accumulators (C, n) -> outputs before zero point and clamp; and (C or 1,
    levels) acc * scale at which about each of these but the lowest begins: half below it, or where
    the first of two roundings takes it from there."""
    column = scale[:, None]
    levels = np.arange(op.low + 1, op.high + 1) - op.output.zero_point
    half = np.asarray((levels - 0.5)[None, :], np.float64)
    if op.rounding is Rounding.FLOAT32:  # half a place around a tie goes to the even
        factor = column.astype(np.float32)
        place = np.abs(np.spacing(half.astype(np.float32))).astype(np.float64)
        edges = half + np.where(levels & 1, 0.5, -0.5) * place
        return lambda some: (partial(requantize_float32, scale=factor[some]), edges)
    if op.rounding is Rounding.SINGLE and isinstance(op, g.Dense):  # TFLite's FULLY_CONNECTED
        return lambda some: (partial(requantize_float64, scale=column[some]), half)
    multiplier, shift = (lane[:, None] for lane in quantize_multiplier(scale))
    if op.rounding is Rounding.SINGLE:
        return lambda some: (
            partial(requantize_single, multiplier=multiplier[some], shift=shift[some]),
            half,
        )
    # The first rounding is half of the second's unit.
    sooner = np.where(shift < 0, 0.5 * 2.0**shift, 0.0)
    return lambda some: (
        partial(requantize_double, multiplier=multiplier[some], shift=shift[some]),
        half - np.sign(half) * sooner[some],
    )


def runs_of_rule(
    rule: _Rule,
    reach: tuple[IntArray, IntArray],
    scale: NDArray[np.float64],
    op: g.Weighted | g.BatchMatMul,
    edges: NDArray[np.float64] | None = None,
) -> Runs:
    """rule: accumulators (C, n) to outputs before zero point and clamp, never decreasing. reach:
    (C,) least and greatest accumulator. edges: (C or 1, levels) acc * scale at which about each
    output but the lowest begins, which the rule then says exactly; None: half below it."""
    zero_point, low, high = op.output.zero_point, op.low, op.high
    least, most = (bound[:, None] for bound in reach)
    # Between the clamps, the output is what the rule says.
    levels = np.arange(low + 1 - zero_point, high + 1 - zero_point, dtype=np.int32)[None, :]
    one = 1 / np.maximum(scale, _NONE)[:, None]
    near = np.ceil((levels - 0.5 if edges is None else edges) * one)
    bounds = least.astype(np.float64), (most + 1).astype(np.float64)
    near = np.minimum(np.maximum(near, bounds[0]), bounds[1])
    start = _least_with(rule, levels, near.astype(np.int64), (least, most))
    # Zero, put where it belongs among what ascends.
    zero = np.clip(0 * least, least, most + 1)
    ends = np.hstack([least, least, start, most + 1])
    first = np.maximum(ends[:, :-1], np.minimum(ends[:, 1:], zero))
    # Where several levels begin at one accumulator, or behind the last one, there is no run.
    inside = np.minimum(first, most)
    last = np.empty_like(inside)
    last[:, :-1], last[:, -1:] = inside[:, 1:] - 1, most
    # The output is the level that began last: of what stands up to here, all but two are levels.
    reached = (first <= most).sum(axis=1, keepdims=True)
    value = low + np.minimum(np.arange(first.shape[1]), reached - 1) - (zero <= inside)
    return _packed((inside, last, value), scale, (zero_point, low, high))


def _least_with(
    rule: _Rule, levels: Array, start: IntArray, reach: tuple[IntArray, IntArray]
) -> IntArray:
    """The least accumulator at which the rule is at least the level, one past the greatest where
    none is."""
    least, most = reach
    levels = np.broadcast_to(levels, start.shape)
    for _ in range(_WALK):
        down = (start > least) & (rule(start - 1) >= levels)
        up = (start <= most) & (rule(start) < levels)
        moved = down | up
        if not moved.any():
            return start
        start = start - down + up
        if (few := _first_where(moved)).shape[1] <= start.shape[1] // 2:  # the others stand
            own, at = (np.take_along_axis(side, few, axis=1) for side in (levels, start))
            np.put_along_axis(start, few, _least_with(rule, own, at, reach), axis=1)
            return start
    below = np.broadcast_to(least - 1, start.shape).copy()
    reached = np.broadcast_to(most + 1, start.shape).copy()
    while (reached - below > 1).any():
        middle = (below + reached) >> 1
        enough = (middle >= least) & (rule(np.clip(middle, least, most)) >= levels)
        settled = reached - below <= 1
        reached = np.where(enough & ~settled, middle, reached)
        below = np.where(~enough & ~settled, middle, below)
    return reached


def _first_where(chosen: NDArray[np.bool_]) -> IntArray:
    """(C, n): the numbers of the columns chosen in each row, then of others; as many as the richest
    row has."""
    count = int(chosen.sum(axis=1).max())
    return np.argsort(~chosen, axis=1, kind="stable")[:, :count]


def _packed(
    columns: tuple[IntArray, IntArray, IntArray],
    scale: NDArray[np.float64],
    clamp: tuple[int, int, int],
) -> Runs:
    """Runs without the empty ones, as many columns as the richest channel has. columns: first, last
    and value."""
    first, last, _ = columns
    exists = last >= first
    if not exists.all():
        count = exists.sum(axis=1, keepdims=True)
        column = np.minimum(np.arange(count.max()), count - 1)
        chosen = np.flatnonzero(exists)[np.cumsum(count)[:, None] - count + column]
        columns = tuple(side.take(chosen) for side in columns)
    return Runs(*columns, scale, *clamp)
