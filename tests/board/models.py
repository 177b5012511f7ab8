# SPDX-License-Identifier: Apache-2.0
"""The networks that the boards run, with what they must give.

In:   LiteRT's reference kernels, or the goldens that they made.
Out:  Network: an artifact, inputs, and per input the output bytes and cycles of a native run, found
      equal to LiteRT's.
Next: every rung compares its guest with them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from loadstone.artifact import host_step
from loadstone.artifact.format import Artifact, BufferView, DataType, MemoryRegion, RegionKind
from loadstone.artifact.host_step import EXTERNAL_C
from loadstone.backend.device import ProgramDevice
from loadstone.backend.plugins import load_plugins
from loadstone.compiler import compile as compile_model
from loadstone.graph import reference
from loadstone.runtime import device
from loadstone.vta.device.hw_config import load_config
from tests import onnx_builder
from tests.board.tools import ROOT
from tests.sample_model import dense_model
from tests.tflite_builder import Activation, Graph, Padding, run

__all__ = [
    "DESCRIPTORS",
    "GEMMINI",
    "SYSTOLIC",
    "WORD_FIFO",
    "Network",
    "convolutions",
    "convolutions_on_gemmini",
    "convolutions_on_systolic",
    "dense",
    "floats",
    "gate",
    "gates",
    "island",
    "islands",
    "on_example",
    "reals",
    "resnet8",
    "symmetric",
]


#: The examples' folders: devices of plug-ins.
SYSTOLIC = ROOT / "docs/examples/systolic"
DESCRIPTORS = ROOT / "docs/examples/descriptors"
WORD_FIFO = ROOT / "docs/examples/word_fifo"
GEMMINI = ROOT / "docs/examples/gemmini"


@dataclass(frozen=True)
class Network:
    """An artifact and runs of it: inputs one after the other, and for each what a native run
    gave."""

    device: str
    artifact: Artifact
    inputs: np.ndarray
    outputs: tuple[bytes, ...]
    cycles: tuple[int, ...]

    def with_bit_flipped(self, offset: int, bit: int) -> Network:
        """The same with one bit of region 0, constants, the other way round."""
        region = self.artifact.regions[0]
        data = bytearray(region.data)
        data[offset] ^= 1 << bit
        regions = (dataclasses.replace(region, data=bytes(data)), *self.artifact.regions[1:])
        return _native(
            self.device, dataclasses.replace(self.artifact, regions=regions), self.inputs
        )


def convolutions(folder: Path, target: str = "vtaq-1x16x16", size: int = 12) -> Network:
    """Two convolutions of a square image and a softmax, made here: every machine can run it."""
    random = np.random.default_rng(4)
    graph = Graph()
    x = graph.input((1, size, size, 3), np.int8, scale=0.05, zero_point=-5)
    channels_in, image = 3, x
    for channels, stride in ((24, 2), (10, 6)):
        weights = random.integers(-127, 128, (channels, 3, 3, channels_in), np.int8)
        scales = random.uniform(0.002, 0.01, channels).astype(np.float32)
        w = graph.constant(weights, scale=scales, axis=0)
        b = graph.constant(
            random.integers(-2000, 2000, channels).astype(np.int32),
            scale=scales * image.scale[0],
            axis=0,
        )
        size = -(-size // stride)
        y = graph.tensor((1, size, size, channels), np.int8, scale=0.1, zero_point=-3)
        options = {
            "padding": Padding.SAME,
            "stride_h": stride,
            "stride_w": stride,
            "fused_activation_function": Activation.RELU,
        }
        graph.operator(
            "CONV_2D", [image, w, b], [y], dilation_h_factor=1, dilation_w_factor=1, **options
        )
        image, channels_in = y, channels
    out = graph.tensor(image.shape, np.int8, scale=1 / 256, zero_point=-128)
    graph.operator("SOFTMAX", [image], [out], beta=1.0)
    model = graph.save([out])
    inputs = random.integers(-128, 128, (3, *x.shape), np.int8)
    (folder / "convolutions.tflite").write_bytes(model)
    artifact = compile_model(folder / "convolutions.tflite", target).artifact
    network = _native(target, artifact, inputs)
    return _checked(network, b"".join(run(model, [x])[0].tobytes() for x in inputs))


def resnet8(shared: Path, target: str = "vtaq-1x16x16") -> Network:
    """MLPerf Tiny's ResNet8 on three images, with the goldens that LiteRT made."""
    golden = np.load(shared / "models/golden/mlpt_resnet8_int8.tflite.npz")
    artifact = compile_model(shared / "models/mlpt_resnet8_int8.tflite", target).artifact
    return _checked(_native(target, artifact, golden["in0"][:3]), golden["out0"][:3].tobytes())


def on_example(shared: Path, folders: Sequence[Path], name: str, file: str) -> Network:
    """A network of MLPerf Tiny as programs of examples' devices; the rest is the host's."""
    golden = np.load(shared / f"models/golden/{file}.npz")
    plugins = load_plugins(folders)
    if "_f32" in file:  # quantized for the device; tests/docs/test_gemmini.py checks it
        samples = golden["in0"]
        made = compile_model(shared / "models" / file, name, plugins=plugins, samples=samples)
        return _native(name, made.artifact, samples[:2])
    artifact = compile_model(shared / "models" / file, name, plugins=plugins).artifact
    return _checked(_native(name, artifact, golden["in0"][:2]), golden["out0"][:2].tobytes())


def convolutions_on_systolic(folder: Path) -> Network:
    """The network of `convolutions`, for the systolic example."""
    network = convolutions(folder)
    plugins = load_plugins([SYSTOLIC])
    made = compile_model(folder / "convolutions.tflite", "systolic", plugins=plugins)
    inputs = network.inputs[:2]
    return _checked(_native("systolic", made.artifact, inputs), b"".join(network.outputs[:2]))


def symmetric(folder: Path) -> None:
    """A convolution with ReLU, a depthwise one with a stride, one of one pixel: without zero
    points, one scale for each layer. Written to symmetric.onnx."""
    graph, random = onnx_builder.Graph(), np.random.default_rng(9)
    x = graph.dequantize(graph.input((1, 4, 9, 9), np.int8), 0.05, 0)
    for shape, more in (
        ((20, 4, 3, 3), {"pads": [1, 1, 1, 1]}),
        ((20, 1, 3, 3), {"group": 20, "strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ((8, 20, 1, 1), {}),
    ):
        weights = graph.dequantize(
            graph.constant(random.integers(-127, 128, shape, np.int8)), 0.01, 0
        )
        bias = random.integers(-500, 500, shape[0]).astype(np.int32)
        y = graph.node(
            "Conv", x, weights, graph.dequantize(graph.constant(bias), 0.0005, 0, np.int32), **more
        )
        y = graph.node("Relu", y) if more else y
        x = graph.dequantize(graph.quantize(y, 0.05, 0), 0.05, 0)
    model = graph.save([(graph.quantize(x, 0.05, 0), np.int8)])
    (folder / "symmetric.onnx").write_bytes(model)


def convolutions_on_gemmini(folder: Path) -> Network:
    """The network of `symmetric`, for the example with settings in registers."""
    symmetric(folder)
    made = compile_model(folder / "symmetric.onnx", "gemmini", plugins=load_plugins([GEMMINI]))
    inputs = np.random.default_rng(10).integers(-128, 128, (2, 1, 4, 9, 9), np.int8)
    graph = made.partition.graph
    expected = b"".join(reference.run(graph, [each])[0].tobytes() for each in inputs)
    return _checked(_native("gemmini", made.artifact, inputs), expected)


def dense(name: str) -> Network:
    """A matrix product with its packing and unpacking, for any device."""
    model = dense_model(load_config(name))
    shape = model.artifact.tensors[model.artifact.inputs[0]].shape
    inputs = np.random.default_rng(2).integers(-128, 128, (3, *shape), np.int8)
    return _checked(_native(name, model.artifact, inputs), model.expected(inputs).tobytes())


def _then(folder: Path, name: str, *functions: str) -> Artifact:
    """A dense layer for the device, between it and the result real numbers: functions of it, their
    softmax."""
    graph, random = onnx_builder.Graph(), np.random.default_rng(5)
    x = graph.dequantize(graph.input((1, 16), np.int8), 0.05, 3)
    weights = random.integers(-127, 128, (16, 10)).astype(np.int8)
    y = graph.node("MatMul", x, graph.dequantize(graph.constant(weights), 0.01, 0))
    y = graph.dequantize(graph.quantize(y, 0.05, -5), 0.05, -5)
    for function in functions:
        y = graph.node("Mul", y, graph.node(function, y))
    y = graph.node("Softmax", y, axis=-1)
    (folder / "then.onnx").write_bytes(graph.save([(y, np.float32)]))
    return compile_model(folder / "then.onnx", name).artifact


def gate(folder: Path, name: str) -> Artifact:
    """Real numbers that the runtime's own operators compute."""
    artifact = _then(folder, name, "Sigmoid", "Erf", "Exp")
    assert not any(getattr(step, "function", "") for step in artifact.steps)
    return artifact


def gates(folder: Path) -> Network:
    """`gate` on three inputs: reals whose bits a compiler of the board's own could change."""
    inputs = np.random.default_rng(6).integers(-128, 128, (3, 1, 16), np.int8)
    return _native("vtaq-1x16x16", gate(folder, "vtaq-1x16x16"), inputs)


def island(folder: Path, name: str) -> Artifact:
    """Real numbers that only a step in C computes."""
    artifact = _then(folder, name, "Exp", "Sin")
    assert any(getattr(step, "function", "") == EXTERNAL_C for step in artifact.steps)
    return artifact


def islands(folder: Path) -> Network:
    """`island` on three inputs: reals whose bits an exp of the board's own would change."""
    inputs = np.random.default_rng(6).integers(-128, 128, (3, 1, 16), np.int8)
    return _native("vtaq-1x16x16", island(folder, "vtaq-1x16x16"), inputs)


def reals(folder: Path) -> Network:
    """Two dense layers in float32 for a device of bfloat16: packing rounds, unpacking widens."""
    graph, random = onnx_builder.Graph(), np.random.default_rng(7)
    x = graph.input((1, 70), np.float32)
    for inputs, outputs in ((70, 40), (40, 19)):
        weights = random.normal(0, inputs**-0.5, (outputs, inputs))
        bias = graph.constant(random.normal(size=outputs), np.float32)
        x = graph.node("Gemm", x, graph.constant(weights, np.float32), bias, transB=1)
        x = graph.node("Relu", x)
    model = graph.save([(x, np.float32)], [(1, 19)])
    (folder / "reals.onnx").write_bytes(model)
    artifact = compile_model(folder / "reals.onnx", "vtab-1x16x16").artifact
    inputs = random.normal(size=(3, 1, 70)).astype(np.float32)
    network = _native("vtab-1x16x16", artifact, inputs)
    for given, found in zip(inputs, network.outputs, strict=True):
        (wanted,) = onnx_builder.run(model, [given])
        near = np.abs(np.frombuffer(found, np.float32) - wanted.reshape(-1))
        assert near.max() < 0.05, "the native run itself is wrong"
    return network


def floats() -> Network:
    """No device program: quantize, dequantize and softmax in float32, which a compiler could round
    otherwise on each CPU."""
    config = load_config("vtaq-1x16x16")
    rows, depth = 8, 24
    tensors = (
        BufferView("x", (1, rows * depth), DataType.FLOAT32, 0, 0),
        BufferView("q", (1, rows * depth), DataType.INT8, 1, 0, 0.0625, 5),
        BufferView("r", (1, rows * depth), DataType.FLOAT32, 2, 0),
        BufferView("y", (1, rows * depth), DataType.FLOAT32, 3, 0),
    )
    kinds = (RegionKind.INPUT, RegionKind.HOST, RegionKind.HOST, RegionKind.OUTPUT)
    regions = tuple(
        MemoryRegion(t.name, kind, t.size_bytes, 16) for t, kind in zip(tensors, kinds, strict=True)
    )
    steps = (
        host_step.quantize("quantize", 0, 1, half_to_even=True),
        host_step.dequantize("dequantize", 1, 2),
        host_step.softmax_float32("softmax", 2, 3, depth),
    )
    artifact = Artifact(
        "floats", (ProgramDevice.of(config),), 1, regions, tensors, (0,), (3,), steps
    )
    inputs = np.random.default_rng(6).normal(0, 3, (3, 1, rows * depth)).astype(np.float32)
    inputs[0, 0, :32] = np.arange(-16, 16) * np.float32(0.03125)  # halfway between two integers
    return _native("vtaq-1x16x16", artifact, inputs)


def _native(name: str, artifact: Artifact, inputs: np.ndarray) -> Network:
    outputs, cycles = [], []
    with (
        device.open("sim" if artifact.devices[1:] else f"sim:{name}") as dev,
        dev.load(artifact, trust=True) as session,
    ):
        for x in inputs:
            session.inputs[0][...] = x
            session.execute()
            outputs.append(session.outputs[0].tobytes())
            cycles.append(session.counters.cycles)
    return Network(name, artifact, np.ascontiguousarray(inputs), tuple(outputs), tuple(cycles))


def _checked(network: Network, expected: bytes) -> Network:
    assert b"".join(network.outputs) == expected, "the native run itself is wrong"
    assert len(set(network.outputs)) == len(network.outputs), (
        "inputs that give one output test nothing"
    )
    return network
