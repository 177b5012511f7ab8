# SPDX-License-Identifier: Apache-2.0
"""graph/kernels/tflite/functions.py against LiteRT's reference kernels, on single-operator models
with random shapes and scales.

Every test counts the elements that differ and demands 0. A third of the scales are powers of two:
ties, where the roundings part, are rare with any others.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")

from loadstone.graph import Quantization
from loadstone.graph.kernels import tflite as ops
from tests.draw import Count, Random
from tests.graph.kernels.tflite.litert import litert, signed_and_unsigned


@pytest.mark.parametrize(
    "kind", ["QUANTIZE", "RELU", "RELU6", "RELU_N1_TO_1", "LEAKY_RELU", "LOGISTIC", "HARD_SWISH"]
)
@signed_and_unsigned
def test_functions_of_one_element(kind: str, *, unsigned: bool) -> None:
    """Every int8 value, under many scales: exhaustive where the operator has a table of 256
    values."""
    count = Count()
    x = np.arange(-128, 128, dtype=np.int8)
    bounds = {
        "QUANTIZE": (None, None),
        "RELU": (0.0, None),
        "RELU6": (0.0, 6.0),
        "RELU_N1_TO_1": (-1.0, 1.0),
    }
    for seed in range(300):
        draw = Random(seed)
        q_in = draw.quantization()
        q_out = draw.quantization(draw.near(q_in.scale * 2))
        options: dict[str, Any] = {}
        if kind == "LOGISTIC":
            q_out = Quantization(1 / 256, -128)
            got = ops.logistic(x, q_in)
        elif kind == "HARD_SWISH":
            got = ops.hard_swish(x, q_in, q_out)
        elif kind == "LEAKY_RELU":
            options["alpha"] = float(np.float32(draw.rng.uniform(-0.5, 1.5)))
            got = ops.leaky_relu(x, q_in, q_out, options["alpha"])
        else:
            low, high = ops.activation_range(q_out, *bounds[kind])
            got = ops.requantize(x, q_in, q_out, limits=(low, high))
        count.compare(got, litert(kind, [x], [q_in], q_out, x.shape, unsigned=unsigned, **options))
    count.check(5_000)


@signed_and_unsigned
def test_softmax(*, unsigned: bool) -> None:
    count = Count()
    for seed in range(150):
        draw = Random(seed)
        x = draw.int8(draw.int(1, 200), draw.int(1, 40 if seed % 10 else 500))
        q_in, beta = (
            Quantization(draw.scale(2**-9, 1), draw.int(-128, 127)),
            float(np.float32(draw.rng.choice([1.0, 0.5, 2.0]))),
        )
        want = litert(
            "SOFTMAX",
            [x],
            [q_in],
            Quantization(1 / 256, -128),
            x.shape,
            unsigned=unsigned,
            beta=beta,
        )
        count.compare(ops.softmax(x, q_in, beta), want)
    count.check(200_000)
