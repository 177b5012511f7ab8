# SPDX-License-Identifier: Apache-2.0
"""Operators with an integer rule in TFLite alone, that no device takes yet: sums and products over
axes, L2 normalization; and the product of two activations.

In:   integers.
Out:  ReduceSum, ReduceProduct, L2Normalize, BatchMatMul.
Next: graph/reference.py defines their results.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from loadstone.graph.base import Operator
from loadstone.numerics import Rounding, onnx_scale, quantize_multiplier, scale_lane, shift_lane

__all__ = ["BatchMatMul", "L2Normalize", "ReduceProduct", "ReduceSum"]


@dataclass(frozen=True, eq=False, kw_only=True)
class ReduceSum(Operator):
    """Sum over `axes` (ascending, not negative). Whether they stay is seen in output.shape."""

    kind: ClassVar[str] = "reduce_sum"
    patterns: ClassVar[tuple[str, ...]] = ("reduce_sum",)

    axes: tuple[int, ...]

    @property
    def mixes_samples(self) -> bool:
        """It joins rows."""
        return 0 in self.axes


@dataclass(frozen=True, eq=False, kw_only=True)
class ReduceProduct(Operator):
    """Product over `axes` (ascending, not negative). Whether they stay is seen in output.shape."""

    kind: ClassVar[str] = "reduce_product"
    patterns: ClassVar[tuple[str, ...]] = ("reduce_product",)

    axes: tuple[int, ...]

    @property
    def mixes_samples(self) -> bool:
        """It joins rows."""
        return 0 in self.axes


@dataclass(frozen=True, eq=False, kw_only=True)
class L2Normalize(Operator):
    """x / sqrt(sum x^2) over the last axis, in steps of 1/128. unsigned: the model was uint8."""

    kind: ClassVar[str] = "l2_normalize"
    patterns: ClassVar[tuple[str, ...]] = ("l2_normalize",)

    unsigned: bool = False

    @property
    def mixes_samples(self) -> bool:
        """The last axis is the leading one."""
        return len(self.input.shape) < 2


@dataclass(frozen=True, eq=False, kw_only=True)
class BatchMatMul(Operator):
    """inputs[0] (..., M, K) times inputs[1] (..., K, N); leading axes broadcast as NumPy's do.

    turned: inputs[1] is (..., N, K): its rows are the columns of the second factor, which is how a
        device loads them as weights.
    rounding: DOUBLE (TFLite) or FLOAT32 (ONNX).
    """

    kind: ClassVar[str] = "batch_matmul"
    patterns: ClassVar[tuple[str, ...]] = ("batch_matmul", "batch_matmul_turned")

    turned: bool = False
    rounding: Rounding = Rounding.DOUBLE
    low: int = -128
    high: int = 127

    def __post_init__(self) -> None:
        super().__post_init__()
        (*first, rows, depth), (*second, again, columns) = (x.shape for x in self.inputs)
        if self.turned:
            again, columns = columns, again
        self._must(depth == again, "rows as long as the other's columns")
        shape = (*np.broadcast_shapes(tuple(first), tuple(second)), rows, columns)
        self._must(self.output.shape == shape, f"an output of {shape}")
        self._must(self.rounding in (Rounding.DOUBLE, Rounding.FLOAT32), "rounded as any product")

    @property
    def macs(self) -> int:
        """Multiply-accumulates."""
        return self.output.size * self.inputs[0].shape[-1]

    def requantization(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Multiplier and shift of every output, as numerics.rq takes them: (1,) each."""
        if self.rounding is Rounding.FLOAT32:
            a, b, y = (tensor.scale for tensor in (*self.inputs, self.output))
            scale = scale_lane(onnx_scale(a, np.array([b], np.float32), y))
            return scale, np.zeros_like(scale)
        multiplier, shift = quantize_multiplier(self.real_scales())
        return multiplier, shift_lane(shift)

    def real_scales(self) -> NDArray[np.float64]:
        """(1,) what a sum is multiplied by, as TFLite computes it: the product of the inputs'
        scales is float32."""
        a, b, y = (np.float32(tensor.scale) for tensor in (*self.inputs, self.output))
        return np.array([np.float64(a * b) / np.float64(y)])

    @property
    def mixes_samples(self) -> bool:
        """A side that has one matrix for all is no sample, nor are the rows of one matrix."""
        return len(self.output.shape) < 3 or self._rows_differ()
