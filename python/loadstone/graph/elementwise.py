# SPDX-License-Identifier: Apache-2.0
"""Operators on elements: sums, products, changes of quantization, functions of one element, softmax
and layer normalization.

In:   integers and NumPy arrays.
Out:  Elementwise (the common fields of two inputs), Add, Sub, Mul, Div, SquaredDifference,
      Requantize, Quantize, Dequantize, Lookup, Softmax, LayerNorm, ArgMax.
Next: graph/reference.py defines their results.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from loadstone.graph.base import Operator
from loadstone.numerics import Rounding

__all__ = [
    "Add",
    "ArgMax",
    "Dequantize",
    "Div",
    "Elementwise",
    "LayerNorm",
    "Lookup",
    "Mul",
    "Quantize",
    "Requantize",
    "Softmax",
    "SquaredDifference",
    "Sub",
]


@dataclass(frozen=True, eq=False, kw_only=True)
class Elementwise(Operator):
    """Two inputs that broadcast to the output as NumPy's do; either may be a constant of the
    graph."""

    low: int
    high: int
    rounding: Rounding

    def __post_init__(self) -> None:
        super().__post_init__()
        self._must(len(self.inputs) == 2, "of two inputs")
        shape = np.broadcast_shapes(*(tensor.shape for tensor in self.inputs))
        self._must(self.output.shape == shape, f"an output of {shape}")

    @property
    def mixes_samples(self) -> bool:
        """A side that has one row for all is no sample."""
        return self._rows_differ()


@dataclass(frozen=True, eq=False, kw_only=True)
class Add(Elementwise):
    """inputs[0] + inputs[1]."""

    kind: ClassVar[str] = "add"


@dataclass(frozen=True, eq=False, kw_only=True)
class Sub(Elementwise):
    """inputs[0] - inputs[1]."""

    kind: ClassVar[str] = "sub"


@dataclass(frozen=True, eq=False, kw_only=True)
class Mul(Elementwise):
    """inputs[0] * inputs[1]."""

    kind: ClassVar[str] = "mul"


@dataclass(frozen=True, eq=False, kw_only=True)
class Div(Elementwise):
    """inputs[0] / inputs[1]. Only TFLite has an integer rule for it."""

    kind: ClassVar[str] = "div"
    patterns: ClassVar[tuple[str, ...]] = ("div",)


@dataclass(frozen=True, eq=False, kw_only=True)
class SquaredDifference(Elementwise):
    """(inputs[0] - inputs[1])^2. Only TFLite has an integer rule for it."""

    kind: ClassVar[str] = "squared_difference"
    patterns: ClassVar[tuple[str, ...]] = ("squared_difference",)


@dataclass(frozen=True, eq=False, kw_only=True)
class Requantize(Operator):
    """The same real values in the output's quantization, clamped: QUANTIZE of integers, RELU,
    RELU6, CLIP.

    The input may be uint8 (at the edge of a uint8 model): with equal scales and zero points 128
    apart that flips the top bit.
    """

    kind: ClassVar[str] = "requantize"
    is_move: ClassVar[bool] = True

    low: int
    high: int
    rounding: Rounding

    @property
    def is_clamp(self) -> bool:
        """No arithmetic but the clamp: input and output have one type and quantization."""
        return (
            self.input.dtype == self.output.dtype
            and self.input.quantization == self.output.quantization
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class Quantize(Operator):
    """float32 -> int8: the output's quantization; half away from zero for TFLite, half to even for
    FLOAT32."""

    kind: ClassVar[str] = "quantize"

    low: int
    high: int
    rounding: Rounding


@dataclass(frozen=True, eq=False, kw_only=True)
class Dequantize(Operator):
    """int8 (or uint8, int32) -> float32."""

    kind: ClassVar[str] = "dequantize"


@dataclass(frozen=True, eq=False, kw_only=True)
class Lookup(Operator):
    """Any function of one element: output = table[input + 128]. table: int8 (256,), made by the
    framework's rule."""

    kind: ClassVar[str] = "lookup"
    patterns: ClassVar[tuple[str, ...]] = (
        "table",
        "sigmoid",
        "leaky_relu",
        "hard_swish",
        "abs",
        "sqrt",
        "rsqrt",
    )

    table: NDArray[np.int8]

    def __post_init__(self) -> None:
        super().__post_init__()
        is_table = self.table.dtype == np.int8 and self.table.shape == (256,)
        self._must(is_table, "a table of 256 int8")


@dataclass(frozen=True, eq=False, kw_only=True)
class Softmax(Operator):
    """softmax(beta * x) over the last axis, int8 to int8."""

    kind: ClassVar[str] = "softmax"

    rounding: Rounding
    beta: float = 1.0

    @property
    def mixes_samples(self) -> bool:
        """The last axis is the leading one."""
        return len(self.input.shape) < 2


@dataclass(frozen=True, eq=False, kw_only=True)
class LayerNorm(Operator):
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta, int8 to int8, as ONNX has it. gamma and
    beta: one number for each element of what is normalized, the last axes of x."""

    kind: ClassVar[str] = "layer_norm"

    gamma: NDArray[np.float32]
    beta: NDArray[np.float32]
    epsilon: float

    @property
    def mixes_samples(self) -> bool:
        """The leading axis is among the last ones."""
        return self.gamma.size == self.input.size


@dataclass(frozen=True, eq=False, kw_only=True)
class ArgMax(Operator):
    """Index (int32 or int64) of the first largest element along `axis`, int8 in. Whether the axis
    stays is seen in output.shape."""

    kind: ClassVar[str] = "argmax"

    axis: int

    @property
    def mixes_samples(self) -> bool:
        """It compares rows."""
        return self.axis == 0
