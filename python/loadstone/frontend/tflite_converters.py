# SPDX-License-Identifier: Apache-2.0
"""TFLite's operators that TVM's importer lacks, or supports only in part.

In:   an operator's table; the Converter of tflite.py, which returns tensors of the file as real
      numbers.
Out:  a Relax expression of real numbers; OWN, by operator.
Next: tflite.py quantizes the result.

A transposed convolution becomes a convolution: each of its stride * stride outputs between two
inputs uses different taps, so that one convolution computes them all as channels, which are then
moved to their positions. Each sum has the same terms, so that the integers are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
import tflite
from numpy.typing import NDArray

from loadstone.errors import UnsupportedError
from loadstone.frontend.tflite_file import OperatorRecord, TensorRecord, TfliteFile, TfliteTable
from loadstone.numerics import Array
from loadstone.relax.compat import constant, is_constant, relax, shape

if TYPE_CHECKING:
    from loadstone.relax.types import BlockBuilder, Expr

__all__ = ["OWN", "Converter", "axis_of", "constant_of", "target_of"]


class Converter(Protocol):
    """What these functions ask of tflite.py."""

    file: TfliteFile
    record: OperatorRecord
    bb: BlockBuilder

    def stored(self, index: int) -> Expr:
        """A tensor as the file has it."""
        ...

    def give(self, index: int, expr: Expr) -> None:
        """A tensor as the file has it, computed."""
        ...

    def real(self, position: int) -> Expr:
        """Input number `position` of the operator, as real numbers."""
        ...

    def activated(self, expr: Expr, activation: int) -> Expr:
        """A fused activation behind an expression."""
        ...


def _reshape(converter: Converter, op: TfliteTable) -> Expr:
    """RESHAPE: to the constant that it reads, or else to its option; one size may be left open."""
    computed = len(converter.record.inputs) > 1
    asked = (
        constant_of(converter, 1).reshape(-1) if computed else np.array(_option_shape(converter))
    )
    size = [int(n) for n in asked]
    count = int(np.prod(converter.file.tensors[converter.record.inputs[0]].shape))
    if -1 in size:
        known = int(np.prod([n for n in size if n != -1]))
        size[size.index(-1)] = count // known if known else -1
    if min(size, default=1) < 0 or int(np.prod(size)) != count:
        raise UnsupportedError(f"it gives {count} elements the shape {asked.tolist()}")
    return _shaped(converter, size)


def _option_shape(converter: Converter) -> tuple[int, ...]:
    """TensorFlow 1 wrote the shape of a scalar as [0]."""
    asked = tuple(converter.record.options["new_shape"])
    return () if asked == (0,) else asked


def _squeeze(converter: Converter, op: TfliteTable) -> Expr:
    """SQUEEZE: without the axes of one element, or those that it names."""
    extents = converter.file.tensors[converter.record.inputs[0]].shape
    rank = len(extents)
    asked = converter.record.options["squeeze_dims"]
    axes = {axis % rank for axis in asked if -rank <= axis < rank}
    if len(axes) < len(set(asked)) or any(extents[axis] != 1 for axis in axes):
        raise UnsupportedError(f"it leaves out axes {list(asked)} of {list(extents)}")
    axes = axes or {axis for axis, extent in enumerate(extents) if extent == 1}
    return _shaped(converter, [n for axis, n in enumerate(extents) if axis not in axes])


def _expand_dims(converter: Converter, op: TfliteTable) -> Expr:
    """EXPAND_DIMS: one more axis of one element."""
    extents = list(converter.file.tensors[converter.record.inputs[0]].shape)
    axis, most = int(constant_of(converter, 1).reshape(-1)[0]), len(extents) + 1
    if not -most <= axis < most:
        raise UnsupportedError(f"its axis is {axis}: its output has {most} axes")
    extents.insert(axis % most, 1)
    return _shaped(converter, extents)


def _shaped(converter: Converter, size: Sequence[int]) -> Expr:
    """Input 0 in another shape."""
    return relax.op.reshape(converter.real(0), tuple(size))


def _softmax(converter: Converter, op: TfliteTable) -> Expr:
    """SOFTMAX with its beta, which TVM's importer drops."""
    options = converter.record.options
    if not options["beta"] > 0:
        raise UnsupportedError(
            f"its beta is {options['beta']:g}, and LiteRT's kernel needs one above 0"
        )
    source = converter.real(0)
    if options["beta"] != 1:
        source = relax.op.multiply(source, constant(np.float32(options["beta"])))
    return relax.op.nn.softmax(source, axis=-1)


def _batch_matmul(converter: Converter, op: TfliteTable) -> Expr:
    """BATCH_MATMUL of three axes or more, so that it is no dense layer: that has another rule."""
    adjoint = converter.record.options["adj_x"], converter.record.options["adj_y"]
    sides = []
    for position, turned in enumerate(adjoint):
        side = converter.real(position)
        extents = shape(side) or ()
        if len(extents) < 2:
            raise UnsupportedError(
                f"input {position} has shape {list(extents)}, which is no matrix"
            )
        if turned:
            axes = [*range(len(extents) - 2), len(extents) - 1, len(extents) - 2]
            side = converter.bb.normalize(relax.op.permute_dims(side, axes))
            extents = shape(side) or ()
        sides.append(side if len(extents) > 2 else relax.op.reshape(side, (1, *extents)))
    product = converter.bb.normalize(relax.op.matmul(*sides))
    left, right = (converter.file.tensors[index].shape for index in converter.record.inputs[:2])
    return relax.op.reshape(product, (shape(product) or ())[-max(len(left), len(right)) :])


def _space_to_batch(converter: Converter, op: TfliteTable) -> Expr:
    """SPACE_TO_BATCH_ND: padded, cut into blocks, each place of a block a batch of its own."""
    source, (block, pads) = converter.real(0), _two_constants(converter)
    batch, *space = shape(source) or ()
    count, rest = len(block), space[len(block) :]
    width = [(0, 0), *((int(a), int(b)) for a, b in pads), *[(0, 0)] * (len(space) - count)]
    padded = relax.op.nn.pad(source, [n for pair in width for n in pair])
    split = [batch]
    for extent, step, (before, after) in zip(space, block, pads, strict=False):
        whole = int(extent + before + after)
        if whole % step:
            raise UnsupportedError(f"blocks of {step} do not fill {whole}")
        split += [whole // int(step), int(step)]
    size = [batch * int(np.prod(block)), *split[1::2], *rest]
    inner = [1 + 2 * axis for axis in range(count)]
    order = [axis + 1 for axis in inner] + [0] + inner
    order += range(1 + 2 * count, 1 + 2 * count + len(rest))
    blocks = relax.op.permute_dims(relax.op.reshape(padded, [*split, *rest]), order)
    return relax.op.reshape(blocks, size)


def _batch_to_space(converter: Converter, op: TfliteTable) -> Expr:
    """BATCH_TO_SPACE_ND: batches become places of blocks; then cut."""
    source, (block, crops) = converter.real(0), _two_constants(converter)
    batch, *space = shape(source) or ()
    count, rest = len(block), space[len(block) :]
    sizes = [int(n) for n in block]
    split = [*sizes, batch // int(np.prod(sizes)), *space]
    order = [count]
    for axis in range(count):
        order += [count + 1 + axis, axis]
    order += range(2 * count + 1, 2 * count + 1 + len(rest))
    merged = [n * size for n, size in zip(space, sizes, strict=False)]
    whole = relax.op.reshape(
        relax.op.permute_dims(relax.op.reshape(source, split), order),
        [split[count], *merged, *rest],
    )
    begin = [int(before) for before, _ in crops]
    end = [n - int(after) for n, (_, after) in zip(merged, crops, strict=True)]
    return relax.op.strided_slice(whole, list(range(1, 1 + count)), begin, end)


def _transpose_conv(converter: Converter, op: TfliteTable) -> Expr:
    """TRANSPOSE_CONV: inputs are the output's shape, weights (O, KH, KW, I), x and a bias."""
    options = converter.record.options
    strides = options["stride_h"], options["stride_w"]
    file, inputs = converter.file, converter.record.inputs
    weights, target = file.tensors[inputs[1]], target_of(converter)
    if weights.data is None:
        raise UnsupportedError("its weights are no constant")
    if constant_of(converter, 0).tolist() != list(target.shape):
        raise UnsupportedError(
            f"it is to write {constant_of(converter, 0).tolist()}, and its output has the shape "
            f"{list(target.shape)}"
        )
    source = converter.real(2)
    _, height, width, _ = shape(source) or (0, 0, 0, 0)
    taps = [-(-k // s) for k, s in zip(weights.shape[1:3], strides, strict=True)]
    first, phases = [], []
    for axis, (extent, stride) in enumerate(zip((height, width), strides, strict=True)):
        total = (extent - 1) * stride + weights.shape[1 + axis] - target.shape[1 + axis]
        same = options["padding"] == tflite.Padding.SAME
        first.append(max(total, 0) // 2 if same else 0)
        phases.append(max(extent, -(-(first[axis] + target.shape[1 + axis]) // stride)))
    many = _by_phase(weights, strides, taps)
    after = [count - extent for count, extent in zip(phases, (height, width), strict=True)]
    core = relax.op.nn.conv2d(
        source,
        _bound(converter, many),
        padding=(taps[0] - 1, taps[1] - 1, after[0], after[1]),
        data_layout="NHWC",
        kernel_layout="OHWI",
    )
    if len(inputs) > 3 and inputs[3] >= 0:
        core = relax.op.add(core, _bound(converter, _bias(file, inputs, strides)))
    core = converter.activated(core, options["fused_activation_function"])
    blocks = relax.op.reshape(core, (1, *phases, *strides, weights.shape[0]))
    moved = relax.op.permute_dims(blocks, [0, 1, 3, 2, 4, 5])
    sizes = [count * stride for count, stride in zip(phases, strides, strict=True)]
    whole = relax.op.reshape(moved, (1, *sizes, weights.shape[0]))
    end = [start + n for start, n in zip(first, target.shape[1:3], strict=True)]
    return relax.op.strided_slice(whole, [1, 2], first, end)


def _bound(converter: Converter, expr: Expr) -> Expr:
    """A dequantize as a binding; a constant stays where it is read, as everywhere."""
    return expr if is_constant(expr) else converter.bb.emit(expr)


def _by_phase(record: TensorRecord, strides: Sequence[int], taps: Sequence[int]) -> Expr:
    """Weights (stride * stride * O, taps, taps, I) as real numbers: those that each place between
    two inputs reads, last tap first; 0 where it reads fewer."""
    data, (step_y, step_x) = record.data, strides
    assert data is not None
    out, height, width, channels = record.shape
    scales, zeros = _of_channels(record, out)
    padded = np.zeros((out, taps[0] * step_y, taps[1] * step_x, channels), data.dtype)
    padded += zeros.astype(data.dtype).reshape(-1, 1, 1, 1)
    padded[:, :height, :width] = data
    split = padded.reshape(out, taps[0], step_y, taps[1], step_x, channels)[:, ::-1, :, ::-1]
    kernels = np.ascontiguousarray(split.transpose(2, 4, 0, 1, 3, 5)).reshape(-1, *taps, channels)
    copies = step_y * step_x
    if record.scales is None:
        return constant(kernels)
    if record.scales.size == 1:
        scale, zero_point = constant(record.scales[0]), constant(zeros[0])
    else:
        scale, zero_point = constant(np.tile(scales, copies)), constant(np.tile(zeros, copies))
    return relax.op.dequantize(constant(kernels), scale, zero_point, axis=0)


def _bias(file: TfliteFile, inputs: Sequence[int], strides: Sequence[int]) -> Expr:
    """The bias of every phase, at the scale of the accumulator."""
    weights, source, bias = (file.tensors[index] for index in inputs[1:4])
    assert bias.data is not None
    copies = strides[0] * strides[1]
    data = np.tile(bias.data, copies)
    if weights.scales is None or source.scales is None:
        return constant(data)
    scales = (source.scales[0] * _of_channels(weights, bias.data.size)[0]).astype(np.float32)
    return relax.op.dequantize(
        constant(data), constant(np.tile(scales, copies)), constant(np.zeros(data.size, np.int32))
    )


def _of_channels(record: TensorRecord, count: int) -> tuple[NDArray[np.float32], Array]:
    """Scale and zero point of every output channel; 1 and 0 of a tensor without."""
    if record.scales is None or record.zero_points is None:
        return np.ones(count, np.float32), np.zeros(count, np.int32)
    return (
        np.ascontiguousarray(np.broadcast_to(record.scales, count)),
        np.ascontiguousarray(np.broadcast_to(record.zero_points, count)),
    )


def _two_constants(converter: Converter) -> list[Array]:
    """Inputs 1 and 2, which must be known: sizes of blocks, and a pair for each."""
    block, pairs = (constant_of(converter, place).astype(np.int64) for place in (1, 2))
    if block.size < 1 or block.min() < 1 or pairs.shape != (block.size, 2) or pairs.min() < 0:
        raise UnsupportedError(f"its blocks {block.tolist()} and {pairs.tolist()} do not fit")
    return [block.reshape(-1), pairs]


def constant_of(converter: Converter, position: int) -> Array:
    """An input whose values are known, in its shape. Raises UnsupportedError for one that is
    computed."""
    record = converter.file.tensors[converter.record.inputs[position]]
    if record.data is None:
        raise UnsupportedError(
            f'its argument "{record.name}" is computed by the model: only constants are '
            "supported there"
        )
    return record.data


def target_of(converter: Converter) -> TensorRecord:
    """The tensor that the operator writes first."""
    return converter.file.tensors[converter.record.outputs[0]]


def axis_of(converter: Converter, position: int, data: int = 0) -> int:
    """An input that is one number, of the axes of input `data`."""
    given = int(constant_of(converter, position).reshape(-1)[0])
    rank = len(converter.file.tensors[converter.record.inputs[data]].shape)
    if not -rank <= given < rank:
        raise UnsupportedError(f"its axis is {given}: its input has {rank} axes")
    return given % rank


#: Operator -> its conversion.
OWN: Mapping[str, Callable[[Converter, TfliteTable], Expr]] = {
    "RESHAPE": _reshape,
    "SQUEEZE": _squeeze,
    "EXPAND_DIMS": _expand_dims,
    "SOFTMAX": _softmax,
    "BATCH_MATMUL": _batch_matmul,
    "SPACE_TO_BATCH_ND": _space_to_batch,
    "BATCH_TO_SPACE_ND": _batch_to_space,
    "TRANSPOSE_CONV": _transpose_conv,
}
