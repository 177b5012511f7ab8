# SPDX-License-Identifier: Apache-2.0
"""Weighted sums that leave a device whole: int32, or planes of its bytes.

In:   int8 activations and weights, as a product of integers in a network has them.
Out:  PlaneWeighted (the common fields), PlaneConv2D, PlaneDense.
Next: graph/reference.py defines their results; vta/operators/plane_layers.py lowers them.

The output holds the sum of channel o in its channels o, O + o, 2 * O + o ...: its lowest byte, then
the next one. Each byte is an int8 of the same bits. Where no sum can leave 24 bits three planes say
all of it; the highest plane always has the sign. A single plane is the sums themselves, int32.
Nothing is rounded, added or clamped: what
follows the sum is computed on int32 or float32, elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from loadstone.graph.base import Operator

__all__ = ["PlaneConv2D", "PlaneDense", "PlaneWeighted", "planes_needed"]

#: Of an int32.
_MOST_PLANES = 4
_FEWEST_PLANES = 3


def planes_needed(weights: NDArray[np.int8]) -> int:
    """How many planes hold every sum that inputs of int8 can give: 3 where 128 * sum |w| of each
    output channel is below 2^23, else 4, which hold it modulo 2^32. weights: (O, ...)."""
    sums = np.abs(weights.reshape(len(weights), -1), dtype=np.int16).sum(axis=1, dtype=np.int64)
    return _FEWEST_PLANES if 128 * int(sums.max(initial=0)) < 1 << 23 else _MOST_PLANES


@dataclass(frozen=True, eq=False, kw_only=True)
class PlaneWeighted(Operator):
    """acc[o] = sum x * weights[o], wrapped to 32 bits; then its bytes, lowest first. weights: int8
    (O, ...). planes: 3 or 4, or 1 of int32."""

    weights: NDArray[np.int8]
    planes: int

    def __post_init__(self) -> None:
        super().__post_init__()
        self._must(self.weights.dtype == np.int8, "weights of int8")
        if self.is_whole:
            self._must(self.planes == 1, "one plane of int32")
        else:
            self._must(self.planes in (_FEWEST_PLANES, _MOST_PLANES), "3 or 4 planes")
            self._must(planes_needed(self.weights) <= self.planes, "planes that hold every sum")
        channels = self.planes * self.weights.shape[0]
        self._must(self.output.shape[-1] == channels, "a channel for each byte")

    @property
    def is_whole(self) -> bool:
        """Whether the sums leave as int32."""
        return self.output.dtype == "int32"

    @property
    def macs(self) -> int:
        """Multiply-accumulates, those of the padding included."""
        return self.output.size // self.planes * int(self.weights.size // self.weights.shape[0])


@dataclass(frozen=True, eq=False, kw_only=True)
class PlaneConv2D(PlaneWeighted):
    """Convolution, as graph.Conv2D: input (N, H, W, C), weights (O, KH, KW, C / groups); padding
    is zeros."""

    kind: ClassVar[str] = "plane_conv2d"

    strides: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[int, int, int, int]
    groups: int

    def __post_init__(self) -> None:
        super().__post_init__()
        self._must(self.weights.ndim == 4, "weights of four axes")
        inputs, outputs = self.input.shape[3], self.weights.shape[0]
        self._must(self.weights.shape[3] * self.groups == inputs, "weights for each input channel")
        self._must(outputs % self.groups == 0, "as many kernels in each group")


@dataclass(frozen=True, eq=False, kw_only=True)
class PlaneDense(PlaneWeighted):
    """Fully connected: input (..., I), weights (O, I), output (..., planes * O)."""

    kind: ClassVar[str] = "plane_dense"

    def __post_init__(self) -> None:
        super().__post_init__()
        shape = (*self.output.shape[:-1], self.weights.shape[1])
        self._must(self.input.shape == shape, f"an input of {shape}")
