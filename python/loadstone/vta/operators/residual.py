# SPDX-License-Identifier: Apache-2.0
"""Weights of nine bits: the few that do not fit int8 get their rest in GEMMs of their own.

In:   the operations of a convolution on the int8 part of its weights; the rest, of which almost
      every tile is zero.
Out:  the same operations, each GEMM followed by one for every tile of its weights that has a rest.
Next: weighted.py.

A uint8 weight less its zero point is in [-255, 255]. In real models a handful of weights of a layer
leave int8, so that multiplying by the whole second part would double the work for nothing. Here a
tile of rest costs one pass over the pixels, and only where it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import prod

import numpy as np
from numpy.typing import NDArray

from loadstone.vta.isa.spec import Memory
from loadstone.vta.stream.operations import (
    Access,
    DramTile,
    GemmNest,
    Operation,
    TileLoad,
    TileRole,
    VirtualTile,
)

__all__ = ["with_rest"]

IntArray = NDArray[np.int64]


def with_rest(operations: Sequence[Operation], rest: str, tiles: IntArray) -> list[Operation]:
    """The operations with the GEMMs of the rests behind those of their weights.

    rest: the name of the constant that holds the rests alone.
    tiles: (rests,), numbers of the weight tiles that have a rest, ascending; the constant `rest`
        holds the rests in this order.
    """
    held: dict[
        VirtualTile, IntArray
    ] = {}  # weight tile on the chip -> number in DRAM of each of its tiles
    result: list[Operation] = []
    for operation in operations:
        result.append(operation)
        if isinstance(operation, TileLoad) and operation.dram.role is TileRole.WEIGHTS:
            numbers = held.setdefault(operation.tile, np.full(operation.tile.size_tiles, -1))
            rows = (
                operation.dram.tile
                + operation.x_stride * np.arange(operation.y_size)[:, None]
                + np.arange(operation.x_size)
            )
            numbers[operation.offset : operation.offset + rows.size] = rows.ravel()
        elif isinstance(operation, GemmNest) and operation.wgt.tile in held:
            result += _products(operation, held[operation.wgt.tile], rest, tiles)
    return result


def _products(gemm: GemmNest, numbers: IntArray, rest: str, tiles: IntArray) -> Iterator[Operation]:
    """Loads of the rests that a GEMM needs, and a GEMM for each."""
    moving = [loop for loop, stride in enumerate(gemm.wgt.strides) if stride]
    still = [loop for loop, stride in enumerate(gemm.wgt.strides) if not stride]
    extents_moving = [gemm.extents[loop] for loop in moving]
    turns = np.indices(extents_moving).reshape(len(moving), prod(extents_moving))

    def at(access: Access) -> IntArray:
        return np.asarray(
            access.base
            + sum(access.strides[loop] * turn for loop, turn in zip(moving, turns, strict=True))
            + 0 * turns.sum(axis=0)
        )

    number = numbers[at(gemm.wgt)]
    chosen = np.flatnonzero(np.isin(number, tiles))
    if not chosen.size:
        return
    places = np.searchsorted(tiles, number[chosen])
    order = np.argsort(places)
    chosen, places = chosen[order], places[order]
    tile = VirtualTile(Memory.WGT, chosen.size, "rest_local_wgt")
    starts = [0, *(np.flatnonzero(np.diff(places) != 1) + 1).tolist(), places.size]
    for first, last in pairwise(starts):
        yield TileLoad(
            Memory.WGT,
            tile,
            first,
            DramTile(rest, int(places[first])),
            1,
            last - first,
            last - first,
        )
    extents = tuple(gemm.extents[loop] for loop in still)
    dst, src = at(gemm.dst), at(gemm.src)
    for position, turn in enumerate(chosen.tolist()):
        target, source = (
            Access(access.tile, int(bases[turn]), tuple(access.strides[loop] for loop in still))
            for access, bases in ((gemm.dst, dst), (gemm.src, src))
        )
        yield GemmNest(extents, target, source, Access(tile, position, (0,) * len(still)))
