# SPDX-License-Identifier: Apache-2.0
"""emitter.py with copy_pieces.py: what one copy appends, by the meaning of operations
(tests/vta/stream/meaning.py)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from loadstone.errors import LoweringError
from loadstone.vta.device.hw_config import HwConfig, load_config
from loadstone.vta.isa.spec import Capability, Memory
from loadstone.vta.kernels.clipped_loops import TileOperand
from loadstone.vta.kernels.copy_pieces import (
    MAX_PAD,
    CopyLoop,
    Loading,
    load_pieces,
    store_pieces,
)
from loadstone.vta.kernels.emitter import PAD_TENSOR, Emitter
from loadstone.vta.stream.operations import (
    Access,
    DramTile,
    FillNest,
    GemmNest,
    TileLoad,
    TileStore,
    VirtualTile,
)
from tests.vta.stream.meaning import execute

VTAQ, VTA = load_config("vtaq-1x16x16"), load_config("vta-pynq")
X = DramTile("x", 0)
Rows = NDArray[np.int8]


class Copies(Emitter):
    """Cuts the loops of a copy into pieces first, as from_nests.py does."""

    def __init__(self, config: HwConfig = VTAQ, **sizes: int) -> None:
        super().__init__(sizes)
        self.any_pad = config.has(Capability.CONFIG)

    def load_loops(
        self,
        memory: Memory,
        dst: TileOperand,
        src: tuple[DramTile, int],
        pad: int,
        loops: tuple[CopyLoop, ...],
    ) -> None:
        to = Loading(memory, pad, self.any_pad)
        self.load(to, dst, src, load_pieces(to, loops))

    def store_loops(
        self, src: TileOperand, dst: tuple[DramTile, int], loops: tuple[CopyLoop, ...]
    ) -> None:
        self.store(src, dst, store_pieces(loops))


def tile(memory: Memory, size: int) -> VirtualTile:
    return VirtualTile(memory, size, f"a {memory.name} tile")


# --- copies ---------------------------------------------------------------------------------------
@given(st.data())
def test_a_copy_reads_what_is_inside_and_pads_the_rest(data: st.DataObject) -> None:
    """Windows of an image at its borders, on a device that pads by itself and on one that only pads
    with 0: the loads that come out fill the tile as NumPy's pad would."""
    config = data.draw(st.sampled_from([VTAQ, VTA]))
    height, width = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 9))
    rows, columns = data.draw(st.integers(1, 8)), data.draw(st.integers(1, 8))
    top, left = data.draw(st.integers(-4, height - 1)), data.draw(st.integers(-4, width - 1))
    pad = data.draw(st.sampled_from([0, -5]))
    inp = tile(Memory.INP, rows * columns)
    e = Copies(config, x=height * width)
    loops = tuple(
        (size, 0, size, max(0, -begin), max(0, min(size, extent - begin)), sram, dram)
        for size, begin, extent, sram, dram in (
            (rows, top, height, columns, width),
            (columns, left, width, 1, 1),
        )
    )
    e.load_loops(Memory.INP, (inp, 0), (X, top * width + left), pad, loops)
    shape = (1, config.block)
    image = np.arange(height * width).reshape(height, width)
    dram = {"x": np.broadcast_to(image.reshape(-1, 1, 1), (image.size, *shape)).astype(np.int8)}
    for value in e.pad_values:
        dram[PAD_TENSOR.format(value)] = np.full((1, *shape), value, np.int8)
    out = np.zeros((rows * columns, *shape), np.int8)
    acc, identity = tile(Memory.ACC, rows * columns), tile(Memory.WGT, 1)
    dram |= {"out": out, "identity": np.eye(config.block, dtype=np.int8)[None]}
    e.load_loops(Memory.WGT, (identity, 0), (DramTile("identity", 0), 0), 0, ())
    steps = rows * columns
    each = (1,)
    e.operations.append(FillNest((steps,), Access(acc, 0, each), 0))
    operands = Access(acc, 0, each), Access(inp, 0, each), Access(identity, 0, (0,))
    e.operations.append(GemmNest((steps,), *operands))
    e.store_loops((acc, 0), (DramTile("out", 0), 0), ((steps, 0, steps, 0, steps, 1, 1),))
    execute(e.operations, dram, config)
    around = np.pad(image, ((4, rows), (4, columns)), constant_values=pad)
    wanted = around[top + 4 : top + 4 + rows, left + 4 : left + 4 + columns]
    np.testing.assert_array_equal(out[:, 0, 0].reshape(rows, columns), wanted)


def test_a_pad_that_fits_the_field_costs_no_load_of_its_own() -> None:
    for pad, loads in ((MAX_PAD, 1), (MAX_PAD + 1, 2)):
        e = Copies(x=100)
        inp = tile(Memory.INP, 100)
        e.load_loops(Memory.INP, (inp, 0), (X, -pad), -5, ((20, 0, 20, pad, 20, 1, 1),))
        assert len(e.operations) == loads
        assert e.pad_values == (set() if loads == 1 else {-5})


def test_scratchpads_without_pads_refuse_them() -> None:
    for memory in (Memory.WGT, Memory.ACC):
        with pytest.raises(LoweringError, match=f"a load of {memory.name} has pads"):
            Copies().load_loops(memory, (tile(memory, 9), 0), (X, 0), 0, ((9, 0, 9, 1, 9, 1, 1),))


def test_rows_that_are_clipped_are_stores_of_their_own() -> None:
    e = Copies(y=64)
    acc, y = tile(Memory.ACC, 12), DramTile("y", 4)
    e.store_loops((acc, 0), (y, 0), ((3, 0, 3, 0, 3, 4, 8), (4, 0, 4, 0, 4, 1, 1)))
    e.store_loops((acc, 0), (y, 0), ((3, 0, 3, 0, 3, 4, 8), (4, 0, 2, 0, 2, 1, 1)))
    assert e.operations == [
        TileStore(acc, 0, DramTile("y", 4), 3, 4, 8),
        *(TileStore(acc, 4 * row, DramTile("y", 4 + 8 * row), 1, 2, 2) for row in range(3)),
    ]


def test_a_copy_outside_of_its_tensor_or_tile_is_refused() -> None:
    inp = tile(Memory.INP, 8)
    loops = ((8, 0, 8, 0, 8, 1, 1),)
    e = Copies(x=10)
    e.load_loops(Memory.INP, (inp, 0), (X, 2), 0, loops)
    (found,) = e.operations
    assert isinstance(found, TileLoad)
    assert found == replace(found, y_size=1, x_size=8, dram=DramTile("x", 2))
    with pytest.raises(LoweringError, match=r"tiles \[3, 11\) leave DRAM tensor x"):
        Copies(x=10).load_loops(Memory.INP, (inp, 0), (X, 3), 0, loops)
    with pytest.raises(LoweringError, match=r"tiles \[1, 9\) leave a INP tile of 8 tiles"):
        Copies(x=10).load_loops(Memory.INP, (inp, 1), (X, 0), 0, loops)
    padded = ((2, 0, 2, 1, 2, 50, 50), (2, 0, 2, 0, 2, 10, 10), (2, 0, 2, 0, 2, 1, 1))
    with pytest.raises(LoweringError, match="pads on more than its two inner axes"):
        Copies(x=100).load_loops(Memory.INP, (tile(Memory.INP, 100), 0), (X, 0), 0, padded)
