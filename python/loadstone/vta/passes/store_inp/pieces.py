# SPDX-License-Identifier: Apache-2.0
"""What of a store goes to one tile of INP, as few stores to INP.

In:   a TileStore, and for some of its cells the places to which they go.
Out:  stores of rows that lie packed in ACC and equally far apart in INP.
Next: store_inp.py puts them in the place of the store.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from loadstone.vta.device.instruction_table import REQUANTIZE_TILES
from loadstone.vta.stream.operations import InpTiles, TileStore, VirtualTile

__all__ = ["stores_to_dram", "stores_to_inp"]

Int64Array: TypeAlias = NDArray[np.int64]


class _Run(NamedTuple):
    """Cells behind each other, here and there, with the same operands. cell: the first."""

    cell: int
    place: int
    length: int
    operands: int


def stores_to_inp(o: TileStore, tile: VirtualTile, cells: Int64Array) -> Sequence[TileStore]:
    """cells (n, 2): a cell of the store, row by row, and its place in the tile."""
    runs = list(_runs(o, cells[np.lexsort(cells.T[::-1])]))
    return [_joined(o, tile, rows) for rows in _grouped(runs)]


def stores_to_dram(o: TileStore, cells: Int64Array) -> list[TileStore]:
    """cells (n,): of the store, ascending: what stays in DRAM, a store for each run in a row."""
    ends = np.flatnonzero((np.diff(cells) != 1) | (np.diff(cells // o.x_size) != 0)) + 1
    made = []
    for run in np.split(cells, ends):
        cell, size = int(run[0]), len(run)
        y, x = divmod(cell, o.x_size)
        by = o.requantization
        made.append(
            replace(
                o,
                offset=o.offset + cell,
                dram=replace(o.dram, tile=o.dram.tile + y * o.x_stride + x),
                y_size=1,
                x_size=size,
                x_stride=size,
                requantization=by and replace(by, offset=by.offset + y * by.step, step=0),
            )
        )
    return made


def _runs(o: TileStore, cells: Int64Array) -> Iterator[_Run]:
    step = 0 if o.requantization is None else o.requantization.step
    operands = cells[:, 0] // o.x_size * step
    moved = (np.diff(cells, axis=0) != 1).any(axis=1) | (np.diff(operands) != 0)
    for begin, end in pairwise([0, *(np.flatnonzero(moved) + 1).tolist(), len(cells)]):
        cell, place = cells[begin].tolist()
        yield _Run(cell, place, end - begin, int(operands[begin]))


def _grouped(runs: Sequence[_Run]) -> Iterator[Sequence[_Run]]:
    """Runs of equal length that one store can hold, as far as each goes."""
    begin = 0
    while begin < len(runs):
        end = begin + 1
        while end < len(runs) and _goes_on(runs[begin : begin + 2], runs[end - 1], runs[end]):
            end += 1
        yield runs[begin:end]
        begin = end


def _goes_on(first: Sequence[_Run], before: _Run, run: _Run) -> bool:
    """Whether a run is the next row of those that begin with `first`."""
    packed = run.length == before.length and run.cell == before.cell + before.length
    operands = run.operands - before.operands
    stride = run.place - before.place
    same = first[1].place - first[0].place, first[1].operands - first[0].operands
    return (
        packed and stride > 0 and operands in (0, REQUANTIZE_TILES) and (stride, operands) == same
    )


def _joined(o: TileStore, tile: VirtualTile, rows: Sequence[_Run]) -> TileStore:
    first, by = rows[0], o.requantization
    stride = rows[1].place - first.place if len(rows) > 1 else first.length
    if by is not None:
        step = rows[1].operands - first.operands if len(rows) > 1 else 0
        by = replace(by, offset=by.offset + first.operands, step=step)
    y, x = divmod(first.cell, o.x_size)
    return TileStore(
        o.tile,
        o.offset + first.cell,
        replace(o.dram, tile=o.dram.tile + y * o.x_stride + x),
        len(rows),
        first.length,
        stride,
        by,
        InpTiles(tile, first.place),
    )
