# SPDX-License-Identifier: Apache-2.0
"""Weights that a device loads as numbers of 4 bits: which are such, and their bytes.

In:   an operator's weight tiles and operations; a device with the capability weights4.
Out:  the bytes of groups that expand to just these tiles, or None.
Next: offload.py puts them in the place of the tiles; passes/encode/ makes LOADs of WGT_4BIT.

Nobody says that weights have 4 bits: their numbers show it. Wherever they come from, a constant
whose groups of 32 all have a multiplier, a minimum and 16 numbers is loaded so, and computes the
same to the bit. What has no such form stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from loadstone.library.native import ffi, lib
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.packed_weights import expanded, group_bytes, group_tiles
from loadstone.vta.isa.spec import Capability
from loadstone.vta.stream.operations import Operation, TileLoad

__all__ = ["packed_weights"]


def packed_weights(
    name: str, tiles: NDArray[np.int8], operations: Iterable[Operation], config: HwConfig
) -> NDArray[np.uint8] | None:
    """uint8 (groups, bytes of a group). tiles: (tiles, block, block), of the constant `name`, which
    some operations load."""
    each = group_tiles(config.block)
    if not config.has(Capability.WEIGHTS4) or len(tiles) % each:
        return None
    if not all(_in_groups(o, each) for o in operations if _loads(o, name)):
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


def _loads(operation: Operation, name: str) -> bool:
    return type(operation) is TileLoad and operation.dram.tensor == name


def _in_groups(operation: Operation, each: int) -> bool:
    """Whether a load is of whole groups."""
    assert type(operation) is TileLoad
    sizes = [operation.dram.tile, operation.x_size]
    sizes += [operation.x_stride] if operation.y_size > 1 else []
    pads = operation.y_pad_0 + operation.y_pad_1 + operation.x_pad_0 + operation.x_pad_1
    return pads == 0 and all(size % each == 0 for size in sizes)
