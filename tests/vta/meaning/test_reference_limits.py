# SPDX-License-Identifier: Apache-2.0
"""What the living definition refuses: tiles, bytes, regions and values beyond the device's, and
programs without an end."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone.errors import EncodingError, SimulationError
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.codec import decode_stream, encode_stream
from loadstone.vta.isa.insn import Alu, Config, Finish, Gemm, Insn, Load, Store
from loadstone.vta.isa.spec import AluOp, ConfigRegister, Memory, Stage
from loadstone.vta.meaning.reference import DramBytes, Machine
from tests.vta.meaning.random_machine import TINY, execute, machine

VTA = load_config("vta-pynq")


def test_without_a_turn_no_micro_op_is_read() -> None:
    """The simulator's rule: the last one would be beyond the memory."""
    m = machine(2)
    before = m.acc.copy()
    end = TINY.depth(Memory.UOP) + 1
    execute(m, Gemm(uop_end=end, iter_in=1), Alu(use_imm=1, imm=1, uop_end=end, iter_out=1))
    np.testing.assert_array_equal(m.acc, before)


def test_an_address_below_the_memory_stops_the_program() -> None:
    """Of a device without regions, whose memory begins somewhere: one byte before it, one tile."""
    size = VTA.tile_bytes(Memory.INP)
    for base in (4 * size + 1, 5 * size):
        m = Machine(VTA, [DramBytes(np.zeros(64 * size, np.uint8), base=base)])
        inside, below = (
            encode_stream(
                [Load(memory_id=Memory.INP, dram_base=b, y_size=1, x_size=1), Finish()], VTA
            )
            for b in (5, 4)
        )
        m.run(inside)
        with pytest.raises(SimulationError, match=f"LOAD row 0 is bytes {4 * size - base} to"):
            m.run(below)


@pytest.mark.parametrize(
    ("insn", "message"),
    [
        (
            Load(memory_id=Memory.INP, sram_base=255, y_size=1, x_size=2),
            "LOAD reaches tile 256 of INP, which has 256",
        ),
        (
            Load(memory_id=Memory.INP, dram_base=1024, y_size=1, x_size=1),
            "LOAD row 0 is bytes 4096 to 4100 of region 0, which has 4096",
        ),
        (
            Load(memory_id=Memory.INP, y_size=2, x_size=1, x_stride=1024),
            "LOAD row 1 is bytes 4096 to 4100 of region 0, which has 4096",
        ),
        (Load(memory_id=Memory.OUT, y_size=1, x_size=1), "LOAD of memory OUT: OUT is only stored"),
        (
            Store(memory_id=Memory.WGT, y_size=1, x_size=1),
            "STORE of memory WGT: it has none",
        ),
        (
            Store(memory_id=Memory.INP, y_size=1, x_size=1, region=1),
            "STORE to INP: region=1 must be 0",
        ),
        (
            Store(memory_id=Memory.INP, y_size=2, x_size=2, x_stride=5, dram_base=250),
            "STORE to INP reaches tile 256 of INP, which has 256",
        ),
        (
            Store(memory_id=Memory.OUT, y_size=1, x_size=1, operands=1),
            "STORE without requantize has no operands: they must be 0",
        ),
        (
            Store(memory_id=Memory.OUT, y_size=1, x_size=1, operands=254, requantize=1),
            "STORE rq reaches tile 256 of ACC, which has 256",
        ),
        (
            Store(memory_id=Memory.OUT, y_size=2, x_size=1, operands=251, operand_step=1).changed(
                requantize=1
            ),
            "STORE rq reaches tile 256 of ACC, which has 256",
        ),
        (
            Store(memory_id=Memory.OUT, y_size=1, x_size=1, region=1),
            "STORE to region 1, which is read-only",
        ),
        (
            Load(memory_id=Memory.INP, y_size=1, x_size=1, region=7),
            "LOAD.region=7: the program has 2 regions",
        ),
        (
            Gemm(uop_end=1, iter_out=2, iter_in=1, dst_out=255),
            "GEMM dst reaches tile 256 of ACC, which has 256",
        ),
        (
            Gemm(uop_end=1, iter_out=2, iter_in=1, src_out=254),
            "GEMM src reaches tile 256 of INP, which has 256",
        ),
        (
            Gemm(uop_end=1, iter_out=2, iter_in=1, wgt_out=253),
            "GEMM wgt reaches tile 256 of WGT, which has 256",
        ),
        (
            Gemm(uop_end=257, iter_out=1, iter_in=1),
            "uop_end reaches tile 256 of UOP, which has 256",
        ),
        (
            Alu(uop_end=1, iter_out=2, iter_in=1, src_out=254),
            "ALU src reaches tile 256 of ACC, which has 256",
        ),
        (
            Alu(alu_op=AluOp.RQ, uop_end=1, iter_out=2, iter_in=1, src_out=252),
            "ALU src reaches tile 256 of ACC, which has 256",
        ),
        (
            Alu(alu_op=AluOp.RQ, uop_end=1, iter_out=1, iter_in=1, use_imm=1),
            "ALU.use_imm must be 0 for RQ, whose operands are tiles",
        ),
        (Alu(reset=1), "ALU.reset must be 0"),
        (Config(stage=Stage.STORE), "CONFIG: stage STORE has no register PAD_VALUE"),
        (
            Config(stage=Stage.LOAD, register_id=ConfigRegister.RQ_MIN),
            "CONFIG: stage LOAD has no register RQ_MIN",
        ),
        (
            Config(stage=Stage.COMPUTE, register_id=ConfigRegister.RQ_ROUNDING, value=3),
            "CONFIG: RQ_ROUNDING=3 is outside [0, 2]",
        ),
    ],
)
def test_what_cannot_be_done_stops_the_program(insn: Insn, message: str) -> None:
    m = machine(7, regions=2)
    m.regions[1].writable = False
    m.uop[0] = (1, 2, 3)
    with pytest.raises(SimulationError) as caught:
        execute(m, Load(), insn)
    assert str(caught.value) == f"instruction 1: {message}"


@pytest.mark.parametrize(
    ("insn", "what"),
    [
        (Alu(alu_op=AluOp.MUL), "ALU.alu_op=MUL needs capability alu_mul"),
        (Alu(alu_op=AluOp.RQ), "ALU.alu_op=RQ needs capability requantize"),
        (Load(memory_id=Memory.ACC_8BIT), "LOAD.memory_id=ACC_8BIT needs capability load_acc8"),
        (Load(region=2), "LOAD.region=2 needs capability regions"),
        (Gemm(overwrite=1), "GEMM.overwrite=1 needs capability gemm_overwrite"),
        (Config(), "CONFIG needs capability config"),
    ],
)
def test_a_capability_that_the_device_lacks(insn: Insn, what: str) -> None:
    with pytest.raises(SimulationError) as caught:
        execute(Machine(VTA, [DramBytes(np.zeros(16, np.uint8))]), insn)
    assert str(caught.value) == f"instruction 0: {what}, which vta-pynq lacks"


def test_an_immediate_reads_no_source_and_a_decoded_stream_runs_as_its_bytes_do() -> None:
    """The source would be tile 256 of ACC, which has 256."""
    insn = Alu(alu_op=AluOp.ADD, use_imm=1, imm=5, uop_end=1, iter_out=2, iter_in=1, src_out=254)
    of_bytes, of_stream = machine(9), machine(9)
    for m in (of_bytes, of_stream):
        m.uop[0] = (1, 2, 3)
    before = of_bytes.acc.copy()
    encoded = encode_stream([insn, Finish()], TINY)
    of_bytes.run(encoded)
    of_stream.run(decode_stream(encoded, TINY))
    np.testing.assert_array_equal(of_bytes.acc[1], before[1] + np.int32(10))
    np.testing.assert_array_equal(of_stream.acc, of_bytes.acc)


def test_what_an_immediate_takes_the_place_of_may_lie_anywhere() -> None:
    m = machine(9)
    depth, before = TINY.depth(Memory.ACC), m.acc.copy()
    m.uop[0] = [0, depth - 1, 0]
    m.step(
        Alu(alu_op=AluOp.ADD, use_imm=1, imm=3, uop_end=1, iter_out=1, iter_in=9, src_in=depth - 1)
    )
    np.testing.assert_array_equal(m.acc[0], before[0] + np.int32(27))


def test_a_program_ends_with_finish() -> None:
    m = machine(8)
    with pytest.raises(SimulationError, match="the program of 1 instructions has no FINISH"):
        m.run(encode_stream([Load()], TINY))
    m.run(encode_stream([Finish(), Alu(reset=1)], TINY))  # what follows is not executed
    with pytest.raises(EncodingError, match="opcode 7 is unknown"):
        m.run(b"\x07" + bytes(15))
