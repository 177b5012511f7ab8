# SPDX-License-Identifier: Apache-2.0
"""vta/operators/kernels.py: loops that are the same are lowered once, on whatever device."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.vta.device.hw_config import load_config
from loadstone.vta.kernels.from_tir import lower
from loadstone.vta.operators import kernels, lower_operator
from tests.lowered import small_convolution

VTAQ = load_config("vtaq-1x16x16")
#: The layer needs a part of this scratchpad.
OTHER = replace(VTAQ, log_wgt_buff=VTAQ.log_wgt_buff - 1)


def test_devices_whose_loops_are_the_same_share_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another block has other loops."""
    one = lower_operator(small_convolution(), VTAQ)
    lowered: list[object] = []

    def counted(*arguments: object) -> object:
        lowered.append(arguments)
        return lower(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(kernels, "lower", counted)
    two = lower_operator(small_convolution(), OTHER)
    assert not lowered
    assert two.kernels == one.kernels

    small = lower_operator(small_convolution(), load_config("vtaq-1x8x8"))
    assert len(lowered) == 1
    assert small.kernels != one.kernels
