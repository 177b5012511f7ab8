# SPDX-License-Identifier: Apache-2.0
"""The largest of several bytes.

In:   windows of symbols, many at once.
Out:  what their largest is, as functions of sources; and windows back from such functions.
Next: operators/pooling.py states max pools so, lanes.py VTA's MAX of two lanes.
"""

from __future__ import annotations

import numpy as np

from loadstone.prove.equality import Mask
from loadstone.prove.fingerprints import Integers
from loadstone.prove.functions import FunctionKind
from loadstone.prove.values import CONSTANTS, NO_SOURCE, NO_SYMBOL, Values
from loadstone.prove.windows import NONE, sets

__all__ = ["joined", "largest", "windows_of"]

_LEAST = -128


def largest(values: Values, windows: Integers) -> tuple[Integers, Integers]:
    """Sources and functions (n,) of the largest symbol of each of windows (n, k), in which NONE
    stands beside symbols; NO_SOURCE and the number where that is a constant."""
    fixed = windows < CONSTANTS
    least = np.where(fixed, (windows ^ 128) - 128, _LEAST).max(1)
    varying = sets(np.where(fixed, NONE, windows))
    count = (varying != NONE).sum(1)
    sources, functions = np.full(len(windows), NO_SOURCE), np.where(count == 0, least, 0)
    one = count == 1
    sources[one], functions[one] = values.origin(varying[one, 0])
    several = count > 1
    sources[several], functions[several] = values.largest(varying[several]), values.identity
    at = np.flatnonzero((count > 0) & (least > _LEAST))
    matters = at[least[at] > values.ranges(sources[at], functions[at])[0]]
    if len(matters):
        kids = functions[matters][:, None]
        made = values.functions.make(FunctionKind.MAX, least[matters][:, None], kids)
        functions[matters] = made
    return sources, functions


def windows_of(values: Values, sources: Integers, functions: Integers) -> tuple[Integers, Mask]:
    """Windows (n, k) of which functions of sources (n,) are the largest symbol, and which are such
    a one; the constants of NO_SOURCE are those that are bytes."""
    numbers, fixed = functions.copy(), sources == NO_SOURCE
    least = np.full(len(sources), NONE)
    inner = np.where(fixed, values.identity, functions)
    known = np.ones(len(sources), bool)
    while len(at := np.flatnonzero(values.functions.are(FunctionKind.MAX, inner))):
        limit = values.functions.parameters(inner[at])[0]
        known[at] &= (limit >= -128) & (limit <= 127)
        # Of two constants the larger one counts.
        former = np.where(least[at] == NONE, _LEAST, (least[at] ^ 128) - 128)
        least[at] = np.maximum(former, limit) & 255
        inner[at] = values.functions.arguments(inner[at])[0]
    known &= inner == values.identity
    windows = np.full((len(sources), 1), NONE)
    windows[fixed, 0] = numbers[fixed] & 255
    known[fixed] &= (numbers[fixed] >= -128) & (numbers[fixed] <= 127)
    at = np.flatnonzero(known & ~fixed)
    windows[at, 0] = values.symbols_of(sources[at], inner[at])
    some = at[windows[at, 0] == NO_SYMBOL]
    windows[some, 0] = NONE
    held = values.symbols_of_largest(sources[some])
    wide = np.full((len(sources), max(held.shape[1], 1)), NONE)
    wide[:, :1] = windows
    wide[some, : held.shape[1]] = held
    known[some] &= (held != NONE).any(1)
    return np.concatenate([wide, least[:, None]], 1), known


def joined(
    values: Values, sides: list[tuple[Integers, Integers]]
) -> tuple[Integers, Integers] | None:
    """Sources and functions (n,) of the larger one of two sides, each of them sources and functions
    (n,); None where one of them is no largest of bytes."""
    windows = [windows_of(values, *side) for side in sides]
    if not all(known.all() for _, known in windows):
        return None
    return largest(values, np.concatenate([window for window, _ in windows], 1))
