# SPDX-License-Identifier: Apache-2.0
"""What a table of instructions may be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loadstone.errors import ConfigError
from loadstone.isa.table import (
    AddressRegister,
    Bits,
    InstructionForm,
    InstructionTable,
    Keep,
    LocalMemory,
    Reach,
)
from tests.isa.tables import NPU


def one(*fields: Bits, **form: object) -> InstructionTable:
    memories = (LocalMemory("pad", 8),)
    return InstructionTable("t", (InstructionForm("go", 1, fields, **form),), memories)  # type: ignore[arg-type]


def kept(*fields: Bits, registers: int = 2, **form: object) -> InstructionTable:
    forms = (InstructionForm("go", 1, fields, **form),)  # type: ignore[arg-type]
    return InstructionTable("t", forms, address_registers=(AddressRegister("base", registers),))


def test_fields_follow_each_other_and_lengths_are_the_least() -> None:
    assert NPU.places["copy"] == {"address": 8, "stride": 48, "rows": 64, "row": 76}
    assert NPU.sizes == {"copy": 12, "store": 8, "work": 64, "end": 4}


def test_reach_counts_places() -> None:
    read = NPU.by_name["copy"].reaches[0]
    assert read.places({"address": 100, "rows": 3, "stride": 32}) == (100, 180)
    assert read.places({"address": 100, "rows": 0, "stride": 32}) == (100, 100)


def test_reach_begins_at_an_address_register() -> None:
    reach = Reach("dram", "base", (("n", 8),), 8, offset="row*8", index="which")
    fields = {"n": 3, "row": 2, "which": 1}
    assert reach.places(fields, {"base": [0, 1000]}) == (1016, 1040)


def test_fingerprint_knows_bits_and_reaches_and_no_texts() -> None:
    first = NPU.forms[0]
    said = replace(NPU, forms=(replace(first, doc="other", cycles=9, unit="x"), *NPU.forms[1:]))
    assert said.fingerprint == NPU.fingerprint
    for other in (
        replace(first, opcode=9),
        replace(first, reaches=()),
        replace(first, size_bytes=20),
    ):
        assert replace(NPU, forms=(other, *NPU.forms[1:])).fingerprint != NPU.fingerprint


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: one(Bits("a", 65)), "width 65"),
        (lambda: one(Bits("a", 8), Bits("a", 8)), "a stands twice"),
        (lambda: one(Bits("a", 8), Bits("b", 8, at=12)), "bit 12 of b"),
        (lambda: one(Bits("a", 8, at=4)), "bit 4 of a"),
        (lambda: one(Bits("a", 60), size_bytes=8), "68 bits"),
        (lambda: one(Bits("int!", 8)), "lower case"),
        (lambda: one(Bits("do", 8)), "no word of C"),
        (lambda: one(size_bytes=65), "65 bytes"),
        (lambda: one(size_bytes=3), "3 bytes"),
        (lambda: one(Bits("a", 4, high=16)), "limits 0 to 16"),
        (lambda: one(Bits("a", 4, address=True, low=1)), "an address with"),
        (lambda: one(Bits("a", 4), reaches=(Reach("cache", "a"),)), "one of dram, pad"),
        (lambda: one(Bits("a", 4), reaches=(Reach("pad", "b"),)), "b: not a field"),
        (lambda: one(Bits("a", 4), reaches=(Reach("dram", "a"),)), "address field"),
        (lambda: one(Bits("a", 33), reaches=(Reach("pad", "a"),)), "at most 32 bits"),
        (lambda: one(Bits("a", 4, signed=True), reaches=(Reach("pad", "a"),)), "unsigned"),
        (lambda: one(Bits("a", 4), reaches=(Reach("pad", 0, extent="a*b"),)), "b: not a field"),
        (lambda: one(Bits("a", 4), reaches=(Reach("pad", 0, extent="a+1"),)), "'a.1' is no number"),
        (lambda: one(Bits("a", 4), reaches=(Reach("pad", "a*a*a*a*a"),)), "at most 4"),
        (lambda: one(Bits("a", 4), per=(("b*2", 1),)), "of fields of it"),
        (lambda: one(Bits("a", 4), reaches=(Reach("pad", 0, index=1),)), "index: not of an"),
        (lambda: one(Bits("a", 4), keeps=(Keep("base", "a"),)), "not an address register"),
        (lambda: kept(Bits("a", 4), keeps=(Keep("base", "a"),)), "a: not an address field"),
        (lambda: kept(registers=17), "17 address registers"),
        (lambda: InstructionTable("t", ()), "its forms"),
        (lambda: InstructionTable("T", (InstructionForm("a", 1),)), "its name"),
        (lambda: InstructionTable("t", (InstructionForm("a", 256),)), "opcode 256"),
    ],
)
def test_refuses(make: object, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make()  # type: ignore[operator]


def test_a_memory_of_what_numpy_does_not_have() -> None:
    with pytest.raises(ConfigError, match="sums: dtype 'int24': not int8, int32, float32 or"):
        InstructionTable("t", (InstructionForm("a", 1),), (LocalMemory("sums", 4, 4, "int24"),))
    with pytest.raises(ConfigError, match="lanes of sums: not 1 or more"):
        InstructionTable("t", (InstructionForm("a", 1),), (LocalMemory("sums", 4, 0),))
