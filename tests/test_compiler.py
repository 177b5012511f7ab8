# SPDX-License-Identifier: Apache-2.0
"""compiler.py: an artifact is reproducible, shares memory, can be looked at stage by stage; what
cannot be compiled is named. What networks compute is compared in test_networks.py."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadstone.artifact.format import Artifact
from loadstone.compiler import compile, quantize
from loadstone.errors import ConfigError, ModelError, TargetError
from loadstone.passes.table import PASSES, STAGES
from tests.artifact.test_memory_layout import product_with_a_constant
from tests.compiled import network
from tests.float_models import images, small_onnx

DEVICE = "vtaq-1x16x16"
KWS = "mlpt_kws_int8.tflite"


def test_an_artifact_is_the_same_each_time_and_reads_back_equal(
    shared: Path, tmp_path: Path
) -> None:
    first, second = network(shared, KWS, DEVICE), compile(shared / "models" / KWS, DEVICE)
    assert first.artifact.to_bytes() == second.artifact.to_bytes()
    first.save(tmp_path / "kws.lds")
    assert Artifact.load(tmp_path / "kws.lds").to_bytes() == first.artifact.to_bytes()


def test_threads_compile_one_after_the_other(shared: Path) -> None:
    """TVM keeps the functions that are being built on one stack for all threads."""
    file = shared / "models/mlpt_ad_int8.tflite"
    with ThreadPoolExecutor(4) as threads:
        made = threads.map(lambda _: compile(file, "vtaq-1x8x8").artifact.to_bytes(), range(4))
    assert len(set(made)) == 1


def test_threads_quantize_one_after_the_other(tmp_path: Path) -> None:
    (tmp_path / "small.onnx").write_bytes(small_onnx())
    quantize(tmp_path / "small.onnx", images(4)).save(tmp_path / "first.onnx")
    first = (tmp_path / "first.onnx").read_bytes()
    with ThreadPoolExecutor(3) as threads:
        made = threads.map(lambda _: quantize(tmp_path / "small.onnx", images(4)), range(3))
    for found in made:
        found.save(tmp_path / "int8.onnx")
        assert (tmp_path / "int8.onnx").read_bytes() == first


def test_activations_share_memory(shared: Path) -> None:
    report = network(shared, KWS, DEVICE).report()
    assert report["arena_bound_bytes"] <= report["arena_bytes"] < report["arena_sum_bytes"]


def test_a_dump_holds_the_passes_of_every_stage_in_order(shared: Path, tmp_path: Path) -> None:
    compile(shared / "models" / "mlpt_ad_int8.tflite", DEVICE, dump=tmp_path / "stages")
    names = sorted(path.name for path in (tmp_path / "stages").iterdir())
    assert names[0] == "01-frontend-import.txt"
    assert names[-1] == f"{len(PASSES)}-artifact-steps.txt"
    stages = [name.split("-")[1] for name in names]
    assert list(dict.fromkeys(stages)) == [s for s in STAGES if s not in ("quantization", "table")]


def test_what_is_no_model_and_no_device_is_named(tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(b"nothing")
    with pytest.raises(ModelError, match=r"net\.tflite"):
        compile(path, DEVICE)
    with pytest.raises(TargetError, match="no-such-device"):
        compile(path, "no-such-device")


def test_a_compiler_without_asserts_makes_the_same_bytes(tmp_path: Path) -> None:
    """An assert may not carry what the result depends on: python -O leaves it out."""
    (tmp_path / "m.onnx").write_bytes(product_with_a_constant(second=True))
    code = "import sys, loadstone; loadstone.compile(sys.argv[1], sys.argv[2]).save(sys.argv[3])"
    made = []
    for number, flags in enumerate(([], ["-O"])):
        file = tmp_path / f"{number}.lds"
        words = [sys.executable, *flags, "-c", code, str(tmp_path / "m.onnx"), "vtaq-1x32x32"]
        subprocess.run([*words, str(file)], check=True)
        made.append(file.read_bytes())
    assert made[0] == made[1]


def test_what_quantize_returned_is_a_model(tmp_path: Path) -> None:
    path = tmp_path / "small.onnx"
    path.write_bytes(small_onnx())
    quantized = quantize(path, images(4))
    compiled = compile(quantized, DEVICE)
    assert compiled.artifact.name == "small"
    assert quantized.inputs == tuple(entry.name for entry in compiled.inputs)
    assert quantized.outputs == tuple(entry.name for entry in compiled.outputs)
    assert not compiled.is_float
    for name in ("samples", "data"):
        choices: dict[str, Any] = {name: images(4)}
        again = compile(path, DEVICE, **choices)
        assert again.artifact.to_bytes() == compiled.artifact.to_bytes()
    (want,) = compiled.run(images(2))
    (got,) = compile(quantized.module, DEVICE).run(images(2))
    np.testing.assert_array_equal(got, want)


def test_a_float_model_asks_for_samples(tmp_path: Path) -> None:
    path = tmp_path / "small.onnx"
    path.write_bytes(small_onnx())
    with pytest.raises(
        ConfigError, match=r"small: a float model, of which nothing .* samples=\.\.\."
    ):
        compile(path, DEVICE)
    assert compile(path, DEVICE, as_float=True).is_float
    with pytest.raises(ModelError, match="small: quantize needs a hundred samples or so"):
        quantize(path)
    wrong: dict[str, Any] = {"sampels": images(2)}
    for function in (quantize, lambda path, **named: compile(path, DEVICE, **named)):
        with pytest.raises(ConfigError, match="takes no 'sampels'; did you mean samples"):
            function(path, **wrong)
    with pytest.raises(ConfigError, match="compile: options takes no 'sheme'; did you mean scheme"):
        compile(path, DEVICE, samples=images(2), options={"sheme": "pow2"})
    with pytest.raises(ConfigError, match="two names of one argument"):
        compile(path, DEVICE, samples=images(2), data=images(2))
    with pytest.raises(ConfigError, match="two names of one argument"):
        quantize(path, images(2), data=images(2))
