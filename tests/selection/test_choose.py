# SPDX-License-Identifier: Apache-2.0
"""selection/choose.py: the cheapest instructions of a chain."""

from __future__ import annotations

import pytest

from loadstone.errors import ConfigError
from loadstone.selection.choose import CONSTANT, Chooser, Template, merged
from loadstone.selection.meanings import Meanings
from loadstone.selection.unify import ChainLoop, ChainStep, ValueChain
from tests.selection.devices import chooser, meanings, with_meaning

SUM = "accumulator", "scratchpad", "scratchpad"
GEMM = (ChainStep("gemm", 2, ()),)


def test_loops_that_step_through_the_same_places_are_one() -> None:
    loops = ChainLoop(3, (8, 8)), ChainLoop(2, (4, 4)), ChainLoop(4, (1, 1))
    assert merged(ValueChain(("a", "b"), None, True, (), loops)).loops == (ChainLoop(24, (1, 1)),)
    apart = ChainLoop(3, (8, 9)), ChainLoop(4, (1, 1)), ChainLoop(2, (4, 4))
    assert merged(ValueChain(("a", "b"), None, True, (), apart)).loops == (
        ChainLoop(3, (8, 9)),
        ChainLoop(8, (1, 1)),
    )


def test_weights_are_loaded_once_for_all_pixels() -> None:
    """The loop of the taps is outside, though the nest has it inside."""
    loops = ChainLoop(3, (4, 6, 0)), ChainLoop(4, (1, 1, 0)), ChainLoop(2, (0, 1, 4))
    choice = chooser().choice(ValueChain(SUM, None, False, GEMM, loops))
    assert choice is not None
    said = []
    for each in choice.templates:
        if each.writes is not None or each not in said:
            said.append(each)
    names = [each.name for each in said]
    assert names == [*("preload", "compute", "compute", "compute")] * 2
    assert said[0] == Template("preload", {}, {"row": (2, 0)}, None)
    fields = {"adds": 1, "rows": 4, "step": 1}
    assert said[2] == Template("compute", fields, {"target": (0, 4), "row": (1, 6)}, 0)
    assert choice.cycles == {"array": 2 * (4 + 3 * (1 + 4))}


def test_what_is_filled_comes_from_a_constant() -> None:
    """No instruction fills the scratchpad; one copies to it. A copy costs what the port takes."""
    choice = chooser().choice(ValueChain(("scratchpad",), 7, False, (), (ChainLoop(5, (1,)),)))
    assert choice is not None
    assert choice.templates == (
        Template("mvin", {"stride": 0, "rows": 5}, {"row": (0, 0), "address": (CONSTANT, 0)}, 0),
    )
    assert choice.cycles == {"load": 1 + 20 + 5 * 2}
    free = Chooser(meanings(), None).choice(ValueChain(("scratchpad",), 7, False, (), ()))
    assert free is not None
    assert free.cycles == {"load": 1}


def test_a_long_loop_is_cut() -> None:
    choice = chooser().choice(
        ValueChain(("scratchpad",), 7, False, (), (ChainLoop((1 << 20) + 2, (1,)),))
    )
    assert choice is not None
    assert [t.fields["rows"] for t in choice.templates] == [(1 << 20) - 1, 3]
    assert [t.places["row"] for t in choice.templates] == [(0, 0), (0, (1 << 20) - 1)]


def test_nothing_means_it() -> None:
    assert (
        chooser().choice(ValueChain(("scratchpad",), None, False, (ChainStep("shr", 0, (1,)),), ()))
        is None
    )


def test_a_store_says_how_it_scales() -> None:
    loops = (ChainLoop(6, (32, 1, 0)),)
    step = ChainStep("rq", 1, (3, -128, 127, 0))
    chain = ValueChain(("dram", "accumulator", "accumulator"), None, True, (step,), loops)
    choice = chooser().choice(chain)
    assert choice is not None
    numbers = {"zero_point": 3, "low": -128, "high": 127, "rounding": 0}
    assert choice.templates[0] == Template("scale", numbers, {"row": (2, 0)}, None)
    assert choice.templates[1].fields == {"rows": 6, "stride": 32}


def test_what_fills_must_be_one_loop() -> None:
    text = "copy(weights[k + j], scratchpad[row + k + j]) for k<4 j<2"
    odd = Chooser(Meanings(with_meaning("preload", text)), None)
    with pytest.raises(ConfigError, match="it fills weights by no single loop over places that"):
        odd.choice(ValueChain(SUM, None, False, GEMM, ()))
