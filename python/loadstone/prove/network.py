# SPDX-License-Identifier: Apache-2.0
"""The network of a proof as plain records, whatever file it was read from.

In:   nothing.
Out:  ModelNetwork, ModelTensor and ModelOperator.
Next: read_tflite.py and read_onnx.py make them; the engine states each operator on symbols.

Integers are those of the file: uint8 stays uint8. Every constant that a framework derives from
scales (multipliers, clamps, tables) is derived by the reader, so that what follows is integers
alone. The attributes of each kind:

    conv2d, depthwise_conv2d   inputs: x, weights (O, KH, KW, I / groups), bias (O,) or -1
                               layout "NHWC" or "NCHW" of x and output, strides, dilations (y, x),
                               pads (top, left, bottom, right), groups, requantization
    dense                      inputs: x (..., I), weights (O, I), bias (O,) or -1; requantization
    batch_matmul               inputs: a (..., M, K), b (..., K, N), both activations; transpose_a,
                               transpose_b; requantization
    add, sub, mul              inputs: a, b, which broadcast; table (256, 256)
    requantize, table          inputs: x; table (256,)
    channel_table              inputs: x; axis; table (C, 256), a row for each place of the axis
    max_pool                   layout, kernel, strides, pads, low, high
    average_pool               layout, kernel, strides, pads; averages: dict of the count of taps
                               inside to the Requantizer of the sum of x - zero_point, an attribute
                               of its own: LiteRT takes none off; count_include_pad: whether these
                               divide by the whole window
    mean, global_average_pool  axes, keep_dims; requantization of the sum of x - zero point
    concat                     axis; tables: for each input None (bytes move) or a table (256,)
    reshape                    nothing: the output's shape
    transpose                  axes
    pad                        before, after (of each axis); value: a level
    slice                      begin, strides (of each axis; negative strides go backwards); the
                               output's shape says how many
    resize_nearest             layout; rows, columns: the input's row and column of each output's
    resize_bilinear            layout; rows, columns: (lower, upper, weight of the upper) arrays;
                               arithmetic "litert_int8" (weights of 10 bits), "litert_uint8" or
                               "onnx" (float32 weights)
    softmax                    axis, beta; arithmetic "litert" (the default) or "onnx", of which
                               low and high are the least and the greatest level
    arg_max                    axis
    quantize, dequantize       real numbers to levels and back: scale and zero point are those of
                               the tensor of levels; arithmetic "litert" or "onnx"
    float:NAME                 an operator NAME on real numbers or of the framework alone, with the
                               file's attributes: no integers are stated for it

A table is indexed by a level minus the least level of its tensor's type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = ["ModelNetwork", "ModelOperator", "ModelTensor"]


@dataclass(frozen=True, eq=False)
class ModelTensor:
    """A tensor of the network.

    shape: elements. dtype: NumPy's name. scales, zero_points: one for the whole tensor, one for
    each place of `axis`, or none (not quantized). data: a constant's elements, in `shape`.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    scales: tuple[float, ...] = ()
    zero_points: tuple[int, ...] = ()
    axis: int | None = None
    data: NDArray[np.generic] | None = None

    @property
    def scale(self) -> float:
        """The scale of a tensor that has one."""
        (scale,) = self.scales
        return scale

    @property
    def zero_point(self) -> int:
        """The zero point of a tensor that has one."""
        (zero_point,) = self.zero_points
        return zero_point


@dataclass(frozen=True, eq=False)
class ModelOperator:
    """An operator of the network.

    kind: one of the module's list. inputs, outputs: indices of tensors, -1 where an optional one
    is absent. attributes: those of its kind. where: what names the operator for a person.
    """

    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attributes: Mapping[str, object] = field(default_factory=dict)
    where: str = ""


@dataclass(frozen=True, eq=False)
class ModelNetwork:
    """A network: operators in an order in which they can be computed.

    inputs, outputs: indices of tensors, in the file's order.
    """

    name: str
    tensors: tuple[ModelTensor, ...]
    operators: tuple[ModelOperator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
