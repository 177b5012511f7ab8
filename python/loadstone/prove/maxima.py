# SPDX-License-Identifier: Apache-2.0
"""The largest of several bytes.

In:   windows of symbols.
Out:  what their largest is, as functions of sources; and the window back from such a function.
Next: operators/pooling.py states max pools so, lanes.py VTA's MAX of two lanes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from loadstone.prove.fingerprints import Integers
from loadstone.prove.functions import FunctionKind
from loadstone.prove.values import CONSTANTS, NO_SOURCE, NO_SYMBOL, Values

__all__ = ["largest", "window_of"]


def largest(values: Values, windows: Sequence[Iterable[int]]) -> tuple[Integers, Integers]:
    """Sources and functions (windows,) of the largest symbol of each window; NO_SOURCE and the
    number where that is a constant."""
    sources = np.full(len(windows), NO_SOURCE)
    functions = np.zeros(len(windows), np.int64)
    least = np.full(len(windows), -128)
    several: list[tuple[int, ...]] = []
    rows: list[int] = []
    for k, window in enumerate(windows):
        symbols = sorted(set(window))
        varying = tuple(symbol for symbol in symbols if symbol >= CONSTANTS)
        fixed = [(symbol ^ 128) - 128 for symbol in symbols[: len(symbols) - len(varying)]]
        least[k] = max(fixed, default=-128)
        if len(varying) == 1:
            origin = values.origin(np.array(varying))
            sources[k], functions[k] = origin[0][0], origin[1][0]
        elif varying:
            several.append(varying)
            rows.append(k)
        else:
            functions[k] = least[k]
    sources[rows], functions[rows] = values.largest(several), values.identity
    varies = np.flatnonzero(sources != NO_SOURCE)
    matters = varies[least[varies] > values.ranges(sources[varies], functions[varies])[0]]
    if len(matters):
        kids = functions[matters][:, None]
        made = values.functions.make(FunctionKind.MAX, least[matters][:, None], kids)
        functions[matters] = made
    return sources, functions


def window_of(values: Values, source: int, function: int) -> set[int] | None:
    """The symbols of which a function of a source is the largest; None where it is none."""
    if source == NO_SOURCE:
        return {function & 255} if -128 <= function <= 127 else None
    functions = values.functions
    one = np.array([function])
    if functions.kind(function) == FunctionKind.MAX:
        kid, least = int(functions.arguments(one)[0, 0]), int(functions.parameters(one)[0, 0])
        inner = window_of(values, source, kid)
        return inner | {least & 255} if inner is not None and -128 <= least <= 127 else None
    if function != values.identity:
        return None
    symbol = int(values.symbols_of(np.array([source]), one)[0])
    symbols = values.symbols_of_largest(source) if symbol == NO_SYMBOL else (symbol,)
    return set(symbols) or None
