# SPDX-License-Identifier: Apache-2.0
"""Do the operations of a kernel do, tile by tile, what its nests say?

In:   a function of nests with copies, and the kernel that from_nests.py made of it.
Out:  nothing, or a LoweringError that names the first operation that differs.
Next: operators/kernels.py runs it on each new kernel, where passes/log.py says so.

ir_pass/unroll.py gives each call of the nests with plain numbers; every loop is run through here,
where the kernel clips and joins loops and cuts copies into pieces. A sum, or an operation in place,
must touch the same tiles in the same order. Of loads, each tile of a scratchpad that a call loads
must hold the same tile of DRAM, or the same pad, behind the operations that follow each other; of
stores, the same tiles must go to the same places. Lives of tiles are matched one to one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from itertools import groupby
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import LoweringError
from loadstone.ir_pass.nests import COPY, Function
from loadstone.ir_pass.unroll import Buffer, Call, Loop, unroll_nests
from loadstone.vta.isa.spec import Memory
from loadstone.vta.kernels.emitter import ALU, PAD_TENSOR, Emitter
from loadstone.vta.kernels.kernel import Kernel
from loadstone.vta.stream.operations import (
    Access,
    AluNest,
    DramTile,
    FillNest,
    GemmNest,
    Nest,
    Operation,
    RequantizeNest,
    TileLoad,
    TileStore,
    VirtualTile,
)
from loadstone.vta.stream.text import OperationPrinter

__all__ = ["verify_kernel"]

_DRAM = "global"
_Tiles: TypeAlias = NDArray[np.int64]
#: What a tile of a scratchpad holds: the number of a tile of DRAM, beyond that of its tensor times
#: this; below 0 a pad.
_FAR = 1 << 40
_UNKNOWN = int(np.iinfo(np.int64).min)
_CONSTANT_PAD = PAD_TENSOR.format("")
_STEPS = {op: name for name, op in ALU.items()}


def verify_kernel(kernel: Kernel, function: Function) -> None:
    """Raises LoweringError where a kernel does not emit what the function says."""
    names = tuple(tensor.name for tensor in function.parameters)
    if kernel.parameters != names:
        raise LoweringError(f"kernel: parameters {kernel.parameters} of {names}")
    emitter = Emitter({})
    kernel.emit(emitter, *(DramTile(name, 0) for name in names))
    check = _Comparison(list(names))
    calls = groupby(unroll_nests(function), key=_kind_of_call)
    emitted = groupby(emitter.operations, key=_kind_of_operation)
    for kind, group in calls:
        found, operations = next(emitted, ("nothing", iter(())))
        check.same(kind, list(group), found, list(operations))
    for _, operations in emitted:
        raise _more(next(operations))
    if check.pads != emitter.pad_values:
        raise LoweringError(
            f"kernel: it reads pads {sorted(check.pads)} and says {sorted(emitter.pad_values)}"
        )


def _kind_of_call(call: Call) -> str:
    if call.name != COPY:
        return "compute"
    return "store" if call.operands[0].buffer.scope == _DRAM else "load"


def _kind_of_operation(operation: Operation) -> str:
    if isinstance(operation, TileLoad):
        return "load"
    return "store" if isinstance(operation, TileStore) else "compute"


def _more(operation: Operation) -> LoweringError:
    return LoweringError(f"kernel: no nest says `{OperationPrinter().line(operation)}`")


@dataclass
class _Comparison:
    """parameters: names of tensors in DRAM. lives: the tile that the operations have for each life
    of a tensor. wanted, found: what each tile holds by the calls, and by the operations. pads: the
    values of constants that loads of pads read. extends: whether a tile is loaded from int8 into
    accumulators."""

    parameters: list[str]
    lives: dict[Buffer, VirtualTile] = field(default_factory=dict)
    taken: dict[VirtualTile, Buffer] = field(default_factory=dict)
    wanted: dict[VirtualTile, _Tiles] = field(default_factory=dict)
    found: dict[VirtualTile, _Tiles] = field(default_factory=dict)
    pads: set[int] = field(default_factory=set)
    extends: dict[VirtualTile, bool] = field(default_factory=dict)

    def same(
        self, kind: str, calls: Sequence[Call], found: str, operations: Sequence[Operation]
    ) -> None:
        """Compares what follows each other without anything of another kind between."""
        if kind != found:
            raise LoweringError(f"kernel: {_said(calls[0])} is not emitted; what comes is {found}")
        if kind == "load":
            self._loads(calls, [o for o in operations if isinstance(o, TileLoad)])
        elif kind == "store":
            self._stores(calls, [o for o in operations if isinstance(o, TileStore)])
        else:
            nests = [o for o in operations if not isinstance(o, TileLoad | TileStore)]
            if len(calls) != len(nests):
                raise LoweringError(
                    f"kernel: {len(calls)} steps from {_said(calls[0])} on are {len(nests)} "
                    "operations"
                )
            for call, nest in zip(calls, nests, strict=True):
                self._compute(call, nest)

    # --- compute ----------------------------------------------------------------------------------
    def _compute(self, call: Call, nest: Nest) -> None:
        name, immediates, accesses = _read(nest)
        said = () if call.name == "gemm" else call.immediates
        if (name, immediates, len(accesses)) != (call.name, said, len(call.operands)):
            raise self._differs(call, nest)
        for number, (place, access) in enumerate(zip(call.operands, accesses, strict=True)):
            if self.lives.get(place.buffer) is not access.tile:
                self._alive(place.buffer, access.tile)
            strides, shift = access.strides, access.base - place.offset
            extents = nest.extents
            if isinstance(nest, GemmNest) and (window := nest.window) is not None:
                extents = (*extents, window.rows, window.columns)
                strides = (*strides, *((window.row_stride, 1) if number == 1 else (0, 0)))
            if not _alike(call.loops, number, extents, strides, shift):
                raise self._differs(call, nest)

    def _alive(self, buffer: Buffer, tile: VirtualTile) -> None:
        """Matches a life of a tensor with a tile."""
        known, size = self.lives.setdefault(buffer, tile), prod(buffer.shape)
        memory = Memory[buffer.scope.upper()]
        fits = (tile.memory, tile.size_tiles) == (memory, size)
        if known is not tile or self.taken.setdefault(tile, buffer) is not buffer or not fits:
            raise LoweringError(
                f"kernel: {buffer.name} of {size} tiles in {buffer.scope} has another tile than "
                "before, or one of another size or memory"
            )
        if tile not in self.wanted:
            self.wanted[tile] = np.full(size, _UNKNOWN, np.int64)
            self.found[tile] = np.full(size, _UNKNOWN, np.int64)

    # --- loads ------------------------------------------------------------------------------------
    def _loads(self, calls: Sequence[Call], loads: Sequence[TileLoad]) -> None:
        tiles = dict.fromkeys(load.tile for load in loads)
        following = iter(tile for tile in tiles if tile not in self.taken)
        for call in calls:
            (to, source), (pad,) = call.operands, call.immediates
            tile = self.lives.get(to.buffer) or next(following, None)
            if tile is None:
                raise LoweringError(f"kernel: {_said(call)} is not emitted")
            self._alive(to.buffer, tile)
            self.extends[tile] = source.buffer.dtype == "int8" and to.buffer.scope == "acc"
            at, data, inside = _copied(call.loops, 0, 1)
            read = self._code(source.buffer.name, source.offset + data)
            self.wanted[tile][to.offset + at] = np.where(inside, read, _pad(pad))
        for load in loads:
            tile = load.tile
            if tile not in self.extends:
                raise _more(load)
            memory = Memory.ACC_8BIT if self.extends[tile] else tile.memory
            if load.memory is not memory:
                raise LoweringError(f"kernel: {tile.name} is loaded as {load.memory.name}")
            self._loaded(load)
        for tile in tiles:
            wanted, found = self.wanted[tile], self.found[tile]
            if np.any((wanted != found) & (wanted != _UNKNOWN)):
                number = int(np.flatnonzero((wanted != found) & (wanted != _UNKNOWN))[0])
                raise LoweringError(
                    f"kernel: tile {number} of {tile.name} holds {self._text(found[number])} "
                    f"behind its loads, and must hold {self._text(wanted[number])}"
                )

    def _loaded(self, load: TileLoad) -> None:
        rows, columns = load.y_size, load.x_size
        pads = (load.y_pad_0, load.y_pad_1, load.x_pad_0, load.x_pad_1)
        shape = (load.y_pad_0 + rows + load.y_pad_1, load.x_pad_0 + columns + load.x_pad_1)
        end = load.offset + prod(shape)
        if min(load.offset, rows, columns, *pads) < 0 or end > load.tile.size_tiles:
            raise LoweringError(
                f"kernel: {load.tile.name} of {load.tile.size_tiles} tiles is loaded from tile "
                f"{load.offset} to {end}, with pads {pads}"
            )
        code = np.full(shape, _pad(load.pad_value), np.int64)
        data = np.add.outer(np.arange(rows) * load.x_stride, np.arange(columns))
        name, y, x = load.dram.tensor, load.y_pad_0, load.x_pad_0
        if name.startswith(_CONSTANT_PAD) and name not in self.parameters:
            value = int(name.removeprefix(_CONSTANT_PAD))
            self.pads.add(value)
            code[...] = _pad(value)
        else:
            code[y : y + rows, x : x + columns] = self._code(name, load.dram.tile + data)
        self.found[load.tile][load.offset : load.offset + code.size] = code.ravel()

    def _code(self, name: str, tiles: _Tiles) -> _Tiles:
        """Tiles of a tensor in DRAM."""
        if name not in self.parameters:
            raise LoweringError(f"kernel: {name} is none of {', '.join(self.parameters)}")
        return np.asarray(self.parameters.index(name) * _FAR + tiles)

    def _text(self, code: int) -> str:
        if code == _UNKNOWN:
            return "nothing"
        if code < 0:
            return f"the pad {-int(code) - 1 - 128}"
        return f"tile {code % _FAR} of {self.parameters[code // _FAR]}"

    # --- stores -----------------------------------------------------------------------------------
    def _stores(self, calls: Sequence[Call], stores: Sequence[TileStore]) -> None:
        wanted: dict[int, tuple[VirtualTile, int, bool]] = {}
        for call in calls:
            to, source = call.operands
            tile = self.lives.get(source.buffer)
            if tile is None:
                raise LoweringError(f"kernel: {_said(call)} stores what nothing wrote")
            at, data, _ = _copied(call.loops, 1, 0)
            numbers = self._code(to.buffer.name, to.offset + data).tolist()
            wanted |= {
                n: (tile, source.offset + t, to.buffer.dtype == "int32")
                for n, t in zip(numbers, at.tolist(), strict=True)
            }
        found: dict[int, tuple[VirtualTile, int, bool]] = {}
        for store in stores:
            data = np.add.outer(np.arange(store.y_size) * store.x_stride, np.arange(store.x_size))
            numbers = self._code(store.dram.tensor, store.dram.tile + data).ravel().tolist()
            for place, number in enumerate(numbers, start=store.offset):
                found[number] = (store.tile, place, store.whole)
        if wanted != found:
            raise LoweringError(
                f"kernel: stores from {_said(calls[0])} on are not those of the nests"
            )

    def _differs(self, call: Call, nest: Nest) -> LoweringError:
        return LoweringError(
            f"kernel: {_said(call)} is emitted as `{OperationPrinter().line(nest)}`"
        )


def _said(call: Call) -> str:
    places = (f"{place.buffer.name}[{place.offset}]" for place in call.operands)
    immediates = f" | {', '.join(map(str, call.immediates))}" if call.immediates else ""
    return f"{call.name}({', '.join(places)}{immediates})"


def _read(nest: Nest) -> tuple[str, tuple[int, ...], list[Access]]:
    """Of an operation of the compute stage, the step's name, its immediates, its operands."""
    match nest:
        case GemmNest():
            operands, window = [nest.dst, nest.src, nest.wgt], nest.window
            if window is not None and window.wide:
                return "wide", (), operands
            if window is not None:
                return "depthwise", (window.rows, window.columns), operands
            return "gemm", (), operands
        case FillNest():
            return "fill", (nest.value,), [nest.dst]
        case AluNest():
            if nest.src is None:
                return _STEPS[nest.op], (nest.imm,), [nest.dst]
            return _STEPS[nest.op], (), [nest.dst, nest.src]
        case RequantizeNest():
            values = (nest.zero_point, nest.low, nest.high, nest.rounding)
            return "rq", tuple(map(int, values)), [nest.dst, nest.operands]


def _pad(value: int) -> int:
    return -(value + 128) - 1


# --- loops ----------------------------------------------------------------------------------------
@lru_cache(maxsize=1 << 14)
def _alike(
    loops: tuple[Loop, ...],
    number: int,
    extents: tuple[int, ...],
    strides: tuple[int, ...],
    shift: int,
) -> bool:
    """Whether an operand moves through a call's loops as through an operation's: past the same
    tiles in the same order. shift: from where the call begins to where the operation does."""
    ours = _sums([np.arange(loop.first, loop.last) * loop.strides[number] for loop in loops])
    own = [np.arange(n) * stride for n, stride in zip(extents, strides, strict=True)]
    return np.array_equal(ours, shift + _sums(own))


@lru_cache(maxsize=1 << 12)
def _copied(
    loops: tuple[Loop, ...], chip: int, dram: int
) -> tuple[_Tiles, _Tiles, NDArray[np.bool_]]:
    """Of each turn of a copy: the tile in the scratchpad, in DRAM, and whether it is read."""
    turns = [(np.arange(loop.first, loop.last), loop) for loop in loops]
    at = _sums([n * loop.strides[chip] for n, loop in turns])
    data = _sums([n * loop.strides[dram] for n, loop in turns])
    outside = [((n < loop.inside_first) | (n >= loop.inside_last)) for n, loop in turns]
    return at, data, _sums([each.astype(np.int64) for each in outside]) == 0


def _sums(parts: Sequence[_Tiles]) -> _Tiles:
    """The sums of one of each, the first moving slowest."""
    return np.asarray(reduce(np.add.outer, parts, np.zeros((), np.int64))).ravel()
