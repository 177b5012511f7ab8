# SPDX-License-Identifier: Apache-2.0
"""prove/machine.py: what LOAD and STORE move, and what each instruction is said to touch."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone.prove.fingerprints import Integers
from loadstone.prove.memory import NOBODY
from loadstone.prove.verdict import NotProved, Unsupported
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.insn import Alu, Config, Gemm, Load, Store
from loadstone.vta.isa.packed_weights import expanded
from loadstone.vta.isa.spec import AluOp, Memory, Stage
from loadstone.vta.isa.weight_planes import coded
from tests.prove.symbol_machines import OPERANDS, Both, Drawn, Tiny, with_stores
from tests.simulated import CODED, GROUPED, TINY_INP

VTAQ = load_config("vtaq-1x8x8")
STORING = with_stores(VTAQ)


def test_a_store_to_inp_stays_in_it() -> None:
    """The last tile of INP, one beyond, and a region."""
    last = TINY_INP.depth(Memory.INP) - 4
    rows = {"memory_id": Memory.INP, "y_size": 2, "x_size": 2, "x_stride": 2}
    for insn, stays in (
        (Store(dram_base=last, **rows), True),
        (Store(dram_base=last + 1, **rows), False),
        (Store(dram_base=last, region=1, **rows), False),
    ):
        both = Both(TINY_INP, np.zeros(4096, np.uint8), np.arange(0))
        both.machine.put_out[:4] = both.machine.known[:4] = True
        both.machine.lanes.put_numbers(np.arange(4 * 16), 7)
        if stays:
            access = both.machine.run(insn, 0)
            assert [(name, cells.tolist()) for name, cells in access.writes] == [
                ("INP", [*range(last, last + 4)])
            ]
            assert (both.machine.inp[last:] == 7).all()
            assert (both.machine.inp[:last] == NOBODY).all()
        else:
            with pytest.raises(NotProved, match="leaves INP"):
                both.machine.run(insn, 0)


def test_weights_of_4_bits_stand_in_wgt() -> None:
    """A group in the two last tiles, where one activation stood; and what is no such group."""
    config, memory = GROUPED[1], np.random.default_rng(5).integers(0, 256, 4096, np.uint8)
    group, base = config.tile_bytes(Memory.WGT_4BIT), config.base_bytes(Memory.WGT_4BIT)
    activations, nothing = 64 * base, 96 * base
    both = Both(config, memory, np.array([activations]))
    both.dram.write(0, nothing + np.arange(group), np.full(group, NOBODY), "the test", NOBODY)
    machine, last = both.machine, config.depth(Memory.WGT) - 2
    one = {"sram_base": last, "y_size": 1, "x_size": 1}
    tile = activations // config.base_bytes(Memory.WGT)
    machine.run(Load(memory_id=Memory.WGT, dram_base=tile, **one), 0)
    assert np.flatnonzero(machine.wgt_varies).tolist() == [last]
    load = Load(memory_id=Memory.WGT_4BIT, dram_base=group // base, **one)
    access = machine.run(load, 1)
    wanted = expanded(memory[group : 2 * group], config.block)
    assert (machine.wgt[last:] == wanted).all()
    assert (machine.wgt_symbols[last:] == wanted.view(np.uint8)).all()
    assert not machine.wgt_varies.any()
    assert np.flatnonzero(machine.wgt_known).tolist() == [last, last + 1]
    assert [(name, at.tolist()) for name, at in access.writes] == [("WGT", [last, last + 1])]
    cells = range(group // config.block, 2 * group // config.block)
    assert [(name, at.tolist()) for name, at in access.reads] == [("region 0", [*cells])]
    for wrong, message in (
        ({"sram_base": last + 1}, f"leaves WGT_4BIT: tile {last + 2}"),
        ({"sram_base": 0, "y_pad_0": 1}, "WGT_4BIT has no pads"),
        ({"dram_base": activations // base}, "LOAD WGT_4BIT of activations"),
        ({"dram_base": nothing // base}, "LOAD WGT_4BIT of bytes that nobody wrote"),
    ):
        with pytest.raises((NotProved, Unsupported), match=message):
            machine.run(load.changed(**wrong), 2)


def test_bit_planes_stand_in_wgt() -> None:
    """Two tiles in the last places of WGT, and what is no code of so many."""
    config = CODED[0]
    tiles = np.random.default_rng(6).integers(-30, 30, (2, 16, 16)).astype(np.int8)
    words, _ = coded(tiles)
    memory = np.zeros(4096, np.uint8)
    memory[256 : 256 + words.size] = words.reshape(-1)
    both = Both(config, memory, np.array([2048]))
    machine, last = both.machine, config.depth(Memory.WGT) - 2
    load = Load(
        memory_id=Memory.WGT_PLANES, sram_base=last, dram_base=32, y_size=2, x_size=len(words)
    )
    access = machine.run(load, 1)
    assert (machine.wgt[last:] == tiles).all()
    assert (machine.wgt_symbols[last:] == tiles.view(np.uint8)).all()
    assert np.flatnonzero(machine.wgt_known).tolist() == [last, last + 1]
    assert [(name, at.tolist()) for name, at in access.writes] == [("WGT", [last, last + 1])]
    read = set(range(256 // 16, (255 + words.size) // 16 + 1))
    assert [(name, set(at.tolist())) for name, at in access.reads] == [("region 0", read)]
    for wrong, message in (
        ({"sram_base": last + 1}, f"leaves WGT_PLANES: tile {last + 2}"),
        ({"sram_base": 0, "x_pad_1": 1}, "WGT_PLANES has no pads"),
        ({"x_stride": 1}, "WGT_PLANES has one row"),
        ({"x_size": len(words) - 1}, "whose code has fewer tiles"),
        ({"dram_base": 2048 // 8}, "LOAD WGT_PLANES of activations"),
    ):
        with pytest.raises((NotProved, Unsupported), match=message):
            machine.run(load.changed(**wrong), 2)


def test_vta_stores_what_was_put_out_and_not_what_was_loaded() -> None:
    drawn = Drawn(VTAQ, 0)
    store = Store(memory_id=Memory.OUT, x_size=1, y_size=1, sram_base=OPERANDS)
    drawn.both.machine.run(drawn.load(Memory.ACC, 2, 6, at=OPERANDS), 0)
    with pytest.raises(NotProved, match="no product and no ALU operation put out"):
        drawn.both.machine.run(store, 1)


def test_a_store_requantizes_by_tiles_that_are_there() -> None:
    """It needs no product in what it takes; its operands are constants, and in ACC."""
    made = {"x_size": 2, "y_size": 2, "x_stride": 2, "requantize": 1, "operand_step": 1}
    store = Store(memory_id=Memory.OUT, sram_base=OPERANDS, operands=OPERANDS, **made)
    drawn = Drawn(STORING, 0)
    drawn.both.run([drawn.load(Memory.ACC, 2, 6, at=OPERANDS), store])
    drawn.both.check()
    done = drawn.both.machine.run(store.changed(sram_base=OPERANDS + 2), 2)
    read = sorted(int(tile) for _, tiles in done.reads for tile in tiles)
    assert read == sorted([*range(OPERANDS + 2, OPERANDS + 6), *range(OPERANDS, OPERANDS + 6)])
    depth = STORING.depth(Memory.ACC)
    for operands in (OPERANDS - 1, OPERANDS + 1, depth - 5):
        with pytest.raises(NotProved, match="STORE requantizes by tiles that nobody wrote"):
            drawn.both.machine.run(store.changed(operands=operands), 3)
    with pytest.raises(NotProved, match="which stage STORE has not"):
        drawn.both.machine.run(Config(stage=Stage.STORE), 4)


def test_what_instructions_touch() -> None:
    tiny = Tiny()
    uop, inp, wgt, acc, gemm = (tiny.run(one, 0) for one in tiny.ready())

    def shown(cells: list[tuple[str, Integers]]) -> list[tuple[str, list[int]]]:
        return [(name, at.tolist()) for name, at in cells]

    def tiles(name: str, *numbers: int) -> tuple[str, list[int]]:
        return name, list(numbers)

    assert shown(uop.writes) == [tiles("UOP", *range(16))]
    assert shown(uop.reads) == [tiles("region 0", *range(16))]
    assert shown(inp.reads) == [tiles("region 0", *range(16, 24))]
    assert shown(wgt.reads) == [tiles("region 0", *range(32, 64))]
    assert shown(acc.writes) == [tiles("ACC", *range(8))]
    assert shown(gemm.reads) == [tiles("INP", *range(4)), tiles("WGT", *range(4))]
    assert shown(gemm.writes) == [tiles("ACC", *range(4))]
    reset = tiny.run(Gemm(reset=1, uop_bgn=9, uop_end=10, iter_out=1, iter_in=1), 0)
    assert (reset.reads, shown(reset.writes)) == ([], [tiles("ACC", 9)])
    loops = {"uop_end": 1, "iter_out": 1, "iter_in": 2, "dst_in": 1}
    by_number = tiny.run(Alu(**loops, alu_op=AluOp.ADD, use_imm=1, imm=3, src_in=1), 0)
    assert shown(by_number.reads) == [tiles("ACC")]
    assert shown(by_number.writes) == [tiles("ACC", 0, 1)]
    by_lanes = tiny.run(Alu(**loops, alu_op=AluOp.ADD, src_out=9, src_in=2), 0)
    assert shown(by_lanes.reads) == [tiles("ACC", 0, 2)]
    requantized = tiny.run(Alu(uop_bgn=4, uop_end=5, iter_out=1, iter_in=1, alu_op=AluOp.RQ), 0)
    assert shown(requantized.reads) == [tiles("ACC", 4, 5, 6)]
    assert shown(requantized.writes) == [tiles("ACC", 4)]
    stored = tiny.run(Store(memory_id=Memory.OUT, sram_base=1, dram_base=20, x_size=1, y_size=2,
                            x_stride=3), 7)  # fmt: skip
    assert shown(stored.reads) == [tiles("ACC", 1, 2)]
    assert shown(stored.writes) == [tiles("region 0", 20, 23)]
    assert stored.stored is not None
    place = np.concatenate([np.arange(80, 84), np.arange(92, 96)])
    assert (tiny.both.dram.read(0, place, "the test") == stored.stored).all()
    assert [tiny.both.dram.writer(0, k) for k in (79, 80, 83, 84, 92)] == [-1, 7, 7, -1, 7]
    eight = tiny.run(tiny.load(Memory.ACC_8BIT, tiny.KNOWN, 2, y_pad_1=1, x_pad_0=1), 0)
    assert shown(eight.writes) == [tiles("ACC", *range(6))]
    assert tiny.both.machine.steps == 4 + 1 + 2 + 2 + 1


def test_constants_are_read_before_and_behind_everything() -> None:
    tiny = Tiny()
    tiny.both.dram.constants(1, tiny.known.tobytes())
    assert tiny.run(tiny.load(Memory.WGT, 0, 4, region=1), 0).reads == []
