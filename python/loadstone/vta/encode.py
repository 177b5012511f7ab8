# SPDX-License-Identifier: Apache-2.0
"""Encode: operations with scratchpad addresses -> instructions and micro-ops.

In:   a VtaProgram whose tiles have addresses, and whose DRAM tensors have places.
Out:  the same with instructions, FINISH last, whose tokens are still missing, and the micro-op
      table.
Next: synchronize.py orders the stages by tokens.

One operation becomes one instruction where its fields hold it, else several: split_transfer.py cuts
copies, folding.py folds loops, micro_op_cache.py says where each list of micro-ops stands. A
`Fill 0` before a GEMM costs no pass of its own where the device can overwrite: the micro-ops of the
first reduction step write, the others add.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from loadstone.backend.region import Address
from loadstone.errors import LoweringError
from loadstone.numerics import Rounding
from loadstone.vta.folding import Folder, Step
from loadstone.vta.hw_config import HwConfig
from loadstone.vta.isa.codec import bit_fields
from loadstone.vta.isa.insn import Alu, Config, Finish, Gemm, Insn, Load, Store
from loadstone.vta.isa.spec import (
    CONFIG_DEFAULTS,
    LOAD_STAGE,
    SCRATCHPAD_OF,
    AluOp,
    Capability,
    ConfigRegister,
    Memory,
    Opcode,
    Stage,
)
from loadstone.vta.loop_nest import FoldingLimits, LoopNest
from loadstone.vta.micro_op_cache import WithMicroOps, place_micro_ops
from loadstone.vta.program import (
    UOP_TENSOR,
    DramRows,
    LayerOperation,
    PendingInstruction,
    ProgramPass,
    ScratchRange,
    VtaProgram,
)
from loadstone.vta.split_transfer import CopyLimits, split_load, split_store
from loadstone.vta.stream import (
    Access,
    AluNest,
    FillNest,
    GemmNest,
    Operation,
    RequantizeNest,
    TileLoad,
    TileStore,
    VirtualTile,
    tiles_of,
)
from loadstone.vta.verify_encoding import verify_encoding

__all__ = ["Encode"]

#: What GEMM and ALU instructions do.
_Nest: TypeAlias = GemmNest | FillNest | AluNest | RequantizeNest
#: What an instruction is changed from: a third faster than to make one anew.
_GEMM, _LOAD, _STORE = Gemm(), Load(), Store(memory_id=Memory.OUT)
#: Accumulator tiles that RQ reads: bias, multiplier, shift.
_RQ_TILES = 3


class Encode(ProgramPass):
    """Operations -> instructions. Raises LoweringError for what no instruction can express."""

    name: ClassVar[str] = "encode"

    def run(self, program: VtaProgram) -> VtaProgram:
        """Adds instructions and micro-ops."""
        assert program.tile_address is not None, "allocate.py comes first"
        encoder = _Encoder(program.tile_address, program.places, program.config)
        overwrites = program.config.has(Capability.GEMM_OVERWRITE)
        following = _following(program.operations) if overwrites else {}
        for number, (layer, operation) in enumerate(program.operations):
            encoder.layer = layer
            encoder.add(operation, following.get(number))
        encoder.layer = "finish"
        encoder.append(Finish())
        table = program.places.get(UOP_TENSOR, Address(0, 0))
        instructions, uops = place_micro_ops(encoder.items, table, program.config)
        return replace(program, instructions=tuple(instructions), uops=uops)

    def verify(self, before: VtaProgram, after: VtaProgram) -> None:
        """Every field fits, every access stays in its scratchpad, every micro-op was loaded."""
        verify_encoding(after)


def _following(operations: Sequence[LayerOperation]) -> dict[int, Operation]:
    """For each Fill, the next operation that touches its tile: on a device that can overwrite."""
    result: dict[int, Operation] = {}
    upcoming: dict[VirtualTile, Operation] = {}
    for number in range(len(operations) - 1, -1, -1):
        operation = operations[number][1]
        if isinstance(operation, FillNest) and operation.dst.tile in upcoming:
            result[number] = upcoming[operation.dst.tile]
        for tile in tiles_of(operation):
            upcoming[tile] = operation
    return result


class _Encoder:
    """Appends what each operation becomes; `items` lack tokens, and the micro-op ranges of GEMM and
    ALU."""

    def __init__(
        self, address: Mapping[VirtualTile, int], places: Mapping[str, Address], config: HwConfig
    ) -> None:
        self.address = address
        self.places = places
        self.config = config
        self.items: list[PendingInstruction | WithMicroOps] = []
        self.layer = ""
        self.registers = {
            (stage, register): value
            for register, value in CONFIG_DEFAULTS.items()
            for stage in Stage
        }
        self.folder = Folder(address, keep_sums=config.is_float)
        # what nests became, by all that it depends on
        self.known: dict[tuple[object, ...], list[PendingInstruction | WithMicroOps]] = {}
        self.fresh: set[VirtualTile] = set()  # tiles whose next GEMM overwrites
        self.gemm_limits = _limits(Opcode.GEMM, ("dst", "src", "wgt"), config)
        self.fill_limits = _limits(Opcode.GEMM, ("dst",), config)
        self.alu_limits = _limits(Opcode.ALU, ("dst", "src"), config)
        self.copy_limits = CopyLimits(config)

    def add(self, operation: Operation, following: Operation | None) -> None:
        """One operation; `following`: of a Fill, what touches its tile next."""
        if type(operation) is TileLoad:
            self.load(operation)
        elif type(operation) is TileStore:
            self.store(operation)
        elif type(operation) is FillNest and self.can_overwrite(operation, following):
            self.fresh.add(operation.dst.tile)
        else:
            self.compute(operation)

    # --- memory instructions ----------------------------------------------------------------------
    def load(self, o: TileLoad) -> None:
        """One LOAD, or several."""
        if max(o.y_pad_0, o.y_pad_1, o.x_pad_0, o.x_pad_1):
            self.set_register(LOAD_STAGE[o.memory], ConfigRegister.PAD_VALUE, o.pad_value)
        memory, address = o.memory, self.address[o.tile]
        for part in split_load(o, self.copy_limits):
            first = address + part.offset
            width = part.x_pad_0 + part.x_size + part.x_pad_1
            count = (part.y_pad_0 + part.y_size + part.y_pad_1) * width
            dram_base, rows = self.rows(part, memory, written=False)
            insn = _LOAD.changed(
                memory_id=memory,
                sram_base=first,
                dram_base=dram_base,
                region=rows.region,
                y_size=part.y_size,
                x_size=part.x_size,
                x_stride=part.x_stride if part.y_size > 1 else part.x_size,
                y_pad_0=part.y_pad_0,
                y_pad_1=part.y_pad_1,
                x_pad_0=part.x_pad_0,
                x_pad_1=part.x_pad_1,
            )
            written = ScratchRange(SCRATCHPAD_OF[memory], first, first + count, True)
            self.append(insn, (written,), rows)

    def store(self, o: TileStore) -> None:
        """One STORE, or one for each row."""
        for part in split_store(o, self.copy_limits):
            first = self.address[o.tile] + part.offset
            dram_base, rows = self.rows(part, Memory.OUT, written=True)
            insn = _STORE.changed(
                sram_base=first,
                dram_base=dram_base,
                region=rows.region,
                y_size=part.y_size,
                x_size=part.x_size,
                x_stride=part.x_stride if part.y_size > 1 else part.x_size,
            )
            end = first + part.x_size * part.y_size
            read = ScratchRange(SCRATCHPAD_OF[Memory.OUT], first, end, False)
            self.append(insn, (read,), rows)

    def rows(
        self, o: TileLoad | TileStore, memory: Memory, *, written: bool
    ) -> tuple[int, DramRows]:
        """The first tile that a copy touches in DRAM, counted from the region's start; and the
        bytes."""
        place, size = self.places[o.dram.tensor], self.config.tile_bytes(memory)
        first, rest = divmod(place.offset_bytes, size)
        assert rest == 0, f"{o.dram.tensor} at {place.offset_bytes} is not on a {memory.name} tile"
        first += o.dram.tile
        stride, width = o.x_stride * size, o.x_size * size
        return first, DramRows(place.region, first * size, o.y_size, width, stride, written)

    def append(
        self, insn: Insn, scratch: tuple[ScratchRange, ...] = (), dram: DramRows | None = None
    ) -> None:
        """An instruction without micro-ops."""
        self.items.append(PendingInstruction(insn, self.layer, scratch, dram))

    # --- compute instructions ---------------------------------------------------------------------
    def set_register(self, stage: Stage, register: ConfigRegister, value: int) -> None:
        """A CONFIG, unless the register holds the value already."""
        if self.registers[stage, register] == value:
            return
        self.registers[stage, register] = value
        self.need(Capability.CONFIG, f"{register.name}={value}")
        self.append(Config(stage=int(stage), register_id=int(register), value=value))

    def need(self, capability: Capability, what: str) -> None:
        """Raises LoweringError where the device has it not."""
        if not self.config.has(capability):
            raise LoweringError(
                f"encode: {self.layer}: {what} is needed, but device {self.config.name} has no "
                f"{str(capability.name).lower()}"
            )

    def compute(self, o: _Nest) -> None:
        """GEMM and ALU instructions: those that the layer has already where it did the same at the
        same addresses, as the tiles of a layer take turns in a scratchpad."""
        fresh = type(o) is GemmNest and o.dst.tile in self.fresh
        if fresh:
            self.fresh.discard(o.dst.tile)
        if type(o) is RequantizeNest:
            self.set_requantization(o)
        key = (self.layer, fresh, type(o), o.extents, *_values(o), *self.operands(o))
        if (known := self.known.get(key)) is not None:
            self.items += known
            return
        begin = len(self.items)
        match o:
            case GemmNest():
                self.gemm(o, fresh=fresh)
            case FillNest():
                self.fill(o)
            case RequantizeNest():
                nest = self.folder.nest(o.extents, (o.dst, o.operands))
                self.alu_steps(Alu(alu_op=int(AluOp.RQ)), nest)
            case AluNest():
                self.alu(o)
        self.known[key] = self.items[begin:]

    def operands(self, o: _Nest) -> list[tuple[int, tuple[int, ...]]]:
        """Where each operand begins, and how the loops move it."""
        return [(self.address[a.tile] + a.base, a.strides) for a in _accesses(o)]

    def gemm(self, o: GemmNest, *, fresh: bool) -> None:
        """GEMMs; the first micro-ops overwrite where a Fill 0 was left out."""
        nest = self.folder.nest(o.extents, (o.dst, o.src, o.wgt))
        for step in self.folder.products(nest, self.gemm_limits, fresh=fresh):
            (n0, s0), (n1, s1) = step.outer, step.inner
            insn = _GEMM.changed(
                overwrite=step.overwrite,
                iter_out=n0,
                iter_in=n1,
                dst_out=s0[0],
                dst_in=s1[0],
                src_out=s0[1],
                src_in=s1[1],
                wgt_out=s0[2],
                wgt_in=s1[2],
            )
            self.step(insn, step, nest.bases, (Memory.ACC, Memory.INP, Memory.WGT))

    def fill(self, o: FillNest) -> None:
        """GEMMs that reset, and an addition where the value is not 0."""
        nest = self.folder.nest(o.extents, (o.dst,))
        for step in self.folder.steps(nest, self.fill_limits):
            (n0, s0), (n1, s1) = step.outer, step.inner
            insn = _GEMM.changed(reset=1, iter_out=n0, iter_in=n1, dst_out=s0[0], dst_in=s1[0])
            self.step(insn, step, nest.bases, (Memory.ACC,))
        if o.value:
            self.alu(AluNest(AluOp.ADD, o.extents, o.dst, None, o.value))

    def can_overwrite(self, o: FillNest, following: Operation | None) -> bool:
        """Whether the GEMM behind a Fill 0 does all that it would, so that nothing is left of
        it."""
        if o.value or type(following) is not GemmNest or following.dst.tile is not o.dst.tile:
            return False
        return self.folder.can_overwrite(o, following, self.gemm_limits)

    def alu(self, o: AluNest) -> None:
        """ALU instructions with a tile or an immediate."""
        imm = bit_fields(self.config)[Opcode.ALU]["imm"]
        if o.op is AluOp.MUL:
            self.need(Capability.ALU_MUL, "MUL")
        if o.src is None and not imm.low <= o.imm <= imm.high:
            raise LoweringError(
                f"encode: {self.layer}: ALU.imm={o.imm} does not fit {imm.width} bits "
                f"[{imm.low}, {imm.high}]"
            )
        src = o.dst if o.src is None else o.src
        whole = self.folder.nest(o.extents, (o.dst, src)).reductions_outermost()
        kind = Alu(alu_op=int(o.op), use_imm=int(o.src is None), imm=o.imm if o.src is None else 0)
        for nest in whole.parts(_ALU_DEPTH if self.config.profile == "vta" else 0):
            self.alu_steps(kind, nest)

    def set_requantization(self, o: RequantizeNest) -> None:
        """The registers that an RQ reads."""
        self.need(Capability.REQUANTIZE, "RQ")
        for register, value in (
            (ConfigRegister.RQ_ZERO_POINT, o.zero_point),
            (ConfigRegister.RQ_MIN, o.low),
            (ConfigRegister.RQ_MAX, o.high),
            (ConfigRegister.RQ_ROUNDING, int(Rounding(o.rounding))),
        ):
            self.set_register(Stage.COMPUTE, register, value)

    def alu_steps(self, kind: Alu, nest: LoopNest) -> None:
        """One ALU instruction for each part of the nest; `kind`: its operation and immediate."""
        for step in self.folder.steps(nest, self.alu_limits, in_order=True):
            (n0, s0), (n1, s1) = step.outer, step.inner
            insn = kind.changed(
                iter_out=n0,
                iter_in=n1,
                dst_out=s0[0],
                dst_in=s1[0],
                src_out=s0[1],
                src_in=s1[1],
            )
            self.step(insn, step, nest.bases, (Memory.ACC, Memory.ACC))

    def step(
        self,
        insn: Gemm | Alu,
        step: Step,
        bases: NDArray[np.int64],
        memories: tuple[Memory, ...],
    ) -> None:
        """A GEMM or ALU instruction; bases: where its operands begin; memories: of the micro-ops'
        operands, the first written."""
        tail = _RQ_TILES - 1 if type(insn) is Alu and insn.alu_op == AluOp.RQ else 0
        ranges = zip(memories, bases.tolist(), step.low, step.end, strict=True)
        memory, base, low, end = next(ranges)
        scratch = [ScratchRange(memory, base + low, base + end, True)]
        scratch += [
            ScratchRange(m, base + low, base + end + tail, False) for m, base, low, end in ranges
        ]
        uops = step.uops + bases
        if (lacking := 3 - len(memories)) > 0:
            uops = np.concatenate([uops, np.zeros((len(uops), lacking), np.int64)], axis=1)
        self.items.append(WithMicroOps(insn, self.layer, tuple(scratch), uops.tobytes()))


def _accesses(o: _Nest) -> tuple[Access, ...]:
    """The operands, the one that is written first."""
    if type(o) is GemmNest:
        return (o.dst, o.src, o.wgt)
    if type(o) is RequantizeNest:
        return (o.dst, o.operands)
    if type(o) is AluNest and o.src is not None:
        return (o.dst, o.src)
    return (o.dst,)


def _values(o: _Nest) -> tuple[int, ...]:
    """What its instructions depend on besides loops and operands; of RQ that stands in
    registers."""
    if type(o) is AluNest:
        return (o.op, o.imm)
    return (o.value,) if type(o) is FillNest else ()


#: A step of VTA's ALU sees what its instruction wrote so many steps before.
_ALU_DEPTH = 3


def _limits(opcode: Opcode, operands: tuple[str, ...], config: HwConfig) -> FoldingLimits:
    """What the loops and factors of an instruction can hold; its list may take half of the micro-op
    scratchpad, so that the next one finds room beside it."""
    fields = bit_fields(config)[opcode]
    return FoldingLimits(
        turns=min(fields["iter_out"].high, fields["iter_in"].high),
        factors=tuple(
            min(fields[f"{operand}_out"].high, fields[f"{operand}_in"].high) for operand in operands
        ),
        uops=config.depth(Memory.UOP) // 2,
    )
