# SPDX-License-Identifier: Apache-2.0
"""selection/verify_match.py on nests and instructions by hand: the last place and the one behind
it, and each thing that nests and meanings can say."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone.errors import LoweringError
from loadstone.ir_pass.nest_text import parsed
from loadstone.isa.codec import At
from loadstone.isa.table import (
    Bits,
    InstructionForm,
    InstructionTable,
    LocalMemory,
    Register,
    Set,
)
from loadstone.isa.tiles import InTile, LocalTile, TiledInsn
from loadstone.selection import verify_match as judge
from loadstone.selection.match_instructions import DramConstant, Matched
from loadstone.selection.meanings import Meanings


def _form(
    name: str, opcode: int, fields: str, *meaning: str, sets: tuple[Set, ...] = ()
) -> InstructionForm:
    bits = (Bits(each, 16, address=each == "address") for each in fields.split())
    return InstructionForm(name, opcode, tuple(bits), meaning=meaning, sets=sets)


#: `twice` may work on one row several times; `pair` has an operand that the first `mix` has not.
#: `out` finds its row in a register; `next` sets that behind its own work, `maybe` sometimes.
TABLE = InstructionTable(
    "hand",
    (
        _form(
            "load",
            1,
            "address stride rows row far",
            "copy(pad[row + i], dram[address + stride*i]) for i<rows where far=0",
        ),
        _form("one", 2, "address row", "copy(pad[row], dram[address])"),
        _form(
            "store",
            3,
            "address rows row",
            "copy(dram[address + 4*i], pad[row + i]) for i<rows",
        ),
        _form("fill", 4, "row rows value", "fill(pad[row + i] | value) for i<rows"),
        _form("keep", 5, "row", "copy(kept[k], pad[row + k]) for k<2"),
        _form(
            "twice",
            6,
            "row step rows by",
            "mul(pad[row + step*i], kept[0] | by) for i<rows",
        ),
        _form("mix", 7, "row other", "mix(pad[row], pad[other])"),
        _form("pair", 8, "row other more", "mix(pad[row], pad[other], pad[more])"),
        _form("each", 9, "row rows by", "mul(pad[row + i], kept[0 + i] | by) for i<rows"),
        _form("at", 10, "row", sets=(Set("where", "row"),)),
        _form("as", 11, "value", sets=(Set("mode", "value"),)),
        _form("some", 12, "rows", sets=(Set("count", "rows"),)),
        _form(
            "out",
            13,
            "address rows",
            "copy(dram[address + 4*i], pad[where + i]) for i<rows where mode=1, rows=count",
            "copy(dram[address + 8*i], pad[where + i]) for i<rows where mode=2, rows=count",
        ),
        _form(
            "next",
            14,
            "address row",
            "copy(dram[address], pad[where])",
            sets=(Set("where", "row"),),
        ),
        _form("maybe", 15, "row value", sets=(Set("where", "row", when="(value=1)"),)),
        _form("both", 16, "row", sets=(Set("count", "where"), Set("where", "row"))),
        _form(
            "through",
            17,
            "row other",
            "copy(kept[k], pad[other + k]) for k<2 then mul(pad[row], kept[0] | 9)",
        ),
        _form("by", 18, "row", "mul(pad[row], kept[0] | where)"),
        _form("nothing", 19, ""),
        _form("less", 20, "row", "mul(pad[row], kept[0] | -3)"),
    ),
    (LocalMemory("pad", 8, 4), LocalMemory("kept", 1, 2)),
    registers=(Register("where", 16), Register("mode", 4, reset=1), Register("count", 16)),
)
MEANINGS = Meanings(TABLE)
#: Tiles of four rows and of eight.
TILES = {name: LocalTile("pad", 4, name) for name in "ab"} | {"l": LocalTile("pad", 8, "l")}
#: Of DRAM, with one value in every element.
SEVEN = DramConstant(7, "int8", 4)
HEAD = """\
func f:
  param x: int8[4] x1x4
  param single: int8[1] x1x4
  param out: int8[8] x1x4
  local t: int8[8] x1x4
"""


def _insn(words: str) -> TiledInsn:
    """`load address=x+4 row=a+1 rows=2`; a constant is c, a name of DRAM not a tile's."""
    name, *items = words.split()
    fields: dict[str, int | At | InTile] = {}
    for key, text in (item.split("=") for item in items):
        base, _, more = text.partition("+")
        if base in TILES:
            fields[key] = InTile(TILES[base], int(more or 0))
        elif base.lstrip("-").isdigit():
            fields[key] = int(text)
        else:
            fields[key] = At(SEVEN.name if base == "c" else base, int(more or 0))
    return TiledInsn(name, fields)


def verdict(nests: str, insns: str) -> str:
    """Empty: found right. nests: lines of a function, which begin with no blanks."""
    body = "".join(f"  {line}\n" for line in nests.splitlines())
    made = Matched([_insn(words) for words in insns.split("; ")], {SEVEN.name: SEVEN})
    try:
        judge.verify_match(parsed(HEAD + body), made, MEANINGS)
    except LoweringError as refused:
        return str(refused).removeprefix("verify_match: ")
    return ""


_COPY = "copy(out[i], x[i]) for i<4"
_LOAD = "load address=x stride=4 rows=4 row=a"
_STORE = "store address=out rows=4 row=a"
_PADDED = "copy(out[i], x[i - 1 else {}]) for i<6"
_PADDED_INSNS = "fill row=l rows=6 value={}; load address=x stride=4 rows=4 row=l+1; " + (
    "store address=out rows=6 row=l"
)
_MUL = "copy(t[0], x[0])\nfor k<{}:\n  mul(t[0], x[1] | 9)\ncopy(out[0], t[0])"
_MUL_INSNS = (
    "load address=x stride=4 rows=3 row=a; keep row=a+1; twice row=a step={} rows={} by=9; "
    "store address=out rows=1 row=a"
)
_MIX = "copy(t[0], x[0])\nmix(t[0], x[1]{})\ncopy(out[0], t[0])"
_AT = f"{_LOAD}; at row=a; some rows=4"
_TWO = "copy(out[2*i], x[i]) for i<4"
_FILLED = "fill(t[i] | 7) for i<2\ncopy(out[i], t[i]) for i<2"
#: What it is about: nests, instructions, what is said of them.
CASES = {
    "a copy": (_COPY, f"{_LOAD}; {_STORE}", ""),
    "a nest without loops": (
        "copy(out[0], x[0])",
        "one address=x row=a; store address=out rows=1 row=a",
        "",
    ),
    "a nest without loops, left out": (
        "copy(out[0], x[0])",
        "one address=x row=a",
        "place 0 of out is not what the nests say, nor are 0",
    ),
    "another place": (_COPY, f"{_LOAD}; store address=out rows=3 row=a", "place 3 of out"),
    "a group": (f"group:\n  {_COPY}", f"{_LOAD}; {_STORE}", ""),
    "an allocation": (f"alloc u: int8[1] x1x4 in pad\n{_COPY}", f"{_LOAD}; {_STORE}", ""),
    "some turns": (
        "copy(out[i], x[i]) for i<4 if i - 1 >= 0, 2 - i >= 0",
        "load address=x stride=4 rows=4 row=a; store address=out+4 rows=2 row=a+1",
        "",
    ),
    "no turns": ("copy(out[i], x[i]) for i<4 if i - 4 >= 0", "keep row=a", ""),
    "a target that leaves its tensor": (
        "copy(out[i + 5], x[i]) for i<4",
        _LOAD,
        "copy of the nests leaves out",
    ),
    "an operand that leaves its tensor": (
        "copy(out[i], x[i]) for i<5",
        _LOAD,
        "copy of the nests reads outside x",
    ),
    "a pad of 3": (_PADDED.format(3), _PADDED_INSNS.format(3), ""),
    "a pad of 0": (_PADDED.format(0), _PADDED_INSNS.format(0), ""),
    "another pad": (_PADDED.format(0), _PADDED_INSNS.format(3), "place 0 of out"),
    "a pad of one place": (
        "copy(out[i], single[i else 0]) for i<2",
        "fill row=a rows=2 value=0; one address=single row=a; store address=out rows=2 row=a",
        "",
    ),
    "a place twice": (_MUL.format(2), _MUL_INSNS.format(0, 2), ""),
    "a place once": (_MUL.format(1), _MUL_INSNS.format(0, 1), ""),
    "a place once in place of twice": (_MUL.format(1), _MUL_INSNS.format(0, 2), "place 0 of out"),
    "a row and its neighbour": (_MUL.format(1), _MUL_INSNS.format(1, 2), ""),
    "no rows": ("copy(out[i], x[i]) for i<4 if i - 4 >= 0", "twice row=a by=1", ""),
    "an operand of two places that ends with its memory": (
        _MUL.format(1),
        _MUL_INSNS.format(0, 1).replace("twice row=a step=0", "each row=a"),
        "",
    ),
    "an operand of two places whose second turn ends behind its memory": (
        _MUL.format(1),
        _MUL_INSNS.format(0, 2).replace("twice row=a step=0", "each row=a"),
        "each, reads beyond kept[0]",
    ),
    "one operand": (
        _MIX.format(""),
        "load address=x stride=4 rows=2 row=a; mix row=a other=a+1; store address=out rows=1 row=a",
        "",
    ),
    "an operand more": (
        _MIX.format(", x[2]"),
        "load address=x stride=4 rows=3 row=a; "
        "pair row=a other=a+1 more=a+2; store address=out rows=1 row=a",
        "",
    ),
    "an instruction of no meaning": (
        _COPY,
        f"{_LOAD} far=1; {_STORE}",
        "instruction 0, load, has 0 meanings",
    ),
    "no row at all": (
        _COPY,
        "load address=x stride=4 rows=4",
        "instruction 0, load, has nothing in row",
    ),
    "no place in DRAM": (
        _COPY,
        "load row=a stride=4 rows=4",
        "instruction 0, load, has nothing in address",
    ),
    "a row before a tile": (
        _COPY,
        "load address=x stride=4 rows=2 row=a+-1",
        "leaves what row names",
    ),
    "a row behind a tile": (
        _COPY,
        "load address=x stride=4 rows=4 row=a+1",
        "leaves what row names",
    ),
    "a constant": (_FILLED, "load address=c rows=2 row=a; store address=out rows=2 row=a", ""),
    "beyond a constant": (_FILLED, "load address=c rows=2 stride=4 row=a", "leaves the constant"),
    "inside a constant": (_FILLED, "one address=c+1 row=a", "leaves the constant"),
    "a row in a register": (_COPY, f"{_AT}; out address=out rows=4", ""),
    "another row in a register": (
        _COPY,
        "load address=x stride=4 rows=4 row=l+1; at row=l; some rows=4; out address=out rows=4",
        "place 0 of out",
    ),
    "a row in a register, not set": (
        _COPY,
        f"{_LOAD}; some rows=4; out address=out rows=4",
        "out, has nothing in where",
    ),
    "a mode in a register": (_TWO, f"{_AT}; as value=2; out address=out rows=4", ""),
    "another mode in a register": (_TWO, f"{_AT}; out address=out rows=4", "place 1 of out"),
    "a mode that is none": (
        _COPY,
        f"{_AT}; as value=3; out address=out rows=4",
        "out, has 0 meanings",
    ),
    "as many rows as a register says": (_COPY, f"{_AT}; out address=out rows=3", "has 0 meanings"),
    "as many rows as nobody said": (
        _COPY,
        f"{_LOAD}; at row=a; out address=out rows=4",
        "has 0 meanings",
    ),
    "none of two registers is set": (_COPY, "out address=out", "has 0 meanings"),
    "a place in front of a number": (
        _COPY,
        f"{_AT}; at row=0; out address=out rows=4",
        "place 0 of out",
    ),
    "a number in front of a place": (
        _COPY,
        f"{_LOAD}; at row=0; at row=a; some rows=4; out address=out rows=4",
        "",
    ),
    "a register that is set behind the work": (
        "copy(out[i], x[i]) for i<2",
        f"{_LOAD}; at row=a; next address=out row=a+1; next address=out+4 row=a",
        "",
    ),
    "a register that is not set this time": (
        _COPY,
        f"{_AT}; maybe row=b; out address=out rows=4",
        "",
    ),
    "a register that is set this time": (
        _COPY,
        "load address=x stride=4 rows=4 row=b; at row=a; some rows=4; maybe row=b value=1; "
        "out address=out rows=4",
        "",
    ),
    "two registers at once": (
        _COPY,
        f"{_LOAD}; at row=4; both row=a; out address=out rows=4",
        "",
    ),
    "a number that is a place": (
        _MUL.format(1),
        "load address=x stride=4 rows=3 row=a; keep row=a+1; at row=a; by row=a",
        "by, needs where, which no instruction said",
    ),
    "a number of a register": (
        _MUL.format(1),
        "load address=x stride=4 rows=3 row=a; keep row=a+1; at row=9; by row=a; "
        "store address=out rows=1 row=a",
        "",
    ),
    "a place behind a number is no number": (
        _MUL.format(1),
        "load address=x stride=4 rows=3 row=a; keep row=a+1; at row=9; at row=a; by row=a",
        "by, needs where, which no instruction said",
    ),
    "a field that is left out is 0, and so is the register": (
        _MUL.format(1).replace("9", "0"),
        "load address=x stride=4 rows=3 row=a; keep row=a+1; at row=a; at; by row=a; "
        "store address=out rows=1 row=a",
        "",
    ),
    "a number below zero": (
        _MUL.format(1).replace("9", "-3"),
        "load address=x stride=4 rows=3 row=a; keep row=a+1; less row=a; "
        "store address=out rows=1 row=a",
        "",
    ),
    "an instruction that fills first": (
        _MUL.format(1),
        "load address=x stride=4 rows=3 row=a; through row=a other=a+1; "
        "store address=out rows=1 row=a",
        "",
    ),
    "an instruction that fills from elsewhere": (
        _MUL.format(1),
        "load address=x stride=4 rows=3 row=a; through row=a other=a; "
        "store address=out rows=1 row=a",
        "place 0 of out",
    ),
    "what was filled stays": (
        _MUL.format(2),
        "load address=x stride=4 rows=3 row=a; through row=a other=a+1; each row=a rows=1 by=9; "
        "store address=out rows=1 row=a",
        "",
    ),
    "an instruction that does nothing": (_COPY, "nothing", "nothing, has 0 meanings"),
}


@pytest.mark.parametrize("name", CASES)
def test_by_hand(name: str) -> None:
    nests, insns, said = CASES[name]
    found = verdict(nests, insns)
    assert found == "" if said == "" else said in found


def test_names_are_mixed_as_published() -> None:
    """SplitMix64: its first numbers of two seeds. Of a number all 64 bits count."""
    assert int(judge._mixed(1234567)) == 6457827717110365317
    assert int(judge._mixed(np.array(0, np.uint64))) == 0xE220A8397B1DCDAF
    assert int(judge._mixed(-1)) != int(judge._mixed((1 << 63) - 1))
