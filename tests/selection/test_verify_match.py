# SPDX-License-Identifier: Apache-2.0
"""selection/verify_match.py: what was matched is replayed; every wrong instruction is found."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from loadstone.errors import LoweringError
from loadstone.ir_pass.nest_text import parsed
from loadstone.isa.codec import At
from loadstone.isa.tiles import InTile, LocalTile, TiledInsn
from loadstone.selection.match_instructions import Matched, match_instructions
from loadstone.selection.meanings import Meanings
from loadstone.selection.verify_match import verify_match
from tests.selection.devices import (
    DENSE,
    DENSE_WITHOUT_COPIES,
    chooser,
    meanings,
    with_meaning,
)

NESTS = parsed(DENSE_WITHOUT_COPIES)


def matched() -> Matched:
    return match_instructions(parsed(DENSE), chooser())


def test_what_is_right_passes() -> None:
    verify_match(NESTS, matched(), meanings())


def test_sums_may_come_in_any_order() -> None:
    """Both tiles of inputs are swapped, and the first product still overwrites."""
    made = matched()
    first, second = made.instructions[:4], made.instructions[4:8]
    begun = [TiledInsn(insn.name, {**insn.fields}) for insn in (*second, *first)]
    begun[3] = TiledInsn("compute", {**begun[3].fields, "adds": 0})
    begun[7] = TiledInsn("compute", {**begun[7].fields, "adds": 1})
    verify_match(NESTS, replace(made, instructions=begun + made.instructions[8:]), meanings())


def test_every_field_that_is_wrong_is_found() -> None:
    """Each number of each instruction, one more and one less; each place, one row off."""
    made, count = matched(), 0
    for number, insn in enumerate(made.instructions):
        for name, value in insn.fields.items():
            for wrong in _others(value):
                changed = list(made.instructions)
                changed[number] = TiledInsn(insn.name, {**insn.fields, name: wrong})
                if (insn.name, name) == ("compute", "adds") and wrong not in (0, 1):
                    continue
                with pytest.raises(LoweringError, match="verify_match: "):
                    verify_match(NESTS, replace(made, instructions=changed), meanings())
                count += 1
    assert count > 80


def _others(value: int | At | InTile) -> list[int | At | InTile]:
    if isinstance(value, At):
        more = [At(value.symbol, value.offset_bytes + n) for n in (4, -4, 1)]
        return [*more, At("p" if value.symbol != "p" else "x", value.offset_bytes)]
    if isinstance(value, InTile):
        other = LocalTile(value.tile.memory, 9, "another")
        return [InTile(value.tile, value.row + 1), InTile(value.tile, value.row - 1), InTile(other)]
    return [value + 1, value - 1]


def test_every_instruction_is_needed_where_it_is() -> None:
    made = matched()
    for number, insn in enumerate(made.instructions):
        left = made.instructions[:number] + made.instructions[number + 1 :]
        with pytest.raises(LoweringError, match="verify_match: "):
            verify_match(NESTS, replace(made, instructions=left), meanings())
        if insn.name == "compute":  # adds twice
            twice = made.instructions[: number + 1] + made.instructions[number:]
            if insn.fields["adds"]:
                with pytest.raises(LoweringError, match="place 0 of out is not what the nests sa"):
                    verify_match(NESTS, replace(made, instructions=twice), meanings())


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            lambda f: {**f, "row": InTile(LocalTile("scratchpad", 3, "wrong"))},
            "leaves what row name",
        ),
        (
            lambda f: {**f, "row": InTile(LocalTile("accumulator", 9, "sums"))},
            "finds sums not in sc",
        ),
        (lambda f: {**f, "row": At("x")}, "place"),
    ],
)
def test_what_cannot_be_is_said(
    change: Callable[[dict[str, object]], dict[str, int]], why: str
) -> None:
    made = matched()
    changed = list(made.instructions)
    changed[2] = TiledInsn("preload", change(dict(changed[2].fields)))
    with pytest.raises(LoweringError, match=why):
        verify_match(NESTS, replace(made, instructions=changed), meanings())


def test_an_instruction_needs_one_meaning() -> None:
    none = Meanings(with_meaning("preload", "copy(weights[0], scratchpad[row])"))
    twice = replace_all(none, "compute")
    with pytest.raises(LoweringError, match=re.escape("instruction 3, compute, has 2 meanings")):
        verify_match(NESTS, matched(), twice)


def replace_all(made: Meanings, form: str) -> Meanings:
    """With every meaning of a form twice."""
    made.all = (*made.all, *(m for m in made.all if m.form.name == form))
    return made


def test_an_operand_of_several_places_ends_inside_its_memory() -> None:
    """Four rows of weights from row 13 on; the array keeps sixteen."""
    product = "gemm(accumulator[target + i], scratchpad[row + step*i], weights[13]) for i<rows"
    texts = f"fill(accumulator[target + i] | 0); {product} where adds=0", f"{product} where adds=1"
    with pytest.raises(LoweringError, match=re.escape("compute, reads beyond weights[13]")):
        verify_match(NESTS, matched(), Meanings(with_meaning("compute", *texts)))
