"""One operator of the graph -> operations on virtual tiles and the constants that they read.

In:   a graph operator and the device's HwConfig.
Out:  `LoweredOperator`. Activations are named by Tensor.name and lie in the blocked layout; constants by operator name.
Next: the back end concatenates the operations of a region and allocates them together.

    operator -> spec (integers only) -> TensorIR, scheduled -> loops -> dma_copy, intrinsics -> Python -> operations
                                        \\_____________________ Kernel, cached by spec _____________________/

Layers with the same spec are lowered once; only the emission, which puts in names, runs for each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loadstone import graph as g
from loadstone.errors import LoweringError
from loadstone.vta import constants
from loadstone.vta.emitter import PAD_TENSOR, Emitter
from loadstone.vta.hw_config import HwConfig
from loadstone.vta.isa.spec import Memory
from loadstone.vta.layout import Blocked, Folded
from loadstone.vta.lower import Kernel, lower
from loadstone.vta.schedule import conv
from loadstone.vta.schedule.conv import ConvSpec
from loadstone.vta.schedule.tail import Rq
from loadstone.vta.stream import Operation

__all__ = ["LoweredOperator", "folded_input", "lower_operator"]

Constants = Mapping[str, tuple[Memory, NDArray[Any]]]


@dataclass(frozen=True)
class LoweredOperator:
    """operations: on virtual tiles. constants: name -> (memory, tiles as they lie in DRAM). stages: (title, text), for dumps.

    Two constants of one name are the same, also between operators (identity and pad tiles).
    """

    operations: list[Operation]
    constants: Constants
    stages: tuple[tuple[str, str], ...]


def lower_operator(op: g.Operator, config: HwConfig, folded: Folded | None = None) -> LoweredOperator:
    """The operator's operations. folded: the layout of its input when `folded_input` offered one and the host packs it so.

    Raises LoweringError for an operator that this device does not do (`unsupported_reason` says so before).
    """
    rule = _RULES.get(type(op))
    if rule is None:
        raise LoweringError(f"operators: {op.kind} {op.name} has no lowering for {config.name}")
    return rule(op, config, folded) if folded is not None else rule(op, config)


# ---------------------------------------------------------------------------------------------------------------
# Convolutions and dense layers
# ---------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def _conv_kernel(spec: ConvSpec, config: HwConfig) -> Kernel:
    return lower(conv.schedule(spec, config))


def _conv2d(op: g.Conv2D, config: HwConfig, folded: Folded | None = None) -> LoweredOperator:
    weights = constants.centred_weights(op)
    if folded is not None:
        return _weighted(op, _fold_spec(conv_spec(op, config), op, folded), _fold_weights(weights, folded), 1, config)
    return _weighted(op, conv_spec(op, config), weights, op.groups, config)


def _dense(op: g.Dense, config: HwConfig) -> LoweredOperator:
    weights = constants.centred_weights(op)[:, None, None, :]
    samples = Blocked(op.input.shape, config.batch, config.block).samples
    return _weighted(op, _spec(op, samples, (1, 1), (1, 1), weights.shape, config), weights, 1, config)


def conv_spec(op: g.Conv2D, config: HwConfig) -> ConvSpec:
    """A convolution in tiles."""
    n, height, width, _ = op.input.shape
    spec = _spec(op, n // config.batch, (height, width), op.output.shape[1:3], op.weights.shape, config, op.groups)
    return replace(spec, strides=op.strides, dilation=op.dilation, padding=op.padding[:2])


def _spec(
    op: g.Weighted,
    samples: int,
    size_in: tuple[int, int],
    size_out: tuple[int, ...],
    shape: tuple[int, ...],
    config: HwConfig,
    groups: int = 1,
) -> ConvSpec:
    """The spec of a convolution with stride 1 and no padding. shape: OHWI."""
    blocks = constants.grouping(groups, shape[3], shape[0] // groups, config.block)
    return ConvSpec(
        samples=samples,
        groups=blocks.groups,
        in_blocks=blocks.in_blocks,
        out_blocks=blocks.out_blocks,
        input=size_in,
        output=(size_out[0], size_out[1]),
        kernel=(shape[1], shape[2]),
        strides=(1, 1),
        dilation=(1, 1),
        padding=(0, 0),
        pad_value=op.input.zero_point,
        parts=len(constants.split_weights(constants.centred_weights(op))),
        shared_weights=False,
        tail=(Rq(op.output.zero_point, op.low, op.high, op.rounding),),
    )


def _weighted(op: g.Weighted, spec: ConvSpec, weights: NDArray[np.int64], groups: int, config: HwConfig) -> LoweredOperator:
    """weights: OHWI, less their zero points."""
    blocks = constants.grouping(groups, weights.shape[3], weights.shape[0] // groups, config.block)
    tiles = constants.weight_tiles(constants.split_weights(weights), groups, blocks, config.block)
    names = {"w": f"{op.name}.weights", "p": f"{op.name}.operands"}
    own: Constants = {names["w"]: (Memory.WGT, tiles), names["p"]: (Memory.ACC, constants.weighted_operands(op, config))}
    return _emit(_conv_kernel(spec, config), {"x": op.input.name, "out": op.output.name, **names}, op, own, config)


# ---------------------------------------------------------------------------------------------------------------
# First layers: the host folds taps into channels
# ---------------------------------------------------------------------------------------------------------------


def folded_input(op: g.Operator, config: HwConfig) -> Folded | None:
    """The layout in which the host should pack this operator's input, if folding taps into channels saves time."""
    if not isinstance(op, g.Conv2D) or op.groups > 1 or op.dilation != (1, 1) or op.input.shape[3] * 2 > config.block:
        return None
    plain = conv_spec(op, config)
    best, least = None, conv.tiling(plain, config).cycles
    for fold in ((False, True), (True, False), (True, True)):
        layout = _folded(op, fold, config)
        cycles = conv.tiling(_fold_spec(plain, op, layout), config).cycles
        if cycles < least:
            best, least = layout, cycles
    return best


def _folded(op: g.Conv2D, fold: tuple[bool, bool], config: HwConfig) -> Folded:
    """fold: whether the taps along (height, width) become channels."""

    def along(folded: tuple[int, ...], whole: tuple[int, ...]) -> tuple[int, int]:
        first, second = (folded[axis] if fold[axis] else whole[axis] for axis in (0, 1))
        return first, second

    n, height, width, channels = op.input.shape
    return Folded(
        shape=(n, height, width, channels),
        kernel=along(op.weights.shape[1:3], (1, 1)),
        strides=along(op.strides, (1, 1)),
        padding=along(op.padding[:2], (0, 0)),
        size=along(op.output.shape[1:3], (height, width)),
        pad_value=op.input.zero_point,
        batch=config.batch,
        block=config.block,
    )


def _fold_spec(spec: ConvSpec, op: g.Conv2D, layout: Folded) -> ConvSpec:
    """The convolution that is left on a folded input."""
    taps = [kernel // folded for kernel, folded in zip(op.weights.shape[1:3], layout.kernel, strict=True)]
    strides = [stride // folded for stride, folded in zip(op.strides, layout.strides, strict=True)]
    padding = [pad - folded for pad, folded in zip(op.padding[:2], layout.padding, strict=True)]
    return replace(
        spec,
        in_blocks=layout.blocked.channel_blocks,
        input=layout.size,
        kernel=(taps[0], taps[1]),
        strides=(strides[0], strides[1]),
        padding=(padding[0], padding[1]),
    )


def _fold_weights(weights: NDArray[np.int64], layout: Folded) -> NDArray[np.int64]:
    """OHWI -> OH'W'I' with the folded taps in I', in the order of the packed channels."""
    out, height, width, channels = weights.shape
    fold_y, fold_x = layout.kernel
    split = weights.reshape(out, height // fold_y, fold_y, width // fold_x, fold_x, channels)
    return split.transpose(0, 1, 3, 2, 4, 5).reshape(out, height // fold_y, width // fold_x, fold_y * fold_x * channels)


# ---------------------------------------------------------------------------------------------------------------
# Emission
# ---------------------------------------------------------------------------------------------------------------


def _emit(kernel: Kernel, names: Mapping[str, str], op: g.Operator, own: Constants, config: HwConfig) -> LoweredOperator:
    """Runs a kernel with the names of its DRAM tensors."""
    emitter = Emitter(config, {})
    kernel.emit(emitter, *(names[parameter] for parameter in kernel.parameters))
    pads = {PAD_TENSOR.format(value): (Memory.INP, constants.pad_tile(value, config)) for value in sorted(emitter.pad_values)}
    return LoweredOperator(emitter.operations, {**own, **pads}, kernel.stages)


_RULES: dict[type[g.Operator], Callable[..., LoweredOperator]] = {
    g.Conv2D: _conv2d,
    g.Dense: _dense,
}
