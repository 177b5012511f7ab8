# SPDX-License-Identifier: Apache-2.0
"""float_sums.py: two integers only where float32 cannot tell them apart; exact fractions say so."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")

from tests import onnx_builder
from tests.fuzz.float_sums import integers
from tests.onnx_builder import Graph

CHANNELS = 1000
SCALES = {"x": np.float32(0.0123), "w": np.float32(0.0037), "y": np.float32(0.0005)}


def product(finer: float | None = None, kind: str = "MatMul") -> bytes:
    """x (1, 40) by weights (40, 1000), quantized; finer: and once more by a smaller step."""
    rng = np.random.default_rng(5)
    graph = Graph()
    x = graph.dequantize(graph.input((1, 40), np.int8), float(SCALES["x"]), 3)
    weights = graph.constant(rng.integers(-128, 128, (40, CHANNELS)), np.int8)
    y = graph.node(kind, x, graph.dequantize(weights, float(SCALES["w"]), 0))
    q = graph.quantize(y, float(SCALES["y"]), 0, np.int16)
    if finer is not None:
        q = graph.quantize(graph.dequantize(q, float(SCALES["y"]), 0, np.int16), finer, 0, np.int16)
    return graph.save([(q, np.int16)], opset=21, ir=10)


X = np.random.default_rng(6).integers(-128, 128, (1, 40)).astype(np.int8)


def exact_steps() -> list[Fraction]:
    """The real numbers of the file in steps of its output, without any rounding."""
    weights = np.random.default_rng(5).integers(-128, 128, (40, CHANNELS))
    sums = (X.astype(np.int64) - 3) @ weights
    step = (
        Fraction(float(SCALES["x"])) * Fraction(float(SCALES["w"])) / Fraction(float(SCALES["y"]))
    )
    return [int(total) * step for total in sums.reshape(-1)]


def test_the_exact_integer_and_onnx_runtimes_lie_between_the_limits() -> None:
    ((low, high),) = integers(product(), [X]) or []
    exact = np.array([round(steps) for steps in exact_steps()])  # half to even, as ONNX says
    (theirs,) = onnx_builder.run(product(), [X])
    for found in (exact, theirs.reshape(-1)):
        assert np.all((low.reshape(-1) <= found) & (found <= high.reshape(-1)))
    assert np.count_nonzero(high > low) < CHANNELS // 8


def test_two_integers_are_possible_only_near_a_tie() -> None:
    """The exact number is no further from a tie than the bound, which is far below a step."""
    ((low, high),) = integers(product(), [X]) or []
    terms = np.abs(X.astype(np.int64) - 3) @ np.full((40, CHANNELS), 128)
    step = float(SCALES["x"]) * float(SCALES["w"]) / float(SCALES["y"])
    bound = 50 * 2.0**-24 * terms.reshape(-1) * step
    assert bound.max() < 0.2
    for steps, one, other, most in zip(
        exact_steps(), low.reshape(-1), high.reshape(-1), bound, strict=True
    ):
        if one != other:
            assert other == one + 1
            assert abs(steps - Fraction(one + other) / 2) <= most


def test_a_finer_step_behind_it_makes_more_of_one() -> None:
    ((low, high),) = integers(product(), [X]) or []
    ((finer_low, finer_high),) = integers(product(float(SCALES["y"]) / 3), [X]) or []
    two = high > low
    assert two.any()
    assert np.all((finer_high - finer_low)[two & (np.abs(high) < 2**13)] >= 3)
    assert not (finer_high - finer_low)[~two].any()


def test_what_is_no_sum_has_no_limits() -> None:
    graph = Graph()
    x = graph.dequantize(graph.input((1, 4), np.int8), 0.1, 0)
    file = graph.save([(graph.quantize(graph.node("Sin", x), 0.01, 0), np.int8)])
    assert integers(file, [np.zeros((1, 4), np.int8)]) is None


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        *[(kind, {}) for kind in ("Sigmoid", "Tanh", "HardSigmoid", "HardSwish", "Softmax")],
        ("LeakyRelu", {"alpha": 0.1}),
    ],
)
def test_functions_are_as_near_as_a_library_computes_them(
    kind: str, more: dict[str, float]
) -> None:
    """And no result a thousandth beside them is."""
    graph = Graph()
    x = graph.dequantize(graph.input((1, 256), np.int8), 0.05, 3)
    model = graph.save([(graph.node(kind, x, **more), np.float32)])
    inputs = [np.arange(-128, 128).astype(np.int8)[None]]
    ((low, high),) = integers(model, inputs) or []
    (found,) = onnx_builder.run(model, inputs)
    assert np.all((low <= found) & (found <= high))
    assert np.max(high - low) < 1e-5
