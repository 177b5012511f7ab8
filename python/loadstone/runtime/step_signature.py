# SPDX-License-Identifier: Apache-2.0
"""What determines the time of a host step, as a text: equal steps are measured once.

In:   a step, and the tensors of its artifact.
Out:  its function, the types of its operands, and a digest of everything else but names.
Next: step_time.py measures; partition/cost/prices.py keeps times by this text in a file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256

from loadstone.artifact.format import HostStep
from loadstone.artifact.host_step import EXTERNAL_OPERATOR, HostOpcode
from loadstone.artifact.memory_plan import BufferView

__all__ = ["digest", "step_signature"]


def step_signature(step: HostStep, tensors: Sequence[BufferView]) -> str:
    """What determines the time of a step, names of layers left out."""
    sides = [
        " ".join(_type(tensors[index]) for index in side) for side in (step.inputs, step.outputs)
    ]
    name = step.function or HostOpcode(step.opcode).name.lower()
    attributes = step.attributes
    if step.function == EXTERNAL_OPERATOR:
        said = json.loads(attributes)
        name += " " + said["kind"]
        attributes = json.dumps(
            [{**said["fields"], "name": ""}, [[t[1:] for t in side] for side in said["tensors"]]],
            sort_keys=True,
        )
    return f"{name} {sides[0]} -> {sides[1]} #{digest(_parameters(step.parameters), attributes)}"


def _parameters(values: Mapping[str, int]) -> str:
    return json.dumps(sorted(values.items()))


def _type(tensor: BufferView) -> str:
    return f"{tensor.dtype.name.lower()}[{'x'.join(map(str, tensor.shape))}]"


def digest(*parts: str | bytes) -> str:
    """A short one, that tells apart where one part ends and the next begins."""
    digest = sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:16]
