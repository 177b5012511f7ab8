# SPDX-License-Identifier: Apache-2.0
"""prove/maxima.py: the largest of windows has, for given bytes, the value of the largest byte."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone.prove.functions import FunctionKind
from loadstone.prove.maxima import joined, largest, windows_of
from loadstone.prove.values import NO_SOURCE
from loadstone.prove.windows import NONE
from tests.prove.values_at import ValuesAt
from tests.repeat import times

_N = 12


@pytest.mark.parametrize("seed", range(times(5, 200)))
def test_windows_have_the_value_of_their_largest_byte(seed: int) -> None:
    """Windows with constants, with one symbol, with the same ones in another order; each comes back
    from the function, and two joined are the window of both."""
    rng = np.random.default_rng(seed)
    given = rng.integers(-128, 128, _N)
    values = ValuesAt(given)
    low = rng.integers(-128, given + 1)
    symbols = values.opaque(low, np.full(_N, 127))
    bytes_of = dict(zip(symbols.tolist(), given.tolist(), strict=True))

    def value(window: list[int]) -> int:
        held = [symbol for symbol in window if symbol != NONE]
        return max(bytes_of.get(symbol, (symbol ^ 128) - 128) for symbol in held)

    windows = rng.choice(symbols, (40, 4))
    windows = np.where(rng.random(windows.shape) < 0.2, rng.integers(0, 256, (40, 4)), windows)
    windows[:, 1:] = np.where(rng.random((40, 3)) < 0.3, NONE, windows[:, 1:])
    sources, functions = largest(values, windows)
    found = [value_of(values, *one) for one in zip(sources, functions, strict=True)]
    assert found == [value(window) for window in windows.tolist()]
    mixed = rng.permuted(windows, axis=1)
    assert [a.tolist() for a in largest(values, mixed)] == [sources.tolist(), functions.tolist()]

    back, known = windows_of(values, sources, functions)
    assert known.all()
    assert [value(window) for window in back.tolist()] == found
    other = rng.permutation(40)
    both = joined(values, [(sources, functions), (sources[other], functions[other])])
    assert both is not None
    wanted = largest(values, np.concatenate([windows, windows[other]], 1))
    assert [a.tolist() for a in both] == [a.tolist() for a in wanted]


def value_of(values: ValuesAt, source: int, function: int) -> int:
    return function if source == NO_SOURCE else values.value(int(source), int(function))


def test_what_is_no_largest_of_bytes() -> None:
    """A function of a byte that is no maximum, a number or a limit beyond a byte, a sum."""
    values = ValuesAt(np.array([3, 4]))
    symbols = values.opaque(np.full(2, -128), np.full(2, 127))
    sources, _ = values.origin(symbols)
    wide, _ = values.find(values.points.draw(1), np.array([-900]), np.array([900]), make=True)
    identity = np.array([[values.identity]])
    least, most, beyond = (
        int(values.functions.make(kind, np.array([[limit]]), identity)[0])
        for kind, limit in (
            (FunctionKind.MIN, 5),
            (FunctionKind.MAX, 5),
            (FunctionKind.MAX, 128),
        )
    )
    twice = int(values.functions.make(FunctionKind.MAX, np.array([[-128]]), np.array([[most]]))[0])
    below = int(values.functions.make(FunctionKind.MAX, np.array([[-129]]), np.array([[most]]))[0])
    asked = {
        (int(sources[0]), least): False,
        (int(sources[0]), most): True,
        (int(sources[0]), beyond): False,
        (int(sources[0]), twice): True,
        (int(sources[0]), below): False,
        (int(wide[0]), values.identity): False,
        (NO_SOURCE, 127): True,
        (NO_SOURCE, 128): False,
        (NO_SOURCE, -128): True,
        (NO_SOURCE, -129): False,
        (int(sources[1]), values.identity): True,
    }
    sides = np.array(list(asked)).T
    windows, known = windows_of(values, sides[0], sides[1])
    assert known.tolist() == list(asked.values())
    sets = [set(window) - {NONE} for window in windows.tolist()]
    assert sets[1] == sets[3] == {int(symbols[0]), 5}
    assert (sets[6], sets[8], sets[10]) == ({127}, {128}, {int(symbols[1])})
    one = sources[:1], np.array([values.identity])
    assert joined(values, [one, (sources[:1], np.array([least]))]) is None
    assert joined(values, [one, one]) is not None
