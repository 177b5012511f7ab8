# SPDX-License-Identifier: Apache-2.0
"""Loads and stores whose sizes no field holds, as several that fit.

In:   a TileLoad or TileStore, and a device.
Out:  parts of it, in order, each of which one instruction can hold.
Next: encode.py makes a LOAD or STORE of each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from loadstone.errors import LoweringError
from loadstone.vta.hw_config import HwConfig
from loadstone.vta.isa.codec import bit_fields
from loadstone.vta.isa.spec import BitField, Memory, Opcode
from loadstone.vta.stream import TileLoad, TileStore

__all__ = ["split_load", "split_store"]

#: VTA's RTL cannot count the beats of 2048 INP tiles in one load.
_VTA_MAX_INP_TILES = 2047


def split_load(o: TileLoad, config: HwConfig) -> Iterator[TileLoad]:
    """Parts whose fields fit; offsets stay relative to the tile. Raises LoweringError for pads that
    no field holds."""
    fields = bit_fields(config)[Opcode.LOAD]
    pad = fields["x_pad_0"]
    pads = (o.y_pad_0, o.y_pad_1, o.x_pad_0, o.x_pad_1)
    if max(pads) > pad.high:
        raise LoweringError(
            f"encode: load of {o.tile.name} has pads {pads}; a pad field has {pad.width} bits [0, "
            f"{pad.high}]: smaller tiles are needed"
        )
    tiles = o.x_size * o.y_size
    quirk = o.memory is Memory.INP and config.profile == "vta"
    most = _VTA_MAX_INP_TILES if quirk else tiles
    fits = _fits(o, fields)
    if fits and tiles <= most:
        yield o
        return
    if o.y_size == 1:
        yield from _halves(o, config)
        return
    rows = max(1, min(most // o.x_size, o.y_size // 2)) if fits else 1
    width = o.x_pad_0 + o.x_size + o.x_pad_1
    for y in range(0, o.y_size, rows):
        last = y + rows >= o.y_size
        yield from split_load(
            replace(
                o,
                offset=o.offset + (0 if y == 0 else (o.y_pad_0 + y) * width),
                dram=replace(o.dram, tile=o.dram.tile + y * o.x_stride),
                y_size=min(rows, o.y_size - y),
                y_pad_0=o.y_pad_0 if y == 0 else 0,
                y_pad_1=o.y_pad_1 if last else 0,
            ),
            config,
        )


def _halves(o: TileLoad, config: HwConfig) -> Iterator[TileLoad]:
    """A single row in two."""
    half = o.x_size // 2
    if o.y_pad_0 or o.y_pad_1 or half == 0:
        raise LoweringError(
            f"encode: load of {o.tile.name}: a row of {o.x_size} tiles with pads cannot be split"
        )
    yield from split_load(replace(o, x_size=half, x_pad_1=0), config)
    rest = replace(o.dram, tile=o.dram.tile + half)
    offset = o.offset + o.x_pad_0 + half
    yield from split_load(
        replace(o, x_size=o.x_size - half, x_pad_0=0, dram=rest, offset=offset), config
    )


def split_store(o: TileStore, config: HwConfig) -> Iterator[TileStore]:
    """The store, or one for each of its rows."""
    if _fits(o, bit_fields(config)[Opcode.STORE]):
        yield o
        return
    for y in range(o.y_size):
        yield replace(
            o,
            offset=o.offset + y * o.x_size,
            dram=replace(o.dram, tile=o.dram.tile + y * o.x_stride),
            y_size=1,
        )


def _fits(o: TileLoad | TileStore, fields: Mapping[str, BitField]) -> bool:
    """Whether sizes and stride fit their fields."""
    return (
        o.x_size <= fields["x_size"].high
        and o.y_size <= fields["y_size"].high
        and (o.x_stride <= fields["x_stride"].high or o.y_size == 1)
    )
