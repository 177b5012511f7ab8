# SPDX-License-Identifier: Apache-2.0
"""vta/region/fold_pixels.py: a convolution between folded tensors is the same convolution, and
chains are folded where that pays."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from loadstone import graph as g
from loadstone.errors import LoweringError
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.operators.weighted import estimated_cycles
from loadstone.vta.region import fold_pixels
from loadstone.vta.region.fold_pixels import fold_columns, folded_convolution, verify_columns
from loadstone.vta.region.request import RegionRequest
from tests import lowered as lo

CONFIG = load_config("vtaq-1x16x16")


@given(st.data(), st.sampled_from([1, 2, 3, 4]), st.sampled_from([1, 2, 3, 4]))
@settings(
    max_examples=100, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)
def test_a_folded_convolution_is_the_same_convolution(
    data: Any, factor_in: int, factor_out: int
) -> None:
    op = data.draw(lo.convolutions(CONFIG, largest_channels=6))
    assume(op.input.shape[2] % factor_in == 0 and op.output.shape[2] % factor_out == 0)
    folded = folded_convolution(op, factor_in, factor_out)
    assume(folded is not None)
    assert folded is not None
    (x,) = lo.random_inputs(op, 1)
    result = lo.reference(folded, [x.reshape(folded.input.shape)])
    np.testing.assert_array_equal(result.reshape(op.output.shape), lo.reference(op, [x]))


def chain(channels: int, width: int) -> list[g.Operator]:
    """Pointwise, depthwise, add, depthwise with stride 2, pointwise; the first and the last tensor
    are seen from outside."""
    rng = np.random.default_rng(3)

    def conv(name: str, x: g.Tensor, out: int, kernel: int, stride: int, groups: int) -> g.Conv2D:
        n, height, columns, c = x.shape
        y = lo.tensor(name, (n, height // stride, columns // stride, out), 0.05, 3)
        return g.Conv2D(
            name=name,
            inputs=(x,),
            outputs=(y,),
            weights=rng.integers(-128, 128, (out, kernel, kernel, c // groups)).astype(np.int8),
            weight_scales=np.full(out, 0.004, np.float32),
            weight_zero_points=np.zeros(out, np.int32),
            bias=rng.integers(-2000, 2000, out).astype(np.int32),
            low=-128,
            high=127,
            rounding=lo.Rounding.DOUBLE,
            strides=(stride, stride),
            dilation=(1, 1),
            padding=(
                kernel // 2,
                kernel // 2,
                kernel // 2 - (stride - 1) * (kernel // 2),
                kernel // 2 - (stride - 1) * (kernel // 2),
            ),
            groups=groups,
        )

    a = conv("a", lo.tensor("x", (1, 12, width, 16)), channels, 1, 1, 1)
    b = conv("b", a.output, channels, 3, 1, channels)
    c = g.Add(
        name="c",
        inputs=(a.output, b.output),
        outputs=(lo.tensor("c", b.output.shape),),
        low=-128,
        high=127,
        rounding=lo.Rounding.DOUBLE,
    )
    d = conv("d", c.output, channels, 3, 2, channels)
    return [a, b, c, d, conv("e", d.output, 32, 1, 1, 1)]


def run(operators: list[g.Operator], x: Any) -> dict[str, Any]:
    """Every tensor, each operator on the stream reference."""
    values = {"x": x}
    for operator in operators:
        inputs = [values[tensor.name].reshape(tensor.shape) for tensor in operator.inputs]
        values[operator.output.name] = lo.run(operator, CONFIG, inputs)[0]
    return values


def test_a_chain_of_narrow_tensors_is_folded_and_computes_the_same() -> None:
    operators = chain(8, 16)
    folded = fold_columns(operators, {"x", "e"}, set(), CONFIG, RegionRequest())
    widths = {op.output.name: op.output.shape[2] for op in folded}
    assert widths["a"] < 16
    assert widths["b"] < 16
    assert widths["e"] == 8
    assert folded[0].input.shape == operators[0].input.shape
    x = np.random.default_rng(4).integers(-128, 128, operators[0].input.shape).astype(np.int8)
    before, after = run(operators, x), run(list(folded), x)
    for name, value in before.items():
        np.testing.assert_array_equal(after[name].reshape(value.shape), value)
    cost = [
        sum(estimated_cycles(op, CONFIG, False) for op in ops if isinstance(op, g.Conv2D))
        for ops in (operators, folded)
    ]
    assert cost[1] < 0.75 * cost[0]


def test_what_is_wide_or_seen_from_outside_stays() -> None:
    wide = chain(32, 16)
    assert fold_columns(wide, {"x", "e"}, set(), CONFIG, RegionRequest()) == tuple(wide)
    narrow = chain(8, 16)
    names = {tensor.name for op in narrow for tensor in (*op.inputs, op.output)}
    assert fold_columns(narrow, names, set(), CONFIG, RegionRequest()) == tuple(narrow)


def test_an_odd_width_is_not_folded() -> None:
    operators = chain(8, 14)
    odd = [replace(op, name=op.name) for op in operators]
    folded = fold_columns(odd, {"x", "e"}, set(), CONFIG, RegionRequest())
    assert all(op.output.shape[2] in (14, 7) for op in folded if op.output.name in ("d", "e"))


def test_a_chain_of_twice_the_length_takes_twice_the_work(monkeypatch: Any) -> None:
    """What a change saves is asked of the operators at its tensors, not of all."""
    asked: list[str] = []
    cost_of = fold_pixels._Chain._cost_of

    def counted(self: Any, operator: g.Operator, factors: Any) -> int:
        asked.append(operator.name)
        return cost_of(self, operator, factors)

    monkeypatch.setattr(fold_pixels._Chain, "_cost_of", counted)
    counts = []
    for length in (8, 16, 32):
        asked.clear()
        operators = additions(length)
        fold_columns(
            operators,
            {operators[0].input.name, operators[-1].output.name},
            (),
            CONFIG,
            RegionRequest(),
        )
        counts.append(len(asked))
    assert counts[2] - counts[1] <= 2.2 * (counts[1] - counts[0])


def additions(length: int) -> list[g.Operator]:
    """Additions of a tensor to itself, one behind the other."""
    tensors = [lo.tensor(f"t{k}", (1, 8, 8, 8), 0.05, 0) for k in range(length + 1)]
    template = next(o for o in chain(8, 8) if isinstance(o, g.Add))
    return [
        replace(template, name=f"add{k}", inputs=(x, x), outputs=(y,))
        for k, (x, y) in enumerate(pairwise(tensors))
    ]


def adding(name: str, x: g.Tensor, y: g.Tensor) -> g.Add:
    """x + x = y, also of shapes that an Add refuses when it is made."""
    flags = {"low": -128, "high": 127, "rounding": lo.Rounding.DOUBLE}
    made = g.Add(name=name, inputs=(x, x), outputs=(replace(y, shape=x.shape),), **flags)
    object.__setattr__(made, "outputs", (y,))
    return made


def test_a_wrong_folding_is_found() -> None:
    """Each is the right one, changed at one place."""
    operators = chain(8, 16)
    right = fold_columns(operators, {"x", "e"}, set(), CONFIG, RegionRequest())
    assert right != tuple(operators)
    verify_columns({"x", "e"}, operators, right)
    x, y, z, e = (lo.tensor(name, (1, 4, 8, 8)) for name in "xyze")
    x2, y2, z2, e2 = (replace(t, shape=(1, 4, 4, 16)) for t in (x, y, z, e))
    before = [adding("one", x, y), adding("two", y, z), adding("end", e, e)]
    one, two, end = adding("one", x2, y2), adding("two", y2, z2), before[2]
    verify_columns({"e"}, before, [one, two, end])
    one_column = (1, 4, 1, 64)
    whole = [
        adding(n, *(replace(t, shape=one_column) for t in ts))
        for n, ts in (("one", (x, y)), ("two", (y, z)))
    ]
    verify_columns({"e"}, before, [*whole, end])
    flat = [adding("end", *[lo.tensor("e", (4, 8))] * 2)]
    verify_columns(set(), flat, flat)

    def wide(*shape: int) -> g.Add:
        return adding("two", y2, replace(z, shape=shape))

    scaled = replace(z2, quantization=g.Quantization(0.5, 0))
    for after, found in (
        ([one, two], "the operators are others than before"),
        ([two, one, end], "the operators are others than before"),
        ([one, g.Mul(**vars(two)), end], "the operators are others than before"),
        ([one, adding("two", x2, z2), end], "two reads or writes other tensors"),
        ([one, adding("two", y, z2), end], "y is .* for one operator"),
        ([one, two, adding("end", e2, e2)], "e, seen from outside, was"),
        ([one, wide(1, 4, 4, 24), end], "z was .* is no folding"),
        ([one, wide(1, 2, 8, 16), end], "z was .* is no folding"),
        ([one, wide(1, 4, 3, 16), end], "z was .* is no folding"),
        ([one, wide(1, 4, 64), end], "z was .* is no folding"),
        ([one, wide(1, 4, 0, 8), end], "z was .* is no folding"),
        ([one, wide(1, 3, 4, 16), end], "z was .* is no folding"),
        ([one, wide(2, 4, 4, 16), end], "z was .* is no folding"),
        ([one, adding("two", y2, scaled), end], "z has another type or quantization"),
    ):
        with pytest.raises(LoweringError, match=found):
            verify_columns({"e"}, before, after)
