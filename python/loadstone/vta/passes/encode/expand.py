# SPDX-License-Identifier: Apache-2.0
"""Expand: what one operation becomes, wherever its tiles stand.

In:   an operation; a device, whose fields say what one instruction holds.
Out:  `ExpandedPart`s: forms of instructions, counted from where the operands begin.
Next: encode.py asks once for each kind of operation, and adds where its operands begin.

One operation becomes one instruction where its fields hold it, else several: split_transfer.py cuts
copies, folding.py folds loops.

The tiles of a layer differ in where their operands stand, seldom in what is done to them: of some
ten thousand operations of a network a few hundred are of a kind of their own.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import LoweringError
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.codec import bit_fields
from loadstone.vta.isa.insn import Alu, Depthwise, Gemm, Load, Store
from loadstone.vta.isa.instruction_columns import DramRows, InsnForm, ScratchRange
from loadstone.vta.isa.spec import MICRO_OPS, SCRATCHPAD_OF, AluOp, Capability, Memory, Opcode
from loadstone.vta.passes.encode.folding import Step, nest_of, products, steps, windows
from loadstone.vta.passes.encode.split_transfer import CopyLimits, split_load, split_store
from loadstone.vta.stream.loop_nest import FoldingLimits, LoopNest
from loadstone.vta.stream.operations import (
    Access,
    AluNest,
    FillNest,
    GemmNest,
    Nest,
    RequantizeNest,
    TileLoad,
    TileStore,
)

__all__ = [
    "ExpandedPart",
    "Expander",
    "accesses_of",
    "in_groups",
    "in_planes",
    "kind_of_copy",
    "kind_of_nest",
]

#: Accumulator tiles that RQ reads: bias, multiplier, shift.
_RQ_TILES = 3
#: What x_size holds.
_MOST_WORDS = 0xFFFF
#: What a LOAD has around its rows.
_PADS = ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1")
#: A step of VTA's ALU sees what its instruction wrote so many steps before.
_ALU_DEPTH = 3


@dataclass(frozen=True, eq=False, slots=True)
class ExpandedPart:
    """One instruction of an operation. at: of a copy, tiles from the start of its scratchpad tile;
    dram: tiles from where the operation begins in DRAM. uops (n, 3): micro-ops, counted from where
    the operands begin; None: it has none."""

    form: InsnForm
    at: int = 0
    dram: int = 0
    uops: NDArray[np.int64] | None = None


def kind_of_copy(o: TileLoad | TileStore) -> tuple[int, ...]:
    """What the parts of a copy depend on."""
    if type(o) is TileStore:
        by = o.requantization
        return (o.memory, o.y_size, o.x_size, o.x_stride, *(() if by is None else (by.step,)))
    assert type(o) is TileLoad
    pads = (o.y_pad_0, o.y_pad_1, o.x_pad_0, o.x_pad_1)
    return (o.memory, o.y_size, o.x_size, o.x_stride, *pads)


def in_groups(o: TileLoad, config: HwConfig) -> TileLoad:
    """A load of weight tiles as one of the groups that they are in; its place in DRAM counts what
    dram_base does."""
    each = config.filled_tiles(Memory.WGT_4BIT)
    step = config.tile_bytes(Memory.WGT_4BIT) // config.base_bytes(Memory.WGT_4BIT)
    sizes = [o.dram.tile, o.x_size, *([o.x_stride] if o.y_size > 1 else [])]
    if any(size % each for size in sizes):
        raise AssertionError(f"a LOAD of {o.dram.tensor} is not of whole groups of {each} tiles")
    return replace(
        o,
        memory=Memory.WGT_4BIT,
        dram=replace(o.dram, tile=o.dram.tile // each * step),
        x_size=o.x_size // each,
        x_stride=o.x_stride // each,
    )


def in_planes(o: TileLoad, first: NDArray[np.int64]) -> Iterator[TileLoad]:
    """A load of weight tiles as loads of the bit planes that they are in, one for each row that
    does not follow the one before, or whose words no field holds. first: the word where each tile's
    code begins."""
    width, height = o.x_size, o.y_size
    if o.x_stride == width:
        width, height = width * height, 1
    for y in range(height):
        done = 0
        while done < width:
            tile = o.dram.tile + y * o.x_stride + done
            words = first[tile : tile + width - done + 1] - first[tile]
            some = int(np.searchsorted(words, _MOST_WORDS, side="right")) - 1
            yield replace(
                o,
                memory=Memory.WGT_PLANES,
                offset=o.offset + y * width + done,
                dram=replace(o.dram, tile=int(first[tile])),
                y_size=some,
                x_size=int(words[some]),
                x_stride=0,
            )
            done += some


def kind_of_nest(o: Nest) -> tuple[Hashable, ...]:
    """What the parts of a nest depend on; of RQ more stands in registers."""
    if type(o) is GemmNest:
        return (o.extents, o.dst.strides, o.src.strides, o.wgt.strides, o.window)
    if type(o) is AluNest:
        src = None if o.src is None else o.src.strides
        return (o.op, o.imm, o.extents, o.dst.strides, src)
    if type(o) is RequantizeNest:
        return (AluOp.RQ, o.extents, o.dst.strides, o.operands.strides)
    assert type(o) is FillNest
    return (o.value, o.extents, o.dst.strides)


def _operands_of(o: TileLoad | TileStore) -> int:
    """Where its operands begin in their tile; 0 where it has none."""
    by = o.requantization if type(o) is TileStore else None
    return 0 if by is None else by.offset


def _destination(o: TileLoad | TileStore) -> int:
    """Where it begins on the far side of its scratchpad tile."""
    return o.inp.offset if type(o) is TileStore and o.inp is not None else o.dram.tile


def accesses_of(o: Nest) -> tuple[Access, ...]:
    """The operands of its micro-ops, the one that is written first. An ALU instruction with an
    immediate reads what it writes."""
    if type(o) is GemmNest:
        return (o.dst, o.src, o.wgt)
    if type(o) is RequantizeNest:
        return (o.dst, o.operands)
    if type(o) is AluNest:
        return (o.dst, o.dst if o.src is None else o.src)
    return (o.dst,)


class Expander:
    """Knows what the fields of one device hold. layer: of whom messages speak."""

    def __init__(self, config: HwConfig) -> None:
        self.config = config
        self.layer = ""
        self.gemm_limits = _limits(Opcode.GEMM, ("dst", "src", "wgt"), config)
        self._fill_limits = _limits(Opcode.GEMM, ("dst",), config)
        self._window_limits = _limits(Opcode.DEPTHWISE, ("dst", "src"), config)
        self._alu_limits = _limits(Opcode.ALU, ("dst", "src"), config)
        self._copy_limits = CopyLimits(config)

    # --- memory instructions ----------------------------------------------------------------------
    def copy(self, o: TileLoad | TileStore, region: int) -> Iterator[ExpandedPart]:
        """One LOAD, or several; one STORE, or one for each row. Raises LoweringError for pads that
        no field holds."""
        if isinstance(o, TileLoad) and o.memory is Memory.WGT_PLANES:
            yield ExpandedPart(self._copy_form(o, region, 0))
            return
        parts = (
            split_load(o, self._copy_limits)
            if isinstance(o, TileLoad)
            else split_store(o, self._copy_limits)
        )
        if isinstance(o, TileLoad) and o.memory is Memory.WGT_4BIT and len(parts) != 1:
            raise LoweringError("encode: a LOAD of more groups of weights than WGT has room for")
        for part in parts:
            at, to = part.offset - o.offset, _destination(part) - _destination(o)
            operands = _operands_of(part) - _operands_of(o)
            yield ExpandedPart(self._copy_form(part, region, operands), at, to)

    def _copy_form(self, o: TileLoad | TileStore, region: int, operands: int) -> InsnForm:
        """Of a copy that fits the fields. operands: of a STORE that requantizes, how far behind
        those of the operation its own are."""
        scratch = list[ScratchRange]()
        sizes = {
            "region": region,
            "y_size": o.y_size,
            "x_size": o.x_size,
            "x_stride": o.x_stride if o.y_size > 1 else o.x_size,
        }
        if isinstance(o, TileStore):
            memory, tiles = o.memory, o.y_size * o.x_size
            insn: Load | Store = Store(memory_id=memory, **sizes)
            if o.requantization is not None:
                steps = int(o.requantization.step > 0)
                insn = insn.changed(operands=operands, operand_step=steps, requantize=1)
                count = _RQ_TILES * (o.y_size if steps else 1)
                scratch.append(ScratchRange(Memory.ACC, operands, operands + count, False))
            if o.inp is not None:
                of_acc = ScratchRange(Memory.ACC, 0, tiles, False)
                inp = ScratchRange(Memory.INP, 0, o.x_size, True, o.y_size, insn.x_stride)
                return InsnForm(insn, (of_acc, *scratch, inp))
        else:
            memory = o.memory
            pads = {name: getattr(o, name) for name in _PADS}
            insn = Load(memory_id=memory, **sizes, **pads)
            if memory is Memory.WGT_PLANES:
                insn = insn.changed(x_stride=0)
            tiles = insn.places(self.config.filled_tiles(memory))
        is_load, size = isinstance(o, TileLoad), self.config.tile_bytes(memory)
        row, stride = o.x_size * size, insn.x_stride * size
        rows = DramRows(region, 0, insn.dram_rows, row, stride, not is_load)
        scratch.insert(0, ScratchRange(SCRATCHPAD_OF[memory], 0, tiles, is_load))
        return InsnForm(insn, tuple(scratch), rows, self.config.base_bytes(memory))

    # --- compute instructions ---------------------------------------------------------------------
    def nest(self, o: Nest, *, fresh: bool) -> Iterator[ExpandedPart]:
        """GEMM and ALU instructions. fresh: of a GEMM whose Fill 0 was left out, the first
        micro-ops overwrite. Raises LoweringError for an immediate that no field holds, and for
        what the device has not."""
        match o:
            case GemmNest(window=None):
                return self._gemm(o, fresh=fresh)
            case GemmNest():
                return self._depthwise(o, fresh=fresh)
            case FillNest():
                return self._fill(o)
            case RequantizeNest():
                nest = nest_of(o.extents, accesses_of(o))
                return self._alu_steps(Alu(alu_op=int(AluOp.RQ)), nest)
            case AluNest():
                return self._alu(o)

    def need(self, capability: Capability, what: str) -> None:
        """Raises LoweringError where the device has it not."""
        if not self.config.has(capability):
            raise LoweringError(
                f"encode: {self.layer}: {what} is needed, but device {self.config.name} has no "
                f"{str(capability.name).lower()}"
            )

    def _gemm(self, o: GemmNest, *, fresh: bool) -> Iterator[ExpandedPart]:
        nest = nest_of(o.extents, accesses_of(o))
        keep_sums = self.config.is_float
        for step in products(nest, self.gemm_limits, fresh=fresh, keep_sums=keep_sums):
            (n0, s0), (n1, s1) = step.outer, step.inner
            insn = Gemm(
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
            yield _part(insn, step, (Memory.ACC, Memory.INP, Memory.WGT))

    def _depthwise(self, o: GemmNest, *, fresh: bool) -> Iterator[ExpandedPart]:
        """DEPTHWISE instructions. Raises LoweringError for a window that no field holds."""
        window = o.window
        assert window is not None
        self.need(Capability.DEPTHWISE, "DEPTHWISE")
        most = bit_fields(self.config)[Opcode.DEPTHWISE]["row_stride"].high
        if window.row_stride > most:
            raise LoweringError(
                f"encode: {self.layer}: DEPTHWISE.row_stride={window.row_stride} is beyond {most}"
            )
        nest = nest_of(o.extents, accesses_of(o))
        moves = [window.move_of(steps[1]) for _, steps in nest.loops]
        rows = moves.index(min(moves)) if moves else 0
        for step in windows(nest, self._window_limits, rows):
            (n0, s0), (n1, s1) = step.outer, step.inner
            insn = Depthwise(
                overwrite=int(fresh),
                iter_out=n0,
                iter_in=n1,
                rows=window.rows,
                columns=window.columns,
                wide=int(window.wide),
                row_stride=window.row_stride,
                dst_out=s0[0],
                dst_in=s1[0],
                src_out=s0[1],
                src_in=s1[1],
                wgt_out=s0[2],
            )
            yield _part(insn, step, (Memory.ACC, Memory.INP, Memory.WGT))

    def _fill(self, o: FillNest) -> Iterator[ExpandedPart]:
        """GEMMs that reset."""
        if o.value:
            raise AssertionError(f"{o} fills with another value than 0")
        nest = nest_of(o.extents, (o.dst,))
        for step in steps(nest, self._fill_limits):
            (n0, s0), (n1, s1) = step.outer, step.inner
            insn = Gemm(reset=1, iter_out=n0, iter_in=n1, dst_out=s0[0], dst_in=s1[0])
            yield _part(insn, step, (Memory.ACC,))

    def _alu(self, o: AluNest) -> Iterator[ExpandedPart]:
        """ALU instructions with a tile or an immediate."""
        imm = bit_fields(self.config)[Opcode.ALU]["imm"]
        if o.op is AluOp.MUL:
            self.need(Capability.ALU_MUL, "MUL")
        if o.src is None and not imm.low <= o.imm <= imm.high:
            raise LoweringError(
                f"encode: {self.layer}: ALU.imm={o.imm} does not fit {imm.width} bits "
                f"[{imm.low}, {imm.high}]"
            )
        whole = nest_of(o.extents, accesses_of(o)).reductions_outermost()
        kind = Alu(alu_op=int(o.op), use_imm=int(o.src is None), imm=o.imm if o.src is None else 0)
        for nest in whole.parts(_ALU_DEPTH if self.config.profile == "vta" else 0):
            yield from self._alu_steps(kind, nest)

    def _alu_steps(self, kind: Alu, nest: LoopNest) -> Iterator[ExpandedPart]:
        """One ALU instruction for each part of the nest; `kind`: its operation and immediate."""
        for step in steps(nest, self._alu_limits, in_order=True):
            (n0, s0), (n1, s1) = step.outer, step.inner
            insn = kind.changed(
                iter_out=n0,
                iter_in=n1,
                dst_out=s0[0],
                dst_in=s1[0],
                src_out=s0[1],
                src_in=s1[1],
            )
            yield _part(insn, step, (Memory.ACC, Memory.ACC))


def _part(insn: Gemm | Depthwise | Alu, step: Step, memories: tuple[Memory, ...]) -> ExpandedPart:
    """A GEMM, DEPTHWISE or ALU instruction; memories: of its operands, the first written."""
    tail = _RQ_TILES - 1 if type(insn) is Alu and insn.alu_op == AluOp.RQ else 0
    tails = (0, insn.reach if type(insn) is Depthwise else tail, 0)
    count = len(step.uops)
    scratch = [ScratchRange(Memory.UOP, 0, count, False)]
    for number, (memory, low, end) in enumerate(zip(memories, step.low, step.end, strict=True)):
        scratch.append(ScratchRange(memory, low, end + tails[number], number == 0))
    uops = np.zeros((count, len(MICRO_OPS)), np.int64)
    uops[:, : len(memories)] = step.uops
    return ExpandedPart(InsnForm(insn.changed(uop_end=count), tuple(scratch)), uops=uops)


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
