# SPDX-License-Identifier: Apache-2.0
"""What the nests of a function of loops call, in one visit.

In:   a PrimFunc after TVM's passes: loop nests over buffers that hold a tile.
Out:  `Calls`: for each of its nests the intrinsic calls that it is; verified.
Next: translate.py.

dma_copy.py and compute.py say what a nest is, and can write it into the PrimFunc, for passes behind
them and for people. Who only translates the calls needs no statements: to make, verify and read
them took longer than to recognise the nests.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from loadstone.errors import LoweringError
from loadstone.ir_pass.compute import computed, made_onto, taken_over
from loadstone.ir_pass.dma_copy import dma_copy
from loadstone.ir_pass.intrinsics import Intrinsic
from loadstone.ir_pass.nest import PerfectNest, perfect_nest
from loadstone.ir_pass.verify import DRAM, Verifier
from loadstone.relax.compat import tirx

if TYPE_CHECKING:
    from loadstone.relax.types import Buffer, PrimFunc, Stmt

__all__ = ["Calls", "recognised"]


class Calls:
    """The calls of each nest, and none where an allocation is of a buffer that is not used: by the
    address of their statement in the function, which is kept."""

    def __init__(self, function: PrimFunc) -> None:
        self.function = function
        self._of: dict[int, Sequence[Intrinsic]] = {}

    def __getitem__(self, stmt: Stmt) -> Sequence[Intrinsic]:
        return self._of[stmt.__chandle__()]

    def __setitem__(self, stmt: Stmt, calls: Sequence[Intrinsic]) -> None:
        self._of[stmt.__chandle__()] = calls

    def get(self, stmt: Stmt) -> Sequence[Intrinsic] | None:
        """None for loops around several nests."""
        return self._of.get(stmt.__chandle__())


def recognised(function: PrimFunc) -> Calls:
    """Raises LoweringError on a nest that is no intrinsic call."""
    parts = list(_parts(function.body))
    nests = [(stmt, nest) for stmt, nest in parts if nest is not None]
    calls, compute = Calls(function), []
    for stmt, nest in nests:
        copy = dma_copy(nest)
        if copy is None:
            compute.append((stmt, nest))
        else:
            calls[stmt] = (copy,)
    renamed = made_onto(nest for _, nest in compute)
    products, verifier = set(renamed), Verifier(function, "dma_copy")
    for stmt, nest in compute:
        calls[stmt] = _computed(verifier, nest, renamed, products)
    for stmt, _ in nests if renamed else ():
        calls[stmt] = [_moved(call, renamed) for call in calls[stmt]]
    verifier = Verifier(function, "compute")
    for stmt, any_nest in parts:
        if any_nest is not None:
            for call in calls[stmt]:
                verifier.intrinsic(call)
        elif stmt.buffer in renamed:
            calls[stmt] = ()
        else:
            verifier.allocated(stmt.buffer)
    return calls


def _parts(stmt: Stmt) -> Iterator[tuple[Stmt, PerfectNest | None]]:
    """The perfect nests of a statement and, with None, its allocations, in order."""
    nest = perfect_nest(stmt)
    if nest is not None or isinstance(stmt, tirx.AllocBuffer):
        yield stmt, nest
    elif isinstance(stmt, tirx.SeqStmt):
        for part in stmt.seq[:]:
            yield from _parts(part)
    elif isinstance(stmt, tirx.For):
        yield from _parts(stmt.body)
    elif isinstance(stmt, tirx.IfThenElse):
        yield from _parts(stmt.then_case)
        if stmt.else_case is not None:
            yield from _parts(stmt.else_case)


def _computed(
    verifier: Verifier,
    nest: PerfectNest,
    renamed: dict[Buffer, Buffer],
    products: set[Buffer],
) -> Sequence[Intrinsic]:
    """What is wrong with a nest that touches DRAM is first of all that."""
    try:
        calls = computed(nest, renamed, products)
    except LoweringError:
        verifier.on_chip(nest.store)
        raise
    scopes = {operand.scope for call in calls for operand in call.operands}
    if not calls or DRAM in scopes or str(nest.store.buffer.scope()) == DRAM:
        verifier.on_chip(nest.store)
    return calls


def _moved(call: Intrinsic, renamed: dict[Buffer, Buffer]) -> Intrinsic:
    """With the buffers whose place those of its operands take."""
    operands = (
        operand._replace(buffer=taken_over(operand.buffer, renamed)) for operand in call.operands
    )
    return replace(call, operands=tuple(operands))
