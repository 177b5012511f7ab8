# SPDX-License-Identifier: Apache-2.0
"""TFLite's dynamic range quantization: float32 activations, int8 weights.

In:   an operator's table; the Converter of tflite.py.
Out:  its result as real numbers: LiteRT's hybrid kernels in operations of Relax, around one product
      of int8 by int8 whose sums are int32.
Next: tflite.py stores it; vta/region/byte_planes.py brings such sums out of a device.

Each sample of a convolution, and each row of a dense layer, has a scale that is found when the
network runs. A tensor of zeros has the scale 1.

    symmetric     q = round(x * (127 / max |x|)), scale max |x| / 127        weights with one scale
    asymmetric    q = zero point + round(x * (1 / scale)), scale (max - min) / 255 in float64
                  convolutions with a scale for each channel, dense layers that ask for it

round is half away from zero. The sum times the scales is float32, rounded once for each product;
then come bias and activation. What is no number gives a scale that is none, and with it the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import UnsupportedError
from loadstone.frontend.tflite_converters import Converter, target_of
from loadstone.frontend.tflite_file import OperatorRecord, TensorRecord, TfliteFile, TfliteTable
from loadstone.frontend.tflite_wide import padding_of
from loadstone.graph.kernels.windows import convolve
from loadstone.numerics import Array
from loadstone.relax.compat import constant, dtype, exact_constant, relax, shape

if TYPE_CHECKING:
    from loadstone.relax.types import Expr

__all__ = ["HYBRID", "is_hybrid"]

_MOST = 127
_LEAST = -128


def is_hybrid(file: TfliteFile, record: OperatorRecord) -> bool:
    """Whether it has float activations, int8 weights, and a kernel here."""
    if record.code not in HYBRID or len(record.inputs) < 2 or min(record.inputs[:2]) < 0:
        return False
    x, weights, y = (file.tensors[k] for k in (*record.inputs[:2], record.outputs[0]))
    return (
        (x.dtype, weights.dtype, y.dtype) == ("float32", "int8", "float32")
        and weights.is_quantized
        and weights.data is not None
    )


class _Scaled(NamedTuple):
    """Integers, their scale, and the zero point as int32; None: zero. Scale and zero point
    broadcast against the integers."""

    integers: Expr
    scale: Expr
    zero_point: Expr | None


class _Weights(NamedTuple):
    integers: NDArray[np.int8]
    scales: NDArray[np.float32]


def _weights(converter: Converter) -> _Weights:
    record: TensorRecord = converter.file.tensors[converter.record.inputs[1]]
    assert record.data is not None
    assert record.scales is not None
    if record.zero_points is not None and np.any(record.zero_points):
        raise UnsupportedError(
            f'its int8 weights "{record.name}" have a zero point other than 0: convert it anew'
        )
    if record.scales.size > 1 and record.axis != 0:
        raise UnsupportedError(
            f'the scales of its weights "{record.name}" lie along axis {record.axis}, and along '
            "axis 0 they are read: convert it anew"
        )
    return _Weights(record.data, record.scales.astype(np.float32))


def _conv(converter: Converter, op: TfliteTable) -> Expr:
    """CONV_2D."""
    options, weights = converter.record.options, _weights(converter)
    x, kernel = converter.real(0), weights.integers
    extents = shape(x) or ()
    if kernel.ndim != 4 or len(extents) != 4 or extents[3] != kernel.shape[3]:
        raise UnsupportedError(
            f"its weights are {list(kernel.shape)}, its input is {list(extents)}: as many channels "
            "are done, of images"
        )
    strides = (options["stride_h"], options["stride_w"])
    dilation = (options["dilation_h_factor"], options["dilation_w_factor"])
    padding = padding_of(options["padding"], extents[1:3], kernel.shape[1:3], strides, dilation)
    by_channel = weights.scales.size == kernel.shape[0]
    scaled = _asymmetric(converter, x, (1, 2, 3)) if by_channel else _symmetric(converter, x)
    sums = converter.bb.emit(
        relax.op.nn.conv2d(
            scaled.integers,
            exact_constant(kernel),
            strides=strides,
            padding=padding,
            dilation=dilation,
            data_layout="NHWC",
            kernel_layout="OHWI",
            out_dtype="int32",
        )
    )
    if scaled.zero_point is not None:  # what padding gives is not there: the kernel skips it
        ones = np.ones((1, *extents[1:]), np.int8)
        met = convolve(ones, kernel, strides=strides, padding=padding, dilation=dilation)
        sums = _less(converter, sums, scaled.zero_point, met)
    return _finished(converter, sums, scaled.scale, weights.scales, by_channel=by_channel)


def _dense(converter: Converter, op: TfliteTable) -> Expr:
    """FULLY_CONNECTED: weights (O, I), a scale for each row of I."""
    weights, x = _weights(converter), converter.real(0)
    matrix = weights.integers
    count = int(np.prod(shape(x) or ()))
    if matrix.ndim != 2 or count % matrix.shape[1]:
        raise UnsupportedError(
            f"its weights are {list(matrix.shape)}, its input is {list(shape(x) or ())}: rows of "
            "another length"
        )
    if weights.scales.size > 1:
        raise UnsupportedError(
            "its weights have a scale for each channel, and dense layers on float32 are read with "
            "one: convert it with one scale a tensor, or with full integer quantization"
        )
    rows = converter.bb.emit(relax.op.reshape(x, (count // matrix.shape[1], matrix.shape[1])))
    asks = bool(converter.record.options["asymmetric_quantize_inputs"])
    scaled = _asymmetric(converter, rows, (1,)) if asks else _symmetric(converter, rows)
    turned = exact_constant(np.ascontiguousarray(matrix.T))
    sums = converter.bb.emit(relax.op.matmul(scaled.integers, turned, out_dtype="int32"))
    if scaled.zero_point is not None:
        met = matrix.astype(np.int32).sum(axis=1).reshape(1, -1)
        sums = _less(converter, sums, scaled.zero_point, met.astype(np.int32))
    made = _finished(converter, sums, scaled.scale, weights.scales, by_channel=False)
    return relax.op.reshape(made, target_of(converter).shape)


# --- scales that are found when the network runs --------------------------------------------------
def _symmetric(converter: Converter, x: Expr) -> _Scaled:
    """One scale for all but the first axis."""
    emit = converter.bb.emit
    axes = list(range(1, len(shape(x) or ())))
    most, zero = _number(_MOST), _number(0)
    reach = emit(relax.op.max(emit(relax.op.abs(x)), axes, keepdims=True))
    flat = emit(relax.op.equal(reach, zero))
    scale = emit(relax.op.where(flat, _number(1), emit(relax.op.divide(reach, most))))
    inverse = emit(relax.op.where(flat, zero, emit(relax.op.divide(most, reach))))
    return _Scaled(
        _int8(converter, _rounded(converter, emit(relax.op.multiply(x, inverse))), -_MOST),
        scale,
        None,
    )


def _asymmetric(converter: Converter, x: Expr, axes: tuple[int, ...]) -> _Scaled:
    """The zero point is taken from that end of the range whose error is less."""
    emit = converter.bb.emit
    zero, least, most = _number(0), _number(_LEAST, np.float64), _number(_MOST, np.float64)
    # Zero comes first: of two numbers of which one is none the second is taken.
    low = emit(relax.op.minimum(zero, emit(relax.op.min(x, axes, keepdims=True))))
    high = emit(relax.op.maximum(zero, emit(relax.op.max(x, axes, keepdims=True))))
    flat = emit(relax.op.equal(low, high))
    span = emit(relax.op.astype(emit(relax.op.subtract(high, low)), "float64"))
    step = emit(relax.op.divide(span, _number(_MOST - _LEAST, np.float64)))
    wide = emit(relax.op.where(flat, _number(1, np.float64), step))
    ends = [
        emit(relax.op.divide(emit(relax.op.astype(end, "float64")), wide)) for end in (low, high)
    ]
    errors = [
        emit(relax.op.add(_number(abs(bound), np.float64), emit(relax.op.abs(end))))
        for bound, end in zip((_LEAST, _MOST), ends, strict=True)
    ]
    points = [
        emit(relax.op.subtract(bound, end)) for bound, end in zip((least, most), ends, strict=True)
    ]
    nearer = emit(relax.op.less(*errors))
    point = emit(relax.op.where(nearer, *points))
    inside = emit(relax.op.maximum(emit(relax.op.minimum(_rounded(converter, point), most)), least))
    nudged = emit(relax.op.where(flat, _number(0, np.float64), inside))
    offset = emit(relax.op.astype(nudged, "float32"))
    scale = emit(relax.op.astype(wide, "float32"))
    inverse = emit(relax.op.divide(_number(1), scale))
    levels = _rounded(converter, emit(relax.op.multiply(x, inverse)))
    integers = _int8(converter, emit(relax.op.add(offset, levels)), _LEAST)
    return _Scaled(integers, scale, emit(relax.op.astype(offset, "int32")))


def _int8(converter: Converter, levels: Expr, least: int) -> Expr:
    """Clamped; what is no number becomes 127, so that C may convert it."""
    emit = converter.bb.emit
    below = emit(relax.op.minimum(levels, _number(_MOST)))
    return emit(relax.op.astype(emit(relax.op.maximum(below, _number(least))), "int8"))


def _rounded(converter: Converter, real: Expr) -> Expr:
    """Half away from zero: the number below one half is added, since one half itself would carry
    that number up to 1."""
    emit = converter.bb.emit
    kind = np.dtype(dtype(real)).type
    half = exact_constant(np.nextafter(kind(0.5), kind(0)).reshape(()))
    size = emit(relax.op.floor(emit(relax.op.add(emit(relax.op.abs(real)), half))))
    negative = emit(relax.op.less(real, exact_constant(np.zeros((), kind))))
    return emit(relax.op.where(negative, emit(relax.op.negative(size)), size))


def _number(number: float, kind: type[np.floating] = np.float32) -> Expr:
    return exact_constant(np.array(number, kind))


# --- sums -----------------------------------------------------------------------------------------
def _less(converter: Converter, sums: Expr, zero_point: Expr, met: Array) -> Expr:
    """Less what the zero point adds. met: the sum of the weights that each output meets."""
    if met.ndim == 4 and (met == met[:, :1, :1]).all():
        met = np.ascontiguousarray(met[:, :1, :1])
    lost = converter.bb.emit(relax.op.multiply(zero_point, exact_constant(met)))
    return converter.bb.emit(relax.op.subtract(sums, lost))


def _finished(
    converter: Converter,
    sums: Expr,
    scale: Expr,
    scales: NDArray[np.float32],
    *,
    by_channel: bool,
) -> Expr:
    """Scaled in the order of the kernel: by channel the weights' scale comes first. Then bias and
    activation."""
    emit = converter.bb.emit
    real = emit(relax.op.astype(sums, "float32"))
    if by_channel:
        real = emit(relax.op.multiply(real, constant(scales)))
        out = emit(relax.op.multiply(real, scale))
    else:
        both = emit(relax.op.multiply(scale, constant(scales[0])))
        out = emit(relax.op.multiply(real, both))
    if len(converter.record.inputs) > 2 and converter.record.inputs[2] >= 0:
        out = emit(relax.op.add(out, converter.stored(converter.record.inputs[2])))
    return converter.activated(out, converter.record.options["fused_activation_function"])


HYBRID: Mapping[str, Callable[[Converter, TfliteTable], Expr]] = {
    "CONV_2D": _conv,
    "FULLY_CONNECTED": _dense,
}
