# SPDX-License-Identifier: Apache-2.0
"""vta/operators/kernels.py: a kernel is made once for all layers of a spec, its copies inserted;
and what a back end's own pass does to its TensorIR comes through."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.backend.interface import Phase
from loadstone.backend.lowering import passes_of
from loadstone.ir_pass import pipeline
from loadstone.ir_pass.insert_dma_copy import insert_dma_copy
from loadstone.ir_pass.nests import Function
from loadstone.ir_pass.pipeline import NO_PASSES
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.kernels.emitter import Emitter
from loadstone.vta.kernels.kernel import Kernel
from loadstone.vta.operators import kernels, lower_operator
from loadstone.vta.schedule.conv import PIXEL
from loadstone.vta.stream.cost import cost_model
from loadstone.vta.stream.operations import DramTile
from loadstone.vta.stream.text import OperationPrinter
from tests.lowered import small_convolution

VTAQ = load_config("vtaq-1x16x16")


@pytest.fixture
def inserted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Function]]:
    """Functions in which copies were inserted, where no kernel is known at first."""
    seen: list[Function] = []

    def counted(function: Function, table: object) -> Function:
        seen.append(function)
        return insert_dma_copy(function, table)  # type: ignore[arg-type]

    monkeypatch.setattr(pipeline, "insert_dma_copy", counted)
    kernels._kernel.cache_clear()
    yield seen
    kernels._kernel.cache_clear()


def test_copies_are_inserted_once_for_all_layers_of_a_spec(inserted: list[Function]) -> None:
    """Another block of lanes is another kernel."""
    one = lower_operator(small_convolution(), VTAQ)
    assert [function.name for function in inserted] == ["conv2d"]
    assert lower_operator(small_convolution(), VTAQ).kernels == one.kernels
    assert len(inserted) == 1
    small = lower_operator(small_convolution(), load_config("vtaq-1x8x8"))
    assert len(inserted) == 2
    assert small.kernels != one.kernels


@pytest.mark.parametrize("phase", [Phase.TENSOR_IR, Phase.LOOPS, Phase.COPIES])
def test_a_pass_of_a_back_end_is_given_the_kernel_as_tensor_ir(phase: Phase) -> None:
    seen: list[str] = []

    def looked_at(module: object) -> object:
        seen.append(str(module))
        return module

    def passes(own: Phase) -> list[Callable[[object], object]]:
        return [looked_at] if own is phase else []

    kernel = kernels._kernel(PIXEL, VTAQ, passes_of(passes), cost_model(VTAQ))
    assert len(seen) == 1
    assert ("x_chip" in seen[0]) == (phase is Phase.COPIES)
    without = kernels._kernel(PIXEL, VTAQ, NO_PASSES, cost_model(VTAQ))
    assert emitted(kernel) == emitted(without)


def emitted(kernel: Kernel) -> list[str]:
    emitter, printer = Emitter({}), OperationPrinter()
    kernel.emit(emitter, *(DramTile(name, 0) for name in kernel.parameters))
    return list(map(printer.line, emitter.operations))
