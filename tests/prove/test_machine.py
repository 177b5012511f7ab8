# SPDX-License-Identifier: Apache-2.0
"""prove/machine.py and what it stands on: what instructions do to symbols is what they do to
bytes."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from loadstone.errors import LoadstoneError
from loadstone.prove.fingerprints import Integers
from loadstone.prove.machine import SymbolMachine
from loadstone.prove.memory import NOBODY, SymbolDram, flipped
from loadstone.prove.values import CONSTANTS
from loadstone.prove.verdict import NotProved
from loadstone.vta.device.hw_config import HwConfig, load_config
from loadstone.vta.isa.codec import encode_uops
from loadstone.vta.isa.insn import Alu, Config, Gemm, Insn, Load, MicroOp, Store
from loadstone.vta.isa.spec import AluOp, Capability, Memory, Stage
from loadstone.vta.meaning.reference import DramBytes, Machine
from tests.prove.values_at import ValuesAt
from tests.repeat import times

_OPERANDS = 8
VTAQ, VTA = load_config("vtaq-1x8x8"), load_config("vta-pynq")


class Both:
    """A device of bytes and one of symbols, which run the same instructions."""

    def __init__(self, config: HwConfig, memory: NDArray[np.uint8], unknown: Integers) -> None:
        """unknown: the places of bytes that are inputs."""
        self.config = config
        self.bytes = DramBytes(memory.copy())
        self.reference = Machine(config, [self.bytes])
        signed = memory.view(np.int8).astype(np.int64)
        self.values = ValuesAt(signed[unknown])
        self.dram = SymbolDram()
        self.dram.empty(0, len(memory))
        every = np.arange(len(memory))
        self.dram.write(0, every, memory.astype(np.int64), "the test", NOBODY)
        n = len(unknown)
        inputs = self.values.opaque(np.full(n, -128), np.full(n, 127))
        self.dram.write(0, unknown, inputs, "the test", NOBODY)
        self.machine = SymbolMachine(self.values, config, self.dram)
        self.reference.registers = dict(self.machine.registers)

    def run(self, instructions: list[Insn]) -> None:
        for number, instruction in enumerate(instructions):
            self.machine.run(instruction, number)
            self.reference.step(instruction)

    def check(self) -> None:
        symbols = self.dram.read(0, np.arange(len(self.bytes.data)), "the test")
        assert (self.values.bytes(symbols) & 255 == self.bytes.data).all()


class Drawn:
    """Random programs in the form of compiled ones: two tiles of inputs, weights, constants."""

    def __init__(self, config: HwConfig, seed: int) -> None:
        self.rng, self.config = np.random.default_rng(seed), config
        self.tile = config.batch * config.block
        sizes = [2 * self.tile, 4 * config.block**2, 6 * 4 * self.tile, 64, 8 * self.tile]
        self.begin = np.concatenate([[0], np.cumsum([-(-s // 4096) * 4096 for s in sizes])])
        memory = self.rng.integers(0, 256, self.begin[-1], np.uint8)
        weights = slice(self.begin[1], self.begin[1] + sizes[1])
        sparse = self.rng.random(sizes[1]) < self.rng.choice([0.0, 0.8, 0.97])
        memory[weights][sparse] = 0
        constants = self.rng.integers(-1000, 1000, 6 * self.tile).astype("<i4")
        constants[self.tile : 2 * self.tile] = self.rng.integers(1 << 30, (1 << 31) - 1, self.tile)
        constants[2 * self.tile : 3 * self.tile] = self.rng.integers(-20, -2, self.tile) & 255
        memory[self.begin[2] : self.begin[2] + sizes[2]] = constants.view(np.uint8)
        uops = encode_uops([MicroOp(), MicroOp(src=_OPERANDS)], config)
        memory[self.begin[3] : self.begin[3] + 8] = uops.view(np.uint8)
        self.both = Both(config, memory, np.arange(sizes[0]))

    def load(self, memory: Memory, part: int, tiles: int, at: int = 0) -> Load:
        base = int(self.begin[part]) // self.config.tile_bytes(memory)
        return Load(
            memory_id=memory, sram_base=at, dram_base=base, y_size=1, x_size=tiles, x_stride=tiles
        )

    def alu(self, has_mul: bool) -> list[Insn]:
        operations = [AluOp.MIN, AluOp.MAX, AluOp.ADD, AluOp.SHR] + [AluOp.MUL] * has_mul
        found: list[Insn] = []
        for _ in range(int(self.rng.integers(1, 6))):
            op = operations[int(self.rng.integers(len(operations)))]
            imm = int(
                self.rng.integers(-3, 9)
                if op in (AluOp.SHR, AluOp.MUL)
                else self.rng.integers(-300, 300)
            )
            found.append(Alu(uop_end=1, iter_out=1, iter_in=2, dst_in=1, src_in=1,
                             alu_op=op, use_imm=1, imm=imm))  # fmt: skip
        return found

    def instructions(self) -> list[Insn]:
        config = self.config
        has = config.has
        program: list[Insn] = [
            self.load(Memory.UOP, 3, 2),
            self.load(Memory.INP, 0, 2),
            self.load(Memory.WGT, 1, 4),
            self.load(Memory.ACC, 2, 6, at=_OPERANDS),
            Gemm(reset=1, uop_end=1, iter_out=1, iter_in=2, dst_in=1),
            Gemm(uop_end=1, iter_out=2, iter_in=2, dst_in=1, src_out=1, wgt_out=1, wgt_in=2),
            *self.alu(has(Capability.ALU_MUL)),
        ]
        if has(Capability.REQUANTIZE):
            by = {"uop_bgn": 1, "uop_end": 2, "iter_out": 1, "iter_in": 2, "dst_in": 1}
            program.append(Alu(**by, alu_op=AluOp.RQ))
        base = int(self.begin[4]) // config.tile_bytes(Memory.OUT)
        store = Store(memory_id=Memory.OUT, dram_base=base, y_size=1, x_size=2, x_stride=2)
        again = self.load(Memory.INP, 4, 2)
        more = Gemm(uop_end=1, iter_out=1, iter_in=2, dst_in=1, src_in=1, wgt_in=1)
        return [*program, store, again, more, *self.alu(False), store.changed(dram_base=base + 2)]


@pytest.mark.parametrize("config", [VTAQ, VTA], ids=lambda config: config.name)
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
        (Store(memory_id=Memory.OUT, x_size=1, y_size=1, x_pad_0=1), "with padding"),
        (Store(memory_id=Memory.OUT, x_size=1, y_size=1), "no product"),
        (Gemm(uop_end=1, iter_out=1, iter_in=1), "micro-op"),
        (Alu(alu_op=7, uop_end=1, iter_out=1, iter_in=1), "alu_op=7"),
        (Config(stage=Stage.STORE), "which stage STORE has not"),
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


def test_vta_stores_what_was_put_out_and_not_what_was_loaded() -> None:
    drawn = Drawn(VTAQ, 0)
    store = Store(memory_id=Memory.OUT, x_size=1, y_size=1, sram_base=_OPERANDS)
    drawn.both.machine.run(drawn.load(Memory.ACC, 2, 6, at=_OPERANDS), 0)
    with pytest.raises(NotProved, match="no product and no ALU operation put out"):
        drawn.both.machine.run(store, 1)


def test_levels_of_uint8_are_bytes_with_another_bit() -> None:
    symbols = np.array([0, 127, 128, 255, CONSTANTS, CONSTANTS + 7, NOBODY])
    assert flipped(symbols).tolist()[:4] == [128, 255, 0, 127]
    assert (flipped(flipped(symbols)) == symbols).all()
    assert (flipped(symbols)[4:6] < NOBODY).all()
