"""frontend/onnx.py and qoperator.py: QDQ and QLinear operators equal ONNX Runtime; what cannot be
imported is refused in one line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
pytest.importorskip("onnx", reason="onnx is not installed")

import onnx

from loadstone import graph as g
from loadstone.errors import ModelError, UnsupportedError
from loadstone.frontend.onnx import from_bytes
from loadstone.graph.reference import run as run_graph
from loadstone.numerics import Rounding
from tests.draw import Random
from tests.imported import check_same, onnx_graph
from tests.onnx_builder import Graph, run

Array = NDArray[Any]


def operands(graph: Graph, scale: float, zero_point: int, dtype: Any = np.int8) -> tuple[str, str]:
    return graph.constant(scale, np.float32), graph.constant(zero_point, dtype)


def kinds(made: g.Graph) -> list[str]:
    return [operator.kind for operator in made.operators]


# --------------------------------------------------------------------------------------------------
# QLinear operators: ONNX Runtime's integer kernels are the meaning, to the last bit
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unsigned", [False, True], ids=["int8", "uint8"])
@pytest.mark.parametrize("seed", range(6))
def test_qlinear_conv_equals_onnx_runtime(seed: int, *, unsigned: bool) -> None:
    """Also in opsets that know no QDQ per channel, and in files of IR 3, whose initializers a
    quantizer did not make inputs."""
    draw, graph = Random(seed), Graph()
    dtype = np.uint8 if unsigned else np.int8
    groups = draw.int(1, 3)
    channels, out = groups * draw.int(1, 4), groups * draw.int(1, 4)
    shape = (1, channels, draw.int(6, 12), draw.int(6, 12))
    weights = draw.rng.integers(
        -60, 60, (out, channels // groups, draw.int(1, 3), draw.int(1, 3))
    ).astype(np.int8)
    scales = draw.weight_scales(out) if seed % 2 else draw.weight_scales(1)[0]
    x = graph.input(shape, dtype)
    q_in, q_out = (
        operands(graph, 0.05, 3 + 128 * unsigned, dtype),
        operands(graph, 0.05 * 2.0**-6 * 30, 128 * unsigned - 4, dtype),
    )
    w = (
        graph.constant(weights),
        graph.constant(scales, np.float32),
        graph.constant(np.zeros_like(scales, np.int8)),
    )
    bias = graph.constant(draw.rng.integers(-5000, 5000, out).astype(np.int32))
    y = graph.node(
        "QLinearConv",
        x,
        *q_in,
        *w,
        *q_out,
        bias,
        group=groups,
        strides=[draw.int(1, 2)] * 2,
        pads=[1, 0, 2, 1],
    )
    opset, ir = ((17, 8), (11, 4), (10, 3))[seed // 2]
    model = graph.save([(y, dtype)], opset=opset, ir=ir)
    data = draw.rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype, endpoint=True)
    made = onnx_graph(model)
    conv = next(o for o in made.operators if isinstance(o, g.Conv2D))
    assert conv.rounding is Rounding.FLOAT32
    assert conv.weights.shape == (out, *weights.shape[2:], channels // groups)
    check_same(made, [data], run(model, [data]))


def test_qlinear_matmul_and_the_adding_of_a_constant_become_dense_layers() -> None:
    draw, graph = Random(1), Graph()
    x = graph.input((2, 24), np.int8)
    weights = graph.constant(draw.rng.integers(-60, 60, (24, 10)).astype(np.int8))
    middle, end = operands(graph, 0.4, -7), operands(graph, 0.3, 5)
    y = graph.node(
        "QLinearMatMul", x, *operands(graph, 0.05, 3), weights, *operands(graph, 0.02, 0), *middle
    )
    constant = graph.constant(draw.int8(10))
    z = graph.node(
        "QLinearAdd", y, *middle, constant, *operands(graph, 0.11, 0), *end, domain="com.microsoft"
    )
    model = graph.save([(z, np.int8)])
    made = onnx_graph(model)
    assert kinds(made) == ["dense", "dense"]
    data = draw.int8(2, 24)
    check_same(made, [data], run(model, [data]))


@pytest.mark.parametrize("kind", ["MaxPool", "Reshape", "Transpose", "Flatten"])
def test_operators_on_integers_keep_their_quantization(kind: str) -> None:
    """ONNX defines them on int8 tensors, with no scale in sight: it is the one of the operator
    before."""
    draw, graph = Random(2), Graph()
    x = graph.input((1, 3, 6, 6), np.int8)
    weights = graph.constant(draw.rng.integers(-60, 60, (4, 3, 1, 1)).astype(np.int8))
    q_out = operands(graph, 0.3, -9)
    y = graph.node(
        "QLinearConv", x, *operands(graph, 0.05, 3), weights, *operands(graph, 0.02, 0), *q_out
    )
    arguments: dict[str, tuple[list[str], dict[str, Any]]] = {
        "MaxPool": ([], {"kernel_shape": [2, 2], "strides": [2, 2]}),
        "Reshape": ([graph.constant(np.array([1, 4, 36]))], {}),
        "Transpose": ([], {"perm": [0, 2, 3, 1]}),
        "Flatten": ([], {}),
    }
    more, attributes = arguments[kind]
    model = graph.save([(graph.node(kind, y, *more, **attributes), np.int8)])
    data = draw.int8(1, 3, 6, 6)
    made = onnx_graph(model)
    assert "host" not in kinds(made)
    check_same(made, [data], run(model, [data]))


# --------------------------------------------------------------------------------------------------
# QDQ: float operators between DequantizeLinear and QuantizeLinear
# --------------------------------------------------------------------------------------------------

Build = Callable[[Graph, str], str]


def between(
    build: Build, shape: tuple[int, ...], out_scale: float = 0.07, unsigned: bool = False
) -> tuple[bytes, g.Graph]:
    """quantize(build(dequantize(x))) of an int8 (uint8) input."""
    graph, dtype, offset = Graph(), np.uint8 if unsigned else np.int8, 128 if unsigned else 0
    x = graph.dequantize(graph.input(shape, dtype), 0.05, 3 + offset, dtype)
    y = graph.quantize(build(graph, x), out_scale, offset - 20, dtype)
    model = graph.save([(y, dtype)])
    return model, onnx_graph(model)


CASES: dict[str, tuple[Build, tuple[int, ...], float, list[str]]] = {
    "relu": (lambda b, x: b.node("Relu", x), (1, 3, 4, 4), 0.07, ["requantize"]),
    "clip": (
        lambda b, x: b.node("Clip", x, b.constant(-1.0, np.float32), b.constant(2.0, np.float32)),
        (1, 3, 4, 4),
        0.07,
        ["requantize"],
    ),
    "requantize": (lambda b, x: b.node("Identity", x), (1, 3, 4, 4), 0.07, ["requantize"]),
    "reshape": (
        lambda b, x: b.node("Reshape", x, b.constant(np.array([1, 48]))),
        (1, 3, 4, 4),
        0.05,
        ["reshape", "requantize"],
    ),
    "transpose": (
        lambda b, x: b.node("Transpose", x, perm=[0, 3, 1, 2]),
        (1, 3, 4, 5),
        0.05,
        ["transpose", "requantize"],
    ),
    "max pool": (
        lambda b, x: b.node(
            "MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[0, 1, 1, 0], ceil_mode=1
        ),
        (1, 3, 8, 7),
        0.05,
        ["transpose", "max_pool2d", "requantize", "transpose"],
    ),
    "global max pool": (
        lambda b, x: b.node("GlobalMaxPool", x),
        (1, 3, 8, 7),
        0.05,
        ["transpose", "max_pool2d", "requantize", "reshape"],
    ),
    "pad": (
        lambda b, x: b.node(
            "Pad", x, b.constant(np.array([0, 0, 1, 2, 0, 0, 0, 1])), b.constant(0.0, np.float32)
        ),
        (1, 3, 4, 4),
        0.05,
        ["pad", "requantize"],
    ),
    "slice": (
        lambda b, x: b.node(
            "Slice",
            x,
            b.constant(np.array([1])),
            b.constant(np.array([4])),
            b.constant(np.array([2])),
        ),
        (1, 3, 4, 4),
        0.05,
        ["slice", "requantize"],
    ),
    "sigmoid": (lambda b, x: b.node("Sigmoid", x), (1, 3, 4, 4), 1 / 256, ["lookup"]),
    "leaky relu": (lambda b, x: b.node("LeakyRelu", x, alpha=0.1), (1, 3, 4, 4), 0.04, ["lookup"]),
    "softmax": (lambda b, x: b.node("Softmax", x, axis=-1), (3, 10), 1 / 256, ["softmax"]),
}


@pytest.mark.parametrize("unsigned", [False, True], ids=["int8", "uint8"])
@pytest.mark.parametrize("name", CASES)
def test_single_operators_equal_onnx_runtime(name: str, *, unsigned: bool) -> None:
    build, shape, scale, expected = CASES[name]
    model, made = between(build, shape, scale, unsigned)
    inner = [o.kind for o in made.operators if "uint8" not in (o.input.dtype, o.output.dtype)]
    assert inner == expected
    draw = Random(5)
    dtype = np.uint8 if unsigned else np.int8
    data = draw.rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype, endpoint=True)
    check_same(made, [data], run(model, [data]))


@pytest.mark.parametrize("kind", ["Add", "Sub", "Mul"])
def test_two_tensors(kind: str) -> None:
    draw, graph = Random(3), Graph()
    a, b = (
        graph.dequantize(graph.input((1, 4, 5, 6), np.int8), scale, zero)
        for scale, zero in ((0.05, 3), (0.08, -11))
    )
    y = graph.quantize(graph.node(kind, a, b), 0.09, 4)
    model = graph.save([(y, np.int8)])
    data = [draw.int8(1, 4, 5, 6), draw.int8(1, 4, 5, 6)]
    made = onnx_graph(model)
    assert kinds(made) == [kind.lower()]
    check_same(made, data, run(model, data))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("many", [False, True], ids=["one scale", "a scale per channel"])
def test_weights_that_a_tool_left_in_float_are_quantized(dtype: Any, *, many: bool) -> None:
    """QuantizeLinear of a constant, as quantize_static writes it behind a Reshape of weights; ties
    go to the even number."""
    draw, graph = Random(9), Graph()
    scales, zeros = (np.full(4, 0.25), np.full(4, 3)) if many else (np.float32(0.25), 3)
    weights = graph.constant(draw.rng.integers(-40, 40, (12, 2)) * 0.125, np.float32)
    turned = graph.node("Reshape", weights, graph.constant(np.array([6, 4])))
    parameters = graph.constant(scales, np.float32), graph.constant(zeros, dtype)
    quantized = graph.node("QuantizeLinear", turned, *parameters, axis=1)
    x = graph.input((1, 6), np.int8)
    real = graph.node(
        "MatMul",
        graph.dequantize(x, 0.05, 3),
        graph.node("DequantizeLinear", quantized, *parameters, axis=1),
    )
    model = graph.save([(graph.quantize(real, 0.3, -4), np.int8)])
    made = onnx_graph(model)
    assert kinds(made) == ["dense"]
    data = draw.int8(1, 6)
    check_same(made, [data], run(model, [data]))


def test_an_operator_that_the_importer_writes_in_tensor_ir_comes_along() -> None:
    graph = Graph()
    x = graph.input((1, 2, 4, 5), np.int8)
    padded = graph.node(
        "Pad",
        graph.dequantize(x, 0.1, 2),
        graph.constant(np.array([0, 0, 1, 0, 0, 0, 0, 2])),
        mode="reflect",
    )
    module = from_bytes(graph.save([(graph.quantize(padded, 0.1, 2), np.int8)]), "m.onnx")
    assert sorted(variable.name_hint for variable in module.functions) == ["main", "mirror_pad"]


@pytest.mark.parametrize("scale", [0.3, 0.45], ids=["the same scale", "another scale"])
def test_a_convolution_that_each_reader_quantizes_for_itself(scale: float) -> None:
    """One quantization serves both readers where they agree (quantize_static's DedicatedQDQPair);
    else the float stays on the host."""
    draw, graph = Random(3), Graph()
    x = graph.input((1, 3, 8, 8), np.int8)
    weights = graph.dequantize(
        graph.constant(draw.rng.integers(-60, 60, (4, 3, 1, 1)).astype(np.int8)), 0.02, 0
    )
    y = graph.node("Conv", graph.dequantize(x, 0.05, 3), weights)
    first, second = (graph.dequantize(graph.quantize(y, own, -4), own, -4) for own in (0.3, scale))
    ends = [graph.node("MaxPool", first, kernel_shape=[2, 2]), graph.node("Relu", second)]
    model = graph.save(
        [
            (graph.quantize(end, own, -4), np.int8)
            for end, own in zip(ends, (0.3, scale), strict=True)
        ]
    )
    made = onnx_graph(model)
    assert kinds(made).count("conv2d") == (scale == 0.3)
    assert kinds(made).count("host") == (scale != 0.3)
    if scale == 0.3:
        data = draw.int8(1, 3, 8, 8)
        check_same(made, [data], run(model, [data]))


def test_a_concatenation_of_different_scales_is_requantized_first() -> None:
    draw, graph = Random(4), Graph()
    a, b = (
        graph.dequantize(graph.input((1, 4, 5, 6), np.int8), scale, zero)
        for scale, zero in ((0.05, 3), (0.08, -11))
    )
    y = graph.quantize(graph.node("Concat", a, b, axis=1), 0.08, -11)
    model = graph.save([(y, np.int8)])
    data = [draw.int8(1, 4, 5, 6), draw.int8(1, 4, 5, 6)]
    made = onnx_graph(model)
    assert kinds(made) == ["requantize", "concatenate"]
    joined = made.operators[1]
    assert isinstance(joined, g.Concatenate)
    assert joined.is_copy
    check_same(made, data, run(model, data))


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER", "VALID"])
def test_auto_pad_becomes_numbers(mode: str) -> None:
    draw, graph = Random(6), Graph()
    x = graph.dequantize(graph.input((1, 3, 9, 10), np.int8), 0.05, 3)
    weights = graph.dequantize(
        graph.constant(draw.rng.integers(-60, 60, (4, 3, 4, 3)).astype(np.int8)), 0.01, 0
    )
    y = graph.quantize(graph.node("Conv", x, weights, auto_pad=mode, strides=[2, 2]), 0.2, 0)
    model = graph.save([(y, np.int8)])
    made = onnx_graph(model)
    assert [kind for kind in kinds(made) if kind != "transpose"] == ["conv2d"]
    data = draw.int8(1, 3, 9, 10)
    wanted = run(model, [data])[0]
    got = run_graph(made, [data])[0]
    assert (
        np.abs(got.astype(int) - wanted.astype(int)).max() <= 1
    )  # a float convolution: one unit at ties
    assert np.mean(got != wanted) < 0.01


def test_batch_normalization_becomes_an_exact_convolution() -> None:
    draw, graph = Random(7), Graph()
    channels = 24
    x = graph.dequantize(graph.input((1, channels, 4, 4), np.int8), 0.05, 3)
    numbers = {
        "scale": draw.rng.normal(0, 1.5, channels),
        "bias": draw.rng.normal(0, 2, channels),
        "mean": draw.rng.normal(0, 2, channels),
    }
    numbers["variance"] = draw.rng.uniform(0.2, 4, channels)
    y = graph.node(
        "BatchNormalization",
        x,
        *(graph.constant(values, np.float32) for values in numbers.values()),
        epsilon=1e-5,
    )
    model = graph.save([(graph.quantize(y, 0.07, -5), np.int8)])
    made = onnx_graph(model)
    assert [kind for kind in kinds(made) if kind != "transpose"] == ["conv2d"]
    data = np.resize(np.arange(-128, 128), (16, 1, channels, 4, 4)).astype(np.int8)
    for sample in data:
        check_same(made, [sample], run(model, [sample]))


def test_every_form_of_a_network_means_nearly_the_same(shared: Any) -> None:
    """One network as int8 QDQ and as QOperator: the same operators in the same order."""
    made = [
        onnx_graph((shared / "models" / f"mlonmcu_micro_kws_m_{form}.onnx").read_bytes())
        for form in ("qdq", "qoperator")
    ]
    assert kinds(made[0]) == kinds(made[1])
    assert "transpose" not in kinds(
        made[0]
    )  # the file's own transposes cancel against channels last


# --------------------------------------------------------------------------------------------------
# Refusals: one line that names operator, node and reason
# --------------------------------------------------------------------------------------------------


def refusal(model: bytes, kind: type[ModelError] = ModelError) -> str:
    with pytest.raises(kind) as caught:
        from_bytes(model, "m.onnx")
    text = str(caught.value)
    assert text.startswith("m.onnx: ")
    assert "\n" not in text
    return text


def test_dynamic_quantization_is_named() -> None:
    graph = Graph()
    x = graph.input((1, 8), np.float32)
    y = graph.node("DynamicQuantizeLinear", x)
    assert "DynamicQuantizeLinear" in refusal(graph.save([(y, np.uint8)]), UnsupportedError)


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
