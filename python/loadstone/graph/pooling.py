# SPDX-License-Identifier: Apache-2.0
"""Pools and means.

In:   integers.
Out:  Pool2D (the common fields of a window), AveragePool2D, MaxPool2D, Mean.
Next: graph/reference.py defines their results.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from loadstone.graph.base import Operator
from loadstone.numerics import Rounding

__all__ = ["AveragePool2D", "MaxPool2D", "Mean", "Pool2D"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Pool2D(Operator):
    """A window over (N, H, W, C). kernel, strides: (height, width). padding: (top, left, bottom,
    right).

    The input's and the output's quantization are the same, but for averages of ONNX models: those
    are requantized.
    """

    is_light: ClassVar[bool] = True

    kernel: tuple[int, int]
    strides: tuple[int, int]
    padding: tuple[int, int, int, int]
    low: int
    high: int
    rounding: Rounding

    def __post_init__(self) -> None:
        super().__post_init__()
        top, left, bottom, right = self.padding
        height = (self.input.shape[1] + top + bottom - self.kernel[0]) // self.strides[0] + 1
        width = (self.input.shape[2] + left + right - self.kernel[1]) // self.strides[1] + 1
        shape = (self.input.shape[0], height, width, self.input.shape[3])
        self._must(self.output.shape == shape, f"an output of {shape}")

    @property
    def is_global(self) -> bool:
        """One window covers the whole input."""
        return self.kernel == self.input.shape[1:3] and self.padding == (0, 0, 0, 0)


@dataclass(frozen=True, eq=False, kw_only=True)
class AveragePool2D(Pool2D):
    """Mean of the window. Padded taps count (as zero points) only when `count_include_pad`.

    unsigned: the model was uint8, and what is rounded is the mean of x + 128: TFLite's uint8 kernel
        rounds half up, the
    int8 one away from zero.
    """

    kind: ClassVar[str] = "average_pool2d"

    count_include_pad: bool
    unsigned: bool = False


@dataclass(frozen=True, eq=False, kw_only=True)
class MaxPool2D(Pool2D):
    """Largest of the window; padded taps never win."""

    kind: ClassVar[str] = "max_pool2d"


@dataclass(frozen=True, eq=False, kw_only=True)
class Mean(Operator):
    """Mean over `axes` (ascending, not negative). Whether the axes stay with length 1 is seen in
    output.shape."""

    kind: ClassVar[str] = "mean"
    is_light: ClassVar[bool] = True

    axes: tuple[int, ...]
    low: int
    high: int
    rounding: Rounding

    @property
    def mixes_samples(self) -> bool:
        """It sums rows."""
        return 0 in self.axes
