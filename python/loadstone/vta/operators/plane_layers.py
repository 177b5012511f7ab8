# SPDX-License-Identifier: Apache-2.0
"""Convolutions and dense layers whose sums leave the device whole: as int32, or planes of bytes.

In:   graph.PlaneConv2D, graph.PlaneDense.
Out:  a ConvSpec with planes and the weight tiles.
Next: kernels.py. A STORE writes low bytes; a shift to the right by 8 brings the next ones there. No
      multiplier and no proof is needed: every VTA does it, exactly, whatever the scales are. With
      the capability store_acc one STORE writes all of them.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from loadstone import graph as g
from loadstone.backend.interface import Refusal
from loadstone.errors import LoweringError
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.spec import Memory
from loadstone.vta.operators import constants
from loadstone.vta.operators.kernels import LoweredOperator, emit
from loadstone.vta.operators.request import LayerRequest
from loadstone.vta.operators.slots import between_products, slots_of
from loadstone.vta.passes.allocate.allocate import allocate
from loadstone.vta.schedule.conv import PIXEL, ConvSpec
from loadstone.vta.stream.operations import AluNest

__all__ = ["conv2d", "dense", "unsupported"]


def unsupported(op: g.PlaneWeighted, config: HwConfig) -> Refusal | None:
    """Why the device cannot do this exactly; None if it can."""
    if op.weights.shape[0] % config.block and not op.is_whole:
        return Refusal(
            f"a plane of {op.weights.shape[0]} channels fills no whole blocks of {config.block}",
            f"channels in multiples of {config.block}",
        )
    return None


def conv2d(op: g.PlaneConv2D, config: HwConfig, request: LayerRequest) -> LoweredOperator:
    """Padding is read as zeros."""
    n, height, width, _ = op.input.shape
    window = replace(
        PIXEL,
        samples=n // config.batch,
        input=(height, width),
        output=(op.output.shape[1], op.output.shape[2]),
        kernel=(op.weights.shape[1], op.weights.shape[2]),
        strides=op.strides,
        dilation=op.dilation,
        padding=(op.padding[0], op.padding[1]),
    )
    return _weighted(op, op.weights, op.groups, window, config, request)


def dense(op: g.PlaneDense, config: HwConfig, request: LayerRequest) -> LoweredOperator:
    """A convolution of 1x1: the axes between the first and the last one are its pixels."""
    rows = op.input.shape[0] // config.batch
    pixels = prod(op.input.shape[1:-1])
    window = replace(PIXEL, samples=rows, input=(1, pixels), output=(1, pixels))
    return _weighted(op, op.weights[:, None, None, :], 1, window, config, request)


def _weighted(
    op: g.PlaneWeighted,
    weights: NDArray[np.int8],
    groups: int,
    window: ConvSpec,
    config: HwConfig,
    request: LayerRequest,
) -> LoweredOperator:
    """weights: OHWI. window: says what slides over what."""
    out, _, _, per_group = weights.shape
    blocks = constants.grouping(groups, per_group, out // groups, config.block)
    tiles = constants.weight_tiles([weights], groups, blocks, config.block)
    names = {"x": op.input.name, "w": f"{op.name}.weights", "out": op.output.name}
    spec = replace(
        window,
        groups=blocks.groups,
        in_blocks=blocks.in_blocks,
        out_blocks=blocks.out_blocks,
        planes=op.planes,
        whole=op.is_whole,
    )
    lowered = emit(spec, names, {names["w"]: (Memory.WGT, tiles)}, op, config, request)
    return lowered if op.is_whole else _side_by_side(lowered, config)


def _side_by_side(lowered: LoweredOperator, config: HwConfig) -> LoweredOperator:
    """The planes of a tile leave between the products of the next ones, where the accumulators
    have room for as many tiles."""
    slots = slots_of(lowered.operations, lambda _, behind: type(behind) is AluNest)
    turned = replace(lowered, operations=list(between_products(slots)))
    try:
        allocate(turned.columns, config)
    except LoweringError:
        return lowered
    return replace(turned, placed=True)
