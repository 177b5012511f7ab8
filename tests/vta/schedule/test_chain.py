# SPDX-License-Identifier: Apache-2.0
"""vta/schedule/chain.py: a chain is operations in place on one accumulator, part by part."""

from __future__ import annotations

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.ir_pass.insert_dma_copy import insert_dma_copy
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.spec import Memory
from loadstone.vta.kernels.emitter import Emitter
from loadstone.vta.kernels.from_nests import kernel_of_nests
from loadstone.vta.kernels.memories import memory_table
from loadstone.vta.schedule.accumulators import Multiply
from loadstone.vta.schedule.chain import ChainSpec, schedule
from loadstone.vta.schedule.epilogue import Immediate
from loadstone.vta.stream.operations import (
    AluNest,
    DramTile,
    FillNest,
    GemmNest,
    Operation,
    TileLoad,
)

CONFIG = load_config("vta-pynq")
STEPS = (
    Multiply(0, 0),
    Multiply(1, 1),
    Immediate("shr", 8),
    Multiply(0, 2),
    Multiply(1, 0),
    Immediate("add", 77),
    Immediate("shr", 7),
    Immediate("max", -128),
)


def operations(spec: ChainSpec) -> list[Operation]:
    function = insert_dma_copy(schedule(spec, CONFIG), memory_table(CONFIG))
    kernel = kernel_of_nests(function, CONFIG)
    emitter = Emitter({})
    kernel.emit(emitter, *(DramTile(name, 0) for name in kernel.parameters))
    return emitter.operations


def test_each_step_is_one_operation_in_place() -> None:
    found = operations(ChainSpec((40,), ((True,), (True,)), STEPS))
    compute = [o for o in found if isinstance(o, FillNest | GemmNest | AluNest)]
    assert [type(o).__name__ for o in compute] == [
        "FillNest",
        *("GemmNest", "GemmNest", "AluNest", "GemmNest", "GemmNest", "AluNest", "AluNest"),
        "AluNest",
    ]
    assert len({o.dst.tile for o in compute}) == 1
    assert [o.wgt.base for o in compute if isinstance(o, GemmNest)] == [0, 1, 2, 0]
    assert sum(isinstance(o, TileLoad) for o in found) == 3  # the weights, and each input once


def test_parts_are_small_enough_to_overlap() -> None:
    found = operations(ChainSpec((4000,), ((True,), (True,)), STEPS))
    sizes = [o.x_size for o in found if isinstance(o, TileLoad) and o.memory is Memory.INP]
    assert sum(sizes) == 2 * 4000
    assert max(sizes) * 4 <= CONFIG.depth(Memory.INP)
    assert sum(isinstance(o, TileLoad) and o.memory is Memory.WGT for o in found) == 1


def test_an_input_that_does_not_move_is_read_with_stride_0() -> None:
    found = operations(ChainSpec((2, 9), ((True, True), (True, False)), STEPS))
    second = [o for o in found if isinstance(o, GemmNest) and o.wgt.base == 1]
    assert all(o.src.strides[-1] == 0 for o in second)
