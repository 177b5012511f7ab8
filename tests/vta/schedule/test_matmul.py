# SPDX-License-Identifier: Apache-2.0
"""vta/schedule/matmul.py: text of what is computed, and of it with its copies. That its numbers are
right is shown by the tests of vta/operators/."""

from __future__ import annotations

import pytest

from loadstone.errors import LoweringError
from loadstone.ir_pass.insert_dma_copy import insert_dma_copy
from loadstone.ir_pass.nest_text import printed
from loadstone.numerics import Rounding
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.kernels.memories import memory_table
from loadstone.vta.schedule.epilogue import Immediate, Rq
from loadstone.vta.schedule.matmul import MatmulSpec, schedule

CONFIG = load_config("vtaq-1x16x16")
#: Two parts make up the zero point of x, one that of w. The last tile has 13 rows of 24.
SPEC = MatmulSpec(1, 2, 301, 7, 40, (2, 1), (Rq(3, -128, 127, Rounding.DOUBLE),))


def test_each_part_of_a_zero_point_is_a_product_onto_the_same_sum() -> None:
    assert printed(schedule(SPEC, CONFIG)) == (
        """\
func matmul:
  table second: int8[7, 1] x16x16
  table first: int8[7, 2] x1x16
  table p: int32[3] x1x16
  param w: int8[1, 7, 2, 40] x16x16
  local acc: int32[1, 40, 2, 301] x1x16
  param x: int8[1, 7, 2, 301] x1x16
  param out: int8[1, 40, 2, 301] x1x16
  for n0<1:
    for h0<2:
      for o0<1:
        for m0<13:
          group:
            fill(acc[n0, 40*o0 + o, h0, 24*m0 + m] | 0) for o<40 m<24 if -24*m0 - m + 300 >= 0
            gemm(acc[n0, 40*o0 + o, h0, 24*m0 + m], x[n0, c, h0, 24*m0 + m], w[n0, c, h0, 40*o0 + o]) for o<40 m<24 c<7 if -24*m0 - m + 300 >= 0
            gemm(acc[n0, 40*o0 + o, h0, 24*m0 + m], first[c, 0], w[n0, c, h0, 40*o0 + o]) for o<40 m<24 c<7 if -24*m0 - m + 300 >= 0
            gemm(acc[n0, 40*o0 + o, h0, 24*m0 + m], first[c, 1], w[n0, c, h0, 40*o0 + o]) for o<40 m<24 c<7 if -24*m0 - m + 300 >= 0
            gemm(acc[n0, 40*o0 + o, h0, 24*m0 + m], x[n0, c, h0, 24*m0 + m], second[c, 0]) for o<40 m<24 c<7 if -24*m0 - m + 300 >= 0
          rq(acc[n0, 40*o0 + o, h0, 24*m0 + m], p[0] | 3, -128, 127, 0) for o<40 m<24 if -24*m0 - m + 300 >= 0
          copy(out[n0, 40*o0 + o, h0, 24*m0 + m], acc[n0, 40*o0 + o, h0, 24*m0 + m]) for o<40 m<24 if -24*m0 - m + 300 >= 0
"""  # noqa: E501
    )


def test_the_second_factor_stays_over_all_tiles_of_rows() -> None:
    function = insert_dma_copy(schedule(SPEC, CONFIG), memory_table(CONFIG))
    assert printed(function).split("out: int8[1, 40, 2, 301] x1x16\n")[1] == (
        """\
  alloc second_chip: int8[7, 1] x16x16 in wgt
  copy(second_chip[a0, 0], second[a0, 0]) for a0<7
  alloc first_chip: int8[7, 2] x1x16 in inp
  copy(first_chip[a0, a1], first[a0, a1]) for a0<7 a1<2
  alloc p_chip: int32[3] x1x16 in acc
  copy(p_chip[a0], p[a0]) for a0<3
  for n0<1:
    for h0<2:
      for o0<1:
        alloc w_chip: int8[1, 7, 1, 40] x16x16 in wgt
        copy(w_chip[0, a1, 0, a3], w[n0, a1, h0, 40*o0 + a3]) for a1<7 a3<40
        for m0<13:
          alloc acc: int32[1, 40, 1, 24] x1x16 in acc
          alloc x_chip: int8[1, 7, 1, 24] x1x16 in inp
          copy(x_chip[0, a1, 0, a3], x[n0, a1, h0, 24*m0 + a3]) for a1<7 a3<24 if -24*m0 - a3 + 300 >= 0
          group:
            fill(acc[0, o, 0, m] | 0) for o<40 m<24 if -24*m0 - m + 300 >= 0
            gemm(acc[0, o, 0, m], x_chip[0, c, 0, m], w_chip[0, c, 0, o]) for o<40 m<24 c<7 if -24*m0 - m + 300 >= 0
            gemm(acc[0, o, 0, m], first_chip[c, 0], w_chip[0, c, 0, o]) for o<40 m<24 c<7 if -24*m0 - m + 300 >= 0
            gemm(acc[0, o, 0, m], first_chip[c, 1], w_chip[0, c, 0, o]) for o<40 m<24 c<7 if -24*m0 - m + 300 >= 0
            gemm(acc[0, o, 0, m], x_chip[0, c, 0, m], second_chip[c, 0]) for o<40 m<24 c<7 if -24*m0 - m + 300 >= 0
          rq(acc[0, o, 0, m], p_chip[0] | 3, -128, 127, 0) for o<40 m<24 if -24*m0 - m + 300 >= 0
          copy(out[n0, 40*o0 + o, h0, 24*m0 + m], acc[0, o, 0, m]) for o<40 m<24 if -24*m0 - m + 300 >= 0
"""  # noqa: E501
    )


def test_without_zero_points_and_operands_there_is_one_product() -> None:
    function = schedule(MatmulSpec(2, 1, 30, 2, 4, (0, 0), (Immediate("max", 0),)), CONFIG)
    text = printed(function)
    assert [tensor.name for tensor in function.parameters] == ["w", "x", "out"]
    assert text.count("gemm(") == 1
    assert "max(acc[n0, 4*o0 + o, h0, 30*m0 + m] | 0) for o<4 m<30" in text


def test_a_sum_that_fits_no_scratchpad_is_refused() -> None:
    with pytest.raises(LoweringError, match="a sum of 600 blocks of channels fits no scratchpad"):
        schedule(MatmulSpec(1, 1, 1, 600, 1, (0, 0), ()), CONFIG)
