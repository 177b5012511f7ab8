# SPDX-License-Identifier: Apache-2.0
"""vta/schedule/conv_writer.py: what is loaded where, and what follows the sum."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from loadstone.numerics import Rounding
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.kernels.from_tir import lower
from loadstone.vta.schedule.conv import ConvSpec, schedule
from loadstone.vta.schedule.epilogue import (
    ConstantProduct,
    Immediate,
    RowOperand,
    Rq,
    TieCorrection,
)

LOOP = re.compile(r" *for (\w+) in")
CALL = re.compile(r" *e\.(?!tile)(\w+)\((?:Memory\.\w+, |AluOp\.(\w+), )?\((\w+),")
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


def outline(spec: ConvSpec, device: str = "vtaq-1x16x16") -> list[str]:
    """The loops, and of each call its name and first operand, with its indentation."""
    found = []
    for line in lower(schedule(spec, load_config(device))).source.splitlines()[1:]:
        depth = " " * ((len(line) - len(line.lstrip())) // 4 - 1)
        if loop := LOOP.match(line):
            found.append(depth + loop[1])
        elif call := CALL.match(line):
            name = call[2].lower() if call[2] else call[1]
            found.append(f"{depth}{name} {call[3].removesuffix('_local_acc')}")
    return found


def test_the_sum_of_chunks_loads_both_factors_in_each() -> None:
    assert outline(replace(SPEC, chosen=((1, 1, 2, 2, 3, 4), "pixels"))) == [
        "load p",
        "i3_0",
        " i4_0",
        "  i2_0",
        "   fill acc",
        "   ic_0",
        "    load x_padded_local_inp",
        "    load w_local_wgt",
        "    gemm acc",
        "   requantize acc",
        "   store acc",
    ]


@pytest.mark.parametrize("order", ["pixels", "channels"])
def test_what_does_not_depend_on_a_loop_is_loaded_outside_it(order: str) -> None:
    found = outline(replace(SPEC, chosen=((1, 1, 2, 3, 3, 4), order)))
    pixels, weights = "load x_padded_local_inp", "load w_local_wgt"
    depth = {line.strip(): len(line) - len(line.lstrip()) for line in found}
    assert depth[pixels] == (2 if order == "pixels" else 3)
    assert depth[weights] == (3 if order == "pixels" else 1)


def test_operands_that_are_too_many_are_loaded_for_each_tile_before_they_are_read() -> None:
    many = replace(SPEC, out_blocks=400, chosen=((1, 1, 2, 3, 3, 4), "pixels"))
    assert [line.strip() for line in outline(many)[-5:]] == [
        "fill acc",
        "gemm acc",
        "load p",
        "requantize acc",
        "store acc",
    ]


def test_a_correction_of_ties_works_on_a_copy_that_begins_before_the_sum() -> None:
    tie = TieCorrection((ConstantProduct(1), Immediate("shr", 3)), (Immediate("shr", 2),))
    tail = (ConstantProduct(0), tie, Immediate("max", 0))
    spec = replace(SPEC, tail=tail, chosen=((1, 1, 5, 3, 7, 7), "channels"))
    assert outline(spec) == [
        "load one_local_inp",
        "load w_local_wgt",
        "load c_local_wgt",
        "fill product1",
        "gemm product1",
        "load x_padded_local_inp",
        "fill acc",
        "gemm acc",
        "gemm acc",
        "add product1",
        "shr product1",
        "shr acc",
        "add acc",
        "max acc",
        "store acc",
    ]


def test_operands_of_a_correction_come_before_its_copy_is_added() -> None:
    tie = TieCorrection((RowOperand("add", 0), Immediate("shr", 3)), (Immediate("shr", 2),))
    spec = replace(SPEC, out_blocks=400, tail=(tie,), chosen=((1, 1, 2, 3, 3, 4), "pixels"))
    found = [line.strip() for line in outline(spec)]
    assert found[found.index("load p") + 1 :] == [
        "add zero",
        "add zero",
        "shr zero",
        "shr acc",
        "add acc",
        "store acc",
    ]


def test_a_pixel_beyond_the_input_is_the_pad_value() -> None:
    source = lower(schedule(SPEC, load_config("vtaq-1x16x16"))).source
    (load,) = (line for line in source.splitlines() if "load(Memory.INP" in line)
    assert load.endswith(", -3, ((9, 0, 9, 1, 8, 9, 7), (9, 0, 9, 1, 8, 1, 1)))")
