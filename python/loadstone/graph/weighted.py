# SPDX-License-Identifier: Apache-2.0
"""Operators that multiply and accumulate: convolution and dense layer.

In:   integers and NumPy arrays.
Out:  Weighted (their common fields), Conv2D, Dense.
Next: graph/reference.py defines their results.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from loadstone.graph.base import Operator
from loadstone.numerics import (
    Rounding,
    onnx_scale,
    quantize_multiplier,
    scale_lane,
    shift_lane,
    single_multiplier,
    tflite_scale,
)

__all__ = ["Conv2D", "Dense", "Weighted"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Weighted(Operator):
    """acc[o] = bias[o] + sum (x - input zero point) * (weights - weight_zero_points[o]); then
    requantized and clamped.

    bias: int32 at scale input.scale * weight_scales[o]; all zero when the model has none.
    weight_scales: float32 (O,); weight_zero_points: int32 (O,), zero except in uint8 models whose
        weights do not fit
    int8 after the zero point is taken off (extraction takes it off where they do).
    """

    weights: NDArray[np.int8]
    weight_scales: NDArray[np.float32]
    weight_zero_points: NDArray[np.int32]
    bias: NDArray[np.int32]
    low: int
    high: int
    rounding: Rounding

    def __post_init__(self) -> None:
        super().__post_init__()
        channels = (self.weights.shape[0],)
        self._must(self.weights.dtype == np.int8, "weights of int8")
        for array, dtype in (
            (self.weight_scales, np.float32),
            (self.weight_zero_points, np.int32),
            (self.bias, np.int32),
        ):
            self._must(array.dtype == dtype, f"parameters of {np.dtype(dtype)}")
            self._must(array.shape == channels, "a parameter for each output channel")
        self._must(-128 <= self.low <= self.high <= 127, "a clamp of int8")
        self._must(self.output.shape[-1] == channels[0], "an output channel for each kernel")

    @property
    def macs(self) -> int:
        """Multiply-accumulates, those of the padding included."""
        return self.output.size * int(self.weights.size // self.weights.shape[0])

    def requantization(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Multiplier and shift of each output channel, as numerics.rq takes them; of a dense layer
        with rounding single only where integers_round is true.

        Both are (O,), multipliers in [2^30, 2^31] or, for float32, the bits of the scale.
        """
        if self.rounding is Rounding.FLOAT32:
            scales = onnx_scale(self.input.scale, self.weight_scales, self.output.scale)
            return scale_lane(scales), np.zeros_like(self.bias)
        multiplier, shift = quantize_multiplier(self.real_scales())
        return multiplier, shift_lane(shift)

    @property
    def integers_round(self) -> bool:
        """Whether `requantization` has integers for its rounding."""
        return True

    def real_scales(self) -> NDArray[np.float64]:
        """(O,): what TFLite multiplies the accumulator of each output channel by."""
        return tflite_scale(self.input.scale, self.weight_scales, self.output.scale)


@dataclass(frozen=True, eq=False, kw_only=True)
class Conv2D(Weighted):
    """Convolution; depthwise is `groups` = input channels. input (N, H, W, C), weights (O, KH, KW,
    C / groups) int8.

    Output channel o reads the input channels of group o // (O / groups). Taps outside the input
    contribute nothing (they read the input's zero point). strides, dilation: (height, width).
    float32_product: input and weight scale are multiplied in float32, as TFLite's uint8 kernels do
        it.
    """

    kind: ClassVar[str] = "conv2d"
    patterns: ClassVar[tuple[str, ...]] = ("conv2d", "batch_norm", "channel_add", "channel_mul")

    strides: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[int, int, int, int]
    groups: int
    float32_product: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._must(self.weights.ndim == 4, "weights of four axes")
        inputs, outputs = self.input.shape[3], self.weights.shape[0]
        self._must(self.weights.shape[3] * self.groups == inputs, "weights for each input channel")
        self._must(outputs % self.groups == 0, "as many kernels in each group")
        shape = (self.input.shape[0], *self._output_size(), outputs)
        self._must(self.output.shape == shape, f"an output of {shape}")

    def _output_size(self) -> tuple[int, int]:
        top, left, bottom, right = self.padding
        sizes = []
        for axis, pads in ((0, top + bottom), (1, left + right)):
            reach = self.dilation[axis] * (self.weights.shape[1 + axis] - 1) + 1
            sizes.append((self.input.shape[1 + axis] + pads - reach) // self.strides[axis] + 1)
        return sizes[0], sizes[1]

    def real_scales(self) -> NDArray[np.float64]:
        """(O,): what TFLite multiplies the accumulator of each output channel by."""
        scales = self.input.scale, self.weight_scales, self.output.scale
        return tflite_scale(*scales, float32_product=self.float32_product)

    @property
    def is_depthwise(self) -> bool:
        """Each group has one input channel (and there is more than one group)."""
        return self.groups > 1 and self.weights.shape[3] == 1


@dataclass(frozen=True, eq=False, kw_only=True)
class Dense(Weighted):
    """Fully connected: input (M, I), weights (O, I) int8, output (M, O)."""

    kind: ClassVar[str] = "dense"
    patterns: ClassVar[tuple[str, ...]] = ("dense", "batch_norm", "channel_add", "channel_mul")

    def __post_init__(self) -> None:
        super().__post_init__()
        self._must(self.weights.ndim == 2, "weights of two axes")
        shape = (self.output.shape[0], self.weights.shape[1])
        self._must(self.input.shape == shape, f"an input of {shape}")

    @property
    def integers_round(self) -> bool:
        """False where it is rounded as a float64 (rounding single), and for some channel no integer
        multiplier is proven to give the same."""
        return self.rounding is not Rounding.SINGLE or bool(self.as_single()[2].all())

    def requantization(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """As of Weighted. Rounding single is TFLite's product in float64, ties away from zero: the
        integers are those that are proven to give it."""
        if self.rounding is not Rounding.SINGLE:
            return super().requantization()
        multiplier, shift, exact = self.as_single()
        self._must(bool(exact.all()), "rounded by the product of an integer multiplier")
        return multiplier, shift

    def as_single(self) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.bool_]]:
        """(O,) each: multiplier and shift with which rounding SINGLE gives TFLite's integers, and
        where that is proven."""
        scale, channels = np.unique(self.real_scales(), return_inverse=True)
        limits = self.output.zero_point, self.low, self.high
        multiplier, shift, exact = _singles(tuple(scale.tolist()), *limits)
        return multiplier[channels], shift_lane(shift[channels]), exact[channels]


@lru_cache(maxsize=256)
def _singles(
    scales: tuple[float, ...], zero_point: int, low: int, high: int
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.bool_]]:
    """The proof takes milliseconds a scale: once for each, not for each channel and question."""
    return single_multiplier(np.array(scales, np.float64), zero_point, low, high)
