# SPDX-License-Identifier: Apache-2.0
"""Pools and means on a device of bfloat16.

In:   graph.RealPool2D, RealMean.
Out:  a ConvSpec with one identity tile, whose sum is multiplied by 1 / count; or a MaxPoolSpec.
Next: kernels.py.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from loadstone import graph as g
from loadstone.backend.interface import Refusal
from loadstone.graph.kernels.real import tap_counts
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.spec import Memory
from loadstone.vta.operators.kernels import IDENTITY, LoweredOperator, emit
from loadstone.vta.operators.layout import Blocked
from loadstone.vta.operators.real_layers import float_rows
from loadstone.vta.operators.request import LayerRequest
from loadstone.vta.schedule.conv import PIXEL, ConvSpec
from loadstone.vta.schedule.epilogue import RowOperand
from loadstone.vta.schedule.max_pool import MaxPoolSpec

__all__ = ["mean", "mean_unsupported", "pool2d", "pool_unsupported"]


def pool_unsupported(op: g.RealPool2D, _: HwConfig) -> Refusal | None:
    """None if the device can do this."""
    if op.function == "average" and int(tap_counts(op).min()) <= 0:
        return Refusal("a window lies wholly in the padding", "less padding")
    return None


def mean_unsupported(op: g.RealMean, _: HwConfig) -> Refusal | None:
    """None if the device can do this."""
    spatial = tuple(range(1, len(op.input.shape) - 1))
    if op.axes != spatial or not spatial:
        return Refusal(f"mean over axes {op.axes}", f"a mean over all pixels: axes {spatial}")
    return None


def pool2d(op: g.RealPool2D, config: HwConfig, request: LayerRequest) -> LoweredOperator:
    """Tap by tap."""
    if op.function == "max":
        return _max(op, config, request)
    if op.is_global:
        return _global(op, config, request)
    counts = tap_counts(op)
    alike = int(counts.min()) == int(counts.max())
    layout = Blocked(op.input.shape, config.batch, config.block)
    spec = ConvSpec(
        samples=layout.samples,
        groups=layout.channel_blocks,
        in_blocks=1,
        out_blocks=1,
        input=(op.input.shape[1], op.input.shape[2]),
        output=(op.output.shape[1], op.output.shape[2]),
        kernel=op.kernel,
        strides=op.strides,
        dilation=(1, 1),
        padding=(op.padding[0], op.padding[1]),
        pad_value=0,
        parts=1,
        shared_weights=True,
        tail=(RowOperand("mul", 0),),
        operands="all" if alike else "pixel",
    )
    return _emit(spec, op, counts.ravel()[:1] if alike else counts.ravel(), config, request)


def mean(op: g.RealMean, config: HwConfig, request: LayerRequest) -> LoweredOperator:
    """The mean of all pixels."""
    return _global(op, config, request)


def _global(
    op: g.RealMean | g.RealPool2D, config: HwConfig, request: LayerRequest
) -> LoweredOperator:
    """Pixels in the place of input channels, so that the sum can be cut anywhere."""
    layout = Blocked(op.input.shape, config.batch, config.block)
    spec = replace(
        PIXEL,
        samples=layout.samples,
        groups=layout.channel_blocks,
        in_blocks=layout.pixels,
        shared_weights=True,
        tail=(RowOperand("mul", 0),),
        operands="all",
    )
    return _emit(spec, op, np.array([layout.pixels]), config, request)


def _emit(
    spec: ConvSpec,
    op: g.Operator,
    counts: NDArray[np.int64],
    config: HwConfig,
    request: LayerRequest,
) -> LoweredOperator:
    """counts: what each operand tile divides by."""
    name = f"{op.name}.factors"
    factors = np.float32(1) / counts.astype(np.float32)
    tiles = [float_rows([np.full(config.block, f)], config.block, config) for f in factors]
    names = {"x": op.input.name, "w": IDENTITY, "p": name, "out": op.output.name}
    return emit(spec, names, {name: (Memory.ACC, np.concatenate(tiles))}, op, config, request)


def _max(op: g.RealPool2D, config: HwConfig, request: LayerRequest) -> LoweredOperator:
    layout = Blocked(op.input.shape, config.batch, config.block)
    spec = MaxPoolSpec(
        blocks=layout.samples * layout.channel_blocks,
        input=(op.input.shape[1], op.input.shape[2]),
        output=(op.output.shape[1], op.output.shape[2]),
        kernel=op.kernel,
        strides=op.strides,
        padding=(op.padding[0], op.padding[1]),
        tail=(),
    )
    names = {"x": op.input.name, "identity": IDENTITY, "out": op.output.name}
    return emit(spec, names, {}, op, config, request)
