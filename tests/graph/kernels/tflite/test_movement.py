# SPDX-License-Identifier: Apache-2.0
"""graph/kernels/tflite/movement.py against LiteRT's reference kernels, on single-operator models
with random shapes and scales.

Every test counts the elements that differ and demands 0. A third of the scales are powers of two:
ties, where the roundings part, are rare with any others.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")

from loadstone.graph.kernels import tflite as ops
from tests.draw import Count, Random
from tests.graph.kernels.tflite.litert import litert, quantized, signed_and_unsigned
from tests.tflite_builder import Graph, run


def test_concatenation_of_int8_moves_bytes() -> None:
    draw = Random(1)
    q = draw.quantization()
    parts = [draw.int8(2, 5, 7, n) for n in (1, 16, 5)]
    want = litert("CONCATENATION", parts, [q] * 3, q, (2, 5, 7, 22), axis=-1)
    np.testing.assert_array_equal(ops.concatenate(parts, [q] * 3, q), want)


def test_concatenation_of_uint8_rescales() -> None:
    count = Count()
    for seed in range(200):
        draw = Random(seed)
        qs = [draw.quantization() for _ in range(3)]
        q_out = qs[0] if seed % 2 else draw.quantization(draw.near(qs[1].scale))
        parts = [draw.int8(40, 16) for _ in qs]
        want = litert("CONCATENATION", parts, qs, q_out, (40, 48), unsigned=True, axis=1)
        count.compare(ops.concatenate(parts, qs, q_out, axis=1), want)
    count.check(200_000)


@pytest.mark.parametrize("kind", ["RESIZE_NEAREST_NEIGHBOR", "RESIZE_BILINEAR"])
@signed_and_unsigned
def test_resize(kind: str, *, unsigned: bool) -> None:
    count = Count()
    for seed in range(200):
        draw = Random(seed)
        x = draw.int8(1, draw.int(1, 20), draw.int(1, 20), draw.int(1, 8))
        size = (draw.int(1, 50), draw.int(1, 50))
        align_corners, half_pixel_centers = [(False, False), (True, False), (False, True)][seed % 3]
        q = draw.quantization()
        options: dict[str, Any] = {
            "align_corners": align_corners,
            "half_pixel_centers": half_pixel_centers,
        }
        rule = {"unsigned": unsigned} if kind == "RESIZE_BILINEAR" else {}
        got = getattr(ops, kind.lower())(x, size, **options, **rule)
        count.compare(
            got,
            litert(
                kind,
                [x],
                [q],
                q,
                got.shape,
                [np.array(size, np.int32)],
                unsigned=unsigned,
                **options,
            ),
        )
    count.check(300_000)


@pytest.mark.parametrize("kind", ["PAD", "PADV2"])
def test_pad(kind: str) -> None:
    draw = Random(2)
    x, q = draw.int8(2, 5, 6, 3), draw.quantization()
    pads = np.array([[0, 1], [2, 0], [1, 3], [0, 2]], np.int32)
    value = q.zero_point if kind == "PAD" else 77
    got = ops.pad(x, pads[:, 0].tolist(), pads[:, 1].tolist(), value)
    graph = Graph()
    source, output = quantized(graph, x.shape, q), quantized(graph, got.shape, q, is_input=False)
    filler = (
        [graph.constant(np.array([value], np.int8), q.scale, q.zero_point)]
        if kind == "PADV2"
        else []
    )
    graph.operator(kind, [source, graph.constant(pads), *filler], [output])
    np.testing.assert_array_equal(got, run(graph.save([output]), [x])[0])
