# SPDX-License-Identifier: Apache-2.0
"""prove/read_tflite.py and prove/read_onnx.py on real files, against what their frameworks
computed: apart from the other tests of the readers, whose mutants they would take minutes to
judge."""

from __future__ import annotations

import pytest

from loadstone.prove.read_onnx import read_onnx
from loadstone.prove.read_tflite import read_tflite
from tests.prove.comparison import MODELS, golden_differs
from tests.repeat import more

QUICK = (
    "mlonmcu_micro_kws_m_int8",
    "mlpt_ad_int8",
    "mlpt_kws_int8",
    "mlpt_resnet8_int8",
    "mlpt_strww_int8",
    "mlpt_vww_int8",
    "tflm_micro_speech",
    "coral_mnv1_0.25_128_u8",
    "tinyengine_mcunet_det_int8",
)
LONG = ("tflm_person_detect", "coral_tf2_mnv2_1.0_224_ptq", "coral_deeplab_mnv2_dm05")


@pytest.mark.skipif(not MODELS.is_dir(), reason="the real models are not here")
@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=more) for name in LONG)])
def test_real_files_are_litert_s(name: str) -> None:
    file = f"{name}.tflite"
    network = read_tflite((MODELS / file).read_bytes(), file)
    assert not any(operator.kind.startswith("float:") for operator in network.operators)
    assert golden_differs(network, file) == 0


@pytest.mark.skipif(not MODELS.is_dir(), reason="the real models are not here")
@pytest.mark.parametrize(
    "name", ["mlonmcu_micro_kws_m_qdq", "mlonmcu_micro_kws_m_qoperator", "squeezenet_qdq_int8"]
)
def test_real_files_are_onnx_runtime_s(name: str) -> None:
    file = f"{name}.onnx"
    assert golden_differs(read_onnx((MODELS / file).read_bytes(), file), file) == 0


@pytest.mark.skipif(not MODELS.is_dir(), reason="the real models are not here")
def test_a_file_with_quantized_normalizations_is_read() -> None:
    file = "ulfg_slim_320_qdq_int8.onnx"
    network = read_onnx((MODELS / file).read_bytes(), file)
    kinds = [operator.kind for operator in network.operators]
    assert kinds.count("channel_table") == 25
    assert kinds.count("conv2d") + kinds.count("depthwise_conv2d") == 42
