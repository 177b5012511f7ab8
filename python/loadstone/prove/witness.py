# SPDX-License-Identifier: Apache-2.0
"""Why an element is not proved: a value for which the device's byte is another.

In:   the element, and what a device stored.
Out:  a text.
Next: proof.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from loadstone.prove.equality import all_pairs
from loadstone.prove.fingerprints import Integers
from loadstone.prove.values import Values

__all__ = ["StoredSymbols", "witness"]

_MANY = 1 << 22


@dataclass(frozen=True)
class StoredSymbols:
    """What one instruction stored: symbols."""

    program: str
    instruction: int
    symbols: Integers


def witness(values: Values, symbol: int, stores: list[StoredSymbols]) -> str:
    """Where what a device stored of the same sum differs from the element `symbol`. Of several
    bytes of that sum it is the one that differs for the fewest values: the others are digits."""
    element = values.element(symbol)
    if element is None:
        return "a move"
    source, wanted = element
    best: tuple[int, str, int] | None = None
    for device in values.strange(source):
        if not values.is_pair(source):
            low, high = (int(a[0]) for a in values.source_limits(np.array([source])))
            if high - low >= _MANY:
                continue
            inputs: tuple[Integers, ...] = (np.arange(low, high + 1)[None],)
        else:
            inputs = all_pairs(values.ranges_of_pair(source))
        theirs, ours = (
            values.functions.evaluate(np.array([f]), *inputs)[0] for f in (wanted, device)
        )
        differ = np.flatnonzero(np.abs(theirs - ours) > values.near.tolerance)
        if not len(differ) or (best is not None and len(differ) >= best[0]):
            continue
        at = int(differ[0])
        numbers = " and ".join(str(int(one[0, at])) for one in inputs)
        text = (
            f"for {'bytes' if len(inputs) == 2 else 'sum'} {numbers} the device has "
            f"{int(ours[at])}, the network {int(theirs[at])} ({len(differ)} of {ours.size} values)"
        )
        best = len(differ), text, device
    if best is None:
        return "no byte that the device stored is a function of its sum"
    made, _ = values.internal(np.array([source]), np.array([best[2]]))
    for store in stores:
        if made[0] in store.symbols:
            return f"{best[1]}, stored by instruction {store.instruction} of {store.program}"
    return best[1]
