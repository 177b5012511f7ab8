# SPDX-License-Identifier: Apache-2.0
"""prove/maxima.py: the largest of several bytes, whatever the order in which they are compared."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone.prove.fingerprints import POINTS
from loadstone.prove.functions import FIRST, FunctionKind
from loadstone.prove.lanes import SymbolLanes
from loadstone.prove.maxima import largest, window_of
from loadstone.prove.values import CONSTANTS, NO_SOURCE, Values
from tests.prove.values_at import ValuesAt
from tests.repeat import times

BYTES = np.array([-100, 40, -128, 7, 127, -3])


def opaque(values: Values, low: int = -128, high: int = 127, n: int = 6) -> list[int]:
    return values.opaque(np.full(n, low), np.full(n, high)).tolist()


def byte(value: int) -> int:
    return value & 255


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
    found = [a.tolist() for a in largest(values, windows)]
    for window, source, function in zip(windows, *found, strict=True):
        assert value_of(values, source, function) == max(held[k] for k in window)
        known = window_of(values, source, function)
        assert known is not None
        assert max(held[k] for k in known) == max(held[k] for k in window)
    reversed_ = largest(values, [window[::-1] + window[:1] for window in windows])
    assert [a.tolist() for a in reversed_] == found


def test_constants_alone_and_those_that_never_matter() -> None:
    values = Values()
    a, b = opaque(values, -50, 60)[:2]
    sources, functions = largest(
        values, [[byte(-9)], [byte(-9), byte(12), byte(-128)], [a], [a, byte(-50)], [a, byte(-51)],
                 [a, byte(-49)], [a, b], [a, b, byte(-50)], [a, b, byte(-49)]]
    )  # fmt: skip
    assert sources[:2].tolist() == [NO_SOURCE] * 2
    assert functions[:2].tolist() == [-9, 12]
    (of_a,), _ = values.origin(np.array([a]))
    assert (sources[2:6] == of_a).all()
    assert (functions[[2, 3, 4]] == values.identity).all()
    assert values.functions.kind(int(functions[5])) == FunctionKind.MAX
    assert values.functions.parameters(functions[5:6]).tolist() == [[-49]]
    assert (sources[6:] == sources[6]).all()
    assert values.symbols_of_largest(int(sources[6])) == (a, b)
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
