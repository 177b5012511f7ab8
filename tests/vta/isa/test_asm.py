# SPDX-License-Identifier: Apache-2.0
"""vta/isa/asm.py: what people read assembles back to the same bytes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa import asm
from loadstone.vta.isa.asm import assemble, disassemble, parse_insn, text_of
from loadstone.vta.isa.codec import decode_stream
from loadstone.vta.isa.insn import Alu, Config, Depthwise, Finish, Gemm, Insn, Load, Store
from loadstone.vta.isa.spec import AluOp, ConfigRegister, Memory, Rounding, Stage
from tests.random_insns import CONFIGS, any_insn
from tests.repeat import times

VTA = load_config("vta-pynq")


@given(insn=st.one_of([any_insn(config) for config in CONFIGS]))
@settings(max_examples=times(400, 2000), deadline=None)
def test_every_instruction_has_a_text_that_means_it(insn: Insn) -> None:
    text = text_of(insn)
    assert parse_insn(text) == insn
    assert "\n" not in text
    assert "#" not in text


def test_every_measured_program_assembles_to_its_bytes(vectors: list[Path]) -> None:
    count = 0
    for path in vectors:
        insns = np.load(path)["insns"]
        text = "\n".join(disassemble(decode_stream(insns, VTA), lambda insn: f"{insn!r}"))
        np.testing.assert_array_equal(assemble(text, VTA), insns, err_msg=path.name)
        count += len(insns)
    assert count > 8000


GOLDEN = [
    (
        "depthwise acc[u+1i+8j] = inp[u+1i+10j+10r] * wgt[u+2i] for i<8 j<6 u in 0..1 r<3 c<2",
        Depthwise(
            uop_end=1,
            iter_out=8,
            iter_in=6,
            rows=3,
            columns=2,
            overwrite=1,
            dst_out=1,
            dst_in=8,
            src_out=1,
            src_in=10,
            wgt_out=2,
            row_stride=10,
        ),
    ),
    (
        "depthwise acc[u+1j] += inp[u+1j] * wgt[u] for i<1 j<64 u in 0..1 r<1 c<1 wide",
        Depthwise(
            wide=1,
            uop_end=1,
            iter_out=1,
            iter_in=64,
            rows=1,
            columns=1,
            dst_in=1,
            src_in=1,
        ),
    ),
    (
        "pop(load) gemm acc[u+28i+1j] += inp[u+30i+1j] * wgt[u] for i<3 j<3 u in 0..9 push(load)",
        Gemm(
            pop_prev=1,
            push_prev=1,
            uop_end=9,
            iter_out=3,
            iter_in=3,
            dst_out=28,
            dst_in=1,
            src_out=30,
            src_in=1,
        ),
    ),
    (
        "gemm acc[u] = inp[u+1i] * wgt[u+2j] for i<1 j<1 u in 2..3",
        Gemm(uop_bgn=2, uop_end=3, iter_out=1, iter_in=1, src_out=1, wgt_in=2, overwrite=1),
    ),
    (
        "gemm acc[u+1j] = 0 for i<1 j<8 u in 0..1",
        Gemm(reset=1, uop_end=1, iter_out=1, iter_in=8, dst_in=1),
    ),
    (
        "gemm acc[u+1j] = 0 for i<1 j<8 u in 0..1 with src_in=7",
        Gemm(reset=1, uop_end=1, iter_out=1, iter_in=8, dst_in=1, src_in=7),
    ),
    (
        "alu acc[u+1j] max= -3 for i<1 j<8 u in 0..1 push(store)",
        Alu(
            push_next=1,
            alu_op=AluOp.MAX,
            use_imm=1,
            imm=-3,
            uop_end=1,
            iter_out=1,
            iter_in=8,
            dst_in=1,
            src_in=1,
        ),
    ),
    (
        "alu acc[u+1j] >>= 7 for i<1 j<8 u in 0..1 with src_in=0",
        Alu(alu_op=AluOp.SHR, use_imm=1, imm=7, uop_end=1, iter_out=1, iter_in=8, dst_in=1),
    ),
    (
        "alu acc[u+1j] rq= acc[u] for i<1 j<8 u in 0..1",
        Alu(alu_op=AluOp.RQ, uop_end=1, iter_out=1, iter_in=8, dst_in=1),
    ),
    ("alu acc[u] += acc[u] for i<0 j<0 u in 0..0", Alu(alu_op=AluOp.ADD)),
    ("alu acc[u] *= acc[u] for i<0 j<0 u in 0..0 with imm=2", Alu(alu_op=AluOp.MUL, imm=2)),
    (
        "load uop[7] = dram[64 + x] for x<9",
        Load(memory_id=Memory.UOP, sram_base=7, dram_base=64, y_size=1, x_size=9, x_stride=9),
    ),
    (
        "pop(compute) load inp[0] = dram2[256 + 56y + x] for y<28 x<14 pad top 1 left 2 "
        "push(compute)",
        Load(
            pop_next=1,
            push_next=1,
            memory_id=Memory.INP,
            region=2,
            dram_base=256,
            y_size=28,
            x_size=14,
            x_stride=56,
            y_pad_0=1,
            x_pad_0=2,
        ),
    ),
    (
        "load acc_8bit[1] = dram[0 + x] for y<2 x<1",
        Load(memory_id=Memory.ACC_8BIT, sram_base=1, y_size=2, x_size=1),
    ),
    (
        "pop(compute) store dram[5 + 2y + x] = out[3] for y<1 x<1",
        Store(
            pop_prev=1,
            memory_id=Memory.OUT,
            sram_base=3,
            dram_base=5,
            y_size=1,
            x_size=1,
            x_stride=2,
        ),
    ),
    (
        "store inp[64 + 30y + x] = out[3] rq acc[96 + 3y] for y<2 x<28 push(compute)",
        Store(
            push_prev=1,
            memory_id=Memory.INP,
            sram_base=3,
            dram_base=64,
            y_size=2,
            x_size=28,
            x_stride=30,
            operands=96,
            operand_step=1,
            requantize=1,
        ),
    ),
    (
        "store inp[7 + x] = out[0] for x<4 with region=2",
        Store(memory_id=Memory.INP, dram_base=7, region=2, y_size=1, x_size=4, x_stride=4),
    ),
    ("nop load push(compute)", Load(memory_id=Memory.INP, push_next=1)),
    (
        "pop(load) pop(store) nop compute push(load) push(store)",
        Load(pop_prev=1, pop_next=1, push_prev=1, push_next=1),
    ),
    ("nop store", Store()),
    ("pop(store) finish", Finish(pop_next=1)),
    ("nop load with pop_prev=1", Load(memory_id=Memory.INP, pop_prev=1)),
    (
        "config load pad_value = -128 push(compute)",
        Config(stage=Stage.LOAD, value=-128, push_next=1),
    ),
    (
        "config compute rq_rounding = float32",
        Config(stage=Stage.COMPUTE, register_id=ConfigRegister.RQ_ROUNDING, value=Rounding.FLOAT32),
    ),
    (
        "config compute rq_rounding = 9",
        Config(stage=Stage.COMPUTE, register_id=ConfigRegister.RQ_ROUNDING, value=9),
    ),
]


@pytest.mark.parametrize(
    ("text", "insn"), GOLDEN, ids=[text.partition(" for ")[0] for text, _ in GOLDEN]
)
def test_golden_text(text: str, insn: Insn) -> None:
    assert text_of(insn) == text
    assert parse_insn(text) == insn


def test_the_docstring_assembles() -> None:
    assert asm.__doc__ is not None
    lines = "\n".join(re.findall(r"^    (\S.*)$", asm.__doc__, re.MULTILINE))
    device = load_config("vtaq-1x16x16")
    insns = assemble(lines, device)
    assert len(insns) == 13
    assert [text_of(insn) for insn in decode_stream(insns, device)] == lines.splitlines()
