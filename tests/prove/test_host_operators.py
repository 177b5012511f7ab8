# SPDX-License-Identifier: Apache-2.0
"""prove/host_operators.py: operators that the host computes from data are proved with their own
constants, and with no others."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadstone.artifact.format import Artifact, HostStep
from loadstone.artifact.host_operators import COPY_PARAMETERS
from loadstone.artifact.host_step import HostOpcode
from loadstone.compiler import compile as compile_model
from loadstone.prove.network import ModelNetwork
from loadstone.prove.proof import Proof
from loadstone.prove.read_onnx import read_onnx
from loadstone.prove.read_tflite import read_tflite
from loadstone.prove.verdict import Status
from tests.onnx_builder import Graph as OnnxGraph
from tests.prove.comparison import MODELS
from tests.prove.networks import state
from tests.tflite_builder import Graph

Said = dict[str, Any]


def dense(graph: OnnxGraph) -> str:
    """Levels behind a layer that the device computes."""
    x = graph.dequantize(graph.input((1, 16), np.int8), 0.05, 3)
    weights = np.random.default_rng(1).integers(-90, 90, (16, 10)).astype(np.int8)
    w = graph.dequantize(graph.constant(weights), 0.02, 0)
    return graph.dequantize(graph.quantize(graph.node("MatMul", x, w), 0.1, -4), 0.1, -4)


def image(graph: OnnxGraph) -> str:
    return graph.dequantize(graph.input((1, 6, 5, 5), np.int8), 0.05, 3)


def softmax(graph: OnnxGraph) -> str:
    return graph.quantize(graph.node("Softmax", dense(graph), axis=1), 1 / 256, -128)


def mean(graph: OnnxGraph) -> str:
    return graph.quantize(graph.node("ReduceMean", image(graph), axes=[1], keepdims=1), 0.04, 3)


def pool(graph: OnnxGraph) -> str:
    x = image(graph)
    y = graph.node("AveragePool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    return graph.quantize(y, 0.04, 3)


def of_onnx(make: Callable[[OnnxGraph], str], folder: Path) -> tuple[ModelNetwork, Artifact]:
    graph = OnnxGraph()
    path = folder / "net.onnx"
    path.write_bytes(graph.save([(make(graph), np.int8)]))
    network = read_onnx(path.read_bytes(), "net.onnx")
    return network, compile_model(path, "vtaq-1x16x16").artifact


def resized(
    folder: Path,
    dtype: type[np.generic] = np.int8,
    sizes: tuple[int, int, int, int] = (4, 5, 7, 11),
    **said: bool,
) -> tuple[ModelNetwork, Artifact]:
    """sizes: rows and columns of the input and of the output."""
    graph = Graph()
    x = graph.input((1, *sizes[:2], 3), dtype, 0.05, 3)
    y = graph.tensor((1, *sizes[2:], 3), dtype, 0.05, 3)
    size = graph.constant(np.array(sizes[2:], np.int32))
    said = said or {"align_corners": False, "half_pixel_centers": True}
    graph.operator("RESIZE_BILINEAR", [x, size], [y], **said)
    path = folder / "net.tflite"
    path.write_bytes(graph.save([y]))
    network = read_tflite(path.read_bytes(), "net.tflite")
    return network, compile_model(path, "vtaq-1x16x16").artifact


def changed(artifact: Artifact, change: Callable[[Said], object]) -> Artifact:
    """The artifact with another description of the operator that its host computes."""
    steps = list(artifact.steps)
    at = [k for k, s in enumerate(steps) if isinstance(s, HostStep) and s.function]
    (number,) = at
    step = steps[number]
    assert isinstance(step, HostStep)
    said = json.loads(step.attributes)
    change(said)
    steps[number] = replace(step, attributes=json.dumps(said))
    return replace(artifact, steps=tuple(steps))


def verdict(network: ModelNetwork, artifact: Artifact) -> Status:
    return Proof.attempt(network, artifact).status


def grid(side: int, place: int, value: float) -> Callable[[Said], object]:
    return lambda said: said["tensors"][side][0][3].__setitem__(place, value)


def field(name: str, value: object) -> Callable[[Said], object]:
    return lambda said: said["fields"].__setitem__(name, value)


GRIDS = [grid(0, 0, 0.5), grid(1, 0, 0.5), grid(0, 1, 7), grid(1, 1, 7)]


@pytest.mark.parametrize(
    ("make", "changes"),
    [
        (softmax, [*GRIDS, field("rounding", 0)]),
        (mean, [*GRIDS, field("axes", [2]), field("low", -100), field("rounding", 0)]),
        (pool, [*GRIDS, field("padding", [1, 1, 0, 0]), field("count_include_pad", True)]),
    ],
)
def test_operators_of_onnx(
    make: Callable[[OnnxGraph], str], changes: list[Callable[[Said], object]], tmp_path: Path
) -> None:
    network, artifact = of_onnx(make, tmp_path)
    described = [s for s in artifact.steps if isinstance(s, HostStep) and s.function]
    assert len(described) == 1, "the device computes it now: draw another case"
    assert verdict(network, artifact) is Status.PROVED
    for change in changes:
        assert verdict(network, changed(artifact, change)) is not Status.PROVED


def test_a_resize_of_litert(tmp_path: Path) -> None:
    network, artifact = resized(tmp_path)
    assert verdict(network, artifact) is Status.PROVED
    for change in (field("half_pixel_centers", False), field("align_corners", True)):
        assert verdict(network, changed(artifact, change)) is Status.NOT_PROVED


def test_levels_of_uint8_are_not_read_as_int8(tmp_path: Path) -> None:
    """The average of bytes that were copied and not flipped. Of so many elements the symbols of
    flipped bytes are, counted from the last one, those of the elements in another order."""
    graph = Graph()
    x, z = (graph.input(shape, np.uint8, 0.05, 3) for shape in ((1, 16, 16, 1), (1, 256)))
    y, other = (graph.tensor(shape, np.uint8, 0.05, 3) for shape in ((1, 1), (256, 1)))
    axes = graph.constant(np.array([1, 2], np.int32))
    graph.operator("MEAN", [x, axes], [y], keep_dims=False)
    graph.operator("RESHAPE", [z], [other], new_shape=[256, 1])
    path = tmp_path / "net.tflite"
    path.write_bytes(graph.save([y, other]))
    network = read_tflite(path.read_bytes(), "net.tflite")
    artifact = compile_model(path, "vta-pynq").artifact
    assert verdict(network, artifact) is Status.PROVED
    numbers = dict.fromkeys(COPY_PARAMETERS, 0) | {f"extent_{k}": 1 for k in range(1, 6)}
    numbers |= {"extent_0": 256, "in_stride_0": 1, "out_stride_0": 1}
    steps = list(artifact.steps)
    flip = steps[0]
    assert isinstance(flip, HostStep)
    assert flip.opcode == HostOpcode.LOOKUP
    steps[0] = HostStep("copy", HostOpcode.COPY, flip.inputs[:1], flip.outputs, numbers)
    said = Proof.attempt(network, replace(artifact, steps=tuple(steps)))
    assert said.status is Status.UNSUPPORTED
    assert said.reason.endswith("levels of uint8 as int8")


def test_a_resize_of_uint8_by_exact_weights(tmp_path: Path) -> None:
    """Of sixteenths, with sums that lie on a half."""
    network, artifact = resized(tmp_path, np.uint8, (2, 3, 17, 33), align_corners=True)
    assert verdict(network, artifact) is Status.PROVED
    for change in (field("half_pixel_centers", True), field("align_corners", False)):
        assert verdict(network, changed(artifact, change)) is not Status.PROVED


@pytest.mark.parametrize("side", [0, 1])
def test_a_wrong_weight_of_a_resize_is_refused(side: int, tmp_path: Path) -> None:
    """The artifact has the right one: the network's side has one weight that is a sixty-fourth
    off, and the artifact's, whose own weights are not data, is compared with it."""
    network, artifact = resized(tmp_path, np.uint8, (2, 3, 17, 33), align_corners=True)
    (operator,) = network.operators
    name = ("rows", "columns")[side]
    lower, upper, weights = operator.attributes[name]  # type: ignore[misc]
    wrong = weights.copy()
    wrong[5] += np.float32(1 / 64)
    spoilt = replace(operator, attributes={**operator.attributes, name: (lower, upper, wrong)})
    said = Proof.attempt(replace(network, operators=(spoilt,)), artifact)
    assert said.status is Status.NOT_PROVED
    assert said.reason.count("First at RESIZE_BILINEAR") == 1


def test_a_resize_of_uint8_by_rounded_weights_is_not_covered(tmp_path: Path) -> None:
    """LiteRT computes it in float32."""
    network, artifact = resized(tmp_path, np.uint8)
    said = Proof.attempt(network, artifact)
    assert said.status is Status.UNSUPPORTED
    assert said.reason.startswith("RESIZE_BILINEAR (operator 0")


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_a_resize_from_one_element_is_that_element(dtype: type[np.generic], tmp_path: Path) -> None:
    network, artifact = resized(tmp_path, dtype, (1, 1, 4, 5), align_corners=True)
    assert verdict(network, artifact) is Status.PROVED
    elements = state(network).elements
    symbols = elements.symbols(network.outputs[0])
    assert (symbols == elements.symbols(network.inputs[0])).all()


@pytest.mark.skipif(not MODELS.is_dir(), reason="the real models are not here")
def test_a_real_file_of_onnx_is_proved() -> None:
    """With averages and a softmax of real numbers."""
    path = MODELS / "mlonmcu_micro_kws_m_qoperator.onnx"
    network = read_onnx(path.read_bytes(), path.name)
    assert verdict(network, compile_model(path, "vtaq-1x16x16").artifact) is Status.PROVED


@pytest.mark.parametrize(
    "change",
    [
        lambda said: said.clear(),
        lambda said: said.update(tensors=3),
        lambda said: said["tensors"].pop(),
        lambda said: said["tensors"][0][0].__setitem__(1, [1, 9]),
        lambda said: said["tensors"][0][0].__setitem__(2, "int16"),
        lambda said: said["tensors"][0][0].__setitem__(3, None),
        lambda said: said["fields"].clear(),
        grid(0, 0, 0.1),  # no float32
    ],
)
def test_a_description_that_says_nothing_is_not_proved(
    change: Callable[[Said], object], tmp_path: Path
) -> None:
    network, artifact = of_onnx(softmax, tmp_path)
    assert verdict(network, changed(artifact, change)) is Status.NOT_PROVED


def test_positions_of_the_largest(tmp_path: Path) -> None:
    """Of int8; another depth, or a softmax in its place, is not proved."""
    graph, rng = Graph(), np.random.default_rng(3)
    x = graph.input((1, 24), np.int8, 0.05, 3)
    sums = graph.tensor((1, 10), np.int8, 0.4, -7)
    weights = graph.constant(rng.integers(-127, 128, (10, 24)).astype(np.int8), 0.02, 0)
    y = graph.tensor((1,), np.int32)
    graph.operator("FULLY_CONNECTED", [x, weights], [sums])
    axis = graph.constant(np.array(1, np.int32))
    graph.operator("ARG_MAX", [sums, axis], [y], output_type=2)
    path = tmp_path / "net.tflite"
    path.write_bytes(graph.save([y]))
    network = read_tflite(path.read_bytes(), "net.tflite")
    artifact = compile_model(path, "vtaq-1x16x16").artifact
    assert verdict(network, artifact) is Status.PROVED
    steps = list(artifact.steps)
    (number,) = (
        k for k, s in enumerate(steps) if isinstance(s, HostStep) and s.opcode == HostOpcode.ARGMAX
    )
    step = steps[number]
    assert isinstance(step, HostStep)
    steps[number] = replace(step, parameters={"depth": 5})
    assert verdict(network, replace(artifact, steps=tuple(steps))) is Status.NOT_PROVED
