# SPDX-License-Identifier: Apache-2.0
"""ResNet-18's convolutions on `vta-pynq`, VTA as it is: cycles of the RTL's timing model, and MAC
utilisation.

Each layer is an ONNX file of its own (tests/resnet18.py), by how it rounds. The network-weighted
utilisation counts each layer as often as ResNet-18 has it, and products with padding as done, as
is usual: what the compiler leaves out of them is how a layer gets above 100 %.
"""

from __future__ import annotations

from loadstone import compiler
from loadstone.frontend import onnx
from loadstone.frontend.rewrites import canonical
from loadstone.simulator.programs import program_cycles
from loadstone.vta.device.hw_config import load_config
from tests.resnet18 import LAYERS, Rounds, macs, onnx_file

#: Network-weighted, in percent.
LEAST_PERCENT = {Rounds.EVEN: 86.0, Rounds.UP: 95.0, Rounds.ANY: 60.0}
_DEVICE = "vta-pynq"


def run() -> bool:
    """Prints a line per layer and, by rounding, the weighted figure."""
    reached = [_of(rounds) for rounds in Rounds]
    return all(reached)


def _of(rounds: Rounds) -> bool:
    config = load_config(_DEVICE)
    cycles_sum = macs_sum = 0
    for name, (_, times) in LAYERS.items():
        module = canonical(onnx.from_bytes(onnx_file(name, rounds), f"{name}.onnx"))
        artifact = compiler.compile(module, _DEVICE).artifact
        if not artifact.programs:
            print(f"{name:<4} stays on the host: {rounds.value}")
            return False
        cycles = sum(program_cycles(artifact, config))
        cycles_sum += times * cycles
        macs_sum += times * macs(name)
        print(
            f"{name:<4} {cycles:>8} cycles  "
            f"{100 * macs(name) / (cycles * config.macs_per_cycle):5.1f} %",
            flush=True,
        )
    percent, least = 100 * macs_sum / (cycles_sum * config.macs_per_cycle), LEAST_PERCENT[rounds]
    print(f"network-weighted {percent:.1f} % (at least {least}): {rounds.value}", flush=True)
    return percent >= least
