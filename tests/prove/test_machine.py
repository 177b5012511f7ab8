# SPDX-License-Identifier: Apache-2.0
"""prove/machine.py and what it stands on: what instructions do to symbols is what they do to
bytes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from loadstone.errors import LoadstoneError
from loadstone.prove.fingerprints import Integers
from loadstone.prove.memory import NOBODY, flipped
from loadstone.prove.values import CONSTANTS
from loadstone.prove.verdict import NotProved, Unsupported
from loadstone.vta.device.hw_config import HwConfig, load_config
from loadstone.vta.isa.insn import Alu, Config, Depthwise, Finish, Gemm, Insn, Load, Store
from loadstone.vta.isa.packed_weights import expanded
from loadstone.vta.isa.spec import AluOp, Capability, ConfigRegister, Memory, Stage
from loadstone.vta.isa.weight_planes import coded
from tests.programs import BASE, random_program
from tests.prove.symbol_machines import OPERANDS, TINY, Both, Drawn, Tiny
from tests.repeat import times
from tests.simulated import CODED, EIGHT_WINDOWS, GROUPED, ONLY_INP, TINY_INP, TINY_WINDOWS

_STORES = Capability.STORE_REQUANTIZE
VTAQ, VTA = load_config("vtaq-1x8x8"), load_config("vta-pynq")
#: Devices whose stores requantize.
STORING, TINY_STORING = (
    replace(config, name=f"{config.name}-sr", capabilities=config.capabilities | _STORES)
    for config in (VTAQ, TINY)
)
WIDE = load_config("vtaq-4x16x16")


@pytest.mark.parametrize("config", [VTAQ, VTA, STORING], ids=lambda config: config.name)
@pytest.mark.parametrize("seed", range(times(12, 3000)))
def test_programs_do_to_symbols_what_they_do_to_bytes(config: HwConfig, seed: int) -> None:
    drawn = Drawn(config, seed)
    program = drawn.instructions()
    stored = next(k for k, one in enumerate(program) if isinstance(one, Store)) + 1
    drawn.both.run(program[:stored])
    drawn.both.check()
    try:
        drawn.both.run(program[stored:])
    except NotProved as error:  # sums of digits of several sums are beyond a proof
        assert "made of several sums" in str(error)  # noqa: PT017
    else:
        drawn.both.check()


@pytest.mark.parametrize(
    "config",
    [TINY, WIDE, VTA, TINY_STORING, TINY_WINDOWS, EIGHT_WINDOWS, TINY_INP, ONLY_INP, *GROUPED],
    ids=lambda config: config.name,
)
def test_instructions_of_every_kind(config: HwConfig) -> None:
    """Programs of any instructions, in which some bytes are unknown: pads, strides, loops, repeated
    tiles, operations of two lanes, registers."""
    begin = 0 if config.has(Capability.REGIONS) else BASE
    for seed in range(times(30, 2000)):
        rng = np.random.default_rng(seed)
        program = random_program(config, rng, 40)
        memory = np.concatenate([np.zeros(begin, np.uint8), program.memory])
        unknown = begin + np.sort(rng.choice(200, int(rng.integers(0, 8)), replace=False))
        both = Both(config, memory, unknown)
        both.run_what_has_a_meaning(program.objects)
        both.check()


@pytest.mark.parametrize("seed", range(4))
def test_a_read_of_what_nobody_wrote_is_no_program(seed: int) -> None:
    drawn = Drawn(VTA, seed)
    first = ("INP", "WGT", "ACC", "UOP")[seed]
    program = [i for i in drawn.instructions() if not _loads(i, first)]
    with pytest.raises(NotProved, match="nobody|no product"):
        drawn.both.run(program)


def _loads(instruction: Insn, name: str) -> bool:
    if isinstance(instruction, Gemm):
        return name == "ACC" and bool(instruction.reset)
    return isinstance(instruction, Load) and Memory(instruction.memory_id).name == name


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        (Load(memory_id=Memory.OUT, x_size=1, y_size=1), "LOAD of memory 4"),
        (Load(memory_id=Memory.INP, sram_base=65535, x_size=1, y_size=1), "LOAD leaves INP"),
        (Load(memory_id=Memory.INP, region=3, x_size=1, y_size=1), "region 3"),
        (Load(memory_id=Memory.INP, dram_base=1 << 20, x_size=1, y_size=1), "reaches byte"),
        (Store(memory_id=Memory.OUT, x_size=1, y_size=1), "no product"),
        (Store(memory_id=Memory.WGT, x_size=1, y_size=1), "another memory than OUT"),
        (Store(memory_id=Memory.INP, x_size=1, y_size=1), "needs store_inp, which the device"),
        (Gemm(uop_end=1, iter_out=1, iter_in=1), "micro-op"),
        (Alu(alu_op=7, uop_end=1, iter_out=1, iter_in=1), "alu_op=7"),
        (Config(stage=Stage.STORE), "needs store_requantize, which the device lacks"),
        (Config(stage=Stage.LOAD, register_id=1), "which stage LOAD has not"),
        (Config(stage=5), "which is none"),
    ],
)
def test_what_has_no_meaning_is_not_proved(instruction: Insn, message: str) -> None:
    drawn = Drawn(VTAQ, 0)
    with pytest.raises(LoadstoneError, match=message):
        drawn.both.machine.run(instruction, 0)


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


def test_a_device_does_what_it_can() -> None:
    drawn = Drawn(VTA, 0)
    with pytest.raises(NotProved, match="needs requantize, which the device lacks"):
        drawn.both.machine.run(Alu(alu_op=AluOp.RQ), 0)


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


def test_a_window_reads_all_of_its_tiles() -> None:
    """Of INP, of which eight tiles were written; behind the last there is none."""
    config = replace(TINY, capabilities=TINY.capabilities | Capability.DEPTHWISE)
    tiny = Tiny(config=config)
    for one in tiny.ready():
        tiny.run(one, 0)
    window = Depthwise(uop_bgn=2, uop_end=3, iter_out=1, iter_in=1, rows=1, columns=3)
    read = [(name, at.tolist()) for name, at in tiny.run(window, 0).reads]
    assert read == [("INP", [2, 3, 4]), ("WGT", [2])]
    tiny.run(window.changed(uop_bgn=5, uop_end=6), 0)
    with pytest.raises(NotProved, match="DEPTHWISE reads tiles that nobody wrote"):
        tiny.run(window.changed(uop_bgn=6, uop_end=7), 0)
    last = tiny.load(Memory.INP, tiny.INPUTS, 3, at=config.depth(Memory.INP) - 3)
    tiny.run(last, 0)
    turns = {"uop_bgn": 1, "uop_end": 2, "iter_out": 2}
    tiny.run(window.changed(**turns, src_out=last.sram_base - 1), 0)
    with pytest.raises(NotProved, match=f"leaves INP or WGT: tiles {last.sram_base + 3}"):
        tiny.run(window.changed(**turns, src_out=last.sram_base), 0)


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


@pytest.mark.parametrize(
    "instruction",
    [
        Load(memory_id=Memory.INP, sram_base=1 << 20, dram_base=1 << 20),
        Store(memory_id=Memory.INP, y_size=1),
        Gemm(uop_end=4, iter_out=1),
        Gemm(uop_end=4, iter_in=1),
        Gemm(iter_out=1, iter_in=1),
        Alu(uop_end=4, iter_out=1),
        Finish(),
    ],
)
def test_what_takes_no_step_touches_nothing(instruction: Insn) -> None:
    tiny = Tiny()
    for one in tiny.ready():
        tiny.run(one, 0)
    done = tiny.run(instruction, 0)
    assert (done.reads, done.writes, done.stored) == ([], [], None)


_ONE = {"uop_end": 1, "iter_out": 1, "iter_in": 1}


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        (Gemm(**_ONE, dst_out=255, reset=1), ""),
        (Gemm(uop_bgn=1, uop_end=2, iter_out=2, iter_in=1, dst_out=255), "ACC: tile 256"),
        (Gemm(**_ONE | {"iter_out": 2}, dst_out=8), "adds to tiles that nobody wrote"),
        (Gemm(**_ONE | {"iter_out": 2}, dst_out=8, overwrite=1), ""),
        (Gemm(uop_bgn=1, uop_end=2, iter_out=2, iter_in=1, src_out=255), "tiles 256, 1"),
        (Gemm(uop_bgn=1, uop_end=2, iter_out=2, iter_in=1, wgt_out=255), "tiles 1, 256"),
        (Gemm(**_ONE | {"iter_out": 2}, src_out=8), "GEMM reads tiles that nobody wrote"),
        (Gemm(**_ONE | {"iter_out": 2}, wgt_out=8), "GEMM reads tiles that nobody wrote"),
        (Gemm(**_ONE | {"uop_end": 17}), "a micro-op that nobody loaded"),
        (Gemm(uop_bgn=255, uop_end=256, iter_out=1, iter_in=1), "a micro-op that nobody loaded"),
        (Gemm(uop_bgn=255, uop_end=257, iter_out=1, iter_in=1), "micro-op 256 of 256"),
        (Gemm(uop_bgn=2, uop_end=1, iter_out=1, iter_in=1), "micro-op 0 of 256"),
        (Alu(**_ONE, alu_op=AluOp.ADD, use_imm=1, dst_out=9), ""),
        (Alu(**_ONE, alu_op=AluOp.ADD, reset=1), "reset=1"),
        (Alu(**_ONE | {"iter_out": 2}, alu_op=AluOp.ADD, use_imm=1, dst_out=8), "nobody wrote"),
        (Alu(**_ONE | {"iter_out": 2}, alu_op=AluOp.ADD, src_out=8), "nobody wrote"),
        (Alu(**_ONE | {"iter_out": 2}, alu_op=AluOp.ADD, use_imm=1, src_out=8), ""),
        (Alu(uop_bgn=12, uop_end=13, iter_out=2, iter_in=1, alu_op=AluOp.ADD, use_imm=1,
             src_out=255), ""),
        (Alu(uop_bgn=6, uop_end=7, iter_out=1, iter_in=1, alu_op=AluOp.RQ), "nobody wrote"),
        (Alu(**_ONE | {"iter_out": 2}, alu_op=AluOp.RQ, src_out=254), "ALU leaves ACC: tile 256"),
        (Alu(**_ONE | {"iter_out": 2}, alu_op=AluOp.RQ, src_out=253), "nobody wrote"),
        (Alu(uop_bgn=1, uop_end=2, iter_out=2, iter_in=1, alu_op=AluOp.ADD, dst_out=255),
         "ALU leaves ACC: tile 256"),
        (Store(memory_id=Memory.OUT, sram_base=3, x_size=1, y_size=1), ""),
        (Store(memory_id=Memory.OUT, sram_base=3, x_size=2, y_size=1), "no product"),
        (Store(memory_id=Memory.OUT, sram_base=3, x_size=1, y_size=2, x_stride=1), "no product"),
        (Store(memory_id=Memory.OUT, sram_base=255, x_size=2, y_size=1), "no product"),
        (Store(memory_id=Memory.ACC, x_size=1, y_size=1), "needs store_acc"),
        *((Store(memory_id=Memory.OUT, x_size=1, y_size=1, **{name: 1}), "which the device lacks")
          for name in ("operands", "operand_step", "requantize")),
        (Load(memory_id=Memory.INP, sram_base=255, x_size=1, y_size=1), ""),
        (Load(memory_id=Memory.INP, sram_base=255, x_size=1, y_size=1, x_pad_0=1), "tile 256"),
        (Load(memory_id=Memory.INP, sram_base=255, x_size=1, y_size=1, x_pad_1=1), "tile 256"),
        (Load(memory_id=Memory.INP, sram_base=255, x_size=1, y_size=1, y_pad_0=1), "tile 256"),
        (Load(memory_id=Memory.INP, sram_base=255, x_size=1, y_size=1, y_pad_1=1), "tile 256"),
        (Load(memory_id=9, x_size=1, y_size=1), "memory 9"),
        (Load(memory_id=Memory.WGT, dram_base=Tiny.NOTHING // 16, x_size=1, y_size=1), "WGT of by"),
        (Load(memory_id=Memory.ACC, dram_base=Tiny.NOTHING // 16, x_size=1, y_size=1), "ACC of by"),
        (Load(memory_id=Memory.UOP, dram_base=Tiny.NOTHING // 4, x_size=1, y_size=1), "UOP of by"),
        (Load(memory_id=Memory.ACC_8BIT, dram_base=Tiny.NOTHING // 4, x_size=1, y_size=1), "nob"),
        (Load(memory_id=Memory.ACC, dram_base=Tiny.INPUTS // 16, x_size=1, y_size=1), "activat"),
        (Load(memory_id=Memory.UOP, dram_base=Tiny.INPUTS // 4, x_size=1, y_size=1), "activations"),
        (Load(memory_id=Memory.WGT, dram_base=Tiny.INPUTS // 16, x_size=1, y_size=1), ""),
        (Load(memory_id=Memory.INP, dram_base=Tiny.NOTHING // 4, x_size=1, y_size=1), ""),
        (Config(stage=Stage.LOAD, register_id=ConfigRegister.RQ_MIN), "stage LOAD has not"),
        (Config(stage=Stage.LOAD, register_id=9), "register 9 of stage 0, which is none"),
    ],
)  # fmt: skip
def test_limits_of_a_small_device(instruction: Insn, message: str) -> None:
    """Each refused for its reason, or not at all."""
    tiny = Tiny()
    for one in tiny.ready():
        tiny.run(one, 0)
    if not message:
        tiny.run(instruction, 0)
        return
    with pytest.raises((NotProved, Unsupported), match=message):
        tiny.run(instruction, 0)


def test_whole_accumulators_are_beyond_a_proof() -> None:
    """Where the device has them, it is said that there is no proof, and not that one fails."""
    tiny = Tiny()
    machine = tiny.both.machine
    machine.config = replace(TINY, capabilities=TINY.capabilities | Capability.STORE_ACC)
    with pytest.raises(Unsupported, match="STORE of whole accumulators"):
        tiny.run(Store(memory_id=Memory.ACC, x_size=1, y_size=1), 0)


_CLEAR = Gemm(**_ONE | {"iter_in": 4}, dst_in=1, reset=1)
_ACTIVATIONS = Load(memory_id=Memory.WGT, sram_base=1, dram_base=Tiny.INPUTS // 16, y_size=1,
                    x_size=1)  # fmt: skip
_BYTES = Load(memory_id=Memory.ACC_8BIT, sram_base=4, dram_base=Tiny.INPUTS // 4, y_size=1,
              x_size=2, x_stride=2)  # fmt: skip
_INPUTS_FROM_OUT = Load(memory_id=Memory.INP, dram_base=Tiny.NOTHING // 4, y_size=1, x_size=1)
_OUT = Store(memory_id=Memory.OUT, dram_base=Tiny.NOTHING // 4, y_size=1, x_size=4)
_STORED = [Alu(**_ONE | {"iter_in": 4}, dst_in=1, alu_op=AluOp.ADD, use_imm=1), _OUT]


def _add(first: int, last: int) -> Alu:
    """By micro-ops: 12 adds tile 4 to 1, 13 adds 1 to 0, 14 adds 5 to 1."""
    return Alu(uop_bgn=first, uop_end=last, iter_out=1, iter_in=1, alu_op=AluOp.ADD)


SMALL: dict[str, list[Insn]] = {
    "weights that are activations beside others": [
        _CLEAR, _ACTIVATIONS, Gemm(**_ONE | {"iter_in": 2}, src_in=1, wgt_in=1)
    ],
    "weights that were activations": [
        _CLEAR, _ACTIVATIONS, _ACTIVATIONS.changed(dram_base=Tiny.KNOWN // 16),
        Gemm(**_ONE | {"iter_in": 2}, src_in=1, wgt_in=1),
    ],
    "a product of activations and one activation more": [
        _CLEAR, _ACTIVATIONS, Gemm(**_ONE | {"uop_bgn": 1, "uop_end": 2}), _BYTES, _add(12, 13)
    ],
    **{
        f"{operation.name} of two lanes": [
            _CLEAR, _BYTES, _add(14, 15), _add(12, 13).changed(alu_op=operation)
        ]
        for operation in (AluOp.MIN, AluOp.MAX, AluOp.MUL)
    },
    "products of several tiles into one": [_CLEAR, Gemm(**_ONE | {"iter_in": 3}, src_in=1)],
    "the last of several tiles remains": [
        Gemm(**_ONE | {"iter_in": 3}, src_in=1, wgt_in=1, overwrite=1)
    ],
    "accumulators that are added to": [Gemm(**_ONE, src_out=1), Gemm(**_ONE | {"iter_in": 2})],
    "a lane that is read and then written": [
        _CLEAR, _BYTES, _add(12, 13), _add(14, 15), _add(13, 15)
    ],
    "a lane that is read behind its write": [
        _CLEAR, _BYTES, _add(12, 13), _add(12, 14), _add(14, 15)
    ],
    "pads of bytes": [
        Config(stage=Stage.LOAD, register_id=ConfigRegister.PAD_VALUE, value=-9),
        Config(stage=Stage.COMPUTE, register_id=ConfigRegister.PAD_VALUE, value=77),
        Load(memory_id=Memory.INP, dram_base=Tiny.INPUTS // 4, y_size=1, x_size=1, x_pad_0=1),
        Gemm(**_ONE, src_out=1),
        _BYTES.changed(sram_base=2, x_size=1, x_pad_1=1),
    ],
    "pads of weights and accumulators": [
        Load(memory_id=Memory.WGT, dram_base=Tiny.KNOWN // 16, y_size=1, x_size=1, y_pad_0=1),
        Load(memory_id=Memory.ACC, dram_base=Tiny.KNOWN // 16, y_size=1, x_size=1, y_pad_0=1),
        Gemm(**_ONE | {"iter_in": 2}, src_in=1, wgt_in=1),
    ],
    "digits of a sum beside that sum": [
        *_STORED, _INPUTS_FROM_OUT, Gemm(uop_bgn=15, uop_end=16, iter_out=1, iter_in=1)
    ],
}  # fmt: skip


@pytest.mark.parametrize("every", [1, 2])
@pytest.mark.parametrize("name", SMALL)
def test_small_programs_do_to_symbols_what_they_do_to_bytes(name: str, every: int) -> None:
    """Also where lanes are known beside some that are not."""
    tiny = Tiny(every)
    tiny.both.run([*tiny.ready(), *SMALL[name], *_STORED])
    stored = tiny.both.dram.read(0, np.arange(tiny.NOTHING, tiny.NOTHING + 16), "the test")
    assert (stored >= CONSTANTS).any()
    tiny.both.check(tiny.NOTHING + 16)


@pytest.mark.parametrize("rounding", [0, 1, 2, 3, -1])
def test_roundings_of_a_requantization(rounding: int) -> None:
    tiny = Tiny()
    register = Config(stage=Stage.COMPUTE, register_id=ConfigRegister.RQ_ROUNDING, value=rounding)
    operands = tiny.load(Memory.ACC, tiny.KNOWN, 3, at=1)
    requantize = Alu(uop_bgn=15, uop_end=16, iter_out=1, iter_in=1, alu_op=AluOp.RQ)
    program: list[Insn] = [*tiny.ready(), operands, register, requantize]
    if rounding in (0, 1, 2):
        tiny.both.run([*program, _OUT.changed(x_size=1)])
        tiny.both.check(tiny.NOTHING + 4)
        return
    for one in program[:-1]:
        tiny.run(one, 0)
    with pytest.raises(NotProved, match=f"RQ_ROUNDING={rounding}, which is none"):
        tiny.run(requantize, 0)


@pytest.mark.parametrize("every", [1, 2])
def test_no_lane_is_shifted_by_one_that_varies(every: int) -> None:
    """Nor any other one by the same instruction."""
    tiny = Tiny(every)
    for one in (*tiny.ready(), _CLEAR, _BYTES):
        tiny.run(one, 0)
    with pytest.raises(Unsupported, match="ALU SHR by activations"):
        tiny.run(_add(12, 13).changed(alu_op=AluOp.SHR), 0)


def test_regions_of_a_device_without_them_are_parts_of_its_memory() -> None:
    drawn = Drawn(VTA, 0)
    drawn.both.dram.constants(1, bytes(64))
    drawn.both.machine.run(Load(memory_id=Memory.INP, region=1, x_size=1, y_size=1), 0)


def test_bytes_of_which_a_part_is_no_program() -> None:
    """One of a tile's that nobody wrote, that another step has as uint8, or that varies."""
    tiny = Tiny()
    known = tiny.both.dram.read(0, np.arange(tiny.KNOWN, tiny.KNOWN + 16), "the test")
    symbol = tiny.both.dram.read(0, np.array([tiny.INPUTS]), "the test")
    assert symbol[0] == CONSTANTS
    place, last = np.arange(tiny.NOTHING, tiny.NOTHING + 16), np.array([tiny.NOTHING + 15])

    def loads(memory: Memory, last_one: Integers) -> None:
        tiny.both.dram.write(0, place, known, "the test", NOBODY)
        tiny.both.dram.write(0, last, last_one, "the test", NOBODY)
        tiny.run(tiny.load(memory, tiny.NOTHING, 1), 0)

    nobody = np.array([NOBODY])
    for memory in (Memory.WGT, Memory.ACC):
        with pytest.raises(NotProved, match="nobody wrote"):
            loads(memory, nobody)
        with pytest.raises(Unsupported, match="levels of uint8"):
            loads(memory, flipped(symbol))
    with pytest.raises(Unsupported, match="LOAD ACC of activations"):
        loads(Memory.ACC, symbol)
    for instruction in tiny.ready():
        tiny.run(instruction, 0)
    tiny.run(_CLEAR, 0)
    loads(Memory.WGT, symbol)
    tiny.run(Gemm(**_ONE), 0)
    sources, functions = tiny.both.machine.lanes.resolve(np.array([3]))
    inputs = tiny.both.bytes.data[tiny.INPUTS : tiny.INPUTS + 4].view(np.int8).astype(int)
    weights = np.append(tiny.known[12:15].view(np.int8), inputs[0])
    assert tiny.both.values.value(int(sources[0]), int(functions[0])) == inputs @ weights


def test_only_what_a_computation_wrote_is_stored() -> None:
    """The last tile, too; loads and products that only clear take it back."""
    tiny = Tiny()
    last = {"uop_bgn": 0, "uop_end": 1, "iter_out": 2, "iter_in": 1, "dst_out": 255}
    store = _OUT.changed(x_size=1, sram_base=255)
    for instruction in (*tiny.ready(), Gemm(**last, overwrite=1)):
        tiny.run(instruction, 0)
    tiny.run(Alu(**last, alu_op=AluOp.ADD, use_imm=1), 0)
    tiny.run(store, 0)
    with pytest.raises(NotProved, match="no product"):
        tiny.run(store.changed(x_size=2), 0)
    for taken in (
        Gemm(**last, reset=1),
        _BYTES.changed(x_size=1, sram_base=255),
        tiny.load(Memory.ACC, tiny.KNOWN, 1, at=255),
    ):
        tiny.run(taken, 0)
        with pytest.raises(NotProved, match="no product"):
            tiny.run(store, 0)
        tiny.run(Alu(**last, alu_op=AluOp.ADD, use_imm=1), 0)
        tiny.run(store, 0)
