# SPDX-License-Identifier: Apache-2.0
"""Float networks on devices of bfloat16, as they are: one layer all the way, a small network, and
those of ../shared/models beside their float goldens.

`make test` takes the small ones, `make test-all` every float network.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.artifact.format import Artifact
from loadstone.backend.plugins import load_plugins
from loadstone.cli import main
from loadstone.commands.vectors import of_artifact
from loadstone.compiler import Compiled, compile
from loadstone.demo import load_digits, network_path
from loadstone.graph.kernels import real
from loadstone.vta.device.hw_config import HwConfig, load_config
from loadstone.vta.meaning.reference import DramBytes, Machine
from tests.conftest import ROOT
from tests.float_models import images, small_onnx
from tests.onnx_builder import Graph, run
from tests.repeat import more
from tests.validated import both

DEVICES = ("vtab-1x16x16", "vtab-1x8x8")


def dense_onnx(rng: np.random.Generator) -> bytes:
    """relu(x (1, 70) times weights (70, 19) + bias)."""
    graph = Graph()
    weights = graph.constant(rng.normal(size=(19, 70)), np.float32)
    bias = graph.constant(rng.normal(size=19), np.float32)
    scores = graph.node("Gemm", graph.input((1, 70), np.float32), weights, bias, transB=1)
    return graph.save([(graph.node("Relu", scores), np.float32)], [(1, 19)])


def check_programs(artifact: Artifact, config: HwConfig) -> None:
    """Each program leaves the same bytes on the reference and on the simulator, and both validators
    take it."""
    assert both(artifact) == (0, 0)
    for vector in of_artifact(artifact, config):
        image, expected = vector.dram_in.copy(), vector.dram_in.copy()
        simulator = vector.simulator(image, strict=True, races=True, uninitialised=True)
        assert simulator.run(vector.insns).status == "NONE"
        assert not simulator.findings()
        places = [
            slice(
                region.base - vector.dram_base, region.base - vector.dram_base + region.size_bytes
            )
            for region in vector.regions
        ]
        regions = [
            DramBytes(expected[place], writable=not region.read_only)
            for place, region in zip(places, vector.regions, strict=True)
        ]
        Machine(config, regions).run(vector.insns)
        np.testing.assert_array_equal(image, expected)


@pytest.mark.parametrize("device", DEVICES)
def test_a_dense_layer_goes_from_its_file_to_the_device(device: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    (tmp_path / "net.onnx").write_bytes(dense_onnx(rng))
    command = ["compile", "--target", device, str(tmp_path / "net.onnx")]
    assert main([*command, "-o", str(tmp_path / "net.lds")]) == 0
    artifact = Artifact.load(tmp_path / "net.lds")
    assert [step.opcode.name for step in artifact.steps if step not in artifact.programs] == [  # type: ignore[union-attr]
        "PACK",
        "UNPACK",
    ]
    check_programs(artifact, load_config(device))
    samples = rng.normal(size=(5, 1, 70)).astype(np.float32)
    compiled = compile(tmp_path / "net.onnx", device)
    (layer,) = compiled.graph.operators
    got = compiled.run(samples)[0]
    for sample, result in zip(samples, got, strict=True):
        np.testing.assert_array_equal(result, real.dense(layer, sample))  # type: ignore[arg-type]
        (wanted,) = run((tmp_path / "net.onnx").read_bytes(), [sample])
        np.testing.assert_allclose(result, wanted, rtol=2.0**-7, atol=0.1)


@pytest.mark.parametrize("device", DEVICES)
def test_a_small_network_is_on_the_device_as_it_is(device: str, tmp_path: Path) -> None:
    (tmp_path / "small.onnx").write_bytes(small_onnx())
    compiled = compile(tmp_path / "small.onnx", device)
    check_programs(compiled.artifact, load_config(device))
    on_host = [row["kind"] for row in compiled.explain() if row["where"] == "host"]
    assert set(on_host) <= {"host"}, on_host  # the image is NCHW
    assert not compiled.python_steps
    pictures = images(4)
    wanted = np.stack([run(small_onnx(), [picture])[0] for picture in pictures])
    assert decibels(compiled.run(pictures)[0], wanted) > 35


def mixed_onnx(rng: np.random.Generator) -> bytes:
    """A convolution of reals, one of int8 between quantize and dequantize, one of reals."""
    graph = Graph()

    def convolved(x: str, *shape: int) -> str:
        weights = graph.constant(rng.normal(0, np.prod(shape[1:]) ** -0.5, shape), np.float32)
        bias = graph.constant(rng.normal(0, 0.1, shape[0]), np.float32)
        pads = [shape[2] // 2] * 4
        y = graph.node("Conv", x, weights, bias, kernel_shape=list(shape[2:]), pads=pads)
        return graph.node("Relu", y)

    y = convolved(graph.input((1, 16, 8, 8), np.float32), 16, 16, 3, 3)
    y = graph.dequantize(graph.quantize(y, 0.02, -128), 0.02, -128)
    weights = graph.constant(rng.integers(-127, 128, (24, 16, 1, 1)).astype(np.int8))
    y = graph.node("Conv", y, graph.dequantize(weights, 0.005, 0), kernel_shape=[1, 1])
    y = graph.dequantize(graph.quantize(y, 0.05, 3), 0.05, 3)
    return graph.save([(convolved(y, 8, 24, 1, 1), np.float32)])


def test_a_device_of_int8_and_one_of_bfloat16_in_one_artifact(tmp_path: Path) -> None:
    """Each takes its part of a mixed network: a plug-in's accelerator the integers."""
    rng = np.random.default_rng(0)
    model = mixed_onnx(rng)
    (tmp_path / "mixed.onnx").write_bytes(model)
    plugins = load_plugins([ROOT / "docs/examples/descriptors"])
    target = "layer-engine,vtab-1x16x16"
    compiled = compile(tmp_path / "mixed.onnx", target, plugins=plugins)
    where = {row["kind"]: row["where"] for row in compiled.explain()}
    assert where["conv2d"] == "layer-engine"
    assert where["real_conv2d"] == "vta"
    pictures = rng.normal(size=(3, 1, 16, 8, 8)).astype(np.float32)
    wanted = np.stack([run(model, [picture])[0] for picture in pictures])
    assert decibels(compiled.run(pictures)[0], wanted) > 30


def test_a_program_of_pytorch_is_compiled_as_it_is() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed (the extra `torch`)")
    from tests import torch_network

    program = torch_network.float_program()
    compiled = compile(program, "vtab-1x16x16")
    on_host = {row["kind"] for row in compiled.explain() if row["where"] == "host"}
    assert on_host <= {"host"}, on_host  # the image is NCHW
    pictures = torch_network.images(3, 1)
    with torch.no_grad():
        wanted = np.stack([program.module()(picture).numpy() for picture in pictures])
    assert decibels(compiled.run(pictures.numpy())[0], wanted) > 35


def decibels(got: np.ndarray, wanted: np.ndarray) -> float:
    """Signal to noise."""
    real_numbers = wanted.astype(np.float64)
    noise = np.square(got.reshape(wanted.shape) - real_numbers).sum()
    return float(10 * np.log10(np.square(real_numbers).sum() / max(float(noise), 1e-300)))


def test_digits_are_recognized_as_in_float(figure: Callable[[str], None]) -> None:
    """The demo's network, whose int8 form needs samples."""
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    test = load_digits().test_images[:, None]
    compiled = compile(network_path(), "vtab-1x16x16")
    got = compiled.run(test)[0].reshape(len(test), -1)
    session = onnxruntime.InferenceSession(str(network_path()))
    wanted = np.stack([session.run(None, {"image": image})[0][0] for image in test])
    different = int(np.count_nonzero(got.argmax(axis=1) != wanted.argmax(axis=1)))
    noise = f"{decibels(got, wanted):.1f} dB"
    figure(f"digits in bfloat16: {len(test)} images, {noise}, top-1 differs in {different}")
    assert different == 0


#: Of a keyword transformer: its normalizations, tanh, what parts its heads, and its spectrogram's
#: logarithm.
_TRANSFORMER = (
    "add concat log maximum mean multiply nn.softmax power rsqrt sqrt strided_slice subtract take"
    " tanh"
)
#: A network; what its host does besides moves; at least so many decibels, a little below what was
#: measured. (Int8 has 46, 39, 24, 41, - , 24 of the first six.)
NETWORKS = {
    "mlpt_ad_f32.tflite": ("", 46),
    "mnist8_f32.onnx": ("", 42),
    "mlpt_resnet8_f32.tflite": ("nn.softmax", 26),
    "mlonmcu_micro_kws_m_f32.onnx": ("nn.softmax", 42),
    "mlpt_vww_f32.tflite": ("nn.softmax", 60),
    "mnv1_0.25_128_f32.tflite": ("nn.softmax", 24),
    "st_mnv2_0.5_128_f32.onnx": ("nn.softmax", 55),
    "squeezenet_f32.onnx": ("nn.softmax", 30),
    "winml_squeezenet_fp16.onnx": ("nn.softmax astype", 27),
    "ulfg_slim_320_f32.onnx": ("nn.softmax concat", 38),
    "arm_kwt1_f32.tflite": (_TRANSFORMER, 33),
}
QUICK = ("mlpt_ad_f32.tflite",)


@pytest.mark.parametrize(
    "file", [f if f in QUICK else pytest.param(f, marks=more) for f in NETWORKS]
)
@pytest.mark.full
def test_a_float_network_is_near_its_golden(
    file: str, shared: Path, figure: Callable[[str], None]
) -> None:
    compiled: Compiled = compile(shared / "models" / file, "vtab-1x16x16")
    on_host, least = NETWORKS[file]
    with np.load(shared / "models" / "golden" / f"{file}.npz") as golden:
        inputs = [golden[name] for name in sorted(golden) if name.startswith("in")]
        outputs = [golden[name] for name in sorted(golden) if name.startswith("out")]
    found = [decibels(*pair) for pair in zip(compiled.run(*inputs), outputs, strict=True)]
    refused = {
        name
        for assignment in compiled.partition.assignments
        if assignment.backend == "host"
        for name in getattr(assignment.operator, "operators", (assignment.operator.kind,))
    }
    figure(f"{file} in bfloat16: {min(found):.1f} dB")
    assert refused <= set(on_host.split()) | {"reshape", "permute_dims"}, refused
    assert min(found) > least
