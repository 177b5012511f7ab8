# SPDX-License-Identifier: Apache-2.0
"""An operator's input that the host folds for this operator alone, taps into channels.

In:   the operator; its operations, which read the input by the name that all know.
Out:  the name of the folded tensor; the same operations on it.
Next: offload.py and cores.py lower with it; operators/layout.py says what it consists of.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from loadstone import graph as g
from loadstone.vta.stream.operations import Operation, TileLoad

__all__ = ["folded_name", "on_folded"]


def folded_name(operator: g.Operator) -> str:
    """Another one for each operator that reads the tensor."""
    return f"{operator.input.name} for {operator.name}"


def on_folded(operator: g.Operator, operations: Iterable[Operation]) -> list[Operation]:
    """With loads of the folded input in the place of those of the input."""
    read, name = operator.input.name, folded_name(operator)
    return [
        replace(o, dram=replace(o.dram, tensor=name))
        if isinstance(o, TileLoad) and o.dram.tensor == read
        else o
        for o in operations
    ]
