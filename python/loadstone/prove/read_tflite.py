# SPDX-License-Identifier: Apache-2.0
"""The network of a .tflite file, as LiteRT's reference kernels mean it.

In:   the bytes of a .tflite file, int8 or uint8.
Out:  Network.
Next: the engine states each operator on symbols.

What is not understood is refused by one line: an operator, its version, an option, a type, a shape
that the operator does not give. Operators on real numbers keep their name (`float:NAME`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import UnsupportedError
from loadstone.prove.network import Network, Operator, Tensor
from loadstone.prove.requantize import Away, Average, Double, Requantization
from loadstone.prove.tflite_file import TfliteModel, TfliteOperator, read_file
from loadstone.prove.tflite_geometry import bilinear, bilinear_uint8, nearest, sliced, window
from loadstone.prove.tflite_levels import (
    activation_limits,
    addition,
    concatenated,
    function,
    leaky_relu,
    limits,
    mean_scaling,
    product,
    product_scale,
    rescaled,
)

__all__ = ["read_tflite"]

_EIGHT_BITS = ("int8", "uint8")
#: Options that say what tensors say too, or what concerns other types alone.
_UNREAD = {
    "AsymmetricQuantizeInputs",
    "DepthMultiplier",
    "KeepNumDims",
    "NewShape",
    "OutputType",
    "PotScaleInt16",
    "QuantizedBiasType",
    "SqueezeDims",
}


def read_tflite(data: bytes, name: str) -> Network:
    """The network of a file. name: what messages call it. Raises ModelError for a damaged file,
    UnsupportedError for what is not understood."""
    reader = _Reader(read_file(data, name))
    for operator in reader.model.operators:
        reader.read(operator)
    return reader.network()


class _Reader:
    """Tensors and operators of the network so far."""

    def __init__(self, model: TfliteModel) -> None:
        self.model = model
        self.tensors = list(model.tensors)
        self.operators: list[Operator] = []

    def network(self) -> Network:
        """What was read; refused where nothing of it is integers."""
        if all(o.kind.startswith("float:") or o.kind == "dequantize" for o in self.operators):
            raise UnsupportedError(
                f"{self.model.name}: no operator computes on int8 or uint8: a proof compares "
                "integers; quantize the model first"
            )
        return Network(
            self.model.name,
            tuple(self.tensors),
            tuple(self.operators),
            self.model.inputs,
            self.model.outputs,
        )

    def refuse(self, operator: TfliteOperator, what: str, remedy: str) -> NoReturn:
        """Raises UnsupportedError: the operator, what is the matter with it, what to do."""
        raise UnsupportedError(
            f"{self.model.name}: {self.model.where(operator)} {what}: {remedy}"
        )

    def read(self, operator: TfliteOperator) -> None:
        """Appends an operator of the file."""
        types = [self.tensors[k].dtype for k in (*operator.inputs, *operator.outputs) if k >= 0]
        is_end = operator.code in ("QUANTIZE", "DEQUANTIZE")
        if any(t.startswith("float") for t in types) and not is_end:
            attributes = {"version": operator.version, **operator.options}
            self.emit(f"float:{operator.code}", operator, operator.inputs, **attributes)
            return
        if operator.code not in _TAKEN:
            self.refuse(operator, "is not known", f"a proof knows {', '.join(sorted(_TAKEN))}")
        taken = _TAKEN[operator.code]
        if operator.version > taken.version:
            self.refuse(
                operator,
                f"has version {operator.version}, the limit is {taken.version}",
                "convert the model with an older converter",
            )
        for field, value in operator.options.items():
            if value and field not in _UNREAD and field not in taken.options:
                self.refuse(operator, f"has {field}={value}", "only 0 is understood")
        if not taken.fewest <= len(operator.inputs) <= taken.most or len(operator.outputs) != 1:
            self.refuse(
                operator,
                f"has {len(operator.inputs)} inputs and {len(operator.outputs)} outputs",
                f"{taken.fewest} to {taken.most} and one are understood",
            )
        taken.read(self, operator)

    def emit(
        self, kind: str, operator: TfliteOperator, inputs: Sequence[int], **attributes: object
    ) -> None:
        """Appends an operator with the file's outputs."""
        self.operators.append(
            Operator(kind, tuple(inputs), operator.outputs, attributes, self.model.where(operator))
        )

    def add(self, tensor: Tensor) -> int:
        """The index of a tensor that the file does not have so."""
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    # -- what operators ask ------------------------------------------------------------------------

    def output(self, operator: TfliteOperator) -> Tensor:
        return self.tensors[operator.outputs[0]]

    def levels(self, operator: TfliteOperator, *places: int) -> list[Tensor]:
        """The inputs at `places` and the output: of one 8-bit type, each with one scale."""
        found = [self.tensors[operator.inputs[k]] for k in places] + [self.output(operator)]
        for tensor in found:
            if tensor.dtype not in _EIGHT_BITS or tensor.dtype != found[0].dtype:
                self.refuse(
                    operator,
                    f"has tensors of {', '.join(sorted({t.dtype for t in found}))}",
                    "tensors of int8 alone or of uint8 alone are understood",
                )
            if len(tensor.scales) != 1:
                self.refuse(
                    operator,
                    f'has the tensor "{tensor.name[-60:]}" with {len(tensor.scales)} scales',
                    "one is understood",
                )
        return found

    def constant(self, operator: TfliteOperator, place: int) -> NDArray[np.generic]:
        """The elements of an input that must be a constant."""
        data = self.tensors[operator.inputs[place]].data
        if data is None:
            self.refuse(operator, f"has input {place} that is no constant", "make it one")
        return data

    def integers(self, operator: TfliteOperator, place: int) -> list[int]:
        """The elements of a constant of axes, sizes or positions."""
        data = self.constant(operator, place)
        if data.dtype.kind != "i":
            self.refuse(operator, f"has input {place} of {data.dtype}", "int32 is understood")
        return [int(value) for value in data.reshape(-1)]

    def clamp(self, operator: TfliteOperator) -> tuple[int, int]:
        """The levels of the fused activation."""
        activation = operator.option("FusedActivationFunction")
        found = activation_limits(activation, self.output(operator))
        if found is None:
            self.refuse(
                operator, f"has the fused activation {activation}", "0 (none) to 3 are understood"
            )
        return found

    def expect(self, operator: TfliteOperator, shape: Sequence[int]) -> None:
        """Refuses an output whose shape is not what the operator gives."""
        stated = self.output(operator).shape
        if stated != tuple(shape):
            self.refuse(
                operator,
                f"has an output of shape {list(stated)}, and gives {list(shape)}",
                "convert the model with fixed shapes",
            )

    def one_quantization(self, operator: TfliteOperator, tensors: Sequence[Tensor]) -> None:
        """Refuses levels that would move between different scales."""
        if len({(t.scale, t.zero_point) for t in tensors}) > 1:
            self.refuse(
                operator,
                "moves levels between tensors of different scales",
                "give them one scale and zero point",
            )


_Read: TypeAlias = Callable[[_Reader, TfliteOperator], None]


class _Taken(NamedTuple):
    """read: its function. version: the greatest that is understood. options: fields it reads.
    fewest, most: inputs."""

    read: _Read
    version: int
    options: tuple[str, ...] = ()
    fewest: int = 1
    most: int = 1


def _weights(
    r: _Reader, o: TfliteOperator, order: tuple[int, ...], axis: int
) -> tuple[Tensor, int, NDArray[np.float64]]:
    """Weights with the output's channels first, the index of them, and a scale for each channel."""
    stored = r.tensors[o.inputs[1]]
    data = r.constant(o, 1)
    if data.ndim != len(order):
        r.refuse(o, f"has weights of shape {list(data.shape)}", f"{len(order)} axes are understood")
    if stored.dtype not in _EIGHT_BITS or not stored.scales:
        r.refuse(o, f"has weights of {stored.dtype}", "quantized int8 and uint8 are understood")
    if stored.axis not in (None, axis):
        r.refuse(o, f"has scales along axis {stored.axis} of its weights", f"axis {axis} is read")
    if stored.dtype == "int8" and any(stored.zero_points):
        r.refuse(o, "has int8 weights with a zero point", "LiteRT takes 0 for granted: make it 0")
    moved = np.ascontiguousarray(data.transpose(order))
    channels = moved.shape[0]
    made = replace(
        stored, shape=moved.shape, data=moved, axis=None if stored.axis is None else 0
    )
    return made, r.add(made), np.broadcast_to(np.array(stored.scales, np.float64), (channels,))


def _bias(r: _Reader, o: TfliteOperator, channels: int) -> int:
    if len(o.inputs) < 3 or o.inputs[2] < 0:
        return -1
    data = r.constant(o, 2)
    if data.dtype != np.int32 or data.size != channels:
        r.refuse(
            o,
            f"has a bias of {data.dtype} and shape {list(data.shape)}",
            f"int32 and [{channels}] are understood",
        )
    return o.inputs[2]


def _convolution(r: _Reader, o: TfliteOperator) -> None:
    x, y = r.levels(o, 0)
    deep = o.code == "DEPTHWISE_CONV_2D"
    order, axis = ((3, 1, 2, 0), 3) if deep else ((0, 1, 2, 3), 0)
    weights, index, scales = _weights(r, o, order, axis)
    if len(x.shape) != 4:
        r.refuse(o, f"has an input of shape {list(x.shape)}", "4 axes are understood")
    channels, kernel, per = weights.shape[0], weights.shape[1:3], weights.shape[3]
    groups = x.shape[3] if deep else x.shape[3] // max(per, 1)
    if per == 0 or per * groups != x.shape[3] or channels % max(groups, 1):
        r.refuse(
            o,
            f"has weights of shape {list(weights.shape)} (output, y, x, input) for "
            f"{x.shape[3]} channels",
            "whole groups of channels are understood",
        )
    bias = _bias(r, o, channels)
    geometry = window(o, x.shape[1:3], kernel, dilated=True)
    if geometry is None:
        r.refuse(o, "has a stride, a dilation or a padding that means nothing", "convert it anew")
    r.expect(o, (x.shape[0], *geometry.size, channels))
    if x.dtype == "uint8":  # the kernel of one scale multiplies two float32
        if len(weights.scales) != 1:
            r.refuse(o, "has uint8 activations and a scale for each channel", "int8 is understood")
        shared = np.float32(x.scale) * np.float32(weights.scales[0])
        reals = np.broadcast_to(np.float64(shared) / y.scale, (channels,))
    else:
        reals = x.scale * scales / y.scale
    r.emit(
        "depthwise_conv2d" if deep else "conv2d",
        o,
        (o.inputs[0], index, bias),
        layout="NHWC",
        strides=geometry.strides,
        dilations=geometry.dilations,
        pads=geometry.pads,
        groups=groups,
        requantization=Requantization(Double.of(reals), y.zero_point, *r.clamp(o)),
    )


def _dense(r: _Reader, o: TfliteOperator) -> None:
    x, y = r.levels(o, 0)
    weights, index, scales = _weights(r, o, (0, 1), 0)
    channels, inputs = weights.shape
    if inputs == 0 or int(np.prod(x.shape)) % inputs:
        r.refuse(o, f"has {inputs} weights a channel for {list(x.shape)}", "rows must be whole")
    rows = int(np.prod(x.shape)) // inputs
    keeps = bool(o.option("KeepNumDims"))
    r.expect(o, (*x.shape[:-1], channels) if keeps else (rows, channels))
    reals = x.scale * scales / y.scale
    r.emit(
        "dense",
        o,
        (o.inputs[0], index, _bias(r, o, channels)),
        requantization=Requantization(Away(reals), y.zero_point, *r.clamp(o)),
    )


def _batch_matmul(r: _Reader, o: TfliteOperator) -> None:
    a, b, y = r.levels(o, 0, 1)
    flips = bool(o.option("AdjX")), bool(o.option("AdjY"))
    shapes = [
        (*t.shape[:-2], *(t.shape[:-3:-1] if flip else t.shape[-2:]))
        for t, flip in zip((a, b), flips, strict=True)
    ]
    if min(len(shape) for shape in shapes) < 2 or shapes[0][-1] != shapes[1][-2]:
        r.refuse(o, f"multiplies {list(a.shape)} and {list(b.shape)}", "matrices are understood")
    batch = _broadcast(r, o, shapes[0][:-2], shapes[1][:-2])
    r.expect(o, (*batch, shapes[0][-2], shapes[1][-1]))
    scaling = Double.of(np.array([product_scale(a, b, y)]))
    r.emit(
        "batch_matmul",
        o,
        o.inputs,
        transpose_a=flips[0],
        transpose_b=flips[1],
        requantization=Requantization(scaling, y.zero_point, *limits(y.dtype)),
    )


def _broadcast(
    r: _Reader, o: TfliteOperator, a: tuple[int, ...], b: tuple[int, ...]
) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(a, b)
    except ValueError:
        r.refuse(o, f"has operands of shapes {list(a)} and {list(b)}", "they must broadcast")


def _elementwise(r: _Reader, o: TfliteOperator) -> None:
    a, b, y = r.levels(o, 0, 1)
    r.expect(o, _broadcast(r, o, a.shape, b.shape))
    clamp = r.clamp(o)
    if o.code == "MUL":
        table = product(a, b, y, clamp)
    else:
        table = addition(a, b, y, 1 if o.code == "ADD" else -1, clamp)
    r.emit(o.code.lower(), o, o.inputs, table=table)


def _pool(r: _Reader, o: TfliteOperator) -> None:
    x, y = r.levels(o, 0)
    kernel = o.option("FilterHeight"), o.option("FilterWidth")
    geometry = window(o, x.shape[1:3], kernel) if len(x.shape) == 4 else None
    if geometry is None or min(kernel) < 1:
        r.refuse(o, f"has a window of {list(kernel)} on {list(x.shape)}", "convert it anew")
    r.expect(o, (x.shape[0], *geometry.size, x.shape[3]))
    common = {
        "layout": "NHWC",
        "kernel": kernel,
        "strides": geometry.strides,
        "pads": geometry.pads,
    }
    low, high = r.clamp(o)
    if o.code == "MAX_POOL_2D":
        r.emit("max_pool", o, o.inputs, **common, low=low, high=high)
        return
    averages = {
        count: Requantization(Average(count), 0, low, high) for count in geometry.counts(kernel)
    }
    r.one_quantization(o, (x, y))
    r.emit("average_pool", o, o.inputs, **common, count_include_pad=False, averages=averages)


def _mean(r: _Reader, o: TfliteOperator) -> None:
    x, y = r.levels(o, 0)
    rank = len(x.shape)
    stated = r.integers(o, 1)
    axes = sorted({axis % rank for axis in stated if -rank <= axis < rank})
    if not axes or any(not -rank <= axis < rank for axis in stated):
        r.refuse(o, f"has axes {stated} of {rank}", "axes of its input are understood")
    keeps = bool(o.option("KeepDims"))
    kept = [1 if k in axes else n for k, n in enumerate(x.shape) if keeps or k not in axes]
    r.expect(o, kept)
    count = int(np.prod([x.shape[axis] for axis in axes]))
    r.emit(
        "mean",
        o,
        o.inputs[:1],
        axes=tuple(axes),
        keep_dims=keeps,
        requantization=mean_scaling(x, y, count),
    )


def _concat(r: _Reader, o: TfliteOperator) -> None:
    *inputs, y = r.levels(o, *range(len(o.inputs)))
    rank, axis = len(y.shape), o.option("Axis")
    r.clamp(o)
    if not -rank <= axis < rank or o.option("FusedActivationFunction"):
        r.refuse(o, f"has axis {axis} of {rank} axes, or an activation", "convert it anew")
    shapes = [list(x.shape) for x in inputs]
    total = list(y.shape)
    total[axis] = sum(shape[axis] if len(shape) == rank else 0 for shape in shapes)
    rest = [shape[: axis % rank] + shape[axis % rank + 1 :] for shape in (*shapes, total)]
    r.expect(o, total)
    if any(other != rest[-1] for other in rest):
        r.refuse(o, f"joins shapes {shapes} along axis {axis}", "the others must be equal")
    if y.dtype == "int8":
        r.one_quantization(o, (*inputs, y))
    tables = tuple(concatenated(x, y) for x in inputs)
    r.emit("concat", o, o.inputs, axis=axis % rank, tables=tables)


def _reshape(r: _Reader, o: TfliteOperator) -> None:
    x, y = r.levels(o, 0)
    if np.prod(x.shape) != np.prod(y.shape):
        r.refuse(o, f"turns shape {list(x.shape)} into {list(y.shape)}", "sizes must be equal")
    r.emit("reshape", o, o.inputs[:1])


def _transpose(r: _Reader, o: TfliteOperator) -> None:
    x, _ = r.levels(o, 0)
    axes = [axis % len(x.shape) for axis in r.integers(o, 1)]
    if sorted(axes) != list(range(len(x.shape))):
        r.refuse(o, f"has axes {axes} of {len(x.shape)}", "each axis once is understood")
    r.expect(o, [x.shape[axis] for axis in axes])
    r.emit("transpose", o, o.inputs[:1], axes=tuple(axes))


def _pad(r: _Reader, o: TfliteOperator) -> None:
    x, y = r.levels(o, 0)
    flat = r.integers(o, 1)
    if len(flat) != 2 * len(x.shape) or min(flat, default=0) < 0:
        r.refuse(o, f"has paddings {flat} of {len(x.shape)} axes", "two of each are understood")
    before, after = tuple(flat[::2]), tuple(flat[1::2])
    r.expect(o, [b + n + a for b, n, a in zip(before, x.shape, after, strict=True)])
    r.one_quantization(o, (x, y))
    value = y.zero_point
    if len(o.inputs) > 2:
        r.one_quantization(o, (r.tensors[o.inputs[2]], y))
        value = int(r.constant(o, 2).reshape(-1)[0])
    r.emit("pad", o, o.inputs[:1], before=before, after=after, value=value)


def _slice(r: _Reader, o: TfliteOperator) -> None:
    x, y = r.levels(o, 0)
    constants = [r.integers(o, place) for place in range(1, len(o.inputs))]
    found = sliced(o, x.shape, constants)
    if found is None:
        r.refuse(o, f"has positions {constants} in {list(x.shape)}", "positions inside it, and "
                 "no ellipsis, new axis or offset, are understood")
    r.expect(o, found.kept)
    if found.shape == y.shape:
        r.emit("slice", o, o.inputs[:1], begin=found.begin, strides=found.strides)
        return
    inner = r.add(replace(y, name=f"{y.name} with all axes", shape=found.shape))
    attributes = {"begin": found.begin, "strides": found.strides}
    where = r.model.where(o)
    r.operators.append(Operator("slice", o.inputs[:1], (inner,), attributes, where))
    r.emit("reshape", o, (inner,))


def _resize(r: _Reader, o: TfliteOperator) -> None:
    x, y = r.levels(o, 0)
    size = r.integers(o, 1)
    flags = bool(o.option("AlignCorners")), bool(o.option("HalfPixelCenters"))
    if len(x.shape) != 4 or len(size) != 2 or min(size) < 1:
        r.refuse(o, f"resizes {list(x.shape)} to {size}", "rows and columns of 4 axes are resized")
    r.expect(o, (x.shape[0], *size, x.shape[3]))
    if o.code == "RESIZE_NEAREST_NEIGHBOR":
        places = [nearest(n, m, *flags) for n, m in zip(x.shape[1:3], size, strict=True)]
        r.emit("resize_nearest", o, o.inputs[:1], layout="NHWC", rows=places[0], columns=places[1])
        return
    of = bilinear if x.dtype == "int8" else bilinear_uint8
    rows, columns = (of(n, m, *flags) for n, m in zip(x.shape[1:3], size, strict=True))
    r.emit(
        "resize_bilinear",
        o,
        o.inputs[:1],
        layout="NHWC",
        rows=rows,
        columns=columns,
        arithmetic=f"litert_{x.dtype}",
        requantization=Requantization(Average(1 << 20), 0, *limits(y.dtype)),
    )


def _softmax(r: _Reader, o: TfliteOperator) -> None:
    x, y = r.levels(o, 0)
    if (y.scale, y.zero_point) != (1 / 256, limits(y.dtype)[0]):
        r.refuse(o, f"has the output's scale {y.scale:g}", "LiteRT knows 1/256 alone")
    r.expect(o, x.shape)
    beta = o.options.get("Beta", 0.0)
    r.emit("softmax", o, o.inputs, axis=len(x.shape) - 1, beta=float(np.float32(beta)))


def _arg_max(r: _Reader, o: TfliteOperator) -> None:
    x, y = r.tensors[o.inputs[0]], r.output(o)
    axes, rank = r.integers(o, 1), len(x.shape)
    if x.dtype not in _EIGHT_BITS or y.dtype not in ("int32", "int64"):
        r.refuse(o, f"turns {x.dtype} into {y.dtype}", "int8 or uint8 to int32 is understood")
    if len(axes) != 1 or not -rank <= axes[0] < rank:
        r.refuse(o, f"has axes {axes} of {rank}", "one axis of its input is understood")
    axis = axes[0] % rank
    r.expect(o, x.shape[:axis] + x.shape[axis + 1 :])
    r.emit("arg_max", o, o.inputs[:1], axis=axis)


def _quantize(r: _Reader, o: TfliteOperator) -> None:
    x, y = r.tensors[o.inputs[0]], r.output(o)
    r.expect(o, x.shape)
    integers = x if o.code == "DEQUANTIZE" else y
    if integers.dtype not in _EIGHT_BITS or len(integers.scales) != 1:
        r.refuse(o, f"has levels of {integers.dtype}", "int8 and uint8 of one scale are read")
    other = y if o.code == "DEQUANTIZE" else x
    if other.dtype == "float32":
        r.emit(o.code.lower(), o, o.inputs, arithmetic="litert")
    elif other.dtype in _EIGHT_BITS and len(other.scales) == 1 and o.code == "QUANTIZE":
        r.emit("requantize", o, o.inputs, table=rescaled(x, y))
    else:
        r.refuse(o, f"turns {x.dtype} into {y.dtype}", "float32, int8 and uint8 are understood")


def _relu(r: _Reader, o: TfliteOperator) -> None:
    x, y = r.levels(o, 0)
    r.expect(o, x.shape)
    clamp = activation_limits({"RELU": 1, "RELU_N1_TO_1": 2, "RELU6": 3}[o.code], y)
    r.emit("table", o, o.inputs, table=rescaled(x, y, clamp))


def _function(r: _Reader, o: TfliteOperator) -> None:
    x, y = r.levels(o, 0)
    r.expect(o, x.shape)
    if o.code == "LEAKY_RELU":
        table = leaky_relu(x, y, float(o.options.get("Alpha", 0.0)))  # type: ignore[arg-type]
    else:
        table = function(x, y, np.tanh if o.code == "TANH" else _logistic)
    r.emit("table", o, o.inputs, table=table)


def _logistic(real: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(1 / (1 + np.exp(-real)), np.float64)


_WINDOW = ("Padding", "StrideW", "StrideH", "FusedActivationFunction")
_DILATED = (*_WINDOW, "DilationWFactor", "DilationHFactor")
_POOL = (*_WINDOW, "FilterWidth", "FilterHeight")
_MASKS = ("BeginMask", "EndMask", "ShrinkAxisMask")
_CORNERS = ("AlignCorners", "HalfPixelCenters")
_ACTIVATION = ("FusedActivationFunction",)
_TAKEN = {
    "ADD": _Taken(_elementwise, 5, _ACTIVATION, 2, 2),
    "ARG_MAX": _Taken(_arg_max, 3, (), 2, 2),
    "AVERAGE_POOL_2D": _Taken(_pool, 3, _POOL),
    "BATCH_MATMUL": _Taken(_batch_matmul, 4, ("AdjX", "AdjY"), 2, 2),
    "CONCATENATION": _Taken(_concat, 4, ("Axis", *_ACTIVATION), 1, 1 << 16),
    "CONV_2D": _Taken(_convolution, 8, _DILATED, 2, 3),
    "DEPTHWISE_CONV_2D": _Taken(_convolution, 7, _DILATED, 2, 3),
    "DEQUANTIZE": _Taken(_quantize, 6),
    "EXPAND_DIMS": _Taken(_reshape, 1, (), 2, 2),
    "FULLY_CONNECTED": _Taken(_dense, 13, _ACTIVATION, 2, 3),
    "LEAKY_RELU": _Taken(_function, 2, ("Alpha",)),
    "LOGISTIC": _Taken(_function, 3),
    "MAX_POOL_2D": _Taken(_pool, 3, _POOL),
    "MEAN": _Taken(_mean, 3, ("KeepDims",), 2, 2),
    "MUL": _Taken(_elementwise, 7, _ACTIVATION, 2, 2),
    "PAD": _Taken(_pad, 4, (), 2, 2),
    "PADV2": _Taken(_pad, 4, (), 3, 3),
    "QUANTIZE": _Taken(_quantize, 4),
    "RELU": _Taken(_relu, 3),
    "RELU6": _Taken(_relu, 3),
    "RELU_N1_TO_1": _Taken(_relu, 1),
    "RESHAPE": _Taken(_reshape, 2, (), 1, 2),
    "RESIZE_BILINEAR": _Taken(_resize, 4, _CORNERS, 2, 2),
    "RESIZE_NEAREST_NEIGHBOR": _Taken(_resize, 4, _CORNERS, 2, 2),
    "SLICE": _Taken(_slice, 6, (), 3, 3),
    "SOFTMAX": _Taken(_softmax, 3, ("Beta",)),
    "SQUEEZE": _Taken(_reshape, 2),
    "STRIDED_SLICE": _Taken(_slice, 8, _MASKS, 4, 4),
    "SUB": _Taken(_elementwise, 5, _ACTIVATION, 2, 2),
    "TANH": _Taken(_function, 3),
    "TRANSPOSE": _Taken(_transpose, 6, (), 2, 2),
}
