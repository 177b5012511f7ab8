# SPDX-License-Identifier: Apache-2.0
"""Loads and stores whose sizes no field holds, as several that fit.

In:   a TileLoad or TileStore, and a device.
Out:  parts of it, in order, each of which one instruction can hold.
Next: encode.py makes a LOAD or STORE of each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from loadstone.errors import LoweringError
from loadstone.vta.hw_config import HwConfig
from loadstone.vta.isa.codec import bit_fields
from loadstone.vta.isa.spec import Memory, Opcode
from loadstone.vta.stream import TileLoad, TileStore

__all__ = ["Splitter"]

#: VTA's RTL cannot count the beats of 2048 INP tiles in one load.
_VTA_MAX_INP_TILES = 2047


class Splitter:
    """Cuts for one device, whose limits are looked up once."""

    def __init__(self, config: HwConfig) -> None:
        load, store = (bit_fields(config)[opcode] for opcode in (Opcode.LOAD, Opcode.STORE))
        self._pad_bits = load["x_pad_0"].width
        self._most_pad = load["x_pad_0"].high
        self._load, self._store = (
            (fields["y_size"].high, fields["x_size"].high, fields["x_stride"].high)
            for fields in (load, store)
        )
        self._inp_tiles = _VTA_MAX_INP_TILES if config.profile == "vta" else None

    def loads(self, o: TileLoad) -> Sequence[TileLoad]:
        """Parts whose fields fit; offsets stay relative to the tile. Raises LoweringError for pads
        that no field holds."""
        self._check_pads(o)
        fits = _fits(o, self._load)
        if fits and o.y_size * o.x_size <= self._most_tiles(o):
            return (o,)
        if o.y_size == 1:
            return self._halves(o)
        rows = max(1, min(self._most_tiles(o) // o.x_size, o.y_size // 2)) if fits else 1
        width = o.x_pad_0 + o.x_size + o.x_pad_1
        parts: list[TileLoad] = []
        for y in range(0, o.y_size, rows):
            last = y + rows >= o.y_size
            part = replace(
                o,
                offset=o.offset + (0 if y == 0 else (o.y_pad_0 + y) * width),
                dram=replace(o.dram, tile=o.dram.tile + y * o.x_stride),
                y_size=min(rows, o.y_size - y),
                y_pad_0=o.y_pad_0 if y == 0 else 0,
                y_pad_1=o.y_pad_1 if last else 0,
            )
            parts += self.loads(part)
        return parts

    def stores(self, o: TileStore) -> Sequence[TileStore]:
        """The store, or one for each of its rows."""
        return (o,) if _fits(o, self._store) else list(_rows(o))

    def _most_tiles(self, o: TileLoad) -> int:
        """Of one load."""
        if o.memory is Memory.INP and self._inp_tiles is not None:
            return self._inp_tiles
        return o.y_size * o.x_size

    def _check_pads(self, o: TileLoad) -> None:
        most = self._most_pad
        if o.y_pad_0 > most or o.y_pad_1 > most or o.x_pad_0 > most or o.x_pad_1 > most:
            pads = (o.y_pad_0, o.y_pad_1, o.x_pad_0, o.x_pad_1)
            raise LoweringError(
                f"encode: load of {o.tile.name} has pads {pads}; a pad field has {self._pad_bits} "
                f"bits [0, {most}]: smaller tiles are needed"
            )

    def _halves(self, o: TileLoad) -> Sequence[TileLoad]:
        """A single row in two."""
        half = o.x_size // 2
        if o.y_pad_0 or o.y_pad_1 or half == 0:
            raise LoweringError(
                f"encode: load of {o.tile.name}: a row of {o.x_size} tiles with pads cannot be "
                "split"
            )
        dram = replace(o.dram, tile=o.dram.tile + half)
        offset = o.offset + o.x_pad_0 + half
        first = replace(o, x_size=half, x_pad_1=0)
        rest = replace(o, x_size=o.x_size - half, x_pad_0=0, dram=dram, offset=offset)
        return [*self.loads(first), *self.loads(rest)]


def _rows(o: TileStore) -> Iterator[TileStore]:
    for y in range(o.y_size):
        dram = replace(o.dram, tile=o.dram.tile + y * o.x_stride)
        yield replace(o, offset=o.offset + y * o.x_size, dram=dram, y_size=1)


def _fits(o: TileLoad | TileStore, most: tuple[int, int, int]) -> bool:
    """Whether sizes and stride fit their fields. most: rows, columns, stride."""
    rows, columns, stride = most
    return o.x_size <= columns and o.y_size <= rows and (o.x_stride <= stride or o.y_size == 1)
