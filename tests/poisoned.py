# SPDX-License-Identifier: Apache-2.0
"""Which bytes of its outputs an operator of the host leaves as they were.

In:   an artifact and its device.
Out:  `unwritten`: for each operator of the host, bytes of its outputs that its steps did not write.
Next: artifact/test_host.py, partition/test_fused_graph.py.

The steps of each run alone in the C runtime, on inputs that are zero and outputs that are filled
with a pattern, twice. A byte that has the first pattern behind the first run and the second one
behind the second was not written. A step that works in place reads its outputs, and is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np

from loadstone.artifact.format import Artifact, HostStep
from loadstone.backend.device import Device
from loadstone.numerics import Array
from loadstone.runtime.device import OpenedDevice
from loadstone.runtime.session import Session

__all__ = ["unwritten"]

PATTERNS = (0x5A, 0xA5)
#: What a step uses as it likes.
SCRATCH = "scratch of host steps"


def unwritten(artifact: Artifact, device: Device) -> dict[str, int]:
    """Operators that leave bytes of their outputs, by name: how many. Scratch memory is no
    output."""
    found = {}
    for name, steps in groupby(artifact.steps, lambda step: step.name):
        host = [step for step in steps if isinstance(step, HostStep)]
        if host and not any(set(step.inputs) & set(step.outputs) for step in host):
            with OpenedDevice("null", "", device) as opened:
                alone = replace(artifact, steps=tuple(host), inputs=(), outputs=())
                with opened.load(alone, trust=True) as session:
                    if missed := _missed(session, host):
                        found[name] = missed
    return found


def _missed(session: Session, steps: Sequence[HostStep]) -> int:
    tensors, outputs = session.artifact.tensors, dict[int, Array]()
    for number, step in enumerate(steps):
        for k, index in enumerate(step.outputs, len(step.inputs)):
            if tensors[index].name != SCRATCH:
                array = session._operand(session._session, number, k, index)
                outputs[index] = array.reshape(-1).view(np.uint8)
    left = {index: np.ones(len(array), np.bool_) for index, array in outputs.items()}
    for pattern in PATTERNS:
        for array in outputs.values():
            array[:] = pattern
        session.execute()
        for index, array in outputs.items():
            left[index] &= array == pattern
    return sum(int(same.sum()) for same in left.values())
