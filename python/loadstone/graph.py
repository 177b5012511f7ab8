"""The quantized network as data: the contract between partition.py and the back ends.

In:   nothing; partition.py fills these dataclasses from composite Relax functions.
Out:  frozen dataclasses of integers, NumPy arrays and tensors, in execution order. No TVM, no file format.
Next: graph_reference.py says what each operator computes; a back end lowers regions of them.

Conventions, everywhere:
  - activations are NHWC with the batch first, weights OHWI; a padding is (top, left, bottom, right) in elements;
  - real = scale * (q - zero_point); scales are float32 values; every int8 tensor that an operator reads or writes
    carries its `Quantization`, and no operator repeats it;
  - `low` and `high` are the clamp of the fused activation, already in the integers of the output;
  - `rounding` names the arithmetic of NUMERICS.md: FLOAT32 is the meaning of an ONNX QDQ model, DOUBLE (for dense
    layers SINGLE) that of a TFLite model. It decides the whole rule of an operator, not the last step alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from math import prod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from loadstone.numerics import Rounding

__all__ = [
    "Add",
    "ArgMax",
    "AveragePool2D",
    "Concatenate",
    "Conv2D",
    "Dense",
    "Dequantize",
    "Elementwise",
    "Graph",
    "Host",
    "Lookup",
    "MaxPool2D",
    "Mean",
    "Mul",
    "Operator",
    "Pad",
    "Pool2D",
    "Quantization",
    "Quantize",
    "Requantize",
    "Reshape",
    "Resize",
    "ResizeBilinear",
    "ResizeNearest",
    "Slice",
    "Softmax",
    "Sub",
    "Tensor",
    "Transpose",
    "Weighted",
]


@dataclass(frozen=True)
class Quantization:
    """real = scale * (q - zero_point). scale: a float32 value, > 0. zero_point: in the range of the tensor's type."""

    scale: float
    zero_point: int

    def __post_init__(self) -> None:
        assert float(np.float32(self.scale)) == self.scale, f"{self.scale!r} is no float32 value"


@dataclass(frozen=True)
class Tensor:
    """A value between operators. Two tensors of one graph have different names."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    quantization: Quantization | None = None

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """Bytes of the elements, packed."""
        return self.size * np.dtype(self.dtype).itemsize

    @property
    def scale(self) -> float:
        """The scale of a quantized tensor."""
        assert self.quantization is not None, f"tensor {self.name} is not quantized"
        return self.quantization.scale

    @property
    def zero_point(self) -> int:
        """The zero point of a quantized tensor."""
        assert self.quantization is not None, f"tensor {self.name} is not quantized"
        return self.quantization.zero_point


@dataclass(frozen=True, eq=False, kw_only=True)
class Operator:
    """One step. `name` is the name of its output in the model file: what messages and reports call it.

    Operators are equal only when they are the same object. Arrays in them are read-only.
    """

    kind: ClassVar[str] = "operator"

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]

    def __post_init__(self) -> None:
        for entry in fields(self):
            value = getattr(self, entry.name)
            if isinstance(value, np.ndarray):
                value.setflags(write=False)

    @property
    def input(self) -> Tensor:
        """The first input: for most operators the only activation."""
        return self.inputs[0]

    @property
    def output(self) -> Tensor:
        """The first output: only Host operators may have more."""
        return self.outputs[0]


# ---------------------------------------------------------------------------------------------------------------
# Operators that multiply and accumulate
# ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class Weighted(Operator):
    """acc[o] = bias[o] + sum (x - input zero point) * (weights - weight_zero_points[o]); then requantized and clamped.

    bias: int32 at scale input.scale * weight_scales[o]; all zero when the model has none.
    weight_scales: float32 (O,); weight_zero_points: int32 (O,), zero except in uint8 models whose weights do not fit
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
        assert self.weights.dtype == np.int8
        for array, dtype in ((self.weight_scales, np.float32), (self.weight_zero_points, np.int32), (self.bias, np.int32)):
            assert array.dtype == dtype
            assert array.shape == channels
        assert -128 <= self.low <= self.high <= 127
        assert self.output.shape[-1] == channels[0]


@dataclass(frozen=True, eq=False, kw_only=True)
class Conv2D(Weighted):
    """Convolution; depthwise is `groups` = input channels. input (N, H, W, C), weights (O, KH, KW, C / groups) int8.

    Output channel o reads the input channels of group o // (O / groups). Taps outside the input contribute nothing
    (they read the input's zero point). strides, dilation: (height, width).
    """

    kind: ClassVar[str] = "conv2d"

    strides: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[int, int, int, int]
    groups: int

    def __post_init__(self) -> None:
        super().__post_init__()
        assert self.weights.ndim == 4
        assert self.weights.shape[3] * self.groups == self.input.shape[3]
        assert self.weights.shape[0] % self.groups == 0
        assert self.output.shape == (self.input.shape[0], *self._output_size(), self.weights.shape[0])

    def _output_size(self) -> tuple[int, int]:
        top, left, bottom, right = self.padding
        sizes = []
        for axis, pads in ((0, top + bottom), (1, left + right)):
            reach = self.dilation[axis] * (self.weights.shape[1 + axis] - 1) + 1
            sizes.append((self.input.shape[1 + axis] + pads - reach) // self.strides[axis] + 1)
        return sizes[0], sizes[1]

    @property
    def is_depthwise(self) -> bool:
        """Each group has one input channel (and there is more than one group)."""
        return self.groups > 1 and self.weights.shape[3] == 1


@dataclass(frozen=True, eq=False, kw_only=True)
class Dense(Weighted):
    """Fully connected: input (M, I), weights (O, I) int8, output (M, O)."""

    kind: ClassVar[str] = "dense"

    def __post_init__(self) -> None:
        super().__post_init__()
        assert self.weights.ndim == 2
        assert self.input.shape == (self.output.shape[0], self.weights.shape[1])


# ---------------------------------------------------------------------------------------------------------------
# Operators on elements
# ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class Elementwise(Operator):
    """Two inputs that broadcast to the output as NumPy's do; either may be a constant of the graph."""

    low: int
    high: int
    rounding: Rounding

    def __post_init__(self) -> None:
        super().__post_init__()
        assert len(self.inputs) == 2
        assert np.broadcast_shapes(self.inputs[0].shape, self.inputs[1].shape) == self.output.shape


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
class Requantize(Operator):
    """The same real values in the output's quantization, clamped: QUANTIZE of integers, RELU, RELU6, CLIP.

    The input may be uint8 (at the edge of a uint8 model): with equal scales and zero points 128 apart that flips
    the top bit.
    """

    kind: ClassVar[str] = "requantize"

    low: int
    high: int
    rounding: Rounding

    @property
    def is_clamp(self) -> bool:
        """No arithmetic but the clamp: input and output have one type and quantization."""
        return self.input.dtype == self.output.dtype and self.input.quantization == self.output.quantization


@dataclass(frozen=True, eq=False, kw_only=True)
class Quantize(Operator):
    """float32 -> int8: the output's quantization; half away from zero for TFLite, half to even for FLOAT32."""

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
    """Any function of one element: output = table[input + 128]. table: int8 (256,), made by the framework's rule."""

    kind: ClassVar[str] = "lookup"

    table: NDArray[np.int8]

    def __post_init__(self) -> None:
        super().__post_init__()
        assert self.table.dtype == np.int8
        assert self.table.shape == (256,)


@dataclass(frozen=True, eq=False, kw_only=True)
class Softmax(Operator):
    """softmax(beta * x) over the last axis, int8 to int8."""

    kind: ClassVar[str] = "softmax"

    rounding: Rounding
    beta: float = 1.0


@dataclass(frozen=True, eq=False, kw_only=True)
class ArgMax(Operator):
    """Index (int32 or int64) of the first largest element along `axis`, int8 in. Whether the axis stays is seen in output.shape."""

    kind: ClassVar[str] = "argmax"

    axis: int


# ---------------------------------------------------------------------------------------------------------------
# Pooling and reduction
# ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class Pool2D(Operator):
    """A window over (N, H, W, C). kernel, strides: (height, width). padding: (top, left, bottom, right).

    The input's and the output's quantization are the same, but for averages of ONNX models: those are requantized.
    """

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
        assert self.output.shape == (self.input.shape[0], height, width, self.input.shape[3])

    @property
    def is_global(self) -> bool:
        """One window covers the whole input."""
        return self.kernel == self.input.shape[1:3] and self.padding == (0, 0, 0, 0)


@dataclass(frozen=True, eq=False, kw_only=True)
class AveragePool2D(Pool2D):
    """Mean of the window. Padded taps count (as zero points) only when `count_include_pad`.

    unsigned: the model was uint8, and what is rounded is the mean of x + 128: TFLite's uint8 kernel rounds half up, the
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
    """Mean over `axes` (ascending, not negative). Whether the axes stay with length 1 is seen in output.shape."""

    kind: ClassVar[str] = "mean"

    axes: tuple[int, ...]
    low: int
    high: int
    rounding: Rounding


# ---------------------------------------------------------------------------------------------------------------
# Operators that move data
# ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class Concatenate(Operator):
    """Inputs one after the other along `axis`, each requantized to the output's quantization where it differs."""

    kind: ClassVar[str] = "concatenate"

    axis: int
    low: int
    high: int
    rounding: Rounding

    @property
    def is_copy(self) -> bool:
        """Every input already has the output's quantization: bytes move, no arithmetic but the clamp."""
        return all(tensor.quantization == self.output.quantization for tensor in self.inputs)


@dataclass(frozen=True, eq=False, kw_only=True)
class Slice(Operator):
    """output[i] = input[begin + i * strides], per axis; strides > 0. Quantization is unchanged."""

    kind: ClassVar[str] = "slice"

    begin: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class Pad(Operator):
    """`before` and `after` elements of `value` (an integer of the tensor's type) around each axis."""

    kind: ClassVar[str] = "pad"

    before: tuple[int, ...]
    after: tuple[int, ...]
    value: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Reshape(Operator):
    """The same bytes in row-major order under another shape (flatten, squeeze, expand; or another quantization)."""

    kind: ClassVar[str] = "reshape"

    def __post_init__(self) -> None:
        super().__post_init__()
        assert self.input.size == self.output.size


@dataclass(frozen=True, eq=False, kw_only=True)
class Transpose(Operator):
    """output axis i is input axis permutation[i]."""

    kind: ClassVar[str] = "transpose"

    permutation: tuple[int, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class Resize(Operator):
    """Changes (H, W) of (N, H, W, C) to those of the output.

    Sample position: align_corners: i * (in - 1) / (out - 1); half_pixel_centers: (i + 0.5) * in / out - 0.5;
    neither: i * in / out.
    """

    align_corners: bool
    half_pixel_centers: bool
    rounding: Rounding

    def positions(self, axis: int) -> NDArray[np.float64]:
        """Where each output index of an axis (1 or 2) samples the input."""
        size, out = self.input.shape[axis], self.output.shape[axis]
        index = np.arange(out, dtype=np.float64)
        if self.align_corners and out > 1:
            return index * (size - 1) / (out - 1)
        return (index + 0.5) * size / out - 0.5 if self.half_pixel_centers else index * size / out


@dataclass(frozen=True, eq=False, kw_only=True)
class ResizeNearest(Resize):
    """The nearest sample: floor of the position; for align_corners and half_pixel_centers rounded half up."""

    kind: ClassVar[str] = "resize_nearest"

    def nearest(self, axis: int) -> NDArray[np.int64]:
        """The input index that each output index of an axis (1 or 2) copies."""
        position = self.positions(axis)
        rounded = np.floor(position + 0.5) if self.align_corners or self.half_pixel_centers else np.floor(position)
        return np.asarray(np.clip(rounded, 0, self.input.shape[axis] - 1), np.int64)


@dataclass(frozen=True, eq=False, kw_only=True)
class ResizeBilinear(Resize):
    """Between the four nearest samples. unsigned: as for AveragePool2D, x + 128 is what is rounded."""

    kind: ClassVar[str] = "resize_bilinear"

    unsigned: bool = False


# ---------------------------------------------------------------------------------------------------------------
# Everything else
# ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class Host(Operator):
    """What no dataclass describes: a Relax function, run by TVM on the host.

    function: tvm.IRModule whose `main` takes the inputs in order and gives a tuple when there are several outputs
    (typed Any: a board has no TVM). operators: names of the Relax operators in it, for reports.
    """

    kind: ClassVar[str] = "host"

    function: Any
    operators: tuple[str, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class Graph:
    """A network. operators: in execution order; each tensor is an input, a constant or written once before it is read."""

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    constants: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        known = {tensor.name for tensor in self.inputs} | set(self.constants)
        for operator in self.operators:
            missing = [tensor.name for tensor in operator.inputs if tensor.name not in known]
            assert not missing, f"{operator.name} reads {missing} before they are written"
            written = [tensor.name for tensor in operator.outputs]
            assert not known.intersection(written), f"{operator.name} writes {written} again"
            known.update(written)
        assert all(tensor.name in known for tensor in self.outputs)

    def consumers(self, tensor: Tensor) -> tuple[Operator, ...]:
        """The operators that read it, in order."""
        return tuple(operator for operator in self.operators if tensor in operator.inputs)

    def producer(self, tensor: Tensor) -> Operator | None:
        """None for inputs and constants."""
        return next((operator for operator in self.operators if tensor in operator.outputs), None)

    def describe(self, note: Callable[[Operator], str] = lambda _: "") -> str:
        """One line per operator, for dumps."""
        return "\n".join(_describe(operator, note(operator)) for operator in self.operators)


_PLUMBING = {"name", "inputs", "outputs", "function"}


def _describe(operator: Operator, note: str) -> str:
    values = ((entry.name, getattr(operator, entry.name)) for entry in fields(operator) if entry.name not in _PLUMBING)
    attributes = " ".join(f"{name}={_brief(value)}" for name, value in values)
    inputs = ", ".join(map(_typed, operator.inputs))
    return f"{', '.join(map(_typed, operator.outputs))} = {operator.kind}({inputs}) {attributes} {note}".rstrip()


def _brief(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}"
    if isinstance(value, Rounding):
        return value.name.lower()
    return str(value).replace(" ", "")


def _typed(tensor: Tensor) -> str:
    quantization = f" {tensor.scale:.6g}@{tensor.zero_point}" if tensor.quantization else ""
    return f"{tensor.name}[{'x'.join(map(str, tensor.shape))} {tensor.dtype}{quantization}]"
