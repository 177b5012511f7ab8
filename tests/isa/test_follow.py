# SPDX-License-Identifier: Apache-2.0
"""isa/follow.py: touches through registers and words, against those of a walk over each place."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadstone.isa.codec import TableInsn
from loadstone.isa.follow import (
    Content,
    Follower,
    InDram,
    Placed,
    ProgramRefusal,
    Touched,
    no_content,
)
from loadstone.isa.hazards import Touch
from loadstone.isa.program_tokens import plain_fields
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
from tests.isa import gather

TABLE = gather.table()
DATA = gather.constants(1)
AT = {"address": ("constants", 0)}


def content(place: tuple[object, int], size: int) -> bytes:
    return DATA[place[1] : place[1] + size]


def follow(
    *insns: TableInsn,
    table: InstructionTable = TABLE,
    content: Content = content,
    regions: Sequence[Placed] = (),
) -> list[Touched]:
    """What the last one touches; all addresses are the begin of the constants."""
    follower, found = Follower(table, content, regions), []
    for insn in insns:
        form, fields = table.by_name[insn.name], plain_fields(table, insn)
        found = follower.touched(form, fields, AT)
        follower.done(form, fields, AT, found)
    return found


POINT = TableInsn("point", {})


@settings(max_examples=60)
@given(st.integers(0, 14), st.integers(0, 7), st.data())
def test_a_gather_stays_within_what_its_words_say(
    chunk: int, begin: int, data: st.DataObject
) -> None:
    """The range is the smallest that holds every place of every word and turn."""
    end = data.draw(st.integers(begin + 1, gather.WORDS))
    turns, step = data.draw(st.integers(0, 7)), data.draw(st.integers(0, 7))
    load = TableInsn("load", {"memory": 0, "chunk": chunk, "rows": gather.WORDS})
    fields = {"begin": begin, "end": end, "turns": turns, "step": step}
    found = follow(POINT, load, TableInsn("gather", fields))
    words = np.frombuffer(DATA[8 * chunk :][: 2 * gather.WORDS], np.uint8).reshape(-1, 2) & 31
    used = words[begin:end].astype(int)
    if turns == 0:
        assert found == []
        return
    ranges = {(each.touch.space, each.touch.first, each.end, each.touch.writes) for each in found}
    source, target = used.T
    out = (int(target.min()), int(target.max()) + turns)
    assert ranges == {
        ("index", begin, end, False),
        ("pad", int(source.min()), int(source.max()) + (turns - 1) * step + 1, False),
        ("out", *out, False),
        ("out", *out, True),
    }


def test_padding_is_written_and_not_read() -> None:
    rows = {"memory": 1, "chunk": 2, "row": 5, "rows": 3, "top": 2, "bottom": 1}
    register, read, write = follow(POINT, TableInsn("load", rows))
    assert (register.touch.space, register.touch.writes) == (("register", "base"), False)
    assert read.touch.space == InDram("constants")
    assert (read.touch.first, read.touch.loops, read.touch.extent, read.end) == (16, (), 12, 28)
    assert (write.touch.space, write.touch.first, write.end) == ("pad", 5, 11)


def test_a_register_is_touched_by_who_sets_it() -> None:
    (found,) = follow(POINT)
    assert (found.touch.space, found.touch.writes) == (("register", "base"), True)


def test_words_are_what_was_loaded_last() -> None:
    """Row 3 alone is loaded anew."""
    whole = TableInsn("load", {"memory": 0, "chunk": 0, "rows": gather.WORDS})
    again = TableInsn("load", {"memory": 0, "chunk": 4, "row": 3, "rows": 1})
    for number in range(gather.WORDS):
        used = TableInsn("gather", {"begin": number, "end": number + 1, "turns": 1})
        found = {each.touch.space: each.touch.first for each in follow(POINT, whole, again, used)}
        want = DATA[32] if number == 3 else DATA[2 * number]
        assert found["pad"] == want & 31


def test_what_is_not_known_is_refused() -> None:
    gathers = TableInsn("gather", {"begin": 0, "end": 2, "turns": 1})
    one = TableInsn("load", {"memory": 0, "rows": 1})
    for insns, status, said in (
        ((one,), "DRAM", "address register base.0. is not set"),
        ((gathers,), "UOP", "words 0 to 1 of index were not all loaded"),
        ((POINT, one, gathers), "UOP", "words 0 to 1 of index"),
    ):
        with pytest.raises(ProgramRefusal, match=said) as caught:
            follow(*insns)
        assert caught.value.status == status
    follow(POINT, one, TableInsn("gather", {"begin": 0, "end": 1, "turns": 1}))


# --- what the device that gathers has not ---------------------------------------------------------
def _words_table() -> InstructionTable:
    """Words of four bytes, in turns that stand apart; three registers that begin at regions, two
    that are set."""
    rows, gap, row = Bits("rows", 4), Bits("gap", 4), Bits("row", 4)
    which, address = Bits("which", 3), Bits("address", 16, address=True)
    words = Reach("dram", "base", (("rows", "gap"),), 4, index="which")
    fill = Reach("index", "row", (("rows", "apart"),), writes=True)
    begin_end = (Bits("begin", 4), Bits("end", 4))
    forms = (
        InstructionForm(
            "load",
            1,
            (which, rows, gap, row, Bits("apart", 4)),
            reaches=(words, fill, Reach("pad", "row"), Reach("dram", "base", writes=True)),
        ),
        InstructionForm(
            "pairs",
            2,
            (row, rows),
            reaches=(
                Reach("dram", "base", ((2, 32), ("rows", 8)), 4),
                Reach("index", "row", ((2, 3), ("rows", 1)), writes=True),
            ),
        ),
        InstructionForm(
            "copy",
            3,
            (row, Bits("size", 8)),
            reaches=(
                Reach("dram", "base", extent="size"),
                Reach("index", "row", extent=2, writes=True),
            ),
        ),
        InstructionForm("show", 4, (row,), reaches=(Reach("index", "row"),)),
        InstructionForm(
            "gather",
            5,
            (*begin_end, Bits("more", 4)),
            reaches=(
                Reach("pad", "near", offset="more", through=Words("index", "begin", "end")),
                Reach("pad", "far", extent=3, through=Words("index", "begin", "end")),
            ),
        ),
        InstructionForm("point", 6, (which, address), keeps=(Keep("other", "address", "which"),)),
        InstructionForm("look", 7, (which,), reaches=(Reach("dram", "other", index="which"),)),
    )
    word = (Bits("near", 4), Bits("far", 4), Bits("high", 8, at=24))
    memories = (LocalMemory("index", 6, 2, "int16", word), LocalMemory("pad", 64))
    registers = (AddressRegister("base", 3, regions=True), AddressRegister("other", 2))
    return InstructionTable("words", forms, memories, address_registers=registers)


APART = _words_table()


def apart(*lines: str, content: Content = content, count: int = 3) -> list[Touched]:
    """`load rows=2 gap=4`, one after the other: what the last one touches."""
    insns = []
    for line in lines:
        name, *items = line.split()
        fields = {key: int(value) for key, value in (item.split("=") for item in items)}
        insns.append(TableInsn(name, fields))
    regions = [("constants", 8 * k) for k in range(count)]
    return follow(*insns, table=APART, content=content, regions=regions)


#: Instructions, and of each word that the last of them loads its row, and where its bytes stand.
FILLED = {
    "one after the other": ("load rows=6 gap=4 apart=1", {k: 4 * k for k in range(6)}),
    "two apart": ("load rows=3 gap=8 apart=2", {0: 0, 2: 8, 4: 16}),
    "from a row on, of another region": ("load rows=2 gap=4 row=4 apart=1 which=2", {4: 16, 5: 20}),
    "the last one stays": ("load rows=3 gap=4", {0: 8}),
    "as many as there are rows": ("load rows=6 gap=4", {0: 20}),
    "in two loops": ("pairs rows=3", {0: 0, 1: 8, 2: 16, 3: 32, 4: 40, 5: 48}),
    "in one piece": ("copy row=1 size=8", {1: 0, 2: 4}),
}


@pytest.mark.parametrize("name", FILLED)
def test_words_stand_where_they_were_loaded(name: str) -> None:
    line, words = FILLED[name]
    data = np.random.default_rng(5).integers(0, 256, 64, np.uint8).tobytes()

    def random(place: Placed, size: int) -> bytes:
        return data[place[1] : place[1] + size]

    for row in range(6):
        gather = f"gather begin={row} end={row + 1} more=5"
        if row not in words:
            with pytest.raises(ProgramRefusal, match=f"words {row} to {row} of index were not all"):
                apart(line, gather, content=random)
            continue
        word = data[words[row]]
        near, far = 5 + word % 16, word // 16
        index, first, again, second = apart(line, gather, content=random)
        assert index == again == Touched(Touch("index", row, (), 1, False), row + 1)
        assert first.touch == Touch("pad", near, (), 1, False)
        assert second.touch == Touch("pad", far, (), 3, False)
        assert (first.end, second.end) == (near + 1, far + 3)


#: Instructions, the status of what is refused, and what is said.
REFUSED = {
    "a register that there is not": (
        "load which=3 rows=1",
        "INSTRUCTION",
        "address register base[3]: it is of 3",
    ),
    "a register to set that there is not": (
        "point which=2",
        "INSTRUCTION",
        "address register other[2]: it is of 2",
    ),
    "a register that is not set": ("look which=1", "DRAM", "address register other[1] is not set"),
    "a word too many": (
        "load rows=6 gap=4 apart=1\n gather end=7",
        "UOP",
        "words 0 to 6 of index were not all loaded",
    ),
    "a row too many": ("load rows=2 row=5 gap=4 apart=1", "SRAM", "load: row 6 of index"),
    "more words than rows": (
        "load rows=7",
        "INSTRUCTION",
        "load: 7 words of index from 28 bytes; they are of 4 bytes, and the memory has 6",
    ),
    "a byte too many": (
        "copy size=9",
        "INSTRUCTION",
        "copy: 2 words of index from 9 bytes; they are of 4 bytes, and the memory has 6",
    ),
    "a byte too few": (
        "copy size=7",
        "INSTRUCTION",
        "copy: 2 words of index from 7 bytes; they are of 4 bytes, and the memory has 6",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    lines, status, said = REFUSED[name]
    with pytest.raises(ProgramRefusal) as caught:
        apart(*lines.split("\n"))
    assert (caught.value.status, str(caught.value), caught.value.instruction) == (status, said, 0)


def test_words_that_a_device_may_change_are_refused() -> None:
    said = (
        "load: words from memory that a device may change, so that nobody knows where an "
        "instruction goes through them: load them from constants"
    )
    with pytest.raises(ProgramRefusal, match=said) as caught:
        apart("load rows=1 gap=4", content=no_content)
    assert caught.value.status == "UOP"


def test_words_that_are_read_stay() -> None:
    (found,) = apart("show row=5")
    assert found.touch == Touch("index", 5, (), 1, False)


@pytest.mark.parametrize("count", [0, 2, 3, 5])
def test_registers_begin_at_regions(count: int) -> None:
    """As many as both are; the others are not set, and neither is one that does not begin so."""
    for which in range(3):
        if which >= count:
            with pytest.raises(ProgramRefusal, match=rf"base\[{which}\] is not set"):
                apart(f"load which={which} rows=1", count=count)
            continue
        register, read = apart(f"load which={which} rows=1", count=count)[:2]
        assert register == Touched(Touch(("register", "base"), which, (), 1, False), which + 1)
        assert read.touch == Touch(InDram("constants"), 8 * which, (), 4, False)
    with pytest.raises(ProgramRefusal, match=r"base\[3\]: it is of 3"):
        apart("load which=3 rows=1", count=count)
    with pytest.raises(ProgramRefusal, match=r"other\[0\] is not set"):
        apart("look", count=count)


def test_the_last_register_is_set_and_read() -> None:
    (kept,) = apart("point which=1")
    assert kept == Touched(Touch(("register", "other"), 1, (), 1, True), 2)
    register, read = apart("point which=1", "look which=1")
    assert register == Touched(Touch(("register", "other"), 1, (), 1, False), 2)
    assert read.touch == Touch(InDram("constants"), 0, (), 1, False)
