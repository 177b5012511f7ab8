# SPDX-License-Identifier: Apache-2.0
"""Operations on a part of a tensor, as operations on the whole one.

In:   the operations of an operator that reads and writes parts of tensors, each as if it were a
      tensor of its own in the blocked layout; where in the whole tensor each part stands.
Out:  operations that compute the same on the whole tensors.
Next: parts.py makes such operators; cores.py and bands.py put what computes them on the whole.

    whole: blocks of H * W tiles        | block 0            | block 1            | block 2  ...
    part: some rows of some blocks          |rows|               |rows|

A transfer of a part can touch several blocks, whose rows follow each other in the part and not in
the whole. It becomes as few transfers as there are runs at equal distances.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from loadstone.errors import LoweringError
from loadstone.vta.stream.operations import Operation, TileLoad, TileStore

__all__ = ["View", "on_whole"]


@dataclass(frozen=True)
class View:
    """Where a part stands. tensor: the whole. plane, whole_plane: tiles of one block of the part
    and of the whole. first: the tile of the whole's block with which each block of the part begins.
    blocks: of each block of the part, sample after sample, its number in the whole."""

    tensor: str
    plane: int
    whole_plane: int
    first: int
    blocks: Sequence[int]

    def runs(self, tile: int, size: int) -> Iterator[tuple[int, int]]:
        """Tiles [tile, tile + size) of the part: first tile in the whole and size of each run."""
        while size > 0:
            block, place = divmod(tile, self.plane)
            here = min(size, self.plane - place)
            yield self.blocks[block] * self.whole_plane + self.first + place, here
            tile, size = tile + here, size - here


def on_whole(operations: Sequence[Operation], views: Mapping[str, View]) -> list[Operation]:
    """views: by the names of the parts. Raises LoweringError for a transfer with padding that no
    single one on the whole does."""
    made: list[Operation] = []
    for operation in operations:
        if type(operation) is TileLoad or type(operation) is TileStore:
            view = views.get(operation.dram.tensor)
            if view is not None:
                made += _transfers(operation, view)
                continue
        made.append(operation)
    return made


def _transfers(o: TileLoad | TileStore, view: View) -> Iterator[Operation]:
    rows = [list(view.runs(o.dram.tile + y * o.x_stride, o.x_size)) for y in range(o.y_size)]
    if type(o) is TileLoad and o.has_pads:
        groups = list(_grouped([(row[0][0], o.x_size) for row in rows]))
        if any(len(row) > 1 for row in rows) or len(groups) > 1:
            raise LoweringError(f"a padded load of {view.tensor} is not one load of the whole")
        (first, size, count, stride) = groups[0]
        yield replace(o, dram=replace(o.dram, tensor=view.tensor, tile=first), x_stride=stride)
        return
    offset = o.offset
    for first, size, count, stride in _grouped(_joined(run for row in rows for run in row)):
        place = replace(o.dram, tensor=view.tensor, tile=first)
        yield replace(o, dram=place, offset=offset, y_size=count, x_size=size, x_stride=stride)
        offset += size * count


def _joined(runs: Iterator[tuple[int, int]]) -> list[tuple[int, int]]:
    """Runs of which none begins where the one before ends."""
    made: list[tuple[int, int]] = []
    for first, size in runs:
        if made and sum(made[-1]) == first:
            made[-1] = made[-1][0], made[-1][1] + size
        else:
            made.append((first, size))
    return made


def _grouped(runs: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int, int, int]]:
    """Runs of one size at equal distances: first tile, size, how many, distance."""
    begin = 0
    while begin < len(runs):
        first, size = runs[begin]
        end, stride = begin + 1, size
        if end < len(runs) and runs[end][1] == size and runs[end][0] > first:
            stride = runs[end][0] - first
            while end < len(runs) and runs[end] == (first + (end - begin) * stride, size):
                end += 1
        yield first, size, end - begin, stride
        begin = end
