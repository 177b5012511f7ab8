# SPDX-License-Identifier: Apache-2.0
"""Every network of ../shared/models that compiles runs in the C runtime alone.

What `loadstone export` writes is compiled and run through lds_easy.h: no step is Python's. Networks
of integers give their framework's bytes, as tests/test_networks.py has them in Python; float ones
are within 1e-5 of the largest output, half of a step of float16 where the outputs are halves; one
with dynamic ranges gives every bit.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.compiled import golden, network
from tests.hosts.in_c import run_in_c
from tests.repeat import more
from tests.test_networks import NETWORKS, ONNX

#: Float networks, and what their outputs may differ by from their framework's, of the largest.
FLOAT = dict.fromkeys(
    (
        *("arm_kwt1_f32.tflite", "mlonmcu_micro_kws_m_f32.onnx", "mlpt_ad_f32.tflite"),
        *("mlpt_resnet8_f32.tflite", "mlpt_vww_f32.tflite", "mnist8_f32.onnx"),
        *("mnv1_0.25_128_f32.tflite", "squeezenet_f32.onnx", "st_mnv2_0.5_128_f32.onnx"),
        "ulfg_slim_320_f32.onnx",
    ),
    1e-5,
) | {"mlpt_kws_dynrange.tflite": 0.0, "winml_squeezenet_fp16.onnx": 2.0**-10}
QUICK = ("mlpt_kws_int8.tflite", "arm_kwt1_f32.tflite", "mlonmcu_micro_kws_m_qdq.onnx")


def tiers(files: object) -> list[object]:
    return [file if file in QUICK else pytest.param(file, marks=more) for file in files]  # type: ignore[attr-defined]


@pytest.mark.parametrize("file", tiers([*NETWORKS, *ONNX]))
def test_integers_are_those_of_python(file: str, shared: Path, tmp_path: Path) -> None:
    compiled = network(shared, file, "vtaq-1x16x16")
    assert not compiled.python_steps
    inputs, wanted = golden(shared, file, 2)
    got = run_in_c(compiled.artifact, inputs, tmp_path)
    for ours, python, framework in zip(got, compiled.run(*inputs), wanted, strict=True):
        np.testing.assert_array_equal(ours.reshape(python.shape), python)
        if file in NETWORKS:
            np.testing.assert_array_equal(ours.reshape(framework.shape), framework)


@pytest.mark.parametrize("file", tiers(FLOAT))
def test_real_numbers_are_the_frameworks(file: str, shared: Path, tmp_path: Path) -> None:
    compiled = network(shared, file, "vtaq-1x16x16")
    assert not compiled.python_steps
    inputs, wanted = golden(shared, file, 2)
    for got, want in zip(run_in_c(compiled.artifact, inputs, tmp_path), wanted, strict=True):
        limit = FLOAT[file] * float(np.abs(want.astype(np.float64)).max())
        np.testing.assert_allclose(
            got.reshape(want.shape).astype(np.float64), want.astype(np.float64), rtol=0, atol=limit
        )


def test_no_network_is_left_out(shared: Path) -> None:
    files = {f.name for f in (shared / "models").iterdir() if f.suffix in (".tflite", ".onnx")}
    assert files == {*NETWORKS, *ONNX, *FLOAT}
