# SPDX-License-Identifier: Apache-2.0
"""prove/maxima.py: the largest of several bytes, whatever the order in which they are compared."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone.prove.fingerprints import POINTS, Integers
from loadstone.prove.functions import FIRST, FunctionKind
from loadstone.prove.lanes import SymbolLanes
from loadstone.prove.maxima import joined, largest, windows_of
from loadstone.prove.values import CONSTANTS, NO_SOURCE, Values
from loadstone.prove.windows import NONE
from tests.prove.values_at import ValuesAt
from tests.repeat import times

BYTES = np.array([-100, 40, -128, 7, 127, -3])


def opaque(values: Values, low: int = -128, high: int = 127, n: int = 6) -> list[int]:
    return values.opaque(np.full(n, low), np.full(n, high)).tolist()


def byte(value: int) -> int:
    return value & 255


def rows(windows: list[list[int]]) -> Integers:
    """As an array: NONE beside the symbols of those that have fewer."""
    widest = max(map(len, windows))
    return np.array([window + [NONE] * (widest - len(window)) for window in windows])


def window_of(values: Values, source: int, function: int) -> set[int] | None:
    windows, known = windows_of(values, np.array([source]), np.array([function]))
    return set(windows[0].tolist()) - {NONE} if known[0] else None


def value_of(values: ValuesAt, source: int, function: int) -> int:
    return function if source == NO_SOURCE else values.value(source, function)


@pytest.mark.parametrize("seed", range(times(30, 1000)))
def test_the_largest_is_that_of_the_bytes(seed: int) -> None:
    """Of symbols and constants, some of them twice, in any order; side by side."""
    rng = np.random.default_rng(seed)
    given = rng.integers(-128, 128, 6)
    values = ValuesAt(given)
    symbols = opaque(values)
    held = dict(zip(symbols, given.tolist(), strict=True)) | {byte(k): k for k in range(-128, 128)}
    windows = []
    for _ in range(5):
        window = [*rng.choice(symbols, int(rng.integers(0, 4))).tolist()]
        window += [byte(int(k)) for k in rng.integers(-128, 128, int(rng.integers(0, 3)))]
        windows.append(rng.permutation(window or [byte(5)]).astype(int).tolist())
    found = [a.tolist() for a in largest(values, rows(windows))]
    for window, source, function in zip(windows, *found, strict=True):
        assert value_of(values, source, function) == max(held[k] for k in window)
        known = window_of(values, source, function)
        assert known is not None
        assert max(held[k] for k in known) == max(held[k] for k in window)
    reversed_ = largest(values, rows([window[::-1] + window[:1] for window in windows]))
    assert [a.tolist() for a in reversed_] == found


def test_constants_alone_and_those_that_never_matter() -> None:
    values = Values()
    a, b = opaque(values, -50, 60)[:2]
    sources, functions = largest(
        values,
        rows([[byte(-9)], [byte(-9), byte(12), byte(-128)], [a], [a, byte(-50)], [a, byte(-51)],
              [a, byte(-49)], [a, b], [a, b, byte(-50)], [a, b, byte(-49)]]),
    )  # fmt: skip
    assert sources[:2].tolist() == [NO_SOURCE] * 2
    assert functions[:2].tolist() == [-9, 12]
    (of_a,), _ = values.origin(np.array([a]))
    assert (sources[2:6] == of_a).all()
    assert (functions[[2, 3, 4]] == values.identity).all()
    assert values.functions.kind(int(functions[5])) == FunctionKind.MAX
    assert values.functions.parameters(functions[5:6]).tolist() == [[-49]]
    assert (sources[6:] == sources[6]).all()
    assert values.symbols_of_largest(sources[6:7]).tolist() == [[a, b]]
    assert (functions[6:8] == values.identity).all()
    assert functions[8] == functions[5]


def test_what_is_no_largest_of_bytes_has_no_window() -> None:
    values = Values()
    a, b = opaque(values)[:2]
    (source,), (function,) = values.origin(np.array([a]))
    made = values.functions.make
    kid = np.array([[int(function)]])
    assert window_of(values, int(source), int(function)) == {a}
    for kind, k in ((FunctionKind.MIN, 5), (FunctionKind.SHIFT, 1), (FunctionKind.PRODUCT, 2)):
        other = int(made(kind, np.array([[k]]), kid)[0])
        assert window_of(values, int(source), other) is None
        raised = int(made(FunctionKind.MAX, np.array([[3]]), np.array([[other]]))[0])
        assert window_of(values, int(source), raised) is None
    for k, window in ((-129, None), (-128, {a, 128}), (127, {a, 127}), (128, None)):
        raised = int(made(FunctionKind.MAX, np.array([[k]]), kid)[0])
        assert window_of(values, int(source), raised) == window
        fixed = None if window is None else {byte(k)}
        assert window_of(values, NO_SOURCE, k) == fixed
    both = values.columns(np.array([a, b]))[:POINTS].astype(np.int64).sum(1, keepdims=True)
    both %= values.points.moduli
    ends = np.array([-256]), np.array([254])
    (added,), _ = values.find(both, *ends, make=True)
    assert window_of(values, int(added), FIRST) is None  # its identity is no byte


def test_lanes_know_the_largest_of_windows_in_any_order() -> None:
    """Two by two in one order and in another, with a constant between."""
    values = Values()
    symbols = np.array(opaque(values, n=4))
    lanes = SymbolLanes(values, 8)
    lanes.put_symbols(np.arange(4), symbols)
    lanes.put_symbols(np.arange(4, 8), symbols[::-1])

    def of(lane: int, other: int) -> None:
        lanes.largest(np.array([lane]), np.array([other]))

    for lane, other in ((0, 1), (2, 3), (0, 2), (4, 5), (4, 6), (4, 7)):
        of(lane, other)
    lanes.step(np.array([0]), FunctionKind.MAX, np.array([[9]]))
    lanes.put_numbers(np.array([1]), 9)
    lanes.largest(np.array([4]), np.array([1]))
    first, second = (np.array(a) for a in zip(*(
        [int(a[0]) for a in lanes.resolve(np.array([lane]))] for lane in (0, 4)
    ), strict=True))  # fmt: skip
    assert first[0] == first[1]
    assert second[0] == second[1]
    for lane, other in ((2, 3), (3, 2)):
        lanes.put_symbols(np.array([2, 3]), symbols[:2])
        lanes.step(np.array([2]), FunctionKind.MIN, np.array([[5]]))  # no byte of a window
        lanes.largest(np.array([lane]), np.array([other]))
        (source,), (function,) = lanes.resolve(np.array([lane]))
        assert values.functions.kind(int(function)) == FunctionKind.MAX_OF_TWO
        assert values.is_pair(int(source))
    assert symbols.min() >= CONSTANTS


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
    found = [value_of(values, int(a), int(b)) for a, b in zip(sources, functions, strict=True)]
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


def test_a_function_of_a_largest_is_no_largest() -> None:
    """One of them among others is enough that they have no common window."""
    values = ValuesAt(np.array([3, 90]))
    symbols = values.opaque(np.full(2, -128), np.full(2, 127))
    sources, functions = largest(values, symbols[None])
    least = values.functions.make(FunctionKind.MIN, np.array([[5]]), functions[:, None])
    assert window_of(values, int(sources[0]), int(functions[0])) == set(symbols.tolist())
    assert window_of(values, int(sources[0]), int(least[0])) is None
    sides = np.append(sources, sources), np.append(functions, least)
    assert joined(values, [sides, sides]) is None


@pytest.mark.parametrize(
    ("inner", "outer"), [(5, 3), (5, 4), (5, 5), (5, 6), (6, 5), (-3, -4), (-4, -3), (-128, -127)]
)
def test_of_two_constants_the_larger_one_counts(inner: int, outer: int) -> None:
    values = Values()
    (a,) = opaque(values, n=1)
    sources, functions = values.origin(np.array([a]))
    for limit in (inner, outer):
        limits = np.array([[limit]])
        functions = values.functions.make(FunctionKind.MAX, limits, functions[:, None])
    assert window_of(values, int(sources[0]), int(functions[0])) == {a, byte(max(inner, outer))}
