# SPDX-License-Identifier: Apache-2.0
"""isa/registers.py, and registers in all that follows a program: the validators in Python and in C,
the simulator in Python and in C, order and tokens, text, opcodes that several fields say."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadstone.artifact.format import MemoryRegion, RegionKind
from loadstone.errors import ConfigError, EncodingError, LoadstoneError, LoweringError
from loadstone.isa.c_table import c_header, c_table
from loadstone.isa.codec import At, TableInsn, decode, encode
from loadstone.isa.follow import ProgramRefusal
from loadstone.isa.machine import TableMachine
from loadstone.isa.page import page
from loadstone.isa.program_check import ProgramMemory, RegionLimits, check_program
from loadstone.isa.program_tokens import prove_tokens, with_tokens
from loadstone.isa.state import Dram, MachineFault
from loadstone.isa.table import (
    Bits,
    InstructionForm,
    InstructionTable,
    LocalMemory,
    OpcodeBits,
    Reach,
    Register,
    Set,
)
from loadstone.isa.text import assemble, disassemble
from tests.conftest import ROOT
from tests.isa import registered
from tests.isa.registered import ADD, BEGIN, LOAD, SIZE, STORE, dram_of, run
from tests.isa.table_judge import TableJudge, relocations_of
from tests.repeat import times

REGIONS = (
    MemoryRegion("out", RegionKind.ARENA, SIZE, device_reads=True, device_writes=True),
    MemoryRegion("in", RegionKind.CONSTANTS, SIZE, device_reads=True, data=bytes(SIZE)),
)
PLACES = {"out": (0, 0), "in": (1, 0)}
TABLE = registered.table()
MEMORY = ProgramMemory(
    {0: RegionLimits(SIZE), 1: RegionLimits(SIZE, writes=False)},
    lambda at: (PLACES[at.symbol][0], at.offset_bytes),
)
JUDGE = TableJudge(TABLE, REGIONS)


def of_python(insns: Sequence[TableInsn]) -> tuple[str, int] | None:
    try:
        check_program(TABLE, insns, MEMORY)
    except ProgramRefusal as refusal:
        return refusal.status, refusal.instruction
    return None


def of_c(insns: Sequence[TableInsn]) -> tuple[str, int] | None:
    code = encode(TABLE, insns)
    return JUDGE.verdict(code, len(insns), relocations_of(TABLE, insns, PLACES))


def test_a_program_without_its_settings_is_refused() -> None:
    """Of each instruction that is missing, the first that would have read what it sets."""
    whole = [*BEGIN, LOAD, ADD, STORE]
    assert (of_python(whole), of_c(whole)) == (None, None)
    for missing, first in ((0, 2), (1, 2), (2, 3)):
        cut = whole[:missing] + whole[missing + 1 :]
        assert of_python(cut) == of_c(cut) == ("INSTRUCTION", first)
        with pytest.raises(MachineFault, match="reads register .*, which is not set"):
            run(cut, TableMachine(registered.device(), Dram([])))
    with pytest.raises(
        ProgramRefusal, match="instruction 0, load: reads register stride, which is not set"
    ):
        check_program(TABLE, [LOAD], MEMORY)


def test_a_register_is_checked_where_it_is_set() -> None:
    for step, rows, keep, sound in (
        (64, 31, 0, True),
        (65, 1, 0, False),
        (0, 1, 0, False),
        (1, 0, 0, False),
        (1, 0, 1, True),  # it is not set
    ):
        insns = [TableInsn("config", {"step": step, "count": rows, "keep": keep})]
        want = None if sound else ("INSTRUCTION", 0)
        assert (of_python(insns), of_c(insns)) == (want, want)
    for by, sound in ((-100, True), (-101, False), (127, True), (128, False)):
        insns = [TableInsn("factor", {"by": by})]
        want = None if sound else ("INSTRUCTION", 0)
        assert (of_python(insns), of_c(insns)) == (want, want)
    said = r"factor: sets register factor to 128, which is not in \[-100, 127\]"
    with pytest.raises(ProgramRefusal, match=said):
        check_program(TABLE, [TableInsn("factor", {"by": 128})], MEMORY)
    with pytest.raises(MachineFault, match="sets register factor to 128"):
        run([TableInsn("factor", {"by": 128})], TableMachine(registered.device(), Dram([])))


def test_every_program_begins_at_reset() -> None:
    """What one program leaves in a register is not there for the next."""
    machine = TableMachine(registered.device(), Dram([]))
    run([*BEGIN, TableInsn("mode", {"kind": 1}), LOAD, ADD, STORE], machine)
    added = dram_of(machine)
    run([*BEGIN, LOAD, ADD, STORE], machine)
    assert dram_of(machine) != added
    with pytest.raises(MachineFault, match="register place, which is not set"):
        run([BEGIN[0], LOAD], machine)


def test_what_registers_say_is_reached() -> None:
    """Rows, strides and bases: at the last sound value, and one beyond."""

    def program(step: int, count: int, place: int, row: int, first: int) -> list[TableInsn]:
        return [
            TableInsn("config", {"step": step, "count": count}),
            TableInsn("place", {"count": place}),
            TableInsn("load", {"address": At("in", first), "row": row}),
        ]

    for sound, status, *numbers in (
        (True, "", 64, 4, 4, 2, 4),  # bytes up to 4 + 3 * 64 + 4
        (False, "DRAM", 64, 4, 4, 2, 5),
        (True, "", 8, 9, 14, 0, 0),  # rows up to 15 + 9
        (False, "SRAM", 8, 10, 14, 0, 0),
        (True, "", 8, 1, 16, 3, 0),  # place + row = 20
        (False, "INSTRUCTION", 8, 1, 16, 4, 0),
    ):
        want = None if sound else (status, 2)
        made = program(*numbers)
        assert (of_python(made), of_c(made)) == (want, want), numbers


def test_python_and_c_give_one_verdict(figure: Callable[[str], None]) -> None:
    """On random programs, changed ones, and what they accept stays inside."""
    rng = np.random.default_rng(20)
    verdicts: Counter[str] = Counter()
    machine = TableMachine(registered.device(), Dram([]))
    for seed in range(times(300, 3000)):
        insns = registered.random_program(seed, 12)
        if seed % 4:
            insns = registered.changed(insns, rng)
        verdict = of_python(insns)
        assert verdict == of_c(insns), disassemble(TABLE, insns)
        verdicts["" if verdict is None else verdict[0]] += 1
        if verdict is None:
            run(insns, machine)
        else:
            assert seed % 4
    assert min(verdicts[status] for status in ("", "INSTRUCTION", "SRAM", "DRAM")) > 0, verdicts
    figure(f"changed programs with registers, by reason {dict(verdicts)}")


def test_tokens_order_what_sets_a_register_and_what_reads_it(tmp_path: Path) -> None:
    table = registered.table(tokens=True)
    for seed in range(times(10, 100)):
        insns = registered.random_program(seed, 20)
        where = MEMORY.where
        made = [insn for insn, _ in with_tokens(table, insns, where)]
        prove_tokens(table, made, where)
        plain, tokened = registered.device(), registered.device(tokens=True)
        images = []
        for machine, program in ((plain, insns), (tokened, made)):
            ran = TableMachine(machine, Dram([]))
            run(program, ran)
            images.append(dram_of(ran))
        assert images[0] == images[1]
    made = [insn for insn, _ in with_tokens(table, [*BEGIN, ADD], where)]
    alone = [TableInsn(i.name, {k: v for k, v in i.fields.items() if k[0] != "p"}) for i in made]
    with pytest.raises(LoweringError, match="is not ordered after"):
        prove_tokens(table, alone, where)


def test_text_and_bytes_have_opcodes_in_several_fields() -> None:
    insns = registered.random_program(5, 40)
    assert assemble(TABLE, disassemble(TABLE, insns)) == [
        TableInsn(i.name, {k: v for k, v in i.fields.items() if v}) for i in insns
    ]
    plain = [
        TableInsn(i.name, {**i.fields, "address": 5} if "address" in i.fields else i.fields)
        for i in insns
    ]
    code = encode(TABLE, plain)
    assert [i.name for i in decode(TABLE, code)] == [i.name for i in insns]
    first = int.from_bytes(code[:4], "little")
    assert (first & 0x7F, first >> 12 & 7, first >> 25) == (0x7B, 0, 0)
    with pytest.raises(EncodingError, match=r"opcode 123, with the codes that it has, is unknown"):
        decode(TABLE, (first | 4 << 12).to_bytes(4, "little"))
    assert JUDGE.verdict((first | 4 << 12).to_bytes(4, "little"), 1) == ("INSTRUCTION", 0)


def test_the_opcode_stands_at_any_bits() -> None:
    """As MIPS has it: six bits at the top, and a function at the bottom."""
    forms = (
        InstructionForm("add", 0, (Bits("a", 5, at=21),), codes=(OpcodeBits(0, 6, 32),)),
        InstructionForm("sub", 0, (Bits("a", 5, at=21),), codes=(OpcodeBits(0, 6, 34),)),
        InstructionForm("jump", 2, (Bits("to", 26, at=0),)),
        InstructionForm("far", 3, (Bits("to", 16),)),  # behind the opcode
    )
    table = InstructionTable("mips", forms, opcode_bits=6, opcode_at=26)
    assert table.sizes == {"add": 4, "sub": 4, "jump": 4, "far": 8}
    insns = [TableInsn("sub", {"a": 3}), TableInsn("jump", {"to": 34}), TableInsn("far", {"to": 9})]
    code = encode(table, insns)
    assert code[:8] == (3 << 21 | 34).to_bytes(4, "little") + (2 << 26 | 34).to_bytes(4, "little")
    assert decode(table, code) == insns
    judge = TableJudge(table, REGIONS)
    assert judge.verdict(code, 3) is None
    assert judge.verdict(bytes([33, 0, 0, 0]), 1) == ("INSTRUCTION", 0)


def _made(*forms: InstructionForm, registers: Sequence[Register] = (), at: int = 0) -> object:
    """A table of these, or of one instruction without fields."""
    chosen = forms or (InstructionForm("one", 1),)
    return InstructionTable("t", chosen, registers=tuple(registers), opcode_at=at)


def _one(**more: Any) -> object:
    form = InstructionForm("one", 1, (Bits("a", 8), Bits("b", 40)), **more)
    return InstructionTable(
        "t", (form,), (LocalMemory("pad", 8),), registers=(Register("r", 8), Register("w", 64))
    )


def _coded(*codes: OpcodeBits) -> InstructionForm:
    return InstructionForm("two", 1, codes=codes)


#: By what is said, what makes a table that is refused.
REFUSED: Mapping[str, Callable[[], object]] = {
    "set of q: not a register": lambda: _one(sets=(Set("q", "a"),)),
    "set of r: not each register once": lambda: _one(sets=(Set("r", "a"), Set("r", 1))),
    "set of r: c: not a field of it": lambda: _one(sets=(Set("r", "c"),)),
    "set of w: .*: not a field alone": lambda: _one(sets=(Set("w", "(a+1)"),)),
    "set of r: .*: not an unsigned field": lambda: _one(sets=(Set("r", "(b+1)"),)),
    "reads q: not a register": lambda: _one(reads=("q",)),
    "reach of pad: w: not an unsigned field": lambda: _one(reaches=(Reach("pad", "w"),)),
    "field r: not a name that no register has": lambda: _made(
        InstructionForm("one", 1, (Bits("r", 8),)), registers=[Register("r", 8)]
    ),
    "limits 1 to 16: not within": lambda: _made(registers=[Register("r", 4, 1, 16)]),
    r"reset 0: not in \[1, 15\]": lambda: _made(registers=[Register("r", 4, 1, reset=0)]),
    "width 65: not 1 to 64": lambda: _made(registers=[Register("r", 65)]),
    "register R: not lower case": lambda: _made(registers=[Register("R", 4)]),
    "33 registers: not 32 at most": lambda: _made(
        registers=[Register(f"r{k}", 4) for k in range(33)]
    ),
    "opcodes: 1 of one and of two: not told apart": lambda: _made(
        InstructionForm("one", 1), _coded(OpcodeBits(8, 1, 1))
    ),
    "bit 7 of code 1: not free": lambda: _made(_coded(OpcodeBits(7, 1, 1))),
    "code 1: 2: not of 1 bits": lambda: _made(_coded(OpcodeBits(8, 1, 2))),
    "opcode_at 25: not in": lambda: _made(at=25),
}


@pytest.mark.parametrize("said", REFUSED)
def test_what_cannot_be_is_refused(said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        REFUSED[said]()


def test_a_meaning_is_given_what_its_instruction_reads() -> None:
    """What it asks for besides is refused by name."""
    forms = tuple(replace(form, reads=()) for form in TABLE.forms)
    table = replace(TABLE, forms=forms)
    device = replace(registered.device(), table=table)
    said = "add: its meaning asks for factor, which is no field of it and no register that it reads"
    with pytest.raises(LoadstoneError, match=said):
        run([*BEGIN, ADD], TableMachine(device, Dram([])))


def test_pages_and_c_say_registers(tmp_path: Path) -> None:
    """The generated C compiles alone, and tells instructions apart."""
    text = page(TABLE)
    assert "Register mode, 2 bits, 0 to 1: every program begins with 0." in text
    assert "Register factor, 8 bits with a sign, -100 to 127: set before it is read." in text
    assert "It sets rows to count where (keep=0) is not 0." in text
    assert "It reads rows, stride" in text or "It reads stride, rows" in text
    (tmp_path / "table.c").write_text(c_table(TABLE), encoding="utf-8")
    call = 'registered_is_load((const uint8_t *)"{\\x10\\0")'
    check = f'#include "i.h"\nint main(void) {{ return {call}; }}\n'
    (tmp_path / "i.h").write_text(c_header(TABLE), encoding="utf-8")
    (tmp_path / "main.c").write_text(check, encoding="utf-8")
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'runtime/include'}"]
    files = [tmp_path / "table.c", tmp_path / "main.c"]
    subprocess.run(["gcc", *flags, *files, "-o", tmp_path / "run"], check=True)
    assert subprocess.run([tmp_path / "run"], check=False).returncode == 1
