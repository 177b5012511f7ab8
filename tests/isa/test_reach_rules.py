# SPDX-License-Identifier: Apache-2.0
"""isa/reach_rules.py: what contradicts itself is refused, and named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from loadstone.errors import ConfigError
from loadstone.isa.accelerator import Accelerator
from loadstone.isa.table import (
    AddressRegister,
    Bits,
    InstructionTable,
    Keep,
    LocalMemory,
    Reach,
    UnitBy,
    Words,
)
from tests.isa import gather

TABLE = gather.table()


def changed(name: str, **changes: Any) -> InstructionTable:
    forms = [replace(f, **changes) if f.name == name else f for f in TABLE.forms]
    return replace(TABLE, forms=tuple(forms))


INDEX = Words("index", "begin", "end")
REFUSED = {
    "a reach through words of DRAM": (
        {"reaches": (Reach("dram", "source", through=INDEX),)},
        "through index: not from words of one local memory to another",
    ),
    "words that go to themselves": (
        {"reaches": (Reach("index", "source", through=INDEX),)},
        "through index: not from words",
    ),
    "a memory without words": (
        {"reaches": (Reach("out", "source", through=Words("pad", "begin", "end")),)},
        "source of pad: not a field of that memory's words",
    ),
    "a field that words have not": (
        {"reaches": (Reach("out", "turns", through=INDEX),)},
        "turns of index: not a field of that memory's words",
    ),
    "words by an unknown field": (
        {"reaches": (Reach("out", "source", through=Words("index", "start", "end")),)},
        "start: not a field of it",
    ),
    "an index of no register": (
        {"reaches": (Reach("out", "source", through=INDEX, index=1),)},
        "index: not of an address register",
    ),
    "a forbidden term of another instruction": ({"never": ("rows",)}, "never: rows: not a field"),
    "too many factors": (
        {"never": ("turns*turns*turns*turns*turns",)},
        "not a product of at most 4",
    ),
    "a unit by no field": (
        {"unit": UnitBy("mode", ("core",))},
        "unit by mode: not an unsigned field of it",
    ),
    "too few units": (
        {"unit": UnitBy("turns", ("core",) * 7)},
        "unit by turns: 7 units: not one for each of 0 to 7",
    ),
    "time by a field of another": ({"per": (("(rows+turns)", 1),)}, "not of fields of it"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_gather_may_not_say(name: str) -> None:
    changes, said = REFUSED[name]
    with pytest.raises(ConfigError, match="instruction gather") as caught:
        changed("gather", **changes)
    assert said in str(caught.value)


def test_words_are_copied() -> None:
    load = TABLE.by_name["load"]
    stays = tuple(reach for reach in load.reaches if reach.memory != "dram")
    with pytest.raises(ConfigError, match="writes words of index: not a copy of what it reads"):
        changed("load", reaches=stays)
    memories = tuple(
        LocalMemory("pad", gather.ROWS, 2, "uint8", (Bits("next", 5),)) if m.name == "pad" else m
        for m in TABLE.memories
    )
    with pytest.raises(ConfigError, match="written through words: not words, which are copied"):
        replace(
            changed("gather", reaches=(Reach("pad", "source", writes=True, through=INDEX),)),
            memories=memories,
        )


WRONG_WORDS = {
    "too wide": (LocalMemory("index", 8, 5, "uint8", (Bits("a", 5),)), "5 bytes of uint8"),
    "no integers": (LocalMemory("index", 8, 1, "float32", (Bits("a", 5),)), "4 bytes of float32"),
    "behind the end": (LocalMemory("index", 8, 1, "uint8", (Bits("a", 9),)), "9 bits"),
    "on another": (
        LocalMemory("index", 8, 1, "uint8", (Bits("a", 5), Bits("b", 2, at=4))),
        "bit 4 of b: not free: 5 is the next",
    ),
    "with a sign": (
        LocalMemory("index", 8, 1, "uint8", (Bits("a", 5, signed=True),)),
        "field a: not unsigned, of 1 to 32 bits",
    ),
    "twice": (
        LocalMemory("index", 8, 1, "uint8", (Bits("a", 3), Bits("a", 3))),
        "a, a: not each name once",
    ),
}


@pytest.mark.parametrize("name", WRONG_WORDS)
def test_words_that_cannot_be(name: str) -> None:
    memory, said = WRONG_WORDS[name]
    with pytest.raises(ConfigError, match="words of index") as caught:
        InstructionTable("words", TABLE.forms[4:], (memory,))
    assert said in str(caught.value)


def test_registers_that_begin_at_regions() -> None:
    begun = (AddressRegister("base", regions=True), AddressRegister("more", regions=True))
    with pytest.raises(ConfigError, match="base, more that begin at regions: not one at most"):
        replace(TABLE, address_registers=begun)
    with pytest.raises(ConfigError, match="keep of base: not an address register that instr"):
        replace(TABLE, address_registers=begun[:1])
    forms = tuple(form for form in TABLE.forms if form.name != "point")
    table = replace(TABLE, forms=forms, address_registers=begun[:1])
    meaning = {form.name: lambda state, fields: None for form in forms}
    with pytest.raises(ConfigError, match="base begins at regions, which only VTA's driver sets"):
        Accelerator("gather", table, meaning)


def test_a_sign_counts_in_comparisons_alone() -> None:
    signed = Bits("signed", 4, signed=True)
    write = TABLE.by_name["write"]
    fields = (*write.fields, signed)
    changed("write", fields=fields, never=("(signed+2<0)",))
    with pytest.raises(ConfigError, match="never: signed: not an unsigned field"):
        changed("write", fields=fields, never=("signed",))
    with pytest.raises(ConfigError, match=r"\(address<3\): not an unsigned field"):
        changed("write", never=("(address<3)",))
    with pytest.raises(ConfigError, match="keep of base: row: not an address field"):
        changed("write", keeps=(Keep("base", "row"),))
