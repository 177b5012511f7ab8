# SPDX-License-Identifier: Apache-2.0
"""Networks on `vtaq-1x16x16`: exact cycles of the compiled programs, and what they are to be
compared with.

Columns: cycles of one run on the simulator; MAC utilisation = the network's multiply-accumulates /
(cycles x MACs a cycle), DMA, requantization and everything else included; roofline = the least
cycles that peak and bus allow (the larger of MACs / peak and compulsory DRAM bytes / bus: weights
and biases once, the network's input and output) / cycles; what the utilisation would be with
nothing to wait for, in each layer by itself (`layers`: the longest of its steps, its reads and its
writes) and in the network as a whole (`whole`: the longest of all steps, reads and writes); DRAM
bytes moved; instructions; seconds of compile without `import tvm`; peak memory of a process that
compiles it.

The networks are those of ../shared/models; without that folder there is nothing to measure.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

NETWORKS = (
    "mlpt_resnet8_int8.tflite",
    "mlpt_vww_int8.tflite",
    "mlpt_kws_int8.tflite",
    "mlpt_ad_int8.tflite",
    "mlpt_strww_int8.tflite",
    "tflm_person_detect.tflite",
    "tflm_micro_speech.tflite",
    "mlonmcu_micro_kws_m_int8.tflite",
    "coral_mnv1_0.25_128_u8.tflite",
    "coral_tf2_mnv2_1.0_224_ptq.tflite",
    "squeezenet_qdq_int8.onnx",
    "ulfg_slim_320_qdq_int8.onnx",
)
#: MAC utilisation that a network must reach, in percent.
LEAST_PERCENT = {
    "mlpt_resnet8_int8.tflite": 45.0,
    "mlpt_vww_int8.tflite": 20.0,
    "mlpt_kws_int8.tflite": 22.0,
}
#: Seconds of compile without `import tvm`, and peak memory in MiB.
MOST_SECONDS = dict.fromkeys(NETWORKS[:5], 3.0) | {"coral_tf2_mnv2_1.0_224_ptq.tflite": 15.0}
MOST_MEMORY_MIB = 1024
_DEVICE = "vtaq-1x16x16"


def run() -> bool:
    """Prints the table; False when a network misses what it must reach."""
    shared = Path(
        os.environ.get("LOADSTONE_SHARED", Path(__file__).resolve().parents[3] / "shared")
    )
    if not (shared / "models").is_dir():
        print(f"skipped: {shared / 'models'} is absent")
        return True
    names = (
        f"{'network':<36} {'cycles':>9} {'MAC %':>6} {'roof %':>6} {'layers':>6} {'whole':>6} "
        f"{'DRAM KiB':>9} {'insns':>6} {'host':>4}"
    )
    print(f"{names} {'compile s':>9} {'peak MiB':>8}")
    held = True
    for name in NETWORKS:
        done = subprocess.run(
            [sys.executable, __file__, str(shared / "models" / name)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            print(f"{name:<36} {done.stderr.strip().splitlines()[-1]}")
            held = False
            continue
        row = json.loads(done.stdout)
        misses = _misses(name, row)
        held &= not misses
        line = (
            f"{name:<36} {row['cycles']:>9} {row['mac_percent']:>6.1f} "
            f"{row['roofline_percent']:>6.1f} {row['layers_percent']:>6.1f} "
            f"{row['whole_percent']:>6.1f} {row['dram_bytes'] / 1024:>9.1f} "
            f"{row['instructions']:>6} {row['on_host']:>4} {row['seconds']:>9.2f} "
            f"{row['peak_mib']:>8.0f}  {'; '.join(misses)}"
        )
        print(line.rstrip(), flush=True)
    return held


def _misses(name: str, row: dict[str, Any]) -> list[str]:
    misses = []
    if row["mac_percent"] < LEAST_PERCENT.get(name, 0.0):
        misses.append(f"MAC % below {LEAST_PERCENT[name]}")
    if row["seconds"] > MOST_SECONDS.get(name, 1e9):
        misses.append(f"compile above {MOST_SECONDS[name]} s")
    if row["peak_mib"] > MOST_MEMORY_MIB:
        misses.append(f"memory above {MOST_MEMORY_MIB} MiB")
    return misses


def measure(model: str) -> dict[str, Any]:
    """One network, in this process."""
    import resource

    from loadstone.compiler import compile as compile_model
    from loadstone.runtime.device import OpenedDevice
    from loadstone.vta.device.hw_config import load_config
    from loadstone.vta.simulator.layers import layer_figures
    from loadstone.vta.simulator.profile import profile

    config = load_config(_DEVICE)
    compiled = compile_model(model, config)
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    inputs = [np.zeros((t.shape[0], 1, *t.shape[1:]), t.dtype) for t in compiled.graph.inputs]
    with OpenedDevice("sim", "", config) as device, device.load(compiled.artifact) as session:
        session.run(inputs)
        counters = session.counters
    macs = sum(_macs(o) for o in compiled.graph.operators)
    compulsory = sum(_constant_bytes(o) for o in compiled.graph.operators)
    compulsory += sum(t.size_bytes for t in (*compiled.graph.inputs, *compiled.graph.outputs))
    bus_bytes = config.bus_bits // 8
    bound = max(macs / config.macs_per_cycle, compulsory / bus_bytes)
    layers = [
        layer
        for entry in profile(compiled.artifact, config)
        for layer in layer_figures(entry, config)
    ]
    written = sum(layer.bytes["out"] for layer in layers)
    read = sum(sum(layer.bytes.values()) for layer in layers) - written
    steps = sum(layer.step_cycles for layer in layers)
    return {
        "cycles": counters.cycles,
        "mac_percent": 100 * macs / (counters.cycles * config.macs_per_cycle),
        "roofline_percent": 100 * bound / counters.cycles,
        "layers_percent": 100 * macs / config.macs_per_cycle / sum(o.best_cycles for o in layers),
        "whole_percent": 100
        * macs
        / config.macs_per_cycle
        / max(steps, read / bus_bytes, written / bus_bytes),
        "dram_bytes": counters.read_bytes + counters.write_bytes,
        "instructions": compiled.report()["instructions"],
        "on_host": len(compiled.report()["operators_on_host"]),
        "seconds": sum(s for stage, s in compiled.seconds.items() if stage != "import TVM"),
        "peak_mib": peak_kib / 1024,
    }


def _macs(operator: Any) -> int:
    """Multiply-accumulates of a convolution or dense layer, padded taps included."""
    if not hasattr(operator, "weights"):
        return 0
    return int(np.prod(operator.output.shape)) * int(np.prod(operator.weights.shape[1:]))


def _constant_bytes(operator: Any) -> int:
    return operator.weights.nbytes + operator.bias.nbytes if hasattr(operator, "weights") else 0


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1])))
