# SPDX-License-Identifier: Apache-2.0
"""vta/schedule/elementwise.py: what the loops become, call by call."""

from __future__ import annotations

from loadstone.numerics import Rounding
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.kernels.from_tir import lower
from loadstone.vta.schedule.elementwise import ElementwiseSpec, Input, schedule
from loadstone.vta.schedule.epilogue import Immediate, Rq

EVERYWHERE = (True, True, True)


def calls(spec: ElementwiseSpec, device: str = "vtaq-1x16x16") -> list[str]:
    """The source of the kernel, a line for each statement."""
    source = lower(schedule(spec, load_config(device))).source
    return [line.removeprefix("    ") for line in source.splitlines()[1:] if ".tile(" not in line]


def requantized(zero_point: int) -> Rq:
    return Rq(zero_point, -128, 127, Rounding.DOUBLE)


def test_the_second_input_comes_first_and_what_broadcasts_comes_once() -> None:
    first = Input(EVERYWHERE, (requantized(1),))
    second = Input((True, True, False), (requantized(2), Immediate("mul", -1)))
    spec = ElementwiseSpec((1, 3, 50), (first, second), "add", (requantized(3),), (1, 2, 7))
    rows, columns = "min(2, (3-(i1_0*2)))", "min(7, (50-(i2_0*7)))"
    load_rows, load_columns = f"0, {rows}, 0, {rows}", f"0, {columns}, 0, {columns}"
    place = "(((i1_0*2)*50)+(i2_0*7))"
    a, b = "(a_acc_local_acc, 0)", "(b_acc_local_acc, 0)"
    in_a, in_b, one = "(a_local_inp, 0)", "(b_local_inp, 0)", "(identity_local_wgt, 0)"
    small, large = f"2, 0, {rows}, 1", f"7, 0, {columns}, 1"
    assert calls(spec) == [
        "e.load(Memory.ACC, (p_local_acc, 0), (p, 0), 0, ((3, 0, 3, 0, 3, 3, 3), "
        "(3, 0, 3, 0, 3, 1, 1)))",
        f"e.load(Memory.WGT, {one}, (identity, 0), 0, ())",
        "for i1_0 in range(0, 2):",
        "    for i2_0 in range(0, 8):",
        *(
            f"        e.{line}"
            for line in (
                f"load(Memory.INP, {in_b}, (b, (i1_0*2)), 0, ((2, {load_rows}, 1, 1),))",
                f"fill({b}, 0, (({small}),))",
                f"gemm({b}, {in_b}, {one}, (({small}, 1, 0),))",
                f"requantize({b}, (p_local_acc, 3), (2, -128, 127, 0), (({small}, 0),))",
                f"alu_immediate(AluOp.MUL, {b}, -1, (({small}),))",
                f"load(Memory.INP, {in_a}, (a, {place}), 0, ((2, {load_rows}, 7, 50), "
                f"(7, {load_columns}, 1, 1)))",
                f"fill({a}, 0, ((2, 0, {rows}, 7), ({large})))",
                f"gemm({a}, {in_a}, {one}, ((2, 0, {rows}, 7, 7, 0), ({large}, 1, 0)))",
                f"requantize({a}, (p_local_acc, 0), (1, -128, 127, 0), ((2, 0, {rows}, 7, 0), "
                f"({large}, 0)))",
                f"alu(AluOp.ADD, {a}, {b}, ((2, 0, {rows}, 7, 1), ({large}, 0)))",
                f"requantize({a}, (p_local_acc, 6), (3, -128, 127, 0), ((2, 0, {rows}, 7, 0), "
                f"({large}, 0)))",
                f"store({a}, (out, {place}), ((2, {load_rows}, 7, 50), (7, {load_columns}, 1, 1)))",
            )
        ),
    ]


def test_an_input_that_expands_has_a_tile_everywhere() -> None:
    inputs = (Input(EVERYWHERE, ()), Input((True, True, False), (), expand=True))
    source = calls(ElementwiseSpec((1, 3, 50), inputs, "mul", (), (1, 3, 7)))
    gemm, *_ = (line for line in source if "gemm((b_acc" in line)
    assert gemm.endswith("((3, 0, 3, 7, 1, 0), (7, 0, min(7, (50-(i2_0*7))), 1, 0, 0)))")
    (alu,) = (line for line in source if "AluOp.MUL" in line)
    assert alu.endswith("((3, 0, 3, 7, 7), (7, 0, min(7, (50-(i2_0*7))), 1, 1)))")


def test_one_input_without_steps_is_a_copy_through_the_gemm_core() -> None:
    source = calls(ElementwiseSpec((64,), (Input((True,), ()),), None, ()), "vta-pynq")
    names = [line.strip().partition("(")[0] for line in source]
    assert names == ["e.load", "e.load", "e.fill", "e.gemm", "e.store"]
