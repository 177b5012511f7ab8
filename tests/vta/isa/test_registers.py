# SPDX-License-Identifier: Apache-2.0
"""vta/isa/registers.py: registers do not overlap, and a page holds its block."""

from __future__ import annotations

import pytest

from loadstone.vta.isa.registers import BITS, BLOCKS, ERRORS, REGISTER_VALUES, STATES


@pytest.mark.parametrize("block", BLOCKS)
def test_registers_are_words_apart(block: str) -> None:
    taken: set[int] = set()
    for register in BLOCKS[block]:
        assert register.access in ("ro", "rw", "wo", "w1c")
        assert register.doc
        for k in range(register.count):
            offset = register.offset + k * register.stride
            assert offset % 4 == 0
            assert offset not in taken, register.name
            taken.add(offset)
    assert len({register.name for register in BLOCKS[block]}) == len(BLOCKS[block])


def test_states_and_errors_count_from_zero() -> None:
    assert list(STATES.values()) == list(range(len(STATES)))
    assert [value for value, _ in ERRORS.values()] == list(range(len(ERRORS)))
    assert all(what for _, what in ERRORS.values())


def test_constants_fit_a_register() -> None:
    for value in (*BITS.values(), *REGISTER_VALUES.values()):
        assert 0 < value < 1 << 32
    assert REGISTER_VALUES["NATIVE_ID_VALUE"].to_bytes(4, "little") == b"LDS1"
