# SPDX-License-Identifier: Apache-2.0
"""vta/schedule/conv.py, with the copies that are inserted: what is loaded where, and what follows
the sum."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from loadstone.ir_pass.insert_dma_copy import insert_dma_copy
from loadstone.ir_pass.nest_text import printed
from loadstone.numerics import Rounding
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.kernels.memories import memory_table
from loadstone.vta.schedule.conv import ConvSpec, schedule
from loadstone.vta.schedule.epilogue import (
    ConstantProduct,
    Immediate,
    RowOperand,
    Rq,
    TieCorrection,
)

LOOP = re.compile(r"for (\w+)<\d+:")
STEP = re.compile(r"(\w+)\((\w+)\[")
SPEC = ConvSpec(
    samples=1,
    groups=1,
    in_blocks=3,
    out_blocks=5,
    input=(7, 7),
    output=(7, 7),
    kernel=(3, 3),
    strides=(1, 1),
    dilation=(1, 1),
    padding=(1, 1),
    pad_value=-3,
    parts=1,
    shared_weights=False,
    tail=(Rq(1, -128, 127, Rounding.DOUBLE),),
)


def text(spec: ConvSpec, device: str = "vtaq-1x16x16") -> str:
    """The function with its copies."""
    config = load_config(device)
    return printed(insert_dma_copy(schedule(spec, config), memory_table(config)))


def outline(spec: ConvSpec) -> list[str]:
    """The loops over tiles, and each step with its first operand, with its indentation. A load is
    a copy to what stands in a scratchpad."""
    found = []
    for row in text(spec).splitlines():
        line = row.strip()
        depth = " " * ((len(row) - len(row.lstrip())) // 2 - 1)
        if loop := LOOP.fullmatch(line):
            found.append(depth + loop[1])
        elif STEP.match(line):
            for name, operand in STEP.findall(line.replace("; ", "\n")):
                found.append(f"{depth}{name} {operand}")
    return found


def test_the_sum_of_chunks_loads_both_factors_in_each() -> None:
    assert outline(replace(SPEC, chosen=((1, 1, 2, 2, 3, 4), "pixels"))) == [
        "copy p_chip",
        "n0",
        " i0",
        "  j0",
        "   s0",
        "    o0",
        "      fill acc",
        "      k0",
        "       copy x_chip",
        "       copy w_chip",
        "       gemm acc",
        "     rq acc",
        "     copy out",
    ]


@pytest.mark.parametrize("order", ["pixels", "channels"])
def test_what_does_not_depend_on_a_loop_is_loaded_outside_it(order: str) -> None:
    found = outline(replace(SPEC, chosen=((1, 1, 2, 3, 3, 4), order)))
    depth = {line.strip(): len(line) - len(line.lstrip()) for line in found}
    assert depth["copy x_chip"] == (4 if order == "pixels" else 5)
    assert depth["copy w_chip"] == (5 if order == "pixels" else 2)


def steps(spec: ConvSpec) -> list[str]:
    """The outline without its depths."""
    return [line.strip() for line in outline(spec)]


def test_operands_that_are_too_many_are_loaded_for_each_tile_before_they_are_read() -> None:
    many = replace(SPEC, out_blocks=400, chosen=((1, 1, 2, 3, 3, 4), "pixels"))
    assert steps(many)[-5:] == ["fill acc", "gemm acc", "copy p_chip", "rq acc", "copy out"]


def test_operands_of_pixels_that_do_not_stay_come_behind_the_sum() -> None:
    """Where the loops inside the pixels have one turn, they are no levels: the load of a tile's
    operands, which the sum does not need, does not stand in front of it."""
    pixels = replace(SPEC, operands="pixel", output=(40, 40), input=(40, 40))
    found = steps(replace(pixels, chosen=((1, 1, 5, 3, 4, 4), "pixels")))
    assert found[-5:] == ["fill acc", "gemm acc", "copy p_chip", "rq acc", "copy out"]
    assert found[:2] == ["copy w_chip", "i0"]


def test_a_correction_of_ties_works_on_a_copy_that_begins_before_the_sum() -> None:
    tie = TieCorrection((ConstantProduct(1), Immediate("shr", 3)), (Immediate("shr", 2),))
    tail = (ConstantProduct(0), tie, Immediate("max", 0))
    spec = replace(SPEC, tail=tail, chosen=((1, 1, 5, 3, 7, 7), "channels"))
    assert steps(spec) == [
        "copy one_chip",
        "s0",
        "o0",
        "copy w_chip",
        "copy c_chip",
        "n0",
        "i0",
        "j0",
        "fill copy",
        "gemm copy",
        "copy x_chip",
        "fill acc",
        "gemm acc",
        "gemm acc",
        "add copy",
        "shr copy",
        "shr acc",
        "add acc",
        "max acc",
        "copy out",
    ]


def test_operands_of_a_correction_come_before_its_copy_is_added() -> None:
    tie = TieCorrection((RowOperand("add", 0), Immediate("shr", 3)), (Immediate("shr", 2),))
    spec = replace(SPEC, out_blocks=400, tail=(tie,), chosen=((1, 1, 2, 3, 3, 4), "pixels"))
    found = steps(spec)
    assert found[found.index("copy p_chip") + 1 :] == [
        "add copy",
        "add copy",
        "shr copy",
        "shr acc",
        "add acc",
        "copy out",
    ]


def test_a_pixel_beyond_the_input_is_the_pad_value() -> None:
    (load,) = (line.strip() for line in text(SPEC).splitlines() if "copy(x_chip" in line)
    assert load == (
        "copy(x_chip[0, 0, 0, a3, a4], x[n0, s0, k0, 7*i0 + a3 - 1, 7*j0 + a4 - 1 else -3]) "
        "for a3<9 a4<9"
    )


def test_a_kernel_of_one_row_loads_the_rows_that_it_reads() -> None:
    """Every third one of them; columns are loaded whole."""
    rows = replace(SPEC, kernel=(1, 3), strides=(3, 2), padding=(0, 1), output=(3, 4))
    found = text(replace(rows, chosen=((1, 1, 5, 3, 3, 4), "pixels")))
    assert "alloc x_chip: int8[1, 1, 3, 3, 9] x1x16 in inp" in found
    assert "9*i0 + 3*a3, 8*j0 + a4 - 1 else -3]" in found


def test_identity_tiles_of_a_shared_weight_are_loaded_once() -> None:
    found = outline(replace(SPEC, shared_weights=True, chosen=((1, 1, 2, 3, 3, 4), "pixels")))
    assert found[:3] == ["copy w_chip", "copy p_chip", "n0"]
