# SPDX-License-Identifier: Apache-2.0
"""Hosts that can be named instead of measured: `--host cortex-m55@160`.

In:   a name and a clock; a host step of an artifact.
Out:  its nanoseconds, from cycles for each multiply-accumulate, element or byte.
Next: prices.py asks; commands/compile.py lists the names.

The cycles are instructions, one in a cycle, which is less than a processor takes: they were counted
in QEMU 7.2 (-icount) on the C that `loadstone export` writes for the layers of ResNet8, DS-CNN,
MobileNetV1 and the autoencoder of MLPerf Tiny, compiled by GCC 12.2 with -O2, and divided by what
was computed. For comparison: 704 ms for ResNet8 on a Cortex-M4 at 120 MHz (MLPerf Tiny 0.5, the
reference, C of TensorFlow Lite Micro) are 6.8 cycles for each multiply-accumulate.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Protocol

from loadstone import graph as g
from loadstone.artifact.format import Artifact, HostStep
from loadstone.artifact.host_step import EXTERNAL_OPERATOR, HostOpcode
from loadstone.errors import ConfigError
from loadstone.runtime.externals import step_operator
from loadstone.runtime.step_source import content

__all__ = ["HOSTS", "SOURCES", "StatedHost", "stated_host"]

#: What a cost is for -> where its figures come from.
SOURCES: Mapping[str, str] = {
    "mac": "counted: convolutions, for each multiply-accumulate",
    "depthwise": "counted: depthwise convolutions, for each multiply-accumulate",
    "dense": "counted: dense layers, for each multiply-accumulate",
    "window": "counted: pools, for each element of the input",
    "element": "counted: additions, for each element of the output; assumed for all others that "
    "compute element by element",
    "move": "assumed: a load, a store and the two of a loop, for each byte that is moved",
    "exp": "assumed: four additions, for each element of a softmax or another function by series",
}
#: Host -> what a cost is for -> cycles.
HOSTS: Mapping[str, Mapping[str, float]] = {
    "cortex-m4": {
        "mac": 7.5,
        "depthwise": 22.4,
        "dense": 10.9,
        "window": 6.7,
        "element": 27.9,
        "move": 4.0,
        "exp": 111.0,
    },
    "cortex-m55": {
        "mac": 6.7,
        "depthwise": 21.7,
        "dense": 5.7,
        "window": 6.2,
        "element": 30.8,
        "move": 4.0,
        "exp": 123.0,
    },
}
_MOVES = (
    HostOpcode.PACK,
    HostOpcode.UNPACK,
    HostOpcode.COPY,
    HostOpcode.FILL,
    HostOpcode.LOOKUP,
    HostOpcode.GATHER,
)
#: What reads more than it writes.
_REDUCTIONS = ("argmax", "sum_float32", "row_scales")
_SUMS_OF_A_ROTATION = 6  # of an element: a Hadamard matrix of 64 by 64
_SERIES = ("softmax", "exp", "log", "tanh", "sigmoid", "erf", "gelu", "power", "gate")
_TEXT = re.compile(r"([a-z0-9-]+)@([0-9]+)")


class WeightedLayer(Protocol):
    """What is asked of a layer of quantization/network.py."""

    kind: str
    groups: int

    @property
    def macs(self) -> int:
        """Multiply-accumulates."""


@dataclass(frozen=True)
class StatedHost:
    """A host by name at a clock."""

    name: str
    mhz: int

    def step_ns(self, step: HostStep, artifact: Artifact) -> int | None:
        """Nanoseconds; None for what is not known by its kind: Relax, a plug-in's function."""
        work = _work(step, artifact)
        if work is None:
            return None
        cycles = sum(HOSTS[self.name][kind] * count for kind, count in work.items())
        return max(1, round(cycles * 1000 / self.mhz))

    def layer_cycles(self, layer: WeightedLayer) -> int:
        """Of a float layer of a network that is quantized, at the costs of int8: the host's own
        cycles."""
        kind = "depthwise" if layer.groups > 1 else "mac" if "conv" in layer.kind else "dense"
        return round(HOSTS[self.name][kind] * layer.macs)

    def cycles_in(self, ms: float) -> int:
        """Of so many milliseconds."""
        return round(ms * 1000 * self.mhz)

    def __str__(self) -> str:
        return f"{self.name}@{self.mhz}"


def stated_host(text: str) -> StatedHost:
    """Of `NAME@MHZ`. Raises ConfigError, which names those that there are."""
    said = _TEXT.fullmatch(text)
    known = ", ".join(HOSTS)
    if said is None:
        raise ConfigError(
            f"--host {text!r} is not NAME@MHZ, such as cortex-m55@160; known: {known}"
        )
    name, mhz = said[1], int(said[2])
    if name not in HOSTS:
        raise ConfigError(
            f"--host {name}: it is not one of {known}: measure on the host, and enter the times "
            "into a file of --costs"
        )
    if not 1 <= mhz <= 10_000:
        raise ConfigError(f"--host {text}: {mhz} MHz is not in [1, 10000]")
    return StatedHost(name, mhz)


def _work(step: HostStep, artifact: Artifact) -> Mapping[str, int] | None:
    """What a step computes, and how much of each; None: not known by its kind."""
    if step.opcode == HostOpcode.EXTERNAL:
        return _external(step, artifact)
    name = step.opcode.name.lower()
    first = artifact.tensors[step.inputs[0]] if step.inputs else None
    elements = _elements(step.outputs, artifact)
    if step.opcode == HostOpcode.ATTENTION:
        return _attention(step, artifact)
    if step.opcode == HostOpcode.GATHER:  # of the table only what is taken
        return {"move": sum(artifact.tensors[i].size_bytes for i in step.outputs)}
    if step.opcode in _MOVES:
        return {"move": max(artifact.tensors[i].size_bytes for i in (*step.inputs, *step.outputs))}
    if step.opcode == HostOpcode.KEEP_ROWS and first is not None:  # the rest of the cache stays
        return {"move": first.size_bytes}
    if step.opcode == HostOpcode.MATMUL_FLOAT32 and first is not None:
        return {"mac": elements * first.shape[-1]}
    if name in _REDUCTIONS:
        elements = _elements(step.inputs, artifact)
    if step.parameters.get("rotate", 0):
        elements *= 1 + _SUMS_OF_A_ROTATION
    return {"exp" if name.startswith(_SERIES) else "element": elements}


def _attention(step: HostStep, artifact: Artifact) -> Mapping[str, int]:
    """Of a row behind the last places of the cache, which sees most."""
    scales, y = artifact.tensors[step.inputs[3]], artifact.tensors[step.outputs[0]]
    places = prod(scales.shape) // step.parameters["groups"]
    seen = min(step.parameters["window"] or places, places)
    size = step.parameters["size"]
    return {"mac": 2 * prod(y.shape) * seen, "exp": prod(y.shape) // size * seen}


def _external(step: HostStep, artifact: Artifact) -> Mapping[str, int] | None:
    if step.function != EXTERNAL_OPERATOR:
        return None
    kind = str(json.loads(step.attributes)["kind"]).lower()
    operator = step_operator(step.attributes, [content(artifact, i) for i in step.inputs])
    if isinstance(operator, g.Weighted | g.RealWeighted):
        narrow = getattr(operator, "is_depthwise", False)
        return {
            "dense" if kind.endswith("dense") else "depthwise" if narrow else "mac": operator.macs
        }
    if isinstance(operator, g.BatchMatMul | g.RealMatMul):
        return {"mac": operator.macs}
    if type(operator).is_move:
        tensors = (*step.inputs, *step.outputs)
        return {"move": max(artifact.tensors[i].size_bytes for i in tensors)}
    read = operator.inputs[0].size if operator.inputs else 0
    elements = max(_elements(step.outputs, artifact), read)
    if "pool" in kind:
        return {"window": elements}
    return {"exp" if kind.startswith(_SERIES) else "element": elements}


def _elements(tensors: Sequence[int], artifact: Artifact) -> int:
    """Of all of them together."""
    return sum(prod(artifact.tensors[index].shape) for index in tensors)
