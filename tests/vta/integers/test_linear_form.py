# SPDX-License-Identifier: Apache-2.0
"""vta/integers/linear_form.py: every way to write a form computes the form."""

from __future__ import annotations

from itertools import islice

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from loadstone.vta.integers.chain import AluStep, Product, run
from loadstone.vta.integers.linear_form import Correction, LinearForm, chains
from tests.repeat import times

VALUES = np.arange(-128, 128)
PAIRS = (VALUES[:, None], VALUES[None, :])
MULTIPLIERS = st.integers(-(1 << 20), 1 << 20).filter(lambda value: abs(value) > 1)


def low_bits(values: np.ndarray) -> np.ndarray:
    return (values + 128) % 256 - 128


@given(MULTIPLIERS, MULTIPLIERS, st.integers(6, 24), st.integers(-(1 << 27), 1 << 27))
@settings(max_examples=times(30, 500), deadline=None)
def test_cut_anywhere_it_is_one_multiplication(a: int, b: int, shift: int, offset: int) -> None:
    form = LinearForm((a, b), shift, (offset, offset), (0, 0), 128)
    wanted = low_bits((a * PAIRS[0] + b * PAIRS[1] + offset) >> shift)
    for chain in islice(chains(form), 40):
        np.testing.assert_array_equal(run(chain, PAIRS), wanted)


@given(
    st.integers(100, 1 << 18),
    st.integers(10, 22),
    st.integers(-128, 127),
    st.sampled_from([Correction.NEGATIVE, Correction.EVEN]),
    st.data(),
)
@settings(max_examples=times(40, 500), deadline=None)
def test_a_correction_is_subtracted_where_it_should_be(
    multiplier: int, shift: int, zero: int, correction: Correction, data: st.DataObject
) -> None:
    exponent = data.draw(st.integers(0, shift))
    offset = data.draw(st.integers(-(1 << shift), 1 << shift))
    form = LinearForm((multiplier,), shift, (offset, offset), (zero,), 255, correction, exponent)
    centred = VALUES - zero
    c = centred < 0
    if correction is Correction.EVEN:
        # The parity may be taken at up to a quarter of a step more.
        quotients = {
            more: (multiplier * centred + more) >> shift for more in (0, (1 << shift) // 4)
        }
        settled = quotients[0] == quotients[(1 << shift) // 4]
        c = quotients[0] % 2 == 0
    else:
        settled = np.ones(256, np.bool_)
    wanted = low_bits((multiplier * VALUES + offset - (c.astype(np.int64) << exponent)) >> shift)
    found = list(islice(chains(form), 12))
    for chain in found:
        np.testing.assert_array_equal(run(chain, (VALUES,))[settled], wanted[settled])


def test_a_chain_begins_with_a_product() -> None:
    """A level of zero digits is no step, whatever the offset."""
    form = LinearForm((3 << 14,), 20, (12345, 12345), (0,), 128)
    for chain in chains(form):
        assert isinstance(chain[0], Product)
        np.testing.assert_array_equal(
            run(chain, (VALUES,)), low_bits(((3 << 14) * VALUES + 12345) >> 20)
        )


def test_an_offset_is_as_round_as_its_range_allows() -> None:
    """Its low bits are zero where they may be: nothing is added on the lowest level."""

    def additions(first: int, last: int) -> int:
        form = LinearForm((1234567,), 22, (first, last), (0,), 128)
        shortest = min(chains(form), key=len)
        return sum(isinstance(step, AluStep) and step.op == "add" for step in shortest)

    assert additions((1 << 21) - 3000, (1 << 21) + 3000) == 1
    assert additions((1 << 21) + 2999, (1 << 21) + 2999) == 2
