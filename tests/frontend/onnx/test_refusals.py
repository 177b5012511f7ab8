# SPDX-License-Identifier: Apache-2.0
"""frontend/onnx/importer.py: what cannot be read is refused in one line that names it."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
pytest.importorskip("onnx", reason="onnx is not installed")

import onnx

from loadstone.errors import ModelError, UnsupportedError
from loadstone.frontend.onnx import from_bytes
from tests.frontend.onnx.models import operands, refusal
from tests.onnx_builder import Graph


def test_a_dynamic_recurrent_layer_is_named() -> None:
    graph = Graph()
    x = graph.input((1, 1, 8), np.float32)
    y = graph.node("DynamicQuantizeLSTM", x, domain="com.microsoft")
    text = refusal(graph.save([(y, np.float32)]), UnsupportedError)
    assert "DynamicQuantizeLSTM" in text
    assert "op_types_to_quantize" in text


def test_an_unknown_operator_is_named_with_its_node_and_output() -> None:
    graph = Graph()
    y = graph.node("QLinearReduceMean", graph.input((1, 8), np.int8), domain="com.microsoft")
    text = refusal(graph.save([(y, np.int8)]), UnsupportedError)
    assert (
        f'QLinearReduceMean (node "", output "{y}"): no importer for this operator of com.microsoft'
        in text
    )


def symbolic(axis: int) -> bytes:
    graph = Graph()
    x = graph.input((1, 8, 4), np.float32)
    model = onnx.load_model_from_string(graph.save([(graph.node("Relu", x), np.float32)]))
    model.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = "n"
    return bytes(model.SerializeToString())


def test_a_symbolic_batch_is_one_and_any_other_symbol_is_named() -> None:
    function = from_bytes(symbolic(0), "m.onnx")["main"]
    assert [int(extent) for extent in function.params[0].ty.shape] == [1, 8, 4]
    text = refusal(symbolic(1), UnsupportedError)
    assert "is (1, n, 4), and dimension 1 is open: say its size, --shape in0=1,N,4" in text


def test_scales_per_channel_in_an_old_opset_are_named() -> None:
    graph = Graph()
    x = graph.input((1, 2, 4, 4), np.int8)
    y = graph.dequantize(x, np.array([0.1, 0.2]), np.array([0, 0]))
    assert "scales per channel need opset 13, the model has 11" in refusal(
        graph.save([(y, np.float32)], opset=11), UnsupportedError
    )


def test_scales_that_are_computed_are_named() -> None:
    graph = Graph()
    x, scale = graph.input((1, 8), np.int8), graph.input((), np.float32)
    zero = graph.constant(0, np.int8)
    y = graph.node(
        "QLinearMatMul",
        x,
        scale,
        zero,
        graph.constant(np.ones((8, 2), np.int8)),
        *operands(graph, 0.1, 0),
        *operands(graph, 0.1, 0),
    )
    assert "scales and zero points must be constants" in refusal(
        graph.save([(y, np.int8)]), UnsupportedError
    )


@pytest.mark.parametrize("data", [b"", b"not a model", bytes(range(256))])
def test_other_files_are_named(data: bytes) -> None:
    refusal(data)


def test_a_graph_that_onnx_itself_refuses_is_named() -> None:
    model = onnx.load_model_from_string(symbolic(0))
    model.graph.node[0].input[0] = "nowhere"
    assert "damaged ONNX file" in refusal(bytes(model.SerializeToString()))


@pytest.mark.parametrize("scale", [float("inf"), float("nan"), 0.0, -1.0, 1e30])
@pytest.mark.parametrize("role", ["QuantizeLinear", "DequantizeLinear", "QLinearConv"])
def test_what_is_no_scale_is_refused_with_the_tensors_name(role: str, scale: float) -> None:
    """ONNX Runtime takes them all, and makes something up."""
    if role == "QLinearConv" and scale == 0:
        pytest.skip("weights of scale 0 are zeros: test_quantizers.py")
    graph = Graph()
    x = graph.input((1, 3, 4, 4), np.int8)
    scales = {
        name: scale if name == role else 0.1
        for name in ("QuantizeLinear", "DequantizeLinear", "QLinearConv")
    }
    if role == "QLinearConv":
        weights = graph.constant(np.ones((2, 3, 1, 1), np.int8))
        zero = graph.constant(0, np.int8)
        one, bad = graph.constant(0.1, np.float32), graph.constant([0.1, scale], np.float32)
        zeros = graph.constant([0, 0], np.int8)
        y = graph.node(role, x, one, zero, weights, bad, zeros, one, zero)
        model, tensor = graph.save([(y, np.int8)], [(1, 2, 4, 4)]), weights
    else:
        real = graph.node("Relu", graph.dequantize(x, scales["DequantizeLinear"], 0))
        model = graph.save(
            [(graph.quantize(real, scales["QuantizeLinear"], 0), np.int8)], [(1, 3, 4, 4)]
        )
        tensor = real if role == "QuantizeLinear" else x
    with pytest.raises(ModelError) as caught:
        from_bytes(model, "m.onnx")
    text = str(caught.value)
    assert text.startswith("m.onnx: ")
    assert f'tensor "{tensor}" has the scale {scale:g}' in text
    assert "\n" not in text


def test_a_bias_with_a_zero_point_is_refused() -> None:
    graph = Graph()
    x = graph.dequantize(graph.input((1, 3, 4, 4), np.int8), 0.1, 0)
    weights = graph.dequantize(graph.constant(np.ones((2, 3, 1, 1), np.int8)), 0.1, 0)
    bias = graph.dequantize(graph.constant(np.ones(2, np.int32)), 0.01, 5, np.int32)
    model = graph.save(
        [(graph.quantize(graph.node("Conv", x, weights, bias), 0.1, 0), np.int8)], [(1, 2, 4, 4)]
    )
    with pytest.raises(ModelError, match="is int32 with a zero point, which must be 0 there"):
        from_bytes(model, "m.onnx")


def test_a_number_of_rows_that_nobody_knows_is_refused_with_what_can_be_cut() -> None:
    graph = Graph()
    boxes, scores = graph.input((1, 8, 4), np.float32), graph.input((1, 2, 8), np.float32)
    chosen = graph.node("NonMaxSuppression", boxes, scores, graph.constant([3], np.int64))
    y = graph.node("Gather", chosen, graph.constant([2], np.int64), axis=1)
    text = refusal(graph.save([(y, np.int64)]), UnsupportedError)
    assert f'NonMaxSuppression (node "", output "{chosen}"): how many boxes' in text
    assert f"--outputs {chosen}, or before it, --outputs {boxes} --outputs {scores}" in text
