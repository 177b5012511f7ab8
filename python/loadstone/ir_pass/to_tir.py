# SPDX-License-Identifier: Apache-2.0
"""A function of nests over tiles as TensorIR, lane by lane.

In:   `Function` of nests.py, before or after its copies are inserted; the device's MemoryTable.
Out:  an IRModule of loops, for TVM's passes and those of a back end.
Next: from_tir.py reads what they made of it as nests again.

A buffer has the shape of its tensor, then the rows and columns of a tile. Its scope is "global" in
DRAM, "local.acc" in the memory acc, "local" where no memory is decided yet. What TensorIR has no
word for stands beside it:

    "lds.tensors"    an attribute of the function: role and name of each tensor, in order
    "lds.level"      an annotation of a loop that is a level, at which copies may stand:
                           "kept", or "apart" where nothing stays from turn to turn
    "lds.group"      an attribute around statements between which no copy comes

Operations behind a sum are calls of pure external functions ("lds.add", "lds.rq" ...), never
arithmetic: of `((a - 4) * 1024 + 64) >> 7` TVM's simplifier makes `(a * 1024 - 4032) >> 7`, whose
immediate no longer fits an instruction's 16 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from loadstone.ir_pass.affine import Index, Place, Variable, index
from loadstone.ir_pass.lanes import PREFIX, LaneAccess, StepLanes, lanes_of
from loadstone.ir_pass.memory_table import MemoryTable
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
from loadstone.relax.compat import tirx, tvm

if TYPE_CHECKING:
    from loadstone.relax.types import Buffer, Expr, IRModule, PrimFunc, Stmt, Var

__all__ = ["GROUP", "LEVEL", "TENSORS", "prim_func", "tensor_ir"]

TENSORS = "lds.tensors"
LEVEL = "lds.level"
GROUP = "lds.group"


def tensor_ir(function: Function, table: MemoryTable) -> IRModule:
    """The module whose "main" the function is. Raises LoweringError where the tiles of a step do
    not fit each other."""
    return tvm.IRModule({"main": prim_func(function, table)})


def prim_func(function: Function, table: MemoryTable) -> PrimFunc:
    """As tensor_ir; the function alone."""
    writer = _Writer(table)
    parameters = [writer.buffer(tensor) for tensor in function.parameters]
    undecided = [writer.buffer(tensor) for tensor in function.tensors if tensor.role == "local"]
    rooms = map(tirx.AllocBuffer, undecided)
    body = tirx.stmt_seq(*rooms, writer.sequence(function.body))
    roles = [f"{tensor.role} {writer.buffer(tensor).name}" for tensor in function.tensors]
    made = tirx.PrimFunc(parameters, body)
    for attribute in ("s_tir", "tirx.noalias"):
        made = made.with_attr(attribute, True)
    return made.with_attr(TENSORS, roles).with_attr("global_symbol", function.name)


class _Writer:
    """Gives every statement loops of its own, though functions share nests."""

    def __init__(self, table: MemoryTable) -> None:
        self._table = table
        self._buffers: dict[NestTensor, Buffer] = {}
        self._variables: dict[Variable, Var] = {}

    def buffer(self, tensor: NestTensor) -> Buffer:
        """What a tensor is in this function; of those that TENSORS lists no two have one name."""
        if tensor not in self._buffers:
            is_listed = tensor.memory is None
            taken = {str(b.name) for b in self._buffers.values()} if is_listed else set()
            name, number = tensor.name, 1
            while name in taken:
                number += 1
                name = f"{tensor.name}_{number}"
            local = "local" if tensor.memory is None else f"local.{tensor.memory}"
            scope = local if tensor.role == "local" else "global"
            shape = (*tensor.shape, *tensor.lanes)
            layout = _layout(shape)
            self._buffers[tensor] = tirx.decl_buffer(
                shape, tensor.dtype, name=name, scope=scope, layout=layout
            )
        return self._buffers[tensor]

    def sequence(self, body: Sequence[Statement]) -> Stmt:
        """Statements one after another."""
        return tirx.stmt_seq(*(part for each in body for part in self._statements(each)))

    def _statements(self, statement: Statement) -> list[Stmt]:
        match statement:
            case NestAllocation():
                return [tirx.AllocBuffer(self.buffer(statement.tensor))]
            case NestGroup():
                one = tirx.IntImm("int32", 1)
                return [tirx.AttrStmt(one, GROUP, one, self.sequence(statement.body))]
            case NestLoop():
                said = {LEVEL: "apart" if statement.apart else "kept"}
                return [self._loop(statement.variable, lambda: self.sequence(statement.body), said)]
            case Nest():
                return [
                    self._nest(statement, steps)
                    for steps in _as_one(statement.steps, self._table.starts)
                ]

    def _loop(
        self, loop: Variable, body: Callable[[], Stmt], said: dict[str, str] | None = None
    ) -> Stmt:
        variable = self._variables[loop] = tirx.Var(loop.name, "int32")
        return tirx.For(
            variable, 0, loop.extent, tirx.ForKind.SERIAL, body(), annotations=said or {}
        )

    def _nest(self, nest: Nest, steps: Sequence[NestStep]) -> Stmt:
        lanes = lanes_of(steps[0], self._table)
        over_lanes = {name: Variable(name, extent) for name, extent in lanes.loops.items()}
        loops = [*nest.loops, *over_lanes.values()]

        def inside() -> Stmt:
            body = self._store(steps, lanes, {n: self._variables[v] for n, v in over_lanes.items()})
            if not nest.conditions:
                return body
            holds = tirx.all(*map(self._condition, nest.conditions))
            return tirx.IfThenElse(holds, body, None)

        def around(number: int) -> Stmt:
            if number == len(loops):
                return inside()
            return self._loop(loops[number], lambda: around(number + 1))

        return around(0)

    def _store(self, steps: Sequence[NestStep], lanes: StepLanes, loops: dict[str, Var]) -> Stmt:
        first = steps[0]
        target = first.operands[0]
        read = [
            self._load(access, by, loops)
            for access, by in zip(first.operands, lanes.operands, strict=True)
        ]
        if first.name == COPY:
            cast = target.tensor.dtype != first.operands[1].tensor.dtype
            value = read[1].astype(target.tensor.dtype) if cast else read[1]
        elif first.name == "gemm":
            _, source, weight = read
            value = read[0] + source.astype("int32") * weight.astype("int32")
        elif first.name == self._table.starts:
            value = tirx.IntImm(target.tensor.dtype, first.immediates[0])
        else:
            value = read[0]
            for step in steps:
                value = self._called(step, value, lanes.operands[0], loops)
        at = self._at(target, lanes.operands[0], loops)
        return tirx.BufferStore(self.buffer(target.tensor), value, at)

    def _called(self, step: NestStep, head: Expr, by: LaneAccess, loops: dict[str, Var]) -> Expr:
        """An operation as an opaque call; an operand of several tiles is as many arguments."""
        operands = []
        for number, access in enumerate(step.operands[1:], start=1):
            *outer, last = access.at
            for tile in range(self._table.tiles(step, number)):
                at = (*outer, last + tile) if tile else access.at
                operands.append(self._load(access._replace(at=at), by, loops))
        name = PREFIX + step.name
        return tirx.call_pure_extern("int32", name, head, *operands, *step.immediates)

    def _load(self, access: NestAccess, by: LaneAccess, loops: dict[str, Var]) -> Expr:
        at = self._at(access, by, loops)
        value = tirx.BufferLoad(self.buffer(access.tensor), at)
        inside = access.inside
        if not inside:
            return value
        pad = tirx.IntImm(access.tensor.dtype, access.pad)
        return tirx.if_then_else(tirx.all(*map(self._condition, inside)), value, pad)

    def _at(self, access: NestAccess, by: LaneAccess, loops: dict[str, Var]) -> list[Expr]:
        zero = tirx.IntImm("int32", 0)
        *outer, last = map(self._expr, access.at)
        tile = last + loops[by.tile] if by.tile else last
        row, column = (loops[name] if name else zero for name in (by.row, by.column))
        return [*outer, tile, row, column]

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
        if whole.constant < 0:
            return total - -whole.constant
        return total + whole.constant if whole.constant else total


def _as_one(steps: Sequence[NestStep], starts: str) -> list[Sequence[NestStep]]:
    """Steps of a nest by the stores that they become: operations that change one tile in place,
    one after another, are one, if none of them reads what another made."""
    target = steps[0].operands[0]
    chained = all(
        step.name not in (COPY, "gemm", starts)
        and _same(step.operands[0], target)
        and all(access.tensor is not target.tensor for access in step.operands[1:])
        for step in steps
    )
    return [steps] if chained else [[step] for step in steps]


def _same(a: NestAccess, b: NestAccess) -> bool:
    """Whether both are one tile of one tensor in each turn."""
    distances = [index(x) - y for x, y in zip(a.at, b.at, strict=False)]
    return a.tensor is b.tensor and not any(
        distance.constant or any(distance.terms.values()) for distance in distances
    )


@lru_cache(maxsize=1024)
def _layout(shape: tuple[int, ...]) -> object:
    """TVM's layout of a packed buffer: what takes longest of making one, and the same for all of a
    shape."""
    return tirx.decl_buffer(shape).layout
