# SPDX-License-Identifier: Apache-2.0
"""Float networks on a device of bfloat16 beside their int8 forms: cycles, how busy the multipliers
are, and how fast the simulator is.

In:   ../shared/models.
Out:  a line for each network and form.
Next: a person compares; there is no limit.
"""

from __future__ import annotations

import time

import numpy as np

from loadstone.compiler import compile
from loadstone.runtime.device import OpenedDevice
from loadstone.vta.device.hw_config import load_config
from tests.conftest import SHARED

__all__ = ["run"]

#: Float, int8.
NETWORKS = {
    "mlpt_ad_f32.tflite": "mlpt_ad_int8.tflite",
    "mlpt_resnet8_f32.tflite": "mlpt_resnet8_int8.tflite",
    "mlpt_vww_f32.tflite": "mlpt_vww_int8.tflite",
}


def run() -> bool:
    """Prints; always true."""
    folder = SHARED
    if not folder.is_dir():
        print(f"{folder} is absent")
        return True
    for real, integers in NETWORKS.items():
        for file, device in ((real, "vtab-1x16x16"), (integers, "vtaq-1x16x16")):
            print(f"{file:<26} {device}: {measure(str(folder / 'models' / file), device)}")
    return True


def measure(path: str, device: str) -> str:
    """One network: cycles with the timing model, seconds of a simulation without it."""
    config = load_config(device)
    compiled = compile(path, device)
    macs = sum(row["macs"] for row in compiled.explain())
    inputs = [
        np.zeros((1, *compiled.artifact.tensors[k].shape), compiled.artifact.tensors[k].dtype.numpy)
        for k in compiled.artifact.inputs
    ]
    with OpenedDevice("sim", "", config) as opened, opened.load(compiled.artifact, trust=True) as s:
        s.run(inputs)
        cycles = s.counters.cycles
    with (
        OpenedDevice("sim", "", config, timing=False) as opened,
        opened.load(compiled.artifact, trust=True) as s,
    ):
        s.run(inputs)
        start = time.process_time()
        s.run(inputs)
        seconds = time.process_time() - start
    busy = macs / (cycles * config.macs_per_cycle)
    return (
        f"{cycles:,} cycles, {100 * busy:.1f} % of the multipliers; "
        f"simulated with {macs / seconds / 1e9:.2f} GMAC/s"
    )
