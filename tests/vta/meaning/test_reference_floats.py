# SPDX-License-Identifier: Apache-2.0
"""reference.py on bfloat16, as a loop over rational numbers: the order of sums, the roundings."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from loadstone.errors import SimulationError
from loadstone.graph.bfloat16 import immediate, widened
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.insn import Alu, Gemm, Load, Store
from loadstone.vta.isa.spec import AluOp, ConfigRegister, Memory, Stage
from loadstone.vta.meaning.reference import DramBytes, Machine

CONFIG = load_config("vtab-1x8x8")
MOST = Fraction(2) ** 128


def nearest(x: Fraction) -> Fraction:
    """The nearest float32, ties to even; 2^128 stands for all that is infinite."""
    if x == 0:
        return x
    size = abs(x)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    unit = Fraction(2) ** max(exponent - 23, -149)
    steps, rest = divmod(size, unit)
    up = 2 * rest > unit or (2 * rest == unit and steps % 2 == 1)
    value = min((steps + up) * unit, MOST)
    return value if x > 0 else -value


def machine(scale: float) -> Machine:
    """Scratchpads of random numbers; products about scale^2."""
    rng = np.random.default_rng(3)
    m = Machine(CONFIG, [DramBytes(np.zeros(1 << 12, np.uint8))])
    for pad in (m.inp, m.wgt):
        bits = (rng.normal(size=pad.shape) * scale).astype(np.float32).view(np.uint32)
        pad[:] = widened((bits >> 16).astype(np.uint16))
    m.acc[:] = (rng.normal(size=m.acc.shape) * scale**2).astype(np.float32)
    m.uop[:3] = [[0, 0, 0], [1, 2, 3], [0, 4, 5]]
    return m


@pytest.mark.parametrize("overwrite", [0, 1])
@pytest.mark.parametrize("scale", [1.0, 2.0**-67, 2.0**60])
def test_gemm_adds_product_after_product(scale: float, overwrite: int) -> None:
    m = machine(scale)
    acc = [[Fraction(float(v)) for v in tile[0]] for tile in m.acc]
    m.step(Gemm(uop_end=3, iter_out=1, iter_in=1, overwrite=overwrite))
    for dst, src, wgt in m.uop[:3].tolist():
        for o in range(8):
            total = Fraction(0) if overwrite else acc[dst][o]
            for k in range(8):
                product = Fraction(float(m.inp[src, 0, k])) * Fraction(float(m.wgt[wgt, o, k]))
                total = nearest(total + nearest(product))
            acc[dst][o] = total
    assert [[Fraction(float(v)) for v in m.acc[t, 0]] for t in (0, 1)] == acc[:2]


def test_sums_and_products_are_rounded_once() -> None:
    m = machine(1.0)
    x, y = (m.acc[tile, 0].copy() for tile in (0, 1))
    m.uop[0] = [0, 1, 0]
    for op, exact in ((AluOp.ADD, Fraction.__add__), (AluOp.MUL, Fraction.__mul__)):
        m.acc[0, 0] = x
        m.step(Alu(alu_op=op, uop_end=1, iter_out=1, iter_in=1))
        pairs = zip(x.tolist(), y.tolist(), strict=True)
        wanted = [float(nearest(exact(Fraction(a), Fraction(b)))) for a, b in pairs]
        assert m.acc[0, 0].tolist() == wanted


def test_the_first_operand_stays_where_it_is_no_number() -> None:
    m = machine(1.0)
    rows = np.array([[1, 2], [np.nan, 2], [2, np.nan], [0.0, -0.0], [-0.0, 0.0]], np.float32)
    m.acc[0, 0, :5], m.acc[1, 0, :5] = rows[:, 0], rows[:, 1]
    m.uop[0] = [0, 1, 0]
    for op, wanted in (
        (AluOp.MAX, [2, np.nan, np.nan, -0.0, 0.0]),
        (AluOp.MIN, [1, np.nan, np.nan, -0.0, 0.0]),
    ):
        m.acc[0, 0, :5] = rows[:, 0]
        m.step(Alu(alu_op=op, uop_end=1, iter_out=1, iter_in=1))
        np.testing.assert_array_equal(m.acc[0, 0, :5], np.array(wanted, np.float32))
        assert np.signbit(m.acc[0, 0, 3:5]).tolist() == [True, False]


def test_immediates_are_bfloat16_and_stores_round() -> None:
    m = machine(1.0)
    m.acc[0, 0] = [1.0, -1.0, 1e-45, 3.4e38, np.nan, 1.00390625, 1.01171875, 0.0]
    m.uop[0] = [0, 0, 0]
    m.step(Alu(alu_op=AluOp.MUL, use_imm=1, imm=immediate(-1.0), uop_end=1, iter_out=1, iter_in=1))
    m.step(Store(memory_id=Memory.OUT, y_size=1, x_size=1, x_stride=1))
    stored = m.regions[0].data[:16].view("<u2").tolist()
    assert stored == [0xBF80, 0x3F80, 0x8000, 0xFF80, 0x7FC0, 0xBF80, 0xBF82, 0x8000]
    step = 1.0078125  # the last bit of the immediate is set
    m.step(Alu(alu_op=AluOp.ADD, use_imm=1, imm=immediate(step), uop_end=1, iter_out=1, iter_in=1))
    assert m.acc[0, 0, 0] == step - 1


def test_shifts_are_of_integers() -> None:
    with pytest.raises(SimulationError, match="ALU SHR is of integers: vtab-1x8x8 computes"):
        machine(1.0).step(Alu(alu_op=AluOp.SHR, use_imm=1, uop_end=1, iter_out=1, iter_in=1))


def test_loads_widen_and_pads_have_sixteen_bits() -> None:
    m = machine(1.0)
    bits = np.arange(0x3F80, 0x3F80 + 64, dtype="<u2")
    m.regions[0].data[:128] = bits.view(np.uint8)
    m.registers = {
        (Stage.LOAD, ConfigRegister.PAD_VALUE): 0x40C1,
        (Stage.COMPUTE, ConfigRegister.PAD_VALUE): 0xC123 - (1 << 16),
    }
    rows = {"y_size": 1, "x_size": 2, "x_stride": 2, "x_pad_1": 1}
    m.step(Load(memory_id=Memory.INP, **rows))
    m.step(Load(memory_id=Memory.ACC_8BIT, **rows))
    m.step(Load(memory_id=Memory.WGT, y_size=1, x_size=1, x_stride=1))
    wanted = widened(bits)
    for pad, value in ((m.inp, 0x40C1), (m.acc, 0xC123)):
        np.testing.assert_array_equal(pad[:2].ravel(), wanted[:16])
        np.testing.assert_array_equal(pad[2].ravel(), widened(np.full(8, value, np.uint16)))
    np.testing.assert_array_equal(m.wgt[0].ravel(), wanted)
