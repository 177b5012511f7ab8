# SPDX-License-Identifier: Apache-2.0
"""isa/program_check.py and runtime/reach.c: what one refuses, the other refuses, at the same
instruction, for the same reason; and what they accept stays inside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from loadstone.artifact.format import MemoryRegion, RegionKind
from loadstone.errors import EncodingError
from loadstone.isa.codec import At, TableInsn, decode, encode
from loadstone.isa.follow import Placed, ProgramRefusal
from loadstone.isa.machine import TableMachine
from loadstone.isa.program_check import ProgramMemory, RegionLimits, check_program
from loadstone.isa.program_tokens import with_tokens
from loadstone.isa.state import Dram, DramWindow, MachineFault
from loadstone.isa.table import Bits, InstructionForm, InstructionTable, Reach
from tests.isa import gather, tokened
from tests.isa.table_judge import TableJudge, relocations_of
from tests.repeat import times

#: Chunk 15 is words that all go from row 8 to row 0.
DATA = gather.constants(7)[:120] + bytes([8, 0]) * gather.WORDS + gather.constants(8)[136:]
OUT_BYTES = 64
REGIONS = (
    MemoryRegion("out", RegionKind.ARENA, OUT_BYTES, device_reads=True, device_writes=True),
    MemoryRegion("constants", RegionKind.CONSTANTS, len(DATA), device_reads=True, data=DATA),
)
PLACES = {"out": (0, 0), "constants": (1, 0)}
BUS = {"out": 0x8000, "constants": 0x1000}
TABLE = gather.table()


def content(place: Placed, size: int) -> bytes | None:
    return DATA[place[1] : place[1] + size] if place[0] == 1 else None


MEMORY = ProgramMemory(
    {0: RegionLimits(OUT_BYTES), 1: RegionLimits(len(DATA), writes=False)},
    lambda at: (PLACES[at.symbol][0], at.offset_bytes),
    content,
)


def of_python(insns: Sequence[TableInsn]) -> tuple[str, int] | None:
    try:
        check_program(TABLE, insns, MEMORY)
    except ProgramRefusal as refusal:
        return refusal.status, refusal.instruction
    return None


JUDGE = TableJudge(TABLE, REGIONS)


def of_c(insns: Sequence[TableInsn]) -> tuple[str, int] | None:
    unchecked = replace(TABLE, forms=tuple(replace(form, never=()) for form in TABLE.forms))
    code = encode(unchecked, insns)  # what is never encoded is refused, too
    return JUDGE.verdict(code, len(insns), relocations_of(TABLE, insns, PLACES))


POINT = TableInsn("point", {"address": At("constants")})
END = TableInsn("end", {})
WORDS = TableInsn("load", {"memory": 0, "rows": gather.WORDS})


def _load(**fields: int) -> Callable[[int], list[TableInsn]]:
    """The field that is None is the one that varies."""
    return lambda more: [POINT, TableInsn("load", {**fields, "row": fields["row"] + more}), END]


def _gathers(more: int) -> list[TableInsn]:
    """Rows 8 to 23 of pad in six turns."""
    words = TableInsn("load", {"memory": 0, "chunk": 15, "rows": gather.WORDS})
    turns = {"turns": 6, "step": 3 + more}
    return [POINT, words, TableInsn("gather", {"end": gather.WORDS, **turns}), END]


def test_every_bit_of_no_field_is_zero() -> None:
    """Each bit of each instruction that is of no field, beside those that are."""
    insns = [POINT, WORDS, TableInsn("gather", {"end": gather.WORDS, "turns": 1}), END]
    code, relocations = encode(TABLE, insns), relocations_of(TABLE, insns, PLACES)
    assert JUDGE.verdict(code, len(insns), relocations) is None
    at, tried = 0, 0
    for number, insn in enumerate(insns):
        form, places = TABLE.by_name[insn.name], TABLE.places[insn.name]
        used = {TABLE.opcode_at + k for k in range(TABLE.opcode_bits)}
        used |= {places[field.name] + k for field in form.fields for k in range(field.width)}
        for bit in set(range(8 * TABLE.sizes[insn.name])) - used:
            changed = bytearray(code)
            changed[at + bit // 8] |= 1 << bit % 8
            found = JUDGE.verdict(bytes(changed), len(insns), relocations)
            assert found == ("INSTRUCTION", number), (insn.name, bit)
            with pytest.raises(EncodingError):
                decode(TABLE, bytes(changed))
            tried += 1
        at += TABLE.sizes[insn.name]
    assert tried > 20


def test_an_address_without_a_relocation_points_nowhere() -> None:
    """One that an instruction only keeps, too; 0 is where the file leaves an address."""
    for address, said in ((0, None), (16, ("DRAM", 0))):
        code = encode(TABLE, [TableInsn("point", {"address": address}), END])
        assert JUDGE.verdict(code, 2) == said


#: By name, the status of what is beyond the limit, and the program at the limit plus `more`.
LIMITS: dict[str, tuple[str, int, Callable[[int], list[TableInsn]]]] = {
    "a row of pad, padding counted": ("SRAM", 1, _load(memory=1, row=18, rows=3, top=2, bottom=1)),
    "a word": ("SRAM", 1, _load(memory=0, row=4, rows=4)),
    "bytes of the constants": (
        "DRAM",
        1,
        lambda more: [
            TableInsn("point", {"address": At("constants", len(DATA) - 16 + more)}),
            WORDS,
            END,
        ],
    ),
    "bytes that are written": (
        "DRAM",
        0,
        lambda more: [TableInsn("write", {"address": At("out", 48 + more), "rows": 4}), END],
    ),
    "words that were loaded": (
        "UOP",
        2,
        lambda more: [
            POINT,
            TableInsn("load", {"memory": 0, "rows": 5, "row": 1}),
            TableInsn("gather", {"begin": 1, "end": 6 + more, "turns": 1}),
            END,
        ],
    ),
    "words that there are": (
        "UOP",
        2,
        lambda more: [POINT, WORDS, TableInsn("gather", {"end": 8 + more, "turns": 1}), END],
    ),
    "what words reach": ("SRAM", 2, _gathers),
    "what the table forbids": (
        "INSTRUCTION",
        0,
        lambda more: [TableInsn("load", {"row": 60 + more}), END],
    ),
    "no word at all": (
        "INSTRUCTION",
        2,
        lambda more: [POINT, WORDS, TableInsn("gather", {"begin": 1 + more, "end": 2}), END],
    ),
}


@pytest.mark.parametrize("name", LIMITS)
def test_limits(name: str) -> None:
    status, number, make = LIMITS[name]
    for more in (0, 1):
        want = (status, number) if more else None
        assert (of_python(make(more)), of_c(make(more))) == (want, want), more
    assert of_python(make(-1)) is None
    assert of_c(make(-1)) is None


@pytest.mark.parametrize(
    ("insns", "status", "number"),
    [
        ([WORDS, END], "DRAM", 0),  # the register is not set
        ([POINT, WORDS], "FINISH", 1),
        ([END, END], "FINISH", 0),
        ([TableInsn("point", {"address": At("out")}), WORDS, END], "UOP", 1),
        ([TableInsn("write", {"address": At("constants"), "rows": 1}), END], "DRAM", 0),
        ([TableInsn("load", {"memory": 0, "top": 1}), END], "INSTRUCTION", 0),
        ([TableInsn("gather", {"begin": 2, "end": 3, "turns": 1}), END], "UOP", 0),
    ],
)
def test_refused(insns: list[TableInsn], status: str, number: int) -> None:
    assert of_python(insns) == of_c(insns) == (status, number)


#: An instruction behind POINT, the status, and what is said of it.
SAID = [
    (TableInsn("write", {"address": At("out", -1), "rows": 1}), "DRAM", "writes bytes -1 to 2 of"),
    (
        TableInsn("write", {"address": At("out", 61), "rows": 1}),
        "DRAM",
        "instruction 1, write: writes bytes 61 to 64 of region 0, which has 64",
    ),
    (TableInsn("write", {"address": 8, "rows": 1}), "DRAM", "writes region bus, which it may not"),
    (TableInsn("write", {"address": At("constants"), "rows": 1}), "DRAM", "writes region 1, which"),
    (TableInsn("load", {"memory": 1, "rows": 1, "row": 24}), "SRAM", "row 24 of pad, which has 24"),
    (END, "FINISH", "instruction 1, end: ends a program, and is not its last"),
    (TableInsn("none", {}), "INSTRUCTION", "instruction 1: gather has no instruction 'none'; it"),
]


@pytest.mark.parametrize(("insn", "status", "said"), SAID)
def test_what_is_said(insn: TableInsn, status: str, said: str) -> None:
    with pytest.raises(ProgramRefusal) as caught:
        check_program(TABLE, [POINT, insn, END], MEMORY)
    assert said in str(caught.value)
    assert (caught.value.status, caught.value.instruction) == (status, 1)


def test_a_region_that_is_only_written_is_not_read() -> None:
    memory = replace(MEMORY, regions={1: RegionLimits(len(DATA), reads=False)})
    with pytest.raises(ProgramRefusal, match="instruction 1, load: reads region 1, which it may"):
        check_program(TABLE, [POINT, WORDS, END], memory)


def test_a_program_ends_where_its_table_has_an_end() -> None:
    with pytest.raises(ProgramRefusal, match="instruction 0, point: does not end the program"):
        check_program(TABLE, [POINT], MEMORY)
    endless = tokened.table()
    write = TableInsn("write", {"address": At("out"), "rows": 1})
    check_program(endless, [write, write], MEMORY)


def test_the_sizes_of_all_sources_do_not_wrap() -> None:
    """2^64 - 1 bytes of one, and of the other one byte more than the words have."""
    index = TABLE.by_memory["index"]
    fields = (Bits("many", 32), Bits("more", 8), Bits("row", 6), Bits("rows", 4))
    reaches = (
        Reach("dram", "base", (("many", 0), ("many", 0)), 2),
        Reach("dram", "base", extent="more"),
        Reach("index", "row", extent="rows", writes=True),
    )
    load = InstructionForm("load", 1, fields, reaches=reaches)
    forms = (load, TABLE.by_name["point"], TABLE.by_name["end"])
    table = InstructionTable("twice", forms, (index,), address_registers=TABLE.address_registers)
    insns = [POINT, TableInsn("load", {"many": (1 << 32) - 1, "more": 9, "rows": 4}), END]
    with pytest.raises(ProgramRefusal) as caught:
        check_program(table, insns, MEMORY)
    assert (caught.value.status, caught.value.instruction) == ("INSTRUCTION", 1)
    judge = TableJudge(table, REGIONS)
    relocations = relocations_of(table, insns, PLACES)
    assert judge.verdict(encode(table, insns), 3, relocations) == ("INSTRUCTION", 1)


@pytest.mark.parametrize(
    "insns",
    [
        [TableInsn("load", {"memory": 1, "row": 30}), END],  # no row is no access
        [TableInsn("gather", {"begin": 2, "end": 3}), END],  # no turn is none
        [TableInsn("write", {"row": 40}), END],
    ],
)
def test_what_touches_nothing_may_stand_anywhere(insns: list[TableInsn]) -> None:
    assert of_python(insns) is None
    assert of_c(insns) is None


def test_changed_programs(figure: Callable[[str], None]) -> None:
    """Python and C agree, and nothing that they accept is refused by the machine."""
    rng, accepted, count = np.random.default_rng(3), 0, times(250, 6000)
    reasons: dict[str, int] = {}
    for seed in range(count):
        insns = gather.random_program(seed % 60, 12)
        assert seed >= 60 or of_python(insns) is None
        for _ in range(int(rng.integers(1, 4))):
            insns = gather.changed(insns, rng)
        found = of_python(insns)
        assert found == of_c(insns), (seed, insns)
        reasons[found[0] if found else ""] = reasons.get(found[0] if found else "", 0) + 1
        if found is None:
            accepted += 1
            _execute(insns)
    figure(f"changed programs that gather: {count}, {accepted} accepted, by reason {reasons}")
    assert 0.05 * count < accepted < 0.95 * count
    assert set(reasons) == {"", "INSTRUCTION", "DRAM", "SRAM", "UOP", "FINISH"}


def _execute(insns: Sequence[TableInsn], *, tokens: bool = False) -> bytes:
    accelerator = gather.device(tokens=tokens)
    out = np.zeros(OUT_BYTES, np.uint8)
    held = np.frombuffer(DATA, np.uint8).copy()
    windows = [DramWindow(BUS["out"], out), DramWindow(BUS["constants"], held, writable=False)]
    machine = TableMachine(accelerator, Dram(windows))
    code = encode(accelerator.table, gather.on_bus(insns, BUS))
    machine.run(0, len(insns), code)
    return out.tobytes()


def test_tokens_of_programs_that_gather() -> None:
    """They compute what they compute in order; a token that is taken away is found."""
    table, wrong = gather.table(tokens=True), 0
    for seed in range(times(8, 250)):
        insns = gather.random_program(seed, 24)
        made = [insn for insn, _ in with_tokens(table, insns, MEMORY.where, content)]
        check_program(table, made, MEMORY)
        want = _execute(insns)
        assert _execute(made, tokens=True) == want
        pops = ("pop_next", "pop_prev")
        taken = [(k, pop) for k, insn in enumerate(made) for pop in pops if insn.fields.get(pop)]
        for at, pop in taken:
            spoilt = [*made]
            spoilt[at] = TableInsn(made[at].name, {**made[at].fields, pop: 0})
            with pytest.raises(ProgramRefusal, match="are never taken"):
                check_program(table, spoilt, MEMORY)
            try:
                wrong += _execute(spoilt, tokens=True) != want
            except MachineFault:
                wrong += 1
    assert wrong > 0


def test_a_token_without_a_queue_is_refused() -> None:
    table = gather.table(tokens=True)
    insns = [TableInsn("point", {"address": At("constants"), "pop_prev": 1}), END]
    with pytest.raises(ProgramRefusal, match="has pop_prev=1, and unit in has no queue for it"):
        check_program(table, insns, MEMORY)


def test_an_end_waits_for_every_unit() -> None:
    table = gather.table(tokens=True)
    write = TableInsn("write", {"address": At("out"), "rows": 1})
    with pytest.raises(
        ProgramRefusal, match=r"instruction 1 \(end\) is not ordered after 0 \(write\)"
    ):
        check_program(table, [write, END], MEMORY)
    told = TableInsn("write", {**write.fields, "push_prev": 1})
    check_program(table, [told, TableInsn("end", {"pop_next": 1})], MEMORY)


def test_what_is_forbidden_is_not_encoded() -> None:
    with pytest.raises(EncodingError, match=r"load: row=61, rows=0: .*\(row\+rows>60\)"):
        encode(TABLE, [TableInsn("load", {"row": 61})])
