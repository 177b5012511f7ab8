# SPDX-License-Identifier: Apache-2.0
"""vta/schedule/alu_steps.py: a step of an epilogue is one instruction on an accumulator."""

from __future__ import annotations

import pytest

from loadstone.ir_pass.nests import NestStep, NestTensor
from loadstone.numerics import Rounding
from loadstone.vta.schedule.alu_steps import AluStep, alu_step
from loadstone.vta.schedule.epilogue import Immediate, RowOperand, Rq

ACC = NestTensor("acc", (4,), (1, 16), "int32", "local")
P = NestTensor("p", (2, 3), (1, 16), "int32", "table")


@pytest.mark.parametrize(
    ("step", "wanted"),
    [
        (Rq(4, -128, 99, Rounding.SINGLE), ("rq", (ACC[2], P[1, 0]), (4, -128, 99, 1))),
        (Immediate("shr", -3), ("shr", (ACC[2],), (-3,))),
        (RowOperand("add", 2), ("add", (ACC[2], P[1, 2]), ())),
    ],
)
def test_its_operands_and_immediates(step: AluStep, wanted: tuple[object, ...]) -> None:
    assert alu_step(step, ACC[2], lambda row: P[1, row]) == NestStep(*wanted)  # type: ignore[arg-type]
