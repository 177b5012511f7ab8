# SPDX-License-Identifier: Apache-2.0
"""partition/patterns/weighted.py: a sum that some input lets wrap is no sum of the device, a
channel of scale 0 is one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnx", reason="onnx is not installed")

import onnx

from loadstone.compiler import compile
from loadstone.frontend import import_model
from loadstone.relax.compat import constant, is_constant, tvm, value
from loadstone.relax.rewriter import Rewriter
from tests import onnx_builder, tflite_builder
from tests.onnx_builder import Graph

if TYPE_CHECKING:
    from loadstone.relax.types import Expr

CHANNELS, ZERO_POINT = 4, 3
LAYERS = ("Conv", "depthwise", "ConvTranspose", "Gemm")


def layer(kind: str, biases: list[int], sign: int = 1) -> tuple[bytes, tuple[int, ...]]:
    """Weights of 100 * sign; their scale is so small that biases of 2^31 steps are some units of
    the output."""
    graph, scale = Graph(), 1e-9
    shape = (1, CHANNELS) if kind == "Gemm" else (1, CHANNELS, 6, 6)
    extents = {
        "Conv": (CHANNELS, CHANNELS, 3, 3),
        "depthwise": (CHANNELS, 1, 3, 3),
        "ConvTranspose": (CHANNELS, CHANNELS, 2, 2),
        "Gemm": (CHANNELS, CHANNELS),
    }[kind]
    x = graph.dequantize(graph.input(shape, np.int8), 0.05, ZERO_POINT)
    weights = graph.dequantize(graph.constant(np.full(extents, 100 * sign), np.int8), scale, 0)
    bias = graph.dequantize(graph.constant(biases, np.int32), 0.05 * scale, 0, np.int32)
    given: dict[str, Any] = {"group": CHANNELS} if kind == "depthwise" else {}
    if kind == "ConvTranspose":
        given["strides"] = [2, 2]
    operator = "Conv" if kind == "depthwise" else kind
    y = graph.quantize(graph.node(operator, x, weights, bias, **given), 0.01, 0)
    return graph.save([(y, np.int8)]), shape


def most(kind: str) -> int:
    """The largest sum of products: inputs of the zero point's far end."""
    taps = {"Conv": 36, "depthwise": 9, "ConvTranspose": 4, "Gemm": 4}[kind]
    return taps * 100 * (128 + ZERO_POINT)


@pytest.mark.parametrize("target", ["vtaq-1x16x16", "vta-pynq"])
@pytest.mark.parametrize("kind", LAYERS)
def test_a_sum_that_can_wrap_stays_on_the_host_and_is_right(
    kind: str, target: str, tmp_path: Path
) -> None:
    """Quantizers saturate a bias of small weights: the device's accumulator would wrap."""
    data, shape = layer(kind, [2**31 - 1, -(2**31), 7, -5], -1)
    (tmp_path / "m.onnx").write_bytes(data)
    made = compile(tmp_path / "m.onnx", target)
    said = " ".join(row["why"] + row["remedy"] for row in made.explain())
    assert "its sum of channel" in said
    assert "int32 holds" in said
    assert "makes the bias smaller" in said
    x = np.random.default_rng(0).integers(-128, 128, (8, *shape)).astype(np.int8)
    got = made.run(x)[0]
    for sample, out in zip(x, got, strict=True):
        np.testing.assert_array_equal(out, onnx_builder.run(data, [sample])[0])


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("sign", [-1, 1])
def test_the_limit_is_that_of_the_sum_and_not_of_the_bias(
    kind: str, sign: int, tmp_path: Path
) -> None:
    """weights * (input - zero point) reaches its end where the input does."""
    largest = 2**31 - 1 - most(kind) if sign < 0 else -(2**31) + most(kind)
    for bias, where in ((largest, "vta"), (largest - sign, "host")):
        data, shape = layer(kind, [bias, 0, 0, 0], sign)
        (tmp_path / "m.onnx").write_bytes(data)
        made = compile(tmp_path / "m.onnx", "vtaq-1x16x16")
        places = [row["where"] for row in made.explain() if row["kind"] in ("conv2d", "dense")]
        assert places == (["vta"] if where == "vta" else [])
        ends = np.stack([np.full(shape, end, np.int8) for end in (-128, 127)])
        got = made.run(ends)[0]
        for sample, out in zip(ends, got, strict=True):
            np.testing.assert_array_equal(out, onnx_builder.run(data, [sample])[0])


@pytest.mark.parametrize("target", ["vtaq-1x16x16", "vta-pynq"])
def test_a_sum_of_tflite_wraps_as_litert_lets_it(target: str, tmp_path: Path) -> None:
    """Its kernels add in int32, whatever comes of it."""
    graph, scale = tflite_builder.Graph(), 1e-9
    x = graph.input((1, 6, 6, CHANNELS), np.int8, scale=0.05, zero_point=ZERO_POINT)
    scales = [scale] * CHANNELS
    kernels = np.full((CHANNELS, 3, 3, CHANNELS), -100, np.int8)
    weights = graph.constant(kernels, scale=scales, zero_point=[0] * CHANNELS)
    biases = np.array([2**31 - 1, -(2**31), 7, -5], np.int32)
    bias = graph.constant(biases, scale=[0.05 * scale] * CHANNELS, zero_point=[0] * CHANNELS)
    y = graph.tensor((1, 4, 4, CHANNELS), np.int8, scale=0.01, zero_point=0)
    valid = tflite_builder.Padding.VALID
    graph.operator("CONV_2D", [x, weights, bias], [y], padding=valid, stride_h=1, stride_w=1)
    data = graph.save(outputs=[y])
    (tmp_path / "m.tflite").write_bytes(data)
    x_all = np.random.default_rng(0).integers(-128, 128, (8, 1, 6, 6, CHANNELS)).astype(np.int8)
    got = compile(tmp_path / "m.tflite", target).run(x_all)[0]
    wanted = [next(iter(tflite_builder.run(data, {0: sample}))) for sample in x_all]
    assert {-11, 11} <= set(np.stack(wanted)[..., 0].ravel())  # some of them wrap
    np.testing.assert_array_equal(got, np.stack(wanted))


#: A scale that no other constant has, until it is 0: importers refuse that of a damaged file.
MARKER = 2.0**-20


class Marked(Rewriter):
    """The scales that are marked, 0."""

    def mapped(self, expr: Expr) -> Expr:
        if is_constant(expr) and value(expr).dtype == np.float32:
            return constant(np.where(value(expr) == np.float32(MARKER), 0, value(expr)))
        return super().mapped(expr)


def with_dead_channels(kind: str, bias: str, dead: list[int], mark: float) -> tuple[bytes, Any]:
    """Scales are powers of two, so that no sum depends on its order."""
    graph, random = Graph(), np.random.default_rng(5)
    scales = 2.0 ** random.integers(-9, -6, 8)
    scales[dead] = mark
    shape = (1, 4) if kind == "Gemm" else (1, 4, 6, 6)
    x = graph.dequantize(graph.input(shape, np.int8), 2**-5, 3)
    weights = graph.constant(
        random.integers(-99, 99, {"Gemm": (8, 4)}.get(kind, (8, 4, 3, 3))), np.int8
    )
    none = np.zeros(8, np.int8)
    inputs = [x, graph.dequantize(weights, scales.astype(np.float32), none, axis=0)]
    if bias == "real":
        inputs.append(graph.constant(2.0 ** random.integers(-3, 3, 8), np.float32))
    elif bias == "int32":
        integers = graph.constant(random.integers(-999, 999, 8), np.int32)
        own = np.where(scales == mark, mark, scales * 2**-5).astype(np.float32)
        inputs.append(graph.dequantize(integers, own, none.astype(np.int32), np.int32, axis=0))
    given = {"transB": 1} if kind == "Gemm" else {}
    y = graph.quantize(graph.node(kind, *inputs, **given), 2**-4, 5)
    return graph.save([(y, np.int8)]), shape


@pytest.mark.parametrize("target", ["vtaq-1x16x16", "vta-pynq"])
@pytest.mark.parametrize("bias", ["none", "real", "int32"])
@pytest.mark.parametrize("kind", ["Conv", "Gemm"])
@pytest.mark.parametrize("dead", [[2, 5], list(range(8))])
def test_a_channel_of_scale_0_is_its_bias(
    dead: list[int], kind: str, bias: str, target: str
) -> None:
    """On the device."""
    wanted, shape = with_dead_channels(kind, bias, dead, 0.0)
    marked, _ = with_dead_channels(kind, bias, dead, MARKER)
    module = import_model(onnx.load_from_string(marked))
    main = Marked(module["main"]).run()
    made = compile(tvm.IRModule({"main": main}), target)
    assert {row["where"] for row in made.explain() if row["kind"] in ("conv2d", "dense")} == {"vta"}
    x = np.random.default_rng(6).integers(-128, 128, (4, *shape)).astype(np.int8)
    for sample, out in zip(x, made.run(x)[0], strict=True):
        np.testing.assert_array_equal(out, onnx_builder.run(wanted, [sample])[0])
