# SPDX-License-Identifier: Apache-2.0
"""isa/columns.py against Python's integers: fields that cross words, signs, 64 bits."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from loadstone.isa.columns import put, reserved_bits, take, words_of


@st.composite
def field_of_an_instruction(draw: st.DrawFn) -> tuple[int, int, int]:
    size = draw(st.integers(4, 64))
    width = draw(st.integers(1, min(64, 8 * size)))
    return size, draw(st.integers(0, 8 * size - width)), width


@given(field_of_an_instruction(), st.integers(0, 2**32), st.booleans())
def test_a_field_is_what_the_integer_holds(
    place: tuple[int, int, int], seed: int, signed: bool
) -> None:
    size, start, width = place
    rows = np.random.default_rng(seed).integers(0, 256, (5, size), np.uint8)
    found = take(words_of(rows), start, width, signed=signed)
    for row, value in zip(rows, found.tolist(), strict=True):
        bits = int.from_bytes(row.tobytes(), "little") >> start & (1 << width) - 1
        assert value % (1 << width) == bits
        assert width == 64 or value == bits - (signed and bits >> width - 1) * (1 << width)


@given(field_of_an_instruction(), st.integers(-(2**63), 2**63 - 1))
def test_put_and_take(place: tuple[int, int, int], value: int) -> None:
    size, start, width = place
    words = [np.zeros(2, np.uint64) for _ in range(-(-size // 8))]
    put(words, start, width, np.full(2, value, np.int64))
    packed = sum(int(word[0]) << 64 * k for k, word in enumerate(words))
    assert packed == (value & (1 << width) - 1) << start
    assert int(take(words, start, width)[1]) % (1 << width) == value % (1 << width)


def test_bits_of_no_field() -> None:
    assert reserved_bits([(0, 3), (60, 8)], 16) == [(1 << 60) - 8, (1 << 64) - 16]
    assert reserved_bits([(0, 32)], 4) == [0xFFFFFFFF << 32]
