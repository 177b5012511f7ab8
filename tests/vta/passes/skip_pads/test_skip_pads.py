# SPDX-License-Identifier: Apache-2.0
"""skip_pads.py: products with zeros, of padding or of weights, are left out, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from loadstone.errors import LoweringError
from loadstone.vta.device.hw_config import HwConfig, load_config
from loadstone.vta.isa.spec import AluOp, Memory
from loadstone.vta.passes.program import VtaProgram
from loadstone.vta.passes.skip_pads.skip_pads import SkipPads
from loadstone.vta.stream.operations import (
    Access,
    AluNest,
    DramTile,
    FillNest,
    GemmNest,
    Operation,
    TileLoad,
    TileStore,
    VirtualTile,
)
from tests.vta.passes.hand_lowered import (
    NEST_DEVICES,
    compare_golden,
    nest_program,
)
from tests.vta.stream.meaning import execute

SIZE, TAPS = 16, 3
VTA, VTAQ = load_config("vta-pynq"), load_config("vtaq-1x16x16")


@pytest.mark.parametrize("device", NEST_DEVICES)
def test_text_in_text_out(device: str, update_golden: bool) -> None:
    compare_golden("skip_pads", SkipPads().run(nest_program(device)).text(), update_golden, device)


def convolution(pad_value: int = 0) -> list[Operation]:
    """3x3 taps over 16x16 pixels of one block, padding around."""
    wide = SIZE + TAPS - 1
    x, w, acc = (
        VirtualTile(memory, size, name)
        for memory, size, name in (
            (Memory.INP, wide * wide, "x"),
            (Memory.WGT, TAPS * TAPS, "w"),
            (Memory.ACC, SIZE * SIZE, "acc"),
        )
    )
    pads = {"y_pad_0": 1, "y_pad_1": 1, "x_pad_0": 1, "x_pad_1": 1, "pad_value": pad_value}
    extents = (SIZE, SIZE, TAPS, TAPS)
    return [
        TileLoad(Memory.INP, x, 0, DramTile("x", 0), SIZE, SIZE, SIZE, **pads),
        TileLoad(Memory.WGT, w, 0, DramTile("w", 0), 1, TAPS * TAPS, TAPS * TAPS),
        FillNest((SIZE * SIZE,), Access(acc, 0, (1,)), 0),
        GemmNest(
            extents,
            Access(acc, 0, (SIZE, 1, 0, 0)),
            Access(x, 0, (wide, 1, wide, 1)),
            Access(w, 0, (0, 0, TAPS, 1)),
        ),
        AluNest(AluOp.MIN, (SIZE * SIZE,), Access(acc, 0, (1,)), None, 127),
        TileStore(acc, 0, DramTile("out", 0), SIZE, SIZE, SIZE),
    ]


def behind(
    operations: list[Operation], config: HwConfig, zero_weights: list[int] | None = None
) -> list[Operation]:
    """The operations behind the pass; its verifier has run. zero_weights: tiles of w."""
    before = VtaProgram(
        config,
        {},
        [("layer", operation) for operation in operations],
        zero_tiles={"w": zeros(zero_weights)} if zero_weights else {},
    )
    after = SkipPads().run(before)
    SkipPads().verify(before, after)
    return [operation for _, operation in after.operations]


def zeros(tiles: list[int]) -> np.ndarray:
    """Of the nine tiles of w, which are zero."""
    return np.isin(np.arange(TAPS * TAPS), tiles)


def result(
    operations: list[Operation], config: HwConfig, zero_weights: list[int] | None = None
) -> np.ndarray:
    rng = np.random.default_rng(0)
    block, pixels = config.block, SIZE * SIZE
    dram = {
        "x": rng.integers(-128, 128, (pixels, 1, block)).astype(np.int8),
        "w": rng.integers(-128, 128, (TAPS * TAPS, block, block)).astype(np.int8),
        "pad.0": np.zeros((1, 1, block), np.int8),
        "out": np.zeros((pixels, 1, block), np.int8),
    }
    dram["w"][zeros(zero_weights or [])] = 0
    execute(operations, dram, config)
    return dram["out"]


def steps(operations: list[Operation]) -> int:
    return sum(int(np.prod(o.extents)) for o in operations if isinstance(o, GemmNest))


@pytest.mark.parametrize("config", [VTA, VTAQ])
def test_only_products_inside_the_picture_are_left(config: HwConfig) -> None:
    operations = convolution()
    made = behind(operations, config)
    assert steps(made) == (TAPS * SIZE - 2) ** 2
    assert np.array_equal(result(made, config), result(operations, config))


@pytest.mark.parametrize("config", [VTA, VTAQ])
def test_sums_that_are_stored_as_they_are_keep_their_products(config: HwConfig) -> None:
    """VTA stores what a product or an ALU operation put out, and a reset puts nothing out."""
    plain = [o for o in convolution() if not isinstance(o, AluNest)]
    assert behind(plain, config, zero_weights=[0, 1]) == plain


def test_the_product_that_writes_every_tile_comes_first_and_can_overwrite() -> None:
    products = [o for o in behind(convolution(), VTAQ) if isinstance(o, GemmNest)]
    assert products[0].extents == (SIZE, SIZE, 1, 1)
    assert all(o.extents[:2] != (SIZE, SIZE) for o in products[1:])


def test_padding_of_another_value_is_multiplied() -> None:
    operations = convolution(pad_value=-128)
    assert behind(operations, VTAQ) == operations


def test_what_a_load_overwrites_is_no_padding() -> None:
    operations = convolution()
    tile = operations[0]
    assert isinstance(tile, TileLoad)
    again = TileLoad(Memory.INP, tile.tile, 0, DramTile("x", 0), 1, SIZE + 2, 0)
    operations.insert(1, again)
    made = behind(operations, VTA)
    assert steps(made) == TAPS * SIZE * (TAPS * SIZE - 1) - 2 * (TAPS * SIZE - 1 - SIZE)
    assert np.array_equal(result(made, VTA), result(operations, VTA))


def test_zeros_that_are_loaded_are_padding() -> None:
    operations = convolution()
    tile = operations[0]
    assert isinstance(tile, TileLoad)
    wide = SIZE + 2
    plain = replace(tile, offset=wide, y_pad_0=0, y_pad_1=0)
    rows = [
        TileLoad(Memory.INP, tile.tile, first, DramTile("pad.0", 0), wide, 1, 0)
        for first in (0, wide * (SIZE + 1))
    ]
    made = behind([plain, *rows, *operations[1:]], VTA)
    assert steps(made) == (TAPS * SIZE - 2) ** 2
    assert np.array_equal(result(made, VTA), result(operations, VTA))


@pytest.mark.parametrize(
    ("zero_weights", "left"), [([2, 5, 8], 6), ([0, 1, 2, 6, 7], 4), ([4], 8), (list(range(9)), 0)]
)
def test_products_with_weights_of_zeros_are_left_out(zero_weights: list[int], left: int) -> None:
    operations = convolution(pad_value=-128)
    made = behind(operations, VTAQ, zero_weights)
    assert steps(made) == left * SIZE * SIZE
    expected = result(operations, VTAQ, zero_weights)
    assert np.array_equal(result(made, VTAQ, zero_weights), expected)


def test_weights_and_padding_of_zeros_are_left_out_together() -> None:
    operations = convolution()
    made = behind(operations, VTAQ, [0, 3, 6])
    assert steps(made) == (TAPS * SIZE - 2) * (2 * SIZE - 1)
    assert np.array_equal(result(made, VTAQ, [0, 3, 6]), result(operations, VTAQ, [0, 3, 6]))


def test_weights_that_are_loaded_over_zeros_are_multiplied() -> None:
    operations = convolution(pad_value=-128)
    load = operations[1]
    assert isinstance(load, TileLoad)
    other = replace(load, dram=DramTile("other", 0), x_size=1, x_stride=1)
    made = behind([*operations[:2], other, *operations[2:]], VTAQ, [0, 1, 2])
    assert steps(made) == 7 * SIZE * SIZE


def test_the_verifier_finds_weights_that_were_no_zeros() -> None:
    operations = convolution(pad_value=-128)
    named = [("layer", operation) for operation in operations]
    before = VtaProgram(VTAQ, {}, named, zero_tiles={"w": zeros([2, 5, 8])})
    after = SkipPads().run(before)
    SkipPads().verify(before, after)
    wrong = replace(before, zero_tiles={"w": zeros([2, 5])})
    with pytest.raises(LoweringError, match="a product without zeros is left out"):
        SkipPads().verify(wrong, after)


def test_sums_of_floats_keep_their_order() -> None:
    operations = convolution()
    assert behind(operations, load_config("vtab-1x16x16")) == operations


def test_the_verifier_finds_what_is_gone_and_what_is_new() -> None:
    config, operations = VTA, convolution()
    before = VtaProgram(config, {}, [("layer", operation) for operation in operations])
    after = list(SkipPads().run(before).operations)
    at = [n for n, (_, o) in enumerate(after) if isinstance(o, GemmNest)]
    fewer = [entry for n, entry in enumerate(after) if n != at[-1]]
    with pytest.raises(LoweringError, match="a product without zeros is left out"):
        SkipPads().verify(before, replace(before, operations=fewer))
    twice = [*after[: at[0]], after[at[0]], *after[at[0] :]]
    with pytest.raises(LoweringError, match="is left out|is new"):
        SkipPads().verify(before, replace(before, operations=twice))
    with pytest.raises(LoweringError, match="other than a GEMM changed"):
        SkipPads().verify(before, replace(before, operations=after[1:]))
    with pytest.raises(LoweringError, match="an operation is new"):
        SkipPads().verify(before, replace(before, operations=[*after, after[0]]))


def test_the_verifier_finds_products_that_are_others() -> None:
    """Of another tile, one more than before, and one that is done once or twice."""
    operations = convolution()
    before = VtaProgram(VTA, {}, [("layer", operation) for operation in operations])
    gemm = operations[3]
    assert isinstance(gemm, GemmNest)

    def verified(was: GemmNest, *now: GemmNest) -> None:
        ends = [("layer", operation) for operation in operations[:3]], before.operations[4:]
        old, new = ([*ends[0], *(("layer", g) for g in some), *ends[1]] for some in ((was,), now))
        SkipPads().verify(replace(before, operations=old), replace(before, operations=new))

    one = replace(
        gemm,
        extents=(2,),
        dst=replace(gemm.dst, base=20, strides=(1,)),
        src=replace(gemm.src, base=40, strides=(1,)),
        wgt=replace(gemm.wgt, base=4, strides=(0,)),
    )
    verified(one, replace(one))
    moved = replace(one, dst=replace(one.dst, tile=VirtualTile(Memory.ACC, SIZE * SIZE, "acc")))
    with pytest.raises(LoweringError, match="a product without zeros is left out"):
        verified(one, moved)
    with pytest.raises(LoweringError, match="a product without zeros is left out"):
        verified(one, replace(one, extents=(3,)))
    for access, by in product(("dst", "src", "wgt"), (1, 16)):
        old = getattr(one, access)
        with pytest.raises(LoweringError, match="a product without zeros is left out"):
            verified(one, replace(one, **{access: replace(old, base=old.base + by)}))
    twice = replace(
        one,
        extents=(2, 2),
        **{
            name: replace(getattr(one, name), strides=(*getattr(one, name).strides, 0))
            for name in ("dst", "src", "wgt")
        },
    )
    for was, now in ((one, twice), (twice, one)):
        with pytest.raises(LoweringError, match="a GEMM that adds a product twice is cut"):
            verified(was, now)


@pytest.mark.parametrize("operand", ["dst", "wgt", "src"])
def test_the_verifier_knows_tiles_by_twenty_bits(operand: str) -> None:
    """Three of them are one number. A GEMM that is cut, and of which nothing is left."""
    for base, inside in ((0, True), (-1, False), ((1 << 20) - 2, True), ((1 << 20) - 1, False)):
        tiles = [VirtualTile(m, 1 << 20, m.name) for m in (Memory.ACC, Memory.INP, Memory.WGT)]
        access = {k: Access(t, 5, (1,)) for k, t in zip(("dst", "src", "wgt"), tiles, strict=True)}
        access[operand] = replace(access[operand], base=base)
        before = VtaProgram(VTA, {}, [("layer", GemmNest((2,), **access))])
        why = (
            "a product without zeros is left out" if inside else r"a tile is outside \[0, 1048575\]"
        )
        with pytest.raises((LoweringError, AssertionError), match=why):
            SkipPads().verify(before, replace(before, operations=[]))


def is_zero(load: TileLoad, place: int, zero_tiles: list[int]) -> bool:
    """Whether the verifier lets a product with a tile that a load brings be left out."""
    others = {m: VirtualTile(m, 1, m.name) for m in (Memory.ACC, Memory.INP, Memory.WGT)}
    access = {m: Access(t, 0, ()) for m, t in others.items()}
    access[load.memory] = Access(load.tile, place, ())
    gemm = GemmNest((), access[Memory.ACC], access[Memory.INP], access[Memory.WGT])
    tables = {"w": np.isin(np.arange(20), zero_tiles)}
    before = VtaProgram(VTA, {}, [("layer", load), ("layer", gemm)], zero_tiles=tables)
    try:
        SkipPads().verify(before, replace(before, operations=before.operations[:1]))
    except LoweringError:
        return False
    return True


@pytest.mark.parametrize("memory", [Memory.INP, Memory.WGT])
@pytest.mark.parametrize("pad_value", [0, 1, -128])
@pytest.mark.parametrize("offset", [0, 2])
def test_the_verifier_knows_which_tiles_a_load_makes_zero(
    memory: Memory, pad_value: int, offset: int
) -> None:
    """Two rows of three tiles, four apart, with pads around: those of an input that are 0, and of a
    constant those that are known to be."""
    tile = VirtualTile(memory, 24, "t")
    pads = {"y_pad_0": 1, "x_pad_0": 1, "x_pad_1": 1, "pad_value": pad_value}
    for tensor, known in (("w", [2, 7, 9]), ("x", [])):
        load = TileLoad(memory, tile, offset, DramTile(tensor, 1), 2, 3, 4, **pads)
        for y, x in np.ndindex(3, 5):
            row, column = y - 1, x - 1
            if row < 0 or not 0 <= column < 3:
                wanted = memory is Memory.INP and pad_value == 0
            else:
                wanted = 1 + 4 * row + column in known
            assert is_zero(load, offset + 5 * y + x, [2, 7, 9]) is wanted
        assert not is_zero(load, offset + 15, [2, 7, 9])
