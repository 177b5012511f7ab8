# SPDX-License-Identifier: Apache-2.0
"""Operators that move data, and max pooling: what goes through the GEMM core with an identity, or a
selection, for weights.

In:   graph.Pad, Slice, ResizeNearest, Concatenate, MaxPool2D.
Out:  specs and constants.
Next: kernels.py.

A back end that can place one tensor inside another by address does without the copies of an aligned
slice or concatenation.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from loadstone import graph as g
from loadstone.backend.interface import Refusal
from loadstone.graph import reference as graph_reference
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.integers.pair import rescaled_part
from loadstone.vta.isa.spec import Memory
from loadstone.vta.operators import chained, constants
from loadstone.vta.operators.kernels import IDENTITY, LoweredOperator, emit, joined
from loadstone.vta.operators.layout import Blocked
from loadstone.vta.operators.request import LayerRequest
from loadstone.vta.schedule.conv import ConvSpec
from loadstone.vta.schedule.elementwise import ElementwiseSpec, Input
from loadstone.vta.schedule.epilogue import Immediate
from loadstone.vta.schedule.max_pool import MaxPoolSpec
from loadstone.vta.schedule.select import SelectSpec
from loadstone.vta.stream.operations import DramTile

__all__ = ["concatenate", "max_pool2d", "pad", "resize", "slice_", "unsupported"]

IntArray = NDArray[np.int64]


def unsupported(op: g.Operator, config: HwConfig) -> Refusal | None:
    """Why the device cannot do this; None if it can."""
    if op.input.dtype != config.tensor_type:
        return Refusal(f"{op.kind} of {op.input.dtype}", f"a model of {config.tensor_type}")
    match op:
        case g.Pad() if (
            op.before[0] or op.after[0] or op.before[-1] or op.after[-1] or len(op.before) != 4
        ):
            return Refusal(
                f"pads {op.before} and {op.after}: the device pads rows and columns only",
                "padding of height and width",
            )
        case g.Slice() if (
            op.begin[0] or op.input.shape[0] != op.output.shape[0] or len(op.begin) != 4
        ):
            return Refusal(
                f"slice from {op.begin} of {op.input.shape}: samples are not divided",
                "slices of height, width and channels",
            )
        case g.Slice() if not _keeps_channels(op) and op.input.shape[1:3] != op.output.shape[1:3]:
            return Refusal(
                "a slice of pixels and channels at once",
                "two slices, one of pixels and one of channels",
            )
        case g.ResizeNearest() if _factors(op) is None:
            return Refusal(
                f"{op.kind} of {op.input.shape} to {op.output.shape} is no whole-number repetition",
                "an integer factor",
            )
        case g.Concatenate() if op.axis != len(op.output.shape) - 1:
            return Refusal(f"concatenation along axis {op.axis}", "concatenation of channels")
        case g.Concatenate() if not op.is_copy:
            return _unsupported_rescaling(op)
    return None


def _unsupported_rescaling(op: g.Concatenate) -> Refusal | None:
    parts = (rescaled_part(op, tensor) for tensor in op.inputs)
    return next((refusal for part in parts if (refusal := chained.unsupported(part))), None)


def pad(op: g.Pad, config: HwConfig, request: LayerRequest) -> LoweredOperator:
    """The load brings the pads."""
    spec = _copy_spec(op, config)
    return _through_identity(
        replace(spec, padding=(op.before[1], op.before[2]), pad_value=op.value), op, config, request
    )


def slice_(op: g.Slice, config: HwConfig, request: LayerRequest) -> LoweredOperator:
    """Rows and columns by the load; channels, when all pixels stay, by weights that select."""
    _, first_row, first_column, first_channel = op.begin
    if _keeps_channels(op):
        spec = replace(
            _copy_spec(op, config),
            strides=(op.strides[1], op.strides[2]),
            padding=(-first_row, -first_column),
        )
        return _through_identity(spec, op, config, request)
    return _gather(
        op,
        [(0, first_channel + i * op.strides[3]) for i in range(op.output.shape[3])],
        config,
        request,
    )


def resize(op: g.ResizeNearest, config: HwConfig, request: LayerRequest) -> LoweredOperator:
    """Every pixel, `factor` times in each direction: the GEMM reads the same tile again."""
    factors = _factors(op)
    assert factors is not None
    layout = Blocked(op.input.shape, config.batch, config.block)
    extents = (
        layout.samples * layout.channel_blocks,
        op.input.shape[1],
        factors[0],
        op.input.shape[2],
        factors[1],
    )
    spec = ElementwiseSpec(
        extents, (Input((True, True, False, True, False), (), expand=True),), None, ()
    )
    return emit(
        spec,
        {"a": op.input.name, "identity": IDENTITY, "out": op.output.name},
        {},
        op,
        config,
        request,
    )


def concatenate(op: g.Concatenate, config: HwConfig, request: LayerRequest) -> LoweredOperator:
    """Input after input into its channel blocks; where inputs share a block, all of them through
    weights that select, which take the lanes as they are: inputs of another quantization are
    brought to the output's before, in scratch."""
    if _is_aligned(op, config):
        return _concatenate_aligned(op, config, request)
    parts: list[LoweredOperator] = []
    inputs: list[g.Tensor] = []
    scratch: dict[str, int] = {}
    for number, tensor in enumerate(op.inputs):
        if tensor.quantization != op.output.quantization:
            name = f"{op.name}.part{number}"
            tiles = scratch[name] = Blocked(tensor.shape, config.batch, config.block).size_tiles
            places = DramTile(tensor.name, 0), DramTile(name, 0)
            parts.append(
                chained.copied(rescaled_part(op, tensor), op, places, tiles, config, request)
            )
            inputs.append(replace(tensor, name=name))
        else:
            inputs.append(tensor)
    sources = [
        (which, channel)
        for which, tensor in enumerate(inputs)
        for channel in range(tensor.shape[-1])
    ]
    gathered = _gather(replace(op, inputs=tuple(inputs)), sources, config, request)
    return replace(joined([*parts, gathered]), scratch=scratch)


def _is_aligned(op: g.Concatenate, config: HwConfig) -> bool:
    """Whether no two inputs share a block of channels."""
    return all(tensor.shape[-1] % config.block == 0 for tensor in op.inputs[:-1])


def _concatenate_aligned(
    op: g.Concatenate, config: HwConfig, request: LayerRequest
) -> LoweredOperator:
    """Copies, or chains where an input has another quantization."""
    out = Blocked(op.output.shape, config.batch, config.block)
    parts, first_block = [], 0
    for tensor in op.inputs:
        layout = Blocked(tensor.shape, config.batch, config.block)
        tiles = layout.channel_blocks * layout.pixels
        for sample in range(layout.samples):
            source = DramTile(tensor.name, sample * tiles)
            place = DramTile(
                op.output.name, (sample * out.channel_blocks + first_block) * out.pixels
            )
            if tensor.quantization == op.output.quantization:
                spec = ElementwiseSpec((tiles,), (Input((True,), ()),), None, _clamp(op))
                names = {"a": source, "identity": DramTile(IDENTITY, 0), "out": place}
                parts.append(emit(spec, names, {}, op, config, request))
            else:
                part = rescaled_part(op, tensor)
                parts.append(chained.copied(part, op, (source, place), tiles, config, request))
        first_block += layout.channel_blocks
    return joined(parts)


def _gather(
    op: g.Slice | g.Concatenate,
    sources: list[tuple[int, int]],
    config: HwConfig,
    request: LayerRequest,
) -> LoweredOperator:
    """Every output channel is one channel of one input: (input, channel). One sum of selections per
    block of the output."""
    block = config.block
    out = Blocked(op.output.shape, config.batch, block)
    layouts = [Blocked(tensor.shape, config.batch, block) for tensor in op.inputs]
    parts = []
    for position in range(out.channel_blocks):
        lanes = sources[position * block : (position + 1) * block]
        blocks = sorted({(which, channel // block) for which, channel in lanes})
        selection = np.zeros((len(blocks), block, block), np.int8)
        for lane, (which, channel) in enumerate(lanes):
            selection[blocks.index((which, channel // block)), lane, channel % block] = 1
        name = f"{op.name}.selection.{position}"
        tail = _clamp(op) if isinstance(op, g.Concatenate) else ()
        for sample in range(out.samples):
            names: dict[str, str | DramTile] = {"selection": name}
            names["out"] = DramTile(
                op.output.name, (sample * out.channel_blocks + position) * out.pixels
            )
            for source, (which, channel_block) in enumerate(blocks):
                first = (sample * layouts[which].channel_blocks + channel_block) * out.pixels
                names[f"x{source}"] = DramTile(op.inputs[which].name, first)
            parts.append(
                emit(
                    SelectSpec(len(blocks), out.pixels, tail),
                    names,
                    {name: (Memory.WGT, constants.elements(selection, config))},
                    op,
                    config,
                    request,
                )
            )
    return joined(parts)


def max_pool2d(op: g.MaxPool2D, config: HwConfig, request: LayerRequest) -> LoweredOperator:
    """Tap by tap."""
    layout = Blocked(op.input.shape, config.batch, config.block)
    spec = MaxPoolSpec(
        blocks=layout.samples * layout.channel_blocks,
        input=(op.input.shape[1], op.input.shape[2]),
        output=(op.output.shape[1], op.output.shape[2]),
        kernel=op.kernel,
        strides=op.strides,
        padding=op.padding[:2],
        tail=_clamp(op),
    )
    return emit(
        spec,
        {"x": op.input.name, "identity": IDENTITY, "out": op.output.name},
        {},
        op,
        config,
        request,
    )


def _clamp(op: g.Concatenate | g.MaxPool2D) -> tuple[Immediate, ...]:
    return tuple(
        [Immediate("max", op.low)] * (op.low > -128) + [Immediate("min", op.high)] * (op.high < 127)
    )


def _keeps_channels(op: g.Slice) -> bool:
    return op.input.shape[3] == op.output.shape[3]


def _copy_spec(op: g.Operator, config: HwConfig) -> ConvSpec:
    """A convolution of one tap with the identity: every pixel of the output reads one pixel of the
    input."""
    layout = Blocked(op.input.shape, config.batch, config.block)
    return ConvSpec(
        samples=layout.samples,
        groups=layout.channel_blocks,
        in_blocks=1,
        out_blocks=1,
        input=(op.input.shape[1], op.input.shape[2]),
        output=(op.output.shape[1], op.output.shape[2]),
        kernel=(1, 1),
        strides=(1, 1),
        dilation=(1, 1),
        padding=(0, 0),
        pad_value=0,
        parts=1,
        shared_weights=True,
        tail=(),
    )


def _through_identity(
    spec: ConvSpec, op: g.Operator, config: HwConfig, request: LayerRequest
) -> LoweredOperator:
    return emit(
        spec, {"x": op.input.name, "w": IDENTITY, "out": op.output.name}, {}, op, config, request
    )


def _factors(op: g.ResizeNearest) -> tuple[int, int] | None:
    """How often each row and column is repeated, or None for an operator that does anything else.

    The factors are found by resizing an image of its own indices, which also covers the rule's
    behaviour at borders.
    """
    factors = []
    for axis in (1, 2):
        size, out = op.input.shape[axis], op.output.shape[axis]
        if out % size or not np.array_equal(
            _sources(op, axis), np.repeat(np.arange(size), out // size)
        ):
            return None
        factors.append(out // size)
    return factors[0], factors[1]


def _sources(op: g.ResizeNearest, axis: int) -> IntArray:
    """The input index of every output index along an axis."""
    shape, sizes = [1, 1, 1, 1], [1, 1, 1, 1]
    shape[axis], sizes[axis] = op.input.shape[axis], op.output.shape[axis]
    ramp = np.arange(shape[axis]).reshape(shape)
    source, target = (
        replace(op.input, shape=tuple(shape), dtype="int64"),
        replace(op.output, shape=tuple(sizes), dtype="int64"),
    )
    (indices,) = graph_reference.run_operator(
        replace(op, inputs=(source,), outputs=(target,)), [ramp]
    )
    return np.asarray(indices.ravel(), np.int64)
