# SPDX-License-Identifier: Apache-2.0
"""vta/schedule/bilinear.py: text of what is computed, and of it with its copies. That its numbers
are right is shown by tests/vta/operators/test_bilinear.py."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loadstone.errors import LoweringError
from loadstone.ir_pass.insert_dma_copy import insert_dma_copy
from loadstone.ir_pass.nest_text import printed
from loadstone.numerics import Rounding
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.kernels.memories import memory_table
from loadstone.vta.schedule.bilinear import BilinearSpec, PixelRun, schedule
from loadstone.vta.schedule.epilogue import Immediate, Rq

CONFIG = load_config("vtaq-tiny")
#: Twice as many rows, between their corners. Of 256 input tiles and accumulators two sets of four
#: rows fit.
SPEC = BilinearSpec(
    planes=1,
    input=(5, 20),
    output=(9, 20),
    rows=(PixelRun(0, 2, 5, 0, (2, 0)), PixelRun(1, 2, 4, 0, (1, 1))),
    columns=(PixelRun(0, 1, 20, 0, (1, 0)),),
    steps=(1, Rq(0, -128, 127, Rounding.DOUBLE)),
)


def test_each_chunk_has_its_own_products_and_accumulators() -> None:
    assert printed(schedule(SPEC, CONFIG)) == (
        """\
func bilinear:
  table diagonals: int8[2] x4x4
  table operands: int32[3] x1x4
  local acc: int32[4, 20] x1x4
  local acc_2: int32[4, 20] x1x4
  local acc_3: int32[1, 20] x1x4
  param x: int8[1, 5, 20] x1x4
  param out: int8[1, 9, 20] x1x4
  for plane<1:
    for chunk<1:
      group:
        fill(acc[i, j] | 0) for i<4 j<20
        gemm(acc[2*i, j], x[plane, chunk + i, j], diagonals[1]) for i<2 j<20
      gemm(acc[2*i + 1, j], x[plane, chunk + i, j], diagonals[0]) for i<2 j<20
      gemm(acc[2*i + 1, j], x[plane, chunk + i + 1, j], diagonals[0]) for i<2 j<20
      rq(acc[i, j], operands[0] | 0, -128, 127, 0) for i<4 j<20
      copy(out[plane, i, j], acc[i, j]) for i<4 j<20
    for chunk<1:
      group:
        fill(acc_2[i, j] | 0) for i<4 j<20
        gemm(acc_2[2*i, j], x[plane, chunk + i + 2, j], diagonals[1]) for i<2 j<20
      gemm(acc_2[2*i + 1, j], x[plane, chunk + i + 2, j], diagonals[0]) for i<2 j<20
      gemm(acc_2[2*i + 1, j], x[plane, chunk + i + 3, j], diagonals[0]) for i<2 j<20
      rq(acc_2[i, j], operands[0] | 0, -128, 127, 0) for i<4 j<20
      copy(out[plane, i + 4, j], acc_2[i, j]) for i<4 j<20
    for chunk<1:
      group:
        fill(acc_3[i, j] | 0) for i<1 j<20
        gemm(acc_3[2*i, j], x[plane, chunk + i + 4, j], diagonals[1]) for i<1 j<20
      rq(acc_3[i, j], operands[0] | 0, -128, 127, 0) for i<1 j<20
      copy(out[plane, i + 8, j], acc_3[i, j]) for i<1 j<20
"""
    )


def test_a_chunk_loads_the_rows_that_it_reads_and_the_weights_stay() -> None:
    function = insert_dma_copy(schedule(SPEC, CONFIG), memory_table(CONFIG))
    assert printed(function).split("out: int8[1, 9, 20] x1x4\n")[1] == (
        """\
  alloc diagonals_chip: int8[2] x4x4 in wgt
  copy(diagonals_chip[a0], diagonals[a0]) for a0<2
  alloc operands_chip: int32[3] x1x4 in acc
  copy(operands_chip[a0], operands[a0]) for a0<3
  for plane<1:
    for chunk<1:
      alloc acc: int32[4, 20] x1x4 in acc
      alloc x_chip: int8[1, 3, 20] x1x4 in inp
      copy(x_chip[0, a1, a2], x[plane, chunk + a1, a2]) for a1<3 a2<20
      group:
        fill(acc[i, j] | 0) for i<4 j<20
        gemm(acc[2*i, j], x_chip[0, i, j], diagonals_chip[1]) for i<2 j<20
      gemm(acc[2*i + 1, j], x_chip[0, i, j], diagonals_chip[0]) for i<2 j<20
      gemm(acc[2*i + 1, j], x_chip[0, i + 1, j], diagonals_chip[0]) for i<2 j<20
      rq(acc[i, j], operands_chip[0] | 0, -128, 127, 0) for i<4 j<20
      copy(out[plane, i, j], acc[i, j]) for i<4 j<20
    for chunk<1:
      alloc acc: int32[4, 20] x1x4 in acc
      alloc x_chip: int8[1, 3, 20] x1x4 in inp
      copy(x_chip[0, a1, a2], x[plane, chunk + a1 + 2, a2]) for a1<3 a2<20
      group:
        fill(acc[i, j] | 0) for i<4 j<20
        gemm(acc[2*i, j], x_chip[0, i, j], diagonals_chip[1]) for i<2 j<20
      gemm(acc[2*i + 1, j], x_chip[0, i, j], diagonals_chip[0]) for i<2 j<20
      gemm(acc[2*i + 1, j], x_chip[0, i + 1, j], diagonals_chip[0]) for i<2 j<20
      rq(acc[i, j], operands_chip[0] | 0, -128, 127, 0) for i<4 j<20
      copy(out[plane, i + 4, j], acc[i, j]) for i<4 j<20
    for chunk<1:
      alloc acc: int32[1, 20] x1x4 in acc
      alloc x_chip: int8[1, 1, 20] x1x4 in inp
      copy(x_chip[0, 0, a2], x[plane, chunk + 4, a2]) for a2<20
      group:
        fill(acc[i, j] | 0) for i<1 j<20
        gemm(acc[2*i, j], x_chip[0, i, j], diagonals_chip[1]) for i<1 j<20
      rq(acc[i, j], operands_chip[0] | 0, -128, 127, 0) for i<1 j<20
      copy(out[plane, i + 8, j], acc[i, j]) for i<1 j<20
"""
    )


def test_each_number_of_the_steps_is_the_sum_once_more() -> None:
    steps = (1, Immediate("shr", 1), 100, Immediate("max", -128))
    spec = replace(SPEC, output=(1, 20), rows=(PixelRun(0, 1, 1, 0, (2, 0)),), steps=steps)
    assert spec.parts(200) == [100, 100]
    assert spec.diagonals == (2, 100)
    text = printed(schedule(spec, CONFIG))
    assert "operands" not in text
    names = [line.strip().partition("(")[0] for line in text.splitlines() if "(" in line]
    assert names == ["fill", "gemm", "shr", "gemm", "gemm", "max", "copy"]


def test_the_part_of_a_run_in_a_chunk_reads_where_the_whole_one_does() -> None:
    run = PixelRun(1, 2, 4, 0, (1, 1))  # rows 1, 3, 5, 7 read from 0, 1, 2, 3 on
    assert run.within(2, 6) == PixelRun(3, 2, 2, 1, (1, 1))
    assert run.within(8, 9) is None
    assert run.within(0, 1) is None


def test_a_row_that_fits_no_scratchpad_is_refused() -> None:
    spec = replace(SPEC, input=(5, 300), output=(9, 300), columns=(PixelRun(0, 1, 300, 0, (1, 0)),))
    with pytest.raises(LoweringError, match="a row of 300 pixels does not fit vtaq-tiny"):
        schedule(spec, CONFIG)
