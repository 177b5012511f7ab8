# SPDX-License-Identifier: Apache-2.0
"""vta/schedule/edges.py: which taps lie outside, of which pixels, and what that saves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from loadstone.vta.device.hw_config import load_config
from loadstone.vta.schedule import conv
from loadstone.vta.schedule.conv_spec import PIXEL, ConvSpec, Edge
from loadstone.vta.schedule.edges import edge_work, outside_taps, taps_of_pixels

SPEC = replace(PIXEL, input=(8, 8), output=(8, 8), kernel=(3, 3), padding=(1, 1), pad_value=-128)
SPECS = [
    SPEC,
    replace(SPEC, output=(4, 4), strides=(2, 2), padding=(0, 0)),
    replace(SPEC, kernel=(5, 2), padding=(2, 0), input=(8, 7), output=(8, 7)),
    replace(SPEC, dilation=(2, 1), padding=(2, 1)),
    replace(SPEC, input=(1, 2), output=(1, 2)),
    replace(SPEC, output=(14, 14), padding=(4, 4)),
    replace(SPEC, kernel=(1, 3), strides=(2, 1), output=(4, 8), padding=(0, 1)),
]


def with_edges(spec: ConvSpec) -> ConvSpec:
    edges = tuple(Edge(rows, columns, ((0, 0),)) for rows, columns, _ in taps_of_pixels(spec))
    return replace(spec, edges=edges)


@pytest.mark.parametrize("spec", SPECS)
def test_each_pixel_lacks_the_taps_of_its_edge(spec: ConvSpec) -> None:
    lacking = np.zeros((*spec.output, *spec.kernel), bool)
    for (top, bottom), (left, right), taps in taps_of_pixels(spec):
        assert not lacking[top:bottom, left:right].any()
        for tap in taps:
            lacking[(slice(top, bottom), slice(left, right), *tap)] = True
    for row, column, y, x in np.ndindex(*lacking.shape):
        place = [
            pixel * stride + tap * dilation - pad
            for pixel, stride, tap, dilation, pad in zip(
                (row, column), spec.strides, (y, x), spec.dilation, spec.padding, strict=True
            )
        ]
        inside = all(0 <= at < size for at, size in zip(place, spec.input, strict=True))
        assert lacking[row, column, y, x] != inside


@pytest.mark.parametrize("spec", SPECS)
def test_what_is_left_out_is_counted(spec: ConvSpec) -> None:
    work = edge_work(with_edges(spec))
    assert work is not None
    lacking = [outside_taps(spec, axis) for axis in (0, 1)]
    every = lacking[0][:, None, :, None] | lacking[1][None, :, None, :]
    assert work.skipped == every.sum()
    assert work.added == every.any(axis=(2, 3)).sum()
    assert work.inputs == work.tiles == 1


def test_a_3x3_kernel_has_eight_edges_and_takes_two_kinds_of_instructions_more() -> None:
    assert len(taps_of_pixels(SPEC)) == 8
    work = edge_work(with_edges(SPEC))
    assert work is not None
    assert (work.skipped, work.added, work.sides, work.cuts) == (92, 28, (2, 2), (1, 1))


def test_padding_at_one_end_makes_three_edges() -> None:
    spec = SPECS[1]
    assert len(taps_of_pixels(spec)) == 3
    work = edge_work(with_edges(spec))
    assert work is not None
    assert work.sides == (1, 1)


def test_nothing_is_saved_without_edges() -> None:
    assert edge_work(SPEC) is None


def test_the_cost_model_knows_what_edges_save() -> None:
    config = load_config("vtaq-1x16x16")
    deep = replace(SPEC, in_blocks=4, out_blocks=4)
    saved = conv.tiling(deep, config).cycles - conv.tiling(with_edges(deep), config).cycles
    assert 300 < saved < 92 * 16
    shallow = replace(SPEC, groups=4)
    assert conv.tiling(shallow, config).cycles < conv.tiling(with_edges(shallow), config).cycles
