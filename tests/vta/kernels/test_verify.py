# SPDX-License-Identifier: Apache-2.0
"""vta/kernels/verify.py: a kernel that emits something else than its TensorIR is found."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.errors import LoweringError, VerificationError
from loadstone.ir_pass.insert_dma_copy import insert_dma_copy
from loadstone.ir_pass.nest_text import parsed, printed
from loadstone.ir_pass.nests import (
    Function,
    NestAllocation,
    NestLoops,
    NestStep,
    NestTensor,
    Statement,
)
from loadstone.numerics import Rounding
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.kernels.emitter import Emitter
from loadstone.vta.kernels.from_nests import kernel_of_nests
from loadstone.vta.kernels.from_tir import lower
from loadstone.vta.kernels.memories import memory_table
from loadstone.vta.kernels.verify import verify_kernel
from loadstone.vta.operators import kernels, lower_operator
from loadstone.vta.schedule.nest_tir import module
from loadstone.vta.stream.operations import DramTile, FillNest
from tests.vta.operators.test_rescaled import convolution

CONFIG = load_config("vta-pynq")
OUT = NestTensor("out", (8,), (1, 16), "int8")
ACC = NestTensor("acc", (8,), (1, 16), "int32", "local", "acc")


def filled(*values: int) -> Function:
    """Stores an accumulator behind some fills."""
    body: list[Statement] = [NestAllocation(ACC)]
    for value in values:
        loops = NestLoops()
        body.append(loops.nest(NestStep("fill", (ACC[loops.loop(8, "i")],), (value,))))
    loops = NestLoops()
    i = loops.loop(8, "i")
    return Function("filled", (OUT,), (*body, loops.nest(NestStep("copy", (OUT[i], ACC[i])))))


def test_equal_kernels_pass_and_others_are_named() -> None:
    kernel, lowered = kernel_of_nests(filled(3), CONFIG), lower(module(filled(3)))
    verify_kernel(kernel, lowered, CONFIG)
    for other, message in (
        (filled(4), r"operation 0 of nests is `fill acc#0 \[a\] = 3 .*TensorIR `fill .* = 4"),
        (filled(), r"operation 0 of nests is `fill acc#0 \[a\] = 3 .*TensorIR `store out"),
        (filled(3, 3), r"operation 1 of nests is `store out.*TensorIR `fill acc#0"),
    ):
        with pytest.raises(LoweringError, match=message):
            verify_kernel(kernel, lower(module(other)), CONFIG)
    with pytest.raises(LoweringError, match=r"parameters \('y',\) of nests are \('out',\)"):
        verify_kernel(replace(kernel, parameters=("y",)), lowered, CONFIG)


def test_a_dump_has_the_computation_and_its_copies() -> None:
    lowered = lower_operator(convolution(20, 3, 0.0012, Rounding.DOUBLE), CONFIG)
    before, after, *_ = lowered.runs("layer")
    assert [run.name for run in (before, after)] == ["computation", "insert_dma_copy"]
    assert {run.subject for run in (before, after)} == {"layer"}
    assert before.text is not None
    assert after.text is not None
    made = insert_dma_copy(parsed(before.text()), memory_table(CONFIG))
    assert printed(made) == after.text()


def test_every_new_kernel_is_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was read wrongly does not come through in a test."""

    def spoilt(function: Function, config: object) -> object:
        kernel = kernel_of_nests(function, CONFIG)

        def emit(emitter: Emitter, *places: DramTile) -> None:
            kernel.emit(emitter, *places)
            (fill,) = (o for o in emitter.operations if isinstance(o, FillNest))
            fill.value += 1

        return replace(kernel, emit=emit)

    monkeypatch.setattr(kernels, "kernel_of_nests", spoilt)
    wanted = r"pass operations on filled is wrong: .*operation 0 of nests is `fill .* = 6 "
    with pytest.raises(VerificationError, match=wanted):
        kernels._of_nests(filled(5), CONFIG)
