# SPDX-License-Identifier: Apache-2.0
"""partition/patterns/: what a match reads as, where it refuses, and lines per channel that must be
exact on all 256 values."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnx", reason="onnx is not installed")

from loadstone import graph as g
from loadstone.compiler import compile as compile_model
from loadstone.errors import UnsupportedError
from loadstone.graph.reference import run, run_operator
from loadstone.numerics import Rounding
from loadstone.partition.patterns import OPERATOR_PATTERNS, operator_pattern
from loadstone.partition.patterns.affine import _search
from loadstone.partition.patterns.reader import Mismatch
from tests import onnx_builder, tflite_builder
from tests.draw import Random
from tests.imported import onnx_graph
from tests.onnx_builder import Graph

EVERY = np.arange(-128, 128, dtype=np.int8)


def test_longer_forms_are_tried_before_those_they_contain() -> None:
    names = [entry.name for entry in OPERATOR_PATTERNS]
    for longer, shorter in (
        ("channel_add", "add"),
        ("channel_mul", "mul"),
        ("softmax", "quantize"),
        ("layer_norm", "quantize"),
        ("requantize", "quantize"),
    ):
        assert names.index(longer) < names.index(shorter)
    assert names[-2:] == ["quantize", "dequantize"]
    assert operator_pattern("conv2d") is OPERATOR_PATTERNS[0]


@pytest.mark.parametrize("seed", range(8))
def test_a_line_per_channel_is_met_on_every_value_of_every_channel(seed: int) -> None:
    """Slopes from nearly none to steep, both signs, offsets beyond the clamp: the integers found
    give all 256 values."""
    draw = Random(seed)
    channels = 48
    source, output = (
        g.Tensor(name, (256, 1, 1, channels), "int8", draw.quantization(float(np.float32(scale))))
        for name, scale in (("x", 0.05), ("y", 0.07))
    )
    slope = (draw.rng.normal(0, 1, channels) * 10.0 ** draw.rng.uniform(-2, 0.8, channels)).astype(
        np.float32
    )
    offset = draw.rng.normal(0, 4, channels).astype(np.float32)
    slope[0] = 0
    real = (
        np.float32(source.scale)
        * (EVERY.astype(np.int64) - source.zero_point).astype(np.float32)[:, None]
    )
    steps = np.rint((real * slope + offset) / np.float32(output.scale)).astype(np.float64)
    wanted = np.clip(steps + output.zero_point, -128, 127).astype(np.int64)
    weights, scales, bias = _search(slope, offset, wanted, source, output, (-128, 127))
    operator = g.Conv2D(
        name="y",
        inputs=(source,),
        outputs=(output,),
        weights=weights.reshape(-1, 1, 1, 1),
        weight_scales=scales,
        weight_zero_points=np.zeros(channels, np.int32),
        bias=bias,
        low=-128,
        high=127,
        rounding=Rounding.FLOAT32,
        strides=(1, 1),
        dilation=(1, 1),
        padding=(0, 0, 0, 0),
        groups=channels,
    )
    data = np.repeat(EVERY, channels).reshape(256, 1, 1, channels)
    np.testing.assert_array_equal(run_operator(operator, [data])[0].reshape(256, channels), wanted)


def test_what_no_line_gives_is_refused() -> None:
    """A table that is no rounded line has no weight and bias: the search says in how many
    channels."""
    source, output = (g.Tensor(name, (1, 1, 1, 2), "int8", g.Quantization(0.5, 0)) for name in "xy")
    wanted = np.stack([EVERY.astype(np.int64), np.abs(EVERY.astype(np.int64)).clip(max=127)], 1)
    with pytest.raises(Mismatch, match="exactly in 1 of 2 channels"):
        _search(
            np.ones(2, np.float32), np.zeros(2, np.float32), wanted, source, output, (-128, 127)
        )


def quantized_product(
    bias: str | None = None, weight_zero: int = 0, shape: tuple[int, ...] = (2, 3)
) -> tuple[Graph, str]:
    graph = Graph()
    x = graph.dequantize(graph.input(shape, np.int8), 0.5, 1)
    weights = graph.dequantize(
        graph.constant(np.arange(12, dtype=np.int8).reshape(3, 4)), 0.25, weight_zero
    )
    product = graph.node("MatMul", x, weights)
    if bias == "float":
        product = graph.node(
            "Add", product, graph.constant(np.array([0.125, 0.25, -0.5, 1], np.float32))
        )
    if bias == "int32":
        integers = graph.constant(np.array([1, 2, -4, 8], np.int32))
        product = graph.node("Add", product, graph.dequantize(integers, 0.125, 0, np.int32))
    return graph, graph.quantize(product, 0.5, -3)


def dense_of(graph: Graph, y: str) -> g.Dense:
    operator = onnx_graph(graph.save([(y, np.int8)])).operators[0]
    assert isinstance(operator, g.Dense)
    return operator


@pytest.mark.parametrize(
    ("bias", "integers"), [(None, [0, 0, 0, 0]), ("float", [1, 2, -4, 8]), ("int32", [1, 2, -4, 8])]
)
def test_a_bias_is_integers_at_the_accumulators_scale(
    bias: str | None, integers: list[int]
) -> None:
    dense = dense_of(*quantized_product(bias))
    np.testing.assert_array_equal(dense.bias, integers)
    assert dense.weights.shape == (4, 3)
    assert (dense.input.quantization, dense.output.quantization) == (
        g.Quantization(0.5, 1),
        g.Quantization(0.5, -3),
    )


def convolved(half: float, weight_scale: float, out_scale: float = 2.0**-5) -> tuple[bytes, int]:
    """A file whose biases are integers and `half` at the accumulator's scale; its channels."""
    rng = np.random.default_rng(0)
    channels, unit = 20, 0.125 * weight_scale
    graph = Graph()
    x = graph.dequantize(graph.input((1, 3, 9, 9), np.int8), 0.125, 0)
    weights = graph.constant(rng.integers(-20, 20, (channels, 3, 3, 3)), np.int8)
    bias = (rng.integers(-300, 300, channels) + half) * unit
    y = graph.node(
        "Conv", x, graph.dequantize(weights, weight_scale, 0), graph.constant(bias, np.float32)
    )
    return graph.save([(graph.quantize(y, out_scale, 3), np.int8)]), channels


def test_half_a_step_in_every_bias_means_ties_up() -> None:
    """No sum of the file is a tie then, and what rounds it is one shift of the integers."""
    file, channels = convolved(0.5, 2.0**-7)
    graph = onnx_graph(file)
    (operator,) = [entry for entry in graph.operators if isinstance(entry, g.Conv2D)]
    assert operator.rounding is Rounding.SINGLE
    assert operator.bias.shape == (channels,)
    x = np.random.default_rng(1).integers(-128, 128, (1, 3, 9, 9)).astype(np.int8)
    (found,) = run(graph, [x])
    (wanted,) = onnx_builder.run(file, [x])
    np.testing.assert_array_equal(found, wanted)
    even = dataclasses.replace(operator, rounding=Rounding.FLOAT32)
    held = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    assert np.any(run_operator(even, [held])[0] != run_operator(operator, [held])[0])


@pytest.mark.parametrize(
    ("half", "weight_scale", "out_scale"),
    [(0.0, 2.0**-7, 0.25), (0.25, 2.0**-7, 0.25), (0.5, 0.003, 0.25), (0.0, 2.0**-7, 2.0**-10)],
    ids=["whole", "a quarter", "no power of two", "nothing shifted"],
)
def test_any_other_bias_is_rounded_as_ever(
    half: float, weight_scale: float, out_scale: float
) -> None:
    operators = onnx_graph(convolved(half, weight_scale, out_scale)[0]).operators
    (operator,) = [entry for entry in operators if isinstance(entry, g.Conv2D)]
    assert operator.rounding is Rounding.FLOAT32


@pytest.mark.parametrize("dense", [False, True], ids=["Conv", "MatMul"])
@pytest.mark.parametrize(
    ("bias", "read"),
    [(1000.0, True), (1000.0 + 1 / 32, True), (1000.1, False), (0.25, False), (-0.25, False)],
)
def test_a_bias_that_rounding_would_move_is_no_integer(
    bias: float, read: bool, dense: bool
) -> None:
    """A step of the accumulator is one of the output here: a quarter of it is not to vanish."""
    graph, unit = Graph(), 15625 * 0.0625
    shape = (1, 4) if dense else (1, 4, 5, 5)
    x = graph.dequantize(graph.input(shape, np.int8), 15625.0, 3)
    weights = np.array([[1, -1, 2, -2]], np.int8)
    stored = graph.constant(weights.T if dense else weights[:, :, None, None])
    scaled = graph.dequantize(stored, 0.0625, 0)
    added = graph.constant(np.array([bias * unit], np.float32))
    if dense:
        y = graph.node("Add", graph.node("MatMul", x, scaled), added)
    else:
        y = graph.node("Conv", x, scaled, added)
    operators = onnx_graph(graph.save([(graph.quantize(y, unit, 0), np.int8)])).operators
    kinds = g.Dense if dense else g.Conv2D
    assert any(isinstance(entry, kinds) for entry in operators) is read


@pytest.mark.parametrize(
    ("scale", "read"),
    [(0.125, True), (0.125 * (1 + 1e-5), True), (0.25, True), (0.125 * 1.001, False)],
    ids=["the accumulator's", "rounded", "whole steps of it", "another"],
)
def test_integers_of_another_scale_are_no_bias_of_the_accumulator(scale: float, read: bool) -> None:
    """They were rounded to its steps without a word once: onnx:7799 of the fuzzer."""
    graph = Graph()
    x = graph.dequantize(graph.input((2, 3), np.int8), 0.5, 1)
    weights = graph.constant(np.arange(12, dtype=np.int8).reshape(3, 4))
    product = graph.node("MatMul", x, graph.dequantize(weights, 0.25, 0))
    integers = graph.constant(np.array([1, 2, -4, 8], np.int32))
    added = graph.node("Add", product, graph.dequantize(integers, scale, 0, np.int32))
    file = graph.save([(graph.quantize(added, 0.5, -3), np.int8)])
    assert any(isinstance(entry, g.Dense) for entry in onnx_graph(file).operators) is read


def test_zero_points_of_weights_are_taken_off_where_they_fit() -> None:
    fits = dense_of(*quantized_product(weight_zero=-7))
    np.testing.assert_array_equal(fits.weights.T, np.arange(12).reshape(3, 4) + 7)
    assert not fits.weight_zero_points.any()
    not_quite = dense_of(*quantized_product(weight_zero=-120))
    np.testing.assert_array_equal(not_quite.weights.T, np.arange(12).reshape(3, 4))
    np.testing.assert_array_equal(not_quite.weight_zero_points, [-120] * 4)


def test_an_activation_is_a_clamp_in_integers_of_the_output() -> None:
    graph = Graph()
    x = graph.dequantize(graph.input((4,), np.int8), 0.5, 1)
    clipped = graph.node(
        "Clip", x, graph.constant(-1.0, np.float32), graph.constant(6.0, np.float32)
    )
    operator = onnx_graph(graph.save([(graph.quantize(clipped, 0.1, -3), np.int8)])).operators[0]
    assert isinstance(operator, g.Requantize)
    assert (operator.low, operator.high) == (-13, 57)


def test_a_dequantize_by_other_numbers_than_the_quantize_stays_real() -> None:
    """Legal in ONNX, and then no operator on integers: it is read as real numbers, by the host."""
    graph = Graph()
    x = graph.dequantize(graph.input((2, 3), np.int8), 0.5, 1)
    y = graph.quantize(graph.node("Relu", x), 0.25, 0)
    other = graph.dequantize(y, 0.75, 0)
    made = onnx_graph(graph.save([(graph.quantize(graph.node("Softmax", other), 0.5, 0), np.int8)]))
    assert [operator.kind for operator in made.operators] == ["requantize", "host", "quantize"]


@pytest.mark.parametrize("sizes", [(33, 3, 500, 3), (3, 33, 3, 500)])
def test_a_resize_of_which_litert_reads_beyond_the_input_is_refused(
    sizes: tuple[int, int, int, int], tmp_path: Path
) -> None:
    """Its steps of 1/1024 are rounded up: the last of 500 rows begins behind the last of 33. To 510
    they are rounded down."""

    def compiled(*sizes: int, **flags: bool) -> object:
        graph = tflite_builder.Graph()
        x = graph.input((1, *sizes[:2], 1), np.int8, 0.1, 0)
        y = graph.tensor((1, *sizes[2:], 1), np.int8, 0.1, 0)
        size = graph.constant(np.array(sizes[2:], np.int32))
        said = {"align_corners": False, "half_pixel_centers": False} | flags
        graph.operator("RESIZE_BILINEAR", [x, size], [y], **said)
        path = tmp_path / "net.tflite"
        path.write_bytes(graph.save([y]))
        return compile_model(path, "vtaq-1x16x16")

    with pytest.raises(UnsupportedError, match="of which LiteRT reads number 33, beyond the last"):
        compiled(*sizes)
    compiled(*sizes, align_corners=True)
    compiled(*(510 if n == 500 else n for n in sizes))
