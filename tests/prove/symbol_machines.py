# SPDX-License-Identifier: Apache-2.0
"""Devices of symbols beside devices of bytes, and what runs on them.

In:   a device's configuration, memory, seeds.
Out:  Both, which run the same instructions; Drawn and Tiny: their memory and programs.
Next: test_machine.py, test_machine_moves.py, test_machine_limits.py.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from loadstone.prove.fingerprints import Integers
from loadstone.prove.machine import SymbolMachine
from loadstone.prove.memory import NOBODY, SymbolDram
from loadstone.prove.verdict import NotProved, Unsupported
from loadstone.vta.device.hw_config import HwConfig, load_config
from loadstone.vta.isa.codec import encode_uops
from loadstone.vta.isa.insn import Alu, Config, Gemm, Insn, Load, MicroOp, Store
from loadstone.vta.isa.spec import AluOp, Capability, ConfigRegister, Memory, Stage
from loadstone.vta.meaning.reference import DramBytes, Machine
from tests.prove.values_at import ValuesAt

__all__ = ["ONE", "OPERANDS", "TINY", "Both", "Drawn", "Tiny", "with_stores"]

OPERANDS = 8
TINY = load_config("vtaq-tiny")
#: The loops of one step, by the first micro-op.
ONE = {"uop_end": 1, "iter_out": 1, "iter_in": 1}


def with_stores(config: HwConfig) -> HwConfig:
    """The same device, whose stores requantize."""
    capabilities = config.capabilities | Capability.STORE_REQUANTIZE
    return replace(config, name=f"{config.name}-sr", capabilities=capabilities)


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

    def run_what_has_a_meaning(self, instructions: list[Insn]) -> None:
        """Leaves out on both what is no program, or beyond a proof; behind a computation that is,
        everything: it may have been carried out in part."""
        for number, instruction in enumerate(instructions):
            try:
                self.machine.run(instruction, number)
            except (NotProved, Unsupported):
                if isinstance(instruction, Load | Store):
                    continue
                return
            self.reference.step(instruction)

    def check(self, end: int | None = None) -> None:
        """Memory up to `end` is the same."""
        known = self.bytes.data[:end]
        symbols = self.dram.read(0, np.arange(len(known)), "the test")
        assert (self.values.bytes(symbols) & 255 == known).all()


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
        uops = encode_uops([MicroOp(), MicroOp(src=OPERANDS)], config)
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
            self.load(Memory.ACC, 2, 6, at=OPERANDS),
            Gemm(reset=1, uop_end=1, iter_out=1, iter_in=2, dst_in=1),
            Gemm(uop_end=1, iter_out=2, iter_in=2, dst_in=1, src_out=1, wgt_out=1, wgt_in=2),
            *self.alu(has(Capability.ALU_MUL)),
        ]
        if has(Capability.REQUANTIZE):
            by = {"uop_bgn": 1, "uop_end": 2, "iter_out": 1, "iter_in": 2, "dst_in": 1}
            program.append(Alu(**by, alu_op=AluOp.RQ))
        stored = {}
        if has(Capability.STORE_REQUANTIZE):
            program.append(Config(stage=Stage.STORE, register_id=ConfigRegister.RQ_MAX, value=90))
            stored = {"requantize": 1, "operands": OPERANDS + int(self.rng.integers(3))}
        base = int(self.begin[4]) // config.tile_bytes(Memory.OUT)
        store = Store(memory_id=Memory.OUT, dram_base=base, y_size=1, x_size=2, x_stride=2,
                      **stored)  # fmt: skip
        again = self.load(Memory.INP, 4, 2)
        more = Gemm(uop_end=1, iter_out=1, iter_in=2, dst_in=1, src_in=1, wgt_in=1)
        return [*program, store, again, more, *self.alu(False), store.changed(dram_base=base + 2)]


class Tiny:
    """A small device of symbols. Its DRAM: 16 micro-ops, of which the first twelve name tiles 0, 1,
    2 ... of all three memories, then 64 bytes of inputs, then 256 known bytes, then 64 bytes that
    nobody wrote."""

    UOPS, INPUTS, KNOWN, NOTHING = 0, 64, 128, 384

    def __init__(self, every: int = 1, config: HwConfig = TINY) -> None:
        """every: so many bytes from one that is an input to the next; those between are known.
        config: of tiles of the same size."""
        others = [MicroOp(1, 4), MicroOp(0, 1), MicroOp(1, 5), MicroOp(0, 1, 1)]
        each = [MicroOp(k, k, k) for k in range(12)]
        uops = encode_uops([*each, *others], TINY).view(np.uint8)
        self.known = np.random.default_rng(3).integers(0, 256, 256, np.uint8)
        self.known[:16] = np.tile([7, 250, 3, 9], 4)  # weights of one sum
        inputs = np.random.default_rng(4).integers(0, 256, 64, np.uint8)
        memory = np.concatenate([uops, inputs, self.known, np.zeros(64, np.uint8)])
        self.both = Both(config, memory, np.arange(self.INPUTS, self.KNOWN, every))
        nothing = np.arange(self.NOTHING, self.NOTHING + 64)
        self.both.dram.write(0, nothing, np.full(64, NOBODY), "the test", NOBODY)
        self.run = self.both.machine.run

    def load(self, memory: Memory, begin: int, tiles: int, at: int = 0, **fields: int) -> Load:
        base = begin // TINY.tile_bytes(memory)
        return Load(memory_id=memory, sram_base=at, dram_base=base, y_size=1, x_size=tiles,
                    x_stride=tiles, **fields)  # fmt: skip

    def ready(self) -> list[Insn]:
        """Micro-ops, inputs, weights and accumulators, eight tiles of each; four sums."""
        return [
            self.load(Memory.UOP, self.UOPS, 16),
            self.load(Memory.INP, self.INPUTS, 8),
            self.load(Memory.WGT, self.KNOWN, 8),
            self.load(Memory.ACC, self.KNOWN, 8),
            Gemm(uop_end=4, iter_out=1, iter_in=1),
        ]
