# SPDX-License-Identifier: Apache-2.0
"""prove/machine.py: what is multiplied with what, and the range of the products."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone.prove.memory import NOBODY
from loadstone.prove.values import CONSTANTS
from loadstone.prove.verdict import Unsupported
from loadstone.vta.isa.insn import Alu, Gemm, Insn, Load, Store
from loadstone.vta.isa.spec import AluOp, Memory
from tests.prove.symbol_machines import Tiny

_ONE = {"uop_end": 1, "iter_out": 1, "iter_in": 1}
_CLEAR = Gemm(**_ONE | {"iter_in": 4}, dst_in=1, reset=1)
_ACTIVATIONS = Load(memory_id=Memory.WGT, sram_base=1, dram_base=Tiny.INPUTS // 16, y_size=1,
                    x_size=1)  # fmt: skip
_INPUTS_FROM_OUT = Load(memory_id=Memory.INP, dram_base=Tiny.NOTHING // 4, y_size=1, x_size=1)
_STORED: list[Insn] = [
    Alu(**_ONE | {"iter_in": 4}, dst_in=1, alu_op=AluOp.ADD, use_imm=1),
    Store(memory_id=Memory.OUT, dram_base=Tiny.NOTHING // 4, y_size=1, x_size=4),
]


@pytest.mark.parametrize("inputs", [True, False], ids=["inputs", "weights"])
def test_digits_are_multiplied_with_no_activations(inputs: bool) -> None:
    """Neither as inputs nor as weights, beside activations, too."""
    tiny = Tiny()
    weights = _ACTIVATIONS
    if not inputs:
        weights = weights.changed(dram_base=Tiny.NOTHING // 16)
    digits = [_INPUTS_FROM_OUT] if inputs else []
    for one in (*tiny.ready(), *_STORED, *digits, weights):
        tiny.run(one, 0)
    with pytest.raises(Unsupported, match="what is no element of the network"):
        tiny.run(Gemm(**_ONE | {"iter_in": 2}, src_in=1, wgt_in=1), 0)


def test_products_have_the_range_of_their_inputs() -> None:
    """Each lane from its least to its greatest value."""
    tiny = Tiny()
    for one in tiny.ready():
        tiny.run(one, 0)
    tiny.run(_CLEAR, 0)
    tiny.run(Gemm(**_ONE), 0)
    weights = tiny.both.machine.wgt[0].astype(np.int64)
    symbols = tiny.both.machine.inp[0].reshape(-1)
    varies = symbols >= CONSTANTS
    fixed = np.where(varies, 0, (symbols ^ 128) - 128)
    assert varies.any()
    low, high = (weights * end for end in (-128, 127))
    lanes = tiny.both.machine.lanes
    least = (np.minimum(low, high) * varies + weights * fixed).sum(1)
    most = (np.maximum(low, high) * varies + weights * fixed).sum(1)
    at = np.arange(len(weights))
    assert (lanes.low[at] + lanes.c[at]).tolist() == least.tolist()
    assert (lanes.high[at] + lanes.c[at]).tolist() == most.tolist()


def test_products_of_two_have_the_range_of_what_varies() -> None:
    """One weight is an activation; the others and the inputs are known."""
    tiny = Tiny()
    for one in tiny.ready():
        tiny.run(one, 0)
    place = np.arange(tiny.NOTHING, tiny.NOTHING + 16)
    known = tiny.both.dram.read(0, np.arange(tiny.KNOWN, tiny.KNOWN + 16), "the test")
    known[15] = tiny.both.dram.read(0, np.array([tiny.INPUTS]), "the test")[0]
    tiny.both.dram.write(0, place, known, "the test", NOBODY)
    for one in (tiny.load(Memory.INP, tiny.KNOWN, 1), tiny.load(Memory.WGT, tiny.NOTHING, 1)):
        tiny.run(one, 0)
    tiny.run(_CLEAR, 0)
    tiny.run(Gemm(**_ONE), 0)
    inputs, weights = tiny.known[:4].view(np.int8).astype(int), tiny.known[:16].view(np.int8)
    others = int(inputs[:3] @ weights[12:15].astype(int))
    lanes = tiny.both.machine.lanes
    ends = sorted(others + int(inputs[3]) * end for end in (-128, 127))
    assert others != 0
    assert [int((limit + lanes.c)[3]) for limit in (lanes.low, lanes.high)] == ends
