# SPDX-License-Identifier: Apache-2.0
"""Bilinear resizing: sizes that the device takes are exact, and a uint8 kernel's float32 weights
are no reason to be off by one."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone import graph as g
from loadstone.numerics import Rounding
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.operators import unsupported_reason
from tests import lowered as lo

#: Input size, output size, whether a uint8 model's is taken: halves, thirds, one pixel alone.
SIZES = [
    ((11, 1), (22, 1), True),
    ((22, 1), (44, 3), False),
    ((1, 1), (3, 3), True),
    ((6, 1), (12, 5), False),
]


def resize(size: tuple[int, int], out: tuple[int, int], unsigned: bool) -> g.ResizeBilinear:
    return g.ResizeBilinear(
        name="op",
        inputs=(lo.tensor("x", (1, *size, 16)),),
        outputs=(lo.tensor("y", (1, *out, 16)),),
        align_corners=False,
        half_pixel_centers=True,
        rounding=Rounding.DOUBLE,
        unsigned=unsigned,
    )


@pytest.mark.parametrize("device", ["vtaq-1x16x16", "vta-pynq"])
@pytest.mark.parametrize("unsigned", [False, True])
@pytest.mark.parametrize(("size", "out", "taken"), SIZES)
def test_sizes_are_exact_or_refused(
    size: tuple[int, int], out: tuple[int, int], taken: bool, unsigned: bool, device: str
) -> None:
    op, config = resize(size, out, unsigned), load_config(device)
    refusal = unsupported_reason(op, config)
    assert (refusal is None) == (taken or not unsigned)
    if refusal is not None:
        assert "float32" in str(refusal)
        return
    inputs = lo.random_inputs(op, 7)
    result, _ = lo.run(op, config, inputs)
    np.testing.assert_array_equal(result, lo.reference(op, inputs))


def test_a_half_that_float32_rounds_is_refused() -> None:
    """Sums of quarters meet halves; a share of a third, even of one pixel read twice, is off by a
    bit of float32 there. LiteRT gave 251 for 251.5, and we 252."""
    config = load_config("vtaq-1x16x16")
    assert unsupported_reason(resize((22, 1), (44, 1), True), config) is None
    assert "float32" in str(unsupported_reason(resize((22, 1), (44, 3), True), config))
    assert unsupported_reason(resize((22, 1), (44, 3), False), config) is None
