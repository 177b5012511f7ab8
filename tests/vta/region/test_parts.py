# SPDX-License-Identifier: Apache-2.0
"""parts.py: parts of an operator, executed on parts of the whole tensors, make its whole output;
and what cannot be divided is not."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from loadstone import graph as g
from loadstone.errors import LoweringError
from loadstone.graph.planes import planes_needed
from loadstone.numerics import Rounding
from loadstone.vta.device.hw_config import HwConfig, load_config
from loadstone.vta.operators import im2col_input, lower_operator, unsupported_reason
from loadstone.vta.operators.layout import Blocked
from loadstone.vta.operators.request import PLAIN
from loadstone.vta.region.parts import channels_of, rows_of
from loadstone.vta.region.views import on_whole
from tests.lowered import (
    WRITTEN_BY_NOBODY,
    Array,
    averages,
    convolutions,
    dense_layers,
    devices,
    elementwise,
    random_inputs,
    reference,
    tensor,
)
from tests.repeat import times
from tests.vta.stream.meaning import execute

VTAQ, TINY = load_config("vtaq-1x16x16"), load_config("vtaq-tiny")


def by_parts(
    op: g.Operator, config: HwConfig, inputs: list[Array], rows: bool, edges: list[int]
) -> Array | None:
    """The output that the parts between `edges` make together; None where there are none."""
    folded = im2col_input(op, config, PLAIN) if rows and isinstance(op, g.Conv2D) else None
    layout = Blocked(op.output.shape, config.batch, config.block)
    dram: dict[str, Array] = {
        t.name: Blocked(t.shape, config.batch, config.block).pack(array)
        for t, array in zip(op.inputs, inputs, strict=True)
    }
    if folded is not None:
        dram[f"{op.input.name} for {op.name}"] = folded.pack(inputs[0])
    dram[op.output.name] = np.full(
        (layout.size_tiles, config.batch, config.block), WRITTEN_BY_NOBODY, np.int8
    )
    for begin, end in pairwise(edges):
        part = (rows_of if rows else channels_of)(op, begin, end, config, folded)
        if part is None:
            return None
        lowered = lower_operator(part.operator, config, part.folded, PLAIN)
        try:
            operations = on_whole(lowered.operations, part.views)
        except LoweringError:  # a padded load has no form on the whole: the layer stays whole
            return None
        own = {name: np.array(tiles) for name, (_, tiles) in lowered.constants.items()}
        execute(operations, {**dram, **own}, config)
    return layout.unpack(dram[op.output.name])


def fits(op: g.Operator, config: HwConfig) -> bool:
    """Whether the scratchpads hold what one pixel needs: no rule of an operator asks."""
    try:
        lower_operator(op, config)
    except LoweringError:
        return False
    return True


def edges_of(data: Any, extent: int) -> list[int]:
    inner = data.draw(st.sets(st.integers(1, extent - 1), min_size=1, max_size=3))
    return [0, *sorted(inner), extent]


@pytest.mark.parametrize("kind", [convolutions, elementwise, averages, dense_layers])
@pytest.mark.parametrize("rows", [True, False])
@settings(max_examples=times(8, 300))
@given(st.data())
def test_parts_make_the_whole(kind: Any, rows: bool, data: Any) -> None:
    config = data.draw(devices())
    op = data.draw(kind(config))
    if rows and len(op.output.shape) != 4:
        assert rows_of(op, 0, 1, config) is None
        return
    shape = op.output.shape
    extent = shape[1] if rows else Blocked(shape, config.batch, config.block).channel_blocks
    assume(extent > 1)
    assume(unsupported_reason(op, config) is None)
    assume(fits(op, config))
    inputs = random_inputs(op, 1)
    got = by_parts(op, config, inputs, rows, edges_of(data, extent))
    if got is not None:
        np.testing.assert_array_equal(got, reference(op, inputs))


def convolution(**changes: Any) -> g.Conv2D:
    """3x3 on 12x9 pixels, 40 channels to 40."""
    rng = np.random.default_rng(3)
    op = g.Conv2D(
        name="conv",
        inputs=(tensor("x", (1, 12, 9, 40), zero_point=7),),
        outputs=(tensor("y", (1, 12, 9, 40), zero_point=-3),),
        weights=rng.integers(-128, 128, (40, 3, 3, 40)).astype(np.int8),
        weight_scales=np.full(40, 0.001, np.float32),
        weight_zero_points=np.zeros(40, np.int32),
        bias=rng.integers(-2000, 2000, 40).astype(np.int32),
        low=-128,
        high=127,
        rounding=Rounding.DOUBLE,
        strides=(1, 1),
        dilation=(1, 1),
        padding=(1, 1, 1, 1),
        groups=1,
    )
    return replace(op, **changes)


@pytest.mark.parametrize("rows", [True, False])
def test_a_convolution_is_divided_both_ways(rows: bool) -> None:
    """The property above accepts that there are no parts; here there are."""
    op = convolution()
    inputs = random_inputs(op, 2)
    got = by_parts(op, VTAQ, inputs, rows, [0, 5, 12] if rows else [0, 2, 3])
    assert got is not None
    np.testing.assert_array_equal(got, reference(op, inputs))


@pytest.mark.parametrize("taps", [3, 1])
def test_rows_of_an_input_whose_taps_the_host_folds(taps: int) -> None:
    rng = np.random.default_rng(4)
    op = convolution(
        inputs=(tensor("x", (1, 13, 9, 3), zero_point=7),),
        outputs=(tensor("y", (1, 7, 5, 40) if taps == 3 else (1, 13, 5, 40)),),
        weights=rng.integers(-128, 128, (40, taps, 3, 3)).astype(np.int8),
        strides=(2, 2) if taps == 3 else (1, 2),
        padding=(1, 1, 1, 1) if taps == 3 else (0, 1, 0, 1),
    )
    folded = im2col_input(op, VTAQ, PLAIN)
    assert folded is not None
    assert folded.kernel == (taps, 3)
    inputs = random_inputs(op, 3)
    got = by_parts(op, VTAQ, inputs, True, [0, 3, 4, op.output.shape[1]])
    assert got is not None
    np.testing.assert_array_equal(got, reference(op, inputs))


def test_planes_are_divided_where_they_begin_with_blocks() -> None:
    rng = np.random.default_rng(5)
    weights = rng.integers(-128, 128, (48, 70)).astype(np.int8)
    planes = planes_needed(weights)
    op = g.PlaneDense(
        name="dense",
        inputs=(tensor("x", (3, 70)),),
        outputs=(tensor("y", (3, planes * 48)),),
        weights=weights,
        planes=planes,
    )
    inputs = random_inputs(op, 4)
    got = by_parts(op, VTAQ, inputs, False, [0, 1, 3])
    assert got is not None
    np.testing.assert_array_equal(got, reference(op, inputs))
    narrow = replace(op, weights=weights[:40], outputs=(tensor("y", (3, planes * 40)),))
    assert channels_of(narrow, 0, 1, VTAQ) is None


def test_what_cannot_be_divided() -> None:
    grouped = convolution(
        weights=convolution().weights[:, :, :, :20], groups=2
    )  # each group reads half of the channels
    assert channels_of(grouped, 0, 1, VTAQ) is None
    assert rows_of(grouped, 0, 4, VTAQ) is not None
    x, one = tensor("x", (1, 8, 8, 40)), tensor("c", (1, 1, 1, 40))
    clamp: Any = {"low": -128, "high": 127, "rounding": Rounding.DOUBLE}
    broadcast = g.Mul(name="m", inputs=(x, one), outputs=(tensor("y", x.shape),), **clamp)
    assert rows_of(broadcast, 0, 4, VTAQ) is None
    assert channels_of(broadcast, 0, 1, VTAQ) is None
    below = convolution(
        padding=(1, 1, 40, 1), outputs=(tensor("y", (1, 51, 9, 40)),)
    )  # the last windows lie in the padding
    assert rows_of(below, 40, 51, VTAQ) is None


def test_a_window_of_more_taps_than_micro_ops_fits_neither_whole_nor_in_parts() -> None:
    """132 taps, where half of the micro-ops are 128."""
    op = g.AveragePool2D(
        name="pool",
        inputs=(tensor("x", (1, 12, 13, 1)),),
        outputs=(tensor("y", (1, 2, 2, 1)),),
        kernel=(11, 12),
        strides=(1, 1),
        padding=(0, 0, 0, 0),
        low=-128,
        high=127,
        rounding=Rounding.DOUBLE,
        count_include_pad=False,
    )
    assert unsupported_reason(op, TINY) is None
    part = rows_of(op, 0, 1, TINY, None)
    assert part is not None
    assert not fits(op, TINY)
    assert not fits(part.operator, TINY)
