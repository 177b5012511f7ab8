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
from loadstone.vta import constants
from loadstone.vta.hw_config import HwConfig
from loadstone.vta.isa.spec import Memory
from loadstone.vta.layout import Blocked
from loadstone.vta.operators.kernels import LoweredOperator, emit
from loadstone.vta.schedule.conv import ConvSpec
from loadstone.vta.schedule.epilogue import Immediate, RowOperand, Step

__all__ = ["clamps", "conv2d", "dense", "float_rows", "unsupported"]


#: A product of one block of channels, at one pixel.
_PIXEL = ConvSpec(
    samples=1,
    groups=1,
    in_blocks=1,
    out_blocks=1,
    input=(1, 1),
    output=(1, 1),
    kernel=(1, 1),
    strides=(1, 1),
    dilation=(1, 1),
    padding=(0, 0),
    pad_value=0,
    parts=1,
    shared_weights=False,
    tail=(),
)


def unsupported(_: g.Operator, __: HwConfig) -> Refusal | None:
    """All of them are done."""
    return None


def conv2d(op: g.RealConv2D, config: HwConfig) -> LoweredOperator:
    """Sums over blocks of channels, rows, columns and lanes, in this order."""
    n, height, width, _ = op.input.shape
    return _weighted(
        op,
        op.weights,
        op.groups,
        config,
        replace(
            _PIXEL,
            samples=n // config.batch,
            input=(height, width),
            output=(op.output.shape[1], op.output.shape[2]),
            kernel=(op.weights.shape[1], op.weights.shape[2]),
            strides=op.strides,
            dilation=op.dilation,
            padding=(op.padding[0], op.padding[1]),
        ),
    )


def dense(op: g.RealDense, config: HwConfig) -> LoweredOperator:
    """A convolution of one pixel; rows of the input are samples."""
    return _weighted(
        op,
        op.weights[:, None, None, :],
        1,
        config,
        replace(_PIXEL, samples=Blocked(op.input.shape, config.batch, config.block).samples),
    )


def _weighted(
    op: g.RealWeighted,
    weights: NDArray[np.float32],
    groups: int,
    config: HwConfig,
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
    return emit(spec, names, own, op, config)


def clamps(low: float, high: float) -> tuple[Immediate, ...]:
    """At most two steps. Bounds are rounded: what is stored is the same as with the bounds
    themselves."""
    below = [Immediate("max", immediate(low))] * (low > -math.inf)
    return (*below, *[Immediate("min", immediate(high))] * (high < math.inf))


def float_rows(rows: list[NDArray[np.float32]], channels: int, config: HwConfig) -> Array:
    """Operand tiles of a value per channel in each row: float32, seen as int32."""
    return constants.operand_tiles([row.view(np.int32) for row in rows], channels, config)
