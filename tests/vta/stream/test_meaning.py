# SPDX-License-Identifier: Apache-2.0
"""tests/vta/stream/meaning.py is a loop over scalars, operation by operation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadstone.numerics import Rounding, requantize, shift_lane, wrap_int32
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.spec import AluOp, Memory
from loadstone.vta.stream.operations import (
    Access,
    AluNest,
    DramTile,
    FillNest,
    GemmNest,
    LaneWindow,
    Operation,
    RequantizeNest,
    StoreRequantization,
    TileLoad,
    TileStore,
    VirtualTile,
)
from tests.repeat import times
from tests.vta.stream.meaning import execute

#: Two rows of four lanes, so that no axis is taken for another one.
CONFIG = replace(load_config("vtaq-tiny"), log_batch=1, log_block=2)
TILES = 64
#: Each is a program.
FEW = settings(max_examples=times(30, 300))
ACC, OTHER = (VirtualTile(Memory.ACC, TILES, name) for name in ("acc", "other"))
INP, WGT = VirtualTile(Memory.INP, TILES, "inp"), VirtualTile(Memory.WGT, TILES, "wgt")
Tiles = np.ndarray[Any, Any]


def filled(memory: Memory, seed: int) -> Tiles:
    """Tiles of DRAM: of ACC with any 32 bits."""
    rows = CONFIG.block if memory is Memory.WGT else CONFIG.batch
    kind = np.int32 if memory is Memory.ACC else np.int8
    ends = np.iinfo(kind)
    drawn = np.random.default_rng(seed).integers(ends.min, ends.max + 1, (TILES, rows, 4))
    return np.asarray(drawn.astype(kind))


DRAM = {tile.name: filled(tile.memory, seed) for seed, tile in enumerate((ACC, OTHER, INP, WGT))}
#: What shift_lane packs may stand in a tile of OTHER alone: each third one.
DRAM["other"][2::3] = shift_lane(filled(Memory.INP, 9)[2::3] % 20 - 10)


def behind(operation: Operation) -> Tiles:
    """All 32 bits of ACC, behind an operation: eight after the other are stored."""
    dram = {**DRAM, **{f"out{k}": np.zeros((TILES, 2, 4), np.int8) for k in range(4)}}
    loads = [
        TileLoad(tile.memory, tile, 0, DramTile(tile.name, 0), 1, TILES, 0)
        for tile in (ACC, OTHER, INP, WGT)
    ]
    down = AluNest(AluOp.SHR, (TILES,), Access(ACC, 0, (1,)), None, 8)
    shown: list[Operation] = []
    for k in range(4):
        shown += [TileStore(ACC, 0, DramTile(f"out{k}", 0), 1, TILES, 0), down]
    execute([*loads, operation, *shown], dram, CONFIG)
    parts = [dram[f"out{k}"].view(np.uint8).astype(np.int64) << 8 * k for k in range(4)]
    return wrap_int32(sum(parts))


def steps(extents: Sequence[int], *accesses: Access) -> Iterator[list[int]]:
    """The tiles of each access, step by step."""
    for turn in product(*map(range, extents)):
        yield [a.base + sum(t * s for t, s in zip(turn, a.strides, strict=True)) for a in accesses]


@st.composite
def nests(draw: st.DrawFn) -> tuple[tuple[int, ...], Access, list[Access]]:
    """Loops, an access of ACC that writes a place twice only in loops that do not move it, and
    three of any places."""
    extents = tuple(draw(st.lists(st.integers(1, 3), max_size=3)))
    strides, next_stride = [], draw(st.integers(1, 2))
    for extent in extents:
        still = draw(st.booleans())
        strides.append(0 if still else next_stride)
        next_stride *= 1 if still else extent
    any_stride = st.tuples(*[st.integers(0, 6)] * len(extents))
    places = [Access(ACC, draw(st.integers(0, 9)), draw(any_stride)) for _ in range(3)]
    return extents, Access(ACC, draw(st.integers(0, 9)), tuple(strides)), places


def of(tile: VirtualTile, access: Access) -> Access:
    return replace(access, tile=tile)


@FEW
@given(nests())
def test_gemm_adds_products_of_rows(drawn: tuple[tuple[int, ...], Access, list[Access]]) -> None:
    """Of places that any loops move: a sum has no order."""
    extents, _, (dst, src, weight) = drawn
    found = behind(GemmNest(extents, dst, of(INP, src), of(WGT, weight)))
    wanted = DRAM["acc"].astype(np.int64)
    for d, s, w in steps(extents, dst, src, weight):
        for row, lane in np.ndindex(2, 4):
            products = DRAM["inp"][s][row].astype(int) * DRAM["wgt"][w][lane].astype(int)
            wanted[d, row, lane] += sum(products.tolist())
    np.testing.assert_array_equal(found, wrap_int32(wanted))


def alu(op: AluOp, x: int, y: int) -> int:
    match op:
        case AluOp.MIN:
            return min(x, y)
        case AluOp.MAX:
            return max(x, y)
        case AluOp.ADD:
            return x + y
        case AluOp.MUL:
            return x * y
    return x >> min(y, 64) if y >= 0 else x << min(-y, 64)


OPERATIONS = (AluOp.MIN, AluOp.MAX, AluOp.ADD, AluOp.MUL, AluOp.SHR)


@FEW
@given(
    nests(),
    st.sampled_from(OPERATIONS),
    st.integers(-(1 << 15), (1 << 15) - 1) | st.integers(-33, 33),
)
def test_alu_does_one_step_after_the_other(
    drawn: tuple[tuple[int, ...], Access, list[Access]], op: AluOp, imm: int
) -> None:
    extents, dst, (src, *_) = drawn
    for operand in (None, of(OTHER, src)):
        found = behind(AluNest(op, extents, dst, operand, imm))
        wanted = DRAM["acc"].copy()
        for d, s in steps(extents, dst, src):
            for row, lane in np.ndindex(2, 4):
                y = imm if operand is None else int(DRAM["other"][s, row, lane])
                wanted[d, row, lane] = wrap_int32(
                    alu(op, int(wanted[d, row, lane]), y) & 0xFFFFFFFF
                )
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("shift", [*range(-34, 35), -(1 << 15), (1 << 15) - 1])
def test_shr_by_any_number(shift: int) -> None:
    found = behind(AluNest(AluOp.SHR, (TILES,), Access(ACC, 0, (1,)), None, shift))
    wanted = [alu(AluOp.SHR, x, shift) & 0xFFFFFFFF for x in DRAM["acc"].ravel().tolist()]
    np.testing.assert_array_equal(found.ravel(), wrap_int32(np.array(wanted)))


@FEW
@given(nests(), st.integers(0, 4))
def test_a_fill_writes_each_place(
    drawn: tuple[tuple[int, ...], Access, list[Access]], value: int
) -> None:
    extents, dst, _ = drawn
    found, wanted = behind(FillNest(extents, dst, value)), DRAM["acc"].copy()
    for (d,) in steps(extents, dst):
        wanted[d] = value
    np.testing.assert_array_equal(found, wanted)


@FEW
@given(nests(), st.sampled_from(list(Rounding)), st.integers(-128, 127), st.integers(-128, 127))
def test_a_requantization_reads_three_tiles_from_its_operand_on(
    drawn: tuple[tuple[int, ...], Access, list[Access]], rounding: Rounding, zero: int, low: int
) -> None:
    extents, dst, (any_place, *_) = drawn
    operands = Access(OTHER, 3 * any_place.base, tuple(3 * (s % 2) for s in any_place.strides))
    op = RequantizeNest(extents, dst, operands, zero, low, 100, rounding)
    found, wanted = behind(op), DRAM["acc"].copy()
    for d, s in steps(extents, dst, operands):
        bias, multiplier, shift = DRAM["other"][s : s + 3]
        total = wrap_int32(wanted[d].astype(np.int64) + bias)
        moved = requantize(total, multiplier, shift, rounding).astype(np.int64) + zero
        wanted[d] = np.minimum(np.maximum(moved, low), 100)
    np.testing.assert_array_equal(found, wanted)


# --- copies ---------------------------------------------------------------------------------------
@FEW
@given(
    st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(0, 5), st.integers(0, 9)),
    st.tuples(*[st.integers(0, 2)] * 4),
    st.integers(0, 9),
    st.integers(-128, 127),
)
def test_a_load_has_pads_around_its_rows(
    rows: tuple[int, int, int, int], pads: tuple[int, int, int, int], offset: int, value: int
) -> None:
    """And what lies around all of it stays."""
    (y_size, x_size, x_stride, first), (up, down, left, right) = rows, pads
    load = TileLoad(
        Memory.ACC, ACC, offset, DramTile("other", first), y_size, x_size, x_stride, *pads, value
    )
    wanted, place = DRAM["acc"].copy(), offset
    for y in range(-up, y_size + down):
        for x in range(-left, x_size + right):
            inside = 0 <= y < y_size and 0 <= x < x_size
            wanted[place] = DRAM["other"][first + y * x_stride + x] if inside else value
            place += 1
    np.testing.assert_array_equal(behind(load), wanted)


def test_a_load_may_take_activations_for_weights() -> None:
    """Two tiles of two rows are one of four."""
    tile, out = VirtualTile(Memory.WGT, 2, "w"), np.zeros((2, 2, 4), np.int8)
    dram = {"inp": filled(Memory.INP, 5), "out": out}
    ones = {"x": np.ones((1, 2, 4), np.int8)}
    x, acc = VirtualTile(Memory.INP, 1, "x"), VirtualTile(Memory.ACC, 2, "acc")
    operations: list[Operation] = [
        TileLoad(Memory.WGT, tile, 0, DramTile("inp", 3), 1, 2, 0),
        TileLoad(Memory.INP, x, 0, DramTile("x", 0), 1, 1, 0),
        FillNest((2,), Access(acc, 0, (1,)), 0),
        GemmNest((2,), Access(acc, 0, (1,)), Access(x, 0, (0,)), Access(tile, 0, (1,))),
        TileStore(acc, 0, DramTile("out", 0), 1, 2, 0),
    ]
    execute(operations, dram | ones, CONFIG)
    weights = dram["inp"].reshape(-1, 4, 4)[3:5].astype(np.int64)
    sums = weights.sum(axis=2).astype(np.int8)
    np.testing.assert_array_equal(out, np.repeat(sums[:, None, :], 2, axis=1))


@FEW
@given(
    st.integers(1, 3), st.integers(1, 3), st.integers(3, 6), st.integers(0, 9), st.integers(0, 9)
)
def test_a_store_writes_the_low_bits_of_rows(
    y_size: int, x_size: int, x_stride: int, first: int, offset: int
) -> None:
    dram = {"acc": DRAM["acc"], "out": np.full((TILES, 2, 4), 77, np.int8)}
    wanted, place = dram["out"].copy(), offset
    for y, x in np.ndindex(y_size, x_size):
        wanted[first + y * x_stride + x] = (DRAM["acc"][place] & 0xFF).astype(np.int8)
        place += 1
    load = TileLoad(Memory.ACC, ACC, 0, DramTile("acc", 0), 1, TILES, 0)
    store = TileStore(ACC, offset, DramTile("out", first), y_size, x_size, x_stride)
    execute([load, store], dram, CONFIG)
    np.testing.assert_array_equal(dram["out"], wanted)


@pytest.mark.parametrize("step", [0, 3])
def test_a_store_that_requantizes_takes_three_operands_a_row(step: int) -> None:
    """Two rows of three tiles; the second row's operands are `step` tiles further."""
    dram: dict[str, Tiles] = {**DRAM, "out": np.zeros((TILES, 2, 4), np.int8)}
    loads = [
        TileLoad(Memory.ACC, tile, 0, DramTile(tile.name, 0), 1, TILES, 0) for tile in (ACC, OTHER)
    ]
    rounding = next(iter(Rounding))
    by = StoreRequantization(OTHER, 6, step, 3, -100, 90, rounding)
    store = TileStore(ACC, 1, DramTile("out", 2), 2, 3, 5, requantization=by)
    execute([*loads, store], dram, CONFIG)
    for y, x in np.ndindex(2, 3):
        operands = DRAM["other"][6 + y * step : 9 + y * step]
        bias, multiplier, shift = operands
        total = wrap_int32(DRAM["acc"][1 + 3 * y + x].astype(np.int64) + bias)
        moved = requantize(total, multiplier, shift, rounding).astype(np.int64) + 3
        wanted = np.minimum(np.maximum(moved, -100), 90)
        np.testing.assert_array_equal(dram["out"][2 + 5 * y + x], wanted)


def test_a_whole_store_writes_all_bits() -> None:
    out = {"acc": DRAM["acc"], "out": np.zeros((TILES, 2, 4), np.int32)}
    load = TileLoad(Memory.ACC, ACC, 0, DramTile("acc", 0), 1, TILES, 0)
    execute([load, TileStore(ACC, 0, DramTile("out", 0), 1, TILES, 0, whole=True)], out, CONFIG)
    np.testing.assert_array_equal(out["out"], DRAM["acc"])


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize(
    ("log_block", "rows", "columns"), [(3, 1, 2), (3, 2, 3), (4, 1, 1), (4, 2, 3), (4, 3, 2)]
)
def test_a_window_multiplies_lane_by_lane(
    log_block: int, rows: int, columns: int, *, wide: bool
) -> None:
    """Blocks of 16 have three rows of four weights in a lane, of 8 two; the window's last row has
    the last of them, and the wide weight is the fourth there."""
    config = replace(CONFIG, log_block=log_block)
    block, room = config.block, min(3, config.block // 4)
    rng = np.random.default_rng(rows)
    inp = rng.integers(-128, 128, (TILES, 2, block)).astype(np.int8)
    wgt = rng.integers(-128, 128, (2, block, block)).astype(np.int8)
    dram: dict[str, Tiles] = {"inp": inp, "wgt": wgt, "out": np.zeros((4, 2, block), np.int32)}
    acc, tile, weights = (
        VirtualTile(memory, count, memory.name)
        for memory, count in ((Memory.ACC, 4), (Memory.INP, TILES), (Memory.WGT, 2))
    )
    window = LaneWindow(rows, columns, 7, wide=wide)
    nest = GemmNest(
        (4,), Access(acc, 0, (1,)), Access(tile, 1, (5,)), Access(weights, 1, (0,)), window
    )
    execute(
        [
            TileLoad(Memory.INP, tile, 0, DramTile("inp", 0), 1, TILES, 0),
            TileLoad(Memory.WGT, weights, 0, DramTile("wgt", 0), 1, 2, 0),
            FillNest((4,), Access(acc, 0, (1,)), 0),
            nest,
            TileStore(acc, 0, DramTile("out", 0), 1, 4, 0, whole=True),
        ],
        dram,
        config,
    )
    for step, row, lane in np.ndindex(4, 2, block):
        taps = [
            (r, c, 1, int(wgt[1, lane, 4 * (room - rows + r) + c]))
            for r, c in np.ndindex(rows, columns)
        ]
        taps += [(rows - 1, 0, 128, int(wgt[1, lane, 4 * room - 1]))] if wide else []
        first = 1 + 5 * step
        wanted = sum(by * int(inp[first + 7 * r + c, row, lane]) * w for r, c, by, w in taps)
        assert dram["out"][step, row, lane] == wanted


# --- what no operation wrote, and what has no one meaning -----------------------------------------
def test_what_nobody_wrote_shows() -> None:
    """In each of its lanes: they differ, and the first are not 0. Of inputs and weights sums show
    the same."""
    out = {"out": np.zeros((32, 2, 4), np.int8)}
    execute(
        [TileStore(VirtualTile(Memory.ACC, 32, "t"), 0, DramTile("out", 0), 1, 32, 0)], out, CONFIG
    )
    assert len(np.unique(out["out"])) == 256
    assert out["out"][:4].all()
    acc = VirtualTile(Memory.ACC, 1, "acc")
    for memory in (Memory.INP, Memory.WGT):
        other = VirtualTile(Memory.WGT if memory is Memory.INP else Memory.INP, 1, "ones")
        unwritten = VirtualTile(memory, 1, "unwritten")
        src, wgt = (unwritten, other) if memory is Memory.INP else (other, unwritten)
        dram = {"ones": np.ones((2, 2, 4), np.int8), "out": np.zeros((1, 2, 4), np.int8)}
        execute(
            [
                TileLoad(other.memory, other, 0, DramTile("ones", 0), 1, 1, 0),
                FillNest((), Access(acc, 0, ()), 0),
                GemmNest((), Access(acc, 0, ()), Access(src, 0, ()), Access(wgt, 0, ())),
                TileStore(acc, 0, DramTile("out", 0), 1, 1, 0),
            ],
            dram,
            CONFIG,
        )
        assert len(np.unique(dram["out"])) == (2 if memory is Memory.INP else 4)


SAME = "a step writes a tile that another step of the same turn writes"
READ = "a step reads a tile that another step of the same turn writes"


@pytest.mark.parametrize(
    ("operation", "why"),
    [
        (AluNest(AluOp.ADD, (2, 2), Access(ACC, 0, (1, 1)), None, 1), SAME),
        (
            RequantizeNest(
                (2, 2), Access(ACC, 0, (1, 1)), Access(OTHER, 0, (0, 0)), 0, 0, 9, Rounding.SINGLE
            ),
            SAME,
        ),
        (AluNest(AluOp.ADD, (2,), Access(ACC, 1, (1,)), Access(ACC, 0, (1,))), READ),
        (
            RequantizeNest(
                (2,), Access(ACC, 3, (2,)), Access(ACC, 3, (2,)), 0, 0, 9, Rounding.SINGLE
            ),
            READ,
        ),
        (
            RequantizeNest(
                (2,), Access(ACC, 3, (5,)), Access(ACC, 6, (0,)), 0, 0, 9, Rounding.SINGLE
            ),
            READ,
        ),
    ],
)
def test_what_depends_on_the_order_of_steps_is_refused(operation: Operation, why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        behind(operation)


def test_an_access_without_a_stride_of_each_loop_is_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        behind(FillNest((2, 3), Access(ACC, 0, (1,)), 1))


def test_a_step_may_read_what_it_writes_and_what_no_step_writes() -> None:
    doubled = behind(AluNest(AluOp.ADD, (4,), Access(ACC, 2, (1,)), Access(ACC, 2, (1,))))
    np.testing.assert_array_equal(doubled[2:6], wrap_int32(2 * DRAM["acc"][2:6].astype(np.int64)))
    moved = behind(AluNest(AluOp.MUL, (4,), Access(ACC, 2, (1,)), Access(ACC, 6, (1,))))
    both = DRAM["acc"][2:6].astype(np.int64) * DRAM["acc"][6:10]
    np.testing.assert_array_equal(moved[2:6], wrap_int32(both))
    below = RequantizeNest(
        (2,), Access(ACC, 3, (1,)), Access(ACC, 0, (0,)), 7, 7, 7, Rounding.SINGLE
    )
    assert (behind(below)[3:5] == 7).all()
