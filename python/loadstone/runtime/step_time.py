# SPDX-License-Identifier: Apache-2.0
"""The time of one host step, by the clock of this machine.

In:   a step, its artifact and its device.
Out:  nanoseconds.
Next: partition/cost/prices.py compares plans by it; analysis/report.py shows it.
"""

from __future__ import annotations

import time
from dataclasses import replace
from statistics import median

from loadstone.artifact.format import Artifact, HostStep
from loadstone.backend.device import Device
from loadstone.runtime.device import OpenedDevice
from loadstone.runtime.session import Session

__all__ = ["measured_ns"]

_ROUNDS = 7
_ROUND_SECONDS = 1e-3
#: A step that takes longer is run twice only.
_LONG_SECONDS = 0.1


def measured_ns(step: HostStep, artifact: Artifact, device: Device, *, trust: bool) -> int:
    """The median of a few rounds of the step alone, run by the C runtime on a device that does
    nothing. trust: whether it may be code (SECURITY.md).

    Not the least: a step whose time depends on what else the machine does shall not look better
    than it mostly is.
    """
    with OpenedDevice("null", "", device) as opened:
        alone = replace(artifact, steps=(step,), inputs=(), outputs=())
        once = opened.load(alone, trust=trust)
        # the first time compiles a Relax function, and may have met with anything
        least = min(_seconds(once) for _ in range(2))
        if least > _LONG_SECONDS:
            return int(least * 1e9)
        count = max(1, min(256, int(_ROUND_SECONDS / least)))
        many = (
            once if count == 1 else opened.load(replace(alone, steps=(step,) * count), trust=trust)
        )
        return int(median(_seconds(many) for _ in range(_ROUNDS)) * 1e9 / count)


def _seconds(session: Session) -> float:
    start = time.perf_counter()
    session.execute()
    return time.perf_counter() - start
