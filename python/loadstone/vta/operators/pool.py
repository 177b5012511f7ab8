# SPDX-License-Identifier: Apache-2.0
"""Average pooling and means: sums through one identity weight tile, then a requantization that
divides.

In:   graph.AveragePool2D, graph.Mean.
Out:  a ConvSpec with shared weights, and operands that equal the framework's division on every sum
      that can occur.
Next: kernels.py.

A window's sum on the GEMM core costs one step a tap, like a depthwise convolution, but with a
single weight tile. A global pool is the same sum with pixels in the place of input channels, so
that it can be cut anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from math import prod

import numpy as np
from numpy.typing import NDArray

from loadstone import graph as g
from loadstone.backend.interface import Refusal
from loadstone.errors import LoweringError
from loadstone.graph.kernels import onnx, tflite
from loadstone.graph.kernels.windows import windows
from loadstone.numerics import Rounding, scale_lane, shift_lane
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.integers.mean import MeanRounding, MeanRule, integer_means, mean_chain
from loadstone.vta.integers.requantization_search import (
    OutputRange,
    Requantization,
    find_requantization,
)
from loadstone.vta.isa.spec import Capability, Memory
from loadstone.vta.operators import constants
from loadstone.vta.operators.chained import chain_constants
from loadstone.vta.operators.kernels import IDENTITY, LoweredOperator, emit, joined
from loadstone.vta.operators.layout import Blocked
from loadstone.vta.operators.request import LayerRequest
from loadstone.vta.schedule.conv import PIXEL, ConvSpec
from loadstone.vta.schedule.epilogue import Rq
from loadstone.vta.schedule.window import WindowSpec

__all__ = ["average_pool2d", "mean", "unsupported"]

IntArray = NDArray[np.int64]


def unsupported(op: g.Operator, config: HwConfig) -> Refusal | None:
    """Why the device cannot do this pool or mean exactly; None if it can."""
    if isinstance(op, g.Mean):
        spatial = tuple(range(1, len(op.input.shape) - 1))
        if op.axes != spatial or not spatial:
            return Refusal(f"mean over axes {op.axes}", f"a mean over all pixels: axes {spatial}")
        counts = [prod(op.input.shape[1:-1])]
    else:
        assert isinstance(op, g.AveragePool2D)
        counts = np.unique(_counts(op)).tolist()
    if not config.has(Capability.REQUANTIZE):
        return _unsupported_by_chains(op)
    for count in counts:
        if _division(op, count) is None:
            return Refusal(
                f"a mean of {count} under the {op.rounding.name.lower()} rule is none of "
                "the device's requantizations",
                "another kernel size",
            )
    return None


def average_pool2d(op: g.AveragePool2D, config: HwConfig, request: LayerRequest) -> LoweredOperator:
    """Where padded taps do not count, the divisor depends on the pixel: operands per pixel."""
    if not config.has(Capability.REQUANTIZE):
        return _by_chains(op, config, request)
    if op.is_global:
        return _global(op, config, request)
    counts = _counts(op)
    same = np.unique(counts).size == 1
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
        padding=op.padding[:2],
        pad_value=op.input.zero_point if op.rounding is Rounding.FLOAT32 else 0,
        parts=1,
        shared_weights=True,
        tail=(),
        operands="all" if same else "pixel",
    )
    return _emit(
        spec, op, [int(counts.flat[0])] if same else counts.ravel().tolist(), config, request
    )


def mean(op: g.Mean, config: HwConfig, request: LayerRequest) -> LoweredOperator:
    """The mean of all pixels."""
    if not config.has(Capability.REQUANTIZE):
        return _by_chains(op, config, request)
    return _global(op, config, request)


def _global(
    op: g.Mean | g.AveragePool2D, config: HwConfig, request: LayerRequest
) -> LoweredOperator:
    layout = Blocked(op.input.shape, config.batch, config.block)
    spec = replace(
        PIXEL,
        samples=layout.samples,
        groups=layout.channel_blocks,
        in_blocks=layout.pixels,
        shared_weights=True,
        operands="all",
    )
    return _emit(spec, op, [layout.pixels], config, request)


def _emit(
    spec: ConvSpec,
    op: g.Mean | g.AveragePool2D,
    counts: list[int],
    config: HwConfig,
    request: LayerRequest,
) -> LoweredOperator:
    """counts: what each set of operands divides by."""
    divisions = [_division(op, count) for count in counts]
    sets = [d for d in divisions if d is not None]
    if len(sets) < len(divisions):
        raise LoweringError(f"operators: {op.kind} {op.name}: the device cannot divide by {counts}")
    tiles = [
        constants.operand_tiles((d.bias, d.multiplier, d.shift), config.block, config) for d in sets
    ]
    first = sets[0]
    tail = (Rq(first.zero_point, first.low, first.high, first.rounding),)
    name = f"{op.name}.operands"
    names = {"x": op.input.name, "w": IDENTITY, "p": name, "out": op.output.name}
    return emit(
        replace(spec, tail=tail),
        names,
        {name: (Memory.ACC, np.concatenate(tiles))},
        op,
        config,
        request,
    )


def _division(op: g.Operator, count: int) -> Requantization | None:
    """What turns a sum of `count` elements, pads included, into the operator's output."""
    assert isinstance(op, g.Mean | g.AveragePool2D)
    q_in, q_out = op.input.quantization, op.output.quantization
    assert q_in is not None
    assert q_out is not None
    if op.rounding is Rounding.FLOAT32:
        lane = int(scale_lane(np.float32(onnx.mean_scale(count, q_in, q_out))))
        taps = count if isinstance(op, g.Mean) else prod(op.kernel)  # pads are zero points
        return Requantization(
            -taps * q_in.zero_point, lane, 0, Rounding.FLOAT32, q_out.zero_point, op.low, op.high
        )
    if isinstance(op, g.Mean):
        multiplier, shift = tflite.mean_multiplier(count, q_in, q_out)
        lane = int(shift_lane(shift))
        return Requantization(
            -count * q_in.zero_point,
            multiplier,
            lane,
            Rounding.DOUBLE,
            q_out.zero_point,
            op.low,
            op.high,
        )
    return _integer_mean(count, op.low, op.high, op.unsigned) if q_in == q_out else None


@lru_cache(maxsize=256)
def _integer_mean(count: int, low: int, high: int, unsigned: bool) -> Requantization | None:
    """A requantization that is the mean of the integers as they are."""
    sums, offset = np.arange(-128 * count, 127 * count + 1), 128 if unsigned else 0
    wanted = np.clip(integer_means(sums, count, offset), low, high)
    return find_requantization(
        sums, wanted, 1 / count, offset * count, OutputRange(-offset, low, high)
    )


def _counts(op: g.AveragePool2D) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Taps that count, per output pixel."""
    if op.count_include_pad:
        return np.full(op.output.shape[1:3], prod(op.kernel), np.int64)
    inside = np.ones((1, *op.input.shape[1:3], 1), np.int64)
    return np.asarray(
        windows(inside, op.kernel, op.strides, op.padding).sum((-2, -1))[0, :, :, 0], np.int64
    )


# --------------------------------------------------------------------------------------------------
# Without RQ: every window's sum, multiplied digit by digit
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Part:
    """Output pixels whose windows hold equally many elements of the input."""

    first: tuple[int, int]
    extent: tuple[int, int]
    taps: int


def _parts(op: g.Mean | g.AveragePool2D) -> list[_Part]:
    """All pixels, or what padding makes of them: corners, edges, the middle."""
    if isinstance(op, g.Mean) or op.is_global:
        return [_Part((0, 0), (1, 1), prod(op.input.shape[1:-1]))]
    inside = [_inside(op, axis) for axis in (0, 1)]
    return [
        _Part((y, x), (height, width), int(inside[0][y] * inside[1][x]))
        for y, height in _equal_runs(inside[0])
        for x, width in _equal_runs(inside[1])
    ]


def _inside(op: g.AveragePool2D, axis: int) -> IntArray:
    """Taps along an axis that fall into the input, per output pixel."""
    begins = np.arange(op.output.shape[1 + axis]) * op.strides[axis] - op.padding[axis]
    ends = np.minimum(begins + op.kernel[axis], op.input.shape[1 + axis])
    return np.asarray(ends - np.maximum(begins, 0), np.int64)


def _equal_runs(values: IntArray) -> list[tuple[int, int]]:
    """(first, length) of every run of equal values."""
    starts = [0, *(np.flatnonzero(np.diff(values)) + 1).tolist(), values.size]
    return [(first, last - first) for first, last in pairwise(starts)]


def _rule(op: g.Mean | g.AveragePool2D, taps: int) -> MeanRule:
    assert op.input.quantization is not None
    assert op.output.quantization is not None
    count = taps
    if isinstance(op, g.AveragePool2D) and op.count_include_pad:
        count = prod(op.kernel)
    rounding = MeanRounding.INTEGERS
    if op.rounding is Rounding.FLOAT32:
        rounding = MeanRounding.FLOAT32
    elif isinstance(op, g.Mean):
        rounding = MeanRounding.DOUBLE
    elif op.unsigned:
        rounding = MeanRounding.RAISED
    q_in, q_out = op.input.quantization, op.output.quantization
    return MeanRule(taps, count, q_in, q_out, op.low, op.high, rounding)


def _unsupported_by_chains(op: g.Mean | g.AveragePool2D) -> Refusal | None:
    for part in _parts(op):
        if part.taps <= 0:
            return Refusal("a window lies wholly in the padding", "less padding")
        rule = _rule(op, part.taps)
        if mean_chain(rule) is None:
            return Refusal(
                f"no multipliers of 24 bits equal a mean of {rule.count} under the "
                f"{op.rounding.name.lower()} rule on all sums",
                "other scales, or a device with the capability requantize",
            )
    return None


def _by_chains(
    op: g.Mean | g.AveragePool2D, config: HwConfig, request: LayerRequest
) -> LoweredOperator:
    """A kernel for each part of the output."""
    layout = Blocked(op.input.shape, config.batch, config.block)
    spec = WindowSpec(
        blocks=layout.samples * layout.channel_blocks,
        input=(layout.pixels, 1),
        output=(1, 1),
        kernel=(layout.pixels, 1),
        strides=(1, 1),
        padding=(0, 0),
        first=(0, 0),
        part=(1, 1),
        steps=(),
    )
    if isinstance(op, g.AveragePool2D) and not op.is_global:
        spec = replace(
            spec,
            input=(op.input.shape[1], op.input.shape[2]),
            output=(op.output.shape[1], op.output.shape[2]),
            kernel=op.kernel,
            strides=op.strides,
            padding=op.padding[:2],
        )
    lowered = []
    for part in _parts(op):
        chain = mean_chain(_rule(op, part.taps))
        if chain is None:
            raise LoweringError(f"operators: {op.kind} {op.name}: no chain divides by {part.taps}")
        name, steps, own = chain_constants(chain, config)
        names = {"x": op.input.name, "weights": name, "out": op.output.name}
        whole = replace(spec, first=part.first, part=part.extent, steps=steps)
        lowered.append(emit(whole, names, own, op, config, request))
    return joined(lowered)
