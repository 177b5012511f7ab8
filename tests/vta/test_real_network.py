"""vta/real_network.py: float networks are folded for a device of bfloat16, quantized ones left."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.frontend import onnx
from loadstone.frontend.canonical import canonical
from loadstone.relax.compat import bindings, op_name
from loadstone.vta.real_network import fold_real
from tests.float_models import module
from tests.onnx_builder import Graph


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
