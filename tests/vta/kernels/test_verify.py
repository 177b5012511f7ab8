# SPDX-License-Identifier: Apache-2.0
"""vta/kernels/verify.py: a kernel that emits something else than its TensorIR is found."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.errors import LoweringError
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.spec import Memory
from loadstone.vta.kernels.emitter import Emitter
from loadstone.vta.kernels.from_nests import kernel_of_nests
from loadstone.vta.kernels.from_tir import lower
from loadstone.vta.kernels.verify import verify_kernel
from loadstone.vta.operators import kernels
from loadstone.vta.schedule.nest_tir import module
from loadstone.vta.schedule.nests import (
    Function,
    NestAllocation,
    NestLoops,
    NestStep,
    NestTensor,
    Statement,
)
from loadstone.vta.stream.operations import DramTile, FillNest

CONFIG = load_config("vta-pynq")
OUT = NestTensor("out", (8,), (1, 16), "int8")
ACC = NestTensor("acc", (8,), (1, 16), "int32", Memory.ACC)


def filled(*values: int) -> Function:
    """Stores an accumulator behind some fills."""
    body: list[Statement] = [NestAllocation(ACC)]
    for value in values:
        loops = NestLoops()
        body.append(loops.nest(NestStep("fill", (ACC[loops.loop(8, "i")],), (value,))))
    loops = NestLoops()
    i = loops.loop(8, "i")
    return Function((OUT,), (*body, loops.nest(NestStep("dma_copy", (OUT[i], ACC[i]), (0,)))))


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
    with pytest.raises(LoweringError, match=r"operation 0 of nests is `fill .* = 6 "):
        kernels._of_nests(filled(5), CONFIG)
