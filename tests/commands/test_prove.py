# SPDX-License-Identifier: Apache-2.0
"""commands/prove.py: the answers, their exit statuses, JSON, the certificate."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from loadstone.artifact.format import Artifact, HostStep
from loadstone.artifact.host_step import HostOpcode
from loadstone.backend.plugins import load_plugins
from loadstone.cli import main
from loadstone.compiler import compile as compile_model
from loadstone.prove.certificate import read_certificate
from loadstone.prove.verdict import Status
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.codec import decode_stream, encode_stream
from loadstone.vta.isa.insn import Config
from loadstone.vta.isa.spec import ConfigRegister
from tests.compiled import network as compiled
from tests.onnx_builder import Graph as OnnxGraph
from tests.tflite_builder import Graph, Padding

ROOT = Path(__file__).parents[2]
FILE = "mlpt_ad_int8.tflite"


@pytest.fixture(scope="module")
def model(shared: Path) -> str:
    return str(shared / "models" / FILE)


@pytest.fixture(scope="module")
def artifact(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("prove") / "net.lds"
    compiled(shared, FILE, "vtaq-1x16x16").artifact.save(path)
    return str(path)


def test_proved(
    artifact: str, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    certificate = str(tmp_path / "proof.json")
    assert main(["prove", artifact, model, "--certificate", certificate]) == Status.PROVED.value
    said = capsys.readouterr().out
    assert said.startswith(f"proved: {artifact} computes {model}, for every input\n")
    assert "10 operators" in said
    assert read_certificate(certificate).device == "vtaq-1x16x16"


def test_not_proved(
    artifact: str, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    held = Artifact.load(artifact)
    regions = list(held.regions)
    at = next(k for k, region in enumerate(regions) if region.data)
    regions[at] = replace(regions[at], data=bytes(len(regions[at].data)))
    spoilt, certificate = tmp_path / "spoilt.lds", tmp_path / "proof.json"
    replace(held, regions=tuple(regions)).save(spoilt)
    words = ["prove", str(spoilt), model, "--json", "--certificate", str(certificate)]
    assert main(words) == Status.NOT_PROVED.value
    said = json.loads(capsys.readouterr().out)
    assert said["status"] == "not_proved"
    assert said["reason"]
    assert not certificate.exists()


def test_mistakes(
    artifact: str, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of the caller: one line, and 2."""
    other, missing, real = (tmp_path / name for name in ("net.txt", "none.onnx", "real.onnx"))
    other.write_text("no model")
    graph = OnnxGraph()
    real.write_bytes(graph.save([(graph.node("Relu", graph.input((4,), np.float32)), np.float32)]))
    for words, said in (
        ([artifact, str(other)], "a proof reads the network from a .tflite or an .onnx file"),
        ([model, model], "is a model that is not compiled yet"),
        ([artifact, str(missing)], "none.onnx"),
        ([artifact, str(real)], "a proof compares integers; quantize the model first"),
    ):
        assert main(["prove", *words]) == 2
        error = capsys.readouterr().err
        assert said in error
        assert error.count("\n") == 1


def test_what_is_not_covered_is_named(
    artifact: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An operator that the engine does not know, and one that the reader does not know."""
    network = tmp_path / "net.onnx"
    graph = OnnxGraph()
    x = graph.dequantize(graph.input((4,), np.int8), 0.05, 3)
    y = graph.quantize(graph.node("Erf", x), 0.05, 3)
    network.write_bytes(graph.save([(y, np.int8)]))
    words = ["prove", artifact, str(network)]
    assert main(words) == Status.UNSUPPORTED.value
    assert capsys.readouterr().out.startswith(f"unsupported: {network}: Erf (node 1, output ")
    certificate = tmp_path / "proof.json"
    assert main([*words, "--json", "--certificate", str(certificate)]) == Status.UNSUPPORTED.value
    said = json.loads(capsys.readouterr().out)
    assert (said["status"], said["operators"], said["tolerance"]) == ("unsupported", 0, 0)
    assert not certificate.exists()


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A convolution, a dense layer and a softmax, as a model."""
    graph, rng = Graph(), np.random.default_rng(5)
    x = graph.input((1, 6, 6, 4), np.int8, 0.05, 3)
    w = graph.constant(rng.integers(-90, 90, (4, 3, 3, 4)).astype(np.int8), 0.01)
    b = graph.constant(rng.integers(-900, 900, 4).astype(np.int32), 0.0005)
    y = graph.tensor((1, 6, 6, 4), np.int8, 0.06, -4)
    unit = {"stride_h": 1, "stride_w": 1, "dilation_h_factor": 1, "dilation_w_factor": 1}
    graph.operator("CONV_2D", [x, w, b], [y], padding=Padding.SAME, **unit)
    v = graph.constant(rng.integers(-90, 90, (5, 144)).astype(np.int8), 0.01)
    c = graph.constant(rng.integers(-900, 900, 5).astype(np.int32), 0.0006)
    sums = graph.tensor((1, 5), np.int8, 0.3, 2)
    graph.operator("FULLY_CONNECTED", [y, v, c], [sums])
    z = graph.tensor((1, 5), np.int8, 1 / 256, -128)
    graph.operator("SOFTMAX", [sums], [z], beta=1.0)
    path = tmp_path_factory.mktemp("small") / "net.tflite"
    path.write_bytes(graph.save([z]))
    return path


def test_a_constant_one_off_is_named(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Operator, element, sum, both bytes, and the instruction that stored one of them."""
    held = compile_model(small, "vtaq-1x16x16").artifact
    (number, program), *_ = held.numbered_programs
    config = load_config("vtaq-1x16x16")
    stream = list(decode_stream(program.instructions, config))
    zero = ConfigRegister.RQ_ZERO_POINT
    at = next(k for k, i in enumerate(stream) if isinstance(i, Config) and i.register_id == zero)
    stream[at] = stream[at].changed(value=stream[at].value + 1)
    steps = list(held.steps)
    steps[number] = replace(program, instructions=encode_stream(stream, config).tobytes())
    spoilt = tmp_path / "spoilt.lds"
    replace(held, steps=tuple(steps)).save(spoilt)
    assert main(["prove", str(spoilt), str(small)]) == Status.NOT_PROVED.value
    said = capsys.readouterr().out
    assert re.search(
        r"First at CONV_2D \(operator 0, .*, element \d+, .*: for sum -?\d+ the device has -?\d+, "
        r"the network -?\d+ \(\d+ of \d+ values\), stored by instruction \d+ of \w+",
        said,
    )


def test_near(small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only where it is asked for; the certificate says so."""
    output, proof = str(tmp_path / "near.lds"), str(tmp_path / "proof.json")
    words = ["compile", str(small), "--target", "vta-pynq", "--rounding", "near", "-o", output]
    assert main([*words, "--prove", proof]) == 0
    assert read_certificate(proof).tolerance == 1
    capsys.readouterr()
    assert main(["prove", output, str(small), "--near", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tolerance"] == 1
    assert main(["prove", output, str(small), "--near"]) == 0
    assert "each operator at most one level off, for every input" in capsys.readouterr().out
    exact = compile_model(small, "vtaq-1x16x16").artifact
    exact.save(output)
    assert main(["prove", output, str(small), "--certificate", proof]) == 0
    assert read_certificate(proof).tolerance == 0


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("systolic", r"unsupported: step \S+: a program of systolic, and VTA's are covered"),
        ("systolic,vtaq-1x16x16", r"unsupported: step \S+: a program of systolic, and VTA's"),
        ("vtaq-1x16x16,systolic", r"proved: "),
    ],
)
def test_other_devices_are_named(
    target: str, said: str, small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Alone and in a composite target, where the VTA takes all that it can if it is first."""
    plugins = load_plugins([ROOT / "docs/examples/systolic"])
    output = tmp_path / "net.lds"
    compile_model(small, target, plugins=plugins).artifact.save(output)
    status = main(["prove", str(output), str(small)])
    assert re.match(said, capsys.readouterr().out)
    assert status == (0 if said == "proved: " else Status.UNSUPPORTED.value)


@pytest.mark.parametrize("function", ["loadstone.c", "loadstone.relax", "loadstone.operator"])
def test_steps_of_the_host_that_are_code_are_named(
    function: str, small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A softmax that is written in C could be one, or not."""
    held = compile_model(small, "vtaq-1x16x16").artifact
    steps = [
        replace(step, opcode=HostOpcode.EXTERNAL, parameters={}, function=function, attributes="[]")
        if isinstance(step, HostStep) and step.opcode == HostOpcode.SOFTMAX_INT8
        else step
        for step in held.steps
    ]
    output = tmp_path / "net.lds"
    replace(held, steps=tuple(steps)).save(output)
    status = main(["prove", str(output), str(small)])
    said = capsys.readouterr().out
    if function == "loadstone.operator":
        assert status == Status.NOT_PROVED.value
        assert "its attributes describe no operator" in said
    else:
        assert status == Status.UNSUPPORTED.value
        assert re.match(rf"unsupported: step .* \({function}\): code that only the host", said)


def test_programs_that_the_runtime_refuses_are_not_looked_at(
    artifact: str, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A bit that no instruction has: the machine of a proof reads around it, the runtime does
    not."""
    held = Artifact.load(artifact)
    ((number, program),) = held.numbered_programs
    code = bytearray(program.instructions)
    code[-1] ^= 0x80
    steps = list(held.steps)
    steps[number] = replace(program, instructions=bytes(code))
    spoilt = tmp_path / "spoilt.lds"
    replace(held, steps=tuple(steps)).save(spoilt)
    assert main(["prove", str(spoilt), model]) == 2
    error = capsys.readouterr().err
    assert "the runtime refuses step" in error
    assert error.count("\n") == 1
