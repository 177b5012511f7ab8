# SPDX-License-Identifier: Apache-2.0
"""vta/integers/pair.py: the rules of two frameworks on all values and pairs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from loadstone import graph as g
from loadstone.numerics import Rounding
from loadstone.vta.integers.chain import Product, cycles, is_exact, run
from loadstone.vta.integers.pair import linear_chain, rescaled_part
from loadstone.vta.integers.requantization_search import on_all_values
from tests import lowered as lo
from tests.repeat import times

VALUES = np.arange(-128, 128)
PAIRS = (VALUES[:, None], VALUES[None, :])
SCALES = st.floats(0.01, 0.1)
ZEROS = st.integers(-128, 127)


def add(scales: tuple[float, float, float], rounding: Rounding, kind: Any = g.Add) -> g.Add | g.Sub:
    a, b, y = (
        lo.tensor(n, (1, 4, 4, 16), s, z)
        for n, s, z in zip("aby", scales, (3, -20, 7), strict=True)
    )
    op: g.Add | g.Sub = kind(
        name="op", inputs=(a, b), outputs=(y,), low=-128, high=127, rounding=rounding
    )
    return op


@given(st.tuples(SCALES, SCALES, SCALES), st.sampled_from([g.Add, g.Sub]), st.data())
@settings(max_examples=times(6, 200), deadline=None)
def test_sums_between_any_scales(
    scales: tuple[float, float, float], kind: Any, data: st.DataObject
) -> None:
    rounding = data.draw(st.sampled_from([Rounding.DOUBLE, Rounding.FLOAT32]))
    op = add(scales, rounding, kind)
    chain = linear_chain(op)
    assume(chain is not None)  # short fractions have sums on ties
    assert cycles(chain) <= 32  # 15 at most in 857 draws
    np.testing.assert_array_equal(run(chain, PAIRS), on_all_values(op))


def test_nearly_all_scales_have_a_chain() -> None:
    draw = np.random.default_rng(0)
    scales = [tuple(map(float, draw.uniform(0.01, 0.1, 3).astype(np.float32))) for _ in range(50)]
    found = [linear_chain(add((a, b, y), Rounding.DOUBLE)) for a, b, y in scales]
    assert all(found)


def test_ties_that_no_chain_rounds_as_litert_does() -> None:
    """Every fourth sum of a sixteenth each is 2.5 tenths: refused, not one off."""
    assert linear_chain(add((0.0625, 0.0625, 0.1), Rounding.DOUBLE)) is None
    assert linear_chain(add((0.0625, 0.0625, 0.1), Rounding.FLOAT32)) is not None


def test_scales_that_need_two_parts() -> None:
    """One in some thousand has no short form."""
    op = add((0.09135849798156274, 0.051082134531438894, 0.07616990735452318), Rounding.FLOAT32)
    chain = linear_chain(op)
    assert chain is not None
    assert 16 < cycles(chain) <= 32
    np.testing.assert_array_equal(run(chain, PAIRS), on_all_values(op))


@given(SCALES, SCALES, ZEROS, ZEROS, st.sampled_from([Rounding.DOUBLE, Rounding.FLOAT32]))
@settings(max_examples=times(40, 1000), deadline=None)
def test_changes_of_quantization(
    s_in: float, s_out: float, z_in: int, z_out: int, rounding: Rounding
) -> None:
    """LiteRT's, which is rounded twice below half the scale, and ONNX Runtime's."""
    x, y = lo.tensor("x", (1, 4, 4, 16), s_in, z_in), lo.tensor("y", (1, 4, 4, 16), s_out, z_out)
    op = g.Requantize(name="op", inputs=(x,), outputs=(y,), low=-100, high=110, rounding=rounding)
    chain = linear_chain(op)
    assume(chain is not None)
    assert cycles(chain) <= 20
    np.testing.assert_array_equal(run(chain, (PAIRS[0],)), on_all_values(op))


@pytest.mark.parametrize("ratio", [0.25, 0.5, 1.0, 2.0, 1.5, 0.75])
def test_powers_of_two_have_ties_to_even(ratio: float) -> None:
    chain = linear_chain(add((0.0625, 0.03125, 0.0625 / ratio), Rounding.FLOAT32))
    assert chain is not None
    assert cycles(chain) <= 16


@pytest.mark.parametrize("rounding", [Rounding.DOUBLE, Rounding.FLOAT32])
@pytest.mark.parametrize("exponents", [(-3, -1, 0), (3, -1, 4), (-4, 1, 2), (-1, -5, -1)])
def test_scales_that_are_powers_of_two_have_ties_everywhere(
    exponents: tuple[int, int, int], rounding: Rounding
) -> None:
    """Away from zero by multipliers a little too large in proportion, also where one input counts
    16 times the other."""
    a, b, y = (2.0**exponent for exponent in exponents)
    chain = linear_chain(add((a, b, y), rounding))
    assert chain is not None
    assert cycles(chain) <= 16


def test_an_output_that_is_always_the_same_is_no_trouble() -> None:
    op = replace(add((0.5, 8.0, 64.0), Rounding.DOUBLE), low=21, high=21)
    chain = linear_chain(op)
    assert chain is not None
    assert (run(chain, PAIRS) == 21).all()


def test_a_concatenation_rescales_each_input() -> None:
    a, b = lo.tensor("a", (1, 2, 2, 16), 0.04, 9), lo.tensor("b", (1, 2, 2, 32), 0.07, -9)
    y = lo.tensor("y", (1, 2, 2, 48), 0.05, 1)
    op = g.Concatenate(
        name="op",
        inputs=(a, b),
        outputs=(y,),
        axis=3,
        low=-128,
        high=127,
        rounding=Rounding.FLOAT32,
    )
    for tensor in (a, b):
        part = rescaled_part(op, tensor)
        chain = linear_chain(part)
        assert chain is not None
        x = VALUES.astype(np.int8).reshape(1, 256)
        whole = replace(
            part,
            inputs=(replace(tensor, shape=(1, 256)),),
            outputs=(replace(y, shape=(1, 256)),),
            axis=1,
        )
        np.testing.assert_array_equal(run(chain, (VALUES,)), lo.reference(whole, [x])[0])


def test_a_multiplier_that_is_wrong_by_one_is_refused() -> None:
    """Every digit counts: with another one some pair of all 65,536 differs. (A multiplier may have
    room for one, on one side.)"""
    op = add((0.031, 0.047, 0.0523), Rounding.DOUBLE)
    chain, wanted = linear_chain(op), on_all_values(op)
    assert chain is not None
    assert is_exact(chain, PAIRS, wanted)
    for number, step in enumerate(chain):
        if isinstance(step, Product):
            wrong = [
                (*chain[:number], replace(step, weight=step.weight + by), *chain[number + 1 :])
                for by in (-1, 1)
            ]
            assert not all(is_exact(spoilt, PAIRS, wanted) for spoilt in wrong)
            highest = wrong
    assert not any(is_exact(spoilt, PAIRS, wanted) for spoilt in highest)
