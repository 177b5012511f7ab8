# SPDX-License-Identifier: Apache-2.0
"""vta/schedule/elementwise.py: text of what is computed, and of it with its copies."""

from __future__ import annotations

from loadstone.ir_pass.insert_dma_copy import insert_dma_copy
from loadstone.ir_pass.nest_text import printed
from loadstone.numerics import Rounding
from loadstone.vta.device.hw_config import HwConfig, load_config
from loadstone.vta.kernels.memories import memory_table
from loadstone.vta.schedule.elementwise import SUM, ElementwiseSpec, Input, schedule
from loadstone.vta.schedule.epilogue import Immediate, Rq

EVERYWHERE = (True, True, True)
CONFIG = load_config("vtaq-1x16x16")


def text(spec: ElementwiseSpec) -> str:
    return printed(schedule(spec, CONFIG))


def with_copies(spec: ElementwiseSpec, config: HwConfig = CONFIG) -> str:
    return printed(insert_dma_copy(schedule(spec, config), memory_table(config)))


def steps(spec: ElementwiseSpec) -> list[str]:
    """What is done, in order: steps with their first operands, and the loops over tiles."""
    lines = (line.strip() for line in with_copies(spec).splitlines()[1:])
    return [line.partition("[")[0] for line in lines if "(" in line or line.startswith("for")]


def requantized(zero_point: int) -> Rq:
    return Rq(zero_point, -128, 127, Rounding.DOUBLE)


#: An addition, whose second input does not move along the last loop.
ADDITION = ElementwiseSpec(
    (1, 3, 50),
    (
        Input(EVERYWHERE, (requantized(1),)),
        Input((True, True, False), (requantized(2), Immediate("mul", -1))),
    ),
    "add",
    (requantized(3),),
    (1, 2, 7),
)


def test_the_second_input_comes_first() -> None:
    assert text(ADDITION) == (
        """\
func elementwise:
  table p: int32[3, 3] x1x16
  table identity: int8[1] x16x16
  local a_acc: int32[1, 3, 50] x1x16
  local b_acc: int32[1, 3] x1x16
  param a: int8[1, 3, 50] x1x16
  param b: int8[1, 3] x1x16
  param out: int8[1, 3, 50] x1x16
  for j0<2:
    for k0<8:
      group:
        fill(b_acc[0, 2*j0 + j] | 0) for j<2 if -2*j0 - j + 2 >= 0
        gemm(b_acc[0, 2*j0 + j], b[0, 2*j0 + j], identity[0]) for j<2 if -2*j0 - j + 2 >= 0
      rq(b_acc[0, 2*j0 + j], p[1, 0] | 2, -128, 127, 0); mul(b_acc[0, 2*j0 + j] | -1) for j<2 if -2*j0 - j + 2 >= 0
      group:
        fill(a_acc[0, 2*j0 + j, 7*k0 + k] | 0) for j<2 k<7 if -2*j0 - j + 2 >= 0, -7*k0 - k + 49 >= 0
        gemm(a_acc[0, 2*j0 + j, 7*k0 + k], a[0, 2*j0 + j, 7*k0 + k], identity[0]) for j<2 k<7 if -2*j0 - j + 2 >= 0, -7*k0 - k + 49 >= 0
      rq(a_acc[0, 2*j0 + j, 7*k0 + k], p[0, 0] | 1, -128, 127, 0) for j<2 k<7 if -2*j0 - j + 2 >= 0, -7*k0 - k + 49 >= 0
      add(a_acc[0, 2*j0 + j, 7*k0 + k], b_acc[0, 2*j0 + j]) for j<2 k<7 if -2*j0 - j + 2 >= 0, -7*k0 - k + 49 >= 0
      rq(a_acc[0, 2*j0 + j, 7*k0 + k], p[2, 0] | 3, -128, 127, 0) for j<2 k<7 if -2*j0 - j + 2 >= 0, -7*k0 - k + 49 >= 0
      copy(out[0, 2*j0 + j, 7*k0 + k], a_acc[0, 2*j0 + j, 7*k0 + k]) for j<2 k<7 if -2*j0 - j + 2 >= 0, -7*k0 - k + 49 >= 0
"""  # noqa: E501
    )


def test_what_broadcasts_is_loaded_outside_the_loop_that_it_does_not_move_along() -> None:
    assert with_copies(ADDITION).split("out: int8[1, 3, 50] x1x16\n")[1] == (
        """\
  alloc p_chip: int32[3, 3] x1x16 in acc
  copy(p_chip[a0, a1], p[a0, a1]) for a0<3 a1<3
  alloc identity_chip: int8[1] x16x16 in wgt
  copy(identity_chip[0], identity[0])
  for j0<2:
    alloc b_chip: int8[1, 2] x1x16 in inp
    copy(b_chip[0, a1], b[0, 2*j0 + a1]) for a1<2 if -2*j0 - a1 + 2 >= 0
    for k0<8:
      alloc b_acc: int32[1, 2] x1x16 in acc
      group:
        fill(b_acc[0, j] | 0) for j<2 if -2*j0 - j + 2 >= 0
        gemm(b_acc[0, j], b_chip[0, j], identity_chip[0]) for j<2 if -2*j0 - j + 2 >= 0
      rq(b_acc[0, j], p_chip[1, 0] | 2, -128, 127, 0); mul(b_acc[0, j] | -1) for j<2 if -2*j0 - j + 2 >= 0
      alloc a_acc: int32[1, 2, 7] x1x16 in acc
      alloc a_chip: int8[1, 2, 7] x1x16 in inp
      copy(a_chip[0, a1, a2], a[0, 2*j0 + a1, 7*k0 + a2]) for a1<2 a2<7 if -2*j0 - a1 + 2 >= 0, -7*k0 - a2 + 49 >= 0
      group:
        fill(a_acc[0, j, k] | 0) for j<2 k<7 if -2*j0 - j + 2 >= 0, -7*k0 - k + 49 >= 0
        gemm(a_acc[0, j, k], a_chip[0, j, k], identity_chip[0]) for j<2 k<7 if -2*j0 - j + 2 >= 0, -7*k0 - k + 49 >= 0
      rq(a_acc[0, j, k], p_chip[0, 0] | 1, -128, 127, 0) for j<2 k<7 if -2*j0 - j + 2 >= 0, -7*k0 - k + 49 >= 0
      add(a_acc[0, j, k], b_acc[0, j]) for j<2 k<7 if -2*j0 - j + 2 >= 0, -7*k0 - k + 49 >= 0
      rq(a_acc[0, j, k], p_chip[2, 0] | 3, -128, 127, 0) for j<2 k<7 if -2*j0 - j + 2 >= 0, -7*k0 - k + 49 >= 0
      copy(out[0, 2*j0 + j, 7*k0 + k], a_acc[0, j, k]) for j<2 k<7 if -2*j0 - j + 2 >= 0, -7*k0 - k + 49 >= 0
"""  # noqa: E501
    )


def test_an_input_that_expands_has_an_accumulator_everywhere() -> None:
    inputs = (Input(EVERYWHERE, ()), Input((True, True, False), (), expand=True))
    found = with_copies(ElementwiseSpec((1, 3, 50), inputs, "mul", (), (1, 3, 7)))
    assert "alloc b_acc: int32[1, 3, 7] x1x16 in acc" in found
    assert "gemm(b_acc[0, j, k], b_chip[0, j], identity_chip[0]) for j<3 k<7" in found
    assert "mul(a_acc[0, j, k], b_acc[0, j, k]) for j<3 k<7" in found


def test_a_sum_takes_both_inputs_into_one_tile_and_one_of_them_again() -> None:
    inputs = (Input(EVERYWHERE, ()), Input((True, False, False), ()))
    spec = ElementwiseSpec((2, 3, 50), inputs, SUM, (Immediate("max", 3),), (1, 3, 50), 6, 1)
    assert steps(spec) == [
        "copy(identity_chip",
        "for i0<2:",
        "fill(sum_acc",
        "copy(a_chip",
        "gemm(sum_acc",
        "copy(b_chip",
        "gemm(sum_acc",
        "mul(sum_acc",
        "gemm(sum_acc",
        "max(sum_acc",
        "copy(out",
    ]
    found = with_copies(spec)
    for product in ("a_chip[0, j, k], identity_chip[0]", "b_chip[0], identity_chip[1]"):
        assert f"gemm(sum_acc[0, j, k], {product})" in found
    assert "mul(sum_acc[0, j, k] | 6)" in found
    assert "gemm(sum_acc[0, j, k], b_chip[0], identity_chip[2])" in found
    of_two_parts = ElementwiseSpec((2, 3, 50), inputs, SUM, (), (1, 3, 50), wide=True)
    wide = with_copies(of_two_parts, load_config("vtaq2-1x16x16"))
    assert "wide(sum_acc[0, j, k], a_chip[0, j, k], identity_chip[0])" in wide
    assert "wide(sum_acc[0, j, k], b_chip[0], identity_chip[1])" in wide
    assert not any(name in wide for name in ("gemm(", "mul(", "shr("))
    eight = ElementwiseSpec((2, 3, 50), inputs, SUM, (), (1, 3, 50), factor=8)
    assert "shr(sum_acc[0, j, k] | -3)" in with_copies(eight)


def test_one_input_without_steps_is_a_copy_through_the_gemm_core() -> None:
    spec = ElementwiseSpec((64,), (Input((True,), ()),), None, ())
    assert steps(spec) == [
        *("copy(identity_chip", "copy(a_chip", "fill(a_acc", "gemm(a_acc", "copy(out")
    ]


def test_a_tile_is_a_part_of_the_whole_and_fits_twice() -> None:
    """Without a choice: six parts at least, of 64 tiles or more, from the innermost loop out."""
    spec = ElementwiseSpec((20, 100), (Input((True, True), ()),), None, ())
    assert "for i0<7:" in text(spec)
    assert "copy(out[3*i0 + i, j], a_acc[3*i0 + i, j]) for i<3 j<100" in text(spec)
