# SPDX-License-Identifier: Apache-2.0
"""What each operator of a .tflite file means.

In:   operators, in the file's order; the TfliteGraph that they add to.
Out:  operators of the network.
Next: read_tflite.py calls read_operator for each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from loadstone.prove.network import ModelOperator
from loadstone.prove.requantize import Average, Requantizer
from loadstone.prove.tflite.file import TfliteOperator
from loadstone.prove.tflite.geometry import bilinear, bilinear_uint8, nearest, sliced, window
from loadstone.prove.tflite.graph import EIGHT_BITS, TfliteGraph
from loadstone.prove.tflite.levels import (
    activation_limits,
    addition,
    concatenated,
    function,
    leaky_relu,
    limits,
    mean_scaling,
    product,
    rescaled,
)
from loadstone.prove.tflite.weighted import batch_matmul, convolution, dense

__all__ = ["read_operator"]

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


def read_operator(graph: TfliteGraph, operator: TfliteOperator) -> None:
    """Adds an operator of the file."""
    types = [graph.tensors[k].dtype for k in (*operator.inputs, *operator.outputs) if k >= 0]
    is_end = operator.code in ("QUANTIZE", "DEQUANTIZE")
    if any(t.startswith("float") for t in types) and not is_end:
        attributes = {"version": operator.version, **operator.options}
        graph.emit(f"float:{operator.code}", operator, operator.inputs, **attributes)
        return
    if operator.code not in _TAKEN:
        raise graph.refusal(operator, "is not known", f"a proof knows {', '.join(sorted(_TAKEN))}")
    taken = _TAKEN[operator.code]
    if operator.version > taken.version:
        raise graph.refusal(
            operator,
            f"has version {operator.version}, the limit is {taken.version}",
            "convert the model with an older converter",
        )
    for field, value in operator.options.items():
        if value and field not in _UNREAD and field not in taken.options:
            raise graph.refusal(operator, f"has {field}={value}", "only 0 is understood")
    if not taken.fewest <= len(operator.inputs) <= taken.most or len(operator.outputs) != 1:
        raise graph.refusal(
            operator,
            f"has {len(operator.inputs)} inputs and {len(operator.outputs)} outputs",
            f"{taken.fewest} to {taken.most} and one are understood",
        )
    taken.read(graph, operator)


_Read: TypeAlias = Callable[[TfliteGraph, TfliteOperator], None]


class _Taken(NamedTuple):
    """read: its function. version: the greatest that is understood. options: fields it reads.
    fewest, most: inputs."""

    read: _Read
    version: int
    options: tuple[str, ...] = ()
    fewest: int = 1
    most: int = 1


def _elementwise(g: TfliteGraph, o: TfliteOperator) -> None:
    a, b, y = g.levels(o, 0, 1)
    g.expect(o, g.broadcast(o, a.shape, b.shape))
    clamp = g.clamp(o)
    if o.code == "MUL":
        table = product(a, b, y, clamp)
    else:
        table = addition(a, b, y, 1 if o.code == "ADD" else -1, clamp)
    g.emit(o.code.lower(), o, o.inputs, table=table)


def _pool(g: TfliteGraph, o: TfliteOperator) -> None:
    x, y = g.levels(o, 0)
    kernel = o.option("FilterHeight"), o.option("FilterWidth")
    geometry = window(o, x.shape[1:3], kernel) if len(x.shape) == 4 else None
    if geometry is None or min(kernel) < 1:
        raise g.refusal(o, f"has a window of {list(kernel)} on {list(x.shape)}", "convert it anew")
    g.expect(o, (x.shape[0], *geometry.size, x.shape[3]))
    common = {
        "layout": "NHWC",
        "kernel": kernel,
        "strides": geometry.strides,
        "pads": geometry.pads,
    }
    low, high = g.clamp(o)
    if o.code == "MAX_POOL_2D":
        g.emit("max_pool", o, o.inputs, **common, low=low, high=high)
        return
    averages = {
        count: Requantizer(Average(count), 0, low, high) for count in geometry.counts(kernel)
    }
    g.one_quantization(o, (x, y))
    counts = {"zero_point": 0, "count_include_pad": False}
    g.emit("average_pool", o, o.inputs, **common, **counts, averages=averages)


def _mean(g: TfliteGraph, o: TfliteOperator) -> None:
    x, y = g.levels(o, 0)
    rank = len(x.shape)
    stated = g.integers(o, 1)
    axes = sorted({axis % rank for axis in stated if -rank <= axis < rank})
    if not axes or any(not -rank <= axis < rank for axis in stated):
        raise g.refusal(o, f"has axes {stated} of {rank}", "axes of its input are understood")
    keeps = bool(o.option("KeepDims"))
    kept = [1 if k in axes else n for k, n in enumerate(x.shape) if keeps or k not in axes]
    g.expect(o, kept)
    count = int(np.prod([x.shape[axis] for axis in axes]))
    g.emit(
        "mean",
        o,
        o.inputs[:1],
        axes=tuple(axes),
        keep_dims=keeps,
        requantization=mean_scaling(x, y, count),
    )


def _concat(g: TfliteGraph, o: TfliteOperator) -> None:
    *inputs, y = g.levels(o, *range(len(o.inputs)))
    rank, axis = len(y.shape), o.option("Axis")
    g.clamp(o)
    if not -rank <= axis < rank or o.option("FusedActivationFunction"):
        raise g.refusal(o, f"has axis {axis} of {rank} axes, or an activation", "convert it anew")
    shapes = [list(x.shape) for x in inputs]
    total = list(y.shape)
    total[axis] = sum(shape[axis] if len(shape) == rank else 0 for shape in shapes)
    rest = [shape[: axis % rank] + shape[axis % rank + 1 :] for shape in (*shapes, total)]
    g.expect(o, total)
    if any(other != rest[-1] for other in rest):
        raise g.refusal(o, f"joins shapes {shapes} along axis {axis}", "the others must be equal")
    if y.dtype == "int8":
        g.one_quantization(o, (*inputs, y))
    tables = tuple(concatenated(x, y) for x in inputs)
    g.emit("concat", o, o.inputs, axis=axis % rank, tables=tables)


def _reshape(g: TfliteGraph, o: TfliteOperator) -> None:
    x, y = g.levels(o, 0)
    if np.prod(x.shape) != np.prod(y.shape):
        raise g.refusal(
            o, f"turns shape {list(x.shape)} into {list(y.shape)}", "sizes must be equal"
        )
    g.emit("reshape", o, o.inputs[:1])


def _transpose(g: TfliteGraph, o: TfliteOperator) -> None:
    x, _ = g.levels(o, 0)
    axes = [axis % len(x.shape) for axis in g.integers(o, 1)]
    if sorted(axes) != list(range(len(x.shape))):
        raise g.refusal(o, f"has axes {axes} of {len(x.shape)}", "each axis once is understood")
    g.expect(o, [x.shape[axis] for axis in axes])
    g.emit("transpose", o, o.inputs[:1], axes=tuple(axes))


def _pad(g: TfliteGraph, o: TfliteOperator) -> None:
    x, y = g.levels(o, 0)
    flat = g.integers(o, 1)
    if len(flat) != 2 * len(x.shape) or min(flat, default=0) < 0:
        raise g.refusal(
            o, f"has paddings {flat} of {len(x.shape)} axes", "two of each are understood"
        )
    before, after = tuple(flat[::2]), tuple(flat[1::2])
    g.expect(o, [b + n + a for b, n, a in zip(before, x.shape, after, strict=True)])
    g.one_quantization(o, (x, y))
    value = y.zero_point
    if len(o.inputs) > 2:
        g.one_quantization(o, (g.tensors[o.inputs[2]], y))
        value = int(g.constant(o, 2).reshape(-1)[0])
    g.emit("pad", o, o.inputs[:1], before=before, after=after, value=value)


def _slice(g: TfliteGraph, o: TfliteOperator) -> None:
    x, y = g.levels(o, 0)
    constants = [g.integers(o, place) for place in range(1, len(o.inputs))]
    found = sliced(o, x.shape, constants)
    if found is None:
        raise g.refusal(
            o,
            f"has positions {constants} in {list(x.shape)}",
            "positions inside it, and no ellipsis, new axis or offset, are understood",
        )
    g.expect(o, found.kept)
    if found.shape == y.shape:
        g.emit("slice", o, o.inputs[:1], begin=found.begin, strides=found.strides)
        return
    inner = g.add(replace(y, name=f"{y.name} with all axes", shape=found.shape))
    attributes = {"begin": found.begin, "strides": found.strides}
    where = g.model.where(o)
    g.operators.append(ModelOperator("slice", o.inputs[:1], (inner,), attributes, where))
    g.emit("reshape", o, (inner,))


def _resize(g: TfliteGraph, o: TfliteOperator) -> None:
    x, y = g.levels(o, 0)
    size = g.integers(o, 1)
    flags = bool(o.option("AlignCorners")), bool(o.option("HalfPixelCenters"))
    if len(x.shape) != 4 or len(size) != 2 or min(size) < 1:
        raise g.refusal(
            o, f"resizes {list(x.shape)} to {size}", "rows and columns of 4 axes are resized"
        )
    if all(flags):
        raise g.refusal(
            o, "aligns corners and takes centers of half a pixel", "LiteRT knows one of the two"
        )
    g.expect(o, (x.shape[0], *size, x.shape[3]))
    if o.code == "RESIZE_NEAREST_NEIGHBOR":
        places = [nearest(n, m, *flags) for n, m in zip(x.shape[1:3], size, strict=True)]
        g.emit("resize_nearest", o, o.inputs[:1], layout="NHWC", rows=places[0], columns=places[1])
        return
    of = bilinear if x.dtype == "int8" else bilinear_uint8
    rows, columns = (of(n, m, *flags) for n, m in zip(x.shape[1:3], size, strict=True))
    if any(
        int(lower.max()) >= n for (lower, *_), n in zip((rows, columns), x.shape[1:3], strict=True)
    ):
        raise g.refusal(
            o,
            f"resizes {list(x.shape)} to {size}, where LiteRT reads beyond the last row or column",
            "align corners, take centers of half a pixel, or another size",
        )
    g.emit(
        "resize_bilinear",
        o,
        o.inputs[:1],
        layout="NHWC",
        rows=rows,
        columns=columns,
        arithmetic=f"litert_{x.dtype}",
        requantization=Requantizer(Average(1 << 20), 0, *limits(y.dtype)),
    )


def _softmax(g: TfliteGraph, o: TfliteOperator) -> None:
    x, y = g.levels(o, 0)
    if (y.scale, y.zero_point) != (1 / 256, limits(y.dtype)[0]):
        raise g.refusal(o, f"has the output's scale {y.scale:g}", "LiteRT knows 1/256 alone")
    g.expect(o, x.shape)
    g.emit("softmax", o, o.inputs, axis=len(x.shape) - 1, beta=o.real("Beta"))


def _arg_max(g: TfliteGraph, o: TfliteOperator) -> None:
    x, y = g.tensors[o.inputs[0]], g.output(o)
    axes, rank = g.integers(o, 1), len(x.shape)
    if x.dtype not in EIGHT_BITS or y.dtype not in ("int32", "int64"):
        raise g.refusal(
            o, f"turns {x.dtype} into {y.dtype}", "int8 or uint8 to int32 is understood"
        )
    if len(axes) != 1 or not -rank <= axes[0] < rank:
        raise g.refusal(o, f"has axes {axes} of {rank}", "one axis of its input is understood")
    axis = axes[0] % rank
    g.expect(o, x.shape[:axis] + x.shape[axis + 1 :])
    g.emit("arg_max", o, o.inputs[:1], axis=axis)


def _quantize(g: TfliteGraph, o: TfliteOperator) -> None:
    x, y = g.tensors[o.inputs[0]], g.output(o)
    g.expect(o, x.shape)
    integers = x if o.code == "DEQUANTIZE" else y
    if integers.dtype not in EIGHT_BITS or len(integers.scales) != 1:
        raise g.refusal(
            o, f"has levels of {integers.dtype}", "int8 and uint8 of one scale are read"
        )
    other = y if o.code == "DEQUANTIZE" else x
    if other.dtype == "float32":
        g.emit(o.code.lower(), o, o.inputs, arithmetic="litert")
    elif other.dtype in EIGHT_BITS and len(other.scales) == 1 and o.code == "QUANTIZE":
        g.emit("requantize", o, o.inputs, table=rescaled(x, y))
    else:
        raise g.refusal(
            o, f"turns {x.dtype} into {y.dtype}", "float32, int8 and uint8 are understood"
        )


def _relu(g: TfliteGraph, o: TfliteOperator) -> None:
    x, y = g.levels(o, 0)
    g.expect(o, x.shape)
    clamp = activation_limits({"RELU": 1, "RELU_N1_TO_1": 2, "RELU6": 3}[o.code], y)
    g.emit("table", o, o.inputs, table=rescaled(x, y, clamp))


def _function(g: TfliteGraph, o: TfliteOperator) -> None:
    x, y = g.levels(o, 0)
    g.expect(o, x.shape)
    if o.code == "LEAKY_RELU":
        table = leaky_relu(x, y, o.real("Alpha"))
    else:
        table = function(x, y, np.tanh if o.code == "TANH" else _logistic)
    g.emit("table", o, o.inputs, table=table)


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
    "BATCH_MATMUL": _Taken(batch_matmul, 4, ("AdjX", "AdjY"), 2, 2),
    "CONCATENATION": _Taken(_concat, 4, ("Axis", *_ACTIVATION), 1, 1 << 16),
    "CONV_2D": _Taken(convolution, 8, _DILATED, 2, 3),
    "DEPTHWISE_CONV_2D": _Taken(convolution, 7, _DILATED, 2, 3),
    "DEQUANTIZE": _Taken(_quantize, 6),
    "EXPAND_DIMS": _Taken(_reshape, 1, (), 2, 2),
    "FULLY_CONNECTED": _Taken(dense, 13, _ACTIVATION, 2, 3),
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
