# SPDX-License-Identifier: Apache-2.0
"""vta/schedule/window.py: where the input stays, what is cut, and which part of the output."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.errors import LoweringError
from loadstone.ir_pass.insert_dma_copy import insert_dma_copy
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.spec import Memory
from loadstone.vta.kernels.emitter import Emitter
from loadstone.vta.kernels.from_nests import kernel_of_nests
from loadstone.vta.kernels.memories import memory_table
from loadstone.vta.schedule.accumulators import Multiply
from loadstone.vta.schedule.epilogue import Immediate
from loadstone.vta.schedule.window import WindowSpec, schedule
from loadstone.vta.stream.operations import DramTile, Operation, TileLoad, TileStore

CONFIG = load_config("vta-pynq")
SPEC = WindowSpec(
    blocks=2,
    input=(12, 10),
    output=(12, 10),
    kernel=(3, 3),
    strides=(1, 1),
    padding=(1, 1),
    first=(0, 0),
    part=(12, 10),
    steps=(Multiply(0, 0), Immediate("shr", 8), Multiply(0, 1), Immediate("shr", 7)),
)


def operations(spec: WindowSpec) -> list[Operation]:
    function = insert_dma_copy(schedule(spec, CONFIG), memory_table(CONFIG))
    kernel = kernel_of_nests(function, CONFIG)
    emitter = Emitter({})
    kernel.emit(emitter, *(DramTile(name, 0) for name in kernel.parameters))
    return emitter.operations


def loads(found: list[Operation]) -> list[TileLoad]:
    return [o for o in found if isinstance(o, TileLoad) and o.memory is Memory.INP]


def test_the_input_is_loaded_once_for_all_products() -> None:
    found = loads(operations(SPEC))
    assert len(found) >= 4  # in parts, so that loads and stores overlap
    assert sum(o.x_size * o.y_size for o in found) < 1.6 * 2 * 120
    assert all(o.pad_value == 0 for o in found)


def test_a_part_of_the_output_is_stored_where_it_belongs() -> None:
    found = operations(replace(SPEC, first=(1, 1), part=(10, 8)))
    assert all(not (o.x_pad_0 or o.x_pad_1 or o.y_pad_0 or o.y_pad_1) for o in loads(found))
    written = {
        o.dram.tile + y * o.x_stride + x
        for o in found
        if isinstance(o, TileStore)
        for y in range(o.y_size)
        for x in range(o.x_size)
    }
    inside = {c * 120 + y * 10 + x for c in (0, 1) for y in range(1, 11) for x in range(1, 9)}
    assert written == inside


def test_a_sum_of_more_tiles_than_fit_is_loaded_for_each_product() -> None:
    size = CONFIG.depth(Memory.INP) + 100
    whole = replace(SPEC, input=(size, 1), output=(1, 1), kernel=(size, 1), padding=(0, 0))
    found = loads(operations(replace(whole, blocks=1, part=(1, 1))))
    assert sum(o.x_size * o.y_size for o in found) == 2 * size
    assert max(o.x_size * o.y_size for o in found) * 2 <= CONFIG.depth(Memory.INP)


def test_a_row_of_a_window_that_does_not_fit_is_refused() -> None:
    size = CONFIG.depth(Memory.INP) + 100
    whole = replace(SPEC, input=(1, size), output=(1, 1), kernel=(1, size), padding=(0, 0))
    with pytest.raises(LoweringError, match="fit no scratchpad of vta-pynq"):
        operations(replace(whole, blocks=1, part=(1, 1)))
