# SPDX-License-Identifier: Apache-2.0
"""What the operations of vta/stream/operations.py mean, in NumPy, before anything has an address.

In:   operations on virtual tiles; DRAM as a dict of tile arrays by tensor name.
Out:  DRAM with what the stores wrote. AssertionError where the order of steps matters, and the
      steps are not taken in order.
Next: the tests of every operator compare it with numerics; `vta/meaning/reference.py` says the same
      of instructions.

A virtual tile starts with values that differ in every lane, so that a read of what nobody wrote
shows in the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loadstone.numerics import rq, wrap_int32
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.spec import AluOp, Memory
from loadstone.vta.stream.operations import (
    Access,
    AluNest,
    FillNest,
    GemmNest,
    LaneWindow,
    Operation,
    RequantizeNest,
    StoreRequantization,
    TileLoad,
    TileStore,
    VirtualTile,
)

__all__ = ["execute"]

Tiles = NDArray[Any]


def execute(operations: Sequence[Operation], dram: Mapping[str, Tiles], config: HwConfig) -> None:
    """Runs the operations in order. dram: (tiles, batch, block), weights (tiles, block, block);
    changed in place."""
    machine = _Machine(dram, config)
    for operation in operations:
        machine.run(operation)


class _Machine:
    def __init__(self, dram: Mapping[str, Tiles], config: HwConfig) -> None:
        self._dram = dram
        self._config = config
        self._tiles: dict[VirtualTile, Tiles] = {}

    def run(self, operation: Operation) -> None:
        match operation:
            case TileLoad():
                self._load(operation)
            case TileStore():
                self._store(operation)
            case GemmNest():
                self._gemm(operation)
            case FillNest():
                for (dst,) in _steps(operation.extents, operation.dst):
                    self._data(operation.dst)[dst] = operation.value
            case AluNest():
                self._alu(operation)
            case RequantizeNest():
                self._requantize(operation)

    def _data(self, access: Access) -> Tiles:
        return self._contents(access.tile)

    def _contents(self, tile: VirtualTile) -> Tiles:
        if tile not in self._tiles:
            rows = self._config.block if tile.memory is Memory.WGT else self._config.batch
            shape = (tile.size_tiles, rows, self._config.block)
            garbage = np.arange(1, np.prod(shape) + 1).reshape(shape) * 37
            self._tiles[tile] = garbage.astype(np.int32 if tile.memory is Memory.ACC else np.int8)
        return self._tiles[tile]

    def _load(self, load: TileLoad) -> None:
        source, target = self._dram[load.dram.tensor], self._contents(load.tile)
        source = source.reshape(-1, *target.shape[1:])  # activations may be read as weights
        rows = (
            load.dram.tile
            + load.x_stride * np.arange(load.y_size)[:, None]
            + np.arange(load.x_size)
        )
        pads = ((load.y_pad_0, load.y_pad_1), (load.x_pad_0, load.x_pad_1), (0, 0), (0, 0))
        block = np.pad(source[rows], pads, constant_values=load.pad_value)
        target[load.offset : load.offset + block.shape[0] * block.shape[1]] = block.reshape(
            -1, *target.shape[1:]
        )

    def _store(self, store: TileStore) -> None:
        first = store.dram.tile if store.inp is None else store.inp.offset
        rows = first + store.x_stride * np.arange(store.y_size)[:, None] + np.arange(store.x_size)
        tiles = self._contents(store.tile)[store.offset : store.offset + rows.size]
        if store.requantization is not None:
            tiles = self._requantized(tiles, store, store.requantization)
        into = (
            self._dram[store.dram.tensor] if store.inp is None else self._contents(store.inp.tile)
        )
        # all bits of a lane, or the low 8
        into[rows.ravel()] = tiles.astype(np.int32 if store.whole else np.int8)

    def _requantized(self, tiles: Tiles, store: TileStore, by: StoreRequantization) -> Tiles:
        operands, made = self._contents(by.tile), tiles.copy()
        for y in range(store.y_size):
            row, first = slice(y * store.x_size, (y + 1) * store.x_size), by.offset + y * by.step
            made[row] = rq(
                tiles[row],
                *operands[first : first + 3],
                zero_point=by.zero_point,
                low=by.low,
                high=by.high,
                rounding=by.rounding,
            )
        return made

    def _gemm(self, gemm: GemmNest) -> None:
        acc, inp, wgt = (self._data(access) for access in (gemm.dst, gemm.src, gemm.wgt))
        accesses = (gemm.dst, gemm.src, gemm.wgt)
        for dst, src, weight in _steps(gemm.extents, *accesses, distinct=False):
            if gemm.window is not None:
                products = self._windows(gemm.window, inp, src, wgt[weight])
            else:
                products = np.matmul(
                    inp[src].astype(np.float64), wgt[weight].astype(np.float64).transpose(0, 2, 1)
                )  # exact below 2^53
            written, place = np.unique(dst, return_inverse=True)
            sums = acc[written].astype(np.int64)
            np.add.at(sums, place, products.astype(np.int64))
            acc[written] = wrap_int32(sums)

    def _windows(
        self, window: LaneWindow, inp: Tiles, src: NDArray[np.intp], weights: Tiles
    ) -> NDArray[Any]:
        """The weights of a lane are in rows of four, those of the last row where the largest window
        has them."""
        block = self._config.block
        room = min(3, block // 4)
        taps = weights[..., : room * 4].reshape(len(src), block, room, 4).astype(np.int64)
        total = np.zeros((len(src), *inp.shape[1:]), np.int64)
        for row in range(window.rows):
            for column in range(window.columns):
                x = inp[src + row * window.row_stride + column].astype(np.int64)
                total += x * taps[:, None, :, room - window.rows + row, column]
        if window.wide:
            x = inp[src + (window.rows - 1) * window.row_stride].astype(np.int64)
            total += x * 128 * taps[:, None, :, room - 1, 3]
        return total

    def _alu(self, alu: AluNest) -> None:
        acc = self._data(alu.dst)
        accesses = (alu.dst,) if alu.src is None else (alu.dst, alu.src)
        for dst, *src in _steps(alu.extents, *accesses):
            if alu.src is None:
                operand: NDArray[np.int64] | np.int64 = np.int64(alu.imm)
            else:
                if alu.src.tile is alu.dst.tile:
                    _read_apart(src[0], dst)
                operand = self._data(alu.src)[src[0]].astype(np.int64)
            acc[dst] = wrap_int32(_alu(alu.op, acc[dst].astype(np.int64), operand))

    def _requantize(self, op: RequantizeNest) -> None:
        acc, operands = self._data(op.dst), self._data(op.operands)
        for dst, first in _steps(op.extents, op.dst, op.operands):
            if op.operands.tile is op.dst.tile:
                for tile in range(3):
                    _read_apart(first + tile, dst)
            bias, multiplier, shift = (operands[first + tile] for tile in range(3))
            acc[dst] = rq(
                acc[dst],
                bias,
                multiplier,
                shift,
                zero_point=op.zero_point,
                low=op.low,
                high=op.high,
                rounding=op.rounding,
            )


def _read_apart(read: NDArray[np.intp], written: NDArray[np.intp]) -> None:
    """No step reads what another step of the same turn writes: they are taken at once."""
    assert not np.isin(read[read != written], written).any(), (
        "a step reads a tile that another step of the same turn writes"
    )


def _alu(op: AluOp, x: NDArray[np.int64], y: NDArray[np.int64] | np.int64) -> NDArray[np.int64]:
    if op is AluOp.SHR:
        return np.asarray(x >> np.maximum(y, 0) << np.maximum(-y, 0), np.int64)
    functions: dict[AluOp, Any] = {
        AluOp.MIN: np.minimum,
        AluOp.MAX: np.maximum,
        AluOp.ADD: np.add,
        AluOp.MUL: np.multiply,
    }
    return np.asarray(functions[op](x, y), np.int64)


def _steps(
    extents: tuple[int, ...], *accesses: Access, distinct: bool = True
) -> Iterator[list[NDArray[np.intp]]]:
    """Tile indices of the accesses, in order: loops that do not move the first access one turn at a
    time, the others at once. distinct: what is written depends on the order of steps, so that those
    of one turn must write different tiles."""
    still = [loop for loop, stride in enumerate(accesses[0].strides) if stride == 0]
    for turn in np.ndindex(*(extents[loop] for loop in still)):
        fixed = dict(zip(still, turn, strict=True))
        indices = []
        for access in accesses:
            index = np.full((), access.base, np.intp)
            for loop, (extent, stride) in enumerate(zip(extents, access.strides, strict=True)):
                index = index[..., None] + stride * (
                    np.array([fixed[loop]]) if loop in fixed else np.arange(extent)
                )
            indices.append(index.ravel())
        written = indices[0]
        assert not distinct or len(np.unique(written)) == len(written), (
            "a step writes a tile that another step of the same turn writes"
        )
        yield indices
