# SPDX-License-Identifier: Apache-2.0
"""graph/kernels/tflite/pooling.py against LiteRT's reference kernels, on single-operator models
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
from loadstone.graph.kernels.windows import Geometry
from tests.draw import Count, Random
from tests.graph.kernels.tflite.litert import fused_activation, litert, signed_and_unsigned
from tests.padding import same_padding
from tests.tflite_builder import Padding


@pytest.mark.parametrize("kind", ["AVERAGE_POOL_2D", "MAX_POOL_2D"])
@signed_and_unsigned
def test_pools(kind: str, *, unsigned: bool) -> None:
    count = Count()
    for seed in range(150):
        draw = Random(seed)
        kernel, strides = (draw.int(1, 7), draw.int(1, 7)), (draw.int(1, 3), draw.int(1, 3))
        x = draw.int8(draw.int(1, 2), draw.int(7, 30), draw.int(7, 30), draw.int(1, 20))
        q = draw.quantization()
        activation, low, high = fused_activation(draw, q)
        same = draw.rng.random() < 0.5
        padding = same_padding(x.shape[1:3], kernel, strides) if same else (0, 0, 0, 0)
        arguments: dict[str, Any] = {
            "geometry": Geometry(strides, padding),
            "limits": (low, high),
        }
        if kind == "AVERAGE_POOL_2D":
            arguments["unsigned"] = unsigned
        got = getattr(ops, kind.lower())(x, kernel, **arguments)
        options = {
            "filter_height": kernel[0],
            "filter_width": kernel[1],
            "stride_h": strides[0],
            "stride_w": strides[1],
        }
        options |= {
            "padding": Padding.SAME if same else Padding.VALID,
            "fused_activation_function": activation,
        }
        count.compare(got, litert(kind, [x], [q], q, got.shape, unsigned=unsigned, **options))
    count.check(100_000)


@signed_and_unsigned
def test_mean(*, unsigned: bool) -> None:
    count = Count()
    for seed in range(500):
        draw = Random(seed)
        x = draw.int8(draw.int(1, 3), draw.int(1, 20), draw.int(1, 20), draw.int(1, 60))
        axes = [(1, 2), (1, 2), (3,), (1,), (2, 3), (0, 1, 2, 3)][draw.int(0, 5)]
        keep_dims = draw.rng.random() < 0.5
        q_in = draw.quantization()
        q_out = q_in if seed % 2 else draw.quantization(draw.near(q_in.scale))
        got = ops.mean(x, axes, q_in, q_out, keep_dims=keep_dims)
        constants = [np.array(axes, np.int32)]
        count.compare(
            got,
            litert(
                "MEAN",
                [x],
                [q_in],
                q_out,
                got.shape,
                constants,
                unsigned=unsigned,
                keep_dims=keep_dims,
            ),
        )
    count.check(60_000)
