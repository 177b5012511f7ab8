# SPDX-License-Identifier: Apache-2.0
"""commands/prove.py: the answers, their exit statuses, JSON, the certificate."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from loadstone.artifact.format import Artifact
from loadstone.cli import main
from loadstone.prove.certificate import read_certificate
from loadstone.prove.verdict import Status
from tests.compiled import network as compiled
from tests.random_tflite import network as random_network

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


def test_unsupported_and_mistakes(
    artifact: str, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "net.txt"
    other.write_text("no model")
    assert main(["prove", artifact, str(other)]) == 2
    assert "a proof reads the network from a .tflite or an .onnx file" in capsys.readouterr().err
    assert main(["prove", model, model]) == 2
    assert "is a model that is not compiled yet" in capsys.readouterr().err
    bilinear = tmp_path / "net.tflite"
    bilinear.write_bytes(random_network(2).model)
    assert main(["prove", artifact, str(bilinear)]) == Status.UNSUPPORTED.value
    assert "RESIZE_BILINEAR" in capsys.readouterr().out


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
