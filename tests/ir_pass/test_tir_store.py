# SPDX-License-Identifier: Apache-2.0
"""ir_pass/tir_store.py: which step a store is, and what is refused; test_from_tir.py reads whole
functions."""

from __future__ import annotations

from functools import cache

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.errors import LoweringError
from loadstone.ir_pass.insert_dma_copy import insert_dma_copy
from loadstone.ir_pass.nest_text import parsed, printed
from tests.ir_pass.test_from_tir import SUM, TABLE, read, written


@cache
def inserted() -> str:
    return written(printed(insert_dma_copy(parsed(SUM), TABLE)))


REFUSED: dict[str, tuple[str, str, str]] = {
    "part": ("T.grid(4, 3, 1, 16, 16)", "T.grid(4, 3, 1, 8, 16)", "accessed within a tile"),
    "lane": ("acc[i, lane_b, lane] = 0", "acc[i, lane_b, 0] = 0", "acc is accessed within"),
    "guard": ("if t * 4 + i < 10:", "if t * 4 + i < 10 and lane < 9:", "part of the lanes"),
    "floordiv": ("x_chip[i, j, lane_b, k]", "x_chip[i // 2, j, lane_b, k]",
                 r"i // 2 is no sum of multiples of loops: split a loop"),
    "memory": ('scope="local.wgt"', 'scope="local.inp"',
               "gemm reads operand 2 from wgt, and w_chip stands in inp"),
    "some": ("w_chip[j, lane, k]", "w[j, lane, k]",
             "gemm reads operand 2 from wgt, and w stands in DRAM"),
    "window": ("a1 >= 1", "a1 >= 2", "leaves a part of it: a pad is what"),
    "pads": ("a1 >= 1", "a1 >= 0", "leaves more than it: a pad is what"),
    "arithmetic": ("acc[i, lane_b, lane] = 0", "acc[i, lane_b, lane] = "
                   "acc[i, lane_b, lane] // 2", "no step does"),
    "dram": ('T.Cast("int8", acc[i, lane_b, lane])', "x[i, 0, lane_b, lane]",
             "out is in DRAM, to which only what stands in a scratchpad is copied"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_understood_is_refused(case: str) -> None:
    old, new, message = REFUSED[case]
    text = inserted()
    assert old in text, text
    with pytest.raises(LoweringError, match=message) as caught:
        read(text.replace(old, new))
    assert "\n" not in str(caught.value)


def test_a_reduction_that_tvm_writes_as_arithmetic_is_a_step() -> None:
    text = """\
func maxima:
  param x: int32[4] x1x16
  local acc: int32[1] x1x16
  param out: int8[1] x1x16
  fill(acc[0] | -9)
  max(acc[0], x[i]) for i<4
  copy(out[0], acc[0])
"""
    call = 'T.call_pure_extern("int32", "lds.max", acc[0, lane_b, lane], x[i, lane_b, lane])'
    assert call in written(text)
    assert (
        read(written(text).replace(call, "T.max(acc[0, lane_b, lane], x[i, lane_b, lane])")) == text
    )


def test_a_sum_of_products_is_a_nest_for_each() -> None:
    text = """\
func products:
  param x: int8[4] x1x16
  param a: int8[4] x1x16
  param w: int8[1] x16x16
  local acc: int32[1] x1x16
  param out: int8[1] x1x16
  fill(acc[0] | 0)
  gemm(acc[0], x[i], w[0]) for i<4
  gemm(acc[0], a[i], w[0]) for i<4
  copy(out[0], acc[0])
"""
    product = ' + T.Cast("int32", x[i, lane_b, k]) * T.Cast("int32", w[0, lane, k])'
    first, _, rest = written(text).partition(product)
    second = (
        rest.index("        for i, lane_b, lane, k")
        if "        for i, lane_b, lane, k" in rest
        else rest.index("for i, lane_b, lane, k")
    )
    end = rest.index("for lane_b, lane in", second)
    both = (
        first
        + product
        + product.replace("x[", "a[")
        + rest[:second].rstrip(" ")
        + "    "
        + rest[end:]
    )
    assert read(both) == text
    turned = both.replace(
        'T.Cast("int32", x[i, lane_b, k]) * T.Cast("int32", w[0, lane, k])',
        'T.Cast("int32", w[0, lane, k]) * T.Cast("int32", x[i, lane_b, k])',
    )
    assert turned != both
    assert read(turned) == text


def test_three_tiles_of_a_requantization_follow_each_other() -> None:
    text = """\
func scaled:
  table p: int32[2, 3] x1x16
  local acc: int32[4] x1x16
  param out: int8[4] x1x16
  fill(acc[i] | 5) for i<4
  rq(acc[i], p[1, 0] | 3, -128, 127, 0) for i<4
  copy(out[i], acc[i]) for i<4
"""
    assert read(written(text)) == text
    with pytest.raises(
        LoweringError, match="3 operands of rq do not stand in consecutive tiles of p"
    ):
        read(written(text).replace("p[1, 2, lane_b, lane]", "p[0, 2, lane_b, lane]"))
    with pytest.raises(LoweringError, match="rq of p lacks an operand"):
        read(written(text).replace(", p[1, 2, lane_b, lane]", ""))
