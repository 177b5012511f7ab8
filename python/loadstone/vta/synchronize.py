"""Synchronize: dependency tokens from hazards.

In:   a VtaProgram with instructions in program order.
Out:  the same with pop and push flags, and a few compute no-ops where load must wait for store; the
      most tokens that each queue can hold.
Next: offload.py puts its bytes into an artifact.

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
MAX_TOKENS. hazards.py proves that what comes out is right.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from loadstone.errors import LoweringError
from loadstone.vta.cost import cost_model
from loadstone.vta.hazards import NONE, Hazards, prove
from loadstone.vta.hw_config import HwConfig
from loadstone.vta.isa.insn import Finish, Insn, Load
from loadstone.vta.isa.spec import MAX_TOKENS, TOKEN_FLAGS, TOKEN_QUEUES, Memory, Stage, TokenQueue
from loadstone.vta.program import PendingInstruction, ProgramPass, VtaProgram

__all__ = ["Synchronize"]

_QUEUE = {(queue.pusher, queue.popper): queue for queue in TOKEN_QUEUES}
_PUSHED = {stage: [queue for queue in TOKEN_QUEUES if queue.pusher is stage] for stage in Stage}
#: With so many tokens in a queue their source waits. Instructions already out may push as many
#: again before MAX_TOKENS.
_MANY_TOKENS = MAX_TOKENS // 2


class Synchronize(ProgramPass):
    """Sets tokens so that every hazard between stages is ordered."""

    name: ClassVar[str] = "synchronize"

    def run(self, program: VtaProgram) -> VtaProgram:
        """Sets the flags, inserts no-ops, and proves that they suffice."""
        instructions = _synchronized(program.instructions, program.config)
        return replace(
            program, instructions=instructions, tokens=prove(instructions, program.config)
        )

    def verify(self, before: VtaProgram, after: VtaProgram) -> None:
        """Nothing but tokens and no-ops was added, and FINISH is the end."""
        prove(after.instructions, after.config)
        found = [_without_tokens(p.insn) for p in after.instructions if not _is_noop(p.insn)]
        if found != [pending.insn for pending in before.instructions]:
            raise LoweringError(
                "synchronize: instructions were lost, changed or put in other order"
            )
        if not isinstance(after.instructions[-1].insn, Finish):
            raise LoweringError("synchronize: the last instruction is not FINISH")


def _is_noop(insn: Insn) -> bool:
    return isinstance(insn, Load) and insn.is_noop


def _without_tokens(insn: Insn) -> Insn:
    return insn.changed(**dict.fromkeys(TOKEN_FLAGS, 0))


@dataclass
class _State:
    """What is known while the stream is walked: instructions get numbers in the order of `out`."""

    out: list[PendingInstruction] = field(default_factory=list)
    flags: list[set[str]] = field(default_factory=list)  # token flags that are set
    after: list[tuple[int, int, int]] = field(
        default_factory=list
    )  # what is known when instruction n is complete
    knows: list[list[int]] = field(default_factory=lambda: [[NONE] * 3 for _ in Stage])
    compute: list[int] = field(default_factory=list)  # numbers of the compute instructions
    pops: dict[TokenQueue, list[tuple[int, int]]] = field(
        default_factory=lambda: {queue: [] for queue in TOKEN_QUEUES}
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
        return self.stores[place - 1][1] if place else NONE


def _synchronized(
    instructions: Sequence[PendingInstruction], config: HwConfig
) -> tuple[PendingInstruction, ...]:
    """The instructions with flags, and the no-ops between them."""
    state = _State()
    hazards, cost = Hazards(config, instructions), cost_model(config)
    for instruction in instructions:
        is_last = isinstance(instruction.insn, Finish)
        needed = state.last if is_last else hazards.conflicts(instruction)
        flags = _tokens_for(
            state, instruction.stage, needed, lambda pending: cost.instruction(pending, config)
        )
        cycles = cost.instruction(instruction, config)
        number = _append(state, instruction, flags)
        if instruction.stage is Stage.COMPUTE:
            state.total += cycles
        elif instruction.stage is Stage.STORE:
            begin = max(state.total, state.stores[-1][0] if state.stores else 0)
            state.stores.append((begin + cycles, number))
        hazards.record(instruction, number)
    return tuple(
        pending.with_insn(pending.insn.changed(**dict.fromkeys(flags, 1))) if flags else pending
        for pending, flags in zip(state.out, state.flags, strict=True)
    )


def _tokens_for(
    state: _State, stage: Stage, needed: list[int], cycles_of: Callable[[PendingInstruction], int]
) -> set[str]:
    """The pops of the next instruction of `stage`, which must not overtake `needed`."""
    flags: set[str] = set()
    for queue in _PUSHED[stage]:
        needed[queue.popper] = max(needed[queue.popper], _drained(state, queue))
    if stage is Stage.COMPUTE:
        _wait(state, Stage.LOAD, stage, needed[Stage.LOAD], flags)
        if needed[Stage.STORE] > state.knows[stage][Stage.STORE]:
            latest = max(needed[Stage.STORE], state.latest_store_done())
            _wait(state, Stage.STORE, stage, latest, flags)
        return flags
    far = Stage.STORE if stage is Stage.LOAD else Stage.LOAD
    through = NONE
    if needed[far] > state.knows[stage][far]:
        delay = cycles_of(state.out[needed[far]])
        through = _carrier(state, far, stage, needed[far], delay)
    _wait(state, Stage.COMPUTE, stage, max(needed[Stage.COMPUTE], through), flags)
    return flags


def _drained(state: _State, queue: TokenQueue) -> int:
    """What the next instruction of the pusher must wait for, lest it run so far ahead of the popper
    that their queue overflows."""
    pops = state.pops[queue]
    taken = bisect_right(pops, (state.knows[queue.pusher][queue.popper], len(state.out)))
    return pops[-_MANY_TOKENS // 2][0] if len(pops) - taken > _MANY_TOKENS else NONE


def _append(state: _State, instruction: PendingInstruction, flags: set[str]) -> int:
    number = len(state.out)
    state.out.append(instruction)
    state.flags.append(flags)
    stage = instruction.stage
    known = state.knows[stage]
    known[stage] = number
    state.after.append((known[0], known[1], known[2]))
    state.spent.append(state.total)
    if stage is Stage.COMPUTE:
        state.compute.append(number)
        state.fresh[number] = state.latest_store_done()
    return number


def _wait(state: _State, source: Stage, stage: Stage, instruction: int, flags: set[str]) -> None:
    """The instruction that owns `flags`, next in `stage`, waits for `instruction` of the neighbour
    `source`."""
    if instruction <= state.knows[stage][source]:
        return
    queue = _QUEUE[source, stage]
    state.flags[instruction].add(queue.push)
    flags.add(queue.pop)
    state.pops[queue].append((len(state.out), instruction))
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
    noop = PendingInstruction(Load(memory_id=Memory.UOP), state.out[instruction].layer)
    flags: set[str] = set()
    _wait(state, far, Stage.COMPUTE, instruction, flags)
    return _append(state, noop, flags)


def _fits(state: _State, far: Stage, instruction: int, number: int) -> bool:
    """Whether compute instruction `number` can still pop a token of `instruction`: queues are first
    in, first out."""
    queue = _QUEUE[far, Stage.COMPUTE]
    if queue.pop in state.flags[number] or queue.push in state.flags[instruction]:
        return False
    pops = state.pops[queue]
    place = bisect_right(pops, (number, 0))
    return (place == 0 or pops[place - 1][1] < instruction) and (
        place == len(pops) or instruction < pops[place][1]
    )


def _make_wait(state: _State, far: Stage, instruction: int, number: int) -> int:
    """Compute instruction `number`, already in the stream, waits for `instruction` of stage
    `far`."""
    queue = _QUEUE[far, Stage.COMPUTE]
    state.flags[instruction].add(queue.push)
    state.flags[number].add(queue.pop)
    insort(state.pops[queue], (number, instruction))
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
