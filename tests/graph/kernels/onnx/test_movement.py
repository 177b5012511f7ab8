# SPDX-License-Identifier: Apache-2.0
"""graph/kernels/onnx/movement.py against ONNX Runtime, on single-operator models with random
shapes and scales.

Every test counts the elements that differ and demands 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
pytest.importorskip("onnx", reason="onnx is not installed")

from loadstone.graph import Quantization
from loadstone.graph.kernels import onnx as ops
from tests.draw import Count, Random
from tests.graph.kernels.onnx.runtime import nchw, nhwc, trio
from tests.onnx_builder import Graph, run


def test_concatenate() -> None:
    count = Count()
    for seed in range(100):
        draw = Random(seed)
        qs = [draw.quantization() for _ in range(3)]
        q_out = draw.quantization(draw.near(qs[0].scale))
        parts = [draw.int8(40, draw.int(1, 60)) for _ in qs]
        count.compare(
            ops.concatenate(parts, qs, q_out, axis=1), trio("Concat", parts, qs, q_out, axis=1)
        )
    count.check(100_000)


MODES = [
    ("asymmetric", "floor", {}),
    ("half_pixel", "round_prefer_ceil", {"half_pixel_centers": True}),
    ("align_corners", "round_prefer_ceil", {"align_corners": True}),
]


def resized(
    mode: str,
    x: NDArray[np.int8],
    size: tuple[int, int],
    q_in: Quantization,
    q_out: Quantization,
    transformation: str,
    nearest: str,
) -> NDArray[Any]:
    graph = Graph()
    real = graph.dequantize(graph.input(nchw(x).shape, np.int8), q_in.scale, q_in.zero_point)
    sizes = graph.constant([x.shape[0], x.shape[3], *size], np.int64)
    options = {
        "mode": mode,
        "coordinate_transformation_mode": transformation,
        "nearest_mode": nearest,
    }
    output = graph.quantize(
        graph.node("Resize", real, "", "", sizes, **options), q_out.scale, q_out.zero_point
    )
    return nhwc(run(graph.save([(output, np.int8)]), [nchw(x)])[0])


@pytest.mark.parametrize(("transformation", "nearest", "flags"), MODES)
def test_resize_nearest_takes_the_same_samples(
    transformation: str, nearest: str, flags: dict[str, bool]
) -> None:
    """A ramp shows which sample is taken: 900 pairs of sizes, up to 30 to 60."""
    q = Quantization(1.0, 0)
    for size in range(1, 31):
        x = np.arange(size, dtype=np.int8)[None, None, :, None]
        for out in range(1, 61, 2):
            got = ops.resize_nearest_neighbor(x, (1, out), **flags)
            np.testing.assert_array_equal(
                got, resized("nearest", x, (1, out), q, q, transformation, nearest)
            )


@pytest.mark.parametrize(("transformation", "nearest", "flags"), MODES)
def test_resize_bilinear(transformation: str, nearest: str, flags: dict[str, bool]) -> None:
    count = Count()
    for seed in range(100):
        draw = Random(seed)
        x = draw.int8(1, draw.int(1, 16), draw.int(1, 16), draw.int(1, 8))
        q_in = draw.quantization()
        q_out = draw.quantization(draw.near(q_in.scale))
        factor = draw.int(1, 4)
        size = (
            (x.shape[1] * factor, x.shape[2] * factor)
            if seed % 2
            else (draw.int(1, 40), draw.int(1, 40))
        )
        count.compare(
            ops.resize_bilinear(x, size, q_in, q_out, **flags),
            resized("linear", x, size, q_in, q_out, transformation, nearest),
        )
    count.check(50_000)
