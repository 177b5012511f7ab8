# SPDX-License-Identifier: Apache-2.0
"""A sum of inputs times multipliers, shifted: every way to write it as steps of eight bits.

In:   a LinearForm: multipliers, a shift, the offsets that do, and a correction if it needs one.
Out:  chains (chain.py), of which one or another is shorter.
Next: linear_search.py proves the shortest.

    (sum of M[i] * x[i] + r - 2^e * c) >> k

A multiplier is cut into signed digits, and what lies above a cut is added behind a shift. A zero
digit costs nothing, nor do low bits of an offset that are zero; its whole steps may be added at the
end. The correction comes first: it is
made of the inputs, in the accumulator to which they are then added once more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from loadstone.vta.integers.chain import AluStep, Chain, Product, Step

__all__ = ["Correction", "LinearForm", "chains"]

_LARGEST_IMMEDIATE = (1 << 15) - 1
_LARGEST_WEIGHT = 127
#: A digit may be a sum of weights, of a few.
_LARGEST_DIGIT = 4 * _LARGEST_WEIGHT
#: Steps of a chain.
_LONGEST = 60
_RIGHT_LIMIT, _LEFT_LIMIT = 15, 16
#: Bits between the digits, tried in this order: three digits need no other cut.
_CUTS_OF_TWO = (8, *range(1, 8), *range(9, 16))
_CUTS_OF_THREE = ((8, 8), (7, 8), (8, 7), (7, 7), (9, 8), (8, 9))


class Correction(Enum):
    """What c stands for."""

    NONE = "nothing"
    NEGATIVE = "one where the first input is below its zero point"
    EVEN = "one where the quotient is even"


@dataclass(frozen=True)
class LinearForm:
    """(sum of multipliers * inputs + r - 2^exponent * c) >> shift, for any r in offsets (first and
    last).

    zero_points: what each input is centred at, for c. reach: no input less its zero point has a
        larger magnitude. largest: the largest weight that the weights of a product stand for, where
    an input is a weighted sum of tiles.
    """

    multipliers: tuple[int, ...]
    shift: int
    offsets: tuple[int, int]
    zero_points: tuple[int, ...]
    reach: int
    correction: Correction = Correction.NONE
    exponent: int = 0
    largest: int = 1


def chains(form: LinearForm) -> Iterator[Chain]:
    """The form without a clamp, in every way."""
    most = max(map(abs, form.multipliers))
    for cuts in ((), *((cut,) for cut in _CUTS_OF_TWO), *_CUTS_OF_THREE):
        top = most >> sum(cuts)
        if not (sum(cuts) <= form.shift and 0 < top * form.largest <= _LARGEST_DIGIT):
            continue
        start = tuple(_CORRECTIONS[form.correction](form, cuts))
        rest = form.shift - sum(cuts)
        steps = _roundest(*form.offsets) >> form.shift
        for whole in dict.fromkeys((0, steps, steps + 1)):
            first, last = (offset - (whole << form.shift) for offset in form.offsets)
            sums = _sums(form, (first, last), cuts, begun=bool(start))
            chain = (*start, *sums, *_right(rest), *_add(whole))
            if len(chain) <= _LONGEST:
                yield chain


# --------------------------------------------------------------------------------------------------
# Sums
# --------------------------------------------------------------------------------------------------


def _sums(
    form: LinearForm, offsets: tuple[int, int], cuts: tuple[int, ...], *, begun: bool
) -> Iterator[Step]:
    """What is to be added to the accumulator, with shifts by `cuts` between. begun: the accumulator
    holds something already."""
    rest, offset = list(form.multipliers), _roundest(*offsets)
    for level in range(len(cuts) + 1):
        cut = cuts[level] if level < len(cuts) else None
        for number, multiplier in enumerate(rest):
            digit = multiplier if cut is None else _signed(multiplier, cut)
            rest[number] = 0 if cut is None else (multiplier - digit) >> cut
            begun = begun or digit != 0
            yield from (Product(number, weight) for weight in _weights(digit, form.largest))
        if cut is not None and not begun:  # nothing but the offset yet
            offset >>= cut
            continue
        now = offset
        if cut is not None and abs(offset) > _LARGEST_IMMEDIATE:
            now = offset & ((1 << cut) - 1)
        yield from _add(now)
        if cut is not None:
            offset = (offset - now) >> cut
            yield from _right(cut)


def _signed(value: int, bits: int) -> int:
    """The low bits of a value as a signed number."""
    half = 1 << (bits - 1)
    return ((value + half) & ((1 << bits) - 1)) - half


def _roundest(first: int, last: int) -> int:
    """The number of a range with most trailing zeros."""
    if first <= 0 <= last:
        return 0
    for bits in range(40, -1, -1):
        if (number := -(-first >> bits) << bits) <= last:
            return number
    raise AssertionError("an empty range")


def _weights(digit: int, largest: int) -> Iterator[int]:
    """Weights that add up to a digit, and fit eight bits `largest` times."""
    count = -(-abs(digit) * largest // _LARGEST_WEIGHT) if digit else 0
    return (part for part in _parts(digit, count))


def _parts(total: int, count: int) -> Iterator[int]:
    """So many nearly equal numbers that add up to a total."""
    return ((total + part) // count for part in range(count))


def _add(value: int) -> Iterator[Step]:
    """One or several additions; of what is far too much only so many that the chain is too long."""
    count = min(-(-abs(value) // _LARGEST_IMMEDIATE), _LONGEST + 1)
    yield from (AluStep("add", part) for part in _parts(value, count))


def _right(bits: int) -> Iterator[Step]:
    for start in range(0, bits, _RIGHT_LIMIT):
        yield AluStep("shr", min(bits - start, _RIGHT_LIMIT))


def _left(bits: int) -> Iterator[Step]:
    for start in range(0, bits, _LEFT_LIMIT):
        yield AluStep("shr", -min(bits - start, _LEFT_LIMIT))


# --------------------------------------------------------------------------------------------------
# Corrections: -2^exponent where c is 1, else 0
# --------------------------------------------------------------------------------------------------


def _none(_: LinearForm, __: tuple[int, ...]) -> Iterator[Step]:
    return iter(())


def _negative(form: LinearForm, _: tuple[int, ...]) -> Iterator[Step]:
    """The sign of the first input less its zero point, by shifting all else away."""
    yield Product(0, 1)
    yield from _add(-form.zero_points[0])
    yield from _right(form.reach.bit_length())
    yield from _left(form.exponent)


def _even(form: LinearForm, cuts: tuple[int, ...]) -> Iterator[Step]:
    """The last bit of the quotient plus one, moved to the sign. At a tie the quotient is half a
    step away from any other, so that a quarter more or less does not matter."""
    pairs = zip(form.multipliers, form.zero_points, strict=True)
    exact = (1 << form.shift) - sum(multiplier * zero for multiplier, zero in pairs)
    exact = _signed(exact, form.shift + 1)  # an even number of quotients more is no other parity
    quarter = (1 << form.shift) >> 2
    yield from _sums(form, (exact, exact + quarter), cuts, begun=False)
    yield from _left(31 - form.shift + sum(cuts))
    yield AluStep("min", 0)
    yield AluStep("max", -1)
    yield from _left(form.exponent)


_CORRECTIONS = {
    Correction.NONE: _none,
    Correction.NEGATIVE: _negative,
    Correction.EVEN: _even,
}
