# SPDX-License-Identifier: Apache-2.0
"""vta/schedule/statements.py: functions share what is the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.relax.compat import tirx
from loadstone.vta.hw_config import load_config
from loadstone.vta.schedule.nest_tir import module
from loadstone.vta.schedule.nests import Turns
from loadstone.vta.schedule.rescaled import schedule
from loadstone.vta.schedule.rescaled_spec import ChainShape, LevelShape, RescaledSpec, Window
from loadstone.vta.schedule.statements import once
from loadstone.vta.schedule.tile_writer import TileWriter

CONFIG = load_config("vta-pynq")


def test_a_nest_is_written_once_for_several_functions() -> None:
    tile = TileWriter(1, (4, 4), (2, 4), CONFIG)
    nest = once(tile.shift, 3, tile.acc)
    assert once(tile.shift, 3, tile.acc) is nest
    assert once(tile.shift, 4, tile.acc) is not nest
    assert once(tile.shift, 3, tile.more[0]) is not nest
    assert once(TileWriter(1, (4, 4), (2, 4), CONFIG).shift, 3, tile.acc) is not nest


def test_functions_that_differ_in_their_chain_share_all_else_and_are_well_formed() -> None:
    one = (1, 1)
    window = Window(1, 1, (4, 4), (4, 4), one, one, one, (0, 0), 0)
    levels = (LevelShape(0, ((0, 2),), 1), LevelShape(8, ((0, 2),), 1), LevelShape(8, ((1, 1),), 0))
    chain = ChainShape(levels, 8, -128, 127)
    spec = RescaledSpec(window, 1, False, (4, 4, 1), 1, 0, False, 2, False, False, chain, 1)
    others = replace(spec, chain=replace(chain, high=100))
    functions = [schedule(each, CONFIG) for each in (spec, others)]
    assert all(tirx.analysis.verify_well_formed(module(each)["main"]) for each in functions)
    bodies = [each.body[0].body for each in functions if isinstance(each.body[0], Turns)]
    different = [number for number, (a, b) in enumerate(zip(*bodies, strict=True)) if a != b]
    assert different == [len(bodies[0]) - 2]
