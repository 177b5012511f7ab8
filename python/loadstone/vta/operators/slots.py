# SPDX-License-Identifier: Apache-2.0
"""Tiles side by side: while one tile's digits, or planes, are stored, the next one is summed.

In:   the operations of kernels of schedule/rescaled.py, or of sums that leave as planes of bytes,
      tile after tile, each of which ends in the store of its output.
Out:  the same operations in an order in which the compute stage seldom waits.
Next: operators/rescaled.py and operators/plane_layers.py hand them on.

A tile is worked on in phases, each of which ends in a store that the next phase has to wait for,
because the store reads what that phase changes:

    sum, store digit 0 | shift, store digit 1 | (shift, store digit 2) | load digits, rescale, store

`interleaved`: phase p of tile n is done p turns after its first, together with phase 0 of tile
n + p. `between_products`: phases behind the first come between the products of the next tiles, one
behind each GEMM, so that the store which a phase waits for has the time of a GEMM. Loads go one
turn ahead of what needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from loadstone.vta.isa.spec import Memory
from loadstone.vta.stream.operations import (
    FillNest,
    GemmNest,
    Operation,
    TileLoad,
    TileRole,
    TileStore,
)

__all__ = ["Slot", "between_products", "interleaved", "slots_of"]


@dataclass
class Slot:
    """One tile's operations. loads: of what phase 0 needs. fetch: of the digits, for the last
    phase. phases: the rest; each but the last ends in the store of a digit."""

    loads: list[Operation] = field(default_factory=list)
    fetch: list[Operation] = field(default_factory=list)
    phases: list[list[Operation]] = field(default_factory=lambda: [[]])


def _is_digit(store: TileStore, _: Operation) -> bool:
    return store.dram.role is TileRole.DIGITS


def slots_of(
    operations: Sequence[Operation],
    goes_on: Callable[[TileStore, Operation], bool] = _is_digit,
) -> list[Slot]:
    """Cuts a kernel's operations, in which loads and stores of digits and constants have these
    roles. goes_on: whether a store, and what comes behind it, are of one tile."""
    slots: list[Slot] = []
    phase: list[Operation] = []
    for operation in operations:
        # Asked of every operation of a network: comparing classes takes a fifth of isinstance.
        if type(operation) is TileLoad and operation.dram.role is TileRole.DIGITS:
            slots[-1].fetch.append(operation)
            continue
        # What comes behind a store begins the next phase; behind that of the output, the next tile.
        last = phase[-1] if phase else None
        if last is None or (type(last) is TileStore and type(operation) is not TileStore):
            if last is None or not goes_on(last, operation):
                slots.append(Slot())
            else:
                slots[-1].phases.append([])
            phase = slots[-1].phases[-1]
        phase.append(operation)
    for slot in slots:
        _move_loads(slot)
    return slots


def _move_loads(slot: Slot) -> None:
    """Loads that phase 0 can do before its first GEMM; where it has several inputs, those before
    its sums begin."""
    first = slot.phases[0]
    loads = (o for o in first if type(o) is TileLoad and o.memory is Memory.INP)
    inputs = {id(o.tile) for o in loads if o.dram.role is not TileRole.CONSTANT}
    fills = (n for n, o in enumerate(first) if type(o) is FillNest)
    end = next(fills, len(first)) if len(inputs) > 1 else len(first)
    slot.loads = [o for o in first[:end] if type(o) is TileLoad]
    slot.phases[0] = [o for n, o in enumerate(first) if n >= end or type(o) is not TileLoad]


def interleaved(slots: Sequence[Slot]) -> Iterator[Operation]:
    """The slots' operations, phase p of slot n beside phase 0 of slot n + p."""
    if not slots:
        return
    most = max(len(slot.phases) for slot in slots)
    yield from slots[0].loads
    for turn in range(len(slots) + most - 1):
        ready = [
            (turn - phase, phase)
            for phase in range(most)
            if 0 <= turn - phase < len(slots) and phase < len(slots[turn - phase].phases)
        ]
        last = [(n, phase) for n, phase in ready if phase and _is_last(slots[n], phase)]
        for number, _ in last:
            yield from slots[number].fetch
        if turn + 1 < len(slots):
            yield from slots[turn + 1].loads
        middle = [entry for entry in reversed(ready) if entry not in last]
        for number, phase in (*middle, *reversed(last)):
            yield from slots[number].phases[phase]


def _is_last(slot: Slot, phase: int) -> bool:
    return phase == len(slot.phases) - 1


def between_products(slots: Sequence[Slot]) -> Iterator[Operation]:
    """The slots' operations, where no phase but the first fetches anything: one more phase of every
    tile whose products are done behind each GEMM, and the store behind that. In front of the last
    one, where it is all of a tile's products, comes one as well: nothing hides what is left."""
    waiting: list[Iterator[list[Operation]]] = []
    for number, slot in enumerate(slots):
        parts = list(_products(slot.phases[0]))
        if number == 0:
            yield from slot.loads
        if number + 1 < len(slots):
            yield from slots[number + 1].loads
        elif len(parts) == 1:
            yield from _next_of(waiting)
        for part in parts:
            yield from part
            yield from _next_of(waiting)
        waiting.append(iter(slot.phases[1:]))
    for _ in range(max((len(slot.phases) for slot in slots), default=0)):
        yield from _next_of(waiting)


def _next_of(waiting: Sequence[Iterator[list[Operation]]]) -> Iterator[Operation]:
    for phases in waiting:
        yield from next(phases, ())


def _products(phase: Sequence[Operation]) -> Iterator[list[Operation]]:
    """A sum in parts, each of which ends in a GEMM; the last one with what comes behind it."""
    part: list[Operation] = []
    for operation in phase:
        if part and type(part[-1]) is GemmNest and type(operation) is not TileStore:
            yield part
            part = []
        part.append(operation)
    yield part
