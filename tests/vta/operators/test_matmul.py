# SPDX-License-Identifier: Apache-2.0
"""vta/operators/matmul.py: products of two activations, on the stream reference, equal the graph's
definition."""

from dataclasses import replace

import numpy as np
import pytest

from loadstone import graph as g
from loadstone.errors import LoweringError
from loadstone.graph import reference
from loadstone.numerics import Rounding
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.spec import Memory
from loadstone.vta.operators import lower_operator, unsupported_reason
from loadstone.vta.passes.allocate.allocate import allocate
from loadstone.vta.stream.operations import TileLoad
from tests.lowered import random_inputs, run, tensor
from tests.repeat import times

CONFIG = load_config("vtaq-1x16x16")


def product(
    leading: tuple[int, ...], rows: int, depth: int, columns: int, **fields: object
) -> g.BatchMatMul:
    """With zero points."""
    a = tensor("a", (*leading, rows, depth), 0.05, -128)
    b = tensor("b", (*leading, columns, depth), 0.03, 5)
    y = tensor("y", (*leading, rows, columns), 0.05 * 0.03 * 75 * depth**0.5, -3)
    given = {"turned": True, "rounding": Rounding.FLOAT32} | fields
    return g.BatchMatMul(name="y", inputs=(a, b), outputs=(y,), **given)  # type: ignore[arg-type]


def grids(op: g.BatchMatMul, *zero_points: int) -> g.BatchMatMul:
    """With other zero points, and an output whose range its values spread over."""
    first, second = zero_points
    depth = op.inputs[0].shape[-1]
    steps = 75 * depth**0.5 + (75 * (abs(first) + abs(second)) * depth**0.5)
    wide = g.Quantization(float(np.float32(0.05 * 0.03 * steps / 8)), 0)
    middle = -round(depth * first * second * 0.05 * 0.03 / wide.scale)
    quantization = g.Quantization(wide.scale, int(np.clip(middle, -128, 127)))
    op = replace(op, outputs=(replace(op.output, quantization=quantization),))
    inputs = tuple(
        replace(t, quantization=g.Quantization(t.scale, zero_point))
        for t, zero_point in zip(op.inputs, zero_points, strict=True)
    )
    return replace(op, inputs=inputs)


def check(op: g.BatchMatMul, device: str = "vtaq-1x16x16", seed: int = 1) -> None:
    config = load_config(device)
    inputs = random_inputs(op, seed)
    found, lowered = run(op, config, inputs)
    (wanted,) = reference.run_operator(op, inputs)
    np.testing.assert_array_equal(found, wanted)
    assert len(np.unique(wanted)) > min(wanted.size // 8, 8)
    allocate(lowered.columns, config)


@pytest.mark.parametrize(
    ("leading", "rows", "depth", "columns"),
    [
        ((4,), 1, 32, 64),  # whole tiles: one token's attention
        ((1, 3), 17, 16, 32),  # matrices behind the samples
        ((2, 2), 5, 20, 32),  # spare lanes
        ((1,), 9, 32, 23),  # rows that fill no block
        ((2,), 3, 40, 5),  # both
    ],
)
def test_a_product_is_the_reference_s(
    leading: tuple[int, ...], rows: int, depth: int, columns: int
) -> None:
    check(product(leading, rows, depth, columns))


@pytest.mark.parametrize("zero_points", [(0, 0), (-128, 0), (0, -128), (127, -128)])
def test_zero_points_are_products_of_their_own(zero_points: tuple[int, int]) -> None:
    check(grids(product((1,), 4, 32, 16), *zero_points))


def test_double_rounding_and_a_clamp() -> None:
    check(product((1,), 6, 16, 16, rounding=Rounding.DOUBLE, low=-100, high=90))


def test_a_product_of_several_tiles() -> None:
    """More columns and rows than the scratchpads of a small device hold."""
    check(product((1,), 40, 64, 100), "vtaq-tiny")


def test_random_products_equal_the_reference() -> None:
    rng = np.random.default_rng(7)
    for seed in range(times(3, 60)):
        leading = tuple(rng.integers(1, 4, int(rng.integers(1, 3))).tolist())
        rows, depth, columns = rng.integers(1, 70, 3).tolist()
        op = grids(product(leading, rows, depth, columns), *rng.integers(-128, 128, 2).tolist())
        device = ("vtaq-1x16x16", "vtaq-1x32x32", "vtaq-tiny")[seed % 3]
        check(op, device, seed)


def test_the_second_factor_is_loaded_as_weights_where_it_lies() -> None:
    op = product((4,), 1, 32, 64)
    lowered = lower_operator(op, CONFIG)
    loads = [o for o in lowered.operations if isinstance(o, TileLoad)]
    assert {o.memory for o in loads if o.dram.tensor == "b"} == {Memory.WGT}
    assert not lowered.scratch


@pytest.mark.parametrize(
    ("op", "device", "why"),
    [
        (product((4,), 4, 16, 16), "vtaq-4x16x16", "batch is 1|are samples"),
        (product((1,), 4, 16, 16, turned=False), "vtaq-1x16x16", "by columns"),
        (product((1,), 4, 16, 16, turned=False), "vta-pynq", "by columns"),
    ],
)
def test_what_a_device_does_not_do_has_a_reason(op: g.BatchMatMul, device: str, why: str) -> None:
    refusal = unsupported_reason(op, load_config(device))
    assert refusal is not None
    assert any(word in refusal.why for word in why.split("|"))


def test_a_factor_for_several_products_is_refused() -> None:
    op = product((4,), 2, 16, 16)
    shared = replace(op, inputs=(op.inputs[0], replace(op.inputs[1], shape=(1, 16, 16))))
    refusal = unsupported_reason(shared, CONFIG)
    assert refusal is not None
    assert "share a factor" in refusal.why


def test_a_sum_that_fits_no_scratchpad_is_an_error() -> None:
    with pytest.raises(LoweringError, match="fits no scratchpad"):
        lower_operator(product((1,), 1, 16 * 1200, 16), CONFIG)
