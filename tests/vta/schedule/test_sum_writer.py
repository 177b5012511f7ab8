# SPDX-License-Identifier: Apache-2.0
"""vta/schedule/sum_writer.py: a sum over taps and input blocks in chunks, lowered and run in
NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.ir_pass.insert_dma_copy import insert_dma_copy
from loadstone.ir_pass.nests import Function
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.kernels.emitter import Emitter
from loadstone.vta.kernels.from_nests import kernel_of_nests
from loadstone.vta.kernels.memories import memory_table
from loadstone.vta.schedule.rescaled_spec import Window
from loadstone.vta.schedule.sum_writer import SumWriter
from loadstone.vta.schedule.tile_writer import TileWriter
from loadstone.vta.stream.operations import DramTile
from tests.vta.stream.meaning import execute

CONFIG = load_config("vta-pynq")
IN_BLOCKS, SIZE, PAD = 3, (5, 4), 2


def run(own_input: bool, chunk: int, x: NDArray[np.int8], w: NDArray[np.int8]) -> NDArray[np.int8]:
    """A 3 x 3 convolution with a border of PAD, of two blocks, in tiles of 2 x 4 pixels."""
    blocks = w.shape[0]
    window = Window(IN_BLOCKS, 1, SIZE, SIZE, (3, 3), (1, 1), (1, 1), (1, 1), PAD)
    tile = TileWriter(blocks, SIZE, (2, 4), CONFIG)
    own = SumWriter(window, own_input, chunk, tile)
    products = own.chunks.around([own.products(own.each, (0, 1))])
    body = [tile.cleared(tile.acc), *products, tile.store(tile.out)]
    tensors = (own.x, own.w, tile.acc, tile.out)
    function = Function("test", tensors, tile.turns.around(body))
    kernel = kernel_of_nests(insert_dma_copy(function, memory_table(CONFIG)), CONFIG)
    emitter = Emitter({})
    kernel.emit(emitter, *(DramTile(name, 0) for name in kernel.parameters))
    out = np.zeros((blocks * SIZE[0] * SIZE[1], 1, 16), np.int8)
    pads = np.full((1, 1, 16), PAD, np.int8)
    dram = {"x": x.reshape(-1, 1, 16), "w": w.reshape(-1, 16, 16), "out": out, f"pad.{PAD}": pads}
    execute(emitter.operations, dram, CONFIG)
    return dram["out"].reshape(blocks, *SIZE, 16)


@pytest.mark.parametrize("chunk", [1, 2, 3])
@pytest.mark.parametrize("own_input", [False, True])
def test_the_sum_is_that_of_all_taps_and_blocks(own_input: bool, chunk: int) -> None:
    rng = np.random.default_rng(chunk)
    groups = 2 if own_input else 1
    x = rng.integers(-2, 3, (groups, IN_BLOCKS, *SIZE, 16)).astype(np.int8)
    w = (rng.random((2, IN_BLOCKS, 3, 3, 16, 16)) < 0.05).astype(np.int8)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1), (0, 0)), constant_values=PAD)
    wanted = np.zeros((2, *SIZE, 16), np.int64)
    for block, tap_y, tap_x in np.ndindex(2, 3, 3):
        source = padded[block if own_input else 0, :, tap_y : tap_y + 5, tap_x : tap_x + 4]
        wanted[block] += np.einsum("syxk,slk->yxl", source, w[block, :, tap_y, tap_x])
    assert len(np.unique(wanted)) > 20
    np.testing.assert_array_equal(run(own_input, chunk, x, w), wanted.astype(np.int8))
