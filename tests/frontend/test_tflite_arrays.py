# SPDX-License-Identifier: Apache-2.0
"""frontend/tflite_arrays.py: places that LiteRT finds are those that are taken."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")

from loadstone.errors import UnsupportedError
from tests.draw import Random
from tests.frontend.tflite_models import check, refusal
from tests.repeat import times
from tests.tflite_builder import Graph, Tensor


def test_the_nearest_row_is_litert_s_at_any_size() -> None:
    """Float32 rounds some products of a size and a ratio below the integer that they are."""
    draw, graph, ends = Random(0), Graph(), list[Tensor]()
    inputs = {n: graph.input((1, n, 1, 2), np.float32) for n in (3, 7, 23)}
    for _ in range(times(12, 120)):
        x = inputs[draw.pick([*inputs])]
        size = draw.int(1, 60)
        y = graph.tensor((1, size, 1, 2), np.float32)
        both = draw.pick([(False, False), (True, False), (False, True)])
        options = dict(zip(("align_corners", "half_pixel_centers"), both, strict=True))
        target = graph.constant(np.int32([size, 1]))
        graph.operator("RESIZE_NEAREST_NEIGHBOR", [x, target], [y], **options)
        ends.append(y)
    check(graph, ends, draw)


def test_places_of_several_axes_are_gathered() -> None:
    for seed in range(times(4, 40)):
        draw = Random(seed)
        shape = tuple(draw.int(2, 5) for _ in range(draw.int(1, 4)))
        depth = draw.int(1, len(shape))
        leading = tuple(draw.int(1, 4) for _ in range(draw.int(0, 2)))
        places = np.stack([draw.rng.integers(0, n, leading) for n in shape[:depth]], -1)
        graph = Graph()
        x = graph.input(shape, np.int8, 0.1, 3)
        y = graph.tensor((*leading, *shape[depth:]), np.int8, 0.1, 3)
        graph.operator("GATHER_ND", [x, graph.constant(places.astype(np.int32))], [y])
        check(graph, [y], draw)


def refused(
    kind: str, shape: tuple[int, ...], constant: Any, to: tuple[int, ...], **options: Any
) -> str:
    graph = Graph()
    x, y = graph.input(shape, np.float32), graph.tensor(to, np.float32)
    graph.operator(kind, [x, graph.constant(np.int32(constant))], [y], **options)
    return refusal(graph.save([y]), UnsupportedError)


def test_places_outside_are_refused() -> None:
    said = "its index 4 is outside of axis 0, which has 4 elements"
    assert said in refused("GATHER_ND", (4, 3), [[0], [4]], (2, 3))
    assert said in refused("GATHER", (4, 3), [0, 4], (2, 3), axis=0)
    assert "its index -1 is outside of axis 1" in refused(
        "GATHER", (2, 3), [[0], [-1]], (2, 1), axis=1, batch_dims=1
    )


def test_a_mirror_that_is_too_small_is_refused() -> None:
    text = refused("MIRROR_PAD", (3, 2), [[0, 0], [2, 0]], (3, 4), mode=0)
    assert "it pads axis 1 by 2: a mirror of 2 elements gives 1" in text


def test_parts_that_are_not_the_whole_are_refused() -> None:
    graph = Graph()
    axis, x = graph.constant(np.int32([1])), graph.input((2, 6), np.float32)
    parts = [graph.tensor((2, 2), np.float32) for _ in "ab"]
    graph.operator("SPLIT", [axis, x], parts, num_splits=2)
    text = refusal(graph.save(parts), UnsupportedError)
    assert "its parts of axis 1 are [2, 2], together not 6" in text


@pytest.mark.parametrize("kind", ["ARG_MAX", "ARG_MIN"])
def test_the_first_of_equal_extremes_is_found(kind: str) -> None:
    draw, graph = Random(0), Graph()
    x = graph.input((4, 9), np.int8, 0.1, 0)
    y = graph.tensor((4,), np.int32)
    few = graph.tensor((4, 9), np.int8, 40.0, 0)
    graph.operator("QUANTIZE", [x], [few])
    graph.operator(kind, [few, graph.constant(np.array(1, np.int32))], [y], output_type=2)
    check(graph, [y], draw)
