# SPDX-License-Identifier: Apache-2.0
"""Real float networks in powers of two, for VTA as it is: the quantizer makes nothing that its own
target refuses, and the compiler nothing that VTA's hardware does otherwise.

`make test` takes the small ones, `make test-all` every float network of ../shared/models.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from loadstone.commands.vectors import of_artifact
from loadstone.compiler import compile, quantize
from loadstone.vta.device.hw_config import load_config
from tests.repeat import more

#: A network, and what else than the edges between float32 and int8 it leaves to the host.
NETWORKS = {
    "mlpt_ad_f32.tflite": "",
    "mnist8_f32.onnx": "reshape transpose",
    "mlonmcu_micro_kws_m_f32.onnx": "reshape transpose host",
    "mlpt_resnet8_f32.tflite": "host",
    "mlpt_vww_f32.tflite": "host",
    "mnv1_0.25_128_f32.tflite": "host",
    "st_mnv2_0.5_128_f32.onnx": "transpose reshape host",
    "squeezenet_f32.onnx": "transpose reshape host",
    "ulfg_slim_320_f32.onnx": "transpose reshape host",
}
QUICK = ("mlpt_ad_f32.tflite",)
SAMPLES = 2


@pytest.mark.parametrize(
    "file", [f if f in QUICK else pytest.param(f, marks=more) for f in NETWORKS]
)
@pytest.mark.full
def test_every_layer_of_a_network_in_powers_of_two_is_on_the_device(
    file: str, shared: Path
) -> None:
    """Also its pools and means, whatever their scales. What is float stays on the host (`host`:
    softmax, and boxes put together), as does what gives ONNX's layout and shapes."""
    with np.load(shared / "models" / "golden" / f"{file}.npz") as golden:
        samples = golden["in0"][:SAMPLES]
    found = quantize(shared / "models" / file, samples, scheme="pow2")
    compiled = compile(found.module, "vta-pynq")
    allowed = {"quantize", "dequantize", *NETWORKS[file].split()}
    rows = [row for row in compiled.explain() if row["where"] == "host"]
    refused = [row for row in rows if row["kind"] not in allowed]
    assert not refused, [f"{row['operator']}: {row['why']}" for row in refused]
    for program in of_artifact(compiled.artifact, load_config("vta-pynq")):
        simulator = program.simulator(
            program.dram_in.copy(), strict=True, races=True, uninitialised=True, timing=False
        )
        result = simulator.run(program.insns)
        assert result.status == "NONE", result.message
        assert not simulator.findings()
