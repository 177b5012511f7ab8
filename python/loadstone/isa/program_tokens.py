# SPDX-License-Identifier: Apache-2.0
"""Tokens for a program of any table that names queues.

In:   a table; instructions, whose addresses are numbers or have places; or code as it runs.
Out:  the instructions with the fields set by which they give and take tokens, and the table's
      no-ops where a unit must pass on what another knows; the proof that these suffice.
Next: backend/program.py sets them when a program is built; `loadstone replay --check races` proves.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from loadstone.isa.codec import At, TableInsn, decode
from loadstone.isa.cost import work_cycles
from loadstone.isa.form import DRAM, Reach
from loadstone.isa.hazards import NONE, Touch, TouchStep, conflicts_of
from loadstone.isa.queues import UnitQueue, units_of
from loadstone.isa.table import InstructionTable
from loadstone.isa.terms import term_value
from loadstone.isa.token_proof import TokenStream, prove_order
from loadstone.isa.tokens import StepColumns, TokenRules, ordered

__all__ = ["Placed", "Where", "prove_code", "prove_tokens", "with_tokens"]

#: Where an address is: a region of DRAM, and a byte in it.
Placed: TypeAlias = "tuple[Hashable, int]"
Where: TypeAlias = Callable[[At], Placed]
_BUS = "bus"


@dataclass(frozen=True)
class _Pending(TouchStep):
    """source: number of the instruction that it is, or in whose place it stands."""

    insn: TableInsn = field(default_factory=lambda: TableInsn("", {}))
    source: int = 0


@dataclass(frozen=True)
class _Numbered:
    """A queue between units by number."""

    pusher: int
    popper: int
    push: str
    pop: str


def with_tokens(
    table: InstructionTable, insns: Sequence[TableInsn], where: Where
) -> list[tuple[TableInsn, int]]:
    """The instructions with tokens, each with the number of the one that it was, or in whose place
    a no-op stands. where: of an address by name. Raises LoweringError where queues or no-ops are
    missing, or a queue is too short."""
    units = units_of(table.forms)
    steps = [_pending(table, units, k, insn, where) for k, insn in enumerate(insns)]
    forms = (table.by_name[name] for name in reversed(table.noops))  # the first of a unit stays
    noops = {units.index(form.unit): form for form in forms}

    rules = TokenRules(
        units=units,
        queues=_numbered(table.queues, units),
        most=[queue.most for queue in table.queues],
        noop_cycles={unit: form.cycles for unit, form in noops.items()},
    )
    columns = StepColumns(
        np.array([step.unit for step in steps], np.int32),
        np.array([step.cycles for step in steps], np.int64),
        np.zeros(len(steps), np.bool_),
    )
    found = ordered(columns, conflicts_of(steps, len(units)), rules)
    made = [steps[number] for number in found.source.tolist()]
    for number in np.flatnonzero(found.noop != NONE).tolist():
        form, source = noops[int(found.noop[number])], made[number].source
        insn = TableInsn(form.name, {})
        made[number] = _Pending(units.index(form.unit), form.name, (), form.cycles, insn, source)
    for queue, *ends in found.tokens.tolist():
        for number, flag in zip(
            ends, (rules.queues[queue].push, rules.queues[queue].pop), strict=True
        ):
            insn = made[number].insn
            made[number] = replace(
                made[number], insn=TableInsn(insn.name, {**insn.fields, flag: 1})
            )
    _prove(table, made)
    return [(step.insn, step.source) for step in made]


def prove_tokens(
    table: InstructionTable, insns: Sequence[TableInsn], where: Where
) -> dict[str, int]:
    """By queue, the most tokens that it can hold in any execution. Raises LoweringError naming two
    instructions that no token orders, or a token or queue that is wrong."""
    units = units_of(table.forms)
    return _prove(table, [_pending(table, units, k, i, where) for k, i in enumerate(insns)])


def prove_code(table: InstructionTable, code: bytes) -> dict[str, int]:
    """The same of a program whose addresses are filled in. Raises EncodingError, too."""
    return prove_tokens(table, decode(table, code), lambda at: (at.symbol, at.offset_bytes))


def _prove(table: InstructionTable, steps: Sequence[_Pending]) -> dict[str, int]:
    units = units_of(table.forms)
    queues = _numbered(table.queues, units)
    pops = [[s.unit == q.popper and bool(s.insn.fields.get(q.pop)) for q in queues] for s in steps]
    pushes = [
        [s.unit == q.pusher and bool(s.insn.fields.get(q.push)) for q in queues] for s in steps
    ]
    stream = TokenStream(
        table.name,
        units,
        np.array([step.unit for step in steps], np.int32),
        lambda number: steps[number].name,
        np.array(pops, np.bool_).reshape(len(steps), len(queues)),
        np.array(pushes, np.bool_).reshape(len(steps), len(queues)),
    )
    limits = [queue.most for queue in table.queues]
    conflicts = conflicts_of(steps, len(units))
    most = prove_order(stream, conflicts, queues, limits)
    return {f"{q.pusher} -> {q.popper}": most[k] for k, q in enumerate(table.queues)}


def _numbered(queues: Sequence[UnitQueue], units: Sequence[str]) -> list[_Numbered]:
    return [_Numbered(units.index(q.pusher), units.index(q.popper), q.push, q.pop) for q in queues]


def _pending(
    table: InstructionTable, units: Sequence[str], number: int, insn: TableInsn, where: Where
) -> _Pending:
    form = table.by_name[insn.name]
    fields: dict[str, int] = {}
    places: dict[str, Placed] = {}
    for bits in form.fields:
        value = insn.fields.get(bits.name, 0)
        if isinstance(value, At):
            places[bits.name] = where(value)
            fields[bits.name] = 0
        else:
            fields[bits.name] = value << bits.shift
    reached = (_touch(reach, fields, places) for reach in form.reaches)
    touches = tuple(touch for touch in reached if touch is not None)
    unit = units.index(form.unit)
    return _Pending(unit, insn.name, touches, work_cycles(form, fields), insn, number)


def _touch(reach: Reach, fields: Mapping[str, int], places: Mapping[str, Placed]) -> Touch | None:
    """None where it touches nothing."""
    first, end = reach.places(fields)
    if first == end:
        return None
    space: Hashable = reach.memory
    if reach.memory == DRAM:
        region, base = places.get(str(reach.first), (_BUS, 0))
        space, first = (DRAM, region), first + base
    said = (
        (term_value(count, fields), term_value(stride, fields)) for count, stride in reach.loops
    )
    loops = tuple((count, stride) for count, stride in said if count > 1 and stride > 0)
    return Touch(space, first, loops, term_value(reach.extent, fields), reach.writes)
