# SPDX-License-Identifier: Apache-2.0
"""Operators as computations on rows of lanes, for every device that has no layout of its own.

In:   an operator; how many lanes a row has, and which steps the device's instructions do.
Out:  `Computation`: nests on whole axes, the axes that may be tiled, the constants.
Next: from_table.py chooses the tiles, and the instructions.

Activations are (H, W, C) as ProgramRegion.tensor lays them out: a row of lanes is a block of
channels of one pixel. Weights have a row for each input lane. A sample is a computation.

A sum of products leaves in one of two ways: by `rq`, whose lanes each have bias, multiplier and
shift; or with a bias added in memory's own rows, and by `scale`, one float32 for the whole layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from loadstone.errors import Refusal
from loadstone.graph import Conv2D, Dense, Operator
from loadstone.ir_pass.affine import Variable
from loadstone.ir_pass.nests import Function, NestAccess, NestLoops, NestStep, NestTensor
from loadstone.numerics import Array, Rounding, wrap_int32

__all__ = ["COMPUTATIONS", "Computation", "RowDevice"]

#: How a network comes to have neither zero points nor a scale for each channel.
_QUANTIZED = "loadstone quantize --scheme symmetric --per-tensor"


@dataclass(frozen=True)
class RowDevice:
    """What computations ask of a device. lanes: of a row. steps: that its instructions do, by name.
    diagonal: whether a depthwise layer is a product with diagonal matrices, in which all lanes but
    one of each row are zeros; otherwise it is left to other devices."""

    lanes: int
    steps: frozenset[str]
    diagonal: bool = False


@dataclass(frozen=True)
class Computation:
    """around: axes of all nests, whose tiles are loops around them. summed: axes of the sum alone,
    of which a tile is one turn of a loop around it. constants: by name of their tensor. samples:
    how often it is done, on tensors x and out behind each other."""

    function: Function
    around: tuple[Variable, ...]
    summed: tuple[Variable, ...]
    constants: Mapping[str, Array]
    samples: int = 1


def _conv2d(op: Operator, device: RowDevice) -> Computation | Refusal:
    assert isinstance(op, Conv2D)
    (top, left), weights = op.padding[:2], op.weights
    window = _Window(op.strides, op.dilation, (top, left))
    if op.groups == 1:
        return _products(op, device, weights, window)
    if not device.diagonal:
        return Refusal(f"{op.groups} groups: each would fill one column", "one without groups")
    if (weights.shape[3], op.groups) != (1, op.output.shape[-1]):
        return Refusal("groups of several channels", "one group, or one for each channel")
    return _products(op, device, weights, replace(window, each=True))


def _dense(op: Operator, device: RowDevice) -> Computation | Refusal:
    """A convolution of one pixel, whose image has a row for each sample."""
    assert isinstance(op, Dense)
    if not op.integers_round:
        why = "no integer multiplier is proven to equal its scale of 64 bits"
        return Refusal(why, "rounding double, as in TFLite Micro")
    return _products(op, device, op.weights[:, None, None, :], _Window((1, 1), (1, 1), (0, 0)))


@dataclass(frozen=True)
class _Window:
    """Of each axis, height and width. each: one channel of input for each of output."""

    strides: tuple[int, int]
    dilation: tuple[int, int]
    begin: tuple[int, int]
    each: bool = False


def _products(
    op: Conv2D | Dense, device: RowDevice, kernel: Array, at: _Window
) -> Computation | Refusal:
    """Sums of products, and what becomes of them. kernel: (O, KH, KW, I)."""
    if np.any(op.weight_zero_points):
        return Refusal("weights with a zero point", "symmetric weights")
    is_scaled = "rq" not in device.steps
    refused = _why_not_scaled(op) if is_scaled else None
    if refused is not None:
        return refused
    lanes = device.lanes
    samples, h, w, c = _image(op.input.shape)
    _, oh, ow, o = _image(op.output.shape)
    _, kh, kw, _ = kernel.shape
    outs, row = -(-o // lanes), (1, lanes)
    ins = 1 if at.each else -(-c // lanes)
    x = NestTensor("x", (h, w, -(-c // lanes)), row, "int8")
    weights = NestTensor("w", (outs, ins, kh, kw, lanes), row, "int8")
    rescaled = NestTensor("p", (outs, 1 if is_scaled else 3), row, "int32")
    sums = NestTensor("acc", (oh, ow, outs), row, "int32", "local")
    out = NestTensor("out", (oh, ow, outs), row, "int8")

    loops = NestLoops()
    place = i, j, n = loops.loop(oh, "i"), loops.loop(ow, "j"), loops.loop(outs, "n")
    fill = loops.nest(NestStep("fill", (sums[place],), (0,)))
    store = loops.nest(NestStep("copy", (out[place], sums[place])))
    last = [*map(loops.nest, _last(op, sums[place], rescaled[n, 0], is_scaled=is_scaled)), store]
    k, ky, kx = loops.loop(ins, "k"), loops.loop(kh, "ky"), loops.loop(kw, "kx")
    (sy, sx), (dy, dx), (top, left) = at.strides, at.dilation, at.begin
    pixel = (i * sy + ky * dy - top, j * sx + kx * dx - left, n if at.each else k)
    read = NestAccess(x, pixel, pad=op.input.zero_point)
    gemm = loops.nest(NestStep("gemm", (sums[place], read, weights[n, k, ky, kx, 0])))
    tensors = (rescaled, sums, x, weights, out)
    function = Function(op.kind, tensors, (fill, gemm, *last))
    rows, columns, blocks, chunks, _, _ = loops.variables
    packed = _diagonals(kernel, lanes) if at.each else _tiles(kernel, lanes)
    p = _biases(op, lanes) if is_scaled else _scales(op, lanes)
    constants = {"w": packed, "p": p}
    return Computation(function, (rows, blocks, columns), (chunks,), constants, samples)


def _last(
    op: Conv2D | Dense, sums: NestAccess, rescaled: NestAccess, *, is_scaled: bool
) -> Iterator[NestStep]:
    """From a sum of products to the output's integers."""
    if not is_scaled:
        limits = (op.output.zero_point, op.low, op.high, int(op.rounding))
        yield NestStep("rq", (sums, rescaled), limits)
        return
    scale = int(op.requantization()[0][0]) & 0xFFFFFFFF
    yield NestStep("add", (sums, rescaled))
    yield NestStep("scale", (sums,), (scale, op.low, op.high))


def _why_not_scaled(op: Conv2D | Dense) -> Refusal | None:
    """What one float32 for a layer cannot do."""
    if op.rounding is not Rounding.FLOAT32:
        return Refusal(f"scales in float32, not {op.rounding.name.lower()}", "an ONNX QDQ model")
    if op.input.zero_point or op.output.zero_point:
        return Refusal("no zero points", _QUANTIZED)
    if len(set(op.requantization()[0].tolist())) > 1:
        return Refusal("one scale for a layer", _QUANTIZED)
    return None


def _image(shape: tuple[int, ...]) -> tuple[int, int, int, int]:
    """(N, H, W, C); (M, C) is an image of M rows."""
    if len(shape) == 2:
        return 1, shape[0], 1, shape[1]
    samples, height, width, channels = shape
    return samples, height, width, channels


def _tiles(kernel: Array, lanes: int) -> Array:
    """(O / lanes, I / lanes, KH, KW, lanes of input, lanes of output)."""
    outputs, *taps, inputs = kernel.shape
    o, c = -(-outputs // lanes) * lanes, -(-inputs // lanes) * lanes
    whole = np.zeros((o, *taps, c), np.int8)
    whole[:outputs, :, :, :inputs] = kernel
    tiles = whole.reshape(o // lanes, lanes, *taps, c // lanes, lanes)
    return np.ascontiguousarray(tiles.transpose(0, 4, 2, 3, 5, 1))


def _diagonals(kernel: Array, lanes: int) -> Array:
    """(O / lanes, 1, KH, KW, lanes of input, lanes of output) of (O, KH, KW, 1)."""
    outputs, *taps, _ = kernel.shape
    number = np.arange(outputs)
    whole = np.zeros((-(-outputs // lanes), 1, *taps, lanes, lanes), np.int8)
    whole[number // lanes, 0, :, :, number % lanes, number % lanes] = kernel[..., 0]
    return whole


def _biases(op: Conv2D | Dense, lanes: int) -> Array:
    """(O / lanes, 1, lanes)."""
    found = np.zeros(-(-len(op.weights) // lanes) * lanes, np.int32)
    found[: len(op.weights)] = op.bias
    return found.reshape(-1, 1, lanes)


def _scales(op: Conv2D | Dense, lanes: int) -> Array:
    """(O / lanes, 3, lanes): bias, multiplier and shift. Pads of the input are its zero point, so
    that the bias takes it off every product."""
    outputs = len(op.weights)
    sums = op.weights.reshape(outputs, -1).sum(axis=1, dtype=np.int64)
    found = np.zeros((3, -(-outputs // lanes) * lanes), np.int32)
    bias = wrap_int32(op.bias - op.input.zero_point * sums)
    found[:, :outputs] = bias, *op.requantization()
    return np.ascontiguousarray(found.reshape(3, -1, lanes).transpose(1, 0, 2))


#: By kind of operator; a Refusal of one that it has no computation for.
COMPUTATIONS: Mapping[str, Callable[[Operator, RowDevice], Computation | Refusal]] = (
    MappingProxyType({"conv2d": _conv2d, "dense": _dense})
)
