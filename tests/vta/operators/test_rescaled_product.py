# SPDX-License-Identifier: Apache-2.0
"""vta/operators/rescaled_product.py: products of two activations on a device without RQ, on the
stream reference, equal the graph's definition."""

from dataclasses import replace

import numpy as np
import pytest

from loadstone import graph as g
from loadstone.errors import LoweringError
from loadstone.graph import Quantization, reference
from loadstone.numerics import Rounding
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.spec import Memory
from loadstone.vta.operators import lower_operator, unsupported_reason
from loadstone.vta.passes.allocate.allocate import allocate
from loadstone.vta.stream.operations import TileLoad, TileRole, TileStore
from tests.lowered import random_inputs, run, tensor
from tests.repeat import times
from tests.vta.operators.test_matmul import check, grids, product

CONFIG = load_config("vta-pynq")


@pytest.mark.parametrize("rounding", [Rounding.DOUBLE, Rounding.FLOAT32])
@pytest.mark.parametrize(
    ("leading", "rows", "depth", "columns"),
    [
        ((4,), 1, 32, 64),  # whole tiles: one token's attention
        ((1, 3), 17, 16, 32),  # matrices behind the samples
        ((2, 2), 5, 20, 32),  # spare lanes
        ((1,), 9, 32, 23),  # rows that fill no block
        ((2,), 3, 40, 5),  # both
        ((1,), 197, 64, 197),  # the last tile hangs over
    ],
)
def test_a_product_is_the_reference_s(
    leading: tuple[int, ...], rows: int, depth: int, columns: int, rounding: Rounding
) -> None:
    check(product(leading, rows, depth, columns, rounding=rounding), CONFIG.name)


@pytest.mark.parametrize("zero_points", [(0, 0), (-128, 0), (0, -128), (127, -128)])
def test_zero_points_are_products_of_their_own(zero_points: tuple[int, int]) -> None:
    check(grids(product((1,), 4, 32, 16), *zero_points), CONFIG.name)


def test_a_clamp() -> None:
    check(product((1,), 6, 16, 16, low=-100, high=90), CONFIG.name)


def test_a_sum_that_is_longer_than_the_scratchpads_is_made_in_chunks() -> None:
    small = replace(CONFIG, log_wgt_buff=14)
    assert small.depth(Memory.WGT) == 64
    op = grids(product((1,), 6, 16 * 40, 16), 0, 0)
    inputs = random_inputs(op, 1)
    found, lowered = run(op, small, inputs)
    np.testing.assert_array_equal(found, reference.run_operator(op, inputs)[0])
    allocate(lowered.columns, small)
    loads = [o for o in lowered.operations if isinstance(o, TileLoad) and o.dram.tensor == "b"]
    assert len({load.tile for load in loads}) > 1


def test_random_products_equal_the_reference() -> None:
    """Those without a proof are few, and refused."""
    rng = np.random.default_rng(7)
    refused, count = 0, times(6, 200)
    for seed in range(count):
        leading = tuple(rng.integers(1, 4, int(rng.integers(1, 3))).tolist())
        rows, depth, columns = rng.integers(2, 70, 3).tolist()
        rounding = (Rounding.DOUBLE, Rounding.FLOAT32)[seed % 2]
        op = product(leading, rows, depth, columns, rounding=rounding)
        op = grids(op, *rng.integers(-128, 128, 2).tolist())
        if (refusal := unsupported_reason(op, CONFIG)) is None:
            check(op, CONFIG.name, seed)
        else:
            assert "proven" in refusal.why
            refused += 1
    assert refused <= count // 20


def test_all_samples_have_digits_of_their_own() -> None:
    """Each tile of the scratch is written once, and no multiplier twice in memory."""
    op = product((3, 2), 9, 32, 48)
    lowered = lower_operator(op, CONFIG)
    assert lowered.remark is not None
    assert "exactly: D3" in lowered.remark()
    (tiles,) = lowered.scratch.values()
    written = [
        store.dram.tile + row * store.x_stride + column
        for store in lowered.operations
        if isinstance(store, TileStore) and store.dram.role is TileRole.DIGITS
        for row in range(store.y_size)
        for column in range(store.x_size)
    ]
    assert sorted(written) == list(range(tiles))
    (chain,) = (t for name, (_, t) in lowered.constants.items() if name.endswith("multipliers"))
    assert len(chain) < 40


def test_the_second_factor_is_loaded_as_weights_where_it_lies() -> None:
    lowered = lower_operator(product((4,), 1, 32, 64), CONFIG)
    loads = [o for o in lowered.operations if isinstance(o, TileLoad)]
    assert {o.memory for o in loads if o.dram.tensor == "b"} == {Memory.WGT}


def with_output(op: g.BatchMatMul, scale: float) -> g.BatchMatMul:
    return replace(op, outputs=(replace(op.output, quantization=Quantization(scale, -3)),))


@pytest.mark.parametrize(
    ("op", "why"),
    [
        (with_output(product((1,), 2, 32, 16), 1e6), "the same output"),
        (product((1,), 1, 16 * 4000, 16), "can leave 32 bits"),
        (grids(product((1,), 2, 32, 16), -91, -74), "no product of digits"),
    ],
)
def test_what_is_not_proven_has_a_reason(op: g.BatchMatMul, why: str) -> None:
    refusal = unsupported_reason(op, CONFIG)
    assert refusal is not None
    assert why in refusal.why
    with pytest.raises(LoweringError, match=why):
        lower_operator(op, CONFIG)


def test_two_products_of_one_rule_are_not_mixed_up() -> None:
    """Their plan is kept by the rule, not by the operator."""
    first, second = (product((1,), 2, 32, 16, low=low) for low in (-128, -20))
    check(first, CONFIG.name)
    check(replace(second, outputs=(tensor("y", (1, 2, 16), 0.3, -3),)), CONFIG.name)
