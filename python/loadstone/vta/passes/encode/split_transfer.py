# SPDX-License-Identifier: Apache-2.0
"""Loads and stores whose sizes no field holds, as several that fit.

In:   a TileLoad or TileStore, and a device.
Out:  parts of it, in order, each of which one instruction can hold.
Next: encode.py makes a LOAD or STORE of each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from loadstone.errors import LoweringError
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.codec import bit_fields
from loadstone.vta.isa.spec import BitField, Memory, Opcode
from loadstone.vta.stream.operations import StoreRequantization, TileLoad, TileStore

__all__ = ["CopyLimits", "split_load", "split_store"]

#: VTA's RTL cannot count the beats of 2048 INP tiles in one load.
_VTA_MAX_INP_TILES = 2047


class CopyLimits:
    """What the fields of LOAD and STORE hold on one device."""

    def __init__(self, config: HwConfig) -> None:
        load, store = (bit_fields(config)[opcode] for opcode in (Opcode.LOAD, Opcode.STORE))
        self.pad = load["x_pad_0"]
        self.load, self.store = _sizes(load), _sizes(store)
        self.inp_tiles = _VTA_MAX_INP_TILES if config.profile == "vta" else 1 << 62


def split_load(o: TileLoad, limits: CopyLimits) -> Sequence[TileLoad]:
    """Parts whose fields fit; offsets stay relative to the tile. Raises LoweringError for pads that
    no field holds."""
    pads = (o.y_pad_0, o.y_pad_1, o.x_pad_0, o.x_pad_1)
    pad = limits.pad
    if max(pads) > pad.high:
        raise LoweringError(
            f"encode: load of {o.tile.name} has pads {pads}; a pad field has {pad.width} bits [0, "
            f"{pad.high}]: smaller tiles are needed"
        )
    fits = _fits(o, limits.load)
    tiles = o.x_size * o.y_size
    most = limits.inp_tiles if o.memory is Memory.INP else tiles
    return (o,) if fits and tiles <= most else tuple(_parts(o, limits, most if fits else 0))


def _parts(o: TileLoad, limits: CopyLimits, most: int) -> Iterator[TileLoad]:
    """Of a load that is too large: most: its tiles; 0: it is cut into rows."""
    if o.y_size == 1:
        yield from _halves(o, limits)
        return
    rows = max(1, min(most // o.x_size, o.y_size // 2))
    _, width = o.rows_columns
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
            limits,
        )


def _halves(o: TileLoad, limits: CopyLimits) -> Iterator[TileLoad]:
    """A single row in two."""
    half = o.x_size // 2
    if o.y_pad_0 or o.y_pad_1 or half == 0:
        raise LoweringError(
            f"encode: load of {o.tile.name}: a row of {o.x_size} tiles with pads cannot be split"
        )
    yield from split_load(replace(o, x_size=half, x_pad_1=0), limits)
    rest = replace(o.dram, tile=o.dram.tile + half)
    offset = o.offset + o.x_pad_0 + half
    yield from split_load(
        replace(o, x_size=o.x_size - half, x_pad_0=0, dram=rest, offset=offset), limits
    )


def split_store(o: TileStore, limits: CopyLimits) -> Sequence[TileStore]:
    """The store, or one for each of its rows."""
    if _fits(o, limits.store):
        return (o,)
    return [
        replace(
            o,
            offset=o.offset + y * o.x_size,
            dram=replace(o.dram, tile=o.dram.tile + y * o.x_stride),
            y_size=1,
            requantization=_of_row(o.requantization, y),
            inp=o.inp and replace(o.inp, offset=o.inp.offset + y * o.x_stride),
        )
        for y in range(o.y_size)
    ]


def _of_row(by: StoreRequantization | None, y: int) -> StoreRequantization | None:
    return None if by is None else replace(by, offset=by.offset + y * by.step, step=0)


def _sizes(fields: Mapping[str, BitField]) -> tuple[int, int, int]:
    """The most columns and rows, and the longest stride."""
    return fields["x_size"].high, fields["y_size"].high, fields["x_stride"].high


def _fits(o: TileLoad | TileStore, sizes: tuple[int, int, int]) -> bool:
    """Whether sizes and stride fit their fields."""
    x_size, y_size, x_stride = sizes
    return o.x_size <= x_size and o.y_size <= y_size and (o.x_stride <= x_stride or o.y_size == 1)
