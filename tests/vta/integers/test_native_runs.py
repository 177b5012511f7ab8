# SPDX-License-Identifier: Apache-2.0
"""vta/integers/native_runs.py and native/: the searches in C++ are those of plain Python."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from loadstone.vta.integers.native_runs import (
    DigitCandidates,
    NativeForm,
    NativeRuns,
    NativeStairs,
)
from loadstone.vta.integers.runs import IntArray, Runs
from tests.repeat import times
from tests.vta.integers.made import made_runs

_FAR = 1 << 60
Sum = Callable[[int], int]
Bounds = tuple[int, int]


def _runs(rng: np.random.Generator) -> Runs:
    """Some channels, one of them with one output."""
    scale = rng.uniform(0.001, 0.9, 5) * 2.0 ** -rng.integers(0, 6, 5)
    ends = np.sort(rng.integers(-6_000, 6_000, 2))
    rule = str(rng.choice(["double", "float32"]))
    runs = made_runs(scale, (int(ends[0]), int(ends[1]) + 1), rule, int(rng.integers(-128, 128)))
    runs = replace(runs, tolerance=int(rng.integers(0, 8) == 0))
    runs.value[0] = runs.value[0, 0]
    return runs


def _bounds(runs: Runs, lane: int, total: Sum, shift: int, sign: int | None) -> Bounds:
    """Of the constant, at every end of every run; sign: of accumulators below zero (-1), from zero
    on (1), of all (None)."""
    least, most = -_FAR, _FAR
    columns = (runs.first[lane], runs.last[lane], runs.value[lane])
    for first, last, value in zip(*(side.tolist() for side in columns), strict=True):
        if sign is not None and (last < 0) != (sign < 0):
            continue
        if value - runs.tolerance > runs.low:
            least = max(least, ((value - runs.tolerance) << shift) - total(first))
        if value + runs.tolerance < runs.high:
            most = min(most, ((value + runs.tolerance + 1) << shift) - 1 - total(last))
    return least, most


def _constants(
    runs: Runs, lane: int, total: Sum, shift: int, *, signed: bool
) -> tuple[int, int] | None:
    """The constant from zero on, and what the sign digit is multiplied by."""
    windows = [_bounds(runs, lane, total, shift, sign) for sign in ((-1, 1) if signed else (None,))]
    if any(least > most for least, most in windows):
        return None
    middles = [
        most if least == -_FAR else least if most == _FAR else (least + most) // 2
        for least, most in windows
    ]
    bounded = [middle for middle in middles if middle != _FAR]
    if len(bounded) == 2:
        return middles[1], middles[1] - middles[0]
    return (bounded or [_FAR])[0], 0


def _digit_sum(multipliers: list[int], offset: int, left: int) -> Sum:
    def total(acc: int) -> int:
        x, found = (acc + offset) << left, 0
        for multiplier in multipliers[:-1]:
            digit = (x + 128) % 256 - 128
            found, x = found + multiplier * digit, (x - digit) // 256
        return found + multipliers[-1] * min(max(x, -128), 127)

    return total


def _multipliers(candidate: list[int], real: float, count: int) -> list[int]:
    _, other, second, third, coarse = candidate
    nearest = math.floor(real + 0.5)
    beside = nearest + 1 if real >= nearest else nearest - 1
    found = [min(max(beside if other else nearest, 1), 127 * 257), round(real * 256) + second]
    step = 256 if coarse else 1
    third = round((real * 65536 - 1) / step) * step + 1 + third
    return [*found, third][:count]


def _tried(
    form: NativeForm, ring: DigitCandidates, lane: int, scale: float
) -> Iterator[tuple[list[int], int, int]]:
    """Multipliers, shift and offset, in their order."""
    left, shift, centre, low, high = (
        int(side[lane]) for side in (form.left, form.shift, form.offset, form.low, form.high)
    )
    bytes_ = [-128, 127]
    bounds = [
        bytes_[top] * 256 ** (form.count - 1)
        + bytes_[1 - top] * sum(256**k for k in range(form.count - 1))
        for top in (0, 1)
    ]
    for offset in (ring.offsets + centre).tolist():
        if (low + offset) << left < bounds[0] or (high + offset) << left > bounds[1]:
            continue
        for candidate in ring.candidates.tolist():
            own = shift - candidate[0]
            multipliers = _multipliers(candidate, scale * 2.0 ** (own - left), form.count)
            rises = all(m >= 255 * sum(multipliers[:k]) for k, m in enumerate(multipliers) if k)
            if own >= 0 and rises:
                yield multipliers, own, offset


def _digits(
    runs: Runs, form: NativeForm, rings: tuple[DigitCandidates, ...], lane: int
) -> IntArray:
    row = np.zeros(8, np.int64)
    if runs.value[lane, 0] == runs.value[lane, -1]:
        return row
    for ring in rings:
        for multipliers, shift, offset in _tried(form, ring, lane, float(runs.scale[lane])):
            total = _digit_sum(multipliers, offset, int(form.left[lane]))
            found = _constants(runs, lane, total, shift, signed=form.signed)
            if found is not None:
                row[: 1 + form.count] = 1, *multipliers
                row[4:] = *found, shift, offset
                return row
    return row


def _random_form(rng: np.random.Generator, runs: Runs, channels: IntArray) -> NativeForm:
    count, signed = int(rng.integers(2, 4)), bool(rng.integers(0, 2))
    left = rng.integers(0, 3, len(channels))
    scale = runs.scale[channels] / 2.0**left
    shift = np.clip(np.floor(np.log2(127 * 257 / scale)), 0, 39).astype(np.int64)
    centre = -(128 * (256 ** (count - 1) - 1) // 255) >> left if signed else 0 * left
    low, high = (side[channels] for side in runs.changing)
    return NativeForm(
        count, signed, left, np.maximum(shift - rng.integers(0, 10), 0), centre, low, high
    )


def _random_rings(rng: np.random.Generator) -> tuple[DigitCandidates, ...]:
    def ring() -> DigitCandidates:
        least, most = [0, 0, -3, -6, 0], [3, 2, 4, 7, 2]
        return DigitCandidates(rng.integers(-3, 4, 2), rng.integers(least, most, (6, 5)))

    return ring(), ring()


@pytest.mark.parametrize("seed", range(times(40, 400)))
def test_digits_are_the_first_that_are_right(seed: int) -> None:
    rng = np.random.default_rng(seed)
    runs, channels = _runs(rng), np.array([4, 0, 2, 1, 3, 2])
    form, rings = _random_form(rng, runs, channels), _random_rings(rng)
    found = NativeRuns(runs, channels).digits(form, rings)
    own = runs.take(channels)
    for lane in range(len(channels)):
        np.testing.assert_array_equal(found[lane], _digits(own, form, rings, lane))


@pytest.mark.parametrize("seed", range(times(40, 400)))
def test_parts_are_the_first_that_are_right(seed: int) -> None:
    rng = np.random.default_rng(seed)
    runs = _runs(rng)
    shift, limit = rng.integers(0, 40, 5), rng.integers(1, 1 << 24, 5)
    shift = np.minimum(shift, np.floor(np.log2(limit / runs.scale)).astype(np.int64)).clip(0)
    found = NativeRuns(runs, np.arange(5)).parts(shift, limit)
    for lane in range(5):
        np.testing.assert_array_equal(found[lane], _part(runs, lane, shift[lane], limit[lane]))


def _part(runs: Runs, lane: int, shift: int, limit: int) -> list[int]:
    if runs.value[lane, 0] == runs.value[lane, -1]:
        return [0] * 8
    for finer, distance in product(range(3), (0, 1, -1, 2, -2)):
        own = max(int(shift) - finer, 0)
        slope = round(float(runs.scale[lane]) * 2.0**own) + distance
        found = _constants(runs, lane, lambda acc, m=slope: acc * m, own, signed=False)
        if found and 0 < slope <= limit:
            return [1, slope, 0, 0, *found, own, 0]
    return [0] * 8


@pytest.mark.parametrize("seed", range(times(40, 400)))
def test_a_sign_is_needed_where_no_line_is_right_but_two_are(seed: int) -> None:
    rng = np.random.default_rng(seed)
    runs, shift, distances = _runs(rng), np.full(5, 36), np.array([0, 1 << 16, -(1 << 16)])
    slope = np.round(runs.scale * 2.0**36).astype(np.int64)
    needs = NativeRuns(runs, np.arange(5)).needs_sign(slope, shift, distances)
    for lane in range(5):
        one, two = (
            any(
                _constants(runs, lane, lambda acc, m=m: acc * m, 36, signed=signed)
                for m in (slope[lane] + distances).tolist()
            )
            for signed in (False, True)
        )
        assert needs[lane] == (two and not one and lane != 0)


@pytest.mark.parametrize("seed", range(times(40, 400)))
def test_stairs_are_the_first_that_are_right(seed: int) -> None:
    rng = np.random.default_rng(seed)
    runs, channels = _runs(rng), np.array([4, 0, 2, 1, 3, 2])
    left, windows = rng.integers(0, 3, 6), int(rng.integers(1, 5))
    bits = np.floor(np.log2(16383 / runs.scale[channels])).astype(np.int64)
    form = NativeStairs(
        bool(rng.integers(0, 2)),
        left,
        bits - 8,
        runs.scale[channels] * 2.0 ** (bits - left),
        rng.integers(0, windows, 256),
        windows,
        rng.integers([0, -3, -6], [2, 4, 7], (6, 3)),
    )
    offsets, fits = rng.integers(-40_000, 40_000, (4, 6)), rng.integers(0, 4, (4, 6)) > 0
    rows, bounds = NativeRuns(runs, channels).stairs(form, offsets, fits)
    for lane, channel in enumerate(channels):
        tried = offsets[fits[:, lane], lane].tolist()
        row, own = _stairs(runs.take(np.array([channel])), form, lane, tried)
        assert rows[lane].tolist() == row
        assert bounds[lane].tolist() == own


def _stairs(
    runs: Runs, form: NativeStairs, lane: int, offsets: list[int]
) -> tuple[list[int], list[list[int]]]:
    """Of one channel: the row that is found, and bounds of all constants."""
    real, left = float(form.real[lane]), int(form.left[lane])
    for offset, (other, second, third) in product(offsets, form.bends.tolist()):
        nearest = round(real)
        beside = nearest + 1 if real >= nearest else nearest - 1
        multipliers = [
            beside if other else nearest,
            round(real * 256) + second,
            round(real * 65536) + third,
        ]
        total = _digit_sum(multipliers, offset, left)

        def y(acc: int, total: Sum = total, offset: int = offset) -> int:
            negative = form.signed and (acc + offset) << left < -128 - 128 * 256
            return (total(acc) - negative) // 256

        bounds = [[-_FAR, _FAR] for _ in range(form.windows)]
        columns = (runs.last[0, :-1], runs.value[0, :-1], runs.first[0, 1:], runs.value[0, 1:])
        for before, old, behind, new in zip(*(side.tolist() for side in columns), strict=True):
            if new > old:
                own, level = bounds[form.window_of[new - runs.low]], new << int(form.unit[lane])
                own[:] = max(own[0], level - y(behind)), min(own[1], level - 1 - y(before))
        rises = all(m >= 255 * sum(multipliers[:k]) for k, m in enumerate(multipliers))
        if rises and multipliers[0] > 0 and all(least <= most for least, most in bounds):
            return [1, *multipliers, 0, 0, 0, offset], bounds
    return [0] * 8, [[0, 0]] * form.windows


def test_sizes_are_checked_before_addresses_are_given_out() -> None:
    runs = made_runs(np.array([0.01, 0.02]), (-500, 500), "double", 0)
    two = np.zeros(2, np.int64)
    for channels in ([2], [-1], [0, 1, 7]):
        with pytest.raises(AssertionError):
            NativeRuns(runs, np.array(channels))
    with pytest.raises(AssertionError):
        NativeRuns(replace(runs, last=runs.last[:1]), np.array([0]))
    own = NativeRuns(runs, np.array([0, 1]))
    with pytest.raises(AssertionError):
        own.parts(two[:1], two)
    form = NativeForm(2, False, *[two] * 5)
    for wrong in (replace(form, count=4), replace(form, left=two[:1])):
        with pytest.raises(AssertionError):
            own.digits(wrong, ())
    with pytest.raises(AssertionError):
        own.digits(form, (DigitCandidates(two, np.zeros((3, 4), np.int64)),))
    stairs = NativeStairs(
        False, two, two + 1, two + 1.0, np.zeros(256, np.int64), 1, np.zeros((1, 3), np.int64)
    )
    for window_of in (two, np.full(256, 1), np.full(256, -1)):
        with pytest.raises(AssertionError):
            own.stairs(replace(stairs, window_of=window_of), two[None], two[None] > 0)
    assert not NativeRuns(runs, two[:0]).parts(two[:0], two[:0]).size
