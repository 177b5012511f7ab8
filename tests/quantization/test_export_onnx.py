# SPDX-License-Identifier: Apache-2.0
"""quantization/export_onnx.py: the file is standard ONNX; ONNX Runtime runs it, Loadstone reads it,
and both give what the module means."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from loadstone.errors import UnsupportedError
from loadstone.frontend import load
from loadstone.frontend import onnx as onnx_reader
from loadstone.frontend.rewrites import canonical
from loadstone.graph.reference import run as run_graph
from loadstone.partition.eager import partition
from loadstone.quantization.export_onnx import export_onnx
from loadstone.quantization.fold import fold
from loadstone.quantization.options import Options
from loadstone.quantization.pipeline import prepare, quantize_prepared
from loadstone.quantization.simulate import FakeQuantizedRunner
from tests import images as photographs
from tests.float_models import images, runner
from tests.onnx_builder import Graph, run
from tests.onnx_layers import Layers
from tests.quantization.onnx_export import exported
from tests.repeat import more

FLOAT_MODELS = (
    *(
        "mlpt_resnet8_f32.tflite",
        "mlpt_vww_f32.tflite",
        "mlpt_ad_f32.tflite",
        "mnv1_0.25_128_f32.tflite",
        "arm_kwt1_f32.tflite",
    ),
    *(
        "st_mnv2_0.5_128_f32.onnx",
        "squeezenet_f32.onnx",
        "winml_squeezenet_fp16.onnx",
        "ulfg_slim_320_f32.onnx",
        "mnist8_f32.onnx",
    ),
    "mlonmcu_micro_kws_m_f32.onnx",
)


def test_float_and_quantized_give_what_the_module_means() -> None:
    found = quantize_prepared(runner(), images(8), outputs=["scores"])
    model = export_onnx(found.module, found.outputs, {"loadstone.scheme": "affine"})
    assert [value.name for value in model.graph.input] == ["in0"]
    assert [value.name for value in model.graph.output] == ["scores"]
    assert model.metadata_props[0].key == "loadstone.scheme"
    kinds = {node.op_type for node in model.graph.node}
    assert {
        "QuantizeLinear",
        "DequantizeLinear",
        "Conv",
        "Gemm",
        "Concat",
        "Add",
        "MaxPool",
    } <= kinds
    assert "Transpose" not in kinds  # the network is NCHW, and so is ONNX
    graph = partition(found.module, [], "small").graph
    step = found.report["layers"][-1]["scale"]
    for image in images(4, seed=1):
        wanted = run_graph(graph, [image])[0]
        for optimize in (False, True):
            assert (
                np.abs(run(model.SerializeToString(), [image], optimize=optimize)[0] - wanted).max()
                <= 1.01 * step
            )


def test_the_file_reads_back_as_the_same_integers() -> None:
    found = quantize_prepared(runner(), images(8), outputs=["scores"])
    model = export_onnx(found.module, found.outputs).SerializeToString()
    graphs = [
        partition(entry, [], "small").graph
        for entry in (found.module, canonical(onnx_reader.from_bytes(model, "exported")))
    ]
    for image in images(4, seed=1):
        np.testing.assert_array_equal(*(run_graph(graph, [image])[0] for graph in graphs))


@pytest.mark.full
@pytest.mark.parametrize("file", FLOAT_MODELS)
def test_real_float_networks_keep_their_golden_outputs(shared: Path, file: str) -> None:
    golden = np.load(shared / "models" / "golden" / f"{file}.npz")
    count = sum(name.startswith("out") for name in golden.files)
    model = exported(fold(load(shared / "models" / file)), count)
    for index, output in enumerate(run(model, [golden["in0"][0]])):
        wanted = golden[f"out{index}"][0].astype(np.float32)
        tolerance = 2e-3 if "fp16" in file else 1e-4
        np.testing.assert_allclose(
            output.astype(np.float32),
            wanted,
            rtol=tolerance,
            atol=tolerance * max(1.0, np.abs(wanted).max() * 0.01),
        )


@pytest.mark.parametrize(
    "operator", ["Sigmoid", "Tanh", "LeakyRelu", "Softmax", "Sqrt", "Erf", "Abs"]
)
def test_float_operators_survive(operator: str) -> None:
    graph = Graph()
    x = graph.node("Abs", graph.input((1, 3, 4, 4), np.float32))
    model = graph.save([(graph.node(operator, x), np.float32)], [(1, 3, 4, 4)])
    found = exported(fold(canonical(onnx_reader.from_bytes(model, "made by a test"))))
    image = np.random.default_rng(0).normal(size=(1, 3, 4, 4)).astype(np.float32)
    np.testing.assert_allclose(run(found, [image])[0], run(model, [image])[0], rtol=1e-5, atol=1e-6)


def test_slopes_and_transposed_convolutions_survive() -> None:
    rng, graph = np.random.default_rng(0), Graph()
    x = graph.node(
        "PRelu",
        graph.input((1, 3, 4, 5), np.float32),
        graph.constant(rng.normal(size=(3, 1, 1)), np.float32),
    )
    weights = graph.constant(rng.normal(size=(3, 2, 2, 3)), np.float32)
    y = graph.node(
        "ConvTranspose", x, weights, strides=[2, 1], pads=[0, 1, 1, 0], output_padding=[1, 0]
    )
    model = graph.save([(y, np.float32)], [(1, 2, 8, 6)])
    found = exported(fold(canonical(onnx_reader.from_bytes(model, "made by a test"))))
    image = rng.normal(size=(1, 3, 4, 5)).astype(np.float32)
    np.testing.assert_allclose(run(found, [image])[0], run(model, [image])[0], rtol=1e-5, atol=1e-5)


def test_reductions_and_choices_survive() -> None:
    graph = Graph()
    x = graph.input((1, 3, 4, 4), np.float32)
    largest, least = (
        graph.node(kind, x, axes=[2, 3], keepdims=1) for kind in ("ReduceMax", "ReduceMin")
    )
    total = graph.node("ReduceSum", x, graph.constant([1], np.int64), keepdims=1)
    spread = graph.node(
        "Expand",
        graph.node("Add", graph.node("Mul", largest, least), total),
        graph.constant([1, 3, 4, 4], np.int64),
    )
    chosen = graph.node(
        "Where", graph.node("Less", graph.node("Cos", x), graph.node("Sin", x)), spread, x
    )
    model = graph.save(
        [(graph.node("Where", graph.node("Greater", x, spread), spread, chosen), np.float32)],
        [(1, 3, 4, 4)],
    )
    found = exported(fold(canonical(onnx_reader.from_bytes(model, "made by a test"))))
    image = np.random.default_rng(0).normal(size=(1, 3, 4, 4)).astype(np.float32)
    np.testing.assert_allclose(run(found, [image])[0], run(model, [image])[0], rtol=1e-5, atol=1e-6)


def test_an_operator_without_an_onnx_form_is_named() -> None:
    graph = Graph()
    model = graph.save(
        [
            (
                graph.node("CumSum", graph.input((1, 8), np.float32), graph.constant(1, np.int64)),
                np.float32,
            )
        ],
        [(1, 8)],
    )
    with pytest.raises(UnsupportedError, match="cumsum has no ONNX form") as caught:
        exported(canonical(onnx_reader.from_bytes(model, "made by a test")))
    assert "\n" not in str(caught.value)


@cache
def real(shared: Path, file: str) -> tuple[FakeQuantizedRunner, Any]:
    """A float network, compiled once for both schemes, and 12 crops of photographs."""
    model = next(entry for entry in photographs.MODELS if entry.file == file)
    return prepare(load(shared / "models" / file)), photographs.prepare(model, shared, 12)


@pytest.mark.parametrize(
    ("file", "scheme"),
    [
        ("small", "affine"),
        ("small", "pow2"),
        ("small", "pow2, half up"),
        pytest.param("mlpt_ad_f32.tflite", "affine", marks=[pytest.mark.full, more]),
        pytest.param("mlpt_ad_f32.tflite", "pow2", marks=pytest.mark.full),
        pytest.param("mlpt_resnet8_f32.tflite", "affine", marks=pytest.mark.full),
        pytest.param("mlpt_resnet8_f32.tflite", "pow2", marks=[pytest.mark.full, more]),
        pytest.param("mlpt_resnet8_f32.tflite", "pow2, half up", marks=[pytest.mark.full, more]),
    ],
)
def test_every_layer_of_the_exported_file_is_what_the_simulator_computes(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    file: str,
    scheme: str,
    figure: Callable[[str], None],
) -> None:
    """float32 numerics (docs/numerics.md): every layer alone, from the same integers. Sums on the
    edge of two integers are counted."""
    compiled, samples = (
        (runner(), images(12)) if file == "small" else real(request.getfixturevalue("shared"), file)
    )
    options = Options(scheme=scheme.partition(",")[0], half_up=scheme.endswith("half up"))
    quantize_prepared(compiled, samples[:8], options).save(tmp_path / "model.onnx")
    layers = Layers(tmp_path / "model.onnx")
    layers.compare("vtaq-1x16x16" if scheme == "affine" else "vta-pynq", samples[8:])
    figure(
        f"{file} {scheme}: {len(layers.names)} layers, {layers.different} of "
        f"{layers.elements} elements differ, by {layers.largest}"
    )
    assert len(layers.names) >= 8
    assert layers.different <= 1e-5 * layers.elements
    assert layers.largest <= 1


def test_a_layer_that_is_wrong_is_counted(tmp_path: Path) -> None:
    """The comparison above can fail: one weight, changed in the file that ONNX Runtime reads."""
    path = tmp_path / "model.onnx"
    quantize_prepared(runner(), images(8)).save(path)
    layers = Layers(path)
    weights = next(
        entry
        for entry in layers.constants.values()
        if entry.data_type == onnx.TensorProto.INT8 and len(entry.dims) == 4
    )
    array = numpy_helper.to_array(weights).copy()
    array[0] //= 2
    weights.CopyFrom(numpy_helper.from_array(array, weights.name))
    layers.compare("vtaq-1x16x16", images(2, seed=3))
    assert layers.different > 10
