# SPDX-License-Identifier: Apache-2.0
"""vta/kernels/kernel.py: a kernel has the passes that made it, and no others."""

from __future__ import annotations

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.ir_pass.pipeline import Passes
from loadstone.numerics import Rounding
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.operators import kernels, lower_operator
from loadstone.vta.schedule.conv import PIXEL
from loadstone.vta.stream.cost import cost_model
from tests.vta.operators.test_rescaled import convolution

VTAQ = load_config("vtaq-1x16x16")


def test_a_kernel_of_passes_has_its_lowering() -> None:
    def same(module: object) -> object:
        return module

    made = kernels._kernel(PIXEL, VTAQ, Passes((same,), (same,), (same,)), cost_model(VTAQ))
    stages = ["computation", "schedule", "loops", "nests", "insert_dma_copy", "copies"]
    assert [run.name for run in made.runs] == stages
    assert made.verified
    texts = [run.text() for run in made.runs if run.text is not None]
    assert all(text.endswith("\n") for text in texts)
    assert texts[3] == texts[0].replace(" else 0]", "]")  # the pad of nothing
    assert texts[4] == texts[5]


def test_a_kernel_of_nests_shows_no_tensorir_that_nobody_lowered() -> None:
    made = lower_operator(convolution(20, 3, 0.0012, Rounding.DOUBLE), load_config("vta-pynq"))
    for kernel in made.kernels:
        assert [run.name for run in kernel.runs] == ["computation", "insert_dma_copy"]
