# SPDX-License-Identifier: Apache-2.0
"""Tiles get rows, and loads come early: what a program computes stays."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loadstone.errors import LoweringError
from loadstone.ir_pass.nest_text import parsed
from loadstone.isa.accelerator import Port
from loadstone.isa.codec import At
from loadstone.isa.table import AddressRegister
from loadstone.isa.text import disassemble
from loadstone.isa.tiled import in_rows
from loadstone.isa.tiles import InTile, LocalTile, TiledInsn
from loadstone.isa.verify_rows import verify_rows
from loadstone.selection.choose import Chooser
from loadstone.selection.match_instructions import match_instructions
from loadstone.selection.meanings import Meanings
from tests.isa.tiled_device import (
    BASE,
    CONSTANTS,
    LANES,
    device,
    own_rows,
    random_program,
    run,
    table,
)
from tests.passes.networks import plugins
from tests.repeat import times

ROOMY, TIGHT = device(255), 12


@pytest.mark.parametrize("rows", [4, TIGHT, 64])
def test_what_random_programs_compute_stays(rows: int) -> None:
    small, left_out, moved = device(rows), 0, 0
    for seed in range(times(15, 2000)):
        insns, layers = random_program(seed)
        found, sources = in_rows(small.table, insns, layers, Port())
        want, _ = run(ROOMY, own_rows(insns))
        assert run(small, found)[0] == want, seed
        assert [layers[n] for n in sources] == sorted(layers[n] for n in sources)
        left_out += len(insns) - len(found)
        moved += sources != sorted(sources)
    assert left_out > 0
    assert moved > 0


def double(turns: int) -> list[TiledInsn]:
    """Turns that only read what nobody wrote."""
    insns = []
    for turn in range(turns):
        pad, out = InTile(LocalTile("pad", 4, "pad")), InTile(LocalTile("out", 4, "out"))
        source = At("constants", LANES * (turn % 4))
        insns += [
            TiledInsn("read", {"address": source, "rows": 1, "row": InTile(pad.tile, row)})
            for row in range(4)
        ]
        insns += [
            TiledInsn("mix", {"row": pad, "target": out, "rows": 4, "adds": n > 0})
            for n in range(8)
        ]
        insns.append(TiledInsn("write", {"address": At(f"made{turn}"), "rows": 1, "row": out}))
    return insns


def test_what_is_needed_next_comes_while_this_is_computed() -> None:
    """Only with room for two sets; the core then waits for the first alone."""
    cycles = {}
    for rows in (4, 8):
        port = Port(latency_cycles=60)
        accelerator, insns = device(rows, port), double(4)
        found, _ = in_rows(accelerator.table, insns, [0] * len(insns), port)
        memory, done = run(accelerator, found)
        assert memory == run(ROOMY, own_rows(insns))[0]
        cycles[rows] = done.cycles, done.busy_cycles
    assert cycles[4][1] == cycles[8][1]
    assert cycles[8][0] < 0.8 * cycles[4][0]


def test_a_load_is_repeated_where_its_memory_has_changed() -> None:
    def turn(name: str) -> list[TiledInsn]:
        pad, out = InTile(LocalTile("pad", 1, name)), InTile(LocalTile("out", 1, name))
        return [
            TiledInsn("read", {"address": At("made0"), "rows": 1, "row": pad}),
            TiledInsn("mix", {"row": pad, "target": out, "rows": 1}),
            TiledInsn("write", {"address": At("made1"), "rows": 1, "row": out}),
        ]

    twice = [*turn("a"), *turn("b")]
    names = [i.name for i in in_rows(table(TIGHT), twice, [0] * 6, None)[0]]
    assert names.count("read") == 1
    changed = [*turn("a"), TiledInsn("write", {**twice[2].fields, "address": At("made0")})]
    insns = [*changed, *turn("b")]
    found, _ = in_rows(table(TIGHT), insns, [0] * 7, None)
    assert [i.name for i in found].count("read") == 2
    assert run(device(TIGHT), found)[0] == run(ROOMY, own_rows(insns))[0]


@pytest.mark.parametrize("store", ["made0", ""])
@pytest.mark.parametrize("load", ["made0", ""])
def test_an_address_without_a_name_may_be_any_memory(store: str, load: str) -> None:
    """It is that of made0: what was loaded before a store there is loaded again, and behind it."""

    def at(name: str) -> At | int:
        return At(name) if name else BASE + LANES * CONSTANTS

    def turn(name: str, target: At | int) -> list[TiledInsn]:
        pad, out = InTile(LocalTile("pad", 1, name)), InTile(LocalTile("out", 1, name))
        mix = TiledInsn("mix", {"row": pad, "target": out, "rows": 1})
        return [
            TiledInsn("read", {"address": at(load), "rows": 1, "row": pad}),
            *[mix] * 3,
            TiledInsn("write", {"address": target, "rows": 1, "row": out}),
        ]

    insns = [*turn("a", at(store)), *turn("b", At("made1"))]
    found, sources = in_rows(table(TIGHT), insns, [0] * len(insns), None)
    verify_rows(table(TIGHT), insns, found, sources)
    assert run(device(TIGHT), found)[0] == run(ROOMY, own_rows(insns))[0]


def test_address_registers_keep_the_order() -> None:
    """Where they point is known to nobody."""
    registers = replace(table(TIGHT), address_registers=(AddressRegister("base"),))
    insns = double(2)
    found, sources = in_rows(registers, insns, [0] * len(insns), None)
    assert sources == list(range(len(insns)))
    assert found[0].fields["row"] == 0


def test_what_does_not_fit_is_said() -> None:
    pad, out = InTile(LocalTile("pad", 5, "pixels")), InTile(LocalTile("out", 1, "sums"))
    mix = TiledInsn("mix", {"row": pad, "target": out, "rows": 1})
    with pytest.raises(LoweringError, match="pad has no room for pixels of 5 rows: 0 of 4"):
        in_rows(table(4), [mix], [0], None)


def test_plain_rows_beside_tiles_are_refused() -> None:
    read, *_, mix, _ = double(1)
    plain = TiledInsn("write", {"address": At("made0"), "rows": 1, "row": 3})
    with pytest.raises(LoweringError, match="write: row is a plain row of out, whose rows other"):
        in_rows(table(TIGHT), [read, mix, plain], [0] * 3, None)


#: Two tiles of a product for the systolic array, as nests with copies.
PRODUCT = """\
func rows:
  param x: int8[8] x1x8
  param w: int8[8] x1x8
  param p: int32[3] x1x8
  param out: int8[8] x1x8
  alloc p_chip: int32[3] x1x8 in accumulator
  copy(p_chip[i], p[i]) for i<3
  for t<2:
    alloc x_chip: int8[4] x1x8 in scratchpad
    copy(x_chip[i], x[4*t + i]) for i<4
    alloc w_chip: int8[8] x1x8 in scratchpad
    copy(w_chip[i], w[i]) for i<8
    alloc acc: int32[4] x1x8 in accumulator
    fill(acc[i] | 0) for i<4
    gemm(acc[i], x_chip[i], w_chip[0]) for i<4
    rq(acc[i], p_chip[0] | 5, -128, 127, 0) for i<4
    copy(out[4*t + i], acc[i]) for i<4
"""
#: The second load of weights is left out, and the second of x comes before the first product.
PRODUCT_IN_ROWS = """\
mvin_sums address=@p stride=32 rows=3
mvin address=@x stride=8 rows=4
scale zero_point=5 low=-128 high=127 rounding=double
mvin address=@w stride=8 rows=8 row=4
preload row=4
mvin address=@x+32 stride=8 rows=4 row=12
compute step=1 rows=4 target=3
mvout address=@out stride=8 rows=4 row=3
preload row=4
compute row=12 step=1 rows=4 target=7
mvout address=@out+32 stride=8 rows=4 row=7
"""


def test_text_in_text_out() -> None:
    """Of nests for the example's array, whose instructions its table's meanings choose."""
    accelerator = plugins().backends["systolic"](dim=8, tokens=1).accelerator
    assert accelerator is not None
    chooser = Chooser(Meanings(accelerator.table), accelerator.port)
    insns = match_instructions(parsed(PRODUCT), chooser).instructions
    found, _ = in_rows(accelerator.table, insns, [0] * len(insns), accelerator.port)
    assert disassemble(accelerator.table, found) == PRODUCT_IN_ROWS
