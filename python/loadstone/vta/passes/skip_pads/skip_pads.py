# SPDX-License-Identifier: Apache-2.0
"""Skip pads: products with tiles of zeros are left out.

In:   a VtaProgram's operations on virtual tiles, in program order; which weight tiles are zero.
Out:  the same, with each GEMM that reads zeros cut into several that read fewer of them.
Next: store_requantize/store_requantize.py.

A LOAD puts zeros around what it brings, and a tap that reaches them multiplies by zero: of a 3x3
convolution on 7x7 pixels 80 of 441 products. A weight tile is zero where columns were folded (a
stride of two leaves a quarter) or a network has channels that are never used. The loads stay as
they are. Only what the loads of this program write counts, so that every sum stays what it was;
sums of floats, whose order decides their value, are left alone. So are sums that are stored as they
are: VTA stores what a product or an ALU operation put out, which a reset does not.

Several GEMMs are several overheads: those of one size become one (stream/join_products.py), and the
cost model says whether a cut pays (live_steps.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count, product
from operator import mul
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import LoweringError
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.spec import Capability, Memory
from loadstone.vta.kernels.emitter import PAD_TENSOR
from loadstone.vta.passes.program import LayerOperation, ProgramPass, VtaProgram
from loadstone.vta.passes.skip_pads.live_steps import Box, fewest_steps
from loadstone.vta.stream.cost import cost_model
from loadstone.vta.stream.join_products import joined
from loadstone.vta.stream.loop_nest import offsets
from loadstone.vta.stream.operations import (
    Access,
    AluNest,
    GemmNest,
    RequantizeNest,
    TileLoad,
    VirtualTile,
)
from loadstone.vta.stream.table import StreamColumns, columns_of

__all__ = ["SkipPads"]

BoolArray: TypeAlias = NDArray[np.bool_]
_ZEROS = PAD_TENSOR.format(0)


class SkipPads(ProgramPass):
    """Cuts GEMMs so that they leave padding out."""

    name: ClassVar[str] = "skip_pads"

    def run(self, program: VtaProgram) -> VtaProgram:
        """The operations with fewer steps."""
        if program.config.is_float:
            return program
        operations, made, at = program.operations, list[LayerOperation](), 0
        columns = program.columns or columns_of([operation for _, operation in operations])
        cuts = _cuts(program, columns)
        for number, parts in cuts.items():
            layer, _ = operations[number]
            made += operations[at:number]
            made += [(layer, part) for part in parts]
            at = number + 1
        made += operations[at:]
        return replace(program, operations=made, columns=columns.cut(cuts))

    def verify(self, before: VtaProgram, after: VtaProgram) -> None:
        """Nothing but steps of GEMMs that read zeros is gone, and nothing is new."""
        behind = iter([*(operation for _, operation in after.operations), None])
        loads: dict[VirtualTile, list[TileLoad]] = {}
        current = next(behind)
        for layer, operation in before.operations:
            if isinstance(operation, TileLoad):
                loads.setdefault(operation.tile, []).append(operation)
            if operation is current:
                current = next(behind)
                continue
            if not isinstance(operation, GemmNest):
                raise LoweringError(f"skip_pads: {layer}: something other than a GEMM changed")
            left = _different_steps(operation, layer)
            while isinstance(current, GemmNest) and _same_tiles(current, operation):
                made = _different_steps(current, layer)
                if not np.isin(made, left, assume_unique=True).all():
                    break
                left = np.setdiff1d(left, made, assume_unique=True)
                current = next(behind)
            dead = np.zeros(left.shape, bool)
            for access, shift in ((operation.src, 0), (operation.wgt, _BITS)):
                zeros = _zeros(loads.get(access.tile, []), before.zero_tiles)
                dead |= np.isin(left >> shift & ((1 << _BITS) - 1), list(zeros))
            if not dead.all():
                raise LoweringError(f"skip_pads: {layer}: a product without zeros is left out")
        if current is not None:
            raise LoweringError("skip_pads: an operation is new")


def _cuts(program: VtaProgram, columns: StreamColumns) -> dict[int, list[GemmNest]]:
    """By number, in order, the GEMMs that are cut, and what becomes of each."""
    skipper, cuts = _Skipper(program.config, program.zero_tiles), dict[int, list[GemmNest]]()
    writes = np.zeros(len(columns.classes), np.int64)
    writes[columns.kinds[TileLoad]] = _writes(columns, program.zero_tiles)[columns.brought]
    looked_at = _looked_at(columns, program.zero_tiles)
    for number, what in zip(looked_at.tolist(), writes[looked_at].tolist(), strict=True):
        _, operation = program.operations[number]
        if type(operation) is TileLoad:
            skipper.note(operation, what)
        elif type(operation) is GemmNest and (parts := skipper.parts(operation)) is not None:
            cuts[number] = parts
    return cuts


def _writes(columns: StreamColumns, zero_tiles: Mapping[str, BoolArray]) -> NDArray[np.int64]:
    """Of what different loads say, numbers: equal ones put zeros into the same tiles."""
    has_table = np.array([t in zero_tiles for t in columns.tensors], np.bool_)
    is_zeros = np.array([t == _ZEROS for t in columns.tensors], np.bool_)
    said, tensor = columns.said.copy(), columns.said[:, 0]
    plain = ~has_table[tensor]  # wherever it comes from, it is the same
    said[plain, 0] = -1 - is_zeros[tensor[plain]]
    said[plain, 1] = said[plain, 4] = 0
    number = defaultdict[tuple[int, ...], int](count().__next__)  # a new key has the next number
    return np.array([number[row] for row in map(tuple, said.tolist())], np.int64)


def _looked_at(columns: StreamColumns, zero_tiles: Mapping[str, BoolArray]) -> NDArray[np.int64]:
    """Numbers of the loads into tiles that may hold zeros, and of the GEMMs that read these for
    sums that nobody stores as they are."""
    has_zeros = np.array([t == _ZEROS or t in zero_tiles for t in columns.tensors], np.bool_)
    tensor, pads, pad_value = columns.said[:, 0], columns.said[:, 7:11], columns.said[:, 11]
    brings = has_zeros[tensor] | (np.any(pads, axis=1) & (pad_value == 0))
    tiles = np.zeros(len(columns.tiles.tiles), np.bool_)
    tiles[columns.touched[columns.kinds[TileLoad][brings[columns.brought]], 0]] = True
    finished = np.zeros_like(tiles)
    for kind in (AluNest, RequantizeNest):
        finished[columns.touched[columns.kinds[kind], 0]] = True
    gemms = columns.kinds[GemmNest]
    dst, src, wgt = columns.touched[gemms].T
    reads = gemms[finished[dst] & (tiles[src] | tiles[wgt])]
    return np.sort(np.concatenate([np.flatnonzero(columns.loads_of(tiles)), reads]))


class _Zeros:
    """Which tiles of a virtual tile are zeros. mark: the same as a key; empty where none is."""

    def __init__(self, tiles: BoolArray) -> None:
        self.tiles = tiles
        self.mark = tiles.tobytes() if np.logical_or.reduce(tiles) else b""


class _Skipper:
    """One walk over the program, which knows where zeros stand."""

    def __init__(self, config: HwConfig, zero_tiles: Mapping[str, BoolArray]) -> None:
        self.cost = cost_model(config)
        self.overwrites = config.has(Capability.GEMM_OVERWRITE)
        self.zero_tiles = zero_tiles
        self.zeros: dict[VirtualTile, _Zeros] = {}
        # what a load makes of a tile: worked out once
        self.written: dict[tuple[_Zeros | None, int, int], _Zeros] = {}
        self.known: dict[tuple[object, ...], list[GemmNest] | None] = {}

    def note(self, load: TileLoad, what: int) -> None:
        """What a load writes as zeros, and what it overwrites. what: equal for those that write the
        same."""
        before, size = self.zeros.get(load.tile), load.tile.size_tiles
        key = (before, size, what)
        if key not in self.written:
            tiles = np.zeros(size, bool) if before is None else before.tiles.copy()
            self.write(load, tiles)
            self.written[key] = _Zeros(tiles)
        self.zeros[load.tile] = self.written[key]

    def write(self, load: TileLoad, tiles: BoolArray) -> None:
        """Into what a tile held before."""
        table, (height, width) = self.zero_tiles.get(load.dram.tensor), load.rows_columns
        block = tiles[load.offset : load.offset + height * width].reshape(height, width)
        block[:] = _has_zeros(load)
        if load.dram.tensor == _ZEROS:
            return
        inside = block[load.y_pad_0 :, load.x_pad_0 :][: load.y_size, : load.x_size]
        if table is None:
            inside[:] = False
        else:
            rows = load.dram.tile + np.arange(load.y_size)[:, None] * load.x_stride
            inside[:] = table[rows + np.arange(load.x_size)]

    def parts(self, gemm: GemmNest) -> list[GemmNest] | None:
        """What the GEMM becomes; nothing where all that it reads is zero. None where it stays."""
        parts = self.relative_parts(gemm)
        if parts is None:
            return None
        return [_moved(gemm, part) for part in parts]

    def relative_parts(self, gemm: GemmNest) -> list[GemmNest] | None:
        """What it becomes, with bases from its own on: of GEMMs that are alike worked out once.
        None where nothing that it reads is zero, or no cut pays; a window is one step, whatever it
        reads."""
        if gemm.window is not None:
            return None
        reads = [(read, self.zeros.get(read.tile)) for read in (gemm.src, gemm.wgt)]
        marked = [(read, zeros) for read, zeros in reads if zeros is not None and zeros.mark]
        if not marked:
            return None
        strides = (access.strides for access in _accesses(gemm))
        operands = ((read.base, read.strides, zeros.mark) for read, zeros in marked)
        key = (gemm.extents, *strides, *operands)
        if key not in self.known:
            nest, boxes = self.boxes(gemm, [(read, zeros.tiles) for read, zeros in marked])
            self.known[key] = None if _is_whole(boxes, gemm) else _cut(gemm, nest, boxes)
        return self.known[key]

    def boxes(
        self, gemm: GemmNest, reads: Sequence[tuple[Access, BoolArray]]
    ) -> tuple[_Nest, list[Box]]:
        """Those of its nest; the ones that write all of its accumulator tiles come first: the first
        of them can overwrite. reads: accesses, and which of their tiles are zeros."""
        moving = [k for k in range(len(gemm.extents)) if any(read.strides[k] for read, _ in reads)]
        extents = [gemm.extents[k] for k in moving]
        live = np.ones(extents, bool)
        for read, zeros in reads:
            loops = [(gemm.extents[k], (read.strides[k],)) for k in moving]
            live &= ~zeros[read.base + offsets(loops, 1)[:, 0]].reshape(extents)
        reductions = [n for n, k in enumerate(moving) if not gemm.dst.strides[k]]
        nest = _Nest(gemm, moving)
        cheapest = fewest_steps(live, reductions, lambda boxes: self.cycles(nest, boxes))
        found = [nest.whole(box) for box in cheapest]
        return nest, sorted(found, key=lambda box: not nest.covers(box))

    def cycles(self, nest: _Nest, boxes: Sequence[Box]) -> int:
        """What GEMMs of these boxes cost; without one that can overwrite, one that resets."""
        whole = [nest.whole(box) for box in boxes]
        steps = sum(box.steps for box in whole)
        if any(nest.covers(box) for box in whole):
            kinds = {box.extents for box in whole}
            return steps * self.cost.gemm_step + len(kinds) * self.cost.gemm_overhead
        cycles = steps * self.cost.gemm_step + len(whole) * self.cost.gemm_overhead
        return cycles + (self.cost.gemm(nest.sums) if self.overwrites else 0)


class _Nest:
    """A GEMM's loops, of which some move what may be zero."""

    def __init__(self, gemm: GemmNest, moving: Sequence[int]) -> None:
        self.extents = gemm.extents
        self.moving = {k: number for number, k in enumerate(moving)}
        self.written = [k for k, stride in enumerate(gemm.dst.strides) if stride]
        self.sums = int(np.prod([gemm.extents[k] for k in self.written], dtype=np.int64))

    def whole(self, box: Box) -> Box:
        """A box of the moving loops with all turns of the others."""
        loops = range(len(self.extents))
        first = tuple(box.first[self.moving[k]] if k in self.moving else 0 for k in loops)
        extents = tuple(
            box.extents[self.moving[k]] if k in self.moving else self.extents[k] for k in loops
        )
        return Box(first, extents)

    def covers(self, box: Box) -> bool:
        """Whether a whole box writes every accumulator tile of the nest."""
        return all(box.extents[k] == self.extents[k] for k in self.written)


def _is_whole(boxes: Sequence[Box], gemm: GemmNest) -> bool:
    return [box.extents for box in boxes] == [gemm.extents]


def _cut(gemm: GemmNest, nest: _Nest, boxes: Sequence[Box]) -> list[GemmNest]:
    """A GEMM for each box, or for several, with bases from those of `gemm` on."""
    made = [_inside(gemm, box) for box in boxes]
    # One that overwrites may write each tile but once, which boxes that overlap would not.
    return joined(made) if boxes and nest.covers(boxes[0]) else made


def _accesses(gemm: GemmNest) -> tuple[Access, Access, Access]:
    return gemm.dst, gemm.src, gemm.wgt


def _inside(gemm: GemmNest, box: Box) -> GemmNest:
    """The steps of a box, from the nest's first one on."""
    dst, src, wgt = (
        Access(access.tile, sum(map(mul, box.first, access.strides)), access.strides)
        for access in _accesses(gemm)
    )
    return GemmNest(box.extents, dst, src, wgt)


def _moved(gemm: GemmNest, part: GemmNest) -> GemmNest:
    """A part that begins where the GEMM does."""
    dst, src, wgt = (
        Access(own.tile, own.base + moved.base, moved.strides)
        for own, moved in zip(_accesses(gemm), _accesses(part), strict=True)
    )
    return GemmNest(part.extents, dst, src, wgt)


def _has_zeros(load: TileLoad) -> bool:
    """Whether a load of inputs writes padding of zeros."""
    if load.memory is not Memory.INP:
        return False
    return load.dram.tensor == _ZEROS or (load.has_pads and load.pad_value == 0)


# --- the verifier's own words ---------------------------------------------------------------------
#: Bits of a tile's number in a step's.
_BITS = 20


def _zeros(loads: Sequence[TileLoad], zero_tiles: Mapping[str, BoolArray]) -> set[int]:
    """The tiles that hold zeros behind some loads into the same virtual tile."""
    zeros: set[int] = set()
    for load in loads:
        height, width = load.rows_columns
        table = zero_tiles.get(load.dram.tensor)
        for y, x in product(range(height), range(width)):
            row, column = y - load.y_pad_0, x - load.x_pad_0
            if not (0 <= row < load.y_size and 0 <= column < load.x_size):
                is_zero = load.memory is Memory.INP and load.pad_value == 0
            elif table is not None:
                is_zero = bool(table[load.dram.tile + row * load.x_stride + column])
            else:
                is_zero = load.dram.tensor == _ZEROS
            (zeros.add if is_zero else zeros.discard)(load.offset + y * width + x)
    return zeros


def _steps(gemm: GemmNest) -> NDArray[np.int64]:
    """(steps,): the tiles that each step writes, multiplies by and reads, as one number."""
    accesses = (gemm.dst, gemm.wgt, gemm.src)
    strides = list(zip(*(access.strides for access in accesses), strict=True))
    table = offsets(list(zip(gemm.extents, strides, strict=True)), 3)
    table += np.array([access.base for access in accesses], np.int64)
    if table.min() < 0 or table.max() >= 1 << _BITS:
        raise AssertionError(f"a tile is outside [0, {(1 << _BITS) - 1}]")
    return np.asarray(table @ np.array([1 << 2 * _BITS, 1 << _BITS, 1], np.int64))


def _different_steps(gemm: GemmNest, layer: str) -> NDArray[np.int64]:
    """As _steps. Raises LoweringError where a step comes twice: sets say nothing of how often."""
    found = _steps(gemm)
    if len(np.unique(found)) < len(found):
        raise LoweringError(f"skip_pads: {layer}: a GEMM that adds a product twice is cut")
    return found


def _same_tiles(one: GemmNest, other: GemmNest) -> bool:
    pairs = ((one.dst, other.dst), (one.src, other.src), (one.wgt, other.wgt))
    return all(a.tile is b.tile for a, b in pairs)
