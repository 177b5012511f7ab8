# SPDX-License-Identifier: Apache-2.0
"""selection/match_instructions.py: text in, text out."""

from __future__ import annotations

import pytest

from loadstone.errors import LoweringError
from loadstone.ir_pass.nest_text import parsed
from loadstone.selection.choose import Chooser
from loadstone.selection.match_instructions import (
    DramConstant,
    match_instructions,
    text_of_instructions,
    unit_cycles,
)
from loadstone.selection.meanings import Meanings
from tests.selection.devices import DENSE, chooser, with_meaning

DENSE_MATCHED = """\
mvin rows=3 stride=8 row=x_chip[0] address=@x+0
mvin rows=4 stride=4 row=w_chip[0] address=@w+0
preload row=w_chip[0]
compute adds=0 rows=3 step=1 target=acc[0] row=x_chip[0]
mvin rows=3 stride=8 row=x_chip_2[0] address=@x+4
mvin rows=4 stride=4 row=w_chip_2[0] address=@w+16
preload row=w_chip_2[0]
compute adds=1 rows=3 step=1 target=acc[0] row=x_chip_2[0]
mvin_sums rows=3 stride=16 row=p_chip[0] address=@p+0
scale zero_point=5 low=-128 high=127 rounding=0 row=p_chip[0]
mvout rows=3 stride=4 address=@out+0 row=acc[0]
"""
PADDED = """\
func padded:
  param x: int8[2, 3] x1x4
  param out: int8[2, 3] x1x4
  param p: int32[3] x1x4
  alloc x_chip: int8[4, 3] x1x4 in scratchpad
  copy(x_chip[a, b], x[a - 1, b else -5]) for a<4 b<3
  alloc p_chip: int32[3] x1x4 in accumulator
  copy(p_chip[a], p[a]) for a<3
  alloc acc: int32[2] x1x4 in accumulator
  fill(acc[i] | 9) for i<2
  rq(acc[i], p_chip[0] | 0, 0, 1, 2) for i<2
  copy(out[0, i], acc[i]) for i<2
"""
PADDED_MATCHED = """\
mvin rows=6 stride=4 row=x_chip[3] address=@x+0
mvin rows=3 stride=0 row=x_chip[0] address=@4_int8_of_-5+0
mvin rows=3 stride=0 row=x_chip[9] address=@4_int8_of_-5+0
mvin_sums rows=3 stride=16 row=p_chip[0] address=@p+0
mvin_sums rows=2 stride=0 row=acc[0] address=@4_int32_of_9+0
scale zero_point=0 low=0 high=1 rounding=2 row=p_chip[0]
mvout rows=2 stride=4 address=@out+0 row=acc[0]
"""


@pytest.mark.parametrize(("text", "wanted"), [(DENSE, DENSE_MATCHED), (PADDED, PADDED_MATCHED)])
def test_text_in_text_out(text: str, wanted: str) -> None:
    assert text_of_instructions(match_instructions(parsed(text), chooser())) == wanted


def test_constants_have_their_values() -> None:
    made = match_instructions(parsed(PADDED), chooser())
    assert list(made.constants.values()) == [
        DramConstant(-5, "int8", 4),
        DramConstant(9, "int32", 4),
    ]


def test_a_filled_memory_is_filled_again_where_its_source_was_written() -> None:
    """Weights that are computed with, changed and used again."""
    text = DENSE.replace(
        "    gemm(acc[i, 0], x_chip[i, 0], w_chip[0, 0, 0]) for i<3\n",
        "    gemm(acc[i, 0], x_chip[i, 0], w_chip[0, 0, 0]) for i<3\n"
        "    gemm(acc[i, 0], x_chip[i, 0], w_chip[0, 0, 0]) for i<3\n"
        "    copy(w_chip[0, 0, a2], w[0, 0, a2]) for a2<4\n"
        "    gemm(acc[i, 0], x_chip[i, 0], w_chip[0, 0, 0]) for i<3\n",
    )
    found = text_of_instructions(match_instructions(parsed(text), chooser()))
    names = [line.split()[0] for line in found.splitlines()][:8]
    assert names == ["mvin", "mvin", "preload", "compute", "compute", "mvin", "preload", "compute"]


def test_a_value_that_is_read_later_is_not_left_in_the_store() -> None:
    """MVOUT scales on the way out; the sums stay as they are. Here they are needed scaled."""
    twice = DENSE.replace("  copy(out[i, 0], acc[i, 0]) for i<3\n", "") + (
        "  copy(out[i, 0], acc[i, 0]) for i<3\n" * 2
    )
    with pytest.raises(LoweringError, match=r"no instruction of systolic means rq\(acc in accumul"):
        match_instructions(parsed(twice), chooser())


def test_what_nothing_means_is_named() -> None:
    none = Chooser(Meanings(with_meaning("compute", "copy(weights[0], scratchpad[row])")), None)
    with pytest.raises(LoweringError, match=r"no instruction of systolic means gemm\(acc in accum"):
        match_instructions(parsed(DENSE), none)


def test_cycles_of_units() -> None:
    cycles = unit_cycles(parsed(DENSE), chooser())
    made = match_instructions(parsed(DENSE), chooser()).instructions
    assert set(cycles) == {"load", "array", "store"}
    assert cycles["array"] == 2 * (4 + 1 + 3)
    assert len(made) == 11
    assert unit_cycles(parsed(DENSE), chooser(), most=15) == {}
