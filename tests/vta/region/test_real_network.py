# SPDX-License-Identifier: Apache-2.0
"""vta/region/real_network.py: float networks are folded for a device of bfloat16, quantized ones
left."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.compiler import compile
from loadstone.frontend import onnx
from loadstone.frontend.rewrites import canonical
from loadstone.relax.compat import bindings, op_name
from loadstone.vta.region.real_network import fold_real
from tests.float_models import module
from tests.onnx_builder import Graph, run


def kinds(module: object) -> list[str]:
    return [op_name(value) for _, value in bindings(module["main"])]  # type: ignore[index]


def test_batch_normalizations_join_the_weights() -> None:
    before = module()
    assert "nn.batch_norm" in kinds(before)
    after = fold_real(before)
    assert "nn.batch_norm" not in kinds(after)
    assert dict(before["main"].attrs or {}).keys() <= dict(after["main"].attrs or {}).keys()


def test_a_quantized_network_stays_as_it_is() -> None:
    graph = Graph()
    x = graph.dequantize(graph.input((1, 2, 4, 4), np.int8), 0.1, -3)
    model = graph.save([(graph.quantize(graph.node("Relu", x), 0.1, -3), np.int8)])
    before = canonical(onnx.from_bytes(model, "made by a test"))
    assert fold_real(before) is before


def test_attention_multiplies_on_the_device() -> None:
    """Q K^T by keys that a model has turned, and P V, whose second factor the host turns."""
    graph = Graph()
    heads = [
        graph.node("Transpose", graph.input((1, 6, 2, 8), np.float32), perm=perm)
        for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
    ]
    scores = graph.node("Softmax", graph.node("MatMul", *heads[:2]), axis=-1)
    y = graph.node("MatMul", scores, heads[2])
    model = graph.save([(y, np.float32)], [(1, 2, 6, 8)])
    compiled = compile(canonical(onnx.from_bytes(model, "made by a test")), "vtab-1x8x8")
    products = [row for row in compiled.explain() if row["kind"] == "real_matmul"]
    assert [row["where"] for row in products] == ["vta", "vta"]
    assert not compiled.python_steps
    inputs = [np.random.default_rng(k).normal(size=(1, 1, 6, 2, 8)) for k in range(3)]
    inputs = [array.astype(np.float32) for array in inputs]
    (got,) = compiled.run(*inputs)
    (wanted,) = run(model, [array[0] for array in inputs])
    assert np.abs(got[0] - wanted).max() < 2.0**-6 * np.abs(inputs[2]).max()
