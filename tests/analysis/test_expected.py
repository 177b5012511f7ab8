# SPDX-License-Identifier: Apache-2.0
"""analysis/expected.py: an artifact beside the quantized and beside the float network."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from loadstone.analysis.compare import LayerDifferences, difference
from loadstone.analysis.compiled import Compiled
from loadstone.analysis.expected import expected_from
from loadstone.analysis.taps import Tap, taps
from loadstone.artifact.format import BufferView, DataType
from loadstone.compiler import compile, quantize
from loadstone.errors import ConfigError, ModelError
from loadstone.frontend import onnx
from loadstone.frontend.rewrites import canonical
from loadstone.quantization.pipeline import Quantized
from tests.float_models import images, module
from tests.onnx_builder import Graph


@cache
def both(device: str, scheme: str) -> tuple[Quantized, Compiled]:
    quantized = quantize(module(), images(16), scheme=scheme)
    return quantized, compile(quantized, device)


@pytest.mark.parametrize(
    ("device", "scheme"),
    [("vtaq-1x16x16", "affine"), ("vtaq-4x16x16", "affine"), ("vta-pynq", "pow2")],
)
def test_a_quantized_network_is_equal_and_a_float_one_is_near(device: str, scheme: str) -> None:
    quantized, compiled = both(device, scheme)
    for against in (None, "reference", quantized):
        found = compiled.compare(images(6), against=against, sample=5)
        assert found.equal
        assert found.first is None
        assert len(found.layers) > 8
    found = compiled.compare(images(6), against=module(), sample=5)
    noise = {layer.layer: layer.decibels for layer in found.layers}
    assert {"n1", "n5", "n6", "n7", "n8", "n12/int8"} <= noise.keys()
    assert all(ratio is not None and ratio > 25 for ratio in noise.values())
    assert all(layer.from_float for layer in found.layers)


def test_a_layer_that_loses_much_is_seen() -> None:
    """The same network with other weights: from its first convolution on nothing agrees."""
    _, compiled = both("vtaq-1x16x16", "affine")
    found = compiled.compare(images(1), against=module(seed=1))
    noise = {layer.layer: layer.decibels or 0.0 for layer in found.layers}
    assert noise["n1"] < 10
    assert noise["n12/int8"] < 10
    assert noise["in0/nhwc/real1"] > 25, "the image is the same"


def test_an_output_is_not_brought_to_its_size() -> None:
    """Each channel of a tensor inside is compared up to a factor, what has one element is not."""
    rng = np.random.default_rng(0)
    wanted = rng.normal(0, 1, (1, 5, 5, 3)).astype(np.float32)
    view = BufferView("t", (1, 5, 5, 3), DataType.INT8, 0, 0, scale=0.05, zero_point=3)
    got = np.clip(np.rint(wanted * [1, 0.5, 2] / 0.05) + 3, -128, 127).astype(np.int8)
    inside = difference(Tap("t", "t", 0, view), got, wanted)
    assert inside.decibels is not None
    assert inside.decibels > 30
    view = BufferView("t", (1, 3), DataType.INT8, 0, 0, scale=0.05, zero_point=3)
    output = difference(Tap("t", "t", 0, view), got[:, 0, 0], wanted[:, 0, 0])
    assert output.decibels is not None
    assert output.decibels < 10


def test_ports_and_comparisons_say_what_they_are(tmp_path: Path) -> None:
    _, compiled = both("vtaq-1x16x16", "affine")
    (entry,), (result,) = compiled.inputs, compiled.outputs
    assert (entry.name, entry.shape, entry.dtype) == ("in0", (1, 3, 12, 12), np.float32)
    assert result.shape == (1, 5)
    found = compiled.compare({"in0": images(1)}, against="reference")
    assert repr(found) == f"<comparison of {len(found.layers)} layers: all equal>"
    assert isinstance(found, LayerDifferences)
    assert "n12" in found._repr_html_()
    lost = compiled.compare(images(1).tolist(), against=module())
    assert "first different in" in repr(lost)
    compiled.save(tmp_path / "small.lds")
    assert compiled.compare(images(1), against=str(tmp_path / "small.lds")).equal


def test_artifacts_for_devices_that_fold_an_input_otherwise(tmp_path: Path) -> None:
    """Each has the layer's input in the form of its own blocks; the network's tensors are equal."""
    graph, rng = Graph(), np.random.default_rng(0)
    x = graph.dequantize(graph.input((1, 1, 49, 10), np.int8), 0.1, 3)
    levels = graph.constant(rng.integers(-90, 90, (16, 1, 10, 4)), np.int8)
    weights = graph.dequantize(levels, 0.02, 0)
    y = graph.quantize(graph.node("Conv", x, weights, strides=[2, 2]), 0.5, -4)
    (tmp_path / "net.onnx").write_bytes(graph.save([(y, np.int8)], [(1, 16, 20, 4)]))
    folded, other = (compile(tmp_path / "net.onnx", f"vtaq2-{k}") for k in ("1x16x16", "tiny"))
    other.save(tmp_path / "tiny.lds")
    sizes = [
        {t.name: np.prod(t.shape) for t in each.artifact.tensors if " for " in t.name}
        for each in (folded, other)
    ]
    assert any(sizes[0][name] != sizes[1][name] for name in sizes[0].keys() & sizes[1].keys())
    image = rng.integers(-128, 128, (1, 1, 1, 49, 10)).astype(np.int8)
    found = folded.compare(image, against=str(tmp_path / "tiny.lds"))
    assert found.equal
    assert found.layers


def test_scratch_of_the_host_is_compared_as_often_as_it_is_written() -> None:
    """Steps of one layer write it in turn, here with what a ReLU reads, and later with its size."""
    graph, rng = Graph(), np.random.default_rng(0)
    hidden = graph.node(
        "MatMul", graph.input((2, 64), np.float32), graph.constant(rng.normal(size=(64, 48)), "f4")
    )
    y = graph.node(
        "MatMul", graph.node("Relu", hidden), graph.constant(rng.normal(size=(48, 33)), "f4")
    )
    model = canonical(onnx.from_bytes(graph.save([(y, np.float32)], [(2, 33)]), "net.onnx"))
    rows = rng.normal(size=(1, 2, 64)).astype(np.float32)
    compiled = compile(quantize(model, rows, scheme="dynamic"), "vtaq2-1x16x16")
    names = [(tap.name, tap.step) for tap in taps(compiled.artifact) if tap.stores is None]
    assert any(name == other and at < later for name, at in names for other, later in names)
    for against in ("reference", "sim:vtaq2-1x16x16"):
        assert compiled.compare(rows, against=against).equal


def test_mistakes() -> None:
    _, compiled = both("vtaq-1x16x16", "affine")
    graph = Graph()
    x = graph.input((1, 4), np.float32)
    y = graph.node("MatMul", x, graph.constant(np.ones((4, 2)), np.float32))
    other = canonical(onnx.from_bytes(graph.save([(y, np.float32)]), "other.onnx"))
    with pytest.raises(ModelError, match=r"has inputs \[\[1, 4\]\], model \[\[1, 3, 12, 12\]\]"):
        compiled.compare(images(1), against=other)
    (tmp,) = [image[None] for image in images(1)]
    with pytest.raises(ConfigError, match="--framework runs a model's file"):
        expected_from("sim", compiled.artifact, [tmp], framework=True)
