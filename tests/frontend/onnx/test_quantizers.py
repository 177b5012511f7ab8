# SPDX-License-Identifier: Apache-2.0
"""frontend/onnx/quantizers.py: few bits, blocks, scales of 0 and com.microsoft's forms mean what
ONNX Runtime makes of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")

from loadstone.errors import UnsupportedError
from loadstone.graph.reference import run as run_graph
from tests.draw import Random
from tests.frontend.onnx.models import kinds, refusal
from tests.imported import check_same, onnx_graph
from tests.onnx_builder import Graph, run, session


def dense(levels: Any, scale: Any, zero: Any, out: float = 0.5, **node: Any) -> tuple[bytes, Any]:
    """A product of int8 activations with weights (12, 8), and an input for it."""
    graph = Graph()
    x = graph.dequantize(graph.input((2, 12), np.int8), 0.05, 3)
    constants = [graph.constant(np.asarray(c)) for c in (levels, scale, zero)]
    weights = graph.node("DequantizeLinear", *constants, **node)
    y = graph.quantize(graph.node("MatMul", x, weights), out, -4)
    model = graph.save([(y, np.int8)], [(2, 8)], opset=21, ir=10)
    return model, Random(4).int8(2, 12)


def few(kind: int, numbers: Any) -> Any:
    return np.asarray(numbers).astype(onnx.helper.tensor_dtype_to_np_dtype(kind))


@pytest.mark.parametrize("kind", [onnx.TensorProto.INT4, onnx.TensorProto.UINT4])
@pytest.mark.parametrize("many", [False, True], ids=["one scale", "a scale per column"])
def test_weights_of_four_bits_are_integers_of_the_device(kind: int, *, many: bool) -> None:
    low = -8 if kind == onnx.TensorProto.INT4 else 0
    levels = few(kind, Random(1).rng.integers(low, low + 16, (12, 8)))
    scale = np.full(8, 0.25, np.float32) if many else np.float32(0.25)
    zero = few(kind, np.full(8, low + 8) if many else low + 8)
    model, data = dense(levels, scale, zero, 0.5, axis=1)
    made = onnx_graph(model)
    assert kinds(made) == ["dense"]
    check_same(made, [data], run(model, [data]))


@pytest.mark.parametrize("kind", [onnx.TensorProto.INT4, onnx.TensorProto.INT8])
def test_blocks_of_weights_are_float(kind: int) -> None:
    levels = few(kind, Random(1).rng.integers(-8, 8, (12, 8)))
    scale = (Random(2).rng.integers(1, 9, (3, 8)) / 64).astype(np.float32)
    zero = few(kind, Random(2).rng.integers(-2, 3, (3, 8)))
    model, data = dense(levels, scale, zero, 0.05, axis=0, block_size=4)
    got = run_graph(onnx_graph(model), [data])[0].astype(int)
    assert np.abs(got - run(model, [data])[0]).max() <= 1


def test_a_column_of_scale_zero_is_zeros() -> None:
    levels = Random(1).rng.integers(-90, 90, (12, 8)).astype(np.int8)
    scale = np.array([0.1, 0, 0.3, 0.1, 0, 0.2, 0.1, 0.1], np.float32)
    model, data = dense(levels, scale, np.zeros(8, np.int8), axis=1)
    made = onnx_graph(model)
    assert kinds(made) == ["dense"]
    check_same(made, [data], run(model, [data]))


def test_the_quantizers_of_com_microsoft_are_the_standards() -> None:
    graph, data = Graph(), (Random(4).int8(2, 12) / 16).astype(np.float32)
    parameters = graph.constant(0.05, np.float32), graph.constant(3, np.int8)
    x = graph.input((2, 12), np.float32)
    for kind in ("QuantizeLinear", "DequantizeLinear"):
        x = graph.node(kind, x, *parameters, domain="com.microsoft")
    scales = graph.constant(np.full(8, 0.25), np.float32), graph.constant(np.zeros(8), np.int8)
    levels = graph.constant(Random(1).rng.integers(-90, 90, (12, 8)).astype(np.int8))
    weights = graph.node("DequantizeLinear", levels, *scales, axis=1, domain="com.microsoft")
    y = graph.quantize(graph.node("MatMul", x, weights), 0.5, -4)
    model = graph.save([(y, np.int8)], [(2, 8)])
    made = onnx_graph(model)
    assert "dense" in kinds(made)
    check_same(made, [data], run(model, [data]))


def test_a_type_that_the_node_says() -> None:
    graph, data = Graph(), (Random(4).int8(2, 12) / 16).astype(np.float32)
    scale = graph.constant(0.05, np.float32)
    y = graph.node(
        "QuantizeLinear",
        graph.input((2, 12), np.float32),
        scale,
        output_dtype=onnx.TensorProto.INT8,
    )
    model = graph.save([(y, np.int8)], [(2, 12)], opset=21, ir=10)
    check_same(onnx_graph(model), [data], run(model, [data]))


def test_the_zero_of_few_bits_says_where_a_quantizer_saturates() -> None:
    """Weights are widened; a QuantizeLinear that reads their zero point would then reach 127."""
    graph = Graph()
    scale, zero = graph.constant(np.float32(0.25)), graph.constant(few(onnx.TensorProto.INT4, 0))
    x = graph.node("QuantizeLinear", graph.input((2, 12), np.float32), scale, zero)
    x = graph.node("DequantizeLinear", x, scale, zero)
    levels = graph.constant(few(onnx.TensorProto.INT4, Random(1).rng.integers(-8, 8, (12, 8))))
    y = graph.node("MatMul", x, graph.node("DequantizeLinear", levels, scale, zero))
    text = refusal(graph.save([(y, np.float32)], [(2, 8)], opset=21, ir=10), UnsupportedError)
    assert 'QuantizeLinear (node "", output "n0"): tensor "c1" is int4, and only' in text


def test_few_bits_that_others_read_are_the_same_numbers() -> None:
    graph = Graph()
    x, scale = graph.input((2, 12), np.float32), graph.constant(np.full(8, 0.25, np.float32))
    levels = graph.constant(few(onnx.TensorProto.INT4, Random(1).rng.integers(-8, 8, (12, 8))))
    graph.inputs.append(onnx.helper.make_tensor_value_info(levels, onnx.TensorProto.INT4, [12, 8]))
    weights = [graph.node("DequantizeLinear", levels, scale, axis=1) for _ in range(2)]
    weights.append(graph.node("Cast", levels, to=onnx.TensorProto.FLOAT))
    sums = [graph.node("MatMul", x, w) for w in weights]
    model = graph.save([(y, np.float32) for y in sums], [(2, 8)] * 3, opset=21, ir=10)
    data = np.random.default_rng(5).normal(size=(2, 12)).astype(np.float32)
    opened = session(model)
    for got, want in zip(
        run_graph(onnx_graph(model), [data]), opened.run(None, {"in0": data}), strict=True
    ):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("scales", "zeros", "block", "said"),
    [
        ((3, 8), np.int8, 4, "its scales are (3, 8), not (4, 8)"),
        ((4, 1), np.int8, 4, "its scales are (4, 1), not (4, 8)"),
        ((4, 8), np.uint8, 4, "its zero points are uint8, not int8"),
        ((4, 8), np.int8, -4, "it has blocks of -4 along axis 0 of (16, 8)"),
    ],
)
def test_blocks_of_another_form_are_refused(
    scales: tuple[int, ...], zeros: Any, block: int, said: str
) -> None:
    graph = Graph()
    constants = [
        graph.constant(np.zeros((16, 8), np.int8)),
        graph.constant(np.ones(scales, np.float32)),
        graph.constant(np.zeros(scales, zeros)),
    ]
    weights = graph.node("DequantizeLinear", *constants, axis=0, block_size=block)
    y = graph.node("MatMul", graph.input((2, 16), np.float32), weights)
    text = refusal(graph.save([(y, np.float32)], [(2, 8)], opset=21, ir=10), UnsupportedError)
    assert (
        text
        == f'm.onnx: DequantizeLinear (node "", output "n0"): {said}: quantize the float model anew'
    )


def test_blocks_of_floats_and_scales_that_are_no_number_are_refused() -> None:
    """Their fractions would be cut off."""
    for levels, scale, said in (
        (few(onnx.TensorProto.FLOAT8E4M3FN, np.full((16, 8), 0.5)), 1, "of float8_e4m3fn, not of"),
        (np.ones((16, 8), np.int8), np.inf, "it has the scale inf"),
    ):
        graph = Graph()
        scales = graph.constant(np.full((4, 8), scale, np.float32))
        weights = graph.node(
            "DequantizeLinear", graph.constant(levels), scales, axis=0, block_size=4
        )
        y = graph.node("MatMul", graph.input((2, 16), np.float32), weights)
        model = graph.save([(y, np.float32)], [(2, 8)], opset=21, ir=10)
        assert said in refusal(model, UnsupportedError)


def test_blocks_have_the_type_that_the_node_says() -> None:
    graph = Graph()
    levels = graph.constant(Random(1).rng.integers(-90, 90, (16, 8)).astype(np.int8))
    scales = graph.constant((Random(2).rng.integers(1, 9, (4, 8)) / 64).astype(np.float16))
    said = {"axis": 0, "block_size": 4, "output_dtype": onnx.TensorProto.FLOAT}
    weights = graph.node("DequantizeLinear", levels, scales, **said)
    y = graph.node("MatMul", graph.input((2, 16), np.float32), weights)
    model = graph.save([(y, np.float32)], [(2, 8)], opset=23, ir=11)
    data = np.random.default_rng(5).normal(size=(2, 16)).astype(np.float32)
    want = run(model, [data])[0]
    np.testing.assert_allclose(run_graph(onnx_graph(model), [data])[0], want, rtol=1e-4, atol=1e-4)


def product(
    bits: int, rows: int, size: int, zeros: str = "", groups: bool = False, **said: Any
) -> tuple[bytes, Any]:
    """MatMulNBits with random weights for six columns, and an input for it."""
    draw, graph = np.random.default_rng(5), Graph()
    blocks = -(-rows // size)
    x = graph.input((2, rows), np.float32)
    packed = draw.integers(0, 256, (6, blocks, size * bits // 8)).astype(np.uint8)
    scales = (draw.integers(1, 9, 6 * blocks) / 64).astype(np.float32)
    inputs = [graph.constant(packed), graph.constant(scales), "", ""]
    if zeros == "packed":
        spread = draw.integers(0, 256, 6 * -(-blocks * bits // 8))
        inputs[2] = graph.constant(spread.astype(np.uint8))
    elif zeros == "float":
        inputs[2] = graph.constant(draw.uniform(0, 9, 6 * blocks).astype(np.float32))
    if groups:
        inputs[3] = graph.constant(draw.permutation(np.arange(rows) // size).astype(np.int32))
    given = {"K": rows, "N": 6, "bits": bits, "block_size": size, **said}
    y = graph.node("MatMulNBits", x, *inputs, domain="com.microsoft", **given)
    data = draw.normal(size=(2, rows)).astype(np.float32)
    return graph.save([(y, np.float32)], [(2, 6)]), data


@pytest.mark.parametrize(
    ("bits", "rows", "size", "zeros"),
    [
        *((4, rows, 16, zeros) for rows in (32, 40) for zeros in ("", "packed", "float")),
        *((2, 90, 32, zeros) for zeros in ("", "packed", "float")),
        *((8, 65, 16, zeros) for zeros in ("", "packed")),
    ],
)
def test_a_product_with_weights_of_n_bits(bits: int, rows: int, size: int, zeros: str) -> None:
    model, data = product(bits, rows, size, zeros)
    want = run(model, [data])[0]
    np.testing.assert_allclose(run_graph(onnx_graph(model), [data])[0], want, rtol=1e-4, atol=1e-3)


def test_a_product_whose_rows_have_the_scales_of_other_blocks_is_refused() -> None:
    """ONNX Runtime itself takes other zero points there than the standard's words say."""
    text = refusal(product(4, 48, 16, groups=True)[0], UnsupportedError)
    assert "it has g_idx, and only blocks of rows in their order are read: quantize it" in text


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"bits": 3}, "it has 3 bits, and only 2, 4, 8 are read"),
        ({"N": 5}, "its weights are 144 entries, not 120"),
        ({"K": 24}, "its weights are 144 entries, not 96"),
        ({"block_size": 32}, "its weights are 144 entries, not 192"),
        ({"block_size": 0}, "N is 6, K 40 and block_size 0, and the least are 1, 1 and 8"),
        ({"weight_prepacked": 1}, "its attribute weight_prepacked is 1, and only 0 is imported"),
    ],
)
def test_a_product_of_another_form_is_refused(given: dict[str, int], said: str) -> None:
    model, _ = product(4, 40, 16)
    changed = onnx.load_from_string(model)
    kept = [a for a in changed.graph.node[0].attribute if a.name not in given]
    del changed.graph.node[0].attribute[:]
    new = [onnx.helper.make_attribute(key, value) for key, value in given.items()]
    changed.graph.node[0].attribute.extend([*kept, *new])
    text = refusal(changed.SerializeToString(), UnsupportedError)
    assert f'm.onnx: MatMulNBits (node "", output "n0"): {said}: ' in text
