# SPDX-License-Identifier: Apache-2.0
"""vta/schedule/loops.py: loops and buffers as TVM takes them."""

from __future__ import annotations

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.relax.compat import tirx
from loadstone.vta.schedule.loops import Loops, chip_copy, dram_buffer


def test_a_copy_of_a_buffer_is_as_large_and_in_its_scratchpad() -> None:
    source = dram_buffer("w", (3, 16, 16), "int8")
    copy = chip_copy(source, "wgt")
    assert [int(extent) for extent in copy.shape] == [3, 16, 16]
    assert copy.scope() == "local.wgt"
    assert copy.dtype == source.dtype


def test_loops_stand_around_a_statement_outermost_first() -> None:
    loops = Loops()
    first, second = loops.loop(2, "i"), loops.loop(3, "j")
    target = dram_buffer("t", (2, 3), "int32")
    loops.conditions.append(second < 2)
    nest = loops.around(tirx.BufferStore(target, tirx.IntImm("int32", 0), [first, second]))
    assert [int(nest.extent), int(nest.body.extent)] == [2, 3]
    assert isinstance(nest.body.body, tirx.IfThenElse)
