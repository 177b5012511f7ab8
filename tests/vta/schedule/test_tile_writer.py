# SPDX-License-Identifier: Apache-2.0
"""vta/schedule/tile_writer.py: statements on whole tiles, lowered and run in NumPy; a tile that
hangs over the output touches nothing beyond it; functions share what is the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.ir_pass.insert_dma_copy import insert_dma_copy
from loadstone.ir_pass.nests import (
    Function,
    NestLoop,
    NestTensor,
    Statement,
    once,
)
from loadstone.ir_pass.to_tir import prim_func
from loadstone.relax.compat import tirx
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.kernels.emitter import Emitter
from loadstone.vta.kernels.from_nests import kernel_of_nests
from loadstone.vta.kernels.memories import memory_table
from loadstone.vta.schedule.epilogue import Immediate
from loadstone.vta.schedule.rescaled import schedule
from loadstone.vta.schedule.rescaled_spec import ChainShape, LevelShape, RescaledSpec, Window
from loadstone.vta.schedule.tile_writer import TileWriter
from loadstone.vta.stream.operations import DramTile, TileStore
from tests.vta.stream.meaning import execute

CONFIG = load_config("vta-pynq")
OUTPUT = (5, 6)
BLOCKS = 2


def run(tile: tuple[int, int]) -> tuple[NDArray[np.int8], list[TileStore]]:
    """acc = 5000, then each lane to the right by its operand, less 40, held to -30 .. 99; of two
    blocks of 5 x 6 pixels, with an operand tile for each block."""
    own = TileWriter(BLOCKS, OUTPUT, tile, CONFIG)
    operands = NestTensor("p", (BLOCKS, 1), own.lanes, "int32", "table")
    statements = [
        own.cleared(own.acc),
        own.immediate(Immediate("add", 5000)),
        own.by_tile("shr", operands, 0),
        own.immediate(Immediate("add", -40)),
        own.clamp(-30, 99),
        own.store(own.out),
    ]
    function = Function("test", (operands, own.acc, own.out), own.turns.around(statements))
    kernel = kernel_of_nests(insert_dma_copy(function, memory_table(CONFIG)), CONFIG)
    emitter = Emitter({})
    kernel.emit(emitter, *(DramTile(name, 0) for name in kernel.parameters))
    pixels = OUTPUT[0] * OUTPUT[1]
    shifts = np.stack([np.arange(16), np.arange(16)[::-1]])[:, None].astype(np.int32)
    dram: dict[str, NDArray[Any]] = {
        "p": shifts,
        "out": np.full((BLOCKS * pixels, 1, 16), 77, np.int8),
    }
    execute(emitter.operations, dram, CONFIG)
    stores = [operation for operation in emitter.operations if isinstance(operation, TileStore)]
    return dram["out"].reshape(BLOCKS, pixels, 16), stores


@pytest.mark.parametrize("tile", [(5, 6), (2, 6), (3, 6), (1, 3)])
def test_every_pixel_of_every_block_is_written_once(tile: tuple[int, int]) -> None:
    result, stores = run(tile)
    wanted = np.clip((5000 >> np.arange(16)) - 40, -30, 99)
    for pixel in range(OUTPUT[0] * OUTPUT[1]):
        np.testing.assert_array_equal(result[0, pixel], wanted)
        np.testing.assert_array_equal(result[1, pixel], wanted[::-1])
    written = [
        store.dram.tile + y * store.x_stride + x
        for store in stores
        for y in range(store.y_size)
        for x in range(store.x_size)
    ]
    assert sorted(written) == list(range(BLOCKS * OUTPUT[0] * OUTPUT[1]))


def test_a_nest_is_written_once_for_several_functions() -> None:
    tile = TileWriter(1, (4, 4), (2, 4), CONFIG)
    nest = once(tile.shift, 3, tile.acc)
    assert once(tile.shift, 3, tile.acc) is nest
    assert once(tile.shift, 4, tile.acc) is not nest
    assert once(tile.shift, 3, tile.more[0]) is not nest
    assert once(TileWriter(1, (4, 4), (2, 4), CONFIG).shift, 3, tile.acc) is not nest


def inside(function: Function) -> tuple[Statement, ...]:
    """What stands in the loops around everything."""
    body = function.body
    while len(body) == 1 and isinstance(body[0], NestLoop):
        body = body[0].body
    return body


def test_functions_that_differ_in_their_chain_share_all_else_and_are_well_formed() -> None:
    one = (1, 1)
    window = Window(1, 1, (4, 4), (4, 4), one, one, one, (0, 0), 0)
    levels = (LevelShape(0, ((0, 2),), 1), LevelShape(8, ((0, 2),), 1), LevelShape(8, ((1, 1),), 0))
    chain = ChainShape(levels, 8, -128, 127)
    spec = RescaledSpec(window, 1, False, (4, 4, 1), 1, 0, False, 2, False, False, chain, 1)
    others = replace(spec, chain=replace(chain, high=100))
    table = memory_table(CONFIG)
    functions = [insert_dma_copy(schedule(each, CONFIG), table) for each in (spec, others)]
    assert all(tirx.analysis.verify_well_formed(prim_func(each, table)) for each in functions)
    bodies = [inside(each) for each in functions]
    different = [number for number, (a, b) in enumerate(zip(*bodies, strict=True)) if a != b]
    assert different == [len(bodies[0]) - 2]
