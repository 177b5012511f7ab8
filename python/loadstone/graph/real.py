# SPDX-License-Identifier: Apache-2.0
"""Operators on real numbers, for devices that compute on bfloat16.

In:   float32 tensors and NumPy arrays.
Out:  RealWeighted (the common fields), RealConv2D, RealDense, RealMatMul, RealBinary, RealClamp,
      RealPool2D, RealMean.
Next: graph/kernels/real.py defines their results; vta/operators/real_layers.py lowers them.

Tensors are float32, as the network has them. A device reads each input rounded to bfloat16, adds
in float32, and rounds what it writes: a tensor that a device has made holds numbers of bfloat16.
Weights are rounded here, once. `low` and `high` are the clamp of the fused activation; without one
they are infinite.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from loadstone.graph.base import Operator
from loadstone.graph.bfloat16 import rounded

__all__ = [
    "RealBinary",
    "RealClamp",
    "RealConv2D",
    "RealDense",
    "RealMatMul",
    "RealMean",
    "RealPool2D",
    "RealWeighted",
]


@dataclass(frozen=True, eq=False, kw_only=True)
class RealWeighted(Operator):
    """clamp(bias[o] + sum x * weights[o]). weights: numbers of bfloat16, as float32. bias: float32
    (O,)."""

    weights: NDArray[np.float32]
    bias: NDArray[np.float32]
    low: float
    high: float

    def __post_init__(self) -> None:
        super().__post_init__()
        kinds = {self.weights.dtype, self.bias.dtype}
        self._must(kinds == {np.dtype(np.float32)}, "weights and bias of float32")
        exact = np.array_equal(rounded(self.weights), self.weights)
        self._must(exact, "weights of bfloat16's numbers")
        channels = self.weights.shape[:1]
        self._must(self.bias.shape == channels, "a bias for each output channel")
        self._must(self.output.shape[-1:] == channels, "an output channel for each kernel")

    @property
    def macs(self) -> int:
        """Multiply-accumulates, those of the padding included."""
        return self.output.size * int(self.weights.size // self.weights.shape[0])


@dataclass(frozen=True, eq=False, kw_only=True)
class RealConv2D(RealWeighted):
    """Convolution, as graph.Conv2D: input (N, H, W, C), weights (O, KH, KW, C / groups); padding
    is zeros."""

    kind: ClassVar[str] = "real_conv2d"

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
class RealDense(RealWeighted):
    """Fully connected: input (M, I), weights (O, I), output (M, O)."""

    kind: ClassVar[str] = "real_dense"

    def __post_init__(self) -> None:
        super().__post_init__()
        shape = (self.output.shape[0], self.weights.shape[1])
        self._must(self.input.shape == shape, f"an input of {shape}")


@dataclass(frozen=True, eq=False, kw_only=True)
class RealMatMul(Operator):
    """inputs[0] (..., M, K) times inputs[1] (..., N, K) by their rows, clamped: (..., M, N). Both
    are activations; the second is turned, as graph.BatchMatMul has it."""

    kind: ClassVar[str] = "real_matmul"

    low: float
    high: float

    def __post_init__(self) -> None:
        super().__post_init__()
        (*first, rows, depth), (*second, columns, again) = (x.shape for x in self.inputs)
        self._must(depth == again, "rows as long as the other's columns")
        shape = (*np.broadcast_shapes(tuple(first), tuple(second)), rows, columns)
        self._must(self.output.shape == shape, f"an output of {shape}")

    @property
    def macs(self) -> int:
        """Multiply-accumulates."""
        return self.output.size * self.inputs[0].shape[-1]

    @property
    def mixes_samples(self) -> bool:
        """A side that has one matrix for all is no sample, nor are the rows of one matrix."""
        return len(self.output.shape) < 3 or self._rows_differ()


@dataclass(frozen=True, eq=False, kw_only=True)
class RealBinary(Operator):
    """inputs[0] op inputs[1], clamped; they broadcast as NumPy's do."""

    kind: ClassVar[str] = "real_binary"

    function: Literal["add", "sub", "mul"]
    low: float
    high: float

    @property
    def mixes_samples(self) -> bool:
        """A side that has one row for all is no sample."""
        return self._rows_differ()


@dataclass(frozen=True, eq=False, kw_only=True)
class RealClamp(Operator):
    """min(max(x, low), high)."""

    kind: ClassVar[str] = "real_clamp"

    low: float
    high: float


@dataclass(frozen=True, eq=False, kw_only=True)
class RealPool2D(Operator):
    """The largest or the mean of a window over (N, H, W, C), as graph.Pool2D: padded taps never are
    the largest, and count for a mean (as zeros) only when `count_include_pad`."""

    kind: ClassVar[str] = "real_pool2d"

    function: Literal["max", "average"]
    kernel: tuple[int, int]
    strides: tuple[int, int]
    padding: tuple[int, int, int, int]
    count_include_pad: bool = False

    @property
    def is_global(self) -> bool:
        """One window covers the whole input."""
        return self.kernel == self.input.shape[1:3] and self.padding == (0, 0, 0, 0)


@dataclass(frozen=True, eq=False, kw_only=True)
class RealMean(Operator):
    """Mean over `axes` (ascending, not negative)."""

    kind: ClassVar[str] = "real_mean"

    axes: tuple[int, ...]

    @property
    def mixes_samples(self) -> bool:
        """It sums rows."""
        return 0 in self.axes
