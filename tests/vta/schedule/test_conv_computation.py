# SPDX-License-Identifier: Apache-2.0
"""vta/schedule/conv_computation.py: the text of what a convolution computes, on whole axes. That
its numbers are right is shown by the tests of vta/operators/."""

from __future__ import annotations

from loadstone.ir_pass.nest_text import printed
from loadstone.numerics import Rounding
from loadstone.vta.schedule.conv_computation import ConvComputation
from loadstone.vta.schedule.conv_spec import PIXEL, ConvSpec, Edge
from loadstone.vta.schedule.epilogue import (
    ConstantProduct,
    Immediate,
    RowOperand,
    Rq,
    TieCorrection,
)

RQ = Rq(1, -128, 127, Rounding.DOUBLE)
DEPTHWISE = ConvSpec(
    samples=1,
    groups=2,
    in_blocks=1,
    out_blocks=1,
    input=(7, 9),
    output=(7, 4),
    kernel=(3, 3),
    strides=(1, 2),
    dilation=(2, 1),
    padding=(2, 0),
    pad_value=-3,
    parts=1,
    shared_weights=False,
    tail=(RQ,),
)


def text(**changes: object) -> str:
    spec = ConvSpec(**{**vars(DEPTHWISE), **changes})  # type: ignore[arg-type]
    return printed(ConvComputation(spec, 1, 16).function())


def test_a_sum_and_what_follows_it() -> None:
    assert (
        text()
        == """\
func conv2d:
  table p: int32[2, 1, 3] x1x16
  local acc: int32[1, 2, 1, 7, 4] x1x16
  param x: int8[1, 2, 1, 7, 9] x1x16
  param w: int8[2, 1, 1, 1, 3, 3] x16x16
  param out: int8[1, 2, 1, 7, 4] x1x16
  group:
    fill(acc[n, s, o, i, j] | 0) for n<1 s<2 o<1 i<7 j<4
    gemm(acc[n, s, o, i, j], x[n, s, k, i + 2*ky - 2, 2*j + kx else -3], w[s, o, k, part, ky, kx]) for n<1 s<2 o<1 i<7 j<4 k<1 part<1 ky<3 kx<3
  rq(acc[n, s, o, i, j], p[s, o, 0] | 1, -128, 127, 0) for n<1 s<2 o<1 i<7 j<4
  copy(out[n, s, o, i, j], acc[n, s, o, i, j]) for n<1 s<2 o<1 i<7 j<4
"""  # noqa: E501
    )


def test_ties_are_corrected_on_a_copy_and_edges_are_added() -> None:
    tie = TieCorrection((ConstantProduct(1), Immediate("shr", 3)), (RowOperand("shr", 0),))
    edges = (Edge((0, 1), (0, 4), ((0, 0), (1, 0))), Edge((1, 6), (3, 4), ((2, 1),)))
    found = text(tail=(ConstantProduct(0), tie, Immediate("max", 0)), edges=edges)
    assert found.split("  param out: int8[1, 2, 1, 7, 4] x1x16\n")[1] == (
        """\
  group:
    fill(copy[n, s, o, i, j] | 0) for n<1 s<2 o<1 i<7 j<4
    gemm(copy[n, s, o, i, j], one[0], c[s, o, 1]) for n<1 s<2 o<1 i<7 j<4
  group:
    fill(acc[n, s, o, i, j] | 0) for n<1 s<2 o<1 i<7 j<4
    gemm(acc[n, s, o, i, j], x[n, s, k, i + 2*ky - 2, 2*j + kx else -3], w[s, o, k, part, ky, kx]) for n<1 s<2 o<1 i<7 j<4 k<1 part<1 ky<3 kx<3
  gemm(acc[n, s, o, i, j], e[0], b[s, o, 0]) for n<1 s<2 o<1 i<7 j<4 if -i >= 0
  gemm(acc[n, s, o, i, j], e[1], b[s, o, 0]) for n<1 s<2 o<1 i<7 j<4 if -i >= 0
  gemm(acc[n, s, o, i, j], e[2], b[s, o, 1]) for n<1 s<2 o<1 i<7 j<4 if i - 1 >= 0, -i + 5 >= 0, j - 3 >= 0
  gemm(acc[n, s, o, i, j], one[0], c[s, o, 0]) for n<1 s<2 o<1 i<7 j<4
  group:
    add(copy[n, s, o, i, j], acc[n, s, o, i, j]) for n<1 s<2 o<1 i<7 j<4
    shr(copy[n, s, o, i, j] | 3) for n<1 s<2 o<1 i<7 j<4
  shr(acc[n, s, o, i, j], p[s, o, 0]) for n<1 s<2 o<1 i<7 j<4
  add(acc[n, s, o, i, j], copy[n, s, o, i, j]) for n<1 s<2 o<1 i<7 j<4
  max(acc[n, s, o, i, j] | 0) for n<1 s<2 o<1 i<7 j<4
  copy(out[n, s, o, i, j], acc[n, s, o, i, j]) for n<1 s<2 o<1 i<7 j<4
"""  # noqa: E501
    )


def test_tensors_are_those_that_are_read_and_tables_come_first() -> None:
    def names(**changes: object) -> list[str]:
        lines = text(**changes).splitlines()
        words = (line.split() for line in lines if ": int" in line)
        return [f"{role} {name.removesuffix(':')}" for role, name, *_ in words]

    assert names(tail=()) == ["local acc", "param x", "param w", "param out"]
    assert names(tail=(ConstantProduct(0), Immediate("shr", 2))) == [
        *("table one", "local acc", "param x", "param w", "param c", "param out")
    ]
    assert names(shared_weights=True) == [
        *("table w", "table p", "local acc", "param x", "param out")
    ]
    assert names(tail=(), edges=(Edge((0, 1), (0, 4), ((0, 0),)),)) == [
        *("table e", "local acc", "param x", "param w", "param b", "param out")
    ]


def test_operands_belong_to_channels_to_pixels_or_to_all() -> None:
    for operands, shape, place in (
        ("channel", "2, 1, 3", "s, o, 0"),
        ("pixel", "7, 4, 3", "i, j, 0"),
        ("all", "3", "0"),
    ):
        found = text(operands=operands)
        assert f"table p: int32[{shape}] x1x16" in found
        assert f"p[{place}] | 1, -128, 127, 0)" in found


def test_axes_are_those_of_a_tiling() -> None:
    axes = ConvComputation(PIXEL, 1, 16).axes
    assert [axis.name for axis in axes] == ["n", "s", "o", "i", "j", "k"]
    assert [axis.extent for axis in ConvComputation(DEPTHWISE, 1, 16).axes] == [1, 2, 1, 7, 4, 1]
