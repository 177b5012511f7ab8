# SPDX-License-Identifier: Apache-2.0
"""A function of nests over tiles as TensorIR, lane by lane.

In:   `Function` of ir_pass/nests.py.
Out:  an IRModule of loops, for TVM's passes and those of a back end.
Next: kernels/from_tir.py, if a dump of the stages is requested, or a back end has passes of its
      own.

kernels/from_nests.py, applied to a function, and kernels/from_tir.py, applied to its TensorIR,
return the same operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from loadstone.ir_pass.affine import Index, Place, Variable, index
from loadstone.ir_pass.intrinsics import BUFFER_OPERANDS, PREFIX
from loadstone.ir_pass.nests import (
    COPY,
    Function,
    Nest,
    NestAccess,
    NestAllocation,
    NestGroup,
    NestLoop,
    NestStep,
    NestTensor,
    Statement,
)
from loadstone.relax.compat import tirx
from loadstone.vta.schedule import loops

if TYPE_CHECKING:
    from loadstone.relax.types import Buffer, Expr, IRModule, Stmt, Var

__all__ = ["module"]


def module(function: Function) -> IRModule:
    """The function "main"."""
    writer = _Writer()
    parameters = [writer.buffer(tensor) for tensor in function.parameters]
    return loops.written(parameters, writer.sequence(function.body))


class _Writer:
    """Gives every statement loops of its own, though functions share nests."""

    def __init__(self) -> None:
        self._buffers: dict[NestTensor, Buffer] = {}
        self._variables: dict[Variable, Var] = {}

    def buffer(self, tensor: NestTensor) -> Buffer:
        """The buffer that represents a tensor in this function."""
        if tensor not in self._buffers:
            shape = (*tensor.shape, *tensor.lanes)
            self._buffers[tensor] = (
                loops.dram_buffer(tensor.name, shape, tensor.dtype)
                if tensor.memory is None
                else loops.chip_buffer(tensor.name, shape, tensor.dtype, tensor.memory)
            )
        return self._buffers[tensor]

    def sequence(self, body: Sequence[Statement]) -> Stmt:
        """Statements one after another."""
        return tirx.stmt_seq(*map(self._statement, body))

    def _statement(self, statement: Statement) -> Stmt:
        if isinstance(statement, NestAllocation):
            return tirx.AllocBuffer(self.buffer(statement.tensor))
        if isinstance(statement, NestGroup):
            return self.sequence(statement.body)
        around = loops.Loops()
        if isinstance(statement, NestLoop):
            self._open(around, statement.variable)
            return around.around(self.sequence(statement.body))
        for loop in statement.loops:
            self._open(around, loop)
        return self._nest(statement, around)

    def _open(self, around: loops.Loops, loop: Variable) -> None:
        self._variables[loop] = around.loop(loop.extent, loop.name)

    def _nest(self, nest: Nest, around: loops.Loops) -> Stmt:
        around.conditions += map(self._condition, nest.conditions)
        target, first = nest.steps[0].operands[0], nest.steps[0]
        batch = around.loop(target.tensor.lanes[0], "lane_b")
        lane = around.loop(target.tensor.lanes[1], "lane")
        if first.name == "gemm":
            k = around.loop(target.tensor.lanes[1], "k")
            source, weight = first.operands[1:]
            product = self._load(source, (batch, k)).astype("int32") * self._load(
                weight, (lane, k)
            ).astype("int32")
            value = self._load(target, (batch, lane)) + product
        elif first.name == "fill":
            value = tirx.IntImm("int32", first.immediates[0])
        elif first.name == COPY:
            value = self._copied(first, (batch, lane))
        else:
            value = self._load(target, (batch, lane))
            for step in nest.steps:
                operands = [self._load(each, (batch, lane)) for each in _read(step)]
                value = _extern(step.name, value, *operands, *step.immediates)
        at = [*map(self._expr, target.at), batch, lane]
        return around.around(tirx.BufferStore(self.buffer(target.tensor), value, at))

    def _copied(self, step: NestStep, lanes: tuple[Expr, Expr]) -> Expr:
        target, source = step.operands
        value = self._load(source, lanes)
        if source.tensor.memory is not None:
            return value.astype(target.tensor.dtype)
        inside = source.inside
        if not inside:
            return value
        pad = tirx.IntImm(source.tensor.dtype, source.pad)
        return tirx.if_then_else(tirx.all(*map(self._condition, inside)), value, pad)

    def _load(self, access: NestAccess, lanes: tuple[Expr, Expr]) -> Expr:
        return tirx.BufferLoad(self.buffer(access.tensor), [*map(self._expr, access.at), *lanes])

    def _condition(self, condition: Index) -> Expr:
        """That it is not negative, without a negative factor on either side."""
        more = Index(0, {v: n for v, n in condition.terms.items() if n > 0})
        less = Index(0, {v: -n for v, n in condition.terms.items() if n < 0})
        if not less.terms:
            return self._expr(more) >= -condition.constant
        return self._expr(less) < self._expr(more + (condition.constant + 1))

    def _expr(self, place: Place) -> Expr:
        whole = index(place)
        terms = [self._variables[v] * n for v, n in whole.terms.items() if n]
        if not terms:
            return tirx.IntImm("int32", whole.constant)
        total = terms[0]
        for term in terms[1:]:
            total = total + term
        return total + whole.constant if whole.constant else total


def _extern(name: str, *arguments: Expr | int) -> Expr:
    """One ALU operation as an opaque expression. Of arithmetic TVM's simplifier would make another:
    of `((a - 4) * 1024 + 64) >> 7` it makes `(a * 1024 - 4032) >> 7`, whose immediate no longer
    fits 16 bits."""
    return tirx.call_pure_extern("int32", PREFIX + name, *arguments)


def _read(step: NestStep) -> Sequence[NestAccess]:
    """The operands of a step after the first. RQ has three tiles, one after the other."""
    others = step.operands[1:]
    if step.name != "rq":
        return others
    ((tensor, (*outer, last), _),) = others
    return [tensor[(*outer, last + tile)] for tile in range(BUFFER_OPERANDS["rq"] - 1)]
