# SPDX-License-Identifier: Apache-2.0
"""Devices a sweep looks at in an hour, beside SCALE-Sim 3 on the same question.

In:   ResNet8 of MLPerf Tiny, int8 (../shared/models); arrays of 8 x 8, 16 x 16 and 32 x 32
      multipliers with the scratchpads and the bus of `vtaq-1x16x16`.
Out:  for each array what a point takes of CPU, in one process behind its imports, points an hour
      and core, and the cycles that each of the two says; of 8 x 8 those of its hardware, too.
Next: docs/choose-a-device.md.

The question is the same: how many cycles do these layers take on an array of this size? The answers
are not. Loadstone compiles the network and simulates each instruction, and the artifact that it
counted computes the network's integers; SCALE-Sim makes the traces of a weight-stationary systolic
array for each convolution and dense layer, and estimates its stalls from the bus. It knows no
padding, no requantization, no additions and no instruction stream, so layers are given to it with
their padding and depthwise ones channel by channel, as it wants them.

SCALE-Sim needs an older NumPy than Loadstone's, so that it stands in an environment of its own,
build/bench/scalesim, made when it is absent.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from loadstone import graph as g
from loadstone.compiler import compile
from loadstone.files import JsonObject
from loadstone.runtime import device
from loadstone.search.evaluate import SweptNetwork, Unit, compiled_of, evaluate
from loadstone.vta.device.hw_config import HwConfig, configuration, load_config
from loadstone.vta.simulator.rtl_build import missing
from loadstone.vta.simulator.rtl_simd import rtl_socket

__all__ = ["run"]

_ROOT = Path(__file__).resolve().parents[2]
_VENV = _ROOT / "build" / "bench" / "scalesim"
_PACKAGES = ("scalesim==3.0.0", "numpy>=1.26,<2.3", "setuptools")
_NETWORK = "mlpt_resnet8_int8.tflite"
#: Logarithms of the blocks, and of the bytes of the three scratchpads.
_BLOCKS = (3, 4, 5)
_PADS = {"LOG_INP_BUFF_SIZE": 14, "LOG_WGT_BUFF_SIZE": 16, "LOG_ACC_BUFF_SIZE": 15}
_UNITS = 3
_HEAD = "Layer, IFMAP height, IFMAP width, Filter height, Filter width, Channels, Filters, Stride,"
#: Its configuration: as small as its reader allows.
_CONFIG = """\
[general]
run_name = run
[architecture_presets]
ArrayHeight = {block}
ArrayWidth = {block}
IfmapSramSzkB = {inp_kib}
FilterSramSzkB = {wgt_kib}
OfmapSramSzkB = {acc_kib}
IfmapOffset = 0
FilterOffset = 10000000
OfmapOffset = 20000000
Bandwidth = {bus_bytes}
Dataflow = ws
ReadRequestBuffer = 64
WriteRequestBuffer = 64
[layout]
IfmapCustomLayout = False
IfmapSRAMBankBandwidth = 10
IfmapSRAMBankNum = 10
IfmapSRAMBankPort = 2
FilterCustomLayout = False
FilterSRAMBankBandwidth = 10
FilterSRAMBankNum = 10
FilterSRAMBankPort = 2
[sparsity]
SparsitySupport = false
OptimizedMapping = false
RandomNumberGeneratorSeed = 40
[run_presets]
InterfaceBandwidth = USER
UseRamulatorTrace = False
"""
#: Runs in the other environment; prints seconds of CPU behind the imports, and cycles.
_DRIVER = """
import contextlib, io, json, sys, time
from scalesim.scale_sim import scalesim
start = time.process_time()
with contextlib.redirect_stdout(io.StringIO()):
    one = scalesim(True, False, "run.cfg", "topology.csv", "layout.csv")
    one.run_scale("out")
layers = [layer.get_compute_report_items() for layer in one.runner.single_layer_sim_object_list]
print(json.dumps([time.process_time() - start, sum(int(layer[0]) for layer in layers)]))
"""


def run() -> bool:
    """Prints; False where Loadstone looks at fewer points an hour than SCALE-Sim."""
    folder = Path(os.environ.get("LOADSTONE_SHARED", _ROOT.parent / "shared")) / "models"
    if not folder.is_dir():
        print(f"skipped: {folder} is absent")
        return True
    python = _environment()
    content = (folder / _NETWORK).read_bytes()
    network = SweptNetwork(Path(_NETWORK).stem, ".tflite", content)
    layers = _layers(folder / _NETWORK)
    evaluate(_unit(_BLOCKS[0]), [network])  # imports, and reads the network
    held = True
    for block in _BLOCKS:
        start = time.process_time()
        rows = [evaluate(_unit(block, latency), [network]) for latency in range(_UNITS)]
        ours = (time.process_time() - start) / _UNITS
        print(_line("loadstone", block, ours, int(rows[0]["cycles"])), flush=True)
        if python is not None:
            theirs, cycles = _scale_sim(python, layers, load_config(_unit(block).device))
            print(_line("SCALE-Sim 3", block, theirs, cycles), flush=True)
            held &= ours < theirs
    return held & _on_rtl(network)


def _on_rtl(network: SweptNetwork) -> bool:
    """The smallest of these devices as hardware: the same outputs and cycles as simulated."""
    if reason := missing():
        print(f"skipped: the hardware: {reason}")
        return True
    compiled = compiled_of(_unit(_BLOCKS[0]), [network])
    artifact, config = compiled.artifact, configuration(compiled.device)
    inputs = [np.zeros((1, *artifact.tensors[i].shape), np.int8) for i in artifact.inputs]
    found = []
    with rtl_socket(config) as socket:
        for name in ("sim", socket):
            with device.open(name) as opened, opened.load(artifact) as session:
                (output,) = session.run(inputs)
                found.append((output.tobytes(), session.counters.cycles))
    (simulated, cycles), (computed, counted) = found
    print(f"  on RTL       8 x 8    {counted} cycles, simulated {cycles}", flush=True)
    return (simulated, cycles) == (computed, counted)


def _line(name: str, block: int, seconds: float, cycles: int) -> str:
    size = f"{1 << block} x {1 << block}"
    return (
        f"  {name:<12} {size:<8} {seconds:7.2f} s of CPU a point, {3600 / seconds:7.0f} points an "
        f"hour and core; {cycles:9} cycles"
    )


def _unit(block: int, latency: int = 0) -> Unit:
    """A device that nobody has looked at before, for each latency."""
    device: JsonObject = {**load_config("vtaq-1x16x16").to_json(), **_PADS, "LOG_BLOCK": block}
    del device["uop_depth"]
    constant = {"value": 16 + latency, "source": "the benchmark's"}
    device["timing"] = {**device["timing"], "read_latency_cycles": constant}
    return Unit(device, 0, {})


def _layers(file: Path) -> list[tuple[str, int, int, int, int, int, int, int]]:
    """Name, height and width with padding, the filter's, channels, filters, stride: a layer whose
    name begins with DP is depthwise, and done for each of its channels."""
    rows = []
    for n, op in enumerate(compile(file, "vtaq-1x16x16").graph.operators):
        if isinstance(op, g.Conv2D):
            top, left, bottom, right = op.padding
            _, height, width, channels = op.input.shape
            filters, *size, depth = op.weights.shape
            name, last = ("DP", (channels, 1)) if op.groups > 1 else ("conv", (depth, filters))
            padded = (height + top + bottom, width + left + right)
            rows.append((f"{name}{n}", *padded, *size, *last, op.strides[0]))
        elif isinstance(op, g.Dense):
            filters, channels = op.weights.shape
            rows.append((f"dense{n}", 1, 1, 1, 1, channels, filters, 1))
    return rows


def _scale_sim(
    python: Path, layers: list[tuple[str, int, int, int, int, int, int, int]], config: HwConfig
) -> tuple[float, int]:
    """Seconds of CPU, and cycles. What it is told of layouts is not used, and must be there."""
    kib = {f"{name[4:7].lower()}_kib": (1 << size) // 1024 for name, size in _PADS.items()}
    text = _CONFIG.format(block=config.block, bus_bytes=config.bus_bits // 8, **kib)
    with tempfile.TemporaryDirectory(prefix="loadstone-") as folder:
        at = Path(folder)
        (at / "run.cfg").write_text(text)
        table = [",".join(map(str, layer)) + "," for layer in layers]
        (at / "topology.csv").write_text("\n".join([_HEAD, *table]) + "\n")
        layout = [f"{name}," + "1," * 20 for name, *_ in layers]
        (at / "layout.csv").write_text("\n".join(["Layer,", *layout]) + "\n")
        done = subprocess.run(
            [python, "-c", _DRIVER], cwd=at, capture_output=True, text=True, check=True
        )
    seconds, cycles = json.loads(done.stdout)
    return float(seconds), int(cycles)


def _environment() -> Path | None:
    """The interpreter that has SCALE-Sim; None where no registry has it."""
    python = _VENV / "bin" / "python"
    if not (_VENV / "made").is_file():
        subprocess.run([sys.executable, "-m", "venv", "--clear", _VENV], check=True)
        asked = [python, "-m", "pip", "install", "-q", *_PACKAGES]
        if subprocess.run(asked, capture_output=True, check=False).returncode:
            print(f"  SCALE-Sim is left out: pip install {' '.join(_PACKAGES)} fails")
            return None
        (_VENV / "made").touch()
    return python
