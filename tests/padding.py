# SPDX-License-Identifier: Apache-2.0
"""What TFLite's SAME means in numbers, for tests that build operators by hand.

In:   sizes of an input and a kernel.
Out:  the padding, as of graph.Geometry.
Next: the tests of kernels, and random TFLite networks.
"""

from __future__ import annotations

__all__ = ["same_padding"]


def same_padding(
    size: tuple[int, int],
    kernel: tuple[int, int],
    strides: tuple[int, int],
    dilation: tuple[int, int] = (1, 1),
) -> tuple[int, int, int, int]:
    """TFLite's SAME padding of an input of `size` (height, width): (top, left, bottom, right), the
    odd element last."""
    before, after = [], []
    for n, k, s, d in zip(size, kernel, strides, dilation, strict=True):
        total = max((-(-n // s) - 1) * s + d * (k - 1) + 1 - n, 0)
        before.append(total // 2)
        after.append(total - total // 2)
    return before[0], before[1], after[0], after[1]
