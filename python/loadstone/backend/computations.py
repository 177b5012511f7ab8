# SPDX-License-Identifier: Apache-2.0
"""Operators as computations on rows of lanes, for every device that has no layout of its own.

In:   an operator; how many lanes a row has.
Out:  `Computation`: nests on whole axes, the axes that may be tiled, the constants.
Next: from_table.py chooses the tiles, and the instructions.

Activations are (H, W, C) as ProgramRegion.tensor lays them out: a row of lanes is a block of
channels of one pixel. Weights have a row for each input lane. A sample is a computation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from loadstone.errors import Refusal
from loadstone.graph import Conv2D, Dense, Operator
from loadstone.ir_pass.affine import Variable
from loadstone.ir_pass.nests import Function, NestAccess, NestLoops, NestStep, NestTensor
from loadstone.numerics import Array, wrap_int32

__all__ = ["COMPUTATIONS", "Computation"]


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


def _conv2d(op: Operator, lanes: int) -> Computation | Refusal:
    assert isinstance(op, Conv2D)
    if op.groups != 1:
        return Refusal(f"{op.groups} groups: each would fill one column", "one without groups")
    (top, left), weights = op.padding[:2], op.weights
    window = _Window(op.strides, op.dilation, (top, left))
    return _products(op, lanes, weights, window)


def _dense(op: Operator, lanes: int) -> Computation | Refusal:
    """A convolution of one pixel, whose image has a row for each sample."""
    assert isinstance(op, Dense)
    if not op.integers_round:
        why = "no integer multiplier is proven to equal its scale of 64 bits"
        return Refusal(why, "rounding double, as in TFLite Micro")
    return _products(op, lanes, op.weights[:, None, None, :], _Window((1, 1), (1, 1), (0, 0)))


@dataclass(frozen=True)
class _Window:
    """Of each axis, height and width."""

    strides: tuple[int, int]
    dilation: tuple[int, int]
    begin: tuple[int, int]


def _products(op: Conv2D | Dense, lanes: int, kernel: Array, at: _Window) -> Computation | Refusal:
    """Sums of products, and their requantization. kernel: (O, KH, KW, I)."""
    if np.any(op.weight_zero_points):
        return Refusal("weights with a zero point", "symmetric weights")
    samples, h, w, c = _image(op.input.shape)
    _, oh, ow, o = _image(op.output.shape)
    _, kh, kw, _ = kernel.shape
    ins, outs, row = -(-c // lanes), -(-o // lanes), (1, lanes)
    x = NestTensor("x", (h, w, ins), row, "int8")
    weights = NestTensor("w", (outs, ins, kh, kw, lanes), row, "int8")
    scales = NestTensor("p", (outs, 3), row, "int32")
    sums = NestTensor("acc", (oh, ow, outs), row, "int32", "local")
    out = NestTensor("out", (oh, ow, outs), row, "int8")

    loops = NestLoops()
    place = i, j, n = loops.loop(oh, "i"), loops.loop(ow, "j"), loops.loop(outs, "n")
    limits = (op.output.zero_point, op.low, op.high, int(op.rounding))
    fill = loops.nest(NestStep("fill", (sums[place],), (0,)))
    rq = loops.nest(NestStep("rq", (sums[place], scales[n, 0]), limits))
    store = loops.nest(NestStep("copy", (out[place], sums[place])))
    k, ky, kx = loops.loop(ins, "k"), loops.loop(kh, "ky"), loops.loop(kw, "kx")
    (sy, sx), (dy, dx), (top, left) = at.strides, at.dilation, at.begin
    pixel = (i * sy + ky * dy - top, j * sx + kx * dx - left, k)
    read = NestAccess(x, pixel, pad=op.input.zero_point)
    gemm = loops.nest(NestStep("gemm", (sums[place], read, weights[n, k, ky, kx, 0])))
    tensors = (scales, sums, x, weights, out)
    function = Function(op.kind, tensors, (fill, gemm, rq, store))
    rows, columns, blocks, chunks, _, _ = loops.variables
    constants = {"w": _tiles(kernel, lanes), "p": _scales(op, lanes)}
    return Computation(function, (rows, blocks, columns), (chunks,), constants, samples)


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
COMPUTATIONS: Mapping[str, Callable[[Operator, int], Computation | Refusal]] = MappingProxyType(
    {"conv2d": _conv2d, "dense": _dense}
)
