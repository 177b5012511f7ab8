# SPDX-License-Identifier: Apache-2.0
"""The estimated cost of instructions: the model on which all of the compiler's choices rest.

In:   a HwConfig, whose timing table (devices/timing/*.json) also feeds the simulator.
Out:  CostModel: cycles of an instruction of each kind, for a number of steps or tiles.
Next: schedule/tile.py, operators/weighted.py and region/fold_pixels.py choose shapes by it;
      passes/prefetch.py and passes/synchronize/synchronize.py guess with it when each stage does
      what.

    GEMM, ALU    overhead + steps x step                                     + fetch
    DEPTHWISE    its own overhead + rows of windows that steps read x step   + fetch
    RQ           its own overhead + steps x step + operand tiles read anew   + fetch
    MUL          RQ's overhead + steps x step of an ALU instruction          + fetch
    LOAD         request + latency + beats + done                            + fetch
    STORE        overhead + bursts x burst + tiles x tile                    + fetch
    with RQ      the same + the way through RQ + operand tiles of each row

The simulator models more: waiting for other instructions and for the bus. Steps of RQ or MUL that
wait for a tile are not modelled here, because the compiler's nests write a tile once. Fetch is the
share of the bus that every instruction uses: its beats, and the cycle in which it enters its queue.
A store seldom begins at a burst's boundary, so that two bursts are counted. A constant that is
missing in a table is that of the measured VTA. Only speed depends on these estimates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from types import MappingProxyType
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from loadstone.backend.device import TimingConstant
from loadstone.vta.device.hw_config import HwConfig, builtin_timing
from loadstone.vta.isa.insn import Alu, Depthwise, Gemm, Store
from loadstone.vta.isa.instruction_columns import InsnForm, PendingInstruction
from loadstone.vta.isa.spec import INSN_BYTES, UOP_BYTES, AluOp, Capability, Memory
from loadstone.vta.isa.weight_planes import PackedConstants
from loadstone.vta.stream.operations import (
    AluNest,
    GemmNest,
    Operation,
    RequantizeNest,
    TileLoad,
    TileStore,
)
from loadstone.vta.stream.table import NO_TILE, StreamColumns

__all__ = ["CostModel", "cost_model"]

Cycles: TypeAlias = NDArray[np.int64]
#: One number, or one for each of several instructions.
Count = TypeVar("Count", int, NDArray[np.int64])
#: The table whose constants stand in for those that a device's own leaves out.
_MEASURED = "vta-rtl"


@dataclass(frozen=True)
class CostModel:
    """Cycles of one device. Two models are equal where every estimate is.

    The overheads are of a whole instruction, fetch included; *_step of one step of the loops;
    rq_operand of a step of RQ whose operand tiles are not those of the step before; *_beats of one
    tile on the bus.
    """

    gemm_overhead: int
    gemm_step: int
    depthwise_overhead: int
    alu_overhead: int
    alu_immediate_step: int
    alu_tensor_step: int
    rq_overhead: int
    rq_step: int
    rq_operand: int
    load_overhead: int
    store_overhead: int
    store_tile: int
    store_burst: int
    store_rq: int
    store_inp: int
    read_latency: int
    noop: int
    bus_bytes: int
    inp_beats: int
    wgt_beats: int
    acc_beats: int

    def gemm(self, steps: Count) -> Count:
        """A GEMM, also one that resets."""
        return self.gemm_overhead + steps * self.gemm_step

    def windows(self, rows: int) -> int:
        """A DEPTHWISE whose steps read so many rows of windows, one each at least."""
        return self.depthwise_overhead + rows * self.gemm_step

    def alu(self, steps: Count, *, tensor: bool) -> Count:
        """An ALU instruction whose operand is a tile, or an immediate."""
        return self.alu_overhead + steps * self.alu_step(tensor)

    def alu_step(self, tensor: bool) -> int:
        """One step of an ALU instruction."""
        return self.alu_tensor_step if tensor else self.alu_immediate_step

    def multiply(self, steps: Count, *, tensor: bool) -> Count:
        """An ALU MUL: the steps of any ALU instruction, through the multipliers of RQ."""
        return self.rq_overhead + steps * self.alu_step(tensor)

    def requantize(self, steps: Count, moves: Count | int = 1) -> Count:
        """An ALU RQ. moves: steps whose operand tiles are not those of the step before."""
        return self.rq_overhead + steps * self.rq_step + moves * self.rq_operand

    def elementwise(self, tiles: int, inputs: int) -> int:
        """An operator on elements: a GEMM by the identity and an RQ for each input, and one of both
        for the sum of two."""
        each = self.gemm_step + self.rq_step
        joined = self.alu_tensor_step + self.rq_step if inputs > 1 else 0
        return tiles * (inputs * each + joined)

    def load(self, size_bytes: Count) -> Count:
        """A LOAD of so many bytes, pads not counted."""
        return self.load_overhead + size_bytes // self.bus_bytes

    def store(self, tiles: Count) -> Count:
        """A STORE of so many tiles."""
        return self.store_overhead + tiles * self.store_tile

    def whole_store(self, tiles: Count) -> Count:
        """The same of whole accumulators."""
        return self.store_overhead + tiles * self.whole_tile

    @property
    def whole_tile(self) -> int:
        """One tile of them."""
        return max(self.store_tile, self.acc_beats)

    def store_rows(self, rows: int) -> int:
        """What a STORE of several rows takes more than one of a single row: each is a burst."""
        return (rows - 1) * self.store_burst

    def requantized_store(self, rows: int, columns: int, *, moves: bool) -> int:
        """A STORE that requantizes rows of tiles, as if they were one. moves: each row has operands
        of its own."""
        tiles = rows * columns * max(self.store_tile, self.rq_step)
        way = self.store_rq + (rows if moves else 1) * self.rq_operand
        return self.store_overhead + tiles + way

    def kept_store(self, rows: int, columns: int, operands: int) -> int:
        """A STORE of rows of tiles to INP. operands: how often it takes some to requantize; 0: it
        does not."""
        way = self.store_rq + operands * self.rq_operand if operands else 0
        return self.store_inp + rows * columns * (self.rq_step if operands else 1) + way

    def uop_load(self, uops: NDArray[np.int64]) -> NDArray[np.int64]:
        """Cycles of LOADs of so many micro-ops each, in the shape of `uops`."""
        return self.load_overhead + uops * UOP_BYTES // self.bus_bytes

    def operations(
        self,
        operations: Sequence[Operation],
        columns: StreamColumns,
        config: HwConfig,
        packed: PackedConstants = MappingProxyType({}),
    ) -> Cycles:
        """(operations,): each, were it one instruction. columns: theirs. packed: constants of
        weights that do not stand in DRAM as tiles."""
        cycles, steps, tiles = np.zeros(len(operations), np.int64), columns.steps, columns.copied
        for kind, own in columns.kinds.items():
            if kind is TileLoad:
                cycles[own] = self.load(_loaded_bytes(columns, packed, config))
            elif kind is TileStore:
                whole = columns.copies[own, 5] == Memory.ACC
                cycles[own] = np.where(whole, self.whole_store(tiles[own]), self.store(tiles[own]))
                for n in own[(columns.touched[own, 1:] != NO_TILE).any(axis=1)].tolist():
                    cycles[n] = self._stored(operations[n])
            elif kind is AluNest:
                nests = [operations[n] for n in own.tolist()]
                has_source = columns.touched[own, 1] != NO_TILE
                cycles[own] = self._alus(nests, steps[own], has_source)
            elif kind is RequantizeNest:
                nests = [operations[n] for n in own.tolist()]
                cycles[own] = self.requantize(steps[own], _nest_moves(nests))
            else:
                cycles[own] = self.gemm(steps[own])
                for n in own.tolist() if config.has(Capability.DEPTHWISE) else ():
                    o = operations[n]
                    if type(o) is GemmNest and o.window is not None:
                        cycles[n] = self.windows(_rows_read(o))
        return cycles

    def _stored(self, o: Operation) -> int:
        """A store that requantizes, or stays in INP."""
        assert type(o) is TileStore
        moves = o.requantization is not None and o.requantization.step > 0
        if o.inp is not None:
            operands = (o.y_size if moves else 1) if o.requantization is not None else 0
            return self.kept_store(o.y_size, o.x_size, operands)
        return self.requantized_store(o.y_size, o.x_size, moves=moves) + self.store_rows(o.y_size)

    def _alus(
        self, nests: Sequence[Operation], steps: Cycles, has_source: NDArray[np.bool_]
    ) -> Cycles:
        multiplies = [type(o) is AluNest and o.op is AluOp.MUL for o in nests]
        alu, multiply = (
            np.where(has_source, cycles(steps, tensor=True), cycles(steps, tensor=False))
            for cycles in (self.alu, self.multiply)
        )
        return np.where(multiplies, multiply, alu)

    def instruction(self, pending: PendingInstruction | InsnForm, config: HwConfig) -> int:
        """How long after its turn an instruction should be done.

        For a store with the memory's latency: reads go before it on the bus, and who waits for a
        store too early stalls, while who waits for an older one loses nothing.
        """
        insn, dram = pending.insn, pending.dram
        if type(insn) is Gemm:
            return self.gemm(insn.steps)
        if type(insn) is Depthwise:
            below, aside = divmod(insn.src_in, insn.row_stride or 1)
            below = insn.rows if aside or not insn.row_stride else below
            moved = below if insn.uop_end - insn.uop_bgn == 1 else 1  # micro-ops are rows else
            each = insn.rows + (insn.steps // insn.iter_out - 1) * min(moved, insn.rows)
            return self.windows(insn.iter_out * each)
        if type(insn) is Alu:
            return self._alu(insn)
        if type(insn) is Store and insn.memory_id == Memory.INP:
            operands = insn.requantize * (insn.y_size if insn.operand_step else 1)
            return self.kept_store(insn.y_size, insn.x_size, operands)
        if dram is None:
            return self.noop
        size = dram.rows * dram.row_bytes
        if type(insn) is Store:
            if insn.requantize:
                moves = insn.operand_step > 0
                store = self.requantized_store(insn.y_size, insn.x_size, moves=moves)
            elif insn.memory_id == Memory.ACC:
                store = self.whole_store(size // config.tile_bytes(Memory.ACC))
            else:
                store = self.store(size // config.tile_bytes(Memory.OUT))
            return store + self.read_latency
        return self.load(size)

    def _alu(self, insn: Alu) -> int:
        if insn.alu_op == AluOp.RQ:
            extents = (insn.iter_out, insn.iter_in, insn.uop_end - insn.uop_bgn)
            return self.requantize(insn.steps, _moves(extents, (insn.src_out, insn.src_in, 1)))
        if insn.alu_op == AluOp.MUL:
            return self.multiply(insn.steps, tensor=not insn.use_imm)
        return self.alu(insn.steps, tensor=not insn.use_imm)


def cost_model(config: HwConfig) -> CostModel:
    """The model of a device."""
    timing = config.timing

    def cycles(name: str) -> int:
        return (timing.get(name) or _measured()[name]).value

    bus_bytes = config.bus_bits // 8
    fetch = max(1, INSN_BYTES // bus_bytes) + 1

    def beats(memory: Memory) -> int:
        return max(1, config.tile_bytes(memory) // bus_bytes)

    wait = cycles("load_request_cycles") + cycles("read_latency_cycles")
    return CostModel(
        gemm_overhead=cycles("gemm_overhead_cycles") + fetch,
        gemm_step=cycles("gemm_step_cycles"),
        depthwise_overhead=fetch
        + cycles(
            "depthwise_overhead_cycles"
            if "depthwise_overhead_cycles" in timing
            else "gemm_overhead_cycles"
        ),
        alu_overhead=cycles("alu_overhead_cycles") + fetch,
        alu_immediate_step=cycles("alu_imm_step_cycles"),
        alu_tensor_step=cycles("alu_tensor_step_cycles"),
        rq_overhead=cycles("rq_overhead_cycles") + fetch,
        rq_step=cycles("rq_step_cycles"),
        rq_operand=cycles("rq_operand_cycles"),
        load_overhead=wait + cycles("load_done_cycles") + fetch,
        store_overhead=cycles("store_overhead_cycles") + 2 * cycles("store_burst_cycles") + fetch,
        store_burst=cycles("store_burst_cycles"),
        store_rq=timing["store_rq_cycles"].value if "store_rq_cycles" in timing else 0,
        store_inp=fetch + (timing["store_inp_cycles"].value if "store_inp_cycles" in timing else 2),
        read_latency=cycles("read_latency_cycles"),
        store_tile=cycles("store_tile_cycles") or beats(Memory.OUT),
        noop=cycles("nop_cycles") + fetch,
        bus_bytes=bus_bytes,
        inp_beats=beats(Memory.INP),
        wgt_beats=beats(Memory.WGT),
        acc_beats=beats(Memory.ACC),
    )


def _moves(extents: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """Steps of a nest, outermost loop first, at which an operand is another than the step
    before."""
    moving = [k for k, n in enumerate(extents) if n > 1 and strides[k]]
    return prod(extents[: moving[-1] + 1]) if moving else 1


def _rows_read(o: GemmNest) -> int:
    """Rows of windows that the steps of a nest read, where those below each other follow."""
    assert o.window is not None
    moves = [(o.window.move_of(s), n) for n, s in zip(o.extents, o.src.strides, strict=True)]
    least, below = min(moves, default=(o.window.rows, 1))
    return prod(o.extents) // below * (o.window.rows + (below - 1) * least)


def _nest_moves(nests: Sequence[Operation]) -> Cycles:
    moves = [_moves(o.extents, o.operands.strides) for o in nests if type(o) is RequantizeNest]
    return np.array(moves, np.int64)


@lru_cache(maxsize=1)
def _measured() -> dict[str, TimingConstant]:
    return builtin_timing(_MEASURED)


def _loaded_bytes(columns: StreamColumns, packed: PackedConstants, config: HwConfig) -> Cycles:
    """(loads,): bytes that each reads, pads not counted."""
    copies = columns.copies[columns.kinds[TileLoad]]
    tile_bytes = np.array([config.tile_bytes(memory) for memory in Memory])
    size: Cycles = copies[:, 2] * copies[:, 3] * tile_bytes[copies[:, 5]]
    for number, name in enumerate(columns.tensors):
        if name in packed:
            loads = (copies[:, 0] == number) & (copies[:, 5] == Memory.WGT)
            size[loads] = _packed_bytes(copies[loads], packed[name], config)
    return size


def _packed_bytes(copies: Cycles, first: Cycles | None, config: HwConfig) -> Cycles:
    """(loads,): bytes of loads of a packed constant, as StreamColumns.copies has them. first: as
    PackedConstants says it."""
    tiles = copies[:, 2] * copies[:, 3]
    if first is None:
        group, filled = config.tile_bytes(Memory.WGT_4BIT), config.filled_tiles(Memory.WGT_4BIT)
        return tiles * group // filled
    begin = copies[:, 1]
    return (first[begin + tiles] - first[begin]) * config.tile_bytes(Memory.WGT_PLANES)
