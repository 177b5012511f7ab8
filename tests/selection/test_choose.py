# SPDX-License-Identifier: Apache-2.0
"""selection/choose.py: the cheapest instructions of a chain."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loadstone.errors import ConfigError
from loadstone.isa.accelerator import Port
from loadstone.selection.choose import CONSTANT, Chooser, Template, merged
from loadstone.selection.meanings import Meanings
from loadstone.selection.unify import ChainLoop, ChainStep, ValueChain
from tests.selection.devices import chooser, gemmini, meanings, with_meaning

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


def test_weights_stay_in_the_array_where_they_are_used_again() -> None:
    """Gemmini: the first product of a tap brings its weights, the others find them; 40 pixels are
    three instructions. What registers hold is said in front of each, and left out later."""
    gemm = ValueChain(
        ("acc", "spad", "spad"),
        None,
        False,
        GEMM,
        (ChainLoop(2, (0, 1, 16)), ChainLoop(40, (1, 2, 0))),
    )
    choice = Chooser(Meanings(gemmini()), Port(bytes_per_cycle=16)).choice(gemm)
    assert choice is not None
    assert choice.cycles == {"execute": 1 + 2 * (1 + 32 + 2 * (1 + 16))}
    names = [each.name for each in choice.templates if each.name != "config_ex"]
    once = ["preload", "compute_preloaded", *["preload_kept", "compute_accumulated"] * 2]
    assert names == once * 2
    second = [each for each in choice.templates if each.name == "preload"][1]
    assert second == Template(
        "preload", {"accumulate": 1, "rows": 16}, {"b": (2, 16), "c": (0, 0)}, None
    )
    last = choice.templates[-3:]
    assert last[0] == Template("preload_kept", {"accumulate": 1, "rows": 8}, {"c": (0, 32)}, None)
    assert last[1] == Template("config_ex", {"stride": 2}, {}, None)
    assert last[2] == Template("compute_accumulated", {"rows": 8}, {"a": (1, 1 + 64)}, 0)


def test_a_register_that_decides_nothing_holds_anything() -> None:
    """One row: any stride will do, but one must be set."""
    choice = Chooser(Meanings(gemmini()), None).choice(
        ValueChain(("spad", "dram"), None, is_moved=True, steps=(), loops=())
    )
    assert choice is not None
    assert choice.templates == (
        Template("config_ld", {"stride": 0}, {}, None, is_any=True),
        Template("mvin", {"rows": 1}, {"row": (0, 0), "address": (1, 0)}, 0),
    )


def test_a_register_that_nothing_sets_is_no_match() -> None:
    whole = gemmini()
    forms = tuple(each for each in whole.forms if each.name != "config_ld")
    without = Chooser(Meanings(replace(whole, forms=forms)), None)
    loops = (ChainLoop(4, (1, 32)),)
    choice = without.choice(
        ValueChain(("spad", "dram"), None, is_moved=True, steps=(), loops=loops)
    )
    assert choice is not None
    assert [each.name for each in choice.templates] == ["config_ld2", "mvin2"]
    acc = ValueChain(("acc", "dram"), None, is_moved=True, steps=(), loops=loops)
    assert without.choice(acc) is None


def test_what_fills_must_be_one_loop() -> None:
    text = "copy(weights[k + j], scratchpad[row + k + j]) for k<4 j<2"
    odd = Chooser(Meanings(with_meaning("preload", text)), None)
    with pytest.raises(ConfigError, match="it fills weights by no single loop over places that"):
        odd.choice(ValueChain(SUM, None, False, GEMM, ()))
