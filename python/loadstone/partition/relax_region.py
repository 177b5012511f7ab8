# SPDX-License-Identifier: Apache-2.0
"""A segment as Relax: for a back end that goes from there to bytes or C, as TVM's own code
generators do.

In:   a Partition, one of its segments.
Out:  an IRModule: `main` takes the segment's inputs and gives its outputs, in order; each operator
      is a call of its composite function.
Next: lowering.py, which alone imports it, puts it into Segment.relax; Relax is left to this file
      and to those that read patterns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from loadstone.backend.interface import Segment
from loadstone.errors import LoweringError
from loadstone.partition.eager import Partition
from loadstone.partition.relax_parts import extracted
from loadstone.relax.compat import bindings

if TYPE_CHECKING:
    from loadstone.relax.types import IRModule

__all__ = ["region_as_relax"]


def region_as_relax(divided: Partition, segment: Segment) -> IRModule:
    """For one sample, whatever the device's batch. Raises LoweringError for what a GRAPH pass made,
    and for networks without Relax."""
    if divided.module is None:
        raise LoweringError(
            f"segment {segment.name} has no Relax: the network was made of operators, not "
            "read from a model"
        )
    for operator in segment.operators:
        if operator.output.name not in divided.variables:
            raise LoweringError(
                f"segment {segment.name}: {operator.name} is no Relax: a pass of phase graph "
                "made it"
            )
    values = dict(bindings(divided.module["main"]))
    made = [
        divided.variables[tensor.name]
        for operator in segment.operators
        for tensor in operator.outputs
    ]
    sources = [divided.variables[tensor.name] for tensor in segment.inputs]
    targets = [divided.variables[tensor.name] for tensor in segment.outputs]
    return extracted(
        divided.module, sources, [(variable, values[variable]) for variable in made], targets
    )
