# SPDX-License-Identifier: Apache-2.0
"""vta/isa/asm_parser.py: numbers, comments, and a mistake told with its line."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadstone.errors import AssemblerError
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.asm import assemble, parse_insn
from loadstone.vta.isa.codec import encode_stream
from loadstone.vta.isa.insn import Finish, Load
from loadstone.vta.isa.spec import Memory

VTA = load_config("vta-pynq")


def test_comments_numbers_and_blank_lines() -> None:
    text = "# a program\n\n   0: nop load # first\n 17:\nfinish"
    np.testing.assert_array_equal(
        assemble(text, VTA), encode_stream([Load(memory_id=Memory.INP), Finish()], VTA)
    )
    assert assemble("", VTA).shape == (0, 16)


def test_numbers_may_be_hexadecimal_and_factors_of_one_left_out() -> None:
    assert parse_insn("load uop[0x10] = dram[0xff + x] for x<9") == parse_insn(
        "load uop[16] = dram[255 + x] for x<9"
    )
    assert parse_insn("alu acc[u+i+j] min= 0 for i<1 j<1 u in 0..1") == parse_insn(
        "alu acc[u+1i+1j] min= 0 for i<1 j<1 u in 0..1"
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "frobnicate",
            "expected one of load, store, gemm, depthwise, alu, config, nop, finish, found "
            "'frobnicate'",
        ),
        (
            "depthwise acc[u] = inp[u] * wgt[u+1j] for i<1 j<1 u in 0..1 r<1 c<1",
            "after '1': expected one of i, found 'j'",
        ),
        ("gemm acc(u]", "after 'acc': expected '[', found '('"),
        ("gemm acc[u] -= 3", "after ']': expected one of +=, =, found '-'"),
        ("load inp[0] = dram[1 + 3z + x] for x<1", "after '3': expected 'y', found 'z'"),
        (
            "load inp[0] = sram[1 + x] for x<1",
            "after '=': expected 'dram' and the number of a region, found 'sram'",
        ),
        (
            "load inp[0] = dram[1 + x] for x<1 pad",
            "after 'pad': expected one of top, bottom, left, right, found the end of the line",
        ),
        (
            "load inp[0] = dram[1 + x] for x<",
            "after '<': expected a number, found the end of the line",
        ),
        (
            "load mem[0] = dram[1 + x] for x<1",
            "after 'load': expected one of uop, wgt, inp, acc, out, acc_8bit, wgt_4bit, "
            "wgt_planes, found "
            "'mem'",
        ),
        (
            "store inp[0 + x] = acc[0] for x<1",
            "after '=': expected 'out', found 'acc'",
        ),
        (
            "store dram[0 + x] = inp[0] for x<1",
            "after '=': expected 'out': INP is stored to, as inp[...] = out[...], found 'inp'",
        ),
        ("pop(store) nop load", "pop(store) in stage load: expected one of compute"),
        ("pop(host) finish", "after '(': expected one of load, compute, store, found 'host'"),
        (
            "finish at once",
            "after 'finish': expected 'with', 'push(' or the end of the line, found 'at'",
        ),
        (
            "nop load with speed=3",
            "after 'with': expected one of pop_prev, pop_next, push_prev, push_next, "
            "memory_id, sram_base, dram_base, region",
        ),
        (
            "config load rq_sum = 3",
            "after 'load': expected one of pad_value, rq_zero_point, rq_min, rq_max, "
            "rq_rounding, found 'rq_sum'",
        ),
        (
            "load inp[0] = dram[1 + x] for x<1 pad top 16",
            "LOAD.y_pad_0=16 does not fit 4 bits [0, 15]",
        ),
        ("load inp[-1] = dram[1 + x] for x<1", "LOAD.sram_base=-1 does not fit 16 bits [0, 65535]"),
    ],
)
def test_a_mistake_names_the_line_and_what_was_expected(line: str, message: str) -> None:
    with pytest.raises(AssemblerError) as caught:
        assemble(f"finish\n\n{line}\n", VTA)
    assert str(caught.value).startswith(f"line 3: {message}")


@given(st.text(alphabet="gemloadstorpuxy[]()+=<>0123 .*-#:ij", max_size=60))
def test_no_text_does_worse_than_an_assembler_error(text: str) -> None:
    with contextlib.suppress(AssemblerError):
        assemble(text, VTA)
