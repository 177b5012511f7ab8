# SPDX-License-Identifier: Apache-2.0
"""vta/integers/chain.py: what a chain computes is what VTA computes, element by element."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadstone.errors import LoweringError
from loadstone.vta.integers.chain import AluStep, Chain, Product, cycles, is_exact, run

INT16 = st.integers(-(1 << 15), (1 << 15) - 1)
STEPS = st.one_of(
    st.builds(Product, st.integers(0, 1), st.integers(-128, 127)),
    st.builds(AluStep, st.sampled_from(["add", "min", "max"]), INT16),
    st.builds(AluStep, st.just("shr"), st.integers(-16, 15)),
)


def scalar(chain: Chain, inputs: tuple[int, int]) -> int:
    """One element, in Python's integers."""
    acc = 0
    for step in chain:
        if isinstance(step, Product):
            acc += step.weight * inputs[step.input]
        elif step.op == "shr":
            acc = acc >> step.value if step.value >= 0 else acc << -step.value
        else:
            acc = {"add": acc + step.value, "min": min(acc, step.value)}.get(
                step.op, max(acc, step.value)
            )
        acc = (acc + 2**31) % 2**32 - 2**31
    return (acc + 128) % 256 - 128


@given(st.lists(STEPS, min_size=1, max_size=12), st.integers(-128, 127), st.integers(-128, 127))
def test_a_chain_is_its_steps_one_by_one(steps: list[Product | AluStep], a: int, b: int) -> None:
    inputs = (np.array([[a], [-a]]), np.array([[b, 1, -b]]))
    result = run(tuple(steps), inputs)
    assert result.shape == (2, 3)
    assert result[0, 0] == scalar(tuple(steps), (a, b))
    assert result[1, 2] == scalar(tuple(steps), (-a, -b))


def test_a_chain_that_is_wrong_anywhere_is_not_exact() -> None:
    values = np.arange(-128, 128)
    half = (Product(0, 1), AluStep("add", 1), AluStep("shr", 1))
    wanted = (values + 1) // 2
    assert is_exact(half, (values,), wanted)
    wanted[77] += 1
    assert not is_exact(half, (values,), wanted)
    assert is_exact((Product(0, 1), AluStep("add", 256)), (values,), values)  # a byte is stored


#: A kind of step, and the least and the largest number that its field holds.
FIELDS: dict[str, tuple[Callable[[int], Product | AluStep], int, int]] = {
    "weight": (partial(Product, 0), -128, 127),
    **{op: (partial(AluStep, op), -(1 << 15), (1 << 15) - 1) for op in ("add", "min", "max")},
    "shr": (partial(AluStep, "shr"), -16, 15),
}


@pytest.mark.parametrize("field", FIELDS)
def test_what_no_field_holds_is_no_step(field: str) -> None:
    step, least, most = FIELDS[field]
    for value in (least, least + 1, most - 1, most):
        assert run((step(value),), (np.array([3]),)) == [scalar((step(value),), (3, 0))]
    for value in (least - 1, most + 1):
        with pytest.raises(LoweringError, match=r"chain: an? \w+ of -?\d+ is outside \["):
            run((step(value),), (np.array([3]),))


def test_a_product_takes_a_cycle_for_each_tap() -> None:
    chain = (Product(0, 3), AluStep("shr", 8), Product(0, 5), AluStep("max", -3))
    assert (cycles(chain), cycles(chain, taps=9)) == (5, 21)
