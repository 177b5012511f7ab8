# SPDX-License-Identifier: Apache-2.0
"""Dependency tokens from hazards, for any units and queues between them.

In:   instructions in program order with the unit of each; what each must not overtake; the queues.
Out:  the same with the token flags of each, and instructions that do nothing where a unit must
      pass on what another knows.
Next: native/order.cc finds the tokens, token_proof.py proves that they suffice;
      vta/passes/synchronize/synchronize.py and program_tokens.py use it.

The units run in order, each at its own pace; only tokens order them against each other.

`knows[s][g]` is the last instruction of unit g that unit s can be sure is complete. An instruction
that conflicts with a later-than-known instruction p of another unit waits: p pushes, it pops. A pop
passes on all that p knew, so waits that follow from others are never made. What a unit must know of
one from which it has no queue comes by way of an instruction of a unit between the two, one that
waits for the former and pushes to the latter; it is chosen late enough that the unit between does
not stall, and one that does nothing stands in where there is none.

A unit that has run ahead of a neighbour by many tokens waits for it, so that no queue passes
`most`. A queue of few tokens has no room for those of instructions that are already out: there each
token is given by an instruction that knows of room for it, or by one that does nothing and waits
until there is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import LoweringError
from loadstone.isa.hazards import NONE
from loadstone.isa.token_proof import QueueEnds
from loadstone.library.native import CData, ffi, lib

__all__ = ["Ordered", "StepColumns", "TokenRules", "ordered"]


@dataclass(frozen=True)
class TokenRules:
    """The units and their queues. most: of each queue, the tokens that it holds. noop_cycles: of
    each unit that has an instruction that does nothing, its cycles.

    late: a queue whose popper, where it must wait, waits for the latest instruction that should be
    done by then, and not for the oldest that would do: whoever needs to know one of these then
    need not stall it.
    """

    units: Sequence[str]
    queues: Sequence[QueueEnds]
    most: Sequence[int]
    noop_cycles: Mapping[int, int] = field(default_factory=dict)
    late: QueueEnds | None = None


@dataclass(frozen=True)
class StepColumns:
    """Of each instruction, (n,): its unit, about how long it works, whether it waits for all before
    it."""

    unit: NDArray[np.int32]
    cycles: NDArray[np.int64]
    joins: NDArray[np.bool_]


@dataclass(frozen=True)
class Ordered:
    """A stream in order. source (m,): of each instruction the one that it was, or in whose place it
    stands; noop (m,): the unit of one that is new and does nothing, else NONE; tokens (k, 3): of
    each its queue, who gives it and who takes it; conflicts (m, units): the last instruction that
    each must not overtake; all in this stream's numbers."""

    source: NDArray[np.int32]
    noop: NDArray[np.int32]
    tokens: NDArray[np.int32]
    conflicts: NDArray[np.int32]


def ordered(steps: StepColumns, conflicts: NDArray[np.int32], rules: TokenRules) -> Ordered:
    """The instructions, those that do nothing between them, and the tokens of both. conflicts:
    (instructions, units), as of hazards.conflicts_of. Raises LoweringError where no queue leads
    from one unit to another that depends on it."""
    count = len(steps.unit)
    if conflicts.shape != (count, len(rules.units)):
        raise AssertionError(f"conflicts of {conflicts.shape}, not of {count, len(rules.units)}")
    columns = [
        ffi.from_buffer("int32_t[]", steps.unit),
        ffi.from_buffer("int64_t[]", steps.cycles),
        ffi.from_buffer("uint8_t[]", steps.joins),
        ffi.from_buffer("int32_t[]", np.ascontiguousarray(conflicts, np.int32)),
    ]
    pushers, poppers = ([getattr(q, end) for q in rules.queues] for end in ("pusher", "popper"))
    ends = [ffi.new("int32_t[]", list(map(int, ends))) for ends in (pushers, poppers, rules.most)]
    noops = [rules.noop_cycles.get(unit, NONE) for unit in range(len(rules.units))]
    cycles_of_noops = ffi.new("int64_t[]", noops)
    late = NONE if rules.late is None else list(rules.queues).index(rules.late)
    said = ffi.new(
        "lds_token_rules *", (len(noops), len(rules.queues), *ends, cycles_of_noops, late)
    )
    found = lib().lds_order_tokens(said, ffi.new("lds_order_steps *", (count, *columns)))
    if not found:
        raise MemoryError("tokens")
    try:
        _raise_for(found.status, rules.units, found.who)
        source, noop = (_copied(numbers, found.steps) for numbers in (found.source, found.noop))
        tokens = _copied(found.token, found.tokens * 3).reshape(-1, 3)
    finally:
        lib().lds_ordered_free(found)
    kept = np.flatnonzero(noop == NONE)
    return Ordered(source, noop, tokens, _renumbered(conflicts, kept, len(source)))


def _copied(numbers: CData, count: int) -> NDArray[np.int32]:
    return np.frombuffer(ffi.buffer(numbers, count * 4), np.int32).copy() if count else _NONE_AT_ALL


_NONE_AT_ALL = np.zeros(0, np.int32)


def _raise_for(status: int, units: Sequence[str], who: CData) -> None:
    if status == lib().LDS_ORDER_NO_QUEUE:
        begin, end = units[who[0]], units[who[1]]
        raise LoweringError(
            f"no queue of tokens leads from {begin} to {end}, and what {end} does depends on it: "
            "give the table one"
        )
    if status == lib().LDS_ORDER_NO_NOOP:
        unit, far, by = (units[who[k]] for k in range(3))
        raise LoweringError(
            f"{unit} must wait for {far} by way of {by}, and {by} has no instruction that does "
            "nothing: name one, or a queue between the two"
        )
    if status != lib().LDS_ORDER_OK:
        raise AssertionError(f"lds_order: status {status}")


def _renumbered(
    conflicts: NDArray[np.int32], place: NDArray[np.intp], count: int
) -> NDArray[np.int32]:
    """(count, units): the conflicts in the numbers of the new stream; what is new has none."""
    found = np.full((count, conflicts.shape[1]), NONE, np.int32)
    assert NONE == -1, "the number of the last place"
    found[place] = np.append(place, NONE).astype(np.int32)[conflicts]
    return found
