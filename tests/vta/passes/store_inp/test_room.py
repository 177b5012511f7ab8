# SPDX-License-Identifier: Apache-2.0
"""room.py: what is chosen fits INP beside what is loaded."""

from __future__ import annotations

import pytest

from loadstone.vta.passes.store_inp.flow import flow_of
from loadstone.vta.passes.store_inp.room import Room
from tests.vta.passes.store_inp.two_layers import TwoLayers


@pytest.mark.parametrize(
    ("height", "eighths", "chosen"),
    [(6, 8, 2), (6, 4, 2), (6, 2, 0), (18, 8, 2), (18, 7, 0), (20, 8, 0), (40, 8, 0)],
)
def test_tiles_of_both_blocks_have_room_together(height: int, eighths: int, chosen: int) -> None:
    """Two tiles of (height + 2) * 40, and two of the first layer's, of 4 * 38, beside them."""
    program = TwoLayers(height, 38, 4).program()
    assert len(Room(program, flow_of(program)).chosen(eighths)) == chosen
