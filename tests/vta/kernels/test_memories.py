# SPDX-License-Identifier: Apache-2.0
"""vta/kernels/memories.py: what each instruction of a nest reads, and how much room there is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loadstone.errors import LoweringError
from loadstone.ir_pass.nests import NestStep
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.spec import Memory
from loadstone.vta.kernels.memories import memory_table

CONFIG = load_config("vta-pynq")
TABLE = memory_table(CONFIG)


def test_operands_stand_where_the_unit_reads() -> None:
    gemm, rq, copy = (NestStep(name, ()) for name in ("gemm", "rq", "copy"))
    assert [TABLE.memory(gemm, number) for number in range(3)] == ["acc", "inp", "wgt"]
    assert [TABLE.memory(copy, number) for number in range(2)] == [None, "acc"]
    assert [TABLE.memory(rq, number) for number in range(2)] == ["acc", "acc"]
    assert [TABLE.tiles(rq, number) for number in range(2)] == [1, 3]
    with pytest.raises(LoweringError, match="the device has no instruction div"):
        TABLE.memory(NestStep("div", ()), 0)


def test_memories_are_as_deep_as_the_device_says() -> None:
    for memory in (Memory.INP, Memory.WGT, Memory.ACC):
        assert TABLE.depth_tiles[memory.name.lower()] == CONFIG.depth(memory)
    assert memory_table(replace(CONFIG)) is TABLE


def test_operands_stay_where_they_leave_seven_eighths_of_the_accumulators() -> None:
    depth = CONFIG.depth(Memory.ACC)
    assert TABLE.keeps(depth // 8, "acc")
    assert not TABLE.keeps(depth // 8 + 1, "acc")
    assert TABLE.keeps(CONFIG.depth(Memory.WGT), "wgt")
    assert not TABLE.keeps(CONFIG.depth(Memory.WGT) + 1, "wgt")
