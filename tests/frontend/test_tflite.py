# SPDX-License-Identifier: Apache-2.0
"""frontend/tflite.py: single operators equal LiteRT."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")

from loadstone import graph as g
from loadstone.errors import UnsupportedError
from loadstone.numerics import Rounding
from tests.draw import Random
from tests.frontend.tflite_models import activation, check, dense_model, refusal, weighted, windows
from tests.imported import check_same, tflite_graph
from tests.tflite_builder import Activation, Graph, Padding, Tensor, run

SEEDS = range(6)


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


def test_dynamic_shapes_are_named() -> None:
    text = refusal(
        dense_model(x=lambda graph: graph.input((0, 4), np.int8, 0.1, 0)), UnsupportedError
    )
    assert 'tensor 0 "in0" has shape [0, 4]: dynamic shapes' in text


def test_int16_activations_are_named() -> None:
    text = refusal(
        dense_model(x=lambda graph: graph.input((1, 4), np.int16, 0.1, 0)), UnsupportedError
    )
    assert "its tensors are int16, int8, and beside int16 int16, int16 are known" in text
    assert "FULLY_CONNECTED (operator 0" in text


def test_an_operator_without_an_importer_is_named() -> None:
    graph = Graph()
    x, y = graph.input((1, 4), np.float32), graph.tensor((1, 4), np.float32)
    graph.operator("SKIP_GRAM", [x], [y])
    text = refusal(graph.save([y]), UnsupportedError)
    assert text == (
        'm.tflite: SKIP_GRAM (operator 0, output "t1"): no importer for this operator: '
        "end the model before it (--outputs in0) and compute it yourself"
    )


def test_int8_weights_with_a_zero_point_are_refused_where_litert_would_not_read_it() -> None:
    graph = Graph()
    x = graph.input((1, 4, 4, 2), np.int8, 0.1, 0)
    weights = graph.constant(np.ones((3, 1, 1, 2), np.int8), [0.1, 0.2, 0.3], [0, 5, 0])
    y = graph.tensor((1, 4, 4, 3), np.int8, 0.3, 0)
    graph.operator("CONV_2D", [x, weights], [y], stride_h=1, stride_w=1)
    assert "zero point other than 0" in refusal(graph.save([y]))


@pytest.mark.parametrize(("source", "target"), [("main", "y:0"), ("x", "main"), ("größe 1", "a/b")])
def test_inputs_and_outputs_have_the_names_of_the_file(source: str, target: str) -> None:
    """A constant that the network computes, and one that it holds, among these."""
    graph = Graph()
    x = graph.input((1, 4), np.int8, 0.1, 0)
    graph.tensors[0] = graph.inputs[0] = x = replace(x, name=source)
    y = graph.tensor((1, 4), np.int8, 0.2, 1, name=target)
    graph.operator("ADD", [x, x], [y])
    held, real = graph.constant(np.int8([[1, 2]]), 0.1), graph.tensor((1, 2), np.float32)
    graph.operator("DEQUANTIZE", [held], [real])
    made = tflite_graph(graph.save([y, real, held]))
    assert [tensor.name for tensor in made.inputs] == [source]
    assert [tensor.name for tensor in made.outputs] == [target, real.name, held.name]
