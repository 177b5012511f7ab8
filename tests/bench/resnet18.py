"""ResNet-18's convolutions on `vta-pynq`, VTA as it is: cycles of the RTL's timing model, and MAC
utilisation.

The network-weighted utilisation counts each layer as often as ResNet-18 has it. It must reach 88 %.
The layers round as one shift does (SINGLE, half up): the least that a device without RQ can do, and
what no convolution of a TFLite or ONNX file means. With ties to even (FLOAT32) it is 75.9 %.
"""

from __future__ import annotations

from loadstone.artifact.deploy import deploy
from loadstone.simulator.profile import profile
from loadstone.vta.hw_config import load_config
from loadstone.vta.offload import OffloadedRegion
from tests.resnet18 import LAYERS, macs, network

LEAST_PERCENT = 88.0
_DEVICE = "vta-pynq"


def run() -> bool:
    """Prints a line per layer and the weighted figure."""
    config = load_config(_DEVICE)
    cycles_sum = macs_sum = 0
    for name, (_, times) in LAYERS.items():
        graph = network(name)
        region = OffloadedRegion(
            name, graph.operators, graph.inputs, (*graph.inputs, *graph.outputs), config
        )
        cycles = profile(deploy(graph, [region], config).artifact, config)[0].result.cycles
        cycles_sum += times * cycles
        macs_sum += times * macs(name)
        print(
            f"{name:<4} {cycles:>8} cycles  "
            f"{100 * macs(name) / (cycles * config.macs_per_cycle):5.1f} %",
            flush=True,
        )
    percent = 100 * macs_sum / (cycles_sum * config.macs_per_cycle)
    print(
        f"network-weighted {percent:.1f} % (at least {LEAST_PERCENT}), rounded half up, as no "
        "model file's convolution is"
    )
    return percent >= LEAST_PERCENT
