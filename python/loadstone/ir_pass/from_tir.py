# SPDX-License-Identifier: Apache-2.0
"""Read TensorIR as nests over tiles: what to_tir.py wrote and passes changed, or what was scheduled
with TVM's own primitives.

In:   a PrimFunc of loops, without blocks; the device's MemoryTable.
Out:  a `Function`.
Next: insert_dma_copy.py inserts its copies, if it has none; then it is lowered as any other.

Each statement is a perfect nest: loops and conditions around one store. What is stored says which
step it is (lanes.py): a constant, `fill`; `C + cast(x) * cast(w)`, or a sum of such products,
`gemm`; a chain of pure external calls `lds.add(...)`, or plain max(C, x) and C + x of a reduction,
operations in place; a load, `copy`. Every buffer ends in the rows and columns of a tile, and the
loops over these are taken off. Where a loop holds one nest alone, all of it is that nest, unless
the loop is annotated as a level (`schedule.annotate(loop, "lds.level", "kept")`).

A function has all of its copies, or none. It has none if no statement loads from DRAM into a
scratchpad: then its intermediate buffers are locals, whatever their scope, and insert_dma_copy
decides. Whatever is no such nest is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from loadstone.errors import LoweringError
from loadstone.ir_pass.affine import Index, Variable
from loadstone.ir_pass.memory_table import MemoryTable
from loadstone.ir_pass.nests import (
    Function,
    Nest,
    NestAllocation,
    NestGroup,
    NestLoop,
    Statement,
)
from loadstone.ir_pass.tir_index import bounds_of
from loadstone.ir_pass.tir_store import OpenNest, StoreReader
from loadstone.ir_pass.tir_tensors import Tensors
from loadstone.ir_pass.to_tir import GROUP, LEVEL, TENSORS
from loadstone.relax.compat import tirx

if TYPE_CHECKING:
    from loadstone.relax.types import BufferStore, Expr, PrimFunc, Stmt

__all__ = ["has_copies", "nests_of"]


def nests_of(function: PrimFunc, table: MemoryTable) -> Function:
    """Raises LoweringError for the first statement that is not understood."""
    return _Reader(function, table).function()


def has_copies(function: Function) -> bool:
    """Whether its tensors stand in memories already."""
    return any(map(_allocates, function.body))


def _allocates(statement: Statement) -> bool:
    if isinstance(statement, NestLoop | NestGroup):
        return any(map(_allocates, statement.body))
    return isinstance(statement, NestAllocation)


class _Reader:
    def __init__(self, function: PrimFunc, table: MemoryTable) -> None:
        attributes = dict(function.attrs.items()) if function.attrs is not None else {}
        self._name = str(attributes.get("global_symbol", "main"))
        words = [str(said).split(" ", 1) for said in attributes.get(TENSORS, ())]
        self._order = {name: number for number, (_, name) in enumerate(words)}
        tables = {name for role, name in words if role == "table"}
        self._tensors = Tensors(function, table, tables)
        self._stores = StoreReader(self._tensors, table)
        self._body = function.body
        self._loops: dict[int, Variable] = {}
        self._conditions: list[Index] = []

    def function(self) -> Function:
        """All of it; tensors in the order that the function says, else as they come."""
        body = self._statements(self._body)
        last = len(self._order)
        tensors = sorted(
            self._tensors.named(), key=lambda tensor: self._order.get(tensor.name, last)
        )
        return Function(self._name, tuple(tensors), tuple(self._without_renamed(body)))

    def _statements(self, stmt: Stmt) -> list[Statement]:
        if isinstance(stmt, tirx.SeqStmt):
            return [each for part in stmt.seq[:] for each in self._statements(part)]
        if isinstance(stmt, tirx.AllocBuffer):
            tensor = self._tensors.allocated(stmt.buffer)
            return [] if tensor.memory is None else [NestAllocation(tensor)]
        if isinstance(stmt, tirx.AttrStmt) and str(stmt.attr_key) == GROUP:
            return [NestGroup(tuple(self._statements(stmt.body)))]
        if isinstance(stmt, tirx.Evaluate) and isinstance(stmt.value, tirx.IntImm):
            return []
        nest = _perfect(stmt)
        if nest is not None:
            return list(self._nests(*nest))
        if isinstance(stmt, tirx.For):
            with self._opened(stmt) as variable:
                body = tuple(self._statements(stmt.body))
            apart = str(stmt.annotations.get(LEVEL, "")) == "apart"
            return [NestLoop(variable, body, apart)] if body else []
        if isinstance(stmt, tirx.IfThenElse) and stmt.else_case is None:
            with self._where(stmt.condition):
                return self._statements(stmt.then_case)
        raise LoweringError(
            f"TensorIR: a statement is neither a loop, nor a condition without an else, nor a "
            f"store: {_line(stmt)}"
        )

    @contextmanager
    def _opened(self, loop: Stmt) -> Iterator[Variable]:
        """Inside it the loop is open."""
        variable = _variable(loop)
        address = loop.loop_var.__chandle__()
        self._loops[address] = variable
        yield variable
        del self._loops[address]

    @contextmanager
    def _where(self, condition: Expr) -> Iterator[None]:
        """Inside it the condition holds."""
        count = len(self._conditions)
        self._conditions += bounds_of(condition, self._loops)
        yield
        del self._conditions[count:]

    def _nests(
        self, loops: Sequence[Stmt], conditions: Sequence[Expr], store: BufferStore
    ) -> Sequence[Nest]:
        known = dict(self._loops)
        own = []
        for loop in loops:
            variable = _variable(loop)
            own.append(variable)
            known[loop.loop_var.__chandle__()] = variable
        bounds = [bound for each in conditions for bound in bounds_of(each, known)]
        return self._stores.nests(OpenNest(tuple(own), (*self._conditions, *bounds), known), store)

    def _without_renamed(self, body: Sequence[Statement]) -> Iterator[Statement]:
        """Without the allocations of those that are computed in the place of others."""
        for statement in body:
            if isinstance(statement, NestLoop):
                inside = tuple(self._without_renamed(statement.body))
                yield NestLoop(statement.variable, inside, statement.apart)
            elif isinstance(statement, NestGroup):
                yield NestGroup(tuple(self._without_renamed(statement.body)))
            elif not (
                isinstance(statement, NestAllocation) and statement.tensor in self._tensors.renamed
            ):
                yield statement


def _perfect(stmt: Stmt) -> tuple[list[Stmt], list[Expr], BufferStore] | None:
    """Loops, conditions and the store of a perfect nest; None for anything else, and where a loop
    is a level."""
    loops, conditions = [], []
    while True:
        if isinstance(stmt, tirx.For) and LEVEL not in stmt.annotations:
            loops.append(stmt)
            stmt = stmt.body
        elif isinstance(stmt, tirx.IfThenElse) and stmt.else_case is None:
            conditions.append(stmt.condition)
            stmt = stmt.then_case
        elif isinstance(stmt, tirx.BufferStore):
            return loops, conditions, stmt
        else:
            return None


def _variable(loop: Stmt) -> Variable:
    """Raises LoweringError for a loop that does not count from 0 to a number."""
    numbers = (loop.min, loop.extent, 1 if loop.step is None else loop.step)
    first, extent, step = (
        int(n.value) if isinstance(n, tirx.IntImm) else n if isinstance(n, int) else None
        for n in numbers
    )
    if first != 0 or extent is None or extent < 1 or step != 1 or loop.thread_binding is not None:
        raise LoweringError(
            f"TensorIR: the loop {loop.loop_var.name} runs from {loop.min} for {loop.extent} "
            "turns: it must run from 0, by 1, a number of times, and on no thread"
        )
    return Variable(str(loop.loop_var.name), extent)


def _line(stmt: Stmt) -> str:
    return " ".join(str(stmt).split())[:200]
