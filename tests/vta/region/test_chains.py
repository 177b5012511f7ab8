# SPDX-License-Identifier: Apache-2.0
"""chains.py: which layers are a chain, and which wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from loadstone import graph as g
from loadstone.vta.operators.layout import Im2colLayout
from loadstone.vta.region.chains import LayerChain, chains_of, is_worth_trying
from tests import lowered as lo
from tests.vta.region.blocks import SECOND, Block, conv


def not_folded(_: g.Operator) -> Im2colLayout | None:
    return None


def found(operators: Sequence[g.Operator], seen: frozenset[str] = frozenset()) -> list[LayerChain]:
    return list(chains_of(operators, seen, not_folded))


def test_three_layers_behind_each_other_are_a_chain() -> None:
    operators = Block().operators
    (chain,) = found(operators)
    assert chain.operators == operators
    assert chain.layers == ("a =", "b =", "y =")


@pytest.mark.parametrize("tensor", ["a", "b"])
def test_tensors_that_others_know_are_in_no_chain(tensor: str) -> None:
    operators = Block().operators
    assert not found(operators, frozenset((tensor,)))
    (known,) = (op.output for op in operators if op.output.name == tensor)
    other = conv(known, lo.tensor("z", known.shape), 1, 1, 1, 1, 9)
    assert not found([*operators, other])


def test_other_layers_are_no_chain() -> None:
    one, two, three = Block().operators
    assert not found([one, three, two])
    assert not found([one, two])
    x, y = one.input, lo.tensor("a", one.output.shape)
    assert not found([conv(x, y, 3, 1, 1, 1, 0), replace(two, inputs=(y,)), three])
    grouped = replace(two, groups=1, weights=two.weights.repeat(48, axis=3))
    assert not found([one, grouped, three])


def test_a_chain_that_waits_for_dram_is_worth_trying() -> None:
    wide, deep = Block(40, 40, 2, (16, 96, 24)), Block(14, 14, 1, (256, 256, 256))
    assert is_worth_trying([*wide.whole.values()], SECOND)
    assert not is_worth_trying([*deep.whole.values()], SECOND)
