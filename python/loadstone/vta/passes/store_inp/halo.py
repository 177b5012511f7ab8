# SPDX-License-Identifier: Apache-2.0
"""A content of INP whose first rows come from DRAM, where an older store has left them.

In:   an InpContent of several stores.
Out:  one of the last of them alone; of what the others made, the load that brings it.
Next: room.py chooses between both.

    rows 0, 1     store a   ->  a load, which pads what is below        halo: made long ago
    rows 2 to 5   store b       store b                                 made just before

Where rows of a layer go through several others before the next rows of this layer are made, a halo
would fill INP all that time. It takes a little of the bus, and the rest waits for nothing.
"""

from __future__ import annotations

from dataclasses import replace

from loadstone.vta.passes.store_inp.flow import InpContent
from loadstone.vta.passes.store_inp.padding import MOST_PADS

__all__ = ["with_halo"]


def with_halo(content: InpContent) -> InpContent | None:
    """None where the older stores made something other than the first rows, or no load brings
    these and pads the others."""
    if len(content.parts) < 2 or len(content.own) != 1:
        return None
    (load,) = content.own
    _, width = load.rows_columns
    last = max(content.parts)
    rows_of = {n: (cells[:, 1] - load.offset) // width for n, cells in content.parts.items()}
    count = int(rows_of[last].min()) - load.y_pad_0
    if any(int(rows.max()) >= load.y_pad_0 + count for n, rows in rows_of.items() if n != last):
        return None
    below = load.y_size - count + load.y_pad_1 if load.has_pads else 0
    if below > MOST_PADS:
        return None
    left = {n: cells[:, 0] for n, cells in content.parts.items() if n != last}
    rest = replace(load, y_size=count, y_pad_1=below)
    return replace(content, parts={last: content.parts[last]}, rest=(rest,), left=left)
