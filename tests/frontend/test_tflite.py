"""frontend/tflite.py and tflite_file.py: single operators equal LiteRT, and files that are not what
they say are refused in one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")

from loadstone import graph as g
from loadstone.errors import ModelError, UnsupportedError
from loadstone.frontend import tflite_file
from loadstone.frontend.tflite import from_bytes
from loadstone.numerics import Rounding
from tests.draw import Random
from tests.imported import check_same, tflite_graph
from tests.tflite_builder import Activation, Graph, Padding, Tensor, run

SEEDS = range(6)


def activation(
    graph: Graph, draw: Random, shape: tuple[int, ...], *, unsigned: bool, is_input: bool = True
) -> Tensor:
    q = draw.quantization()
    zero_point = q.zero_point + (128 if unsigned else 0)
    make = graph.input if is_input else graph.tensor
    return make(shape, np.uint8 if unsigned else np.int8, q.scale, zero_point)


def values(draw: Random, tensor: Tensor) -> NDArray[Any]:
    limits = np.iinfo(tensor.dtype)
    return draw.rng.integers(limits.min, limits.max, tensor.shape, tensor.dtype, endpoint=True)


def check(graph: Graph, outputs: list[Tensor], draw: Random) -> g.Graph:
    """LiteRT's integers and ours."""
    model = graph.save(outputs)
    inputs = [values(draw, tensor) for tensor in graph.inputs]
    made = tflite_graph(model)
    check_same(made, inputs, run(model, inputs))
    return made


def weighted(
    draw: Random, graph: Graph, x: Tensor, kind: str, *, unsigned: bool
) -> tuple[Tensor, Tensor, int]:
    """Weights and bias of an operator on x, and its output channels."""
    channels, kernel = x.shape[-1], (draw.int(1, 4), draw.int(1, 4))
    out = draw.int(1, 12) if kind != "DEPTHWISE_CONV_2D" else channels * draw.int(1, 2)
    shape = {
        "CONV_2D": (out, *kernel, channels),
        "DEPTHWISE_CONV_2D": (1, *kernel, out),
        "FULLY_CONNECTED": (out, channels),
    }[kind]
    axis = 3 if kind == "DEPTHWISE_CONV_2D" else 0
    scales = draw.weight_scales(1 if unsigned else out)
    dtype = np.uint8 if unsigned else np.int8
    data = draw.rng.integers(
        0 if unsigned else -127, 255 if unsigned else 127, shape, dtype, endpoint=True
    )
    weights = graph.constant(data, scales, draw.int(0, 255) if unsigned else 0, axis=axis)
    bias = graph.constant(
        draw.rng.integers(-9000, 9000, out, np.int32), np.float32(x.scale) * scales
    )
    return weights, bias, out


@pytest.mark.parametrize("unsigned", [False, True], ids=["int8", "uint8"])
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", ["CONV_2D", "DEPTHWISE_CONV_2D"])
def test_convolutions(kind: str, seed: int, *, unsigned: bool) -> None:
    draw, graph = Random(seed), Graph()
    x = activation(
        graph, draw, (1, draw.int(5, 12), draw.int(5, 12), draw.int(1, 6)), unsigned=unsigned
    )
    weights, bias, out = weighted(draw, graph, x, kind, unsigned=unsigned)
    strides, dilation = (
        (draw.int(1, 2), draw.int(1, 2)),
        (1, 1) if seed % 2 else (draw.int(1, 2), 1),
    )
    same = bool(draw.int(0, 1))
    taps = weights.shape[1:3]
    reach = [d * (k - 1) + 1 for k, d in zip(taps, dilation, strict=True)]
    size = [
        -(-n // s) if same else (n - r) // s + 1
        for n, s, r in zip(x.shape[1:3], strides, reach, strict=True)
    ]
    product = x.scale[0] * float(np.median(weights.scale))
    y = graph.tensor(
        (1, *size, out), x.dtype, product * 300, draw.int(100, 150) - (0 if unsigned else 128)
    )
    options: dict[str, Any] = {
        "padding": Padding.SAME if same else Padding.VALID,
        "stride_h": strides[0],
        "stride_w": strides[1],
        "dilation_h_factor": dilation[0],
        "dilation_w_factor": dilation[1],
        "fused_activation_function": draw.rng.choice(
            [Activation.NONE, Activation.RELU, Activation.RELU6]
        ),
    }
    if kind == "DEPTHWISE_CONV_2D":
        options["depth_multiplier"] = out // x.shape[-1]
    graph.operator(kind, [x, weights, bias], [y], **options)
    made = check(graph, [y], draw)
    conv = next(o for o in made.operators if isinstance(o, g.Conv2D))
    assert conv.rounding is Rounding.DOUBLE
    assert conv.weights.shape == (out, *taps, 1 if kind == "DEPTHWISE_CONV_2D" else x.shape[-1])


@pytest.mark.parametrize("unsigned", [False, True], ids=["int8", "uint8"])
@pytest.mark.parametrize("rank", [2, 4])
@pytest.mark.parametrize("with_bias", [False, True])
def test_dense_layers(rank: int, *, unsigned: bool, with_bias: bool) -> None:
    draw, graph = Random(rank), Graph()
    x = activation(graph, draw, (3, 20) if rank == 2 else (1, 1, 1, 20), unsigned=unsigned)
    weights, bias, out = weighted(draw, graph, x, "FULLY_CONNECTED", unsigned=unsigned)
    y = graph.tensor(
        (x.shape[0], out),
        x.dtype,
        x.scale[0] * float(np.median(weights.scale)) * 300,
        130 if unsigned else 2,
    )
    graph.operator(
        "FULLY_CONNECTED",
        [x, weights, bias if with_bias else None],
        [y],
        fused_activation_function=Activation.RELU,
    )
    made = check(graph, [y], draw)
    dense = next(o for o in made.operators if isinstance(o, g.Dense))
    assert dense.rounding is Rounding.SINGLE
    assert with_bias or not dense.bias.any()


def windows(kind: str, fused: int = Activation.NONE) -> Callable[[Random, Graph, Tensor], Tensor]:
    def add(draw: Random, graph: Graph, x: Tensor) -> Tensor:
        size = [-(-n // 2) for n in x.shape[1:3]]
        y = graph.tensor((1, *size, x.shape[3]), x.dtype, x.scale, x.zero_point)
        options = {
            "filter_height": 3,
            "filter_width": 2,
            "stride_h": 2,
            "stride_w": 2,
            "padding": Padding.SAME,
        }
        graph.operator(kind, [x], [y], **options, fused_activation_function=fused)
        return y

    return add


def binary(kind: str) -> Callable[[Random, Graph, Tensor], Tensor]:
    def add(draw: Random, graph: Graph, x: Tensor) -> Tensor:
        other = activation(graph, draw, x.shape, unsigned=x.dtype == np.uint8)
        scale = (
            float(x.scale[0] * other.scale[0]) * 90
            if kind == "MUL"
            else float(max(x.scale[0], other.scale[0])) * 2
        )
        y = graph.tensor(x.shape, x.dtype, scale, x.zero_point)
        graph.operator(kind, [x, other], [y], fused_activation_function=Activation.NONE)
        return y

    return add


def with_shape(
    kind: str, shape: tuple[int, ...], *constants: Any, **options: Any
) -> Callable[[Random, Graph, Tensor], Tensor]:
    """An operator whose output has the input's quantization."""

    def add(draw: Random, graph: Graph, x: Tensor) -> Tensor:
        y = graph.tensor(shape, x.dtype, x.scale, x.zero_point)
        graph.operator(
            kind, [x, *(graph.constant(np.asarray(c, np.int32)) for c in constants)], [y], **options
        )
        return y

    return add


def to_other_scale(kind: str, **options: Any) -> Callable[[Random, Graph, Tensor], Tensor]:
    def add(draw: Random, graph: Graph, x: Tensor) -> Tensor:
        y = graph.tensor(x.shape, x.dtype, float(x.scale[0]) * 1.7, x.zero_point)
        graph.operator(kind, [x], [y], **options)
        return y

    return add


def to_probability(kind: str, **options: Any) -> Callable[[Random, Graph, Tensor], Tensor]:
    def add(draw: Random, graph: Graph, x: Tensor) -> Tensor:
        y = graph.tensor(x.shape, x.dtype, 1 / 256, 0 if x.dtype == np.uint8 else -128)
        graph.operator(kind, [x], [y], **options)
        return y

    return add


def mean(draw: Random, graph: Graph, x: Tensor) -> Tensor:
    y = graph.tensor((1, x.shape[3]), x.dtype, float(x.scale[0]) * 0.6, x.zero_point)
    graph.operator("MEAN", [x, graph.constant(np.array([1, 2], np.int32))], [y], keep_dims=False)
    return y


def concatenation(draw: Random, graph: Graph, x: Tensor) -> Tensor:
    same = x.dtype == np.int8  # int8 kernels want one quantization for all
    other = graph.input(
        x.shape, x.dtype, x.scale if same else x.scale * np.float32(1.3), x.zero_point
    )
    y = graph.tensor((*x.shape[:3], 2 * x.shape[3]), x.dtype, x.scale, x.zero_point)
    graph.operator("CONCATENATION", [x, other], [y], axis=3)
    return y


#: On an input (1, 6, 8, 5): what it adds, and the kind of operator of graph/ that must come of
#: it.
OPERATORS: dict[str, tuple[Callable[[Random, Graph, Tensor], Tensor], type[g.Operator]]] = {
    "average pool": (windows("AVERAGE_POOL_2D", Activation.RELU), g.AveragePool2D),
    "max pool": (windows("MAX_POOL_2D"), g.MaxPool2D),
    "add": (binary("ADD"), g.Add),
    "sub": (binary("SUB"), g.Sub),
    "mul": (binary("MUL"), g.Mul),
    "mean": (mean, g.Mean),
    "concatenation": (concatenation, g.Concatenate),
    "reshape": (with_shape("RESHAPE", (6, 40), (6, 40)), g.Reshape),
    "squeeze": (with_shape("SQUEEZE", (6, 8, 5), squeeze_dims=(0,)), g.Reshape),
    "transpose": (with_shape("TRANSPOSE", (1, 8, 5, 6), (0, 2, 3, 1)), g.Transpose),
    "pad": (with_shape("PAD", (1, 9, 11, 5), [[0, 0], [1, 2], [3, 0], [0, 0]]), g.Pad),
    "slice": (with_shape("SLICE", (1, 3, 4, 5), (0, 1, 2, 0), (1, 3, 4, 5)), g.Slice),
    "nearest": (with_shape("RESIZE_NEAREST_NEIGHBOR", (1, 12, 16, 5), (12, 16)), g.ResizeNearest),
    "nearest half pixel": (
        with_shape("RESIZE_NEAREST_NEIGHBOR", (1, 9, 16, 5), (9, 16), half_pixel_centers=True),
        g.ResizeNearest,
    ),
    "bilinear": (with_shape("RESIZE_BILINEAR", (1, 11, 16, 5), (11, 16)), g.ResizeBilinear),
    "bilinear corners": (
        with_shape("RESIZE_BILINEAR", (1, 11, 15, 5), (11, 15), align_corners=True),
        g.ResizeBilinear,
    ),
    "quantize": (to_other_scale("QUANTIZE"), g.Requantize),
    "relu": (to_other_scale("RELU"), g.Requantize),
    "relu6": (to_other_scale("RELU6"), g.Requantize),
    "leaky relu": (to_other_scale("LEAKY_RELU", alpha=0.25), g.Lookup),
    "hard swish": (to_other_scale("HARD_SWISH"), g.Lookup),
    "logistic": (to_probability("LOGISTIC"), g.Lookup),
    "softmax": (to_probability("SOFTMAX", beta=1.0), g.Softmax),
    "softmax beta": (to_probability("SOFTMAX", beta=0.5), g.Softmax),
}


@pytest.mark.parametrize("unsigned", [False, True], ids=["int8", "uint8"])
@pytest.mark.parametrize("name", OPERATORS)
def test_single_operators_equal_litert(name: str, *, unsigned: bool) -> None:
    add, kind = OPERATORS[name]
    for seed in range(3):
        draw, graph = Random(seed), Graph()
        x = activation(graph, draw, (1, 6, 8, 5), unsigned=unsigned)
        made = check(graph, [add(draw, graph, x)], draw)
        inner = [o for o in made.operators if not {o.input.dtype, o.output.dtype} & {"uint8"}]
        assert [type(o) for o in inner] == [kind]


def test_argmax_and_the_edges_of_a_float_model() -> None:
    draw, graph = Random(0), Graph()
    x = graph.input((1, 4, 4, 7), np.float32)
    stored = graph.tensor((1, 4, 4, 7), np.int8, 0.05, -3)
    index = graph.tensor((1, 4, 4), np.int64)
    back = graph.tensor((1, 4, 4, 7), np.float32)
    graph.operator("QUANTIZE", [x], [stored])
    graph.operator(
        "ARG_MAX", [stored, graph.constant(np.array(3, np.int32))], [index], output_type=4
    )
    graph.operator("DEQUANTIZE", [stored], [back])
    model = graph.save([index, back])
    data = draw.rng.normal(0, 3, x.shape).astype(np.float32)
    made = tflite_graph(model)
    assert [o.kind for o in made.operators] == ["quantize", "argmax", "dequantize"]
    check_same(made, [data], run(model, [data]))


def test_a_bias_is_added_as_it_is_where_its_scale_is_a_little_off() -> None:
    """Converters round it; the kernel never reads it."""
    draw, graph = Random(1), Graph()
    x = activation(graph, draw, (2, 8), unsigned=False)
    weights = graph.constant(draw.int8(4, 8), draw.weight_scales(1))
    bias = graph.constant(
        np.array([9000, -4000, 77, 0], np.int32), float(x.scale[0] * weights.scale[0]) * 1.01
    )
    y = graph.tensor((2, 4), np.int8, float(x.scale[0] * weights.scale[0]) * 200, 0)
    graph.operator("FULLY_CONNECTED", [x, weights, bias], [y])
    made = check(graph, [y], draw)
    dense = next(o for o in made.operators if isinstance(o, g.Dense))
    np.testing.assert_array_equal(dense.bias, [9000, -4000, 77, 0])


# --------------------------------------------------------------------------------------------------
# Refusals: one line that names operator, node and reason
# --------------------------------------------------------------------------------------------------


def refusal(model: bytes, kind: type[ModelError] = ModelError) -> str:
    with pytest.raises(kind) as caught:
        from_bytes(model, "m.tflite")
    text = str(caught.value)
    assert text.startswith("m.tflite: ")
    assert "\n" not in text
    return text


def dense_model(**changes: Any) -> bytes:
    """x (1, 4) int8 -> FULLY_CONNECTED -> (1, 2); `changes` replace what is passed to the
    builder."""
    graph = Graph()
    x = (
        changes.get("x", lambda: graph.input((1, 4), np.int8, 0.1, 0))()
        if "x" not in changes
        else changes["x"](graph)
    )
    weights = (
        changes["weights"](graph)
        if "weights" in changes
        else graph.constant(np.ones((2, 4), np.int8), 0.5)
    )
    y = changes["y"](graph) if "y" in changes else graph.tensor((1, 2), np.int8, 0.3, 0)
    graph.operator(changes.get("kind", "FULLY_CONNECTED"), [x, weights], [y])
    return graph.save([y])


def test_dynamic_range_quantization_is_named(shared: Path) -> None:
    text = refusal((shared / "models" / "mlpt_kws_dynrange.tflite").read_bytes(), UnsupportedError)
    assert "CONV_2D (operator 0, output" in text
    assert "dynamic range quantization" in text
    made = dense_model(
        x=lambda graph: graph.input((1, 4), np.float32),
        y=lambda graph: graph.tensor((1, 2), np.float32),
    )
    assert "dynamic range" in refusal(made, UnsupportedError)


def test_dynamic_shapes_are_named() -> None:
    text = refusal(
        dense_model(x=lambda graph: graph.input((0, 4), np.int8, 0.1, 0)), UnsupportedError
    )
    assert 'tensor 0 "in0" has shape [0, 4]: dynamic shapes' in text


def test_int16_activations_are_named() -> None:
    text = refusal(
        dense_model(x=lambda graph: graph.input((1, 4), np.int16, 0.1, 0)), UnsupportedError
    )
    assert "int16" in text
    assert "FULLY_CONNECTED (operator 0" in text


def test_an_operator_without_an_importer_is_named() -> None:
    graph = Graph()
    x, y = graph.input((1, 4), np.float32), graph.tensor((1, 4), np.float32)
    graph.operator("SKIP_GRAM", [x], [y])
    text = refusal(graph.save([y]), UnsupportedError)
    assert text == (
        'm.tflite: SKIP_GRAM (operator 0, output "t1"): no importer for this operator; '
        "end the model before it (--outputs in0) and compute it yourself"
    )


def test_int8_weights_with_a_zero_point_are_refused_where_litert_would_not_read_it() -> None:
    graph = Graph()
    x = graph.input((1, 4, 4, 2), np.int8, 0.1, 0)
    weights = graph.constant(np.ones((3, 1, 1, 2), np.int8), [0.1, 0.2, 0.3], [0, 5, 0])
    y = graph.tensor((1, 4, 4, 3), np.int8, 0.3, 0)
    graph.operator("CONV_2D", [x, weights], [y], stride_h=1, stride_w=1)
    assert "zero point other than 0" in refusal(graph.save([y]))


def test_a_shape_that_the_operator_does_not_give_is_named() -> None:
    text = refusal(dense_model(y=lambda graph: graph.tensor((1, 3), np.int8, 0.3, 0)))
    assert "would have shape (1, 2), the file says (1, 3)" in text


def test_a_stride_of_zero_never_reaches_tvm() -> None:
    graph = Graph()
    x = graph.input((1, 4, 4, 2), np.int8, 0.1, 0)
    weights = graph.constant(np.ones((3, 1, 1, 2), np.int8), 0.1)
    y = graph.tensor((1, 4, 4, 3), np.int8, 0.3, 0)
    graph.operator("CONV_2D", [x, weights], [y], stride_h=0, stride_w=1)
    assert "StrideH = 0, outside [1, 65536]" in refusal(graph.save([y]))


def test_cycles_and_missing_tensors_are_named() -> None:
    graph = Graph()
    x = graph.input((1, 4), np.int8, 0.1, 0)
    y, z = (graph.tensor((1, 4), np.int8, 0.1, 0) for _ in "yz")
    graph.operator("ADD", [x, z], [y])
    graph.operator("ADD", [x, y], [z])
    assert "reads 't2' before it is written" in refusal(graph.save([z]))
    graph.operators.pop()
    assert "graph output 't2' is never written" in refusal(
        Graph(graph.tensors, [], graph.inputs).save([z])
    )


@pytest.mark.parametrize(
    ("model", "part"),
    [(b"", "not a TFLite file"), (b"PK\x03\x04 and more bytes", "not a TFLite file")],
)
def test_other_files_are_named(model: bytes, part: str) -> None:
    assert part in refusal(model)


def test_a_scale_that_is_no_number_is_named() -> None:
    for scale in (-1.0, float("nan"), float("inf")):
        model = dense_model(x=lambda graph, scale=scale: graph.input((1, 4), np.int8, scale, 0))
        assert "a scale that is not positive and finite" in refusal(model)
    assert "a zero point outside [-128, 127]" in refusal(
        dense_model(x=lambda graph: graph.input((1, 4), np.int8, 0.1, 300))
    )


def test_every_record_of_a_real_file_is_read(shared: Path) -> None:
    file = tflite_file.read(
        (shared / "models" / "mlpt_resnet8_int8.tflite").read_bytes(), "resnet8"
    )
    assert [operator.code for operator in file.operators].count("CONV_2D") == 9
    assert file.tensors[file.inputs[0]].shape == (1, 32, 32, 3)
    assert all(tensor.data is None or tensor.data.shape == tensor.shape for tensor in file.tensors)
    assert sum(tensor.scales is not None and tensor.scales.size > 1 for tensor in file.tensors) >= 9


# --------------------------------------------------------------------------------------------------
# Kernels that copy bytes, and what the float operator does not say of a kernel
# --------------------------------------------------------------------------------------------------

#: On an input (1, 6, 8, 5): kind, output shape, constants, options.
COPIES: dict[str, tuple[tuple[int, ...], tuple[Any, ...], dict[str, Any]]] = {
    "RESHAPE": ((6, 40), ((6, 40),), {}),
    "SQUEEZE": ((6, 8, 5), (), {}),
    "TRANSPOSE": ((1, 8, 6, 5), ((0, 2, 1, 3),), {}),
    "SLICE": ((1, 3, 8, 5), ((0, 1, 0, 0), (1, 3, 8, 5)), {}),
    "STRIDED_SLICE": ((1, 3, 8, 5), ((0, 0, 0, 0), (1, 6, 8, 5), (1, 2, 1, 1)), {}),
    "MAX_POOL_2D": (
        (1, 3, 4, 5),
        (),
        {"filter_height": 2, "filter_width": 2, "stride_h": 2, "stride_w": 2},
    ),
    "RESIZE_NEAREST_NEIGHBOR": ((1, 12, 16, 5), ((12, 16),), {}),
    "RESIZE_BILINEAR": ((1, 12, 16, 5), ((12, 16),), {}),
    "TILE": ((1, 12, 8, 5), ((1, 2, 1, 1),), {}),
}


@pytest.mark.parametrize("unsigned", [False, True], ids=["int8", "uint8"])
@pytest.mark.parametrize("kind", COPIES)
def test_bytes_are_copied_into_another_scale(kind: str, *, unsigned: bool) -> None:
    """LiteRT reads neither scale; what comes after the copy takes the output's."""
    draw, graph = Random(4), Graph()
    x = activation(graph, draw, (1, 6, 8, 5), unsigned=unsigned)
    shape, constants, options = COPIES[kind]
    y = graph.tensor(shape, x.dtype, x.scale * np.float32(1.9), int(x.zero_point[0]) // 2)
    graph.operator(
        kind, [x, *(graph.constant(np.asarray(c, np.int32)) for c in constants)], [y], **options
    )
    z = graph.tensor(shape, x.dtype, x.scale * np.float32(1.2), int(x.zero_point[0]))
    graph.operator("RELU6", [y], [z])
    check(graph, [y, z], draw)


def test_a_bias_of_two_layers_has_a_scale_in_each() -> None:
    """Each adds its integers as they are."""
    draw, shared = Random(5), Graph()
    first, second = (shared.input((1, 4, 4, 3), np.int8, scale, 2) for scale in (0.05, 0.21))
    kernel = shared.constant(draw.int8(4, 1, 1, 3), np.full(4, 0.02, np.float32))
    offset = shared.constant(
        np.array([900, -400, 77, 0], np.int32), np.full(4, 0.05 * 0.02, np.float32)
    )
    ends = [shared.tensor((1, 4, 4, 4), np.int8, scale * 0.02 * 200, 3) for scale in (0.05, 0.21)]
    for source, end in zip((first, second), ends, strict=True):
        shared.operator("CONV_2D", [source, kernel, offset], [end], stride_h=1, stride_w=1)
    made = check(shared, ends, draw)
    for operator in made.operators:
        np.testing.assert_array_equal(operator.bias, [900, -400, 77, 0])


#: Kind -> scale and zero point of the output as int8, where the kernel demands them; and whether
#: uint8 has a kernel.
FUNCTIONS: dict[str, tuple[tuple[float, int] | None, bool]] = {
    "TANH": ((1 / 128, 0), True),
    "GELU": (None, True),
    "LOG_SOFTMAX": ((16 / 256, 127), True),
    "EXP": (None, False),
    "LOG": (None, False),
    "RSQRT": (None, False),
    "L2_NORMALIZATION": ((1 / 128, 0), False),
}


@pytest.mark.parametrize(
    ("kind", "unsigned"),
    [(k, u) for k, (_, both) in FUNCTIONS.items() for u in (False, True)[: 1 + both]],
)
def test_functions_that_the_host_computes_in_float(kind: str, *, unsigned: bool) -> None:
    """All 256 values in any order, under several scales: the float result, rounded, is the
    kernel's."""
    for seed in range(4):
        draw, graph = Random(seed), Graph()
        offset, dtype = (128, np.uint8) if unsigned else (0, np.int8)
        zero_point = -128 if kind in ("LOG", "RSQRT") else draw.int(-128, 127)
        q_out = FUNCTIONS[kind][0] or (draw.scale(), draw.int(-128, 127))
        x = graph.input((16, 16), dtype, draw.scale(), zero_point + offset)
        y = graph.tensor((16, 16), dtype, q_out[0], q_out[1] + offset)
        graph.operator(kind, [x], [y])
        model, every = (
            graph.save([y]),
            draw.rng.permutation(np.arange(256, dtype=np.uint8)).view(dtype).reshape(16, 16),
        )
        check_same(tflite_graph(model), [every], run(model, [every]))


def unary(kind: str, q_in: tuple[float, int], q_out: tuple[float, int], **changes: Any) -> bytes:
    """x (1, 4, 4, 2) of one type to another of the same shape."""
    graph = Graph()
    x = graph.input((1, 4, 4, 2), changes.pop("type_in", np.int8), *q_in)
    y = graph.tensor((1, 4, 4, 2), changes.pop("type_out", np.int8), *q_out)
    constants = [graph.constant(np.asarray(c)) for c in changes.pop("constants", ())]
    graph.operator(kind, [x, *constants], [y], **changes)
    return graph.save([y])


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (unary("DEQUANTIZE", (0.1, 0), (0.2, 0)), 'it writes "t1", which is int8, not float32'),
        (
            unary("SOFTMAX", (0.1, 200), (0.2, 0), type_in=np.uint8, type_out=np.uint8, beta=1.0),
            "steps of 1/256 from 0, the file says",
        ),
        (
            unary("ABS", (0.1, -128), (0.2, 0)),
            'what its kernel makes of the int8 tensor "in0" is not implemented',
        ),
        (
            unary("CAST", (0.1, 0), (0.2, 0)),
            'what its kernel makes of the int8 tensor "in0" is not implemented',
        ),
        (
            unary("PAD", (0.1, 0), (0.2, 5), constants=[np.zeros((4, 2), np.int32)]),
            '"in0" (scale 0.1, zero point 0) and "t1" (scale 0.2, zero',
        ),
        (
            unary("RELU", (0.1, 0), (0.2, 0), type_out=np.uint8),
            'its tensors have several types: "in0" int8, "t1" uint8',
        ),
        (
            unary(
                "MAX_POOL_2D",
                (0.1, 0),
                (0.2, 0),
                filter_height=1,
                filter_width=1,
                stride_h=1,
                stride_w=1,
                fused_activation_function=1,
            ),
            "copies integers as they are",
        ),
    ],
)
def test_what_litert_computes_otherwise_is_refused(model: bytes, said: str) -> None:
    assert said in refusal(model, UnsupportedError)


@pytest.mark.parametrize("kind", ["ADD", "MUL", "CONV_2D"])
def test_a_fused_tanh_is_refused(kind: str) -> None:
    """LiteRT's int8 kernels leave it out."""
    graph = Graph()
    x = graph.input((1, 4, 4, 2), np.int8, 0.1, 0)
    y = graph.tensor((1, 4, 4, 2), np.int8, 0.2, 0)
    operands = [graph.constant(np.ones((2, 1, 1, 2), np.int8), 0.1)] if kind == "CONV_2D" else [x]
    strides = {"stride_h": 1, "stride_w": 1} if kind == "CONV_2D" else {}
    graph.operator(kind, [x, *operands], [y], fused_activation_function=Activation.TANH, **strides)
    assert 'the fused activation TANH of "t1" has no 8-bit kernel' in refusal(
        graph.save([y]), UnsupportedError
    )


def test_weights_must_be_constants_with_scales_along_their_outputs() -> None:
    graph = Graph()
    x = graph.input((1, 4, 4, 3), np.int8, 0.1, 0)
    weights = graph.constant(np.ones((3, 1, 1, 3), np.int8), [0.1, 0.2, 0.3], axis=3)
    y = graph.tensor((1, 4, 4, 3), np.int8, 0.3, 0)
    graph.operator("CONV_2D", [x, weights], [y], stride_h=1, stride_w=1)
    assert (
        'its weights "t1" have a scale per index of axis 3, not of the output channels (axis 0)'
        in refusal(graph.save([y]))
    )
    graph = Graph()
    x, weights = graph.input((1, 4), np.int8, 0.1, 0), graph.input((2, 4), np.int8, 0.1, 0)
    y = graph.tensor((1, 2), np.int8, 0.3, 0)
    graph.operator("FULLY_CONNECTED", [x, weights], [y])
    assert 'its weights "in1" are no constant of the model' in refusal(graph.save([y]))


def test_int8_and_uint8_kernels_in_one_model_are_named() -> None:
    graph = Graph()
    x, middle = (
        graph.input((1, 4, 4, 2), np.uint8, 0.1, 100),
        graph.tensor((1, 4, 4, 2), np.uint8, 0.1, 100),
    )
    inner, y = (
        graph.tensor((1, 4, 4, 2), np.int8, 0.1, -28),
        graph.tensor((1, 4, 4, 2), np.int8, 0.1, -28),
    )
    window = {
        "filter_height": 2,
        "filter_width": 2,
        "stride_h": 1,
        "stride_w": 1,
        "padding": Padding.SAME,
    }
    graph.operator("AVERAGE_POOL_2D", [x], [middle], **window)
    graph.operator("QUANTIZE", [middle], [inner])
    graph.operator("AVERAGE_POOL_2D", [inner], [y], **window)
    assert 'AVERAGE_POOL_2D (operator 0, output "t1") is uint8' in refusal(
        graph.save([y]), UnsupportedError
    )
