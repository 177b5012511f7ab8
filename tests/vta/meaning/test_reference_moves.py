# SPDX-License-Identifier: Apache-2.0
"""The living definition of LOAD and STORE: what they write into tiles and into memory, pads and
requantized lanes included."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone.vta.isa.codec import encode_uops
from loadstone.vta.isa.insn import Config, Load, MicroOp, Store
from loadstone.vta.isa.spec import ConfigRegister, Memory, Stage
from tests.vta.meaning.random_machine import TINY, execute, machine


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
