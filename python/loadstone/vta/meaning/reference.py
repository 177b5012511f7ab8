# SPDX-License-Identifier: Apache-2.0
"""The meaning of each instruction: the definition that is executed, in plain NumPy.

In:   a HwConfig, the regions of DRAM, a program's bytes.
Out:  the regions after the program; the scratchpads, for inspection.
Next: hw_sim does the same faster and counts cycles; tests compare both with each other and with
      vectors measured on VTA's RTL.

Instructions run in program order. A program whose tokens order all conflicts computes the same on a
device, whose three queues run concurrently; the simulator checks the tokens.

Within GEMM and ALU the steps (i, then j, then u) also run in order: a step sees the results of the
steps before it, and the later of two writes to a tile remains. All arithmetic on accumulators is
int32 and wraps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import SimulationError
from loadstone.numerics import rq
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.codec import Stream, decode_stream, decode_uops
from loadstone.vta.isa.insn import Alu, Config, Depthwise, Finish, Gemm, Insn, Load, Store
from loadstone.vta.isa.packed_weights import expanded
from loadstone.vta.isa.spec import (
    STAGE_REGISTERS,
    AluOp,
    ConfigRegister,
    Memory,
    Stage,
    initial_registers,
)
from loadstone.vta.isa.values import PLANE_WEIGHTS
from loadstone.vta.isa.weight_planes import decoded_rows
from loadstone.vta.meaning.lane_operations import FLOAT_OPERATIONS, OPERATIONS, bits_of, widened
from loadstone.vta.meaning.step_runs import independent_runs
from loadstone.vta.meaning.window_taps import window_taps

__all__ = ["DramBytes", "Machine"]

Int32Array = NDArray[np.int32]
IndexArray = NDArray[np.int64]

#: Steps that are done at a time: a bound on memory, without meaning.
_CHUNK = 1 << 14


@dataclass
class DramBytes:
    """Bytes of DRAM, changed in place by STORE.

    data: uint8. base: the address of data[0] as instructions count (dram_base * tile bytes): 0 for
        a region of a device
    that has regions; for other devices, whose only region is the whole memory, where the bytes lie
    in it.
    """

    data: NDArray[np.uint8]
    base: int = 0
    writable: bool = True


class Machine:
    """One device: scratchpads and registers. Scratchpads begin as zeros and keep their contents
    from run to run."""

    def __init__(self, config: HwConfig, regions: Sequence[DramBytes]) -> None:
        self.config = config
        self.regions = list(regions)
        self.uop = np.zeros((config.depth(Memory.UOP), 3), np.int64)  # dst, src, wgt
        element, accumulator = (
            (np.float32, np.float32) if config.is_float else (np.int8, np.int32)
        )  # a bfloat16 is kept as the float32 that it is
        self.inp = np.zeros((config.depth(Memory.INP), config.batch, config.block), element)
        self.wgt = np.zeros(
            (config.depth(Memory.WGT), config.block, config.block), element
        )  # out, in
        self.acc: NDArray[Any] = np.zeros(
            (config.depth(Memory.ACC), config.batch, config.block), accumulator
        )
        self.registers: dict[tuple[Stage, ConfigRegister], int] = {}

    def run(self, program: Stream | bytes | NDArray[np.uint8]) -> None:
        """Executes up to FINISH. Registers begin with their defaults.

        program: bytes as uint8 may be of any shape.

        Raises EncodingError for bytes that are no instructions, SimulationError naming the
        instruction for an access out of bounds, a capability that the device lacks, or a program
        without FINISH.
        """
        stream = program if isinstance(program, Stream) else decode_stream(program, self.config)
        self.registers = initial_registers()
        for number, insn in enumerate(stream):
            try:
                if not self.step(insn):
                    return
            except SimulationError as error:
                raise SimulationError(f"instruction {number}: {error}") from None
        raise SimulationError(f"the program of {len(stream)} instructions has no FINISH")

    def step(self, insn: Insn) -> bool:
        """Executes one instruction; False after FINISH."""
        for what, capability in insn.needs():
            if not self.config.has(capability):
                raise SimulationError(
                    f"{what} needs capability {str(capability.name).lower()}, which "
                    f"{self.config.name} lacks"
                )
        match insn:
            case Load():
                self._load(insn)
            case Store():
                self._store(insn)
            case Gemm():
                self._gemm(insn)
            case Depthwise():
                self._depthwise(insn)
            case Alu():
                self._alu(insn)
            case Config():
                self._config(insn)
            case Finish():
                return False
        return True

    # --- DRAM <-> scratchpads ---------------------------------------------------------------------
    def _load(self, insn: Load) -> None:
        """Rows -y_pad_0 .. y_size + y_pad_1 of x_pad_0 + x_size + x_pad_1 tiles, packed from
        sram_base on; of WGT_4BIT groups, of WGT_PLANES one row of a code."""
        if insn.misfit():
            raise SimulationError(insn.misfit())
        if insn.is_noop:
            return
        if insn.memory_id == Memory.OUT:
            raise SimulationError("LOAD of memory OUT: OUT is only stored")
        memory = Memory(insn.memory_id)
        height = insn.y_pad_0 + insn.dram_rows + insn.y_pad_1
        width = insn.x_pad_0 + insn.x_size + insn.x_pad_1
        count = insn.places(self.config.filled_tiles(memory))
        self._check(memory, insn.sram_base + count - 1, "LOAD")
        tiles = np.zeros((height, width, self.config.tile_bytes(memory)), np.uint8)
        element = np.uint16 if self.config.is_float else np.uint8
        if memory in (Memory.INP, Memory.ACC_8BIT):
            tiles.view(element)[:] = self._pad(memory) & np.iinfo(element).max
        inside = tiles[
            insn.y_pad_0 : insn.y_pad_0 + insn.y_size, insn.x_pad_0 : insn.x_pad_0 + insn.x_size
        ]
        for row, dram in zip(inside, self._rows(insn), strict=True):
            row[:] = dram
        self._fill(memory, slice(insn.sram_base, insn.sram_base + count), tiles)

    def _pad(self, memory: Memory) -> int:
        """PAD_VALUE, whose low bits are what pads of activations consist of."""
        stage = Stage.LOAD if memory == Memory.INP else Stage.COMPUTE
        return self.registers[stage, ConfigRegister.PAD_VALUE]

    def _fill(self, memory: Memory, where: slice, tiles: NDArray[np.uint8]) -> None:
        """Writes what stands in DRAM (uint8 [rows, width, bytes of a tile]) to a scratchpad."""
        match memory:
            case Memory.UOP:
                self.uop[where] = decode_uops(tiles, self.config)
            case Memory.INP:
                self.inp[where] = self._elements(tiles).reshape(-1, *self.inp.shape[1:])
            case Memory.WGT:
                self.wgt[where] = self._elements(tiles).reshape(-1, *self.wgt.shape[1:])
            case Memory.WGT_4BIT:
                self.wgt[where] = expanded(tiles, self.config.block)
            case Memory.WGT_PLANES:
                wgt = self.wgt[where].reshape(-1, PLANE_WEIGHTS)  # of which the code may have fewer
                made = decoded_rows(tiles.reshape(-1, tiles.shape[-1]), len(wgt))
                wgt[: len(made)] = made
            case Memory.ACC:
                self.acc[where] = tiles.view(self.acc.dtype).reshape(-1, *self.acc.shape[1:])
            case _:  # ACC_8BIT: sign-extended, or widened
                self.acc[where] = self._elements(tiles).reshape(-1, *self.acc.shape[1:])

    def _elements(self, tiles: NDArray[np.uint8]) -> NDArray[Any]:
        """Elements as they stand in DRAM (uint8, of any shape), in the type of INP; the last axis
        becomes elements."""
        return widened(tiles.view("<u2")) if self.config.is_float else tiles.view(np.int8)

    def _store(self, insn: Store) -> None:
        """y_size rows of x_size tiles: the low 8 bits of the lanes, without saturation (200 becomes
        -56); of float32 the nearest bfloat16. With requantize, the low 8 bits of what RQ makes of
        them; ACC stays as it is. memory_id: OUT to DRAM, INP to INP, ACC all 32 bits to DRAM."""
        if insn.is_noop:
            return
        if insn.memory_id not in (Memory.OUT, Memory.INP, Memory.ACC):
            raise SimulationError(f"STORE of memory {Memory(insn.memory_id).name}: it has none")
        if insn.is_whole and insn.requantize:
            raise SimulationError("STORE of memory ACC does not requantize: requantize must be 0")
        if not insn.requantize and (insn.operands or insn.operand_step):
            raise SimulationError("STORE without requantize has no operands: they must be 0")
        last = insn.sram_base + insn.y_size * insn.x_size
        self._check(Memory.OUT, last - 1, "STORE")
        acc = self.acc[insn.sram_base : last]
        if insn.requantize:
            acc = self._requantized_rows(insn, acc)
        whole = acc.astype("<i4") if insn.is_whole else acc.astype(np.uint8)
        elements = bits_of(acc).astype("<u2") if self.config.is_float else whole
        shape = insn.y_size, insn.x_size, self.config.tile_bytes(Memory(insn.memory_id))
        tiles = elements.view(np.uint8).reshape(shape)
        rows = self._rows_of_inp(insn) if insn.to_inp else self._rows(insn)
        for tile, place in zip(tiles, rows, strict=True):
            place[:] = tile

    def _rows_of_inp(self, insn: Store) -> list[NDArray[np.uint8]]:
        """Views of the rows in INP, as _rows has them of DRAM."""
        if insn.region:
            raise SimulationError(f"STORE to INP: region={insn.region} must be 0")
        firsts = [insn.dram_base + y * insn.x_stride for y in range(insn.y_size)]
        for first in firsts:
            self._check(Memory.INP, first + insn.x_size - 1, "STORE to INP")
        rows = [self.inp[first : first + insn.x_size] for first in firsts]
        return [row.view(np.uint8).reshape(insn.x_size, -1) for row in rows]

    def _requantized_rows(self, insn: Store, acc: Int32Array) -> Int32Array:
        """acc (y_size * x_size, batch, block), each row by its operand tiles."""
        moves = 3 if insn.operand_step else 0
        self._check(Memory.ACC, insn.operands + moves * (insn.y_size - 1) + 2, "STORE rq")
        first = insn.operands + moves * np.repeat(np.arange(insn.y_size), insn.x_size)
        operands = (self.acc[first + k] for k in range(3))
        return self._requantize(Stage.STORE, acc, *operands)

    def _rows(self, insn: Load | Store) -> list[NDArray[np.uint8]]:
        """Views of the rows in DRAM, uint8 [x_size, bytes of a tile] each."""
        if insn.region >= len(self.regions):
            raise SimulationError(
                f"{insn.SPEC.name}.region={insn.region}: the program has {len(self.regions)} "
                "regions"
            )
        region, memory = self.regions[insn.region], Memory(insn.memory_id)
        size = self.config.tile_bytes(memory)
        if isinstance(insn, Store) and not region.writable:
            raise SimulationError(f"STORE to region {insn.region}, which is read-only")
        rows = []
        for y in range(insn.dram_rows):
            begin = insn.dram_base * self.config.base_bytes(memory) + y * insn.x_stride * size
            begin -= region.base
            end = begin + insn.x_size * size
            if begin < 0 or end > region.data.size:
                raise SimulationError(
                    f"{insn.SPEC.name} row {y} is bytes {begin} to {end} of region "
                    f"{insn.region}, which has {region.data.size}"
                )
            rows.append(region.data[begin:end].reshape(insn.x_size, size))
        return rows

    # --- compute ----------------------------------------------------------------------------------
    def _gemm(self, insn: Gemm) -> None:
        """acc[dst][b][o] += sum over k of inp[src][b][k] * wgt[wgt][o][k]; reset: = 0; overwrite: =
        the sum."""
        for dst, src, wgt in self._steps(insn, insn.wgt_out, insn.wgt_in):
            self._check(Memory.ACC, dst.max(), "GEMM dst")
            if insn.reset:
                self.acc[dst] = 0
                continue
            self._check(Memory.INP, src.max(), "GEMM src")
            self._check(Memory.WGT, wgt.max(), "GEMM wgt")
            if self.config.is_float:
                self._float_gemm(dst, src, wgt, overwrite=bool(insn.overwrite))
                continue
            product = np.einsum(
                "nbk,nok->nbo", self.inp[src].astype(np.int32), self.wgt[wgt].astype(np.int32)
            )
            self._write_products(dst, product, overwrite=bool(insn.overwrite))

    def _write_products(
        self, dst: IndexArray, product: NDArray[np.int32], *, overwrite: bool
    ) -> None:
        """product (steps, batch, block): of the steps that write the tiles dst."""
        if overwrite:
            self.acc[dst] = product  # of equal indices the last stays
        else:
            np.add.at(self.acc, dst, product)  # equal indices add up

    def _depthwise(self, insn: Depthwise) -> None:
        """acc[dst][b][o] += sum over r, c of inp[src + r*row_stride + c][b][o] * the weight of that
        tap in wgt[wgt][o]; overwrite: = the sum. wide: one more tap, times 128."""
        taps = window_taps(insn, self.config.block)
        for dst, src, wgt in self._steps(insn, insn.wgt_out):
            self._check(Memory.ACC, dst.max(), "DEPTHWISE dst")
            self._check(Memory.INP, src.max() + insn.reach, "DEPTHWISE src")
            self._check(Memory.WGT, wgt.max(), "DEPTHWISE wgt")
            product = np.zeros((len(dst), *self.acc.shape[1:]), np.int32)
            for tile, tap, factor in taps:
                weights = self.wgt[wgt][:, None, :, tap].astype(np.int32) * factor
                product += self.inp[src + tile].astype(np.int32) * weights
            self._write_products(dst, product, overwrite=bool(insn.overwrite))

    def _float_gemm(
        self, dst: IndexArray, src: IndexArray, wgt: IndexArray, *, overwrite: bool
    ) -> None:
        """The same in float32, where the order counts: runs of steps whose accumulators differ, and
        in them k after k."""
        with np.errstate(all="ignore"):  # infinities and what comes of them are results
            for run in independent_runs(dst, dst, 0):
                acc = self.acc[dst[run]]
                acc = np.zeros_like(acc) if overwrite else acc
                x, w = self.inp[src[run]], self.wgt[wgt[run]]
                for k in range(self.config.block):
                    acc = acc + x[:, :, None, k] * w[:, None, :, k]
                self.acc[dst[run]] = acc

    def _alu(self, insn: Alu) -> None:
        """acc[dst] = op(acc[dst], imm or acc[src]), lane by lane; RQ reads acc[src], acc[src+1],
        acc[src+2]."""
        if insn.reset:
            raise SimulationError("ALU.reset must be 0")
        if insn.alu_op == AluOp.RQ and insn.use_imm:
            raise SimulationError("ALU.use_imm must be 0 for RQ, whose operands are tiles")
        if insn.alu_op == AluOp.SHR and self.config.is_float:
            raise SimulationError(f"ALU SHR is of integers: {self.config.name} computes in float32")
        operands = 3 if insn.alu_op == AluOp.RQ else 0 if insn.use_imm else 1
        for all_dst, all_src, _ in self._steps(insn):
            self._check(Memory.ACC, all_dst.max(), "ALU dst")
            if operands:
                self._check(Memory.ACC, all_src.max() + operands - 1, "ALU src")
            for run in independent_runs(all_dst, all_src, operands):
                dst, src = all_dst[run], all_src[run]
                if insn.alu_op == AluOp.RQ:
                    operand = (self.acc[src + k] for k in range(3))
                    self.acc[dst] = self._requantize(Stage.COMPUTE, self.acc[dst], *operand)
                else:
                    other = self._immediate(insn.imm) if insn.use_imm else self.acc[src]
                    self.acc[dst] = self._operation(AluOp(insn.alu_op), self.acc[dst], other)

    def _immediate(self, imm: int) -> Any:
        """A number of the accumulators' type."""
        return widened(np.uint16(imm & 0xFFFF)) if self.config.is_float else np.int32(imm)

    def _operation(self, op: AluOp, x: NDArray[Any], y: Any) -> NDArray[Any]:
        """One ALU operation on accumulators, lane by lane."""
        if not self.config.is_float:
            return OPERATIONS[op](x, y)
        with np.errstate(all="ignore"):
            return FLOAT_OPERATIONS[op](x, y)

    def _requantize(
        self,
        stage: Stage,
        acc: Int32Array,
        bias: Int32Array,
        multiplier: Int32Array,
        shift: Int32Array,
    ) -> Int32Array:
        """stage: whose registers say the rest."""
        register = {name: self.registers[stage, name] for name in STAGE_REGISTERS[stage]}
        return rq(
            acc,
            bias,
            multiplier,
            shift,
            zero_point=register[ConfigRegister.RQ_ZERO_POINT],
            low=register[ConfigRegister.RQ_MIN],
            high=register[ConfigRegister.RQ_MAX],
            rounding=register[ConfigRegister.RQ_ROUNDING],
        )

    def _steps(
        self, insn: Gemm | Depthwise | Alu, wgt_out: int = 0, wgt_in: int = 0
    ) -> Iterator[tuple[IndexArray, IndexArray, IndexArray]]:
        """dst, src, wgt of all steps in order (i outermost, then j, then u), in arrays of at most
        _CHUNK steps."""
        if not insn.steps:
            return
        self._check(Memory.UOP, insn.uop_end - 1, "uop_end")
        per_turn = insn.uop_end - insn.uop_bgn
        out, inner = (
            np.array([insn.dst_out, insn.src_out, wgt_out]),
            np.array([insn.dst_in, insn.src_in, wgt_in]),
        )
        for first in range(0, insn.steps, _CHUNK):
            turn, u = np.divmod(np.arange(first, min(first + _CHUNK, insn.steps)), per_turn)
            i, j = np.divmod(turn, insn.iter_in)
            indices = self.uop[insn.uop_bgn + u] + i[:, None] * out + j[:, None] * inner
            yield indices[:, 0], indices[:, 1], indices[:, 2]

    def _config(self, insn: Config) -> None:
        """register[stage][register_id] = value."""
        stage, register = Stage(insn.stage), ConfigRegister(insn.register_id)
        if register not in STAGE_REGISTERS[stage]:
            raise SimulationError(f"CONFIG: stage {stage.name} has no register {register.name}")
        if register == ConfigRegister.RQ_ROUNDING and not 0 <= insn.value <= 2:
            raise SimulationError(f"CONFIG: RQ_ROUNDING={insn.value} is outside [0, 2]")
        self.registers[stage, register] = insn.value

    def _check(self, memory: Memory, last: int, what: str) -> None:
        if last >= self.config.depth(memory):
            raise SimulationError(
                f"{what} reaches tile {last} of {memory.name}, which has "
                f"{self.config.depth(memory)}"
            )
