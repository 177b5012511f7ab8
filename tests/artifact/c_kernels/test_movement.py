# SPDX-License-Identifier: Apache-2.0
"""artifact/c_kernels/movement.py: resizes to sizes that are no multiples, all positions."""

from __future__ import annotations

import pytest

from loadstone import graph as g
from loadstone.numerics import Rounding
from tests.artifact.c_kernels.operators import check, one, tensor


@pytest.mark.parametrize("kind", [g.ResizeNearest, g.ResizeBilinear])
def test_resizes(kind: type[g.Resize]) -> None:
    x, y = tensor("x", 1, 4, 6, 5), tensor("y", 1, 7, 9, 5)
    kinds: dict[str, g.Operator] = {}
    for rounding in (Rounding.DOUBLE, Rounding.FLOAT32):
        for corners, half in ((False, False), (True, False), (False, True)):
            flags = {"align_corners": corners, "half_pixel_centers": half, "rounding": rounding}
            kinds[f"{rounding.name} {corners} {half}"] = one(kind, (x,), y, **flags)
            if kind is g.ResizeBilinear and rounding is Rounding.DOUBLE:
                kinds[f"unsigned {corners} {half}"] = one(kind, (x,), y, **flags, unsigned=True)
    check(kinds)
