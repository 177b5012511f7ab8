# SPDX-License-Identifier: Apache-2.0
"""turns.py: layers take turns where the cost model says that it pays."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from loadstone.vta.operators.request import PLAIN
from loadstone.vta.region.held_constants import HeldConstants
from loadstone.vta.region.turns import in_turns
from tests.vta.region.blocks import SECOND, Block


def test_layers_whose_tensors_have_no_room_take_turns() -> None:
    block = Block(40, 40, 2, (16, 96, 24))
    program = replace(block.program(), places={})
    made = in_turns(block.chain, block.whole, PLAIN, program, block.sizes, HeldConstants(SECOND))
    assert made is not None
    assert np.array_equal(block.result(made), block.reference())


def test_layers_that_wait_for_nothing_stay_as_they_are() -> None:
    block = Block(14, 14, 1, (256, 256, 256))
    program = replace(block.program(), places={})
    assert (
        in_turns(block.chain, block.whole, PLAIN, program, block.sizes, HeldConstants(SECOND))
        is None
    )
