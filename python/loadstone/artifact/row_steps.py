# SPDX-License-Identifier: Apache-2.0
"""Calls of relax/row_calls.py as steps of the runtime.

In:   a call in a Host operator's function, and a StepWriter.
Out:  the step's operands and parameters.
Next: relax_steps.py has it in its table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from loadstone.artifact import host_step as steps
from loadstone.artifact.host_step import HostOpcode, Strided
from loadstone.artifact.step_writer import NoOperatorError, StepWriter, extents_of
from loadstone.relax.row_calls import row_call

if TYPE_CHECKING:
    from loadstone.relax.types import Call

__all__ = ["row_step"]

_Numbers: TypeAlias = Sequence[float]


def row_step(w: StepWriter, call: Call, y: int) -> None:
    """The step of such a call. With places it has no form for several samples: theirs differ."""
    said = row_call(call)
    if said is None or (w.samples != 1 and said[0] in _OF_PLACES):
        raise NoOperatorError
    name, tensors, numbers = said
    if name == "take_columns":
        depth, count = extents_of(tensors[0])
        operands = w.blocked(tensors[0]), w.operand(tensors[1]), y
        w.steps.append(steps.gather(w.o.name, operands, count, depth))
        return
    opcode = HostOpcode[name.upper()]
    read, outputs = tensors, [y]
    if opcode == HostOpcode.KEEP_ROWS:  # the rest of the cache stays
        w.copy(w.operand(tensors[0]), y, [w.elements(call)], Strided([1]), Strided([1]))
        read = tensors[1:]
    if opcode == HostOpcode.ATTENTION:
        outputs.append(w.memory(extents_of(tensors[2])[1], "float32"))
    inputs = [w.operand(tensor) for tensor in read]
    shapes = [extents_of(tensor) for tensor in tensors]
    values = [int(number) for number in _VALUES[name](shapes, numbers)]
    w.steps.append(steps.on_rows(w.o.name, opcode, inputs, outputs, values))
    w.give_back(*outputs[1:])


def _bits(number: float) -> int:
    return int(np.float32(number).view(np.int32))


#: Calls that read a place.
_OF_PLACES = ("rotate_places", "keep_rows", "attention")
_Shapes: TypeAlias = Sequence[tuple[int, ...]]
#: Parameters in their order, of the tensors' shapes and the call's numbers.
_VALUES: Mapping[str, Callable[[_Shapes, _Numbers], Sequence[float]]] = {
    "rms_norm": lambda x, n: (prod(x[1]), _bits(n[0])),
    "rotate_places": lambda x, n: (*x[0][-2:], x[2][-1], n[0]),
    "row_scales": lambda x, n: (x[0][-1], n[0]),
    "quantize_rows": lambda x, n: (x[0][-1], n[0]),
    "rescale_rows": lambda x, n: (prod(x[2]), n[0]),
    "keep_rows": lambda x, _: (x[0][0], x[0][2]),
    "attention": lambda x, n: (x[0][-2], x[2][0], x[0][-1], n[0], _bits(n[1])),
    "gate": lambda _, n: (n[0],),
}
