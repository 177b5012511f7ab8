# SPDX-License-Identifier: Apache-2.0
"""selection/meanings.py: texts of a table become chains; and they are what the simulator does."""

from __future__ import annotations

import re

import numpy as np
import pytest

from loadstone.errors import ConfigError
from loadstone.isa.machine import MachineState
from loadstone.isa.state import Dram, DramWindow
from loadstone.isa.terms import term_value
from loadstone.numerics import rq
from loadstone.selection.meanings import Meaning, Meanings, MeaningSlot, MeaningStep
from tests.passes.networks import plugins
from tests.selection.devices import gemmini, meanings, table, with_meaning

ROW = MeaningSlot("accumulator", "target", (1,))


def test_a_text_becomes_a_chain() -> None:
    first, adds = (m for m in meanings().all if m.form.name == "compute")
    operands = MeaningSlot("scratchpad", "row", ("step",)), MeaningSlot("weights", 0, (0,))
    assert first.counts == ("rows",)
    assert (first.target, first.source, first.fixed) == (ROW, 0, {"adds": 0})
    assert first.steps == (MeaningStep("gemm", operands, ()),)
    assert (adds.target, adds.source, adds.fixed) == (ROW, None, {"adds": 1})
    (stored,) = (m for m in meanings().all if m.form.name == "mvout")
    assert stored.target == MeaningSlot("dram", "address", ("stride",))
    assert stored.source == MeaningSlot("accumulator", "row", (1,))
    assert [step.name for step in stored.steps] == ["rq"]


def test_memories_follow() -> None:
    """The weights come from the scratchpad: `preload` fills the array from there, four rows."""
    memories = meanings().memories
    assert memories.operands == {
        "fill": ("accumulator",),
        "gemm": ("accumulator", "scratchpad", "scratchpad"),
        "rq": ("accumulator", "accumulator"),
    }
    assert {key: n for key, n in memories.reach.items() if n > 1} == {("gemm", 2): 4, ("rq", 1): 3}
    assert memories.result == "accumulator"
    assert {name: m.form.name for name, m in meanings().fillers.items()} == {
        "weights": "preload",
        "scaling": "scale",
    }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("gemm", "it is not STEP; STEP for LOOP<COUNT where FIELD=VALUE"),
        ("copy(weights[k], scratchpad[row + k]) for k", "k is no loop NAME<COUNT"),
        ("copy(weights[k], scratchpad[row + k]) for k<size", "size is no field, no register, and"),
        ("copy(weights[k], scratchpad[row + k]) for k<4 where a=1", "a=1 is no FIELD=VALUE of the"),
        ("copy(weights[0], scratchpad[row], weights[0])", "is not fill(A | VALUE), not copy(A, B)"),
        ("fill(weights[0])", "is not fill(A | VALUE), not copy(A, B)"),
        ("copy(weights[0], scratchpad[row]); copy(dram[0], accumulator[0])", "a second value"),
        ("copy(weights[0], scratchpad[row]); copy(dram[0], weights[0])", "begins a second value"),
        ("copy(weights[0], scratchpad[row]); add(scaling[0], weights[0])", "works on another plac"),
        ("copy(y[0], scratchpad[row])", "its value ends in y, which is no memory"),
        ("copy(weights[k*k], scratchpad[row]) for k<4", "weights[k*k] moves twice with a loop"),
        ("copy(weights[row + 1], scratchpad[row])", "one field says where it begins"),
        ("copy(weights[row], scratchpad[row])", "two operands begin at row"),
        ("copy(weights, scratchpad)", "`weights, scratchpad` are no accesses MEMORY[INDEX]"),
        (
            "fill(accumulator[0] | 0) then copy(weights[0], scratchpad[row])",
            "in front of `then` st",
        ),
        (
            "copy(weights[0], dram[0]) then copy(scaling[0], weights[0]) then copy(x[0], x[0])",
            "in ",
        ),
        (
            "copy(weights[0], scratchpad[row]) where row=1 then copy(scaling[0], weights[0])",
            "in front of `then` stands one copy(MEMORY[LOOP], ...) without `where`",
        ),
        (
            "copy(weights[0], scratchpad[row]) then copy(scaling[0], scratchpad[row])",
            "two operands begin at row",
        ),
        (
            "copy(weights[0], scratchpad[row]) where row=a",
            "row=a: a is no field of the instruction",
        ),
        ("copy weights[0])", "`copy weights[0])` is no step NAME(ACCESS, ... | TERM, ...)"),
    ],
)
def test_what_is_no_meaning_is_refused_by_name(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=rf"meaning of preload `.*{re.escape(why)}"):
        Meanings(with_meaning("preload", text))


def test_registers_stand_as_fields_do() -> None:
    """Gemmini's product: what is filled first, registers for rows, what must be equal."""
    found = Meanings(gemmini())
    first, adds = (m for m in found.all if m.form.name == "compute_preloaded")
    assert (first.source, adds.source) == (0, None)
    assert adds.target == MeaningSlot("acc", "c_row", (1,))
    operands = MeaningSlot("spad", "a", ("a_stride",)), MeaningSlot("array", 0, (0,))
    assert adds.steps == (MeaningStep("gemm", operands, ()),)
    assert (adds.fixed, adds.same) == ({"c_accumulate": 1}, (("c_rows", "rows"),))
    assert adds.before is not None
    assert adds.before.source == MeaningSlot("spad", "b_row", (1,))
    assert found.fillers["array"] is first.before
    assert not found.stands_alone(first.before)
    kept = next(m for m in found.all if m.form.name == "compute_accumulated")
    assert kept.before is None
    assert found.reached(kept.slots[2]) == ("spad", 16)
    assert found.memories.operands["add"] == ("acc", "dram")
    assert found.memories.operands["scale"] == ("acc",)
    assert meanings().stands_alone(meanings().fillers["weights"])


def test_what_a_table_must_have() -> None:
    with pytest.raises(ConfigError, match="no instruction stores to dram"):
        _ = Meanings(with_meaning("mvout")).memories
    filled = Meanings(with_meaning("preload", "copy(weights[k], scratchpad[row + k]) for k<row"))
    with pytest.raises(ConfigError, match="a field says how much of weights it fills: say a numbe"):
        _ = filled.memories


@pytest.mark.parametrize("seed", range(20))
def test_the_example_means_what_its_simulator_does(seed: int) -> None:
    """Each text, lane by lane on random memories, is the function of the same instruction."""
    accelerator = (
        plugins().backends["systolic"](dim=4, scratchpad_rows=40, accumulator_rows=40).accelerator
    )
    assert accelerator is not None
    rng = np.random.default_rng(seed)
    image = rng.integers(0, 256, 4096, np.uint8)
    own, other = (_state(accelerator.table, image.copy(), seed) for _ in range(2))
    said: dict[str, int] = {}
    said |= {"scale.zero_point": 3, "scale.low": -100, "scale.high": 90, "scale.rounding": 0}
    said |= {"scale.row": 5}
    for state in (own, other):
        state.memory["accumulator"][5:8] = [[7] * 4, [1 << 30] * 4, [254] * 4]
        accelerator.meaning["scale"](state, {k[6:]: v for k, v in said.items()})
    for meaning in Meanings(accelerator.table).all:
        if meaning.form.name == "scale":
            continue
        fields = {bits.name: 0 for bits in meaning.form.fields} | {"rows": 5, "stride": 32}
        fields |= {"row": int(rng.integers(9, 14)), "step": 3, "target": int(rng.integers(9, 30))}
        fields |= {"address": 0x1000 + 16 * int(rng.integers(9)), **meaning.fixed}
        accelerator.meaning[meaning.form.name](own, fields)
        _execute(meaning, {**said, **fields}, other)
        for name, memory in own.memory.items():
            np.testing.assert_array_equal(memory, other.memory[name], meaning.text)
        np.testing.assert_array_equal(_image(own), _image(other), meaning.text)


def _state(table_: object, image: np.ndarray, seed: int) -> MachineState:
    del table_
    rng = np.random.default_rng(seed)
    state = MachineState(Dram([DramWindow(0x1000, image)]), {}, {})
    state.memory["scratchpad"] = rng.integers(-128, 128, (40, 4)).astype(np.int8)
    state.memory["accumulator"] = rng.integers(-9999, 9999, (40, 4)).astype(np.int32)
    state.memory["weights"] = rng.integers(-128, 128, (1, 16)).astype(np.int32)
    state.memory["scaling"] = np.zeros((1, 16), np.int32)
    return state


def _image(state: MachineState) -> np.ndarray:
    return state.dram.read(0x1000, 4096)[0]


def _execute(meaning: Meaning, fields: dict[str, int], state: MachineState) -> None:
    """One text in plain loops: the definition."""
    (count,) = (term_value(term, fields) for term in meaning.counts)

    def at(slot: MeaningSlot, turn: int) -> int:
        first = slot.first if isinstance(slot.first, int) else fields[slot.first]
        return first + term_value(slot.strides[0], fields) * turn

    def read(slot: MeaningSlot, turn: int, size: int) -> np.ndarray:
        if slot.memory == "dram":
            return state.dram.read(at(slot, turn), size)[0]
        memory = state.memory[slot.memory]
        places = memory.reshape(-1, 4) if slot.memory == "weights" else memory
        return places[at(slot, turn)].copy()

    wide = meaning.target.memory == "accumulator"
    for turn in range(count):
        value: np.ndarray
        if isinstance(meaning.source, MeaningSlot):
            value = read(meaning.source, turn, 16 if wide else 4)
        else:
            value = np.zeros(4, np.int32) if meaning.source == 0 else read(meaning.target, turn, 16)
        for step in meaning.steps:
            if step.name == "gemm":
                data = read(step.operands[0], turn, 4).astype(np.int64)
                value = (value + data @ state.memory["weights"].reshape(4, 4)).astype(np.int32)
            else:
                zero, low, high, rounding = (term_value(t, fields) for t in step.immediates)
                lanes = state.memory["scaling"][0, 4:].reshape(3, 4)
                limits = {"zero_point": zero, "low": low, "high": high}
                value = rq(value, *lanes, **limits, rounding=rounding).astype(np.int8)
        if meaning.target.memory == "dram":
            state.dram.write(at(meaning.target, turn), value.astype(np.int8)[None], 4)
        else:
            memory = state.memory[meaning.target.memory]
            places = memory.reshape(-1, 4) if meaning.target.memory == "weights" else memory
            places[at(meaning.target, turn)] = value.view(np.int32 if wide else np.int8)


def test_the_table_itself_is_as_before() -> None:
    """What a program means does not depend on how the compiler makes it."""
    assert with_meaning("mvout").fingerprint == table().fingerprint
