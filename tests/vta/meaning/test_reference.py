# SPDX-License-Identifier: Apache-2.0
"""The living definition: equal to what VTA's RTL and functional simulator left in memory, and to
the spec's loops in scalars."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from loadstone.numerics import Rounding, rq, scale_lane, shift_lane
from loadstone.vta.device.hw_config import HwConfig, load_config
from loadstone.vta.isa.insn import Alu, Config, Depthwise, Gemm, MicroOp
from loadstone.vta.isa.spec import AluOp, Capability, ConfigRegister, Stage
from loadstone.vta.meaning import lane_operations
from loadstone.vta.meaning.reference import DramBytes, Machine
from tests.simulated import EIGHT_WINDOWS, FOUR_WINDOWS, TINY_WINDOWS
from tests.vta.meaning.random_machine import TINY, execute, machine

VTA = load_config("vta-pynq")
#: VTA with what its functional simulator has and its RTL lacks.
FSIM = replace(VTA, name="vta-fsim", capabilities=Capability.ALU_MUL | Capability.LOAD_ACC8)


def test_every_measured_program_byte_for_byte(vectors: list[Path]) -> None:
    for path in vectors:
        vector = np.load(path)
        before = vector["dram_in"]
        memory = DramBytes(before.copy(), base=int(vector["dram_base"]))
        Machine(FSIM if path.name.startswith("fsim") else VTA, [memory]).run(vector["insns"])
        after, cursor = before.copy(), 0
        for offset, length in vector["out_regions"]:
            after[offset : offset + length] = vector["out"][cursor : cursor + length]
            cursor += length
        np.testing.assert_array_equal(memory.data, after, err_msg=path.name)
    assert len(vectors) == 200


def test_the_vectors_would_catch_a_change(
    vectors: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(
        lane_operations.OPERATIONS,
        AluOp.SHR,
        lambda x, n: lane_operations.shift_right(x, n) + (x < 0),
    )  # toward zero, nearly
    differing = 0
    for path in vectors:
        vector = np.load(path)
        memory = DramBytes(vector["dram_in"].copy(), base=int(vector["dram_base"]))
        Machine(FSIM, [memory]).run(vector["insns"])
        out = [memory.data[o : o + n] for o, n in vector["out_regions"]]
        differing += bool(out) and not np.array_equal(np.concatenate(out), vector["out"])
    assert differing > 20


def int32(x: int) -> int:
    return (x + (1 << 31)) % (1 << 32) - (1 << 31)


def scalar_steps(insn: Gemm | Depthwise | Alu, uops: list[MicroOp]) -> list[tuple[int, int, int]]:
    wgt_out = 0 if isinstance(insn, Alu) else insn.wgt_out
    wgt_in = insn.wgt_in if isinstance(insn, Gemm) else 0
    return [
        (
            u.dst + i * insn.dst_out + j * insn.dst_in,
            u.src + i * insn.src_out + j * insn.src_in,
            u.wgt + i * wgt_out + j * wgt_in,
        )
        for i in range(insn.iter_out)
        for j in range(insn.iter_in)
        for u in uops
    ]


# Few tiles and small factors: most steps meet tiles that earlier steps have written.
indices = st.integers(0, 5)
micro_ops = st.lists(
    st.builds(MicroOp, dst=indices, src=indices, wgt=indices), min_size=1, max_size=5
)
counts = st.integers(0, 4)
factors = {name: st.integers(0, 3) for name in ("dst_out", "dst_in", "src_out", "src_in")}


@given(
    uops=micro_ops,
    insn=st.builds(
        Gemm,
        iter_out=counts,
        iter_in=counts,
        **factors,
        wgt_out=counts,
        wgt_in=counts,
        overwrite=st.integers(0, 1),
        reset=st.sampled_from([0, 0, 0, 1]),
        uop_bgn=st.integers(0, 3),
    ),
    seed=st.integers(0, 9),
)
@example([MicroOp(1, 2, 3)], Gemm(iter_out=1, iter_in=1, reset=1), 0)
@example([MicroOp(1, 2, 3)], Gemm(iter_out=1, iter_in=2, uop_bgn=2), 0)
@settings(max_examples=100, deadline=None)
def test_gemm_is_its_loop(uops: list[MicroOp], insn: Gemm, seed: int) -> None:
    insn = replace(insn, uop_end=insn.uop_bgn + len(uops))
    m = machine(seed)
    m.uop[insn.uop_bgn : insn.uop_end] = [(u.dst, u.src, u.wgt) for u in uops]
    acc = m.acc.tolist()
    for d, s, w in scalar_steps(insn, uops):
        for b in range(TINY.batch):
            for o in range(TINY.block):
                total = sum(int(m.inp[s, b, k]) * int(m.wgt[w, o, k]) for k in range(TINY.block))
                total += 0 if insn.overwrite else acc[d][b][o]
                acc[d][b][o] = 0 if insn.reset else int32(total)
    execute(m, insn)
    assert m.acc.tolist() == acc


@given(
    uops=micro_ops,
    insn=st.builds(
        Depthwise,
        iter_out=counts,
        iter_in=counts,
        **factors,
        wgt_out=counts,
        overwrite=st.integers(0, 1),
        columns=st.integers(1, 3),
        rows=st.integers(1, 3),
        wide=st.integers(0, 1),
        row_stride=st.integers(0, 9),
    ),
    config=st.sampled_from([TINY_WINDOWS, EIGHT_WINDOWS, FOUR_WINDOWS]),
    seed=st.integers(0, 9),
)
@settings(max_examples=100, deadline=None)
def test_depthwise_is_its_loop(
    uops: list[MicroOp], insn: Depthwise, config: HwConfig, seed: int
) -> None:
    most = {4: 1, 8: 2, 16: 3}[config.block]
    insn = replace(insn, uop_end=len(uops), rows=min(insn.rows, most))
    m = machine(seed, config)
    m.uop[: len(uops)] = [(u.dst, u.src, u.wgt) for u in uops]
    acc = m.acc.tolist()
    for d, s, w in scalar_steps(insn, uops):
        for b in range(config.batch):
            for o in range(config.block):
                total = 0 if insn.overwrite else acc[d][b][o]
                for r in range(insn.rows):
                    for c in range(insn.columns):
                        x = int(m.inp[s + r * insn.row_stride + c, b, o])
                        total += x * int(m.wgt[w, o, 4 * (most - insn.rows + r) + c])
                if insn.wide:
                    x = int(m.inp[s + (insn.rows - 1) * insn.row_stride, b, o])
                    total += 128 * x * int(m.wgt[w, o, 4 * most - 1])
                acc[d][b][o] = int32(total)
    execute(m, insn)
    assert m.acc.tolist() == acc


@given(
    uops=micro_ops,
    insn=st.builds(
        Alu,
        iter_out=counts,
        iter_in=counts,
        **factors,
        alu_op=st.sampled_from(AluOp),
        use_imm=st.integers(0, 1),
        imm=st.integers(-40, 40),
    ),
    seed=st.integers(0, 9),
    small=st.booleans(),
)
@settings(max_examples=200, deadline=None)
def test_alu_is_its_loop_and_a_step_sees_the_steps_before(
    uops: list[MicroOp], insn: Alu, seed: int, small: bool
) -> None:
    insn = replace(insn, uop_end=len(uops), use_imm=0 if insn.alu_op == AluOp.RQ else insn.use_imm)
    m = machine(seed)
    if small:
        m.acc %= 64
    m.uop[: len(uops)] = [(u.dst, u.src, 0) for u in uops]
    acc = m.acc.tolist()
    operation = {
        AluOp.MIN: min,
        AluOp.MAX: max,
        AluOp.ADD: lambda x, y: int32(x + y),
        AluOp.SHR: lambda x, y: x >> y if y >= 0 else int32(x << min(-y, 32)),
        AluOp.MUL: lambda x, y: int32(x * y),
        AluOp.RQ: lambda x, *y: int(
            rq(x, *y, zero_point=0, low=-128, high=127, rounding=Rounding.DOUBLE)
        ),
    }[AluOp(insn.alu_op)]
    for d, s, _ in scalar_steps(insn, uops):
        for b in range(TINY.batch):
            for lane in range(TINY.block):
                operands = [acc[s + k][b][lane] for k in range(3 if insn.alu_op == AluOp.RQ else 1)]
                acc[d][b][lane] = operation(
                    acc[d][b][lane], *([insn.imm] if insn.use_imm else operands)
                )
    execute(m, insn)
    assert m.acc.tolist() == acc


@pytest.mark.parametrize("rounding", Rounding)
def test_rq_takes_three_operand_tiles_and_the_registers(rounding: Rounding) -> None:
    m = machine(1)
    scale = (
        scale_lane(np.full(m.acc.shape[1:], 0.0003))
        if rounding is Rounding.FLOAT32
        else np.full(m.acc.shape[1:], 1 << 30)
    )
    m.acc[10], m.acc[11], m.acc[12] = m.acc[10] % 1000, scale, shift_lane(-9, 1)
    m.acc[:4] //= 1 << 14
    before = m.acc.copy()
    registers = {
        ConfigRegister.RQ_ZERO_POINT: -7,
        ConfigRegister.RQ_MIN: -100,
        ConfigRegister.RQ_MAX: 99,
        ConfigRegister.RQ_ROUNDING: int(rounding),
    }
    m.uop[0] = (0, 10, 0)
    execute(
        m,
        *(Config(stage=Stage.COMPUTE, register_id=r, value=v) for r, v in registers.items()),
        Alu(alu_op=AluOp.RQ, uop_end=1, iter_out=1, iter_in=4, dst_in=1),
    )
    expected = rq(before[:4], *before[10:13], zero_point=-7, low=-100, high=99, rounding=rounding)
    np.testing.assert_array_equal(m.acc[:4], expected)
    np.testing.assert_array_equal(m.acc[4:], before[4:])
    assert len(np.unique(expected)) > 3


@pytest.mark.parametrize(("operand", "value"), [(0, -4), (1, 1 << 30), (2, 2)])
def test_an_rq_reads_operands_that_a_step_before_it_wrote(operand: int, value: int) -> None:
    """A bias, a multiplier and a shift, which the step halves, or clamps to 127."""
    together, apart = machine(4), machine(4)
    for m in (together, apart):
        m.acc[0] = [90, -70, 50, -30]
        m.acc[10:13] = m.acc[20:23] = np.array([0, 1 << 30, 0]).reshape(3, 1, 1)
        m.acc[20 + operand] = value
        m.uop[:2] = [(20 + operand, 10, 0), (0, 20, 0)]
    first = Alu(alu_op=AluOp.RQ, iter_out=1, iter_in=1, uop_end=1)
    execute(together, replace(first, uop_end=2))
    execute(apart, first, replace(first, uop_bgn=1, uop_end=2))
    np.testing.assert_array_equal(together.acc, apart.acc)
    together.acc[20 + operand], together.acc[0] = value, [90, -70, 50, -30]
    execute(together, replace(first, uop_bgn=1, uop_end=2))
    assert not np.array_equal(together.acc[0], apart.acc[0])


def test_steps_beyond_one_chunk() -> None:
    m = machine(2)
    m.acc[:] = 0
    m.uop[0] = (3, 0, 0)
    execute(m, Alu(alu_op=AluOp.ADD, use_imm=1, imm=1, uop_end=1, iter_out=300, iter_in=200))
    assert m.acc[3].tolist() == [[60000] * 4]
