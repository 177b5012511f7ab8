# SPDX-License-Identifier: Apache-2.0
"""The simulator's speed: multiply-accumulates a second on the measured convolutions, timing on, one
thread.

In:   the conv group of ../shared/vta_rtl; without that folder there is nothing to measure.
Out:  GMAC/s of each path of kernels, beside the portable path and LiteRT's XNNPACK on convolutions
      of the same shapes;
      what timing and the checks cost; seconds for all programs of the folder.
Next: docs/timing.md.

The best of many runs counts, of every program: other load on the machine must not. XNNPACK runs the
whole operator, with one thread, requantization included, as the simulator does; VTA's own layout is
packed beforehand for both.
"""

from __future__ import annotations

import platform
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from loadstone.library.native import ffi, lib
from loadstone.vta.simulator.replay import replay
from loadstone.vta.simulator.sim import kernels_available
from loadstone.vta.simulator.vectors import Vector, load_vectors
from tests.conftest import SHARED
from tests.tflite_builder import Graph, Padding

#: GMAC/s that each path must reach where the CPU has it. No arm64 machine has been measured: at
#: least, vectors must pay.
LEAST = {"portable": 1.0, "avx2": 20.0, "avx512": 40.0, "neon": 2.0}
_SHAPE = re.compile(r"(\d+)x(\d+) (\d+)->(\d+) (\d+)x\d+(?: s(\d))?")


def run() -> bool:
    """Prints the figures; whether the limits hold."""
    folder = SHARED / "vta_rtl"
    if not folder.is_dir():
        print(f"{folder} is absent: nothing to measure")
        return True
    if _emulated():
        print("this processor is emulated: its speed says nothing")
        return True
    everything = load_vectors([folder])
    vectors = [v for v in everything if v.group == "conv"]
    macs = sum(_macs(v) for v in vectors)
    held, portable = True, 0.0
    xnnpack = macs / sum(_xnnpack_seconds(v) for v in vectors) / 1e9
    for kernels in kernels_available(vectors[0].config):
        speed = macs / sum(_seconds(v, kernels=kernels) for v in vectors) / 1e9
        portable = portable or speed
        held &= speed >= LEAST[kernels]
        beside = (
            f"{speed / portable:5.1f} x portable  {speed / xnnpack:5.2f} x XNNPACK "
            f"({xnnpack:.1f} GMAC/s)"
        )
        print(f"{kernels:<9} {speed:6.1f} GMAC/s (at least {LEAST[kernels]:.0f})  {beside}")
    whole = sum(_seconds(v) for v in vectors)
    for what, options in {
        "without timing": {"timing": False},
        "strict": {"strict": True},
        "race check": {"races": True},
        "trace": {"trace": True},
    }.items():
        print(f"{what:<15} {sum(_seconds(v, **options) for v in vectors) / whole:6.2f} x the time")
    start = time.perf_counter()
    for vector in everything:
        replay(vector)
    print(
        f"replay of {len(everything)} programs at two latencies: "
        f"{time.perf_counter() - start:.1f} s"
    )
    return held


def _emulated() -> bool:
    """Whether an x86-64 machine plays an arm64 one: the emulator answers uname, but /proc/cpuinfo
    is the machine's."""
    cpus = Path("/proc/cpuinfo")
    return (
        platform.machine() == "aarch64"
        and cpus.is_file()
        and "vendor_id" in cpus.read_text(encoding="utf-8")
    )


def _best(call: Callable[[], Any], seconds: float = 0.15) -> float:
    """The shortest of the calls that fit into some time."""
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def _seconds(vector: Vector, **options: Any) -> float:
    """One run, called as C does."""
    simulator = vector.simulator(vector.dram_in.copy(), **{"strict": False, **options})
    address = -(-(vector.dram_base + vector.dram_in.size) // 4096) * 4096
    simulator.map(address, vector.insns, read_only=True)
    result, count, native = ffi.new("lds_sim_result *"), len(vector.insns), lib()
    seconds = _best(lambda: native.lds_sim_run(simulator._sim, address, count, 0, result))
    assert result.status == 0
    return seconds


def _macs(vector: Vector) -> int:
    return vector.simulator(vector.dram_in.copy(), strict=False).run(vector.insns).macs


def _xnnpack_seconds(vector: Vector) -> float:
    """LiteRT with its XNNPACK delegate, one thread, on a convolution of the shape that the vector's
    description names."""
    from ai_edge_litert.interpreter import Interpreter

    found = _SHAPE.search(vector.description)
    assert found is not None, vector.description
    height, width, inputs, outputs, kernel = (int(g) for g in found.groups()[:5])
    stride = int(found.group(6) or 1)
    rng = np.random.default_rng(0)
    graph = Graph()
    x = graph.input((1, height, width, inputs), np.int8, scale=0.1, zero_point=0)
    weights = rng.integers(-127, 128, (outputs, kernel, kernel, inputs)).astype(np.int8)
    w = graph.constant(weights, scale=[0.01] * outputs, zero_point=[0] * outputs, axis=0)
    b = graph.constant(
        np.zeros(outputs, np.int32), scale=[0.001] * outputs, zero_point=[0] * outputs, axis=0
    )
    same = (1, -(-height // stride), -(-width // stride), outputs)
    y = graph.tensor(same, np.int8, scale=1.0, zero_point=0)
    graph.operator(
        "CONV_2D", [x, w, b], [y], padding=Padding.SAME, stride_h=stride, stride_w=stride
    )
    interpreter = Interpreter(model_content=graph.save(outputs=[y]), num_threads=1)
    interpreter.allocate_tensors()
    image = rng.integers(-128, 128, (1, height, width, inputs)).astype(np.int8)
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], image)
    # The vector's own count of multiply-accumulates, which leaves out nothing but padding, stands
    # for both.
    return _best(interpreter.invoke)
