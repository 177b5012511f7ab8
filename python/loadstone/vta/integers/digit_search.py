# SPDX-License-Identifier: Apache-2.0
"""Multipliers of digits that give a rule's outputs: a search, whose results proof.py judges.

In:   runs of channels (runs.py), how many digits.
Out:  `Found`: per channel the multipliers of the digits, the constant and the shift.
Next: plan.py makes a block's plan of them.

    x = (acc + offset) << left = d0 + 256 d1 (+ 65536 d2)        digits in [-128, 127]
    output = clamp((d0 M0 + d1 M1 (+ d2 M2) + constant) >> shift)

M1 near 256 M0 and M2 near 256 M1, but not equal: M0 has 15 bits, and what it lacks in precision the
others have. Of all candidates near the real scale, each channel gets the first that leaves it a
constant; the nearest come first.

With a sign digit, -1 where the accumulator is negative, both signs have a constant of their own:
TFLite's double rounding moves its grid by one between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from loadstone.vta.integers.native_runs import DigitCandidates, NativeForm, NativeRuns
from loadstone.vta.integers.runs import IntArray, Runs
from loadstone.vta.integers.search import Found

__all__ = ["LARGEST_LOWEST", "DigitForm", "held", "search_digits"]

#: The largest lowest multiplier: two signed digits.
LARGEST_LOWEST = 127 * 256 + 127
#: Distances of M2 with a sign digit: so far the line may lie from the real scale where the first
#: and the last breakpoints of one sign leave it most room, parts of a million.
_TILTS = sorted((sign * far for far in range(120, 1201, 120) for sign in (1, -1)), key=abs)
#: Distances of M1 that are tried where M2 is coarse.
_COARSE = 9
#: A shift of all levels but the last, and a last one by a tile.
_LAST_SHIFT = 15


@dataclass(frozen=True)
class DigitForm:
    """count: digits without the sign digit. signed: with it. left: shift of x before it is split,
    per channel. shift: the last one, per channel; None: what leaves most bits, or a few less."""

    count: int
    signed: bool
    left: IntArray
    shift: IntArray | None = None


def search_digits(runs: Runs, form: DigitForm, channels: IntArray | None = None) -> Found:
    """Every channel of `runs` on its own, or some: their numbers, (n,), which `form` is of, too. A
    channel with one output is never ok."""
    channels = np.arange(len(runs.scale)) if channels is None else channels
    low, high = (side[channels] for side in runs.changing)
    shift = form.shift
    if shift is None:
        scale = np.where(runs.constant[channels], 1.0, runs.scale[channels] / 2.0**form.left)
        with np.errstate(divide="ignore"):
            exponent = np.floor(np.log2(LARGEST_LOWEST / scale))
        shift = np.clip(exponent, 0, 8 * form.count + _LAST_SHIFT).astype(np.int64)
    offset = _centre(runs, form, channels, (low, high))
    own = NativeForm(form.count, form.signed, form.left, shift, offset, low, high)
    rings = _rings(form.count, form.signed, form.shift is not None)
    return Found.of(NativeRuns(runs, channels).digits(own, rings), form.count)


def _centre(
    runs: Runs, form: DigitForm, channels: IntArray, bounds: tuple[IntArray, IntArray]
) -> IntArray:
    """Offsets that put the output 0 at x = 0; where x would then not fit the digits, the middle of
    what changes the output."""
    if form.signed:  # the top digit is negative where the accumulator is
        return np.asarray(-((128 * (256 ** (form.count - 1) - 1) // 255) >> form.left))
    scale = np.where(runs.constant[channels], 1.0, runs.scale[channels])
    with np.errstate(divide="ignore", over="ignore"):
        zero = np.round((runs.zero_point + 0.5) / scale)
    zero_at: IntArray = np.clip(zero, -(2.0**40), 2.0**40).astype(np.int64)
    second = min(1, runs.first.shape[1] - 1)
    centre = -((runs.first[channels, second] + runs.first[channels, -1]) >> 1)
    centre = centre if second else 0 * zero_at
    low, high = ((side + zero_at) << form.left for side in bounds)
    fits = (low >= _least(form.count)) & (high <= _most(form.count))
    return np.where(fits, zero_at, centre)


def held(runs: Runs, count: int) -> NDArray[np.bool_]:
    """(C,): whether so many digits of accumulators hold all between which a channel's output
    changes: where they do not, a search finds nothing."""
    low, high = runs.changing
    return np.asarray(high - low <= _most(count) - _least(count), np.bool_)


def _least(count: int) -> int:
    """x of the lowest top digit with the greatest of the others."""
    return int(-128 * 256 ** (count - 1) + 127 * ((256 ** (count - 1) - 1) // 255))


def _most(count: int) -> int:
    return int(127 * 256 ** (count - 1) - 128 * ((256 ** (count - 1) - 1) // 255))


class _Candidate(NamedTuple):
    """Distances from the nearest: of the shift, and each multiplier. other: take the second nearest
    M0. coarse: M2 has no product at the lowest level, where the top digit stands in the accumulator
    as it is."""

    finer: int
    other: bool
    second: int
    third: int
    coarse: bool = False


def _ring(offsets: Iterable[int], candidates: Iterable[_Candidate]) -> DigitCandidates:
    """All of these with all of those."""
    return DigitCandidates(np.array(list(offsets)), np.array(list(candidates), np.int64))


@lru_cache(maxsize=16)
def _rings(count: int, signed: bool, one_shift: bool) -> tuple[DigitCandidates, ...]:
    """Nearest first. one_shift: the last one is given."""
    near = [(0, 0)]
    seconds, thirds = range(-3, 4), range(-6, 7, 3) if count == 3 else range(1)
    near += sorted(
        ((a, b) for a in seconds for b in thirds if (a, b) != (0, 0)),
        key=lambda pair: abs(pair[0]) * 2 + abs(pair[1]),
    )
    offsets = (0,) if signed else (0, 1, -1, 2, -2)
    ring = 9  # of the nearest multipliers, every offset is tried before the others

    def around(part: Sequence[tuple[int, int]], bits: int) -> Iterator[_Candidate]:
        for finer, other, (second, third) in product(range(bits), (False, True), part):
            yield _Candidate(finer, other, second, third)

    if one_shift:
        rings = [_ring(offsets, around(near[:ring], 1))]
        return (_ring(offsets, _coarse()), *rings) if count == 3 else tuple(rings)
    rings = [_ring(offsets, around(near[:ring], 2))]
    if near[ring:]:
        rings.append(_ring(offsets, around(near[ring:], 2)))
    if not signed:
        rings.append(_ring(range(-126, 127, 36), around(near[:ring], 3)))
    elif count == 3:
        rings.append(_ring(offsets, _tilted()))
    return tuple(rings)


def _coarse() -> Iterator[_Candidate]:
    for other, second in product((False, True), range(-_COARSE, _COARSE + 1)):
        yield _Candidate(0, other, second, 0, coarse=True)


def _tilted() -> Iterator[_Candidate]:
    """Lines that lie off the real scale; in most forms they gain nothing."""
    for third, finer, other, second in product(_TILTS, range(2), (False, True), range(-3, 4)):
        yield _Candidate(finer, other, second, third)
