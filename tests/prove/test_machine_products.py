# SPDX-License-Identifier: Apache-2.0
"""prove/machine.py: what is multiplied with what, and the range of the products."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone.prove import steps
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


def test_only_lanes_that_read_digits_are_settled() -> None:
    """The first output has no weight of the digits: its lane holds its sum still."""
    tiny = Tiny()
    for one in (*tiny.ready(), *_STORED, _INPUTS_FROM_OUT):
        tiny.run(one, 0)
    machine = tiny.both.machine
    machine.wgt[0] = [[0, 0, 0, 0], [1, 0, 0, 0], [0, -1, 0, 0], [2, 3, 4, 5]]
    tiny.run(Gemm(**_ONE), 0)
    at = np.arange(4)
    assert machine.lanes.sums[:, at].any(0).tolist() == [True, False, False, False]
    assert (machine.lanes.digits.count[at] > 0).tolist() == [False, True, True, True]


def test_products_of_one_or_two_elements_keep_their_names() -> None:
    """Neither constants nor digits have one; weights of 0 count for nothing."""
    tiny = Tiny()
    for one in (*tiny.ready(), *_STORED):
        tiny.run(one, 0)
    place = np.arange(tiny.NOTHING + 16, tiny.NOTHING + 20)
    held = tiny.both.dram.read(0, np.arange(tiny.INPUTS, tiny.INPUTS + 4), "the test")
    held[2:] = 77, tiny.both.dram.read(0, np.array([tiny.NOTHING]), "the test")[0]
    tiny.both.dram.write(0, place, held, "the test", NOBODY)
    for one in (_CLEAR, _INPUTS_FROM_OUT.changed(dram_base=(tiny.NOTHING + 16) // 4)):
        tiny.run(one, 0)
    machine, at = tiny.both.machine, np.arange(4)
    machine.wgt[0] = [[3, 0, 5, 0], [-2, 7, 1, 0], [0, 0, 1, 1], [0, 9, 0, 0]]
    tiny.run(Gemm(**_ONE), 0)
    named, digits = machine.lanes.named, machine.lanes.digits
    assert named.count[at].tolist() == [1, 2, 0, 1]
    assert digits.count[at].tolist() == [0, 0, 1, 0]
    assert named.symbol[0, 0] == held[0]
    assert named.symbol[1].tolist() == held[:2].tolist()
    assert named.coefficient[1].tolist() == [-2, 7]
    assert (named.symbol[3, 0], named.coefficient[3, 0]) == (held[1], 9)
    machine.wgt[0] = [[0, 4, 0, 0], [0, 0, 8, 0], [6, 0, 0, 0], [1, 0, 0, 0]]
    tiny.run(Gemm(**_ONE), 0)
    assert named.count[at].tolist() == [2, 2, 1, 2]
    tiny.run(Gemm(**_ONE | {"src_out": 1, "iter_out": 2}), 0)
    assert (named.count[at] > 2).tolist() == [True, True, False, True]


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


@pytest.mark.parametrize("chunk", [1, 20])
def test_products_one_after_the_other_are_those_of_all_together(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "_CHUNK", chunk)
    tiny = Tiny()
    tiny.both.run([*tiny.ready(), *_STORED])
    tiny.both.check(tiny.NOTHING + 16)


@pytest.mark.parametrize("every", [1, 2])
@pytest.mark.parametrize("operand", range(3))
def test_a_requantization_has_constants_alone(operand: int, every: int) -> None:
    """In each lane of each of its three tiles."""
    tiny = Tiny(every)
    for one in tiny.ready():
        tiny.run(one, 0)
    requantize = Alu(**_ONE | {"uop_bgn": 4, "uop_end": 5}, alu_op=AluOp.RQ)
    tiny.run(requantize, 0)
    varies = Load(memory_id=Memory.ACC_8BIT, sram_base=4 + operand, dram_base=Tiny.INPUTS // 4,
                  y_size=1, x_size=1)  # fmt: skip
    for one in (tiny.load(Memory.ACC, tiny.KNOWN, 3, at=4), varies):
        tiny.run(one, 0)
    with pytest.raises(Unsupported, match="RQ with operands that are no constants"):
        tiny.run(requantize, 0)
