# SPDX-License-Identifier: Apache-2.0
"""requantized_lanes.py: constants alone requantize, by the registers of the stage that does it."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone.prove.lanes import SymbolLanes
from loadstone.prove.requantized_lanes import rq_parameters
from loadstone.prove.verdict import NotProved, Unsupported
from loadstone.vta.isa.spec import ConfigRegister, Stage
from tests.prove.values_at import ValuesAt

REGISTERS = {
    (stage, register): 10 * int(stage) + int(register) * (register != ConfigRegister.RQ_ROUNDING)
    for stage in Stage
    for register in ConfigRegister
} | {(stage, ConfigRegister.RQ_ROUNDING): int(stage) for stage in Stage}


def lanes() -> SymbolLanes:
    """Six constants, and a byte that is an input."""
    values = ValuesAt(np.array([5]))
    made = SymbolLanes(values, 7)
    made.put_numbers(np.arange(6), np.array([1, 2, 3, 4, 5, -6]))
    made.put_symbols(np.array([6]), values.opaque(np.array([-128]), np.array([127])))
    return made


@pytest.mark.parametrize("stage", [Stage.COMPUTE, Stage.STORE])
def test_each_lane_has_its_operands_and_the_registers_of_the_stage(stage: Stage) -> None:
    operands = [np.array(pair) for pair in ((0, 1), (2, 3), (4, 5))]
    found = rq_parameters(lanes(), operands, REGISTERS, stage)
    registers = [10 * stage + k for k in (1, 2, 3)]
    assert found.tolist() == [[1, 3, 5, *registers, stage], [2, 4, -6, *registers, stage]]


def test_operands_that_depend_on_an_input_are_beyond_a_proof() -> None:
    for k in range(3):
        operands = [np.array([0, 3]), np.array([1, 4]), np.array([2, 5])]
        operands[k] = np.array([k, 6])
        with pytest.raises(Unsupported, match="operands that are no constants"):
            rq_parameters(lanes(), operands, REGISTERS, Stage.STORE)


@pytest.mark.parametrize("rounding", range(-1, 4))
def test_a_rounding_that_is_none_is_refused(rounding: int) -> None:
    registers = REGISTERS | {(Stage.STORE, ConfigRegister.RQ_ROUNDING): rounding}
    operands = [np.array([k]) for k in range(3)]
    if 0 <= rounding < 3:
        assert rq_parameters(lanes(), operands, registers, Stage.STORE)[0, -1] == rounding
        return
    with pytest.raises(NotProved, match=f"RQ_ROUNDING={rounding}, which is none"):
        rq_parameters(lanes(), operands, registers, Stage.STORE)
    rq_parameters(lanes(), operands, registers, Stage.COMPUTE)
