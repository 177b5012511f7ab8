# SPDX-License-Identifier: Apache-2.0
"""isa/follow.py: touches through registers and words, against those of a walk over each place."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadstone.isa.codec import TableInsn
from loadstone.isa.follow import Follower, InDram, ProgramRefusal, Touched
from loadstone.isa.program_tokens import plain_fields
from tests.isa import gather

TABLE = gather.table()
DATA = gather.constants(1)
AT = {"address": ("constants", 0)}


def content(place: tuple[object, int], size: int) -> bytes:
    return DATA[place[1] : place[1] + size]


def follow(*insns: TableInsn) -> list[Touched]:
    """What the last one touches; all addresses are the begin of the constants."""
    follower, found = Follower(TABLE, content), []
    for insn in insns:
        form, fields = TABLE.by_name[insn.name], plain_fields(TABLE, insn)
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
