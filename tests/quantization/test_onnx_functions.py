# SPDX-License-Identifier: Apache-2.0
"""quantization/onnx_functions.py: functions of one element survive in a file that ONNX Runtime
runs, whoever wrote them."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone.frontend import onnx as onnx_reader
from loadstone.frontend.rewrites import canonical
from loadstone.quantization.fold import fold
from loadstone.quantization.onnx_functions import FUNCTIONS
from loadstone.relax.compat import relax
from tests.onnx_builder import Graph, run
from tests.quantization.onnx_export import exported

X = np.random.default_rng(0).normal(0, 3, (2, 40)).astype(np.float32)


def _wanted(name: str, x: np.ndarray) -> np.ndarray:
    """In float64, from the definition."""
    from math import erf

    x = x.astype(np.float64)
    return {
        "nn.silu": lambda: x / (1 + np.exp(-x)),
        "nn.gelu": lambda: x * 0.5 * (1 + np.vectorize(erf)(x * 0.5**0.5)),
        "nn.gelu_tanh": lambda: x * 0.5 * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3))),
        "nn.softplus": lambda: np.log1p(np.exp(2 * x)) / 2,
        "square": lambda: x * x,
    }[name]()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_what_its_name_says(name: str) -> None:
    builder, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType(X.shape, "float32"))
    function = relax.op
    for part in name.split("."):
        function = getattr(function, part)
    more = {"beta": 2.0, "threshold": 20.0} if name == "nn.softplus" else {}
    with builder.function("main", [x], attrs={"num_input": 1}):
        with builder.dataflow():
            output = builder.emit_output(builder.emit(function(x, **more)))
        builder.emit_func_output(output)
    (found,) = run(exported(canonical(builder.get())), [X])
    np.testing.assert_allclose(found, _wanted(name, X), rtol=1e-5, atol=1e-6)


def test_the_index_of_the_largest_and_parts_of_a_split() -> None:
    """A Split of ONNX is slices, so that it has a form again."""
    graph = Graph()
    x = graph.input((2, 40), np.float32)
    sizes = graph.constant([10, 30], np.int64)
    first = graph.node("Split", x, sizes, axis=1)
    graph.nodes[-1].output.append("second")
    largest = graph.node("ArgMax", "second", axis=-1, keepdims=0)
    model = graph.save([(first, np.float32), (largest, np.int64)], [(2, 10), (2,)])
    found = exported(fold(canonical(onnx_reader.from_bytes(model, "made by a test"))), 2)
    for got, want in zip(run(found, [X]), run(model, [X]), strict=True):
        np.testing.assert_array_equal(got, want)


def test_a_normalization_of_groups() -> None:
    """Channels of their own factor and summand, in two groups."""
    rng = np.random.default_rng(1)
    x = rng.normal(2, 3, (1, 6, 3, 5)).astype(np.float32)
    gamma, beta = (rng.normal(size=6).astype(np.float32) for _ in range(2))
    builder, source = relax.BlockBuilder(), relax.Var("x", relax.TensorType(x.shape, "float32"))
    call = relax.op.nn.group_norm(
        source, relax.const(gamma), relax.const(beta), 2, 1, [2, 3], epsilon=1e-3
    )
    with builder.function("main", [source], attrs={"num_input": 1}):
        with builder.dataflow():
            output = builder.emit_output(builder.emit(call))
        builder.emit_func_output(output)
    (found,) = run(exported(canonical(builder.get())), [x])
    rows = x.astype(np.float64).reshape(2, -1)
    normal = (rows - rows.mean(1)[:, None]) / np.sqrt(rows.var(1)[:, None] + 1e-3)
    wanted = normal.reshape(6, 15) * gamma[:, None] + beta[:, None]
    np.testing.assert_allclose(found.reshape(6, 15), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("axes", "keep"), [([2, 3], True), ([-1], False), (None, False)])
def test_a_variance(axes: list[int] | None, keep: bool) -> None:
    """InstanceNormalization and GroupNormalization of ONNX are read as means and variances."""
    x = np.random.default_rng(2).normal(30, 3, (2, 6, 3, 5)).astype(np.float32)
    builder, source = relax.BlockBuilder(), relax.Var("x", relax.TensorType(x.shape, "float32"))
    with builder.function("main", [source], attrs={"num_input": 1}):
        with builder.dataflow():
            call = relax.op.variance(source, axes, keep)
            output = builder.emit_output(builder.emit(call))
        builder.emit_func_output(output)
    (found,) = run(exported(canonical(builder.get())), [x])
    wanted = x.astype(np.float64).var(axis=None if axes is None else tuple(axes), keepdims=keep)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
