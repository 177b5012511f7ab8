# SPDX-License-Identifier: Apache-2.0
"""TFLite's 16x8 operators: activations of int16, weights of int8, sums of int64.

In:   an operator of a TFLite file; what tflite_integers.py asks of its Converter.
Out:  the output's integers, in operations of Relax on integers; WIDE, by operator.
Next: tflite.py converts by it what has int16; tflite_checks.py refuses the others by name.

LiteRT's reference kernels step by step. Zero points are 0. Sums of 64 bits are scaled by
multipliers of 16 bits (`scaled_wide` of tflite_integers.py), those of a dense layer in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import tflite
from numpy.typing import NDArray

from loadstone.errors import UnsupportedError
from loadstone.frontend.tflite_file import TensorRecord, TfliteFile, TfliteTable
from loadstone.frontend.tflite_integers import Integers, Stateful
from loadstone.frontend.tflite_wide_tensors import (
    ENDS,
    check_same_grid,
    check_types,
    checked_scale,
    give_levels,
    half_away,
    limits_of,
    scale_of,
    target_of,
    tensor_at,
)
from loadstone.relax.compat import constant, exact_constant, relax

if TYPE_CHECKING:
    from loadstone.frontend.tflite_file import OperatorRecord
    from loadstone.relax.types import Expr

__all__ = ["WIDE", "is_wide", "padding_of"]

#: By so many bits ADD shifts its inputs before it scales them.
_ADD_PRE_SHIFT = 15
#: LiteRT's sums of 64 bits have so many at most before they are scaled, and are shifted to the left
#: by as many as sums of so many bits of 32.
_SUM_BITS, _WIDE_BITS = 47, 24


def is_wide(file: TfliteFile, record: OperatorRecord) -> bool:
    """Whether it reads or writes quantized int16, and is an operator that is known on it."""
    return record.code in WIDE and any(
        index >= 0 and file.tensors[index].is_quantized and file.tensors[index].dtype == "int16"
        for index in (*record.inputs, *record.outputs)
    )


# --- sums of products -----------------------------------------------------------------------------
def _weights(converter: Stateful) -> tuple[TensorRecord, NDArray[np.int8]]:
    record = tensor_at(converter, 1)
    if record.dtype != "int8" or record.data is None or np.any(record.zero_points):
        raise UnsupportedError(
            f'its weights "{record.name}" are {record.dtype}: constants of int8 without a zero '
            "point are known beside int16: convert with int8 weights"
        )
    return record, record.data


def _finished(converter: Stateful, sums: Expr, reach: NDArray[np.int64]) -> None:
    """Bias, scale, clamp. sums: int64, channels last. reach: (O,), the largest sum without bias."""
    bb, integers = converter.bb, Integers(converter.bb)
    inputs, weights = converter.record.inputs, tensor_at(converter, 1)
    scale = scale_of(tensor_at(converter, 0)) * np.asarray(weights.scales, np.float64)
    scale = scale / scale_of(target_of(converter))
    is_dense = converter.record.code == "FULLY_CONNECTED"
    if len(inputs) > 2 and inputs[2] >= 0:
        bias = tensor_at(converter, 2)
        if bias.dtype != "int64" or bias.data is None:
            raise UnsupportedError(
                f'its bias "{bias.name}" is {bias.dtype}: constants of int64 are known beside '
                "int16: convert the model anew"
            )
        reach = reach + np.abs(bias.data)
        sums = bb.emit(relax.op.add(sums, integers.number(bias.data)))
    elif not is_dense:
        raise UnsupportedError("it has no bias, without which LiteRT has no kernel: add zeros")
    if reach.max(initial=0) >= 2**_SUM_BITS:
        raise UnsupportedError(
            f"its sums can reach {reach.max()}, and LiteRT's have {_SUM_BITS} bits: a larger scale "
            "of its input or weights makes its bias smaller"
        )
    scales = scale if scale.size > 1 else scale[0]
    if is_dense:
        if np.any(reach * scale >= 2**31):
            raise UnsupportedError(
                "its results can be beyond 32 bits, where LiteRT's wrap: the scale of its output "
                "is wrong"
            )
        factors = exact_constant(np.asarray(scales, np.float64))
        real = bb.emit(relax.op.multiply(bb.emit(relax.op.astype(sums, "float64")), factors))
        levels = half_away(converter, real)
    else:
        levels = integers.scaled_wide(sums, checked_scale(scales, _WIDE_BITS))
    give_levels(converter, levels, limits_of(converter))


def _convolved(converter: Stateful, kernel: NDArray[np.int8], groups: int) -> None:
    """kernel: OHWI."""
    check_types(converter, "int16", "int16")
    options = converter.record.options
    strides = options["stride_h"], options["stride_w"]
    dilation = options["dilation_h_factor"], options["dilation_w_factor"]
    sums = relax.op.nn.conv2d(
        converter.stored(converter.record.inputs[0]),
        exact_constant(np.ascontiguousarray(kernel.astype(np.int16))),
        strides=strides,
        padding=_padding(converter, kernel.shape[1:3], strides, dilation),
        dilation=dilation,
        groups=groups,
        data_layout="NHWC",
        kernel_layout="OHWI",
        out_dtype="int64",
    )
    sizes = np.abs(kernel.astype(np.int64)).reshape(len(kernel), -1).sum(axis=1)
    _finished(converter, converter.bb.emit(sums), sizes << 15)


def padding_of(
    kind: object,
    sizes: tuple[int, ...],
    kernel: tuple[int, ...],
    strides: tuple[int, int],
    dilation: tuple[int, int] = (1, 1),
) -> tuple[int, int, int, int]:
    """Top, left, bottom, right. kind: of the operator's options. sizes, kernel: (height, width)."""
    if kind != tflite.Padding.SAME:
        return 0, 0, 0, 0
    pads = []
    for size, taps, stride, step in zip(sizes, kernel, strides, dilation, strict=True):
        whole = max((-(-size // stride) - 1) * stride + (taps - 1) * step + 1 - size, 0)
        pads.append((whole // 2, whole - whole // 2))
    return pads[0][0], pads[1][0], pads[0][1], pads[1][1]


def _padding(
    converter: Stateful,
    kernel: tuple[int, ...],
    strides: tuple[int, int],
    dilation: tuple[int, int] = (1, 1),
) -> tuple[int, int, int, int]:
    sizes = tensor_at(converter, 0).shape[1:3]
    return padding_of(converter.record.options["padding"], sizes, kernel, strides, dilation)


def _conv(converter: Stateful, op: TfliteTable) -> None:
    """CONV_2D."""
    _, kernel = _weights(converter)
    depth = tensor_at(converter, 0).shape[3]
    if kernel.ndim != 4 or depth % kernel.shape[3]:
        raise UnsupportedError(f"its weights are {list(kernel.shape)}, its input has {depth}")
    _convolved(converter, kernel, depth // kernel.shape[3])


def _depthwise(converter: Stateful, op: TfliteTable) -> None:
    """DEPTHWISE_CONV_2D: weights (1, KH, KW, C * multiplier)."""
    _, kernel = _weights(converter)
    _convolved(converter, np.transpose(kernel, (3, 1, 2, 0)), tensor_at(converter, 0).shape[3])


def _dense(converter: Stateful, op: TfliteTable) -> None:
    """FULLY_CONNECTED: weights (O, I)."""
    check_types(converter, "int16", "int16")
    bb, (_, weights) = converter.bb, _weights(converter)
    rows = converter.stored(converter.record.inputs[0])
    if weights.ndim != 2 or int(np.prod(tensor_at(converter, 0).shape)) % weights.shape[1]:
        raise UnsupportedError(f"its weights are {list(weights.shape)}: rows of its input differ")
    flat = bb.emit(relax.op.reshape(rows, (-1, weights.shape[1])))
    turned = exact_constant(np.ascontiguousarray(weights.T.astype(np.int16)))
    sums = bb.emit(relax.op.matmul(flat, turned, out_dtype="int64"))
    shaped = bb.emit(relax.op.reshape(sums, target_of(converter).shape))
    _finished(converter, shaped, np.abs(weights.astype(np.int64)).sum(axis=1) << 15)


# --- element by element ---------------------------------------------------------------------------
def _add(converter: Stateful, op: TfliteTable) -> None:
    """ADD with scales of any kind; with powers of two and pot_scale_int16 LiteRT has another
    kernel."""
    check_types(converter, "int16", "int16", "int16")
    bb, integers = converter.bb, Integers(converter.bb)
    scales = [scale_of(tensor_at(converter, 0)), scale_of(tensor_at(converter, 1))]
    target = scale_of(target_of(converter))
    if converter.record.options["pot_scale_int16"] and all(
        np.log2(scale) == np.rint(np.log2(scale)) for scale in (*scales, target)
    ):
        raise UnsupportedError(
            "it has pot_scale_int16 and scales that are powers of two, which LiteRT adds by "
            "another rule: convert the model anew"
        )
    twice = 2 * max(scales)
    terms = [
        integers.scaled(
            bb.emit(
                relax.op.multiply(
                    integers.wide(converter.stored(index)), integers.number(1 << _ADD_PRE_SHIFT)
                )
            ),
            checked_scale(scale / twice, 30),
        )
        for index, scale in zip(converter.record.inputs, scales, strict=True)
    ]
    levels = integers.scaled(
        bb.emit(relax.op.add(*terms)),
        checked_scale(twice / ((1 << _ADD_PRE_SHIFT) * target), 30),
    )
    give_levels(converter, levels, limits_of(converter))


def _mul(converter: Stateful, op: TfliteTable) -> None:
    """MUL: the scale of the product is that of float32 numbers."""
    check_types(converter, "int16", "int16", "int16")
    integers = Integers(converter.bb)
    sides = [integers.wide(converter.stored(index)) for index in converter.record.inputs]
    product = converter.bb.emit(relax.op.multiply(*sides))
    scale = scale_of(tensor_at(converter, 0)) * scale_of(tensor_at(converter, 1))
    ratio = checked_scale(scale / scale_of(target_of(converter)), 30)
    levels = integers.scaled(product, ratio)
    give_levels(converter, levels, limits_of(converter))


# --- windows --------------------------------------------------------------------------------------
def _window(
    converter: Stateful,
) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int, int, int]]:
    """Size, strides, padding."""
    check_types(converter, "int16", "int16")
    options = converter.record.options
    size = options["filter_height"], options["filter_width"]
    strides = options["stride_h"], options["stride_w"]
    return size, strides, _padding(converter, size, strides)


def _max_pool(converter: Stateful, op: TfliteTable) -> None:
    """MAX_POOL_2D."""
    size, strides, padding = _window(converter)
    check_same_grid(converter)
    bb, source = converter.bb, converter.stored(converter.record.inputs[0])
    top, left, bottom, right = padding
    widths = [0, 0, top, bottom, left, right, 0, 0]
    if any(padding):
        source = bb.emit(relax.op.nn.pad(source, widths, pad_value=float(ENDS.min)))
    pooled = bb.emit(relax.op.nn.max_pool2d(source, size, strides, layout="NHWC"))
    give_levels(converter, Integers(bb).wide(pooled), limits_of(converter))


def _average_pool(converter: Stateful, op: TfliteTable) -> None:
    """AVERAGE_POOL_2D: sums over what is inside, divided with ties away from zero."""
    size, strides, padding = _window(converter)
    check_same_grid(converter)
    bb, integers = converter.bb, Integers(converter.bb)
    depth = tensor_at(converter, 0).shape[3]
    sums = bb.emit(
        relax.op.nn.conv2d(
            converter.stored(converter.record.inputs[0]),
            exact_constant(np.ones((depth, *size, 1), np.int16)),
            strides=strides,
            padding=padding,
            groups=depth,
            data_layout="NHWC",
            kernel_layout="OHWI",
            out_dtype="int64",
        )
    )
    counts = _counts(
        tensor_at(converter, 0).shape[1:3], target_of(converter).shape[1:3], size, strides
    )
    halves = integers.number(counts // 2)
    up, down = (bb.emit(made(sums, halves)) for made in (relax.op.add, relax.op.subtract))
    positive = bb.emit(relax.op.greater(sums, integers.number(0)))
    nudged = bb.emit(relax.op.where(positive, up, down))
    size_ = bb.emit(relax.op.abs(nudged))
    quotient = bb.emit(relax.op.floor_divide(size_, integers.number(counts)))
    negative = bb.emit(relax.op.negative(quotient))
    give_levels(
        converter, bb.emit(relax.op.where(positive, quotient, negative)), limits_of(converter)
    )


def _counts(
    sizes: tuple[int, ...],
    results: tuple[int, ...],
    kernel: tuple[int, int],
    strides: tuple[int, int],
) -> NDArray[np.int64]:
    """(1, OH, OW, 1): elements of the input in each window."""
    lines = []
    for size, result, taps, stride in zip(sizes, results, kernel, strides, strict=True):
        whole = max((result - 1) * stride + taps - size, 0)
        first = np.arange(result) * stride - whole // 2
        lines.append(np.minimum(first + taps, size) - np.maximum(first, 0))
    return np.asarray(lines[0][:, None] * lines[1][None], np.int64)[None, :, :, None]


# --- moves ----------------------------------------------------------------------------------------
def _reshape(converter: Stateful, op: TfliteTable) -> None:
    """RESHAPE."""
    check_same_grid(converter)
    target = converter.record.outputs[0]
    source = converter.stored(converter.record.inputs[0])
    converter.give(target, relax.op.reshape(source, target_of(converter).shape))


def _pad(converter: Stateful, op: TfliteTable) -> None:
    """PAD, by zeros."""
    check_same_grid(converter)
    widths = tensor_at(converter, 1).data
    if widths is None:
        raise UnsupportedError("its paddings are computed: only constants are known")
    source = converter.stored(converter.record.inputs[0])
    flat = [int(width) for width in widths.reshape(-1)]
    converter.give(converter.record.outputs[0], relax.op.nn.pad(source, flat, pad_value=0.0))


def _concatenation(converter: Stateful, op: TfliteTable) -> None:
    """CONCATENATION of tensors of one scale."""
    inputs, options = converter.record.inputs, converter.record.options
    scales = {float(scale_of(tensor_at(converter, k))) for k in range(len(inputs))}
    if scales != {float(scale_of(target_of(converter)))}:
        raise UnsupportedError("its inputs and output have other scales: convert the model anew")
    parts = [converter.stored(index) for index in inputs]
    converter.give(converter.record.outputs[0], relax.op.concat(parts, axis=options["axis"]))


# --- edges ----------------------------------------------------------------------------------------
def _quantize(converter: Stateful, op: TfliteTable) -> None:
    """QUANTIZE: of float32 by a float32 quotient, half away from zero; of integers by a fixed
    point."""
    bb, integers = converter.bb, Integers(converter.bb)
    source, target = tensor_at(converter, 0), target_of(converter)
    x, ends = converter.stored(converter.record.inputs[0]), np.iinfo(target.dtype)
    offset = integers.number(int(np.asarray(target.zero_points).reshape(-1)[0]))
    if source.dtype == "float32":
        quotient = bb.emit(relax.op.divide(x, constant(np.float32(scale_of(target)))))
        levels = half_away(converter, bb.emit(relax.op.astype(quotient, "float64")))
    else:
        check_types(converter, source.dtype, target.dtype)
        if source.zero_points is None or source.dtype not in ("int8", "int16"):
            raise UnsupportedError(f"it makes int16 of {source.dtype}: float32, int8 and int16 are")
        zero = integers.number(int(source.zero_points.reshape(-1)[0]))
        centred = bb.emit(relax.op.subtract(integers.wide(x), zero))
        bits = 9 if source.dtype == "int8" else 17
        ratio = checked_scale(scale_of(source) / scale_of(target), bits)
        levels = integers.scaled(centred, ratio)
    moved = bb.emit(relax.op.add(levels, offset))
    give_levels(converter, moved, (int(ends.min), int(ends.max)))


def _dequantize(converter: Stateful, op: TfliteTable) -> None:
    """DEQUANTIZE of int16."""
    check_types(converter, "int16", "float32")
    real = converter.bb.emit(
        relax.op.astype(converter.stored(converter.record.inputs[0]), "float32")
    )
    scale = constant(np.float32(scale_of(tensor_at(converter, 0))))
    converter.give(converter.record.outputs[0], relax.op.multiply(real, scale))


WIDE: Mapping[str, Callable[[Stateful, TfliteTable], None]] = {
    "ADD": _add,
    "AVERAGE_POOL_2D": _average_pool,
    "CONCATENATION": _concatenation,
    "CONV_2D": _conv,
    "DEPTHWISE_CONV_2D": _depthwise,
    "DEQUANTIZE": _dequantize,
    "FULLY_CONNECTED": _dense,
    "MAX_POOL_2D": _max_pool,
    "MUL": _mul,
    "PAD": _pad,
    "QUANTIZE": _quantize,
    "RESHAPE": _reshape,
}
