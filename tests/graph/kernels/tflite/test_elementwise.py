# SPDX-License-Identifier: Apache-2.0
"""graph/kernels/tflite/elementwise.py against LiteRT's reference kernels, on single-operator models
with random shapes and scales.

Every test counts the elements that differ and demands 0. A third of the scales are powers of two:
ties, where the roundings part, are rare with any others.
"""

from __future__ import annotations

import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")

from loadstone.graph.kernels import tflite as ops
from tests.draw import Count, Random
from tests.graph.kernels.tflite.litert import fused_activation, litert, signed_and_unsigned


@pytest.mark.parametrize("kind", ["ADD", "SUB", "MUL"])
@signed_and_unsigned
def test_elementwise(kind: str, *, unsigned: bool) -> None:
    count = Count()
    for seed in range(150):
        draw = Random(seed)
        q_a, q_b = draw.quantization(), draw.quantization()
        spread = q_a.scale * q_b.scale * 75 if kind == "MUL" else max(q_a.scale, q_b.scale)
        q_out = draw.quantization(draw.near(spread * 2))
        shape = (draw.int(1, 2), draw.int(1, 32), draw.int(1, 32), draw.int(1, 24))
        other = [shape, shape, shape[-1:], (1, 1, 1, 1)][draw.int(0, 3)]
        a, b = draw.int8(*shape), draw.int8(*other)
        activation, low, high = fused_activation(draw, q_out)
        want = litert(
            kind,
            [a, b],
            [q_a, q_b],
            q_out,
            shape,
            unsigned=unsigned,
            fused_activation_function=activation,
        )
        count.compare(getattr(ops, kind.lower())(a, b, q_a, q_b, q_out, limits=(low, high)), want)
    count.check(300_000)
