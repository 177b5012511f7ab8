# SPDX-License-Identifier: Apache-2.0
"""isa/verify_rows.py on programs by hand: the last row and the one behind it, and each thing that
an instruction may find otherwise than it did with tiles."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loadstone.errors import LoweringError
from loadstone.isa.codec import At, TableInsn
from loadstone.isa.table import (
    AddressRegister,
    Bits,
    InstructionForm,
    InstructionTable,
    Keep,
    LocalMemory,
    Reach,
    Words,
)
from loadstone.isa.tiles import InTile, LocalTile, TiledInsn
from loadstone.isa.verify_rows import verify_rows


def _every() -> InstructionTable:
    """What a table can say of reaches: rows by tile, with a stride, behind an offset; five that are
    written; memory through a register, and through words; instructions that do more than load."""
    row, rows, target, step = Bits("row", 8), Bits("rows", 4), Bits("target", 8), Bits("step", 4)
    address, which = Bits("address", 16, address=True), Bits("which", 1)
    far, base = Reach("dram", "address", extent="rows"), Reach("dram", "base", index="which")
    pad = Reach("pad", "row", (("rows", 1),), writes=True)
    forms = (
        InstructionForm("read", 1, (address, row, rows), reaches=(far, pad)),
        InstructionForm("near", 2, (which, row, rows), reaches=(base, pad)),
        InstructionForm("point", 3, (address, which), keeps=(Keep("base", "address", "which"),)),
        InstructionForm(
            "mix",
            4,
            (row, target, rows),
            reaches=(
                replace(pad, writes=False),
                Reach("out", "target", (("rows", 1),), writes=True),
            ),
        ),
        InstructionForm(
            "add",
            5,
            (target, step, rows),
            reaches=tuple(
                Reach("out", "target", (("rows", "step"),), 2, offset=1, writes=w)
                for w in (False, True)
            ),
        ),
        InstructionForm(
            "spread",
            6,
            (target,),
            reaches=tuple(Reach("out", "target", offset=k, writes=True) for k in range(5)),
        ),
        InstructionForm(
            "write",
            7,
            (address, target, rows),
            reaches=(Reach("out", "target", (("rows", 1),)), replace(far, writes=True)),
        ),
        InstructionForm(
            "words", 8, (address, row, rows), reaches=(far, replace(pad, memory="index"))
        ),
        InstructionForm(
            "gather",
            9,
            (Bits("end", 3),),
            reaches=(Reach("deep", "source", through=Words("index", 0, "end"), writes=True),),
        ),
        InstructionForm("look", 10, (row,), reaches=(Reach("deep", "row"),)),
        InstructionForm("last", 11, (address, row, rows), reaches=(far, pad), ends=True),
        InstructionForm(
            "both", 12, (address, row, rows), reaches=(far, pad), keeps=(Keep("base", "address"),)
        ),
        InstructionForm(
            "twin", 13, (row, target), reaches=(Reach("pad", "row"), Reach("pad", "target"))
        ),
        InstructionForm("wait", 14),
    )
    memories = (
        LocalMemory("pad", 8),
        LocalMemory("out", 8),
        LocalMemory("index", 4, 1, "uint8", (Bits("source", 4),)),
        LocalMemory("deep", 4),
    )
    return InstructionTable(
        "every", forms, memories, address_registers=(AddressRegister("base", 2),)
    )


EVERY = _every()
#: Tiles a, b of pad and o, p of out, by name: of two rows; of six rows: large.
TILES = {
    **{name: LocalTile("pad", 2, name) for name in "ab"},
    **{name: LocalTile("out", 2, name) for name in "op"},
    "large": LocalTile("out", 6, "large"),
}


def _insn(words: str) -> TiledInsn:
    """`read address=@x row=a+1 rows=2`."""
    name, *items = words.split()
    fields: dict[str, int | At | InTile] = {}
    for key, text in (item.split("=") for item in items):
        tile, _, row = text.partition("+")
        if text.startswith("@"):
            fields[key] = At(text[1:])
        elif tile in TILES:
            fields[key] = InTile(TILES[tile], int(row or 0))
        else:
            fields[key] = int(text)
    return TiledInsn(name, fields)


def verdict(before: str, after: str) -> str:
    """Of instructions, one a line; those of `after` begin with the number of the one that each was.
    Empty: found right."""
    made, sources = [], []
    for line in after.strip().splitlines():
        number, _, words = line.strip().partition(" ")
        insn = _insn(words)
        made.append(TableInsn(insn.name, dict(insn.fields)))  # type: ignore[arg-type]
        sources.append(int(number))
    try:
        verify_rows(EVERY, [_insn(line) for line in before.strip().splitlines()], made, sources)
    except LoweringError as refused:
        return str(refused).removeprefix("rows: instruction ")
    return ""


LOADED = (
    "read address=@x row=a rows=2\n mix row=a target=o rows=2\n write address=@y target=o rows=2"
)
#: What it is about, before, after, what is said of it.
CASES = {
    "rows from the first on": (
        LOADED,
        "0 read address=@x row=0 rows=2\n 1 mix row=0 target=0 rows=2\n"
        "2 write address=@y target=0 rows=2",
        "",
    ),
    "rows to the last": (
        LOADED,
        "0 read address=@x row=6 rows=2\n 1 mix row=6 target=6 rows=2\n"
        "2 write address=@y target=6 rows=2",
        "",
    ),
    "a tile that ends behind its memory, though what is used does not": (
        "read address=@x row=a rows=1",
        "0 read address=@x row=7 rows=1",
        "0, read, became",
    ),
    "a tile that begins before its memory, though what is used does not": (
        "read address=@x row=a+1 rows=1",
        "0 read address=@x row=0 rows=1",
        "0, read, became",
    ),
    "a name in place of a row": (
        "read address=@x row=a rows=1",
        "0 read address=@x row=@x rows=1",
        "0, read, became",
    ),
    "another number": (
        "read address=@x row=a rows=1",
        "0 read address=@x row=0 rows=2",
        "0, read, became",
    ),
    "another tensor": (
        "read address=@x row=a rows=1",
        "0 read address=@y row=0 rows=1",
        "0, read, became",
    ),
    "a field more": (
        "read address=@x row=a",
        "0 read address=@x row=0 rows=0",
        "0, read, became",
    ),
    "a field less": (
        "read address=@x row=a rows=1",
        "0 read address=@x row=0",
        "0, read, became",
    ),
    "another instruction with the same fields": (
        "read address=@x row=a rows=1",
        "0 last address=@x row=0 rows=1",
        "0, read, became",
    ),
    "a mistake before a field that is right": (
        "read rows=1 row=a address=@x",
        "0 read rows=2 row=0 address=@x",
        "0, read, became",
    ),
    "a tile in two places": (
        "twin row=a target=a+1",
        "0 twin row=1 target=1",
        "0, twin, became",
    ),
    "two rows of a tile": (
        "twin row=a target=a+1",
        "0 twin row=1 target=2",
        "",
    ),
    "no row at all": ("read address=@x row=a", "0 read address=@x row=3", ""),
    "the last row of a tile": (
        "add target=large+1 step=2 rows=2",
        "0 add target=3 step=2 rows=2",
        "",
    ),
    "a row behind a tile": (
        "add target=large+2 step=2 rows=2",
        "0 add target=3 step=2 rows=2",
        "add reaches rows 3 .. 6 of 6",
    ),
    "the row before a tile": (
        "mix row=a+-1 target=o rows=2",
        "0 mix row=0 target=0 rows=2",
        "mix reaches rows -1 .. 0 of 2",
    ),
    "a row before and behind a tile": (
        "mix row=a+-1 target=o rows=4",
        "0 mix row=0 target=0 rows=4",
        "mix reaches rows -1 .. 2 of 2",
    ),
    "the first load, left out": (
        "read address=@x row=a rows=1\n mix row=a target=o rows=1",
        "1 mix row=0 target=0 rows=1",
        "1, mix, does not read what it read with tiles",
    ),
    "a load whose content is there": (
        "read address=@x row=a rows=2\n mix row=a target=o rows=2\n"
        "read address=@x row=b rows=2\n mix row=b target=p rows=2",
        "0 read address=@x row=0 rows=2\n 1 mix row=0 target=0 rows=2\n3 mix row=0 target=2 rows=2",
        "",
    ),
    "a load whose content is there in other rows": (
        "read address=@x row=a rows=2\n mix row=a target=o rows=2\n"
        "read address=@x row=b rows=2\n mix row=b target=p rows=2",
        "0 read address=@x row=0 rows=2\n 1 mix row=0 target=0 rows=2\n3 mix row=1 target=2 rows=2",
        "3, mix, does not read",
    ),
    "a load of what is another tensor": (
        "read address=@x row=a rows=2\n mix row=a target=o rows=2\n"
        "read address=@y row=b rows=2\n mix row=b target=p rows=2",
        "0 read address=@x row=0 rows=2\n 1 mix row=0 target=0 rows=2\n3 mix row=0 target=2 rows=2",
        "3, mix, does not read",
    ),
    "a load of what was written since": (
        "read address=@x row=a rows=2\n write address=@x target=o rows=2\n"
        "read address=@x row=b rows=2\n mix row=b target=p rows=2",
        "0 read address=@x row=0 rows=2\n 1 write address=@x target=0 rows=2\n"
        "3 mix row=0 target=2 rows=2",
        "3, mix, does not read",
    ),
    "a load of what an address without a name may have written": (
        "read address=@x row=a rows=2\n write address=8 target=o rows=2\n"
        "read address=@x row=b rows=2\n mix row=b target=p rows=2",
        "0 read address=@x row=0 rows=2\n 1 write address=8 target=0 rows=2\n"
        "3 mix row=0 target=2 rows=2",
        "3, mix, does not read",
    ),
    "a load from an address without a name, of what was written since": (
        "read address=8 row=a rows=2\n write address=@x target=o rows=2\n"
        "read address=8 row=b rows=2\n mix row=b target=p rows=2",
        "0 read address=8 row=0 rows=2\n 1 write address=@x target=0 rows=2\n"
        "3 mix row=0 target=2 rows=2",
        "3, mix, does not read",
    ),
    "a load past a write to another tensor": (
        "read address=@x row=a rows=2\n write address=@y target=o rows=2",
        "1 write address=@y target=0 rows=2\n 0 read address=@x row=0 rows=2",
        "",
    ),
    "the first write before the read that it changes": (
        "read address=@x row=a rows=2\n write address=@x target=o rows=2",
        "1 write address=@x target=0 rows=2\n 0 read address=@x row=0 rows=2",
        "0, read, does not read what it read with tiles",
    ),
    "a load from an address without a name past work": (
        "mix row=a target=o rows=1\n read address=8 row=b rows=1",
        "1 read address=8 row=2 rows=1\n 0 mix row=0 target=0 rows=1",
        "",
    ),
    "a plain row where a tile is": (
        "read address=@x row=a rows=1\n twin row=0 target=0",
        "0 read address=@x row=0 rows=1\n 1 twin row=0 target=0",
        "1, twin, does not read",
    ),
    "tiles where a plain row was": (
        "read row=0 rows=2\n read row=a rows=1\n read row=b rows=1",
        "0 read row=0 rows=2\n 1 read row=1 rows=1\n 2 read row=0 rows=1",
        "",
    ),
    "a plain row where a tile was": (
        "read address=@x row=a+1 rows=1\n read address=@x row=7 rows=1",
        "0 read address=@x row=7 rows=1\n 1 read address=@x row=7 rows=1",
        "",
    ),
    "two writes of one tensor": (
        "write address=@x target=o rows=1\n write address=@x target=p rows=1",
        "1 write address=@x target=2 rows=1\n 0 write address=@x target=0 rows=1",
        "1, write, does not read",
    ),
    "a row of another tile in between": (
        "read address=@x row=a rows=2\n read address=@y row=b rows=2\n mix row=a target=o rows=2",
        "0 read address=@x row=0 rows=2\n 1 read address=@y row=1 rows=2\n"
        "2 mix row=0 target=0 rows=2",
        "2, mix, does not read",
    ),
    "rows of one tile, loaded the other way round": (
        "read address=@x row=a rows=2\n read address=@y row=a rows=1\n mix row=a target=o rows=2",
        "1 read address=@y row=0 rows=1\n 0 read address=@x row=0 rows=2\n"
        "2 mix row=0 target=0 rows=2",
        "1, read, does not read",
    ),
    "each of five rows that are written": (
        "spread target=large\n write address=@y target=large rows=5\n spread target=large",
        "0 spread target=1\n 1 write address=@y target=1 rows=5\n 2 spread target=1",
        "",
    ),
    "a register that is set too late": (
        "point address=@x\n near row=a rows=1\n point address=@y\n near row=b rows=1",
        "0 point address=@x\n 1 near row=0 rows=1\n 3 near row=2 rows=1\n 2 point address=@y",
        "3, near, does not read",
    ),
    "a register that another one sets": (
        "point address=@x which=1\n near row=a rows=1\n near row=b rows=1 which=1",
        "1 near row=0 rows=1\n 0 point address=@x which=1\n 2 near row=2 rows=1 which=1",
        "",
    ),
    "words that come too late": (
        "words address=@x rows=2\n gather end=2\n words address=@y rows=2",
        "0 words address=@x rows=2\n 2 words address=@y rows=2\n 1 gather end=2",
        "1, gather, does not read",
    ),
    "words for another": (
        "words address=@x rows=2\n gather end=2\n words address=@y row=2 rows=2\n gather end=4",
        "0 words address=@x rows=2\n 1 gather end=2\n 3 gather end=4\n"
        "2 words address=@y row=2 rows=2",
        "3, gather, does not read",
    ),
    "the last row that words may reach": (
        "look row=3\n words address=@x rows=2\n gather end=2\n look row=3",
        "0 look row=3\n 1 words address=@x rows=2\n 3 look row=3\n 2 gather end=2",
        "3, look, does not read",
    ),
    "a register, left out": (
        "point address=@x",
        "",
        "0, point, is left out and no load",
    ),
    "a load that ends a program, left out": (
        "last address=@x row=a rows=1",
        "",
        "0, last, is left out and no load",
    ),
    "a load that sets a register, left out": (
        "both address=@x row=a rows=1",
        "",
        "0, both, is left out and no load",
    ),
    "a sum, left out": ("add target=o", "", "0, add, is left out and no load"),
    "a store, left out": (
        "write address=@x target=o rows=1",
        "",
        "0, write, is left out and no load",
    ),
    "what is written from nowhere, left out": (
        "spread target=large",
        "",
        "0, spread, is left out and no load",
    ),
    "the first of two, left out": (
        "wait\n point address=@x",
        "",
        "0, wait, is left out and no load",
    ),
    "a load, left out": ("read address=@x row=a rows=1", "", ""),
    "one that comes twice": ("wait", "0 wait\n 0 wait", "0, wait, comes twice"),
    "one that there is not": ("wait", "0 wait\n 1 wait", "1, wait, comes twice"),
}


@pytest.mark.parametrize("name", CASES)
def test_by_hand(name: str) -> None:
    before, after, said = CASES[name]
    found = verdict(before, after)
    assert found == "" if said == "" else said in found


def test_each_has_its_number() -> None:
    with pytest.raises(ValueError, match="shorter"):
        verify_rows(EVERY, [TiledInsn("wait", {})], [TableInsn("wait", {})], [])
