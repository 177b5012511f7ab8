# SPDX-License-Identifier: Apache-2.0
"""The parts of a network that Loadstone runs, when another program runs the rest.

In:   a module in canonical form and a target, or a Partition.
Out:  an Offload: the partition, and its segments that the C runtime runs alone, device programs and
      host steps together.
Next: tvm.py makes functions of the segments; files of other hosts find their nodes by tensors.

A host has neither Python nor our compiler at run time, so that operators which need the Python
runtime stay with the host. A segment contains at least one operator that an accelerator takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from loadstone.artifact.host import is_built_in
from loadstone.backend.interface import Segment
from loadstone.backend.target import Target
from loadstone.partition.eager import HOST, Partition, divide, partition
from loadstone.partition.prepare import relax_passed

if TYPE_CHECKING:
    from loadstone.relax.types import IRModule

__all__ = ["OFFLOADED", "Offload", "divided_module", "offload"]

#: What stands for the accelerator together with the host steps of the C runtime.
OFFLOADED = "loadstone"


@dataclass(frozen=True, eq=False)
class Offload:
    """partition: of the whole network. segments: those that go to Loadstone, in an order in which
    they can run. reasons: what stays with the host -> why."""

    partition: Partition
    segments: tuple[Segment, ...]
    reasons: Mapping[str, str]


def divided_module(module: IRModule, target: Target, name: str = "model") -> Partition:
    """The partition of a module in canonical form, with the passes of the target's back ends over
    Relax. Raises UnsupportedError for dynamic shapes."""
    return partition(
        relax_passed(module, target.backends, own_runtime=False), target.backends, name
    )


def offload(divided: Partition) -> Offload:
    """What a partition leaves to Python stays with the host."""
    assigned = {entry.operator.name: entry for entry in divided.assignments}
    place = {
        operator.name: OFFLOADED
        if assigned[operator.name].backend != HOST or is_built_in(operator)
        else HOST
        for operator in divided.graph.operators
    }
    _, segments = divide(divided.graph, place, [OFFLOADED])
    kept = tuple(
        segment
        for segment in segments
        if any(assigned[operator.name].backend != HOST for operator in segment.operators)
    )
    reasons = {
        operator: "; ".join(refusal.why for _, refusal in assigned[operator].refusals)
        for operator, where in place.items()
        if where == HOST
    }
    return Offload(divided, kept, reasons)
