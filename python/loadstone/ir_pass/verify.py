# SPDX-License-Identifier: Apache-2.0
"""Invariants of the PrimFunc, checked after every pass.

In:   a PrimFunc after the pass named `stage`.
Out:  nothing; LoweringError names the stage and what is broken.
Next: the next pass relies on it.

    after dma_copy    DRAM is touched by lds.dma_copy alone, and each copy has exactly one side in
                           DRAM
    after compute     nothing but loops, allocations and intrinsic calls is left, and operands are
                      in the scopes that the unit reads
    always            a scratchpad buffer is allocated before its first use, and not in a loop that
                        has ended; an intrinsic has its operands, and an axis a stride for each

That no access leaves its buffer is checked where every number is known: by the back end's emitter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from loadstone.errors import LoweringError
from loadstone.ir_pass.intrinsics import (
    ALU_BINARY,
    BUFFER_OPERANDS,
    Intrinsic,
    is_intrinsic,
    read_intrinsic,
)
from loadstone.relax.compat import TensorLoad, structural_walk, tirx

if TYPE_CHECKING:
    from loadstone.relax.types import Buffer, BufferStore, PrimFunc, Stmt

__all__ = ["DRAM", "verify"]

DRAM = "global"
#: Scopes of the buffer operands of each intrinsic (all others: local.acc).
_SCOPES = {"gemm": ("local.acc", "local.inp", "local.wgt")}


def verify(func: PrimFunc, stage: str) -> None:
    """Raises LoweringError where `func` breaks an invariant that holds after `stage` ("dma_copy" or
    "compute")."""
    _Verifier(func, stage).visit(func.body)


class _Verifier:
    """Of the statements of `func` in their order, one by one."""

    def __init__(self, func: PrimFunc, stage: str) -> None:
        self._stage = stage
        self._known = {parameter.__chandle__() for parameter in func.params[:]}

    def visit(self, stmt: Stmt) -> None:
        """A statement and all that is in it."""
        if isinstance(stmt, tirx.SeqStmt):
            for part in stmt.seq[:]:
                self.visit(part)
        elif isinstance(stmt, tirx.For):
            self._inner(stmt.body)
        elif isinstance(stmt, tirx.IfThenElse):
            self._inner(stmt.then_case)
            if stmt.else_case is not None:
                self._inner(stmt.else_case)
        elif isinstance(stmt, tirx.AllocBuffer):
            self._known.add(stmt.buffer.__chandle__())
        elif is_intrinsic(stmt):
            self._intrinsic(read_intrinsic(stmt))
        elif isinstance(stmt, tirx.BufferStore):
            self._store(stmt)
        else:
            self._fail(f"a {type(stmt).__name__} is no loop, allocation, call or store: {stmt}")

    def _inner(self, stmt: Stmt) -> None:
        """What is allocated in a statement ends with it."""
        around = set(self._known)
        self.visit(stmt)
        self._known = around

    def _fail(self, message: str) -> None:
        raise LoweringError(f"verify after {self._stage}: {message}")

    def _store(self, store: BufferStore) -> None:
        if self._stage == "compute":
            self._fail(f"a store is left that is no intrinsic call: {store}")
        for buffer in self._on_chip(store):
            self._check_known(buffer)

    def _on_chip(self, store: BufferStore) -> list[Buffer]:
        """What a store touches, none of it in DRAM."""
        touched = [store.buffer]
        structural_walk(store.value, (TensorLoad, lambda load: touched.append(load.source)))
        for buffer in touched:
            if str(buffer.scope()) == DRAM:
                self._fail(f"{buffer.name} is in DRAM and accessed without dma_copy: {store}")
        return touched

    def _intrinsic(self, call: Intrinsic) -> None:
        """A call whose operands are allocated, and where the unit reads."""
        count, most = len(call.operands), BUFFER_OPERANDS[call.name]
        least = 1 if call.name in ALU_BINARY else most  # an immediate in place of the second
        if not least <= count <= most or any(len(axis.strides) != count for axis in call.axes):
            self._fail(
                f"{call.name} has {count} operands and axes of "
                f"{[len(axis.strides) for axis in call.axes]} strides"
            )
        scopes = tuple(operand.scope for operand in call.operands)
        if call.name == "dma_copy":
            if scopes.count(DRAM) != 1:
                self._fail(
                    f"dma_copy from {scopes[1]} to {scopes[0]}: exactly one side must be in "
                    f"DRAM ({DRAM})"
                )
        elif scopes != _SCOPES.get(call.name, ("local.acc",) * count):
            self._fail(f"{call.name} of operands in {', '.join(scopes)}")
        for operand in call.operands:
            self._check_known(operand.buffer)

    def _check_known(self, buffer: Buffer) -> None:
        if buffer.__chandle__() not in self._known:
            self._fail(f"buffer {buffer.name} is used where it is not allocated")
