# SPDX-License-Identifier: Apache-2.0
"""DRAM of a proof: bytes that are known, and symbols of those that are not.

In:   regions of an artifact.
Out:  SymbolDram: symbols of bytes, who wrote them.
Next: machine.py and host_steps.py read and write it.
"""

from __future__ import annotations

import numpy as np

from loadstone.prove.fingerprints import Integers
from loadstone.prove.values import CONSTANTS
from loadstone.prove.verdict import NotProved

__all__ = ["NOBODY", "SymbolDram", "flipped"]

#: What stands in a byte that nobody wrote.
NOBODY = -1


def flipped(symbols: Integers) -> Integers:
    """Symbols, of any shape, of bytes whose uppermost bit is changed, which makes int8 of uint8 and
    uint8 of int8. Symbols of bytes that are not known become negative, and positive again."""
    fixed = (symbols >= 0) & (symbols < CONSTANTS)
    return np.where(fixed, symbols ^ 128, np.where(symbols == NOBODY, NOBODY, -2 - symbols))


class SymbolDram:
    """Regions by their numbers."""

    def __init__(self) -> None:
        self._symbols: dict[int, Integers] = {}
        self._writer: dict[int, Integers] = {}
        self._read_only: set[int] = set()

    def constants(self, region: int, data: bytes) -> None:
        """A region that nobody writes."""
        self._symbols[region] = np.frombuffer(data, np.uint8).astype(np.int64)
        self._read_only.add(region)

    def empty(self, region: int, size_bytes: int) -> None:
        """A region of bytes that nobody wrote."""
        self._symbols[region] = np.full(size_bytes, NOBODY)
        self._writer[region] = np.full(size_bytes, NOBODY)

    def is_constant(self, region: int) -> bool:
        """Whether nobody writes it."""
        return region in self._read_only

    def read(self, region: int, place: Integers, who: str) -> Integers:
        """Symbols of the bytes at place, of any shape; NOBODY where nobody wrote. Raises NotProved
        for places outside."""
        return np.asarray(self._held(region, place, who)[place])

    def write(self, region: int, place: Integers, symbols: Integers, who: str, writer: int) -> None:
        """Writes symbols to the bytes at `place`, which has the same shape. Raises NotProved for
        places that may not be written."""
        if region in self._read_only:
            raise NotProved(f"{who} writes region {region}, which is constant")
        self._held(region, place, who)[place] = symbols
        self._writer[region][place] = writer

    def writer(self, region: int, place: int) -> int:
        """Who wrote a byte, as `write` was told; NOBODY."""
        return NOBODY if region in self._read_only else int(self._writer[region][place])

    def _held(self, region: int, place: Integers, who: str) -> Integers:
        if region not in self._symbols:
            raise NotProved(f"{who} names region {region}, which the artifact has not")
        held = self._symbols[region]
        if place.size and not 0 <= int(place.min()) <= int(place.max()) < len(held):
            raise NotProved(
                f"{who} reaches byte {int(place.max())} of region {region}, which has {len(held)}"
            )
        return held
