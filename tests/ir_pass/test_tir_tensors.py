# SPDX-License-Identifier: Apache-2.0
"""ir_pass/tir_tensors.py: buffers as tensors of tiles, and whose value a tensor holds."""

from __future__ import annotations

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.errors import LoweringError
from loadstone.ir_pass.from_tir import nests_of
from loadstone.ir_pass.insert_dma_copy import insert_dma_copy
from loadstone.ir_pass.nest_text import parsed, printed
from loadstone.relax.compat import parsed_tir, tirx
from tests.ir_pass.test_from_tir import SUM, TABLE, read, written


def test_scopes_name_memories_of_the_device() -> None:
    text = written(printed(insert_dma_copy(parsed(SUM), TABLE)))
    with pytest.raises(
        LoweringError,
        match="x_chip has scope 'local.odd', not one of local.inp, local.wgt, local.acc",
    ):
        read(text.replace('scope="local.inp"', 'scope="local.odd"'))
    with pytest.raises(LoweringError, match="acc is allocated in scope 'local', where other buff"):
        read(text.replace('scope="local.acc"', 'scope="local"'))


def test_without_copies_scopes_are_held_against_the_device_alone() -> None:
    named = written(SUM).replace(
        'T.alloc_local((4, 1, 16), "int32")',
        'T.alloc_buffer((4, 1, 16), "int32", scope="local.acc")',
    )
    assert "local.acc" in named
    assert read(named) == SUM
    with pytest.raises(LoweringError, match="fill reads operand 0 from acc, and acc stands in wgt"):
        read(named.replace("local.acc", "local.wgt"))


def test_a_buffer_ends_in_a_tile_and_is_allocated() -> None:
    text = written(SUM)
    with pytest.raises(LoweringError, match=r"y of shape \[9\] ends in no tile"):
        read(text.replace("def rows(", 'def rows(y: T.Buffer((9,), "int8"), '))
    room = '    acc = T.alloc_local((4, 1, 16), "int32")\n'
    assert room in text
    other = room.replace("acc", "other")
    lost = text.replace(room, room + other)
    stray = parsed_tir(lost.replace("acc[i, lane_b, lane] = 0", "other[i, lane_b, lane] = 0"))
    first, *others = stray.body.seq[:]
    assert isinstance(others[0], tirx.AllocBuffer)
    with pytest.raises(LoweringError, match="other is used where it is not allocated"):
        nests_of(stray.with_body(tirx.stmt_seq(first, *others[1:])), TABLE)


def test_a_value_that_was_overtaken_is_not_read() -> None:
    """`tail` works in the place of `acc`; who reads `acc` afterwards would read `tail`."""
    text = """\
func tails:
  local acc: int32[4] x1x16
  param out: int8[4] x1x16
  fill(acc[i] | 5) for i<4
  max(acc[i] | 9) for i<4
  copy(out[i], acc[i]) for i<4
"""
    tir = written(text)
    room = '    acc = T.alloc_local((4, 1, 16), "int32")\n'
    assert room in tir
    tir = tir.replace(room, room + room.replace("acc", "tail"))
    first, _, last = tir.partition("acc[i, lane_b, lane] = T.call_pure_extern")
    overtaken = first + "tail[i, lane_b, lane] = T.call_pure_extern" + last
    with pytest.raises(LoweringError, match="acc is read after another buffer was computed in its"):
        read(overtaken)
    taken = overtaken.replace('T.Cast("int8", acc[', 'T.Cast("int8", tail[')
    assert read(taken) == text
