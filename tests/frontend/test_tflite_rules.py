# SPDX-License-Identifier: Apache-2.0
"""frontend/tflite_rules.py: kernels that copy bytes whatever the scale, those that compute in
float, and what LiteRT computes otherwise, which is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")

from loadstone.errors import UnsupportedError
from tests.draw import Random
from tests.frontend.tflite_models import activation, check, refusal
from tests.imported import check_same, tflite_graph
from tests.tflite_builder import Activation, Graph, Padding, run

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
            unary("NEG", (0.1, -128), (0.2, 0)),
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
    """LiteRT's kernels leave it out."""
    graph = Graph()
    x = graph.input((1, 4, 4, 2), np.int8, 0.1, 0)
    y = graph.tensor((1, 4, 4, 2), np.int8, 0.2, 0)
    operands = [graph.constant(np.ones((2, 1, 1, 2), np.int8), 0.1)] if kind == "CONV_2D" else [x]
    strides = {"stride_h": 1, "stride_w": 1} if kind == "CONV_2D" else {}
    graph.operator(kind, [x, *operands], [y], fused_activation_function=Activation.TANH, **strides)
    text = refusal(graph.save([y]), UnsupportedError)
    assert "it has fused_activation_function = TANH, and only NONE or RELU or" in text


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
    x, weights = (graph.input(shape, np.int8, 0.1, 0) for shape in ((1, 4, 4, 3), (3, 1, 1, 3)))
    y = graph.tensor((1, 4, 4, 3), np.int8, 0.3, 0)
    graph.operator("CONV_2D", [x, weights], [y], stride_h=1, stride_w=1)
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
