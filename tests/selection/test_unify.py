# SPDX-License-Identifier: Apache-2.0
"""selection/unify.py: what it says matches computes the same, on random nests and random meanings.

An instruction touches for each turn of its loops one place of each slot; a nest does, too. The
reference counts these turns one by one, for the nest and for all instructions of a match.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from loadstone.isa.form import Bits, InstructionForm
from loadstone.isa.terms import Term, term_value
from loadstone.selection.meanings import Meaning, Meanings, MeaningSlot, MeaningStep
from loadstone.selection.unify import (
    ChainLoop,
    ChainStep,
    Unifier,
    ValueChain,
    bound,
    matches,
    solved,
)
from tests.repeat import times
from tests.selection.devices import meanings

FIELDS = (
    *(Bits(name, 6, low=1) for name in "abcd"),
    Bits("step", 4),
    Bits("stride", 12),
    Bits("near", 3, signed=True),
)
TERMS: tuple[Term, ...] = (0, 1, 2, "step", "stride", "stride*4", "(step+1)", "near", "step*a", 3)


def random_meaning(rng: np.random.Generator) -> Meaning:
    """add(pad[..], mem[..] | step) in up to three loops, whose counts and strides are terms."""
    loops = int(rng.integers(1, 4))
    names = list(rng.permutation(list("abcd"))[:loops])
    counts: list[Term] = [*names]
    if rng.random() < 0.3:
        counts[0] = f"({names[0]}+1)"
    if rng.random() < 0.2:
        counts[-1] = int(rng.integers(1, 4))

    def slot(memory: str, first: str) -> MeaningSlot:
        picks = (TERMS[int(rng.integers(len(TERMS)))] for _ in counts)
        return MeaningSlot(memory, first, tuple(picks))

    fields = (*FIELDS, Bits("to", 12), Bits("of", 12))
    form = InstructionForm("add", 1, fields, 16)
    step = MeaningStep("add", (slot("mem", "of"),), ("near",) if rng.random() < 0.5 else (2,))
    kept = slot("pad", "to"), None, (step,), {}
    return Meaning(form, "random", tuple(counts), *kept)


def table_of(form: InstructionForm) -> Any:
    """As far as unification asks."""
    return SimpleNamespace(by_name={form.name: form}, by_register={})


def of(meaning: Meaning) -> Meanings:
    """As matches takes them; nothing fills a memory."""
    found: Any = SimpleNamespace(all=(meaning,), fillers={}, table=table_of(meaning.form))
    return found


def chain_of(meaning: Meaning, fields: dict[str, int], rng: np.random.Generator) -> ValueChain:
    """What an instruction with these fields does, in loops that stand in any order, with up to two
    more around them."""
    loops = []
    for number, count in enumerate(meaning.counts):
        strides = tuple(term_value(slot.strides[number], fields) for slot in meaning.slots)
        loops.append(ChainLoop(term_value(count, fields), strides))
    for _ in range(int(rng.integers(3))):
        loops.append(ChainLoop(int(rng.integers(2, 4)), (*map(int, rng.integers(0, 99, 2)),)))
    loops = [loops[n] for n in rng.permutation(len(loops))]
    immediates = tuple(term_value(term, fields) for term in meaning.steps[0].immediates)
    step = ChainStep("add", 1, immediates)
    return ValueChain(("pad", "mem"), None, is_moved=False, steps=(step,), loops=tuple(loops))


def places(loops: Sequence[ChainLoop]) -> Iterator[tuple[int, ...]]:
    """The places of all slots, turn by turn."""
    slots = len(loops[0].strides) if loops else 2
    for turn in product(*(range(loop.extent) for loop in loops)):
        at = zip(loops, turn, strict=True)
        moved = [[n * stride for stride in loop.strides] for loop, n in at]
        yield tuple(sum(each[slot] for each in moved) for slot in range(slots))


def instructed(match: Unifier, chain: ValueChain, known: Meanings) -> Iterator[tuple[int, ...]]:
    """The same of every instruction of a match."""
    left = [loop for n, loop in enumerate(chain.loops) if n not in match.loops]
    parts = []
    for loop, count in zip(match.loops, match.counts, strict=True):
        extent = 1 if loop is None else chain.loops[loop].extent
        parts.append([(at, min(count, extent - at)) for at in range(0, extent, count)])
    for around in places(left):
        for part in product(*parts):
            counts = tuple(count for _, count in part)
            fields = bound(known, match.meaning, chain, (match.loops, counts))
            assert fields is not None
            values = {bits.name: 0 for bits in match.meaning.form.fields} | fields
            own = []
            for number, count in enumerate(match.meaning.counts):
                slots = match.meaning.slots
                strides = tuple(term_value(slot.strides[number], values) for slot in slots)
                own.append(ChainLoop(term_value(count, values), strides))
            begin = list(around)
            for loop, (first, _) in zip(match.loops, part, strict=True):
                if loop is not None:
                    moved = chain.loops[loop].strides
                    begin = [a + first * stride for a, stride in zip(begin, moved, strict=True)]
            for bits in match.meaning.form.fields:
                if bits.name in fields:
                    assert bits.lowest <= fields[bits.name] <= bits.highest
            for place in places(own):
                yield tuple(a + b for a, b in zip(begin, place, strict=True))


@pytest.mark.parametrize("seed", range(times(60, 2000)))
def test_a_match_touches_what_the_nest_does(seed: int) -> None:
    rng = np.random.default_rng(seed)
    meaning = random_meaning(rng)
    fields = {bits.name: int(rng.integers(bits.lowest, 4)) for bits in meaning.form.fields}
    fields |= {"near": int(rng.integers(-4, 4)), "stride": int(rng.integers(0, 60))}
    chain = chain_of(meaning, fields, rng)
    known = of(meaning)
    found = list(matches(known, chain))
    assert any(set(match.loops) != {None} for match in found) or not chain.loops or _open(meaning)
    for match in found:
        wanted = Counter(places(chain.loops))
        assert Counter(instructed(match, chain, known)) == wanted, (meaning, match)
        immediates = [term_value(t, match.fields | fields) for t in meaning.steps[0].immediates]
        assert tuple(immediates) == chain.steps[0].immediates


def _open(meaning: Meaning) -> bool:
    """Whether a product of two fields stands in it, which no equation alone decides; or a number
    says how many turns there are."""
    terms = [*meaning.counts, *(t for slot in meaning.slots for t in slot.strides)]
    return any(isinstance(t, int) for t in meaning.counts) or "step*a" in terms


@pytest.mark.parametrize("seed", range(times(30, 500)))
def test_a_nest_of_another_kind_has_no_match(seed: int) -> None:
    rng = np.random.default_rng(seed)
    meaning = random_meaning(rng)
    fields = {bits.name: int(rng.integers(bits.lowest, 4)) for bits in meaning.form.fields}
    chain = chain_of(meaning, fields | {"near": 1}, rng)
    step = chain.steps[0]
    for other in (
        ValueChain(chain.memories, 0, False, chain.steps, chain.loops),
        ValueChain((*chain.memories, "mem"), None, True, chain.steps, chain.loops),
        ValueChain(("mem", "pad"), None, False, chain.steps, chain.loops),
        ValueChain(chain.memories, None, False, (step._replace(name="sub"),), chain.loops),
        ValueChain(chain.memories, None, False, (step._replace(immediates=(9,)),), chain.loops),
        ValueChain(chain.memories, None, False, (step._replace(immediates=()),), chain.loops),
        ValueChain(chain.memories, None, False, (step, step), chain.loops),
    ):
        assert list(matches(of(meaning), other)) == []


def test_the_products_of_the_example() -> None:
    """Sixteen rows of pixels, four of them a line of six apart: one line is an instruction."""
    loops = ChainLoop(4, (4, 6, 0)), ChainLoop(4, (1, 1, 0))
    memories = "accumulator", "scratchpad", "scratchpad"
    chain = ValueChain(
        memories, None, is_moved=False, steps=(ChainStep("gemm", 2, ()),), loops=loops
    )
    found = list(matches(meanings(), chain))
    assert [(m.meaning.fixed, m.loops, m.counts) for m in found] == [
        ({"adds": 1}, (1,), (4,)),
        ({"adds": 1}, (None,), (1,)),
    ]
    assert found[0].fields == {"adds": 1, "rows": 4, "step": 1}


def test_weights_stay_while_an_instruction_turns() -> None:
    """What another instruction fills moves with no loop of this one."""
    loops = (ChainLoop(4, (1, 1, 4)),)
    memories = "accumulator", "scratchpad", "scratchpad"
    chain = ValueChain(
        memories, None, is_moved=False, steps=(ChainStep("gemm", 2, ()),), loops=loops
    )
    assert [match.loops for match in matches(meanings(), chain)] == [(None,)]


def test_a_count_beyond_its_field_is_several_instructions() -> None:
    form = InstructionForm(
        "move", 1, (Bits("rows", 4, low=1, high=5), Bits("to", 9), Bits("of", 9))
    )
    meaning = Meaning(
        form, "", ("rows",), MeaningSlot("pad", "to", (1,)), MeaningSlot("mem", "of", (1,)), (), {}
    )

    def counts(extent: int) -> list[tuple[int, ...]]:
        loops = (ChainLoop(extent, (1, 1)),)
        chain = ValueChain(("pad", "mem"), None, is_moved=True, steps=(), loops=loops)
        return [m.counts for m in matches(of(meaning), chain) if m.loops == (0,)]

    assert counts(3) == [(3,)]
    assert counts(12) == [(5,)]  # 5, 5 and 2


@pytest.mark.parametrize(
    ("term", "value", "known", "found"),
    [
        (3, 3, {}, {}),
        (3, 4, {}, None),
        ("a", 5, {}, {"a": 5}),
        ("a", 0, {}, None),  # below its limit
        ("a", 64, {}, None),
        ("a", 5, {"a": 5}, {}),
        ("a", 5, {"a": 6}, None),
        ("a*4", 20, {}, {"a": 5}),
        ("a*4", 21, {}, None),
        ("a*b", 20, {"b": 4}, {"a": 5}),
        ("a*b", 20, {}, {"": 1}),
        ("(a+2)", 7, {}, {"a": 5}),
        ("(a+b)", 7, {"b": 4}, {"a": 3}),
        ("(a=2)", 1, {}, {"": 1}),
        ("(a=2)", 1, {"a": 2}, {}),
        ("near", -3, {}, {"near": -3}),
        ("near*a", 0, {"near": 0}, {}),
        ("near*a", 3, {"near": 0}, None),
    ],
)
def test_an_equation_of_one_field_is_solved(
    term: Term, value: int, known: dict[str, int], found: dict[str, int] | None
) -> None:
    form = InstructionForm("add", 1, FIELDS, 16)
    assert solved(table_of(form), form, (term, value), known) == found
