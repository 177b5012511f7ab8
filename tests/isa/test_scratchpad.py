# SPDX-License-Identifier: Apache-2.0
"""Windows for tiles: the quick walk finds what a search through all windows finds."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone.errors import LoweringError
from loadstone.isa.scratchpad import Order, Scratchpad
from loadstone.isa.tiles import LocalTile
from tests.repeat import times

DEPTH = 64
NEVER = 1 << 60


def searched(
    pad: Scratchpad, size: int, now: int, wanted: dict[int, list[int]]
) -> tuple[int, int, int] | None:
    """Of windows at 0 or behind a block that hold nothing alive: (contents wanted again, last use,
    start) is least, counted cell by cell."""
    cells = [next((b for b in pad.blocks if b.start <= at < b.end), None) for at in range(DEPTH)]
    found = []
    for start in [0, *(block.end for block in pad.blocks)]:
        if start + size > DEPTH:
            continue
        inside = {id(b): b for b in cells[start : start + size] if b is not None}.values()
        if all(block.last_use < now for block in inside):
            again = sum(
                block.content is not None and any(use > now for use in wanted[block.content])
                for block in inside
            )
            last = max((block.last_use for block in inside), default=-1)
            found.append((again, last, start))
    return min(found, default=None)


@pytest.mark.parametrize("seed", range(times(20, 2000)))
def test_a_spread_window_is_the_best_of_all(seed: int) -> None:
    rng = np.random.default_rng(seed)
    pad = Scratchpad("inp", DEPTH, Order.SPREAD)
    wanted = {k: sorted(rng.integers(0, 80, 4).tolist(), reverse=True) for k in range(12)}
    refused = 0
    for now in range(60):
        size, held = int(rng.integers(1, 24)), int(rng.integers(-1, 12))
        best = searched(pad, size, now, wanted)
        tile, content = LocalTile("inp", size, f"t{now}"), None if held < 0 else held
        if best is None:
            refused += 1
            with pytest.raises(LoweringError, match="no room"):
                pad.place(tile, content, now, wanted)
            continue
        assert pad.place(tile, content, now, wanted) == best[2]
        block = pad.block_of(tile)
        block.last_use, block.content = now + int(rng.integers(0, 6)), content
        assert all(a.end <= b.start for a, b in zip(pad.blocks, pad.blocks[1:], strict=False))
    assert refused < 50
