# SPDX-License-Identifier: Apache-2.0
"""analysis/float_network.py: the tensors of a float network; `loadstone compare` says how far each
layer of a device of bfloat16 is from them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.analysis.float_network import float_tensors
from loadstone.cli import main
from tests.float_models import images, small_onnx
from tests.onnx_builder import run


@pytest.fixture
def network(tmp_path: Path) -> Path:
    path = tmp_path / "small.onnx"
    path.write_bytes(small_onnx())
    return path


def test_every_tensor_has_its_name_and_its_numbers(network: Path) -> None:
    pictures = images(2)
    found = float_tensors(network, [np.concatenate(pictures)], 2)
    assert len(found) > 8
    wanted = np.concatenate([run(small_onnx(), [picture])[0] for picture in pictures])
    scores = [value for value in found.values() if value.shape == wanted.shape][-1]
    np.testing.assert_allclose(scores, wanted, rtol=1e-4, atol=1e-5)


def test_the_layers_of_a_device_are_measured(
    network: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    artifact, inputs = tmp_path / "small.lds", tmp_path / "inputs.npz"
    np.savez(inputs, in0=images(2))
    compile_ = ["compile", str(network), "--target", "vtab-1x8x8", "-o", str(artifact)]
    assert main(compile_) == 0
    capsys.readouterr()
    command = [
        "compare",
        str(artifact),
        "--inputs",
        str(inputs),
        "--sample",
        "1",
        "--all",
        "--trust",
    ]
    assert main([*command, "--against", str(network), "--json"]) == 1
    layers = json.loads(capsys.readouterr().out)["layers"]
    assert len(layers) > 6
    assert all(layer["decibels"] is None or layer["decibels"] > 35 for layer in layers)
    assert sum(layer["decibels"] is not None for layer in layers) > 5
    assert main([*command, "--against", "reference"]) == 0
    assert "all equal" in capsys.readouterr().out
