# SPDX-License-Identifier: Apache-2.0
"""Unroll a function of nests into its calls, with plain numbers, from which a back end generates
instructions.

In:   a `Function` whose operands are in memories, the result of insert_dma_copy.py.
Out:  Calls in the order of execution, as unroll.py returns them for TensorIR; these count tiles,
      those count elements.
Next: a back end's code generator, such as that of docs/examples/systolic.

    for call in unroll_nests(function):
        match call.name:
            case "copy": ...
            case "gemm": ...
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from loadstone.errors import LoweringError
from loadstone.ir_pass.affine import Index, Variable
from loadstone.ir_pass.nests import (
    Function,
    Nest,
    NestAllocation,
    NestCall,
    NestGroup,
    NestTensor,
    Statement,
)
from loadstone.ir_pass.unroll import Buffer, Call, Loop, Place

__all__ = ["unroll_nests"]


def unroll_nests(function: Function) -> list[Call]:
    """All calls that do anything: of each step of a nest one, for each turn of the loops around.

    The scope of a buffer is its memory's name, "global" of a tensor in DRAM; each allocation makes
    a new buffer. The value of a copy's pads is its immediate. Raises LoweringError where a tensor
    is used that was not allocated.
    """
    return list(_Unroller(function).body(function.body))


class _Unroller:
    """buffers: of each tensor, the life that it is in. values: of the loops that are open."""

    def __init__(self, function: Function) -> None:
        self.buffers = {tensor: _buffer(tensor) for tensor in function.parameters}
        self.values: dict[Variable, int] = {}

    def body(self, body: Sequence[Statement]) -> Iterator[Call]:
        """The calls of statements."""
        for statement in body:
            if isinstance(statement, Nest):
                for call in statement.calls:
                    yield from self._call(call)
            elif isinstance(statement, NestAllocation):
                self.buffers[statement.tensor] = _buffer(statement.tensor)
            elif isinstance(statement, NestGroup):
                yield from self.body(statement.body)
            else:
                for turn in range(statement.variable.extent):
                    self.values[statement.variable] = turn
                    yield from self.body(statement.body)

    def _call(self, call: NestCall) -> Iterator[Call]:
        """None where a condition leaves no turn."""
        loops = tuple(
            Loop(
                axis.extent,
                *axis.executed(self.values),
                *axis.inside(self.values),
                axis.strides,
            )
            for axis in call.axes
        )
        if all(loop.first < loop.last for loop in loops):
            operands = tuple(self._place(*operand) for operand in call.operands)
            yield Call(call.name, operands, call.immediates, loops)

    def _place(self, tensor: NestTensor, number: Index) -> Place:
        if tensor not in self.buffers:
            raise LoweringError(f"unroll_nests: {tensor.name} is used where it is not allocated")
        return Place(self.buffers[tensor], number.at(self.values))


def _buffer(tensor: NestTensor) -> Buffer:
    return Buffer(tensor.name, tensor.memory or "global", tensor.shape, tensor.dtype)
