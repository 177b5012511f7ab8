# SPDX-License-Identifier: Apache-2.0
"""frontend/phases.py: transposed convolutions are convolutions, on the device, with ONNX Runtime's
integers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")

from loadstone.compiler import compile
from loadstone.frontend import onnx as onnx_reader
from loadstone.frontend.rewrites import canonical
from loadstone.quantization.fold import fold
from tests.onnx_builder import Graph, run
from tests.quantization.onnx_export import exported

RNG = np.random.default_rng(5)
#: Kernel, stride, pads, output padding; what no stride reaches, and what reaches twice.
FORMS = (
    ((2, 2), (2, 2), (0, 0, 0, 0), (0, 0)),
    ((3, 3), (2, 2), (1, 1, 1, 1), (1, 1)),
    ((4, 5), (2, 3), (1, 2, 1, 0), (0, 1)),
    ((3, 2), (1, 1), (2, 0, 0, 1), (0, 0)),
    ((2, 3), (3, 4), (0, 0, 0, 0), (0, 2)),
)


@pytest.mark.parametrize(("kernel", "strides", "pads", "more"), FORMS)
def test_real_numbers(kernel: tuple[int, ...], strides: object, pads: object, more: object) -> None:
    """With a bias and what follows it; no transposed convolution is left."""
    graph = Graph()
    x = graph.input((1, 3, 4, 5), np.float32)
    weights = graph.constant(RNG.normal(size=(3, 2, *kernel)), np.float32)
    bias = graph.constant(RNG.normal(size=2), np.float32)
    options = {"strides": strides, "pads": pads, "output_padding": more}
    y = graph.node("Sigmoid", graph.node("ConvTranspose", x, weights, bias, **options))
    model = graph.save([(y, np.float32)])
    module = canonical(onnx_reader.from_bytes(model, "made by a test"))
    assert "transpose(" not in str(module["main"])
    image = RNG.normal(size=(1, 3, 4, 5)).astype(np.float32)
    wanted = run(model, [image])[0]
    (found,) = run(exported(fold(module)), [image])
    np.testing.assert_allclose(found.reshape(wanted.shape), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("many", [False, True], ids=["one scale", "a scale per channel"])
@pytest.mark.parametrize("line", [False, True], ids=["images", "lines"])
def test_integers_on_the_device(tmp_path: Path, *, many: bool, line: bool) -> None:
    """As quantize_static writes it: weights and bias quantized, a ReLU behind."""
    space, kernel = ((40,), (4,)) if line else ((4, 5), (3, 3))
    options = {"strides": [2] * len(space), "pads": [1] * (2 * len(space))}
    graph = Graph()
    x = graph.dequantize(graph.input((1, 20, *space), np.int8), 0.05, 3)
    integers = RNG.integers(-127, 128, (20, 6, *kernel)).astype(np.int8)
    scales = RNG.uniform(0.001, 0.01, 6).astype(np.float32) if many else np.float32(0.004)
    zeros = np.zeros(6) if many else 0
    weights = graph.dequantize(graph.constant(integers), scales, zeros, axis=1)
    steps = graph.constant(RNG.integers(-900, 900, 6).astype(np.int32))
    bias = graph.dequantize(steps, scales * np.float32(0.05), zeros, np.int32, axis=0)
    y = graph.node("Relu", graph.node("ConvTranspose", x, weights, bias, **options))
    model = graph.save([(graph.quantize(y, 0.12, -128), np.int8)])
    (tmp_path / "m.onnx").write_bytes(model)
    found = compile(tmp_path / "m.onnx", "vtaq-1x16x16")
    data = RNG.integers(-128, 128, (1, 20, *space)).astype(np.int8)
    wanted = run(model, [data])[0]
    assert len(np.unique(wanted)) > 40
    np.testing.assert_array_equal(found.run(data[None])[0][0], wanted)
    rows = found.explain()
    assert [row["kind"] for row in rows if row["where"] != "host"] == ["conv2d"]
    assert not any(row["kind"] in ("host", "dequantize", "quantize") for row in rows)


@pytest.mark.parametrize("groups", [2, 8])
@pytest.mark.parametrize(("kernel", "strides", "pads", "more"), FORMS)
def test_real_numbers_of_groups(
    kernel: tuple[int, ...], strides: object, pads: object, more: object, groups: int
) -> None:
    """Of one channel each at last, and of several."""
    graph = Graph()
    x = graph.input((1, 8, 4, 5), np.float32)
    each = 1 if groups == 8 else 3
    weights = graph.constant(RNG.normal(size=(8, each, *kernel)), np.float32)
    bias = graph.constant(RNG.normal(size=each * groups), np.float32)
    options = {"strides": strides, "pads": pads, "output_padding": more, "group": groups}
    y = graph.node("Sigmoid", graph.node("ConvTranspose", x, weights, bias, **options))
    model = graph.save([(y, np.float32)])
    module = canonical(onnx_reader.from_bytes(model, "made by a test"))
    assert "transpose(" not in str(module["main"])
    image = RNG.normal(size=(1, 8, 4, 5)).astype(np.float32)
    (wanted,) = run(model, [image])
    (found,) = run(exported(fold(module)), [image])
    np.testing.assert_allclose(found.reshape(wanted.shape), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("target", ["vtaq-1x16x16", "vta-pynq"])
@pytest.mark.parametrize("line", [False, True], ids=["images", "lines"])
@pytest.mark.parametrize(
    ("groups", "inputs", "each", "scales"),
    [(20, 20, 1, "one"), (20, 20, 1, "inputs"), (2, 32, 16, "outputs")],
)
def test_integers_of_groups_on_the_device(
    tmp_path: Path, groups: int, inputs: int, each: int, scales: str, target: str, *, line: bool
) -> None:
    """Depthwise, and of groups as wide as a tile. A scale of each output of a group, or of each
    input, which depthwise is an output."""
    space, kernel = ((24,), (4,)) if line else ((4, 5), (3, 3))
    options = {"strides": [2] * len(space), "pads": [1] * (2 * len(space)), "group": groups}
    axis, count = {"one": (1, 1), "outputs": (1, each), "inputs": (0, inputs)}[scales]
    graph, random = Graph(), np.random.default_rng(7)
    x = graph.dequantize(graph.input((1, inputs, *space), np.int8), 2**-5, 3)
    integers = random.integers(-127, 128, (inputs, each, *kernel)).astype(np.int8)
    grid = 2.0 ** random.integers(-9, -6, count)
    own = [grid.astype(np.float32), np.zeros(count)] if count > 1 else [grid[0], 0]
    weights = graph.dequantize(graph.constant(integers), *own, axis=axis)
    bias = graph.constant(2.0 ** random.integers(-3, 2, each * groups), np.float32)
    y = graph.node("Relu", graph.node("ConvTranspose", x, weights, bias, **options))
    model = graph.save([(graph.quantize(y, 2**-4, -128), np.int8)])
    (tmp_path / "m.onnx").write_bytes(model)
    found = compile(tmp_path / "m.onnx", target)
    rows = found.explain()
    assert [row["kind"] for row in rows if row["where"] != "host"] == ["conv2d"]
    assert not any(row["kind"] in ("host", "dequantize", "quantize") for row in rows)
    assert not found.python_steps
    data = random.integers(-128, 128, (2, 1, inputs, *space)).astype(np.int8)
    for sample, out in zip(data, found.run(data)[0], strict=True):
        (wanted,) = run(model, [sample])
        assert len(np.unique(wanted)) > 40
        np.testing.assert_array_equal(out, wanted)


def test_what_is_no_set_of_phases_stays(tmp_path: Path) -> None:
    """Dilation: computed as it is, in C."""
    graph = Graph()
    x = graph.input((1, 4, 4, 4), np.float32)
    weights = graph.constant(RNG.normal(size=(4, 3, 2, 2)), np.float32)
    y = graph.node("ConvTranspose", x, weights, dilations=[2, 2], strides=[2, 2])
    model = graph.save([(y, np.float32)])
    (tmp_path / "m.onnx").write_bytes(model)
    found = compile(tmp_path / "m.onnx", "vtaq-tiny", as_float=True)
    assert not found.python_steps
    image = RNG.normal(size=(1, 4, 4, 4)).astype(np.float32)
    wanted = run(model, [image])[0]
    np.testing.assert_allclose(found.run(image[None])[0][0], wanted, rtol=1e-5, atol=1e-6)
