# SPDX-License-Identifier: Apache-2.0
"""Operators on real numbers: their patterns in a float network, and the operators of graph/.

In:   relu | clip (add (conv2d | matmul (x, constant), constant)) and parts of it; products of two
      activations, the second turned; sums, products element by element, clamps, pools, means,
      reshapes, concatenations of float32.
Out:  REAL_PATTERNS, for back ends that compute on real numbers. The host never takes them: an
      operator that no device takes stays Relax, in float32.
Next: partition/patterns/__init__.py names them beside those of integers.

A pattern without a quantize at its end also matches a part of a longer one. Therefore the longest
come first, and a match is not used where an operator outside reads a tensor inside.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from loadstone.backend.interface import OperatorPattern
from loadstone.graph import (
    Concatenate,
    RealBinary,
    RealClamp,
    RealConv2D,
    RealDense,
    RealMatMul,
    RealMean,
    RealPool2D,
    Reshape,
    Tensor,
)
from loadstone.graph.base import Fields
from loadstone.graph.bfloat16 import rounded
from loadstone.numerics import Rounding
from loadstone.partition.patterns.forms import anything, const, op
from loadstone.partition.patterns.reader import Mismatch, Reader
from loadstone.relax.compat import (
    dpl,
    integers,
    is_call,
    is_constant,
    name_of,
    relax,
    scalar,
    shape,
    value,
)

if TYPE_CHECKING:
    from loadstone.relax.types import Call, DFPattern, Expr

__all__ = ["REAL_PATTERNS"]

_FUNCTIONS = {"add": "add", "subtract": "sub", "multiply": "mul"}


# --- patterns, the longest first ------------------------------------------------------------------
def _activations(core: Callable[[], DFPattern]) -> Iterator[Callable[[], DFPattern]]:
    yield lambda: op("nn.relu")(core())
    yield lambda: op("clip")(core(), anything(), anything())
    yield core


def _biased(name: str) -> Iterator[Callable[[], DFPattern]]:
    def core() -> DFPattern:
        return op(name)(anything(), const())

    yield from _activations(lambda: op("add")(core(), const()))
    yield from _activations(core)


def _patterns() -> Iterator[OperatorPattern]:
    for pattern in _biased("nn.conv2d"):
        yield OperatorPattern("real_conv2d", pattern, _conv2d)
    for pattern in _biased("matmul"):
        yield OperatorPattern("real_dense", pattern, _dense)
    for pattern in _activations(lambda: op("matmul")(anything(), op("permute_dims")(anything()))):
        yield OperatorPattern("real_matmul", pattern, _matmul)
    for name in _FUNCTIONS:
        for pattern in _activations(lambda name=name: op(name)(anything(), anything())):  # type: ignore[misc]
            yield OperatorPattern("real_binary", pattern, _binary)
    yield OperatorPattern("real_clamp", lambda: op("nn.relu")(anything()), _clamped)
    yield OperatorPattern("real_clamp", lambda: op("clip")(*[anything()] * 3), _clamped)
    for name in ("nn.max_pool2d", "nn.avg_pool2d"):
        yield OperatorPattern("real_pool2d", lambda name=name: op(name)(anything()), _pool2d)  # type: ignore[misc]
    yield OperatorPattern("real_mean", lambda: op("mean")(anything()), _mean)
    yield OperatorPattern("real_reshape", lambda: op("reshape")(anything(), anything()), _reshape)
    for count in range(2, 9):
        yield OperatorPattern("real_concatenate", _concatenation(count), _concatenate)


def _concatenation(count: int) -> Callable[[], DFPattern]:
    return lambda: op("concat")(dpl.is_tuple([anything() for _ in range(count)]))


# --- what a match reads as ------------------------------------------------------------------------
def _tensor(reader: Reader, expr: Expr) -> Tensor:
    if not isinstance(expr, relax.Var):
        raise Mismatch("it reads a constant")
    tensor = reader.tensor(expr)
    if tensor.dtype != "float32":
        raise Mismatch(f"it computes on {tensor.dtype}")
    return tensor


def _ends(reader: Reader, root: Call, inputs: list[Expr]) -> Fields:
    """Name, inputs and output."""
    extents = shape(root)
    if extents is None:
        raise Mismatch("its shape is not static")
    name = name_of(root) or ""
    return {
        "name": name,
        "inputs": tuple(_tensor(reader, expr) for expr in inputs),
        "outputs": (Tensor(name, extents, "float32"),),
    }


def _activation(reader: Reader, root: Call) -> tuple[Call, Fields]:
    """(the clamped expression, low and high)."""
    if is_call(root, "nn.relu"):
        return reader.call(root.args[0]), {"low": 0.0, "high": math.inf}
    if is_call(root, "clip"):
        limits = {"low": float(scalar(root.args[1])), "high": float(scalar(root.args[2]))}
        if math.isnan(limits["low"]) or math.isnan(limits["high"]):
            raise Mismatch("a bound of its clip is not a number")
        return reader.call(root.args[0]), limits
    return root, {"low": -math.inf, "high": math.inf}


def _core(reader: Reader, root: Call) -> tuple[Call, NDArray[np.float32], Fields]:
    """(the multiplication, its bias or zero, low and high)."""
    inner, limits = _activation(reader, root)
    if not is_call(inner, "add"):
        return inner, np.zeros(0, np.float32), limits
    bias = value(inner.args[1]).astype(np.float32)
    if bias.ndim and bias.size != bias.shape[-1]:
        raise Mismatch(f"it adds a constant of shape {list(bias.shape)}")
    return reader.call(inner.args[0]), bias.reshape(-1), limits


def _weights(weights: NDArray[np.float32], bias: NDArray[np.float32]) -> Fields:
    """Weights rounded once to bfloat16. weights: the output channel first. A bias of one number
    applies to all channels."""
    channels = weights.shape[0]
    if bias.size not in (0, 1, channels):
        raise Mismatch(f"it adds {bias.size} numbers to {channels} channels")
    whole = np.broadcast_to(bias, (channels,)) if bias.size else np.zeros(channels)
    with np.errstate(over="ignore"):
        near = rounded(weights.astype(np.float32))
    if not (np.all(np.isfinite(near)) and np.all(np.isfinite(whole))):
        raise Mismatch("its weights are not all finite in bfloat16")
    return {
        "weights": np.ascontiguousarray(near),
        "bias": np.ascontiguousarray(whole, np.float32),
    }


def _conv2d(reader: Reader, root: Call) -> RealConv2D:
    core, bias, limits = _core(reader, root)
    attrs = core.attrs
    if str(attrs.data_layout) != "NHWC" or str(attrs.kernel_layout) != "OHWI":
        raise Mismatch(f"its layout is {attrs.data_layout}")
    top, left, bottom, right = integers(attrs.padding)
    strides, dilation = integers(attrs.strides), integers(attrs.dilation)
    return RealConv2D(
        **_ends(reader, root, [core.args[0]]),
        **_weights(value(core.args[1]), bias),
        **limits,
        strides=(strides[0], strides[1]),
        dilation=(dilation[0], dilation[1]),
        padding=(top, left, bottom, right),
        groups=int(attrs.groups),
    )


def _dense(reader: Reader, root: Call) -> RealDense:
    core, bias, limits = _core(reader, root)
    ends = _ends(reader, root, [core.args[0]])
    weights = value(core.args[1])
    if len(ends["inputs"][0].shape) != 2 or weights.ndim != 2:
        raise Mismatch(
            f"it multiplies tensors of shape {list(ends['inputs'][0].shape)} and "
            f"{list(weights.shape)}"
        )
    return RealDense(**ends, **_weights(weights.T, bias), **limits)


def _matmul(reader: Reader, root: Call) -> RealMatMul:
    inner, limits = _activation(reader, root)
    first, turn = inner.args[0], reader.call(inner.args[1])
    rank = len(shape(turn) or ())
    if turn.attrs.axes is None or integers(turn.attrs.axes) != (
        *range(rank - 2),
        rank - 1,
        rank - 2,
    ):
        raise Mismatch("its second factor is turned by more than its last two axes")
    ends = _ends(reader, root, [first, turn.args[0]])
    shapes = [tensor.shape for tensor in ends["inputs"]]
    if min(map(len, shapes)) < 3:
        raise Mismatch(f"it multiplies {list(shapes[0])} by {list(shapes[1])}")
    return RealMatMul(**ends, **limits)


def _binary(reader: Reader, root: Call) -> RealBinary:
    inner, limits = _activation(reader, root)
    name = next(name for name in _FUNCTIONS if is_call(inner, name))
    ends = _ends(reader, root, list(inner.args))
    return RealBinary(**{**ends, **limits, "function": _FUNCTIONS[name]})


def _clamped(reader: Reader, root: Call) -> RealClamp:
    _, limits = _activation(reader, root)
    return RealClamp(**_ends(reader, root, [root.args[0]]), **limits)


def _pool2d(reader: Reader, root: Call) -> RealPool2D:
    attrs = root.attrs
    if str(attrs.layout) != "NHWC" or integers(attrs.dilation) != (1, 1):
        raise Mismatch(f"its layout is {attrs.layout} and its dilation {integers(attrs.dilation)}")
    ends = _ends(reader, root, [root.args[0]])
    (source,), (output,) = ends["inputs"], ends["outputs"]
    kernel, strides = integers(attrs.pool_size), integers(attrs.strides)
    top, left, bottom, right = integers(attrs.padding)
    over = [  # ceil_mode: the last window may hang over the edge
        max(0, (out - 1) * stride + size - whole - pads)
        for out, stride, size, whole, pads in zip(
            output.shape[1:3],
            strides,
            kernel,
            source.shape[1:3],
            (top + bottom, left + right),
            strict=True,
        )
    ]
    return RealPool2D(
        **ends,
        function="max" if is_call(root, "nn.max_pool2d") else "average",
        kernel=(kernel[0], kernel[1]),
        strides=(strides[0], strides[1]),
        padding=(top, left, bottom + over[0], right + over[1]),
        count_include_pad=bool(attrs.count_include_pad),
    )


def _mean(reader: Reader, root: Call) -> RealMean:
    ends = _ends(reader, root, [root.args[0]])
    rank = len(ends["inputs"][0].shape)
    axis = root.attrs.axis
    axes = range(rank) if axis is None else (number % rank for number in integers(axis))
    return RealMean(**ends, axes=tuple(sorted(axes)))


def _reshape(reader: Reader, root: Call) -> Reshape:
    return Reshape(**_ends(reader, root, [root.args[0]]))


def _concatenate(reader: Reader, root: Call) -> Concatenate:
    parts = root.args[0]
    if not isinstance(parts, relax.Tuple) or any(is_constant(part) for part in parts.fields):
        raise Mismatch("it joins constants")
    ends = _ends(reader, root, list(parts.fields))
    axis = 0 if root.attrs.axis is None else int(root.attrs.axis)
    return Concatenate(
        **ends,
        axis=axis % len(ends["outputs"][0].shape),
        low=-128,
        high=127,
        rounding=Rounding.FLOAT32,
    )


#: In the order in which they are tried.
REAL_PATTERNS: tuple[OperatorPattern, ...] = tuple(_patterns())
