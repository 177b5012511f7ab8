# SPDX-License-Identifier: Apache-2.0
"""prove/machine.py: what an instruction has no meaning for, and what is beyond a proof."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loadstone.errors import LoadstoneError
from loadstone.prove.verdict import NotProved, Unsupported
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.insn import Alu, Config, Depthwise, Finish, Gemm, Insn, Load, Store
from loadstone.vta.isa.spec import AluOp, Capability, ConfigRegister, Memory, Stage
from tests.prove.symbol_machines import ONE, TINY, Drawn, Tiny

VTAQ, VTA = load_config("vtaq-1x8x8"), load_config("vta-pynq")


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


def test_a_device_does_what_it_can() -> None:
    drawn = Drawn(VTA, 0)
    with pytest.raises(NotProved, match="needs requantize, which the device lacks"):
        drawn.both.machine.run(Alu(alu_op=AluOp.RQ), 0)


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


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        (Gemm(**ONE, dst_out=255, reset=1), ""),
        (Gemm(uop_bgn=1, uop_end=2, iter_out=2, iter_in=1, dst_out=255), "ACC: tile 256"),
        (Gemm(**ONE | {"iter_out": 2}, dst_out=8), "adds to tiles that nobody wrote"),
        (Gemm(**ONE | {"iter_out": 2}, dst_out=8, overwrite=1), ""),
        (Gemm(uop_bgn=1, uop_end=2, iter_out=2, iter_in=1, src_out=255), "tiles 256, 1"),
        (Gemm(uop_bgn=1, uop_end=2, iter_out=2, iter_in=1, wgt_out=255), "tiles 1, 256"),
        (Gemm(**ONE | {"iter_out": 2}, src_out=8), "GEMM reads tiles that nobody wrote"),
        (Gemm(**ONE | {"iter_out": 2}, wgt_out=8), "GEMM reads tiles that nobody wrote"),
        (Gemm(**ONE | {"uop_end": 17}), "a micro-op that nobody loaded"),
        (Gemm(uop_bgn=255, uop_end=256, iter_out=1, iter_in=1), "a micro-op that nobody loaded"),
        (Gemm(uop_bgn=255, uop_end=257, iter_out=1, iter_in=1), "micro-op 256 of 256"),
        (Gemm(uop_bgn=2, uop_end=1, iter_out=1, iter_in=1), "micro-op 0 of 256"),
        (Alu(**ONE, alu_op=AluOp.ADD, use_imm=1, dst_out=9), ""),
        (Alu(**ONE, alu_op=AluOp.ADD, reset=1), "reset=1"),
        (Alu(**ONE | {"iter_out": 2}, alu_op=AluOp.ADD, use_imm=1, dst_out=8), "nobody wrote"),
        (Alu(**ONE | {"iter_out": 2}, alu_op=AluOp.ADD, src_out=8), "nobody wrote"),
        (Alu(**ONE | {"iter_out": 2}, alu_op=AluOp.ADD, use_imm=1, src_out=8), ""),
        (Alu(uop_bgn=12, uop_end=13, iter_out=2, iter_in=1, alu_op=AluOp.ADD, use_imm=1,
             src_out=255), ""),
        (Alu(uop_bgn=6, uop_end=7, iter_out=1, iter_in=1, alu_op=AluOp.RQ), "nobody wrote"),
        (Alu(**ONE | {"iter_out": 2}, alu_op=AluOp.RQ, src_out=254), "ALU leaves ACC: tile 256"),
        (Alu(**ONE | {"iter_out": 2}, alu_op=AluOp.RQ, src_out=253), "nobody wrote"),
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
