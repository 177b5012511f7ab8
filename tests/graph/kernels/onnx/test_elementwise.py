# SPDX-License-Identifier: Apache-2.0
"""graph/kernels/onnx/elementwise.py against ONNX Runtime, on single-operator models with random
shapes and scales.

Every test counts the elements that differ and demands 0, but for sigmoid and
softmax, whose exp is MLAS's own, and layer normalization, whose sums are rounded there.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
pytest.importorskip("onnx", reason="onnx is not installed")

from loadstone.graph import Quantization
from loadstone.graph.kernels import onnx as ops
from tests.draw import MILLION, Count, Random
from tests.graph.kernels.onnx.runtime import trio
from tests.simulated import HOST_KERNELS

#: This processor multiplies and adds with one rounding: each that has AVX2 or NEON does.
FUSED = len(HOST_KERNELS) > 1


@pytest.mark.parametrize("kind", ["Add", "Sub", "Mul"])
def test_elementwise(kind: str) -> None:
    count = Count()
    for seed in range(150):
        draw = Random(seed)
        q_a, q_b = draw.quantization(), draw.quantization()
        spread = q_a.scale * q_b.scale * 75 if kind == "Mul" else max(q_a.scale, q_b.scale)
        q_out = draw.quantization(draw.near(spread * 2))
        a = draw.int8(draw.int(1, 4), draw.int(1, 64), draw.int(1, 64))
        b = draw.int8(*a.shape) if draw.int(0, 2) else draw.int8(a.shape[-1])
        got = getattr(ops, kind.lower())(a, b, q_a, q_b, q_out)
        count.compare(got, trio(kind, [a, b], [q_a, q_b], q_out))
    count.check(200_000)


@pytest.mark.parametrize("kind", ["Identity", "Relu", "Clip", "LeakyRelu"])
def test_functions_of_one_element(kind: str) -> None:
    """Every int8 value, under many scales."""
    count = Count()
    x = np.arange(-128, 128, dtype=np.int8)
    for seed in range(200):
        draw = Random(seed)
        q_in = draw.quantization()
        q_out = draw.quantization(draw.near(q_in.scale * 2))
        if kind == "LeakyRelu":
            count.compare(
                ops.leaky_relu(x, q_in, q_out, 0.1), trio(kind, [x], [q_in], q_out, alpha=0.1)
            )
            continue
        bounds = {"Identity": (), "Relu": (0.0,), "Clip": (-1.5, 6.0)}[kind]
        limits = ops.activation_range(q_out, *bounds)
        want = trio(kind, [x], [q_in], q_out, *(bounds if kind == "Clip" else ()))
        count.compare(ops.requantize(x, q_in, q_out, limits=limits), want)
    count.check(5_000)


def test_logistic() -> None:
    """Equal where MLAS has fused multiply-adds; without them its polynomial is rounded more often,
    and an element in some hundred thousand falls to the other side of a tie.
    """
    count = Count()
    x = np.arange(-128, 128, dtype=np.int8)
    for seed in range(1000):
        draw = Random(seed)
        q_in = draw.quantization()
        q_out = (
            Quantization(1 / 256, -128) if seed % 2 else draw.quantization(draw.scale(2**-9, 2**-7))
        )
        got, want = ops.logistic(x, q_in, q_out), trio("Sigmoid", [x], [q_in], q_out)
        assert np.abs(got.astype(int) - want).max() <= 1
        count.compare(got, want)
    assert count.total > 50_000
    assert count.wrong <= (0 if FUSED else count.total / 100_000)


def test_softmax_differs_in_a_few_elements_of_a_million() -> None:
    count = Count()
    for seed in range(100):
        draw = Random(seed)
        x = draw.int8(draw.int(100, 1000), draw.int(1, 50))
        q_in, q_out = draw.quantization(), Quantization(1 / 256, -128)
        got, want = ops.softmax(x, q_in, q_out), trio("Softmax", [x], [q_in], q_out, axis=-1)
        assert np.abs(got.astype(int) - want).max() <= 1
        count.compare(got, want)
    assert count.total > MILLION
    assert count.wrong <= count.total / 100_000


def test_layer_norm_differs_in_a_few_elements_of_a_million() -> None:
    count = Count()
    for seed in range(60):
        draw = Random(seed)
        depth = draw.int(2, 200)
        x = draw.int8(draw.int(100, 300), depth)
        gamma, beta = (draw.rng.normal(mean, 0.3, depth).astype(np.float32) for mean in (1, 0))
        q_in, q_out = draw.quantization(), draw.quantization(draw.near(0.03))
        got = ops.layer_norm(x, q_in, q_out, gamma, beta, 1e-5)
        parameters = (gamma.tolist(), beta.tolist())
        want = trio("LayerNormalization", [x], [q_in], q_out, *parameters, axis=-1, epsilon=1e-5)
        assert np.abs(got.astype(int) - want).max() <= 1
        count.compare(got, want)
    assert count.total > MILLION
    assert count.wrong <= count.total / 50_000
