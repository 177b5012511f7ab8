# SPDX-License-Identifier: Apache-2.0
"""What the C runtime itself costs: the host's time for a run, and the validator's share of the
device's time.

Columns: microseconds of one run on the null device (submit, wait and finish, called from Python),
device programs alone, and with the host steps (pack, softmax ...) that the network has;
microseconds of validating all its programs, once for a session;
microseconds of one run on the simulated device at 100 MHz; the validator's share of that one run.

The networks are those of MLPerf Tiny in ../shared/models; without that folder there is nothing to
measure.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable
from pathlib import Path

from loadstone.artifact.format import Artifact, ProgramStep
from loadstone.compiler import compile as compile_model
from loadstone.library.native import ffi, lib
from loadstone.runtime import device
from loadstone.vta.device.hw_config import load_config
from tests.bench.networks import NETWORKS

#: Microseconds of a run on the null device, host steps apart.
MOST_HOST_US = 10.0
#: The validator's share of one run's device time, in percent: a target, as it compares this machine
#: with a device of 100 MHz.
TARGET_PERCENT = 1.0
CLOCK_MHZ = 100
_DEVICE = "vtaq-1x16x16"


def run() -> bool:
    """Prints the table; False when a run on the null device takes too long."""
    models = (
        Path(os.environ.get("LOADSTONE_SHARED", Path(__file__).resolve().parents[3] / "shared"))
        / "models"
    )
    if not models.is_dir():
        print(f"skipped: {models} is absent")
        return True
    print(
        f"{'network':<36} {'host us':>8} {'+ steps':>8} {'validate us':>11} {'insns':>6} "
        f"{'device us':>9} {'share %':>7}"
    )
    held = True
    for name in NETWORKS[:5]:
        artifact = compile_model(str(models / name), load_config(_DEVICE)).artifact
        programs = tuple(s for s in artifact.steps if isinstance(s, ProgramStep))
        alone = null_us(dataclasses.replace(artifact, steps=programs))
        validate, device_us = validate_us(artifact), cycles(artifact) / CLOCK_MHZ
        percent = 100 * validate / device_us
        held &= alone < MOST_HOST_US
        remarks = [f"above {MOST_HOST_US} us"] * (alone >= MOST_HOST_US) + [
            f"target {TARGET_PERCENT} %"
        ] * (percent >= TARGET_PERCENT)
        print(
            f"{name:<36} {alone:>8.2f} {null_us(artifact):>8.2f} {validate:>11.2f} "
            f"{sum(len(p.instructions) for p in programs) // 16:>6} "
            f"{device_us:>9.1f} {percent:>7.2f}  {'; '.join(remarks)}".rstrip(),
            flush=True,
        )
    return held


def best_us(call: Callable[[], object], seconds: float = 0.5) -> float:
    """The least time of a call, in microseconds: what the machine does besides is not the
    runtime's."""
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        begin = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - begin)
    return best * 1e6


def null_us(artifact: Artifact) -> float:
    """One run on the device that computes nothing."""
    with device.open("null") as null, null.load(artifact) as session:
        return best_us(session.execute)


def validate_us(artifact: Artifact) -> float:
    """The C validator over all programs, less what a call from Python costs."""
    data = artifact.to_bytes()
    open_model, check = lib().lds_model_open, lib().lds_model_validate
    model, fault, buffer = ffi.new("lds_model *"), ffi.new("lds_fault *"), ffi.from_buffer(data)
    assert open_model(model, buffer, len(data)) == 0
    size = lib().lds_model_scratch_bytes(model)
    scratch = ffi.new("uint64_t[]", size // 8 + 1)
    assert check(model, scratch, size, fault) == 0
    return best_us(lambda: check(model, scratch, size, fault)) - best_us(
        lambda: check(model, ffi.NULL, size, fault)
    )


def cycles(artifact: Artifact) -> int:
    """Of one run on the simulator."""
    with device.open(_DEVICE) as simulated, simulated.load(artifact) as session:
        session.execute()
        return session.counters.cycles
