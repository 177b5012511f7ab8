# SPDX-License-Identifier: Apache-2.0
"""Constants in the layout that the device reads: weight tiles, requantization operands, identity
and pad tiles.

In:   NumPy arrays of an operator: OHWI weights, bias, scales, zero points.
Out:  arrays of tiles: weights (tiles, block, block) int8; operands (tiles, batch, block) int32.
Next: the operators name them; the artifact holds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, lcm
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loadstone import graph as g
from loadstone.graph.bfloat16 import bits_of
from loadstone.numerics import (
    Array,
    Rounding,
    onnx_scale,
    quantize_multiplier,
    scale_lane,
    shift_lane,
    wrap_int32,
)
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.spec import WIDE_FACTOR, WINDOW_PITCH, window_rows

__all__ = [
    "Grouping",
    "centred_weights",
    "elements",
    "folded_bias",
    "grouping",
    "identity_tile",
    "operand_tiles",
    "pad_tile",
    "product_input",
    "product_limit",
    "product_tiles",
    "requantization",
    "split_weights",
    "weight_tiles",
    "weighted_operands",
    "window_tiles",
]

#: What the input tile of a constant's product holds in all lanes but the first.
_PRODUCT_INPUT = 127

Int8Array = NDArray[np.int8]
Int32Array = NDArray[np.int32]
Weights = TypeVar("Weights", Int8Array, NDArray[np.uint16])


@dataclass(frozen=True)
class Grouping:
    """How a grouped convolution lies on blocks: `groups` independent ones, each from in_blocks to
    out_blocks.

    Each holds `members` groups of the operator, side by side; weights between members are zero.
    Depthwise with 16 lanes is 16 members, one block in, one out, and weight tiles that are
    diagonal.
    """

    groups: int
    in_blocks: int
    out_blocks: int
    members: int


def grouping(groups: int, in_channels: int, out_channels: int, block: int) -> Grouping:
    """The smallest set of groups whose input and output channels fill whole blocks; one dense
    convolution if there is none.

    in_channels, out_channels: of one group.
    """
    members = lcm(block // gcd(block, in_channels), block // gcd(block, out_channels))
    if members < groups:
        count = -(-groups // members)
        fitted = Grouping(
            count, members * in_channels // block, members * out_channels // block, members
        )
        in_blocks, out_blocks = (
            -(-groups * in_channels // block),
            -(-groups * out_channels // block),
        )
        if (count * fitted.in_blocks, count * fitted.out_blocks) == (in_blocks, out_blocks):
            return fitted
    return Grouping(
        1, -(-groups * in_channels // block), -(-groups * out_channels // block), groups
    )


def split_weights(weights: NDArray[np.int64]) -> list[Int8Array]:
    """Integers as a sum of int8 arrays: one where they fit, two for the 9 bits of a uint8 weight
    less its zero point. Each has the shape of `weights`."""
    parts: list[Int8Array] = []
    rest = weights
    while rest.min(initial=0) < -128 or rest.max(initial=0) > 127:
        part = np.clip(rest, -128, 127)
        parts.append(part.astype(np.int8))
        rest = rest - part
    return [*parts, rest.astype(np.int8)]


def weight_tiles(parts: Sequence[Weights], groups: int, layout: Grouping, block: int) -> Weights:
    """OHWI parts (int8, or bits of bfloat16) -> tiles in the order
    [group][out][in][part][ky][kx] of [out lane][in lane], flattened to (tiles, block, block)."""
    out_channels, height, width, in_group = parts[0].shape
    out_group = out_channels // groups
    stacked = np.stack(parts, axis=3)  # (O, KH, KW, P, I)
    shape = (
        layout.groups,
        layout.out_blocks * block,
        height,
        width,
        len(parts),
        layout.in_blocks * block,
    )
    dense = np.zeros(shape, parts[0].dtype)
    for group in range(groups):
        which, member = divmod(group, layout.members)
        rows = slice(member * out_group, (member + 1) * out_group)
        columns = slice(member * in_group, (member + 1) * in_group)
        dense[which, rows, ..., columns] = stacked[group * out_group : (group + 1) * out_group]
    split = dense.reshape(
        layout.groups, layout.out_blocks, block, height, width, len(parts), layout.in_blocks, block
    )
    return np.ascontiguousarray(split.transpose(0, 1, 6, 5, 3, 4, 2, 7)).reshape(-1, block, block)


def window_tiles(weights: Int8Array, block: int) -> Int8Array:
    """The weights of a depthwise convolution, (channels, rows, columns, 1), as DEPTHWISE reads
    them: (channel blocks, block, block), the taps of each channel in its lane."""
    channels, rows, columns, _ = weights.shape
    first = window_rows(block) - rows
    blocks = -(-channels // block)
    lanes = np.zeros((blocks * block, block), np.int8)
    for row in range(rows):
        at = WINDOW_PITCH * (first + row)
        lanes[:channels, at : at + columns] = weights[:, row, :, 0]
    return lanes.reshape(blocks, block, block)


def wide_tile(weight: int, config: HwConfig) -> Int8Array:
    """(1, block, block): the weight tile of a wide DEPTHWISE that multiplies every lane of one tile
    by a weight of magnitude 127 * 128 at most."""
    half, end = WIDE_FACTOR // 2, WINDOW_PITCH * window_rows(config.block)
    low = (weight + half) % WIDE_FACTOR - half
    tile = np.zeros((1, config.block, config.block), np.int8)
    tile[..., end - WINDOW_PITCH], tile[..., end - 1] = low, (weight - low) // WIDE_FACTOR
    return tile


def operand_tiles(rows: Sequence[ArrayLike], channels: int, config: HwConfig) -> Int32Array:
    """(channel blocks * rows, batch, block): a value per channel in each row, the same for every
    sample.

    rows: for RQ bias, multiplier and shift lanes. Lanes beyond the last channel are zero: nobody
        reads what becomes of them.
    """
    blocks = -(-channels // config.block)
    lanes = np.zeros((len(rows), blocks * config.block), np.int32)
    for row, values in zip(lanes, rows, strict=True):
        row[:channels] = values
    tiles = lanes.reshape(len(rows), blocks, 1, config.block).transpose(1, 0, 2, 3)
    tiles = np.broadcast_to(tiles, (blocks, len(rows), config.batch, config.block))
    return np.ascontiguousarray(tiles).reshape(-1, config.batch, config.block)


def weighted_operands(op: g.Weighted) -> tuple[Int32Array, Int32Array, Int32Array]:
    """Bias, multiplier and shift lanes of a convolution or dense layer; the input's zero point is
    folded into the bias. Each is (O,)."""
    if isinstance(op, g.Dense) and op.rounding is Rounding.SINGLE:
        multiplier, shift, _ = op.as_single()
    else:
        multiplier, shift = requantization(op)
    return wrap_int32(folded_bias(op)), multiplier, shift


def folded_bias(op: g.Weighted) -> NDArray[np.int64]:
    """The bias without the input's zero point z: sum (x - z) * w + bias = sum x * w + (bias - z *
    sum w). (O,), in units of the accumulator."""
    weights = op.weights.reshape(len(op.bias), -1)
    total = weights.sum(axis=1, dtype=np.int64) - weights.shape[1] * op.weight_zero_points
    return np.asarray(op.bias - op.input.zero_point * total, np.int64)


def centred_weights(op: g.Weighted) -> NDArray[np.int64]:
    """Weights less their zero points, in the shape of the weights: [-255, 255]."""
    weights = op.weights.astype(np.int64)
    if op.weight_zero_points.any():
        weights -= op.weight_zero_points.reshape(-1, *[1] * (weights.ndim - 1))
    return weights


def requantization(op: g.Weighted) -> tuple[Int32Array, Int32Array]:
    """Multiplier and shift lanes for one scale per channel."""
    if op.rounding is Rounding.FLOAT32:
        scale = onnx_scale(op.input.scale, op.weight_scales, op.output.scale)
        return scale_lane(scale), np.zeros(scale.shape, np.int32)
    multiplier, shift = quantize_multiplier(op.real_scales())
    return multiplier, shift_lane(shift)


def elements(values: ArrayLike, config: HwConfig) -> Array:
    """Small integers as a device's elements: int8, or the bits of bfloat16. Of any shape."""
    if config.is_float:
        return bits_of(np.asarray(values, np.float32))
    return np.asarray(values, np.int8)


def identity_tile(config: HwConfig) -> Array:
    """One weight tile that passes every lane through."""
    return elements(np.eye(config.block)[None], config)


def product_input(config: HwConfig) -> Int8Array:
    """The input tile (1, batch, block) whose product with a tile of product_tiles is a constant per
    channel: 1 in lane 0, 127 in the others."""
    tile = np.full((1, config.batch, config.block), _PRODUCT_INPUT, np.int8)
    tile[..., 0] = 1
    return tile


def product_limit(block: int) -> int:
    """The largest constant, either sign, that one product can make."""
    return _PRODUCT_INPUT * _PRODUCT_INPUT * (block - 1)


def product_tiles(rows: Sequence[ArrayLike], channels: int, block: int) -> Int8Array:
    """(channel blocks * rows, block, block): weight tiles whose product with product_input is a
    value per channel, at most product_limit.

    rows: (channels,) each. Lanes beyond the last channel are zero.
    """
    blocks = -(-channels // block)
    values = np.zeros((len(rows), blocks * block), np.int64)
    for row, given in zip(values, rows, strict=True):
        row[:channels] = given
    if abs(values).max(initial=0) > product_limit(block):
        raise AssertionError(f"a value is beyond {product_limit(block)}")
    tens = (values + _PRODUCT_INPUT // 2) // _PRODUCT_INPUT
    least, most = np.divmod(tens, block - 1)
    lanes = np.empty((*values.shape, block), np.int8)
    lanes[..., 0] = values - tens * _PRODUCT_INPUT
    lanes[..., 1:] = least[..., None] + (np.arange(block - 1) < most[..., None])
    return np.ascontiguousarray(
        lanes.reshape(len(rows), blocks, block, block).transpose(1, 0, 2, 3)
    ).reshape(-1, block, block)


def pad_tile(value: int, config: HwConfig) -> Array:
    """One input tile (1, batch, block) of a pad value, which is bits of an element."""
    element = np.int16 if config.is_float else np.int8
    return np.full((1, config.batch, config.block), value, element)
