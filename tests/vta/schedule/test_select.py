# SPDX-License-Identifier: Apache-2.0
"""vta/schedule/select.py: text of what is computed, and of it with its copies. That its numbers are
right is shown by the tests of vta/operators/."""

from __future__ import annotations

from loadstone.ir_pass.insert_dma_copy import insert_dma_copy
from loadstone.ir_pass.nest_text import printed
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.spec import Memory
from loadstone.vta.kernels.memories import memory_table
from loadstone.vta.schedule.epilogue import Immediate
from loadstone.vta.schedule.select import SelectSpec, schedule

CONFIG = load_config("vtaq-1x16x16")
SPEC = SelectSpec(2, 1000, (Immediate("max", -3), Immediate("min", 90)))


def test_a_sum_of_selections_in_tiles_of_pixels() -> None:
    assert printed(schedule(SPEC, CONFIG)) == (
        """\
func select:
  table selection: int8[2] x16x16
  local acc: int32[1000] x1x16
  param x0: int8[1000] x1x16
  param x1: int8[1000] x1x16
  param out: int8[1000] x1x16
  for p0<2:
    group:
      fill(acc[512*p0 + p] | 0) for p<512 if -512*p0 - p + 999 >= 0
      gemm(acc[512*p0 + p], x0[512*p0 + p], selection[0]) for p<512 if -512*p0 - p + 999 >= 0
      gemm(acc[512*p0 + p], x1[512*p0 + p], selection[1]) for p<512 if -512*p0 - p + 999 >= 0
    max(acc[512*p0 + p] | -3); min(acc[512*p0 + p] | 90) for p<512 if -512*p0 - p + 999 >= 0
    copy(out[512*p0 + p], acc[512*p0 + p]) for p<512 if -512*p0 - p + 999 >= 0
"""
    )


def test_the_selection_is_loaded_once_and_all_sources_of_a_tile_before_its_sum() -> None:
    function = insert_dma_copy(schedule(SPEC, CONFIG), memory_table(CONFIG))
    assert printed(function).split("out: int8[1000] x1x16\n")[1] == (
        """\
  alloc selection_chip: int8[2] x16x16 in wgt
  copy(selection_chip[a0], selection[a0]) for a0<2
  for p0<2:
    alloc acc: int32[512] x1x16 in acc
    alloc x0_chip: int8[512] x1x16 in inp
    copy(x0_chip[a0], x0[512*p0 + a0]) for a0<512 if -512*p0 - a0 + 999 >= 0
    alloc x1_chip: int8[512] x1x16 in inp
    copy(x1_chip[a0], x1[512*p0 + a0]) for a0<512 if -512*p0 - a0 + 999 >= 0
    group:
      fill(acc[p] | 0) for p<512 if -512*p0 - p + 999 >= 0
      gemm(acc[p], x0_chip[p], selection_chip[0]) for p<512 if -512*p0 - p + 999 >= 0
      gemm(acc[p], x1_chip[p], selection_chip[1]) for p<512 if -512*p0 - p + 999 >= 0
    max(acc[p] | -3); min(acc[p] | 90) for p<512 if -512*p0 - p + 999 >= 0
    copy(out[512*p0 + p], acc[p]) for p<512 if -512*p0 - p + 999 >= 0
"""
    )


def test_a_tile_leaves_room_for_the_next_one_of_all_sources() -> None:
    """17 sources: as many pixels of each as half of the inputs' scratchpad holds."""
    function = schedule(SelectSpec(17, 1000, ()), CONFIG)
    assert CONFIG.depth(Memory.INP) // 17 // 2 == 60
    assert "for p0<17:" in printed(function)
    assert "copy(out[60*p0 + p], acc[60*p0 + p])" in printed(function)
