# SPDX-License-Identifier: Apache-2.0
"""analysis/framework.py: layer by layer beside what LiteRT and ONNX Runtime themselves compute."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.analysis.compare import differences, one_run
from loadstone.analysis.framework import framework_expects, framework_tensors
from loadstone.analysis.taps import taps
from loadstone.artifact.format import Artifact
from loadstone.cli import main
from loadstone.errors import ConfigError, ModelError
from loadstone.runtime import device
from tests.compiled import golden, network
from tests.float_models import images, small_onnx
from tests.repeat import more


@pytest.mark.parametrize(
    ("file", "name", "known"),
    [
        ("mlpt_ad_int8.tflite", "vta-pynq", 12),
        pytest.param("mlpt_resnet8_int8.tflite", "vtaq-1x16x16", 16, marks=more),
        pytest.param("coral_mnv1_0.25_128_u8.tflite", "vtaq-1x16x16", 31, marks=more),
        pytest.param("mlonmcu_micro_kws_m_qoperator.onnx", "vtaq-1x16x16", 16, marks=more),
    ],
)
def test_every_layer_is_the_framework_s(shared: Path, file: str, name: str, known: int) -> None:
    """known: layers that the framework has under the same name."""
    artifact = network(shared, file, name).artifact
    inputs = one_run(artifact, golden(shared, file, 1)[0], 0)
    expected = framework_expects(shared / "models" / file, inputs, artifact.samples)
    with device.open("sim") as opened:
        found = list(differences(artifact, opened, inputs, expected, trust=True))
    assert len(found) == known <= len(taps(artifact))
    assert [entry.layer for entry in found if entry.different] == []


def test_the_command_runs_onnx_runtime(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A float network on bfloat16: channels first there, last here; near, and not equal."""
    model, artifact, inputs = (tmp_path / name for name in ("net.onnx", "net.lds", "x.npz"))
    model.write_bytes(small_onnx())
    np.savez(inputs, in0=images(2))
    words = ["compile", str(model), "--target", "vtab-1x8x8", "-o", str(artifact)]
    assert main(words) == 0
    capsys.readouterr()
    words = ["compare", str(artifact), "--inputs", str(inputs), "--trust", "--against"]
    words.append(str(model))
    assert main([*words, "--framework", "--all", "--json"]) == 1
    layers = json.loads(capsys.readouterr().out)["layers"]
    assert len(layers) >= 4
    assert all(layer["decibels"] is None or layer["decibels"] > 35 for layer in layers)
    assert main([*words, "--framework", "--atol", "1"]) == 0
    assert "all equal within 1" in capsys.readouterr().out
    words[-1] = "sim"
    assert main([*words, "--framework"]) == 2
    assert "--against sim is the device itself: name another" in capsys.readouterr().err


def test_several_samples_stand_one_behind_the_other(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(small_onnx())
    pictures = images(2)
    both = framework_tensors(tmp_path / "net.onnx", [np.concatenate(pictures)], 2)
    for number, picture in enumerate(pictures):
        one = framework_tensors(tmp_path / "net.onnx", [picture], 1)
        for name, value in one.items():
            rows = len(value) if value.ndim else 1
            np.testing.assert_array_equal(both[name][number * rows : (number + 1) * rows], value)


def test_what_does_not_fit_is_named(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(small_onnx())
    with pytest.raises(ModelError, match=r"has inputs .*, the artifact \[\[1, 3\]\]"):
        framework_tensors(tmp_path / "net.onnx", [np.zeros((1, 3), np.float32)], 1)
    with pytest.raises(ConfigError, match="leave --framework out"):
        framework_tensors(tmp_path / "net.pt2", [], 1)


def test_a_network_of_other_names_is_another_one(
    tmp_path: Path, shared: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = "mlpt_ad_int8.tflite"
    artifact: Artifact = network(shared, file, "vta-pynq").artifact
    artifact.save(tmp_path / "net.lds")
    np.savez(tmp_path / "x.npz", in0=golden(shared, file, 1)[0][0])
    words = ["compare", f"{tmp_path}/net.lds", "--inputs", f"{tmp_path}/x.npz"]
    words += ["--framework", "--against", str(shared / "models/mlpt_resnet8_int8.tflite")]
    assert main(words) == 2
    assert "has inputs" in capsys.readouterr().err
