# SPDX-License-Identifier: Apache-2.0
"""vta/kernels/kernel.py: a kernel has the passes that made it, and no others."""

from __future__ import annotations

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.numerics import Rounding
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.kernels.from_tir import lower
from loadstone.vta.operators import lower_operator
from loadstone.vta.schedule.nest_tir import module
from tests.vta.kernels.test_verify import filled
from tests.vta.operators.test_rescaled import convolution


def test_a_kernel_of_tensorir_has_its_lowering() -> None:
    runs = lower(module(filled(3))).runs
    assert [run.name for run in runs] == ["schedule", "loops", "dma_copy", "compute"]
    assert [run.verified for run in runs] == [False, False, True, True]
    texts = [run.text() for run in runs if run.text is not None]
    assert "lds.dma_copy" not in texts[1]
    assert "lds.dma_copy" in texts[2]
    assert all("annotations" not in text and text.endswith("\n") for text in texts)


def test_a_kernel_of_nests_shows_no_tensorir_that_nobody_lowered() -> None:
    made = lower_operator(convolution(20, 3, 0.0012, Rounding.DOUBLE), load_config("vta-pynq"))
    for kernel in made.kernels:
        assert [run.name for run in kernel.runs] == ["computation", "insert_dma_copy"]
