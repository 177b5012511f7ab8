# SPDX-License-Identifier: Apache-2.0
"""emitter.py with clipped_loops.py and copy_pieces.py: what one call of emitted Python appends, by
the meaning of operations (vta/stream/meaning.py)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from loadstone.errors import LoweringError
from loadstone.numerics import Rounding
from loadstone.vta.device.hw_config import HwConfig, load_config
from loadstone.vta.isa.spec import AluOp, Memory
from loadstone.vta.kernels.copy_pieces import MAX_PAD
from loadstone.vta.kernels.emitter import PAD_TENSOR, Emitter
from loadstone.vta.stream.operations import (
    Access,
    AluNest,
    DramTile,
    FillNest,
    GemmNest,
    RequantizeNest,
    TileLoad,
    TileStore,
    VirtualTile,
)
from tests.vta.stream.meaning import execute

VTAQ, VTA = load_config("vtaq-1x16x16"), load_config("vta-pynq")
X = DramTile("x", 0)
Rows = NDArray[np.int8]


def emitter(config: HwConfig = VTAQ, **sizes: int) -> Emitter:
    return Emitter(config, sizes)


def tile(memory: Memory, size: int) -> VirtualTile:
    return VirtualTile(memory, size, f"a {memory.name} tile")


# --- compute --------------------------------------------------------------------------------------
def test_each_call_appends_one_operation() -> None:
    e = emitter()
    acc, inp, wgt = tile(Memory.ACC, 40), tile(Memory.INP, 40), tile(Memory.WGT, 40)
    e.gemm((acc, 1), (inp, 2), (wgt, 3), ((4, 0, 4, 1, 2, 0), (3, 0, 3, 0, 1, 5)))
    e.fill((acc, 0), 7, ((4, 0, 4, 2),))
    e.alu_immediate(AluOp.SHR, (acc, 0), 3, ((4, 0, 4, 2),))
    e.alu(AluOp.ADD, (acc, 0), (acc, 20), ((4, 0, 4, 2, 1),))
    e.requantize((acc, 0), (acc, 30), (5, -128, 127, 1), ((4, 0, 4, 2, 0),))
    access = Access(acc, 0, (2,))
    assert e.operations == [
        GemmNest((4, 3), Access(acc, 1, (1, 0)), Access(inp, 2, (2, 1)), Access(wgt, 3, (0, 5))),
        FillNest((4,), access, 7),
        AluNest(AluOp.SHR, (4,), access, None, 3),
        AluNest(AluOp.ADD, (4,), access, Access(acc, 20, (1,))),
        RequantizeNest((4,), access, Access(acc, 30, (0,)), 5, -128, 127, Rounding.SINGLE),
    ]


def test_loops_are_clipped_joined_and_dropped() -> None:
    e = emitter()
    acc = tile(Memory.ACC, 100)
    e.fill((acc, 0), 0, ((5, 0, 5, 20), (4, 0, 4, 5), (5, 0, 5, 1)))  # contiguous
    e.fill((acc, 0), 0, ((5, 2, 4, 20), (1, 0, 1, 77), (3, 1, 3, 1)))  # clipped; one turn
    e.fill((acc, 0), 0, ((5, 3, 3, 20), (3, 0, 3, 1)))  # nothing is left
    assert e.operations == [
        FillNest((100,), Access(acc, 0, (1,)), 0),
        FillNest((2, 2), Access(acc, 41, (20, 1)), 0),
    ]


def test_an_access_that_leaves_its_tile_is_refused() -> None:
    acc = tile(Memory.ACC, 10)
    emitter().fill((acc, 1), 0, ((9, 0, 9, 1),))
    with pytest.raises(LoweringError, match=r"tiles \[2, 11\) leave a ACC tile of 10"):
        emitter().fill((acc, 2), 0, ((9, 0, 9, 1),))
    with pytest.raises(LoweringError, match=r"tiles \[-1, 1\) leave"):
        emitter().fill((acc, 0), 0, ((2, 0, 2, -1),))
    with pytest.raises(LoweringError, match=r"tiles \[8, 11\) leave"):  # RQ reads three
        emitter().requantize((acc, 0), (acc, 8), (0, -128, 127, 0), ())


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
    e = emitter(config, x=height * width)
    loops = tuple(
        (size, 0, size, max(0, -begin), max(0, min(size, extent - begin)), sram, dram)
        for size, begin, extent, sram, dram in (
            (rows, top, height, columns, width),
            (columns, left, width, 1, 1),
        )
    )
    e.load(Memory.INP, (inp, 0), (X, top * width + left), pad, loops)
    shape = (1, config.block)
    image = np.arange(height * width).reshape(height, width)
    dram = {"x": np.broadcast_to(image.reshape(-1, 1, 1), (image.size, *shape)).astype(np.int8)}
    for value in e.pad_values:
        dram[PAD_TENSOR.format(value)] = np.full((1, *shape), value, np.int8)
    out = np.zeros((rows * columns, *shape), np.int8)
    acc, identity = tile(Memory.ACC, rows * columns), tile(Memory.WGT, 1)
    dram |= {"out": out, "identity": np.eye(config.block, dtype=np.int8)[None]}
    e.load(Memory.WGT, (identity, 0), (DramTile("identity", 0), 0), 0, ())
    steps = rows * columns
    e.fill((acc, 0), 0, ((steps, 0, steps, 1),))
    e.gemm((acc, 0), (inp, 0), (identity, 0), ((steps, 0, steps, 1, 1, 0),))
    e.store((acc, 0), (DramTile("out", 0), 0), ((steps, 0, steps, 0, steps, 1, 1),))
    execute(e.operations, dram, config)
    around = np.pad(image, ((4, rows), (4, columns)), constant_values=pad)
    wanted = around[top + 4 : top + 4 + rows, left + 4 : left + 4 + columns]
    np.testing.assert_array_equal(out[:, 0, 0].reshape(rows, columns), wanted)


def test_a_pad_that_fits_the_field_costs_no_load_of_its_own() -> None:
    for pad, loads in ((MAX_PAD, 1), (MAX_PAD + 1, 2)):
        e = emitter(x=100)
        inp = tile(Memory.INP, 100)
        e.load(Memory.INP, (inp, 0), (X, -pad), -5, ((20, 0, 20, pad, 20, 1, 1),))
        assert len(e.operations) == loads
        assert e.pad_values == (set() if loads == 1 else {-5})


def test_scratchpads_without_pads_refuse_them() -> None:
    for memory in (Memory.WGT, Memory.ACC):
        with pytest.raises(LoweringError, match=f"a load of {memory.name} has pads"):
            emitter().load(memory, (tile(memory, 9), 0), (X, 0), 0, ((9, 0, 9, 1, 9, 1, 1),))


def test_rows_that_are_clipped_are_stores_of_their_own() -> None:
    e = emitter(y=64)
    acc, y = tile(Memory.ACC, 12), DramTile("y", 4)
    e.store((acc, 0), (y, 0), ((3, 0, 3, 0, 3, 4, 8), (4, 0, 4, 0, 4, 1, 1)))
    e.store((acc, 0), (y, 0), ((3, 0, 3, 0, 3, 4, 8), (4, 0, 2, 0, 2, 1, 1)))
    assert e.operations == [
        TileStore(acc, 0, DramTile("y", 4), 3, 4, 8),
        *(TileStore(acc, 4 * row, DramTile("y", 4 + 8 * row), 1, 2, 2) for row in range(3)),
    ]


def test_a_copy_outside_of_its_tensor_or_tile_is_refused() -> None:
    inp = tile(Memory.INP, 8)
    loops = ((8, 0, 8, 0, 8, 1, 1),)
    e = emitter(x=10)
    e.load(Memory.INP, (inp, 0), (X, 2), 0, loops)
    (found,) = e.operations
    assert isinstance(found, TileLoad)
    assert found == replace(found, y_size=1, x_size=8, dram=DramTile("x", 2))
    with pytest.raises(LoweringError, match=r"tiles \[3, 11\) leave DRAM tensor x"):
        emitter(x=10).load(Memory.INP, (inp, 0), (X, 3), 0, loops)
    with pytest.raises(LoweringError, match=r"tiles \[1, 9\) leave a INP tile of 8 tiles"):
        emitter(x=10).load(Memory.INP, (inp, 1), (X, 0), 0, loops)
    padded = ((2, 0, 2, 1, 2, 50, 50), (2, 0, 2, 0, 2, 10, 10), (2, 0, 2, 0, 2, 1, 1))
    with pytest.raises(LoweringError, match="pads on more than its two inner axes"):
        emitter(x=100).load(Memory.INP, (tile(Memory.INP, 100), 0), (X, 0), 0, padded)
