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
from dataclasses import dataclass, replace
from functools import cached_property
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


@dataclass(eq=False)
class _Part:
    """A nest of a function, or (nest None) an allocation."""

    stmt: Stmt
    nest: PerfectNest | None

    @cached_property
    def copy(self) -> Intrinsic | None:
        """Its call where it copies between DRAM and a scratchpad."""
        return None if self.nest is None else dma_copy(self.nest)


def recognised(function: PrimFunc) -> Calls:
    """Raises LoweringError on a nest that is no intrinsic call."""
    parts = list(_parts(function.body))
    nests = [(part, part.nest) for part in parts if part.nest is not None]
    compute = [(part, nest) for part, nest in nests if part.copy is None]
    renamed = made_onto(nest for _, nest in compute)
    calls = Calls(function)
    products, verifier = set(renamed), Verifier(function, "dma_copy")
    for part, nest in nests:
        if part.copy is None:
            calls[part.stmt] = _computed(verifier, nest, renamed, products)
        else:
            calls[part.stmt] = (part.copy,)
    for part, _ in nests if renamed else ():
        calls[part.stmt] = [_moved(call, renamed) for call in calls[part.stmt]]
    verifier = Verifier(function, "compute")
    for part in parts:
        if part.nest is not None:
            for call in calls[part.stmt]:
                verifier.intrinsic(call)
        elif part.stmt.buffer in renamed:
            calls[part.stmt] = ()
        else:
            verifier.allocated(part.stmt.buffer)
    return calls


def _parts(stmt: Stmt) -> Iterator[_Part]:
    """The perfect nests and the allocations of a statement, in order."""
    nest = perfect_nest(stmt)
    if nest is not None or isinstance(stmt, tirx.AllocBuffer):
        yield _Part(stmt, nest)
    elif isinstance(stmt, tirx.SeqStmt):
        for each in stmt.seq[:]:
            yield from _parts(each)
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
