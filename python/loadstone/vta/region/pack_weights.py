# SPDX-License-Identifier: Apache-2.0
"""Weights that a device loads in fewer bytes: which are such, and what they become.

In:   an operator's weight tiles and operations; a device with weights4, or weight_code.
Out:  the bytes of groups, or of bit planes, that expand to just these tiles, or None.
Next: held_constants.py puts them in the place of the tiles; passes/encode/ makes LOADs of
      WGT_4BIT, or of WGT_PLANES.

Nobody says that weights have 4 bits: their numbers show it. Wherever they come from, a constant
whose groups of 32 all have a multiplier, a minimum and 16 numbers is loaded so, and computes the
same to the bit. Others are coded as bit planes where that is shorter. What has no such form stays
as it is.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from loadstone.library.native import ffi, lib
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.packed_weights import expanded, group_bytes, group_tiles
from loadstone.vta.isa.spec import Capability
from loadstone.vta.isa.weight_planes import coded, decoded_rows, rows_of_tile
from loadstone.vta.stream.operations import Operation, TileLoad

__all__ = ["coded_weights", "has_whole_groups", "packed_weights"]


def packed_weights(
    name: str, tiles: NDArray[np.int8], operations: Iterable[Operation], config: HwConfig
) -> NDArray[np.uint8] | None:
    """uint8 (groups, bytes of a group). tiles: (tiles, block, block), of the constant `name`, which
    some operations load."""
    each = group_tiles(config.block)
    if not config.has(Capability.WEIGHTS4) or len(tiles) % each:
        return None
    if not has_whole_groups(name, operations, config):
        return None
    whole = np.ascontiguousarray(tiles, np.int8)
    made = np.empty((len(whole) // each, group_bytes(config.block)), np.uint8)
    status = lib().lds_weights4(
        ffi.from_buffer("int8_t[]", whole),
        len(made),
        config.block,
        ffi.from_buffer("uint8_t[]", made),
    )
    if status == lib().LDS_WEIGHTS4_NONE:
        return None
    if status != lib().LDS_WEIGHTS4_OK or not np.array_equal(expanded(made, config.block), whole):
        raise AssertionError(f"lds_weights4: status {status} for {name}")
    return made


def has_whole_groups(name: str, operations: Iterable[Operation], config: HwConfig) -> bool:
    """Whether all loads of the constant `name` are of whole groups."""
    each = group_tiles(config.block)
    return all(_in_groups(o, each) for o in operations if _loads(o, name))


def coded_weights(
    name: str, tiles: NDArray[np.int8], operations: Iterable[Operation], config: HwConfig
) -> tuple[NDArray[np.uint8], NDArray[np.int64]] | None:
    """The words of bit planes, and where each tile's begin (`weight_planes.coded`); None where they
    are not a sixteenth shorter than the tiles. Arguments as packed_weights has them."""
    if not config.has(Capability.WEIGHT_CODE):
        return None
    if not all(_in_a_row(o) for o in operations if _loads(o, name)):
        return None
    whole = np.ascontiguousarray(tiles, np.int8)
    words, first = coded(whole)
    if 16 * words.nbytes > 15 * whole.nbytes:
        return None
    rows = decoded_rows(words, len(whole) * rows_of_tile(config.block))
    if not np.array_equal(rows.reshape(whole.shape), whole):
        raise AssertionError(f"bit planes of {name} are other weights")
    return words, first


def _in_a_row(operation: Operation) -> bool:
    """Whether a load is of tiles that follow each other, without padding."""
    assert type(operation) is TileLoad
    in_a_row = operation.y_size == 1 or operation.x_stride == operation.x_size
    return in_a_row and not operation.has_pads


def _loads(operation: Operation, name: str) -> bool:
    return type(operation) is TileLoad and operation.dram.tensor == name


def _in_groups(operation: Operation, each: int) -> bool:
    """Whether a load is of whole groups."""
    assert type(operation) is TileLoad
    sizes = [operation.dram.tile, operation.x_size]
    sizes += [operation.x_stride] if operation.y_size > 1 else []
    return not operation.has_pads and all(size % each == 0 for size in sizes)
