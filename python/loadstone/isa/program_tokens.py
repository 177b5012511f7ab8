# SPDX-License-Identifier: Apache-2.0
"""Tokens for a program of any table that names queues.

In:   a table; instructions, whose addresses are numbers or have places; or code as it runs; the
      content of constants.
Out:  the instructions with the fields set by which they give and take tokens, and the table's
      no-ops where a unit must pass on what another knows; the proof that these suffice.
Next: backend/program.py sets them when a program is built; `loadstone replay --check races` proves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import LoweringError
from loadstone.isa.codec import At, TableInsn, decode
from loadstone.isa.cost import work_cycles
from loadstone.isa.follow import Content, Follower, Placed, ProgramRefusal, no_content
from loadstone.isa.hazards import NONE, TouchStep, conflicts_of
from loadstone.isa.queues import UnitQueue, units_of
from loadstone.isa.table import InstructionTable
from loadstone.isa.token_proof import TokenStream, prove_order
from loadstone.isa.tokens import StepColumns, TokenRules, ordered

__all__ = [
    "BUS",
    "Where",
    "on_bus",
    "places_of",
    "plain_fields",
    "prove_code",
    "prove_flow",
    "prove_tokens",
    "with_tokens",
]

#: Where an address by name is.
Where: TypeAlias = Callable[[At], Placed]
#: The region of addresses that are numbers.
BUS = "bus"


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
    table: InstructionTable,
    insns: Sequence[TableInsn],
    where: Where,
    content: Content = no_content,
) -> list[tuple[TableInsn, int]]:
    """The instructions with tokens, each with the number of the one that it was, or in whose place
    a no-op stands. where: of an address by name. content: of memory, for instructions that reach
    through words. Raises LoweringError where queues or no-ops are missing, or a queue is too
    short."""
    units = units_of(table.forms)
    steps = _steps(table, insns, where, content)
    forms = (table.by_name[name] for name in reversed(table.noops))  # the first of a unit stays
    noops = {units.index(form.units[0]): form for form in forms}

    rules = TokenRules(
        units=units,
        queues=_numbered(table.queues, units),
        most=[queue.most for queue in table.queues],
        noop_cycles={unit: form.cycles for unit, form in noops.items()},
    )
    columns = StepColumns(
        np.array([step.unit for step in steps], np.int32),
        np.array([step.cycles for step in steps], np.int64),
        np.array([table.by_name[step.name].ends for step in steps], np.bool_),
    )
    found = ordered(columns, conflicts_of(steps, len(units)), rules)
    made = [steps[number] for number in found.source.tolist()]
    for number in np.flatnonzero(found.noop != NONE).tolist():
        form, source = noops[int(found.noop[number])], made[number].source
        insn = TableInsn(form.name, {})
        unit = int(found.noop[number])
        made[number] = _Pending(unit, form.name, (), form.cycles, insn, source)
    for queue, *ends in found.tokens.tolist():
        for number, flag in zip(
            ends, (rules.queues[queue].push, rules.queues[queue].pop), strict=True
        ):
            insn = made[number].insn
            made[number] = replace(
                made[number], insn=TableInsn(insn.name, {**insn.fields, flag: 1})
            )
    _prove(table, made, conflicts_of(made, len(units)))
    return [(step.insn, step.source) for step in made]


def prove_tokens(
    table: InstructionTable,
    insns: Sequence[TableInsn],
    where: Where,
    content: Content = no_content,
    regions: Sequence[Placed] = (),
) -> dict[str, int]:
    """By queue, the most tokens that it can hold in any execution. content: of memory, for
    instructions that reach through words; regions: where each begins, for registers that begin so.
    Raises LoweringError naming two instructions that no token orders, or a token or queue that is
    wrong."""
    steps = _steps(table, insns, where, content, regions)
    return _prove(table, steps, conflicts_of(steps, len(units_of(table.forms))))


def prove_code(
    table: InstructionTable, code: bytes, content: Content = no_content
) -> dict[str, int]:
    """The same of a program whose addresses are filled in: places are of region BUS. Raises
    EncodingError, too."""
    return prove_tokens(table, decode(table, code), on_bus, content)


def prove_flow(table: InstructionTable, insns: Sequence[TableInsn]) -> dict[str, int]:
    """The same as prove_tokens of the tokens alone: that none is missing or left over, no queue
    overflows, and an instruction that ends the program begins when all others are done. Whether
    those are ordered that touch the same is not asked."""
    units = units_of(table.forms)
    steps = [
        _Pending(units.index(table.by_name[insn.name].unit_of(numbers)), insn.name, insn=insn)
        for insn in insns
        for numbers in (plain_fields(table, insn),)
    ]
    return _prove(table, steps, np.full((len(steps), len(units)), NONE, np.int32))


def on_bus(at: At) -> Placed:
    """Where an address by name is in a program that has none."""
    raise AssertionError(at)


def plain_fields(table: InstructionTable, insn: TableInsn) -> dict[str, int]:
    """All fields of an instruction, addresses in bytes; those by name are 0."""
    found = {}
    for bits in table.by_name[insn.name].fields:
        value = insn.fields.get(bits.name, 0)
        found[bits.name] = 0 if isinstance(value, At) else value << bits.shift
    return found


def places_of(table: InstructionTable, insn: TableInsn, where: Where) -> dict[str, Placed]:
    """Where each address field points; numbers are places of region BUS."""
    found = {}
    for bits in table.by_name[insn.name].fields:
        if bits.address:
            value = insn.fields.get(bits.name, 0)
            found[bits.name] = where(value) if isinstance(value, At) else (BUS, value << bits.shift)
    return found


def _steps(
    table: InstructionTable,
    insns: Sequence[TableInsn],
    where: Where,
    content: Content,
    regions: Sequence[Placed] = (),
) -> list[_Pending]:
    """With what each touches. Raises LoweringError where that is not known."""
    units, follower, steps = units_of(table.forms), Follower(table, content, regions), []
    for number, insn in enumerate(insns):
        form, fields = table.by_name[insn.name], plain_fields(table, insn)
        places = places_of(table, insn, where)
        try:
            values = follower.values(form, fields)
            found = follower.touched(form, fields, places)
            follower.done(form, fields, places, found)
        except ProgramRefusal as refusal:
            raise LoweringError(f"{table.name}: instruction {number}: {refusal}") from None
        touches = tuple(each.touch for each in found)
        unit = units.index(form.unit_of(fields))
        steps.append(_Pending(unit, insn.name, touches, work_cycles(form, values), insn, number))
    return steps


def _prove(
    table: InstructionTable, steps: Sequence[_Pending], conflicts: NDArray[np.int32]
) -> dict[str, int]:
    units = units_of(table.forms)
    queues = _numbered(table.queues, units)
    _require_queues(table, units, steps)
    pops = [[s.unit == q.popper and bool(s.insn.fields.get(q.pop)) for q in queues] for s in steps]
    pushes = [
        [s.unit == q.pusher and bool(s.insn.fields.get(q.push)) for q in queues] for s in steps
    ]
    unit = np.array([step.unit for step in steps], np.int32)
    stream = TokenStream(
        table.name,
        units,
        unit,
        lambda number: steps[number].name,
        np.array(pops, np.bool_).reshape(len(steps), len(queues)),
        np.array(pushes, np.bool_).reshape(len(steps), len(queues)),
    )
    for number, step in enumerate(steps):
        if table.by_name[step.name].ends:
            last = [np.flatnonzero(unit[:number] == each) for each in range(len(units))]
            conflicts[number] = [numbers[-1] if len(numbers) else NONE for numbers in last]
    most = prove_order(stream, conflicts, queues, [queue.most for queue in table.queues])
    return {f"{q.pusher} -> {q.popper}": most[k] for k, q in enumerate(table.queues)}


def _require_queues(
    table: InstructionTable, units: Sequence[str], steps: Sequence[_Pending]
) -> None:
    """A token that its unit has no queue for is none that anybody gives or takes."""
    flags = {name for queue in table.queues for name in (queue.push, queue.pop)}
    ends = {(q.pusher, q.push) for q in table.queues} | {(q.popper, q.pop) for q in table.queues}
    for number, step in enumerate(steps):
        for flag in sorted(flags):
            if step.insn.fields.get(flag) and (units[step.unit], flag) not in ends:
                raise LoweringError(
                    f"{table.name}: instruction {number} ({step.name}) has {flag}=1, and unit "
                    f"{units[step.unit]} has no queue for it"
                )


def _numbered(queues: Sequence[UnitQueue], units: Sequence[str]) -> list[_Numbered]:
    return [_Numbered(units.index(q.pusher), units.index(q.popper), q.push, q.pop) for q in queues]
