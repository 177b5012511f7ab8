# SPDX-License-Identifier: Apache-2.0
"""Convolutions and dense layers on a device of bfloat16.

In:   graph.RealConv2D, graph.RealDense.
Out:  a ConvSpec and the constants: weight tiles as bits of bfloat16, a tile of biases as float32.
Next: kernels.py. Nothing is requantized: what is left of the tail is a bias and a clamp.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from loadstone import graph as g
from loadstone.backend.interface import Refusal
from loadstone.graph.bfloat16 import bits_of, immediate
from loadstone.numerics import Array
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.spec import Memory
from loadstone.vta.operators import constants
from loadstone.vta.operators.kernels import LoweredOperator, emit
from loadstone.vta.operators.layout import Blocked, Im2colLayout
from loadstone.vta.operators.request import LayerRequest
from loadstone.vta.operators.weighted import (
    can_fold,
    fold_spec,
    fold_weights,
    folded_input,
)
from loadstone.vta.schedule.conv import PIXEL, ConvSpec, tiling
from loadstone.vta.schedule.epilogue import Immediate, RowOperand, Step

__all__ = ["clamps", "conv2d", "dense", "float_rows", "im2col_input", "unsupported"]


def unsupported(_: g.Operator, __: HwConfig) -> Refusal | None:
    """All of them are done."""
    return None


def conv2d(
    op: g.RealConv2D, config: HwConfig, request: LayerRequest, folded: Im2colLayout | None = None
) -> LoweredOperator:
    """Sums over blocks of channels, rows, columns and lanes, in this order. folded: the layout of
    the input, where the host packs it so."""
    spec = _window(op, config)
    if folded is None:
        return _weighted(op, op.weights, op.groups, config, request, spec)
    weights = fold_weights(op.weights, folded)
    return _weighted(op, weights, 1, config, request, fold_spec(spec, op, folded))


def _window(op: g.RealConv2D, config: HwConfig) -> ConvSpec:
    n, height, width, _ = op.input.shape
    return replace(
        PIXEL,
        samples=n // config.batch,
        input=(height, width),
        output=(op.output.shape[1], op.output.shape[2]),
        kernel=(op.weights.shape[1], op.weights.shape[2]),
        strides=op.strides,
        dilation=op.dilation,
        padding=(op.padding[0], op.padding[1]),
    )


def im2col_input(op: g.Operator, config: HwConfig) -> Im2colLayout | None:
    """The layout in which the host should pack this operator's input, where folding taps into
    channels saves time. Only foldings that leave the order of each sum as it is are asked: of all
    taps, and of those of a row where they fit into one block."""
    if not isinstance(op, g.RealConv2D) or not can_fold(op, config):
        return None
    plain, outputs = _window(op, config), -(-op.weights.shape[0] // config.block)
    blocks = -(-op.input.shape[3] // config.block)
    best = None
    least = tiling(replace(plain, in_blocks=blocks, out_blocks=outputs), config).cycles
    in_a_row = op.weights.shape[2] * op.input.shape[3] <= config.block
    for fold in ((True, True), *[(False, True)] * in_a_row):
        layout = folded_input(op, fold, 0, config)
        spec = fold_spec(replace(plain, out_blocks=outputs), op, layout)
        if (cycles := tiling(spec, config).cycles) < least:
            best, least = layout, cycles
    return best


def dense(op: g.RealDense, config: HwConfig, request: LayerRequest) -> LoweredOperator:
    """A convolution of one pixel; rows of the input are samples."""
    return _weighted(
        op,
        op.weights[:, None, None, :],
        1,
        config,
        request,
        replace(PIXEL, samples=Blocked(op.input.shape, config.batch, config.block).samples),
    )


def _weighted(
    op: g.RealWeighted,
    weights: NDArray[np.float32],
    groups: int,
    config: HwConfig,
    request: LayerRequest,
    window: ConvSpec,
) -> LoweredOperator:
    """weights: OHWI. window: says what slides over what."""
    out, _, _, per_group = weights.shape
    blocks = constants.grouping(groups, per_group, out // groups, config.block)
    tiles = constants.weight_tiles([bits_of(weights)], groups, blocks, config.block)
    names = {"x": op.input.name, "w": f"{op.name}.weights", "out": op.output.name}
    own: dict[str, tuple[Memory, Array]] = {names["w"]: (Memory.WGT, tiles)}
    tail: tuple[Step, ...] = clamps(op.low, op.high)
    if op.bias.any():
        names["p"] = f"{op.name}.bias"
        own[names["p"]] = (Memory.ACC, float_rows([op.bias], out, config))
        tail = (RowOperand("add", 0), *tail)
    spec = replace(
        window,
        groups=blocks.groups,
        in_blocks=blocks.in_blocks,
        out_blocks=blocks.out_blocks,
        tail=tail,
    )
    return emit(spec, names, own, op, config, request)


def clamps(low: float, high: float) -> tuple[Immediate, ...]:
    """At most two steps. Bounds are rounded: what is stored is the same as with the bounds
    themselves."""
    below = [Immediate("max", immediate(low))] * (low > -math.inf)
    return (*below, *[Immediate("min", immediate(high))] * (high < math.inf))


def float_rows(rows: list[NDArray[np.float32]], channels: int, config: HwConfig) -> Array:
    """Operand tiles of a value per channel in each row: float32, seen as int32."""
    return constants.operand_tiles([row.view(np.int32) for row in rows], channels, config)
