# SPDX-License-Identifier: Apache-2.0
"""vta/schedule/loops.py: loops and buffers as TVM takes them."""

from __future__ import annotations

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.relax.compat import tirx
from loadstone.vta.schedule.loops import Loops, dram_buffer


def test_loops_stand_around_a_statement_outermost_first() -> None:
    loops = Loops()
    first, second = loops.loop(2, "i"), loops.loop(3, "j")
    target = dram_buffer("t", (2, 3), "int32")
    loops.conditions.append(second < 2)
    nest = loops.around(tirx.BufferStore(target, tirx.IntImm("int32", 0), [first, second]))
    assert [int(nest.extent), int(nest.body.extent)] == [2, 3]
    assert isinstance(nest.body.body, tirx.IfThenElse)
