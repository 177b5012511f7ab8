# SPDX-License-Identifier: Apache-2.0
"""vta/schedule/max_pool.py: text of what is computed, and of it with its copies. That its numbers
are right is shown by the tests of vta/operators/."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loadstone.errors import LoweringError
from loadstone.ir_pass.insert_dma_copy import insert_dma_copy
from loadstone.ir_pass.nest_text import printed
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.kernels.memories import memory_table
from loadstone.vta.schedule.epilogue import Immediate
from loadstone.vta.schedule.max_pool import MaxPoolSpec, schedule

CONFIG = load_config("vtaq-1x16x16")
#: Rows of 150 pixels, of which two sets of an odd number of rows fit the accumulators.
SPEC = MaxPoolSpec(
    blocks=2,
    input=(61, 150),
    output=(31, 76),
    kernel=(3, 3),
    strides=(2, 2),
    padding=(1, 1),
    tail=(Immediate("max", -3),),
)


def test_windows_that_overlap_read_their_pixels_in_each_tile() -> None:
    assert printed(schedule(SPEC, CONFIG)) == (
        """\
func max_pool:
  table identity: int8[1] x16x16
  local pixels: int32[2, 63, 153] x1x16
  local largest: int32[2, 31, 76] x1x16
  param x: int8[2, 61, 150] x1x16
  param out: int8[2, 31, 76] x1x16
  for c_0<2:
    for i_0<16:
      group:
        fill(pixels[c_0, 4*i_0 + u, v] | 0) for u<5 v<153 if -4*i_0 - u + 62 >= 0
        gemm(pixels[c_0, 4*i_0 + u, v], x[c_0, 4*i_0 + u - 1, v - 1 else -128], identity[0]) for u<5 v<153 if -4*i_0 - u + 62 >= 0
      fill(largest[c_0, 2*i_0 + i, j] | -128) for i<2 j<76 if -2*i_0 - i + 30 >= 0
      max(largest[c_0, 2*i_0 + i, j], pixels[c_0, 4*i_0 + 2*i + ky, 2*j + kx]) for ky<3 kx<3 i<2 j<76 if -2*i_0 - i + 30 >= 0
      max(largest[c_0, 2*i_0 + i, j] | -3) for i<2 j<76 if -2*i_0 - i + 30 >= 0
      copy(out[c_0, 2*i_0 + i, j], largest[c_0, 2*i_0 + i, j]) for i<2 j<76 if -2*i_0 - i + 30 >= 0
"""  # noqa: E501
    )


def test_a_tile_is_loaded_with_its_pads_and_the_last_one_no_further_than_windows_reach() -> None:
    function = insert_dma_copy(schedule(SPEC, CONFIG), memory_table(CONFIG))
    assert printed(function).split("out: int8[2, 31, 76] x1x16\n")[1] == (
        """\
  alloc identity_chip: int8[1] x16x16 in wgt
  copy(identity_chip[0], identity[0])
  for c_0<2:
    for i_0<16:
      alloc pixels: int32[1, 5, 153] x1x16 in acc
      alloc x_chip: int8[1, 5, 153] x1x16 in inp
      copy(x_chip[0, a1, a2], x[c_0, 4*i_0 + a1 - 1, a2 - 1 else -128]) for a1<5 a2<153 if -4*i_0 - a1 + 62 >= 0
      group:
        fill(pixels[0, u, v] | 0) for u<5 v<153 if -4*i_0 - u + 62 >= 0
        gemm(pixels[0, u, v], x_chip[0, u, v], identity_chip[0]) for u<5 v<153 if -4*i_0 - u + 62 >= 0
      alloc largest: int32[1, 2, 76] x1x16 in acc
      fill(largest[0, i, j] | -128) for i<2 j<76 if -2*i_0 - i + 30 >= 0
      max(largest[0, i, j], pixels[0, 2*i + ky, 2*j + kx]) for ky<3 kx<3 i<2 j<76 if -2*i_0 - i + 30 >= 0
      max(largest[0, i, j] | -3) for i<2 j<76 if -2*i_0 - i + 30 >= 0
      copy(out[c_0, 2*i_0 + i, j], largest[0, i, j]) for i<2 j<76 if -2*i_0 - i + 30 >= 0
"""  # noqa: E501
    )


def test_blocks_whose_rows_all_fit_are_one_tile() -> None:
    spec = replace(SPEC, blocks=7, input=(16, 8), output=(8, 4), kernel=(2, 2), padding=(0, 0))
    text = printed(schedule(spec, CONFIG))
    assert "  for c_0<2:\n    group:\n" in text  # 2 * 6 * (16 * 8 + 8 * 4) accumulators
    assert "for c<6 i<8 j<4 if -6*c_0 - c + 6 >= 0" in text


def test_real_numbers_are_padded_with_the_bits_of_the_least_finite_one() -> None:
    config = load_config("vtab-1x16x16")
    spec = replace(SPEC, blocks=1, input=(8, 9), output=(4, 5), tail=())
    text = printed(insert_dma_copy(schedule(spec, config), memory_table(config)))
    least = 0xFF7F - (1 << 16)
    assert f"x[0, a1 - 1, a2 - 1 else {least}]) for a1<9 a2<11" in text
    assert f"fill(largest[0, i, j] | {least}) for i<4 j<5" in text
    assert "alloc x_chip: int16[1, 9, 11] x1x16 in inp" in text


def test_a_window_that_fits_no_scratchpad_is_refused() -> None:
    spec = replace(SPEC, input=(90, 90), output=(1, 1), kernel=(90, 90), padding=(0, 0))
    with pytest.raises(LoweringError, match="windows of 90x90 pixels fit no scratchpad"):
        schedule(spec, CONFIG)
