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

from loadstone.errors import EncodingError, SimulationError
from loadstone.numerics import Rounding, rq, scale_lane, shift_lane
from loadstone.vta.device.hw_config import HwConfig, load_config
from loadstone.vta.isa.codec import decode_stream, encode_stream, encode_uops
from loadstone.vta.isa.insn import Alu, Config, Depthwise, Finish, Gemm, Insn, Load, MicroOp, Store
from loadstone.vta.isa.spec import AluOp, Capability, ConfigRegister, Memory, Stage
from loadstone.vta.meaning import lane_operations
from loadstone.vta.meaning.reference import DramBytes, Machine
from tests.simulated import EIGHT_WINDOWS, FOUR_WINDOWS, TINY_WINDOWS

VTA = load_config("vta-pynq")
#: With every capability that there is.
TINY = replace(load_config("vtaq-tiny"), capabilities=~Capability.WEIGHT_CODE)
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


# --- a machine with random contents, and the loops of the spec in scalars -------------------------
def machine(seed: int, config: HwConfig = TINY, regions: int = 1) -> Machine:
    """A device with random scratchpads."""
    rng = np.random.default_rng(seed)
    m = Machine(config, [DramBytes(rng.integers(0, 256, 4096, np.uint8)) for _ in range(regions)])
    for pad in (m.inp, m.wgt, m.acc):
        pad[:] = rng.integers(
            np.iinfo(pad.dtype).min, np.iinfo(pad.dtype).max, pad.shape, endpoint=True
        )
    return m


def execute(m: Machine, *insns: Insn) -> None:
    m.run(encode_stream([*insns, Finish()], m.config))


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


def test_without_a_turn_no_micro_op_is_read() -> None:
    """The simulator's rule: the last one would be beyond the memory."""
    m = machine(2)
    before = m.acc.copy()
    end = TINY.depth(Memory.UOP) + 1
    execute(m, Gemm(uop_end=end, iter_in=1), Alu(use_imm=1, imm=1, uop_end=end, iter_out=1))
    np.testing.assert_array_equal(m.acc, before)


@pytest.mark.parametrize("step", [0, 1])
def test_a_store_requantizes_each_row_by_its_operands_and_the_stages_registers(step: int) -> None:
    m = machine(5)
    m.acc[:] = np.random.default_rng(5).integers(-9999, 9999, m.acc.shape)
    m.acc[40:49] = 0  # a half, three quarters, a quarter
    m.acc[[41, 44, 47]] = np.array([1 << 30, 3 << 29, 1 << 29]).reshape(3, 1, 1)
    before = m.acc.copy()
    registers = {ConfigRegister.RQ_ZERO_POINT: 7, ConfigRegister.RQ_MIN: -100}
    execute(
        m,
        Config(stage=Stage.COMPUTE, register_id=ConfigRegister.RQ_MAX, value=0),  # another stage's
        *(Config(stage=Stage.STORE, register_id=r, value=v) for r, v in registers.items()),
        Store(memory_id=Memory.OUT, sram_base=3, y_size=3, x_size=2, x_stride=5, operands=40,
              operand_step=step, requantize=1),
    )  # fmt: skip
    np.testing.assert_array_equal(m.acc, before)
    stored = m.regions[0].data.view(np.int8)
    for y, quarters in enumerate((2, 3, 1) if step else (2, 2, 2)):
        row = before[3 + 2 * y : 5 + 2 * y].reshape(-1)
        expected = np.clip(np.floor(row * quarters / 4 + 0.5) + 7, -100, 127)
        np.testing.assert_array_equal(stored[20 * y : 20 * y + 8], expected)


@pytest.mark.parametrize("step", [0, 1])
def test_a_store_to_inp_is_what_a_store_and_a_load_of_it_leave_there(step: int) -> None:
    """Rows apart, and rows that overlap: the last one stays."""
    for stride in (5, 1):
        machines = machine(6), machine(6)
        for m in machines:
            m.acc[:] = np.random.default_rng(6).integers(-9999, 9999, m.acc.shape)
            m.acc[40:49] = 1 << 20
        rows = {"sram_base": 3, "y_size": 3, "x_size": 2, "x_stride": stride}
        way = {"operands": 40 * step, "operand_step": step, "requantize": step}
        extent = 2 * stride + 2
        before = machines[0].regions[0].data.copy()
        execute(machines[0], Store(memory_id=Memory.INP, dram_base=9, **rows, **way))
        np.testing.assert_array_equal(machines[0].regions[0].data, before)
        inp = machines[1].inp[9 : 9 + extent].reshape(-1).view(np.uint8)
        machines[1].regions[0].data[: inp.size] = inp  # what stands between the rows
        execute(
            machines[1],
            Store(memory_id=Memory.OUT, **rows, **way),
            Load(memory_id=Memory.INP, sram_base=9, y_size=1, x_size=extent, x_stride=extent),
        )
        np.testing.assert_array_equal(machines[0].inp, machines[1].inp)


def test_steps_beyond_one_chunk() -> None:
    m = machine(2)
    m.acc[:] = 0
    m.uop[0] = (3, 0, 0)
    execute(m, Alu(alu_op=AluOp.ADD, use_imm=1, imm=1, uop_end=1, iter_out=300, iter_in=200))
    assert m.acc[3].tolist() == [[60000] * 4]


# --- LOAD and STORE -------------------------------------------------------------------------------
def test_pads_are_the_register_of_the_stage_that_loads() -> None:
    m = machine(3)
    values = {Stage.LOAD: -5, Stage.COMPUTE: 7 + 256}  # the low 8 bits count
    pads = {"y_size": 1, "x_size": 1, "x_stride": 1, "y_pad_0": 1, "x_pad_1": 1}
    execute(
        m,
        *(
            Config(stage=s, register_id=ConfigRegister.PAD_VALUE, value=v)
            for s, v in values.items()
        ),
        *(Load(memory_id=memory, **pads) for memory in (Memory.INP, Memory.WGT)),
        Load(memory_id=Memory.ACC_8BIT, **pads),
        Load(memory_id=Memory.ACC, sram_base=8, **pads),
    )
    dram = m.regions[0].data.view(np.int8)
    assert m.inp[:4].reshape(4, 4).tolist() == [[-5] * 4, [-5] * 4, dram[:4].tolist(), [-5] * 4]
    assert m.acc[:4].reshape(4, 4).tolist() == [[7] * 4, [7] * 4, dram[:4].tolist(), [7] * 4]
    assert m.wgt[:4].reshape(4, 16).tolist() == [[0] * 16, [0] * 16, dram[:16].tolist(), [0] * 16]
    assert m.acc[8:12].reshape(4, 4).tolist() == [
        [0] * 4,
        [0] * 4,
        dram[:16].view("<i4").tolist(),
        [0] * 4,
    ]


def test_pads_alone_are_written_but_a_noop_writes_nothing() -> None:
    m = machine(4)
    before = m.inp.copy()
    execute(
        m,
        Load(memory_id=Memory.INP, y_size=1, y_pad_0=2),
        Load(memory_id=Memory.INP, x_size=3),
        Load(memory_id=Memory.OUT),
        Store(),
        Store(memory_id=Memory.OUT, x_size=3),
    )
    np.testing.assert_array_equal(m.inp, before)
    execute(m, Load(memory_id=Memory.INP, x_size=3, y_pad_0=2))
    assert not m.inp[:6].any()
    np.testing.assert_array_equal(m.inp[6:], before[6:])


def test_registers_begin_with_their_defaults_in_every_run() -> None:
    m = machine(5)
    execute(m, Config(stage=Stage.LOAD, register_id=ConfigRegister.PAD_VALUE, value=3))
    assert m.registers[Stage.LOAD, ConfigRegister.PAD_VALUE] == 3
    execute(m)
    assert m.registers[Stage.LOAD, ConfigRegister.PAD_VALUE] == 0


def test_an_address_below_the_memory_stops_the_program() -> None:
    """Of a device without regions, whose memory begins somewhere: one byte before it, one tile."""
    size = VTA.tile_bytes(Memory.INP)
    for base in (4 * size + 1, 5 * size):
        m = Machine(VTA, [DramBytes(np.zeros(64 * size, np.uint8), base=base)])
        inside, below = (
            encode_stream(
                [Load(memory_id=Memory.INP, dram_base=b, y_size=1, x_size=1), Finish()], VTA
            )
            for b in (5, 4)
        )
        m.run(inside)
        with pytest.raises(SimulationError, match=f"LOAD row 0 is bytes {4 * size - base} to"):
            m.run(below)


def test_regions_are_memories_of_their_own() -> None:
    m = machine(6, regions=3)
    a = m.regions[1].data.copy()
    uops = encode_uops([MicroOp(1, 2, 3), MicroOp(4, 5, 6)], TINY).view(np.uint8)
    m.regions[0].data[8:16] = uops
    execute(
        m,
        Load(memory_id=Memory.ACC_8BIT, region=1, dram_base=2, y_size=2, x_size=2, x_stride=5),
        Load(memory_id=Memory.UOP, dram_base=2, y_size=1, x_size=2, x_stride=2),
        Store(memory_id=Memory.OUT, region=2, dram_base=1, y_size=1, x_size=4, x_stride=4),
    )
    np.testing.assert_array_equal(m.regions[2].data[4:20], np.concatenate([a[8:16], a[28:36]]))
    assert m.uop[:2].tolist() == [[1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize(
    ("insn", "message"),
    [
        (
            Load(memory_id=Memory.INP, sram_base=255, y_size=1, x_size=2),
            "LOAD reaches tile 256 of INP, which has 256",
        ),
        (
            Load(memory_id=Memory.INP, dram_base=1024, y_size=1, x_size=1),
            "LOAD row 0 is bytes 4096 to 4100 of region 0, which has 4096",
        ),
        (
            Load(memory_id=Memory.INP, y_size=2, x_size=1, x_stride=1024),
            "LOAD row 1 is bytes 4096 to 4100 of region 0, which has 4096",
        ),
        (Load(memory_id=Memory.OUT, y_size=1, x_size=1), "LOAD of memory OUT: OUT is only stored"),
        (
            Store(memory_id=Memory.WGT, y_size=1, x_size=1),
            "STORE of memory WGT: it has none",
        ),
        (
            Store(memory_id=Memory.INP, y_size=1, x_size=1, region=1),
            "STORE to INP: region=1 must be 0",
        ),
        (
            Store(memory_id=Memory.INP, y_size=2, x_size=2, x_stride=5, dram_base=250),
            "STORE to INP reaches tile 256 of INP, which has 256",
        ),
        (
            Store(memory_id=Memory.OUT, y_size=1, x_size=1, operands=1),
            "STORE without requantize has no operands: they must be 0",
        ),
        (
            Store(memory_id=Memory.OUT, y_size=1, x_size=1, operands=254, requantize=1),
            "STORE rq reaches tile 256 of ACC, which has 256",
        ),
        (
            Store(memory_id=Memory.OUT, y_size=2, x_size=1, operands=251, operand_step=1).changed(
                requantize=1
            ),
            "STORE rq reaches tile 256 of ACC, which has 256",
        ),
        (
            Store(memory_id=Memory.OUT, y_size=1, x_size=1, region=1),
            "STORE to region 1, which is read-only",
        ),
        (
            Load(memory_id=Memory.INP, y_size=1, x_size=1, region=7),
            "LOAD.region=7: the program has 2 regions",
        ),
        (
            Gemm(uop_end=1, iter_out=2, iter_in=1, dst_out=255),
            "GEMM dst reaches tile 256 of ACC, which has 256",
        ),
        (
            Gemm(uop_end=1, iter_out=2, iter_in=1, src_out=254),
            "GEMM src reaches tile 256 of INP, which has 256",
        ),
        (
            Gemm(uop_end=1, iter_out=2, iter_in=1, wgt_out=253),
            "GEMM wgt reaches tile 256 of WGT, which has 256",
        ),
        (
            Gemm(uop_end=257, iter_out=1, iter_in=1),
            "uop_end reaches tile 256 of UOP, which has 256",
        ),
        (
            Alu(uop_end=1, iter_out=2, iter_in=1, src_out=254),
            "ALU src reaches tile 256 of ACC, which has 256",
        ),
        (
            Alu(alu_op=AluOp.RQ, uop_end=1, iter_out=2, iter_in=1, src_out=252),
            "ALU src reaches tile 256 of ACC, which has 256",
        ),
        (
            Alu(alu_op=AluOp.RQ, uop_end=1, iter_out=1, iter_in=1, use_imm=1),
            "ALU.use_imm must be 0 for RQ, whose operands are tiles",
        ),
        (Alu(reset=1), "ALU.reset must be 0"),
        (Config(stage=Stage.STORE), "CONFIG: stage STORE has no register PAD_VALUE"),
        (
            Config(stage=Stage.LOAD, register_id=ConfigRegister.RQ_MIN),
            "CONFIG: stage LOAD has no register RQ_MIN",
        ),
        (
            Config(stage=Stage.COMPUTE, register_id=ConfigRegister.RQ_ROUNDING, value=3),
            "CONFIG: RQ_ROUNDING=3 is outside [0, 2]",
        ),
    ],
)
def test_what_cannot_be_done_stops_the_program(insn: Insn, message: str) -> None:
    m = machine(7, regions=2)
    m.regions[1].writable = False
    m.uop[0] = (1, 2, 3)
    with pytest.raises(SimulationError) as caught:
        execute(m, Load(), insn)
    assert str(caught.value) == f"instruction 1: {message}"


@pytest.mark.parametrize(
    ("insn", "what"),
    [
        (Alu(alu_op=AluOp.MUL), "ALU.alu_op=MUL needs capability alu_mul"),
        (Alu(alu_op=AluOp.RQ), "ALU.alu_op=RQ needs capability requantize"),
        (Load(memory_id=Memory.ACC_8BIT), "LOAD.memory_id=ACC_8BIT needs capability load_acc8"),
        (Load(region=2), "LOAD.region=2 needs capability regions"),
        (Gemm(overwrite=1), "GEMM.overwrite=1 needs capability gemm_overwrite"),
        (Config(), "CONFIG needs capability config"),
    ],
)
def test_a_capability_that_the_device_lacks(insn: Insn, what: str) -> None:
    with pytest.raises(SimulationError) as caught:
        execute(Machine(VTA, [DramBytes(np.zeros(16, np.uint8))]), insn)
    assert str(caught.value) == f"instruction 0: {what}, which vta-pynq lacks"


def test_an_immediate_reads_no_source_and_a_decoded_stream_runs_as_its_bytes_do() -> None:
    """The source would be tile 256 of ACC, which has 256."""
    insn = Alu(alu_op=AluOp.ADD, use_imm=1, imm=5, uop_end=1, iter_out=2, iter_in=1, src_out=254)
    of_bytes, of_stream = machine(9), machine(9)
    for m in (of_bytes, of_stream):
        m.uop[0] = (1, 2, 3)
    before = of_bytes.acc.copy()
    encoded = encode_stream([insn, Finish()], TINY)
    of_bytes.run(encoded)
    of_stream.run(decode_stream(encoded, TINY))
    np.testing.assert_array_equal(of_bytes.acc[1], before[1] + np.int32(10))
    np.testing.assert_array_equal(of_stream.acc, of_bytes.acc)


def test_what_an_immediate_takes_the_place_of_may_lie_anywhere() -> None:
    m = machine(9)
    depth, before = TINY.depth(Memory.ACC), m.acc.copy()
    m.uop[0] = [0, depth - 1, 0]
    m.step(
        Alu(alu_op=AluOp.ADD, use_imm=1, imm=3, uop_end=1, iter_out=1, iter_in=9, src_in=depth - 1)
    )
    np.testing.assert_array_equal(m.acc[0], before[0] + np.int32(27))


def test_a_program_ends_with_finish() -> None:
    m = machine(8)
    with pytest.raises(SimulationError, match="the program of 1 instructions has no FINISH"):
        m.run(encode_stream([Load()], TINY))
    m.run(encode_stream([Finish(), Alu(reset=1)], TINY))  # what follows is not executed
    with pytest.raises(EncodingError, match="opcode 7 is unknown"):
        m.run(b"\x07" + bytes(15))
