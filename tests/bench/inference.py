# SPDX-License-Identifier: Apache-2.0
"""Whole networks on the simulator beside LiteRT's XNNPACK, one thread each, timing on: samples a
second.

In:   networks of ../shared/models; without that folder there is nothing to measure.
Out:  for each network samples a second of both, and their ratio.
Next: docs/performance.md.

Processor time counts, the least of many runs: other load on the machine must not. Both run the
whole network, quantized inputs to quantized outputs; what a session does before its first run
(weights packed by XNNPACK, programs validated and decoded here) counts for neither.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from loadstone.compiler import compile as compile_model
from loadstone.runtime import device
from loadstone.vta.device.hw_config import load_config
from tests.conftest import SHARED

NETWORKS = {
    "ResNet8": "mlpt_resnet8_int8.tflite",
    "MobileNetV1 0.25 96": "mlpt_vww_int8.tflite",
    "MobileNetV1 0.25 128": "coral_mnv1_0.25_128_u8.tflite",
    "MobileNetV2 1.0 224": "coral_tf2_mnv2_1.0_224_ptq.tflite",
}
_DEVICE = "vtaq-1x16x16"


def run() -> bool:
    """Prints the table; there is no limit to hold: machines differ."""
    if not (SHARED / "models").is_dir():
        print(f"skipped: {SHARED / 'models'} is absent")
        return True
    print(f"{'network':<22} {'simulator/s':>11} {'XNNPACK/s':>10} {'ratio':>6}")
    for name, file in NETWORKS.items():
        model = SHARED / "models" / file
        ours, theirs = _simulator_seconds(model), _xnnpack_seconds(model)
        print(f"{name:<22} {1 / ours:>11.1f} {1 / theirs:>10.1f} {theirs / ours:>6.2f}", flush=True)
    return True


def _least(call: Callable[[], object], seconds: float = 2.0) -> float:
    """Processor time of the fastest of the calls that fit into some time; the first warms up."""
    call()
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
    return best


def _simulator_seconds(model: Path) -> float:
    artifact = compile_model(str(model), load_config(_DEVICE)).artifact
    with device.open(_DEVICE) as simulated, simulated.load(artifact) as session:
        return _least(session.execute)


def _xnnpack_seconds(model: Path) -> float:
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=str(model), num_threads=1)
    interpreter.allocate_tensors()
    for tensor in interpreter.get_input_details():
        interpreter.set_tensor(tensor["index"], np.zeros(tensor["shape"], tensor["dtype"]))
    return _least(interpreter.invoke)
