# SPDX-License-Identifier: Apache-2.0
"""vta/schedule/factor_sum.py: a product of activations and of their zero points, in chunks, lowered
and run in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from loadstone.ir_pass.insert_dma_copy import insert_dma_copy
from loadstone.ir_pass.nests import Function
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.kernels.emitter import Emitter
from loadstone.vta.kernels.from_nests import kernel_of_nests
from loadstone.vta.kernels.memories import memory_table
from loadstone.vta.schedule.factor_sum import FactorSum
from loadstone.vta.schedule.rescaled_spec import Factors, Window
from loadstone.vta.schedule.tile_writer import TileWriter
from loadstone.vta.stream.operations import DramTile
from tests.vta.stream.meaning import execute

CONFIG = load_config("vta-pynq")
DEPTH, MATRICES, ROWS, COLUMNS, BLOCKS = 3, 2, 5, 4, 2
Int8 = NDArray[np.int8]


def run(chunk: int, tensors: dict[str, Int8], parts: tuple[int, int]) -> Int8:
    """The first blocks of columns of a product, in tiles of one matrix and three rows, the last of
    which hangs over."""
    extents = (MATRICES, ROWS)
    window = Window(DEPTH, 1, extents, extents, (1, 1), (1, 1), (1, 1), (0, 0), 0)
    tile = TileWriter(BLOCKS, extents, (1, 3), CONFIG)
    own = FactorSum(window, Factors(COLUMNS, parts), chunk, tile)
    sums = own.chunks.around([own.products(own.each, (0, 1)), *own.others()])
    body = [tile.cleared(tile.acc), *sums, tile.store(tile.out)]
    used = (*own.tables, own.x, own.w, tile.acc, tile.out)
    function = Function("test", used, tile.turns.around(body))
    kernel = kernel_of_nests(insert_dma_copy(function, memory_table(CONFIG)), CONFIG)
    emitter = Emitter({})
    kernel.emit(emitter, *(DramTile(name, 0) for name in kernel.parameters))
    out = np.zeros((BLOCKS * MATRICES * ROWS, 1, 16), np.int8)
    dram = {name: array.copy() for name, array in tensors.items()} | {"out": out}
    execute(emitter.operations, dram, CONFIG)
    return dram["out"].reshape(BLOCKS, MATRICES, ROWS, 16)


@pytest.mark.parametrize("chunk", [1, 2, 3])
@pytest.mark.parametrize("parts", [(0, 0), (2, 1), (0, 2)])
def test_the_sum_is_that_of_both_factors_and_their_zero_points(
    chunk: int, parts: tuple[int, int]
) -> None:
    rng = np.random.default_rng(chunk)
    shapes = {
        "x": (DEPTH, MATRICES, ROWS, 1, 16),
        "w": (DEPTH, MATRICES, COLUMNS, 16, 16),
        "first": (DEPTH, max(1, parts[0]), 1, 16),
        "second": (DEPTH, max(1, parts[1]), 16, 16),
    }
    values = {name: rng.integers(-1, 2, shape).astype(np.int8) for name, shape in shapes.items()}
    x, w, first, second = (values[name].astype(np.int64) for name in shapes)
    wanted = np.einsum("chmik,chjlk->jhml", x, w[:, :, :BLOCKS])
    if parts[0]:
        wanted += np.einsum("cpik,chjlk->jhl", first, w[:, :, :BLOCKS])[:, :, None]
    if parts[1]:
        wanted += np.einsum("chmik,cplk->hml", x, second)
    tiles = {name: array.reshape(-1, *array.shape[-2:]) for name, array in values.items()}
    assert len(np.unique(wanted)) > 20
    np.testing.assert_array_equal(run(chunk, tiles, parts), wanted.astype(np.int8))
