# SPDX-License-Identifier: Apache-2.0
"""vta/schedule/statements.py: functions share what is the same, and a function has nothing
twice."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.relax.compat import tirx
from loadstone.vta.hw_config import load_config
from loadstone.vta.schedule.rescaled import schedule
from loadstone.vta.schedule.rescaled_spec import ChainShape, LevelShape, RescaledSpec, Window
from loadstone.vta.schedule.statements import Statements
from loadstone.vta.schedule.tile_writer import TileWriter

CONFIG = load_config("vta-pynq")


def test_a_statement_is_written_once_for_several_functions() -> None:
    tile = TileWriter(1, (4, 4), (2, 4), CONFIG)
    first, second = Statements(), Statements()
    nest = first.once(tile.shift, 3, tile.acc)
    assert second.once(tile.shift, 3, tile.acc) is nest
    assert second.once(tile.shift, 4, tile.acc) is not nest
    assert second.once(tile.shift, 3, tile.more[0]) is not nest
    assert first.once(tile.clamp, -9, 9) is not second.once(tile.clamp, -9, 8)


def test_a_function_that_has_a_statement_twice_has_loops_for_each() -> None:
    tile = TileWriter(1, (4, 4), (2, 4), CONFIG)
    function, other = Statements(), Statements()
    nests = [function.once(tile.next_byte) for _ in range(2)]
    assert not nests[0].loop_var.same_as(nests[1].loop_var)
    assert [other.once(tile.next_byte) for _ in range(2)] == nests


def test_functions_that_differ_in_their_chain_share_all_else_and_are_well_formed() -> None:
    one = (1, 1)
    window = Window(1, 1, (4, 4), (4, 4), one, one, one, (0, 0), 0)
    levels = (LevelShape(0, ((0, 2),), 1), LevelShape(8, ((0, 2),), 1), LevelShape(8, ((1, 1),), 0))
    chain = ChainShape(levels, 8, -128, 127)
    spec = RescaledSpec(window, 1, False, (4, 4, 1), 1, 0, False, 2, False, False, chain, 1)
    others = replace(spec, chain=replace(chain, high=100))
    functions = [schedule(each, CONFIG)["main"] for each in (spec, others)]
    assert all(tirx.analysis.verify_well_formed(function) for function in functions)
    bodies = [list(function.body.body.body.seq) for function in functions]
    same = [a.same_as(b) for a, b in zip(*bodies, strict=True)]
    assert [number for number, is_same in enumerate(same) if not is_same] == [len(same) - 2]
