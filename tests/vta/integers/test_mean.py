# SPDX-License-Identifier: Apache-2.0
"""vta/integers/mean.py: averages of any count, by every rule, on every sum."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from loadstone import graph as g
from loadstone.vta.integers.chain import Product, cycles, run
from loadstone.vta.integers.mean import MeanRounding, MeanRule, mean_chain
from tests.repeat import times

INTEGER = (MeanRounding.INTEGERS, MeanRounding.RAISED)


def check(rule: MeanRule) -> int:
    """The cycles beside those of the products; the number of products."""
    chain = mean_chain(rule)
    assert chain is not None, rule
    sums = np.arange(-128 * rule.taps, 127 * rule.taps + 1)
    np.testing.assert_array_equal(run(chain, (sums,)), rule.apply(sums))
    assert cycles(chain, taps=0) <= 17, rule
    return sum(isinstance(step, Product) for step in chain)


@pytest.mark.parametrize("rounding", INTEGER)
def test_averages_of_integers(rounding: MeanRounding) -> None:
    """Half away from zero, also where the count is even and ties are frequent: no correction."""
    q = g.Quantization(0.0625, 3)
    counts = (*range(1, times(26, 130)), 49, 64, 128, 196, 256, 784)
    assert max(check(MeanRule(n, n, q, q, -128, 127, rounding)) for n in counts) <= 3


@pytest.mark.parametrize("count", [2, 4, 8, 16, 32, 64, 128, 256])
def test_powers_of_two_under_half_to_even(count: int) -> None:
    q = g.Quantization(0.0625, -17)
    check(MeanRule(count, count, q, q, -128, 127, MeanRounding.FLOAT32))


@given(
    st.sampled_from([MeanRounding.DOUBLE, MeanRounding.FLOAT32]),
    st.sampled_from([1, 2, 4, 6, 9, 12, 16, 30, 49, 64, 100, 196]),
    st.tuples(st.floats(0.02, 0.1), st.floats(0.02, 0.1)),
    st.tuples(st.integers(-128, 127), st.integers(-128, 127)),
)
@example(MeanRounding.FLOAT32, 196, (0.026451326881823684, 0.020000000000000004), (0, 2))
@settings(max_examples=times(30, 1000), deadline=None)
def test_means_between_any_scales(
    rounding: MeanRounding, count: int, scales: tuple[float, float], zeros: tuple[int, int]
) -> None:
    q_in, q_out = (
        g.Quantization(float(np.float32(s)), z) for s, z in zip(scales, zeros, strict=True)
    )
    rule = MeanRule(count, count, q_in, q_out, -128, 127, rounding)
    if mean_chain(rule) is None:
        # float32's own rounding decides; or, in one of a thousand, no offset serves 50,000 sums
        assert ties_are_noise(rule) if rounding is MeanRounding.FLOAT32 else count == 196
        return
    check(rule)


def ties_are_noise(rule: MeanRule) -> bool:
    """Whether some sum is so near a tie that float32's own rounding decides it."""
    sums = np.arange(-128 * rule.taps, 127 * rule.taps + 1) - rule.taps * rule.q_in.zero_point
    exact = sums * (rule.q_in.scale / rule.q_out.scale / rule.count)
    far = np.abs(np.abs(exact % 1 - 0.5))
    return bool((far < 1e-6 * np.maximum(1, np.abs(exact))).any())


def test_padding_may_count() -> None:
    """A corner holds 4 of the 9 elements that it is divided by."""
    q = g.Quantization(0.0625, 3)
    check(MeanRule(4, 9, q, q, -128, 127, MeanRounding.FLOAT32))
