# SPDX-License-Identifier: Apache-2.0
"""Does every piece of a region do what the region did there, with nothing but what it loads?

In:   operations in program order; pieces of them (pieces.py); where the DRAM tensors stand.
Out:  nothing, or a VerificationError that names the piece or the layer.
Next: region/offload.py asks before each piece becomes a program.

A piece begins with empty scratchpads. So whatever lives across its beginning must have been loaded,
all of it, and is loaded again in front of the piece, from where nobody has stored since; behind
that come the region's next operations. Tiles are the piece's own, one for one of the region's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from operator import attrgetter

from loadstone.backend.region import Address
from loadstone.errors import VerificationError
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.passes.program import LayerOperation
from loadstone.vta.region.pieces import dram_range
from loadstone.vta.stream.operations import (
    Access,
    AluNest,
    FillNest,
    GemmNest,
    InpTiles,
    RequantizeNest,
    StoreRequantization,
    TileLoad,
    TileStore,
    VirtualTile,
    tiles_of,
)

__all__ = ["verify_pieces"]


def verify_pieces(
    operations: Sequence[LayerOperation],
    pieces: Sequence[Sequence[LayerOperation]],
    config: HwConfig,
    addresses: Mapping[str, Address],
) -> None:
    """Raises VerificationError where pieces share a tile, one begins with other loads than those of
    what lives across its beginning, or operations are not the region's, each once."""
    _verify_owners(pieces)
    region = _Region(operations, config, addresses)
    begin = 0
    for number, piece in enumerate(pieces):
        again = region.loaded_again(begin)
        own = operations[begin:][: max(len(piece) - len(again), 0)]
        if not own or len(piece) > len(again) + len(own):
            raise VerificationError("pieces", f"piece {number} is not as long as what it does")
        wanted = [(own[0][0], operations[load][1]) for load in again] + list(own)
        _verify_same(piece, wanted)
        begin += len(own)
    if begin < len(operations):
        raise VerificationError("pieces", f"an operation of {operations[begin][0]} is missing")


def _verify_owners(pieces: Iterable[Sequence[LayerOperation]]) -> None:
    owner: dict[int, int] = {}
    for number, piece in enumerate(pieces):
        for _, operation in piece:
            if any(owner.setdefault(id(t), number) != number for t in tiles_of(operation)):
                raise VerificationError("pieces", f"piece {number} uses a tile of another one")


class _Region:
    """The operations that are cut. By id of each tile: who writes it, and who touches it last."""

    def __init__(
        self,
        operations: Sequence[LayerOperation],
        config: HwConfig,
        addresses: Mapping[str, Address],
    ) -> None:
        self.operations, self.config, self.addresses = operations, config, addresses
        self.writers: defaultdict[int, list[int]] = defaultdict(list)
        self.last: dict[int, int] = {}
        for number, (_, operation) in enumerate(operations):
            tiles = tiles_of(operation)
            self.last.update(dict.fromkeys(map(id, tiles), number))
            if type(operation) is not TileStore:
                self.writers[id(tiles[0])].append(number)
            elif operation.inp is not None:
                self.writers[id(operation.inp.tile)].append(number)

    def loaded_again(self, place: int) -> list[int]:
        """The loads of what lives across a place, in their order. Raises VerificationError where
        something else wrote to it, or somebody has stored where it was loaded from."""
        alive = [
            number
            for tile, numbers in self.writers.items()
            if numbers[0] < place <= self.last[tile]
            for number in numbers
            if number < place
        ]
        for number in alive:
            self._verify_repeatable(number, place)
        return sorted(alive)

    def _verify_repeatable(self, number: int, place: int) -> None:
        layer, load = self.operations[number]
        if type(load) is not TileLoad:
            raise VerificationError("pieces", f"{layer} is cut where something computed is alive")
        region, first, past = dram_range(load, self.addresses, self.config)
        for other, operation in self.operations[number:place]:
            if type(operation) is TileStore:
                stored = dram_range(operation, self.addresses, self.config)
                if stored[0] == region and stored[1] < past and first < stored[2]:
                    raise VerificationError(
                        "pieces", f"{other} has stored where {layer} would load again"
                    )


# --- the same operations, on other tiles ----------------------------------------------------------
def _verify_same(piece: Sequence[LayerOperation], wanted: Sequence[LayerOperation]) -> None:
    own: dict[int, VirtualTile] = {}  # by id of the region's tile
    of_region: dict[int, VirtualTile] = {}  # by id of the piece's tile
    for (layer, one), (name, other) in zip(piece, wanted, strict=True):
        if (
            layer != name
            or _said(one) != _said(other)
            or any(
                own.setdefault(id(theirs), mine) is not mine
                or of_region.setdefault(id(mine), theirs) is not theirs
                for mine, theirs in zip(tiles_of(one), tiles_of(other), strict=True)
            )
        ):
            raise VerificationError("pieces", f"{layer} does something that was not asked for")


def _said(value: object) -> object:
    """All that an operation says, with its tiles by their memory and size."""
    if type(value) is VirtualTile:
        return value.memory, value.size_tiles
    of = _FIELDS.get(type(value))
    return value if of is None else (type(value), *map(_said, of(value)))


_FIELDS: Mapping[type[object], Callable[[object], Sequence[object]]] = {
    kind: attrgetter(*(each.name for each in fields(kind)))
    for kind in (
        *(TileLoad, TileStore, GemmNest, FillNest, AluNest, RequantizeNest),
        *(Access, InpTiles, StoreRequantization),
    )
}
