"""Dependency tokens from hazards, and the proof that none is missing and none deadlocks.

In:   drafts in program order (fold.py): the stage of each, the scratchpad tiles and DRAM bytes it
      reads and writes.
Out:  the same drafts with pop and push flags; a few compute no-ops where load must wait for store.
Next: program.py encodes them.

The stages run in order, each at its own pace; only tokens order them against each other. Queues
exist between neighbours:

      load  --l2g-->  compute  --g2s-->  store
            <--g2l--           <--s2g--

`knows[s][g]` is the last instruction of stage g that stage s can be sure is complete. An
instruction that conflicts with a later-than-known instruction p of another stage waits: p pushes,
it pops. A pop passes on all that p knew, so waits that follow from others are never made. Load and
store are no neighbours: what load must know of store comes by way of a compute instruction between
the two, one that waits for the store and pushes to load; it is chosen late enough after the store
that compute does not stall, and a no-op stands in where there is none.

    store     ...[s7]-----.      [s8]           Compute waits for the latest store that should be
              done by then, not for the
    compute   [c1][c2][c3]'->[c4][c5][c6]       oldest that would do: c4 knows s7, and any load that
              needs s7 can follow c4.
    load                       '-->[x needs s7]

A stage that has run ahead of its neighbour by many tokens waits for it, so that no queue passes
MAX_TOKENS.

Program order itself is one schedule that satisfies every token (each push stands before its pop),
so nothing can deadlock;
`prove` checks both claims from the flags alone.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import LoweringError
from loadstone.vta.fold import Draft, DramRows
from loadstone.vta.hw_config import HwConfig
from loadstone.vta.isa.spec import MAX_TOKENS, Memory, Opcode, Stage

__all__ = ["estimated_cycles", "prove", "synchronize"]

#: (from, to) -> (flag of the pusher, flag of the popper). Load and store have no queue between
#: them.
_QUEUES = {
    (Stage.LOAD, Stage.COMPUTE): ("push_next", "pop_prev"),
    (Stage.COMPUTE, Stage.LOAD): ("push_prev", "pop_next"),
    (Stage.COMPUTE, Stage.STORE): ("push_next", "pop_prev"),
    (Stage.STORE, Stage.COMPUTE): ("push_prev", "pop_next"),
}
#: With so many tokens in a queue their source waits. Instructions already out may push as many
#: again before MAX_TOKENS.
_MANY_TOKENS = MAX_TOKENS // 2
_NONE = -1
_FLAGS = ("pop_prev", "pop_next", "push_prev", "push_next")


class _History:
    """Who touched each scratchpad tile and each piece of DRAM last: per stage, the last writer and
    the last reader."""

    def __init__(self, config: HwConfig, drafts: Sequence[Draft]) -> None:
        self.grain = min(config.tile_bytes(Memory.INP), 4)
        self.scratch = {
            m: np.full((3, 2, config.depth(m)), _NONE, np.int32)
            for m in (Memory.UOP, Memory.INP, Memory.WGT, Memory.ACC)
        }
        written = {d.dram.region for d in drafts if d.dram is not None and d.dram.write}
        ends = dict.fromkeys(written, 0)
        for d in drafts:
            if d.dram is not None and d.dram.region in written:
                end = (
                    d.dram.start_bytes + (d.dram.rows - 1) * d.dram.stride_bytes + d.dram.row_bytes
                )
                ends[d.dram.region] = max(ends[d.dram.region], -(-end // self.grain))
        self.dram = {region: np.full((3, 2, end), _NONE, np.int32) for region, end in ends.items()}

    def _views(self, draft: Draft) -> Iterable[tuple[NDArray[np.int32], bool]]:
        """(view of shape (3 stages, 2 kinds, ...), written?) for each range; what is never written
        has no table."""
        for memory, low, high, write in draft.scratch:
            yield self.scratch[memory][:, :, low:high], write
        rows = draft.dram
        if rows is not None and rows.region in self.dram:
            yield _rows_view(self.dram[rows.region], rows, self.grain), rows.write

    def conflicts(self, draft: Draft) -> list[int]:
        """Per stage, the last instruction that this one must not overtake."""
        last = [_NONE, _NONE, _NONE]
        for view, write in self._views(draft):
            for stage in Stage:
                if stage is not draft.stage:
                    last[stage] = max(
                        last[stage], int(view[stage].max() if write else view[stage, 0].max())
                    )
        return last

    def record(self, draft: Draft, number: int) -> None:
        for view, write in self._views(draft):
            view[draft.stage, 0 if write else 1] = number


def _rows_view(table: NDArray[np.int32], rows: DramRows, grain: int) -> NDArray[np.int32]:
    start, width, stride = (
        rows.start_bytes // grain,
        rows.row_bytes // grain,
        rows.stride_bytes // grain,
    )
    if rows.rows == 1 or stride == width:
        return table[:, :, start : start + rows.rows * width]
    s = table.strides
    shape = (3, 2, rows.rows, width)
    return np.lib.stride_tricks.as_strided(
        table[:, :, start:], shape, (s[0], s[1], stride * s[2], s[2])
    )


def estimated_cycles(draft: Draft, config: HwConfig) -> int:
    """Roughly how long a draft keeps its stage busy; only choices of speed rest on it."""
    constant = config.timing
    if draft.opcode in (Opcode.GEMM, Opcode.ALU):
        return (
            draft.steps + constant["gemm_overhead_cycles"].value
            if "gemm_overhead_cycles" in constant
            else draft.steps + 7
        )
    if draft.dram is not None:
        return 24 + draft.dram.rows * draft.dram.row_bytes * 8 // config.bus_bits
    return 4


@dataclass
class _State:
    """What is known while the stream is walked: drafts get numbers in the order of `out`."""

    out: list[Draft] = field(default_factory=list)
    after: list[tuple[int, int, int]] = field(
        default_factory=list
    )  # what is known when instruction n is complete
    knows: list[list[int]] = field(default_factory=lambda: [[_NONE] * 3 for _ in Stage])
    compute: list[int] = field(default_factory=list)  # numbers of the compute instructions
    pops: dict[tuple[Stage, Stage], list[tuple[int, int]]] = field(
        default_factory=lambda: {q: [] for q in _QUEUES}
    )  # (popper, pusher)
    spent: list[int] = field(
        default_factory=list
    )  # compute cycles before each instruction of `out`
    total: int = 0  # compute cycles so far
    stores: list[tuple[int, int]] = field(
        default_factory=list
    )  # (when it should be done, in compute cycles; number)
    fresh: dict[int, int] = field(
        default_factory=dict
    )  # compute instruction -> latest store that should be done when it starts

    @property
    def last(self) -> list[int]:
        """The last instruction of each stage so far: what FINISH waits for."""
        return [self.knows[stage][stage] for stage in Stage]

    def latest_store_done(self) -> int:
        """The latest store that should be done by now, or none."""
        place = bisect_right(self.stores, (self.total, len(self.out)))
        return self.stores[place - 1][1] if place else _NONE


def synchronize(drafts: Sequence[Draft], config: HwConfig) -> list[Draft]:
    """Sets the flags of `drafts` (and inserts no-ops) so that every hazard between stages is
    ordered."""
    state = _State()
    history = _History(config, drafts)
    for draft in drafts:
        needed = history.conflicts(draft) if draft.opcode is not Opcode.FINISH else state.last
        stage = draft.stage
        for source, target in _QUEUES:
            if source is stage:
                needed[target] = max(needed[target], _drained(state, source, target))
        draft.flags = dict.fromkeys(_FLAGS, 0)
        cycles = estimated_cycles(draft, config)
        if stage is Stage.COMPUTE:
            _wait(state, Stage.LOAD, stage, needed[Stage.LOAD], draft.flags)
            if needed[Stage.STORE] > state.knows[stage][Stage.STORE]:
                _wait(
                    state,
                    Stage.STORE,
                    stage,
                    max(needed[Stage.STORE], state.latest_store_done()),
                    draft.flags,
                )
        else:
            far = Stage.STORE if stage is Stage.LOAD else Stage.LOAD
            through = _NONE
            if needed[far] > state.knows[stage][far]:
                through = _carrier(
                    state, far, stage, needed[far], estimated_cycles(state.out[needed[far]], config)
                )
            _wait(state, Stage.COMPUTE, stage, max(needed[Stage.COMPUTE], through), draft.flags)
        number = _append(state, draft)
        if stage is Stage.COMPUTE:
            state.total += cycles
        elif stage is Stage.STORE:
            begin = max(state.total, state.stores[-1][0] if state.stores else 0)
            state.stores.append((begin + cycles, number))
        history.record(draft, number)
    return state.out


def _drained(state: _State, source: Stage, target: Stage) -> int:
    """What the next instruction of `source` must wait for, lest it run so far ahead of `target`
    that their queue overflows."""
    pops = state.pops[source, target]
    taken = bisect_right(pops, (state.knows[source][target], len(state.out)))
    return pops[-_MANY_TOKENS // 2][0] if len(pops) - taken > _MANY_TOKENS else _NONE


def _append(state: _State, draft: Draft) -> int:
    number = len(state.out)
    state.out.append(draft)
    state.knows[draft.stage][draft.stage] = number
    known = state.knows[draft.stage]
    state.after.append((known[0], known[1], known[2]))
    state.spent.append(state.total)
    if draft.stage is Stage.COMPUTE:
        state.compute.append(number)
        state.fresh[number] = state.latest_store_done()
    return number


def _wait(
    state: _State, source: Stage, stage: Stage, instruction: int, flags: dict[str, int]
) -> None:
    """The instruction that owns `flags`, next in `stage`, waits for `instruction` of the neighbour
    `source`."""
    if instruction <= state.knows[stage][source]:
        return
    push, pop = _QUEUES[source, stage]
    state.out[instruction].flags[push] = 1
    flags[pop] = 1
    state.pops[source, stage].append((len(state.out), instruction))
    learned = state.after[instruction]
    state.knows[stage] = [max(a, b) for a, b in zip(state.knows[stage], learned, strict=True)]


def _carrier(state: _State, far: Stage, stage: Stage, instruction: int, delay: int) -> int:
    """A compute instruction that is after `instruction` of stage `far`, for `stage` to wait for;
    inserted when there is none.

    The earliest that already knows; else one that can be made to wait without stalling: one at
    whose start a late enough store should be done, or, for loads, one that comes `delay` compute
    cycles later.
    """
    first = bisect_right(state.compute, max(instruction, state.knows[stage][Stage.COMPUTE]))
    since = state.spent[instruction]
    for number in state.compute[first:]:
        if state.after[number][far] >= instruction:
            return number
        source = state.fresh[number] if far is Stage.STORE else instruction
        if (
            source >= instruction
            and state.spent[number] - since >= (0 if far is Stage.STORE else delay)
            and _fits(state, far, source, number)
        ):
            return _make_wait(state, far, source, number)
    nop = Draft(
        Opcode.LOAD,
        Stage.COMPUTE,
        {"memory_id": int(Memory.UOP)},
        [],
        None,
        state.out[instruction].layer,
    )
    nop.flags = dict.fromkeys(_FLAGS, 0)
    _wait(state, far, Stage.COMPUTE, instruction, nop.flags)
    return _append(state, nop)


def _fits(state: _State, far: Stage, instruction: int, number: int) -> bool:
    """Whether compute instruction `number` can still pop a token of `instruction`: queues are first
    in, first out."""
    if (
        state.out[number].flags[_QUEUES[far, Stage.COMPUTE][1]]
        or state.out[instruction].flags[_QUEUES[far, Stage.COMPUTE][0]]
    ):
        return False
    pops = state.pops[far, Stage.COMPUTE]
    place = bisect_right(pops, (number, 0))
    return (place == 0 or pops[place - 1][1] < instruction) and (
        place == len(pops) or instruction < pops[place][1]
    )


def _make_wait(state: _State, far: Stage, instruction: int, number: int) -> int:
    """Compute instruction `number`, already in the stream, waits for `instruction` of stage
    `far`."""
    push, pop = _QUEUES[far, Stage.COMPUTE]
    state.out[instruction].flags[push] = 1
    state.out[number].flags[pop] = 1
    insort(state.pops[far, Stage.COMPUTE], (number, instruction))
    learned = state.after[instruction]
    for later in state.compute[bisect_left(state.compute, number) :]:
        known = state.after[later]
        state.after[later] = (
            max(known[0], learned[0]),
            max(known[1], learned[1]),
            max(known[2], learned[2]),
        )
    state.knows[Stage.COMPUTE] = [
        max(a, b) for a, b in zip(state.knows[Stage.COMPUTE], learned, strict=True)
    ]
    return number


# --- the proof ------------------------------------------------------------------------------------
def prove(drafts: Sequence[Draft], config: HwConfig) -> Mapping[str, int]:
    """Checks, from the flags alone, that every hazard is ordered, nothing deadlocks, and no queue
    passes 255 tokens.

    Returns the largest number of tokens each queue can hold in any execution. Raises LoweringError
    naming two instructions.
    """
    clock = _vector_clocks(drafts)
    history = _History(config, drafts)
    for number, draft in enumerate(drafts):
        for stage, last in enumerate(history.conflicts(draft)):
            if last > clock.before[number][stage]:
                raise LoweringError(
                    f"sync: instruction {number} ({draft.opcode.name} of {draft.layer}) is "
                    f"not ordered after {last} "
                    f"({drafts[last].opcode.name} of {drafts[last].layer}), which touches "
                    "the same tiles"
                )
        history.record(draft, number)
    return {
        f"{a.name.lower()}->{b.name.lower()}": _most_tokens(clock, drafts, a, b) for a, b in _QUEUES
    }


@dataclass(frozen=True)
class _Clocks:
    """before[n][g]: the last instruction of stage g that is complete when n begins. pushes, pops:
    numbers, per queue."""

    before: list[list[int]]
    pushes: dict[tuple[Stage, Stage], list[int]]
    pops: dict[tuple[Stage, Stage], list[int]]


def _vector_clocks(drafts: Sequence[Draft]) -> _Clocks:
    knows = [[_NONE] * 3 for _ in Stage]
    after: list[list[int]] = []
    before: list[list[int]] = []
    pushes: dict[tuple[Stage, Stage], list[int]] = {q: [] for q in _QUEUES}
    pops: dict[tuple[Stage, Stage], list[int]] = {q: [] for q in _QUEUES}
    for number, draft in enumerate(drafts):
        known = knows[draft.stage]
        for queue, (_, pop) in _QUEUES.items():
            if queue[1] is draft.stage and draft.flags[pop]:
                turn = len(pops[queue])
                if turn >= len(pushes[queue]):
                    raise LoweringError(
                        f"sync: instruction {number} waits for token {turn} of "
                        f"{queue[0].name}, which nothing before it pushes"
                    )
                pops[queue].append(number)
                known = [max(a, b) for a, b in zip(known, after[pushes[queue][turn]], strict=True)]
        before.append(known)
        known = list(known)
        known[draft.stage] = number
        knows[draft.stage] = known
        after.append(known)
        for queue, (push, _) in _QUEUES.items():
            if queue[0] is draft.stage and draft.flags[push]:
                pushes[queue].append(number)
    for queue in _QUEUES:
        if len(pushes[queue]) != len(pops[queue]):
            raise LoweringError(
                f"sync: {len(pushes[queue]) - len(pops[queue])} tokens from {queue[0].name} "
                f"to {queue[1].name} are never taken"
            )
    return _Clocks(before, pushes, pops)


def _most_tokens(clock: _Clocks, drafts: Sequence[Draft], source: Stage, target: Stage) -> int:
    """When the n-th push happens, the pops known to be complete have emptied the queue by at least
    their number."""
    most = 0
    taken = np.array(clock.pops[source, target])
    for turn, number in enumerate(clock.pushes[source, target]):
        done = int(np.searchsorted(taken, clock.before[number][target], side="right"))
        most = max(most, turn + 1 - done)
    if most > MAX_TOKENS:
        raise LoweringError(
            f"sync: the queue {source.name} -> {target.name} may hold {most} tokens; the "
            f"limit is {MAX_TOKENS}"
        )
    return most
