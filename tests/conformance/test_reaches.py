# SPDX-License-Identifier: Apache-2.0
"""conformance/reaches.py: a table that says what its instructions touch is believed, and every one
that says less, more or something else is named, whether meanings are in Python or in C."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from loadstone.conformance.reaches import ReachWatch
from loadstone.isa.accelerator import Accelerator, Meaning
from loadstone.isa.codec import TableInsn, encode
from loadstone.isa.machine import TableMachine
from loadstone.isa.state import Dram, DramWindow, MachineState
from loadstone.isa.table import Bits, InstructionForm, InstructionTable, LocalMemory, Reach
from loadstone.runtime.c_meanings import c_meanings

BASE, LANES = 0x1000, 4


def table() -> InstructionTable:
    """Rows of four bytes in, weighted sums of them that may begin with the old ones, and out."""
    address, rows = Bits("address", 32, address=True), Bits("rows", 8, low=1)
    row, target = Bits("row", 8), Bits("target", 8)
    lines = (("rows", 1),)
    load = (
        Reach("dram", "address", (("rows", LANES),), LANES),
        Reach("data", "row", lines, writes=True),
    )
    weigh = (
        Reach("data", "row", (("rows", 2),)),
        Reach("weights", 0),
        Reach("sums", "target", (("rows*adds", 1),)),
        Reach("sums", "target", lines, writes=True),
    )
    keep = (Reach("data", "row"), Reach("weights", 0, writes=True))
    store = (
        Reach("sums", "row", lines),
        Reach("dram", "address", (("rows", 2 * LANES),), LANES, writes=True),
    )
    forms = (
        InstructionForm("load", 1, (address, rows, row), reaches=load, unit="load"),
        InstructionForm("keep", 2, (row,), reaches=keep, unit="array"),
        InstructionForm(
            "weigh", 3, (row, rows, target, Bits("adds", 1)), reaches=weigh, unit="array"
        ),
        InstructionForm("store", 4, (address, rows, row), reaches=store, unit="store"),
    )
    memories = (
        LocalMemory("data", 64, LANES),
        LocalMemory("weights", 1, LANES),
        LocalMemory("sums", 32, LANES, "int32"),
    )
    return InstructionTable("weigher", forms, memories)


def load(state: MachineState, i: Mapping[str, int]) -> None:
    data = state.dram.read(i["address"], LANES, LANES, i["rows"])
    state.memory["data"][i["row"] : i["row"] + i["rows"]] = data.view(np.int8)


def keep(state: MachineState, i: Mapping[str, int]) -> None:
    state.memory["weights"][0] = state.memory["data"][i["row"]]


def weigh(state: MachineState, i: Mapping[str, int]) -> None:
    picked = state.memory["data"][i["row"] + 2 * np.arange(i["rows"])].astype(np.int32)
    sums = state.memory["sums"][i["target"] : i["target"] + i["rows"]]
    sums[:] = i["adds"] * sums + picked * state.memory["weights"][0]


def store(state: MachineState, i: Mapping[str, int]) -> None:
    sums = state.memory["sums"][i["row"] : i["row"] + i["rows"]]
    state.dram.write(i["address"], (sums >> 7).clip(-128, 127).astype(np.int8), 2 * LANES)


MEANING: Mapping[str, Meaning] = {"load": load, "keep": keep, "weigh": weigh, "store": store}
SOURCE = """
#include "weigher_meaning.h"
#include <string.h>
void weigher_mean_load(weigher_state *s, const weigher_load_fields *i) {
  const uint8_t *from = weigher_read(s, i->address, 4 * i->rows);
  if (from == NULL) return;
  memcpy(s->data + 4 * i->row, from, 4 * i->rows);
}
void weigher_mean_keep(weigher_state *s, const weigher_keep_fields *i) {
  memcpy(s->weights, s->data + 4 * i->row, 4);
}
void weigher_mean_weigh(weigher_state *s, const weigher_weigh_fields *i) {
  uint64_t k;
  for (k = 0; k < 4 * i->rows; ++k) {
    int32_t *sum = &s->sums[4 * i->target + k];
    const int32_t product = s->data[4 * (i->row + 2 * (k / 4)) + k % 4] * s->weights[k % 4];
    *sum = (int32_t)((uint32_t)product + (i->adds ? (uint32_t)*sum : 0u));
  }
}
void weigher_mean_store(weigher_state *s, const weigher_store_fields *i) {
  uint64_t r, k;
  for (r = 0; r < i->rows; ++r) {
    uint8_t *to = weigher_write(s, i->address + 8 * r, 4);
    if (to == NULL) return;
    for (k = 0; k < 4; ++k) {
      const int32_t sum = s->sums[4 * (i->row + r) + k] >> 7;
      to[k] = (uint8_t)(sum < -128 ? -128 : sum > 127 ? 127 : sum);
    }
  }
}
"""


def program() -> list[TableInsn]:
    insns = []
    for k in range(8):
        insns += [
            TableInsn("load", {"address": BASE + 16 * k, "rows": 5 + k, "row": 8 + k}),
            TableInsn("keep", {"row": 8 + k}),
            TableInsn("weigh", {"row": 9 + k, "rows": 1 + k % 3, "target": k, "adds": k % 2}),
            TableInsn("store", {"address": BASE + 512 + k, "rows": 1 + k % 3, "row": k}),
        ]
    return insns


def named(said: InstructionTable, meaning: Mapping[str, Meaning]) -> list[str]:
    """What a run of the program under a table finds."""
    accelerator = Accelerator("weigher", said, meaning)
    memory = np.random.default_rng(5).integers(0, 256, 1024, np.uint8)
    watch = ReachWatch(accelerator)
    machine = TableMachine(accelerator, Dram([DramWindow(BASE, memory)]), watch=watch)
    machine.run(0, len(program()), encode(said, program()))
    return [f"{found.memory}: {found.why}" for found in watch.findings()]


def test_an_instruction_that_no_program_executes_is_named() -> None:
    """Of it nothing is believed, and nothing said."""
    accelerator = Accelerator("weigher", table(), MEANING)
    memory = np.random.default_rng(5).integers(0, 256, 1024, np.uint8)
    watch = ReachWatch(accelerator)
    machine = TableMachine(accelerator, Dram([DramWindow(BASE, memory)]), watch=watch)
    reaching = [form.name for form in table().forms if form.reaches]
    assert watch.untried() == reaching
    first = program()[:1]
    machine.run(0, 1, encode(table(), first))
    assert watch.untried() == reaching[1:]
    machine.run(0, len(program()), encode(table(), program()))
    assert watch.untried() == []


def variants(form: InstructionForm) -> Iterator[tuple[str, tuple[Reach, ...]]]:
    """Each reach of an instruction dropped, longer, shorter, elsewhere, and read for written."""
    for k, reach in enumerate(form.reaches):

        def one(changed: Reach, at: int = k) -> tuple[Reach, ...]:
            return (*form.reaches[:at], changed, *form.reaches[at + 1 :])

        name = f"{form.name}-{k}"
        yield f"{name}-dropped", (*form.reaches[:k], *form.reaches[k + 1 :])
        assert isinstance(reach.extent, int)
        yield f"{name}-longer", one(replace(reach, extent=reach.extent + 1))
        if reach.memory == "dram":
            yield f"{name}-shorter", one(replace(reach, extent=reach.extent - 1))
        if reach.loops:
            yield f"{name}-one-turn", one(replace(reach, loops=()))
        if reach.memory not in ("weights", "dram"):
            yield f"{name}-elsewhere", one(replace(reach, offset=1))
        yield f"{name}-turned", one(replace(reach, writes=not reach.writes))


WRONG = {name: (form.name, reaches) for form in table().forms for name, reaches in variants(form)}


def with_reaches(name: str, reaches: tuple[Reach, ...]) -> InstructionTable:
    """`weights` has a row more, so that a longer reach of it is inside."""
    said = table()
    forms = tuple(replace(f, reaches=reaches) if f.name == name else f for f in said.forms)
    memories = tuple(replace(m, rows=m.rows + (m.name == "weights")) for m in said.memories)
    return replace(said, forms=forms, memories=memories)


def test_a_true_table_is_believed(tmp_path: Path) -> None:
    assert named(table(), MEANING) == []
    source = tmp_path / "weigher.c"
    source.write_text(SOURCE, encoding="utf-8")
    assert named(table(), c_meanings(table(), source)) == []


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_reach_is_named(wrong: str) -> None:
    name, reaches = WRONG[wrong]
    found = named(with_reaches(name, reaches), MEANING)
    assert found
    assert all(f": {name}: " in why for why in found), found


def test_meanings_in_c_are_judged_alike(tmp_path: Path) -> None:
    source = tmp_path / "weigher.c"
    source.write_text(SOURCE, encoding="utf-8")
    base = with_reaches("", ())
    meaning = c_meanings(base, source)
    for name, reaches in WRONG.values():
        said = with_reaches(name, reaches)
        in_c, in_python = (
            [why.split(" from ")[0] for why in named(said, found)] for found in (meaning, MEANING)
        )
        assert in_c == in_python  # in C an access is a row, and begins there


def test_what_is_said_has_instruction_and_places() -> None:
    name, reaches = WRONG["weigh-2-dropped"]
    assert named(with_reaches(name, reaches), MEANING) == [
        "sums: weigh: reads row 1 of sums (named: 1 to 2 written), which no reach names so"
    ]
    name, reaches = WRONG["store-1-longer"]
    assert named(with_reaches(name, reaches), MEANING) == [
        "dram: store: reach 2 names more of dram than is written: its last byte was touched in "
        "none of 8 executions"
    ]
    name, reaches = WRONG["load-0-shorter"]
    found = named(with_reaches(name, reaches), MEANING)
    assert found == [
        "dram: load: touches more of dram from 0x1000 on than its reaches name (named: 0x1000 to "
        "0x1012 read)"
    ]
