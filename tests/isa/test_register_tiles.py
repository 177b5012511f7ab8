# SPDX-License-Identifier: Apache-2.0
"""Registers among instructions that name tiles (isa/tiles.py, tiled.py, verify_rows.py): a register
may hold a place in a tile, and loads that find other registers are other loads."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loadstone.errors import LoweringError
from loadstone.isa.codec import At, TableInsn
from loadstone.isa.table import (
    Bits,
    InstructionForm,
    InstructionTable,
    LocalMemory,
    Reach,
    Register,
    Set,
)
from loadstone.isa.tiled import in_rows
from loadstone.isa.tiles import InTile, LocalTile, TiledInsn, found_registers, reached
from loadstone.isa.verify_rows import verify_rows

_LINES = (("rows", "stride"),)


def _table() -> InstructionTable:
    """load: rows of pad; aim: where ADD works; add: on as many rows as `rows` says. keep: sets the
    stride, where its `kept` is 0; take: loads, and sets the stride for what comes later."""
    row, rows = Bits("row", 6), (("rows", 1),)
    load = Reach("dram", "address", _LINES, 4), Reach("pad", "row", rows, writes=True)
    add = Reach("sums", "target", rows), Reach("pad", "row", rows)
    out = Reach("sums", "row", rows), Reach("dram", "address", _LINES, 4, writes=True)
    fields = (Bits("address", 16, address=True), row)
    step, count = Bits("step", 8), Bits("count", 4, low=1)
    forms = (
        InstructionForm("config", 1, (step,), sets=(Set("stride", "step"),), unit="load"),
        InstructionForm("size", 2, (count,), sets=(Set("rows", "count"),), unit="load"),
        InstructionForm("load", 3, fields, reaches=load, unit="load"),
        InstructionForm("aim", 4, (row,), sets=(Set("target", "row"),), unit="core"),
        InstructionForm(
            "add", 5, (row,), reaches=(*add, replace(add[0], writes=True)), unit="core"
        ),
        InstructionForm("store", 6, fields, reaches=out, unit="core"),
        InstructionForm(
            "keep",
            7,
            (step, Bits("kept", 1)),
            sets=(Set("stride", "step", when="(kept=0)"),),
            unit="load",
        ),
        InstructionForm(
            "take", 8, (*fields, step), reaches=load, sets=(Set("stride", "step"),), unit="load"
        ),
    )
    registers = (Register("stride", 8), Register("rows", 4, low=1), Register("target", 6))
    memories = (LocalMemory("pad", 16, 4), LocalMemory("sums", 16, 4))
    return InstructionTable("tiny", forms, memories, registers=registers)


TABLE = _table()
BEGIN = [TiledInsn("config", {"step": 8}), TiledInsn("size", {"count": 4})]


def pad(name: str) -> LocalTile:
    return LocalTile("pad", 4, name)


def placed(insns: list[TiledInsn]) -> list[TableInsn]:
    """With rows, which are right."""
    made, sources = in_rows(TABLE, insns, [0] * len(insns), None)
    verify_rows(TABLE, insns, made, sources)
    return made


def test_a_register_holds_a_place_in_a_tile() -> None:
    sums, data = LocalTile("sums", 6, "sums"), pad("data")
    insns = [
        *BEGIN,
        TiledInsn("load", {"address": At("x"), "row": InTile(data)}),
        TiledInsn("aim", {"row": InTile(sums, 2)}),
        TiledInsn("add", {"row": InTile(data)}),
    ]
    registers = found_registers(TABLE, insns)
    assert (registers[4].values, registers[4].places) == (
        {"rows": 4, "target": 0},
        {"target": InTile(sums, 2)},
    )
    tiles = [each.tile for each in reached(TABLE, insns[4], registers[4])]
    assert tiles == [sums, data, sums]
    made = {insn.name: insn.fields for insn in placed(insns)}
    assert made["aim"] == {"row": 2}


def test_a_load_under_another_stride_is_another_load() -> None:
    """Of two loads of the same, the second one is left out; not where the stride differs."""

    def program(between: list[TiledInsn]) -> list[TiledInsn]:
        first, second, sums = pad("first"), pad("second"), LocalTile("sums", 4, "sums")
        where = {"address": At("x")}
        return [
            *BEGIN,
            TiledInsn("aim", {"row": InTile(sums)}),
            TiledInsn("load", {**where, "row": InTile(first)}),
            TiledInsn("add", {"row": InTile(first)}),
            *between,
            TiledInsn("load", {**where, "row": InTile(second)}),
            TiledInsn("add", {"row": InTile(second)}),
        ]

    def loads(insns: list[TiledInsn]) -> int:
        return [insn.name for insn in placed(insns)].count("load")

    assert loads(program([])) == 1
    assert loads(program([TiledInsn("config", {"step": 8})])) == 1
    assert loads(program([TiledInsn("config", {"step": 9})])) == 2


def test_a_move_across_a_setting_is_found() -> None:
    data, sums = pad("data"), LocalTile("sums", 4, "sums")
    insns = [
        *BEGIN,
        TiledInsn("load", {"address": At("x"), "row": InTile(data)}),
        TiledInsn("config", {"step": 9}),
        TiledInsn("aim", {"row": InTile(sums)}),
        TiledInsn("add", {"row": InTile(data)}),
    ]
    made, sources = in_rows(TABLE, insns, [0] * len(insns), None)
    by_source = dict(zip(sources, made, strict=True))
    for order in ([0, 1, 3, 2, 4, 5], [0, 1, 2, 3, 5, 4]):
        with pytest.raises(
            LoweringError, match="does not read what it read with|is read before it is"
        ):
            verify_rows(TABLE, insns, [by_source[n] for n in order], order)
    moved = [replace(m, fields={"row": 14}) if m.name == "aim" else m for m in made]
    with pytest.raises(LoweringError):
        verify_rows(TABLE, insns, moved, sources)


def verify_order(insns: list[TiledInsn], order: list[int]) -> None:
    """That what has rows may come in this order; those that it lacks are left out."""
    made, sources = in_rows(TABLE, insns, [0] * len(insns), None)
    by_source = dict(zip(sources, made, strict=True))
    verify_rows(TABLE, insns, [by_source[n] for n in order], order)


def test_what_sets_nothing_may_be_moved() -> None:
    """A load finds who set its stride last; one that keeps the stride is none."""
    for kept in (0, 1):
        insns = [
            *BEGIN,
            TiledInsn("keep", {"step": 9, "kept": kept}),
            TiledInsn("load", {"address": At("x"), "row": InTile(pad("data"))}),
        ]
        verify_order(insns, [0, 1, 2, 3])
        if kept:
            verify_order(insns, [0, 1, 3, 2])
        else:
            with pytest.raises(LoweringError, match="instruction 3, load, does not read what"):
                verify_order(insns, [0, 1, 3, 2])


def test_of_two_places_the_last_one_is_found() -> None:
    """Both are set by the same instruction, but for the tile."""
    first, second, data = LocalTile("sums", 4, "first"), LocalTile("sums", 4, "second"), pad("data")
    insns = [
        *BEGIN,
        TiledInsn("load", {"address": At("x"), "row": InTile(data)}),
        TiledInsn("aim", {"row": InTile(first)}),
        TiledInsn("add", {"row": InTile(data)}),
        TiledInsn("aim", {"row": InTile(second)}),
        TiledInsn("add", {"row": InTile(data)}),
    ]
    verify_order(insns, [0, 1, 2, 3, 4, 5, 6])
    with pytest.raises(LoweringError, match="instruction 4, add, does not read what it read"):
        verify_order(insns, [0, 1, 2, 3, 5, 4, 6])


def test_a_load_that_sets_a_register_stays() -> None:
    insns = [
        *BEGIN,
        TiledInsn("take", {"address": At("x"), "row": InTile(pad("data")), "step": 9}),
    ]
    verify_order(insns, [0, 1, 2])
    with pytest.raises(LoweringError, match="instruction 2, take, is left out and no load"):
        verify_order(insns, [0, 1])


def test_what_is_wrong_is_said() -> None:
    sums = LocalTile("sums", 4, "sums")
    with pytest.raises(LoweringError, match="instruction 0, load: reads register stride, which is"):
        found_registers(TABLE, [TiledInsn("load", {})])
    with pytest.raises(LoweringError, match="sets register rows to 0, which is not in"):
        found_registers(TABLE, [TiledInsn("size", {"count": 0})])
    with pytest.raises(LoweringError, match="aim: row is a row of tile sums, which no instruction"):
        in_rows(TABLE, [TiledInsn("aim", {"row": InTile(sums)})], [0], None)
    forms = [
        replace(form, sets=(Set("target", "(row+1)"),)) if form.name == "aim" else form
        for form in TABLE.forms
    ]
    table = replace(TABLE, forms=tuple(forms))
    with pytest.raises(LoweringError, match="row is a row of tile sums: let it set the row alone"):
        found_registers(table, [TiledInsn("aim", {"row": InTile(sums)})])
    data = [TiledInsn("aim", {"row": InTile(pad("data"))}), TiledInsn("add", {})]
    with pytest.raises(LoweringError, match="target is a row of sums; tile data is one of pad"):
        placed([*BEGIN, *data])
