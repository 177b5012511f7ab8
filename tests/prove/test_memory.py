# SPDX-License-Identifier: Apache-2.0
"""prove/memory.py: bytes of DRAM are where they were written, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone.prove.memory import NOBODY, SymbolDram, flipped
from loadstone.prove.values import CONSTANTS
from loadstone.prove.verdict import NotProved


def at(*places: int) -> np.ndarray:
    return np.array(places, np.int64)


def dram() -> SymbolDram:
    made = SymbolDram()
    made.constants(0, bytes([7, 200, 255]))
    made.empty(1, 4)
    return made


def test_what_is_written_is_read() -> None:
    held = dram()
    assert held.read(0, at(2, 0), "the test").tolist() == [255, 7]
    assert (held.is_constant(0), held.is_constant(1), held.is_constant(2)) == (True, False, False)
    assert held.read(1, at(0, 1, 2, 3), "the test").tolist() == [NOBODY] * 4
    held.write(1, at(3, 1), at(300, 5), "the test", 8)
    assert held.read(1, at(0, 1, 2, 3), "the test").tolist() == [NOBODY, 5, NOBODY, 300]
    assert [held.writer(1, k) for k in range(4)] == [NOBODY, 8, NOBODY, 8]
    assert held.writer(0, 1) == NOBODY
    held.write(1, at(1), at(6), "the test", 9)
    assert [held.writer(1, k) for k in (1, 3)] == [9, 8]


@pytest.mark.parametrize("place", [at(), at(0), at(3), at(0, 3)])
def test_places_inside(place: np.ndarray) -> None:
    held = dram()
    assert held.read(1, place, "the test").shape == place.shape
    held.write(1, place, place, "the test", 1)


@pytest.mark.parametrize("place", [at(-1), at(4), at(0, 4), at(-1, 0), at(2, -4), at(9, 1)])
def test_places_outside(place: np.ndarray) -> None:
    held = dram()
    with pytest.raises(NotProved, match=f"reaches byte {place.max()} of region 1, which has 4"):
        held.read(1, place, "LOAD")
    with pytest.raises(NotProved, match="STORE reaches byte"):
        held.write(1, place, place, "STORE", 1)
    assert (held.read(1, at(0, 1, 2, 3), "the test") == NOBODY).all()


def test_regions_that_are_constant_or_missing() -> None:
    held = dram()
    with pytest.raises(NotProved, match="STORE writes region 0, which is constant"):
        held.write(0, at(1), at(1), "STORE", 1)
    assert held.read(0, at(1), "the test").tolist() == [200]
    with pytest.raises(NotProved, match="LOAD names region 2, which the artifact has not"):
        held.read(2, at(0), "LOAD")
    with pytest.raises(NotProved, match="STORE names region 2"):
        held.write(2, at(0), at(0), "STORE", 1)


def test_levels_of_uint8_are_bytes_with_another_bit() -> None:
    symbols = at(0, 127, 128, 255, CONSTANTS, CONSTANTS + 7, NOBODY)
    assert flipped(symbols).tolist() == [128, 255, 0, 127, -2 - CONSTANTS, -9 - CONSTANTS, NOBODY]
    assert (flipped(flipped(symbols)) == symbols).all()
    assert (flipped(symbols.reshape(7, 1)) == flipped(symbols)[:, None]).all()
