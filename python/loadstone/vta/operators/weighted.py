# SPDX-License-Identifier: Apache-2.0
"""Convolutions and dense layers, and the folding of a first layer's taps into channels.

In:   graph.Conv2D, graph.Dense.
Out:  a ConvSpec and the constants: weight tiles, requantization operands.
Next: kernels.py.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from loadstone import graph as g
from loadstone.backend.interface import Refusal
from loadstone.errors import LoweringError
from loadstone.numerics import Array, Rounding
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.spec import WINDOW_COLUMNS, Capability, Memory, window_rows
from loadstone.vta.operators import constants, layer_plans, rescaled, rescaled_layer, shifted
from loadstone.vta.operators.edges import joined_edges, with_edges
from loadstone.vta.operators.kernels import PRODUCT_INPUT, LoweredOperator, chosen_tile, emit
from loadstone.vta.operators.layout import Blocked, Im2colLayout
from loadstone.vta.operators.request import LayerRequest
from loadstone.vta.operators.residual import with_rest
from loadstone.vta.operators.shifted import Epilogue
from loadstone.vta.schedule import conv
from loadstone.vta.schedule.choices import NO_LAYER_CHOICE, LayerChoice
from loadstone.vta.schedule.conv import ConvSpec
from loadstone.vta.schedule.epilogue import Rq
from loadstone.vta.stream.cost import cost_model
from loadstone.vta.stream.operations import DramTile, TileRole

__all__ = [
    "can_fold",
    "conv2d",
    "dense",
    "dense_spec",
    "estimated_cycles",
    "fold_spec",
    "fold_weights",
    "folded_input",
    "im2col_input",
    "is_rescaled",
    "unproven",
    "unsupported",
]


Weight = TypeVar("Weight", np.int64, np.float32)


def unsupported(op: g.Weighted, config: HwConfig) -> Refusal | None:
    """Why the device's RQ cannot do this exactly; None if it can, and where there is no RQ."""
    has_rq = config.has(Capability.REQUANTIZE)
    if has_rq and isinstance(op, g.Dense) and op.rounding is Rounding.SINGLE:
        channels = np.flatnonzero(~op.as_single()[2])
        if channels.size:
            why = (
                "no multiplier of rounding single equals the kernel's float64 for output "
                f"{channels[0]}"
            )
            return Refusal(why, "rounding double, as in TFLite Micro")
    return None


def unproven(op: g.Weighted, config: HwConfig, near: bool) -> Refusal | None:
    """Why the GEMM core cannot be proven to requantize this; None if it can, and where it need
    not. near: outputs may be one level off."""
    return layer_plans.refusal(op, config, near) if is_rescaled(op, config) else None


def is_rescaled(op: g.Weighted, config: HwConfig) -> bool:
    """Whether the GEMM core requantizes: there is no RQ, and shifts do not suffice."""
    return not config.has(Capability.REQUANTIZE) and isinstance(
        shifted.weighted(op, config.block), Refusal
    )


def conv2d(
    op: g.Conv2D, config: HwConfig, request: LayerRequest, folded: Im2colLayout | None = None
) -> LoweredOperator:
    """folded: the layout of the input, where the host packs it so."""
    if not config.has(Capability.REQUANTIZE):
        op = shifted.without_silent(op, config.block)
    weights = constants.centred_weights(op)
    if folded is not None:
        return _weighted(
            op,
            fold_spec(conv_spec(op, config), op, folded),
            fold_weights(weights, folded),
            1,
            config,
            request,
        )
    spec = conv_spec(op, config)
    if request.may_window:
        spec = _by_lane(op, spec, config, request.choice)
    return _weighted(op, spec, weights, op.groups, config, request)


def _by_lane(op: g.Conv2D, spec: ConvSpec, config: HwConfig, choice: LayerChoice) -> ConvSpec:
    """The spec for DEPTHWISE, where the device has it, the windows fit, and the cost model says
    that it takes less than products of diagonal tiles."""
    rows, columns = spec.kernel
    is_one_to_one = op.groups == op.weights.shape[0] and op.weights.shape[3] == 1
    fits = rows <= window_rows(config.block) and columns <= WINDOW_COLUMNS
    if not (config.has(Capability.DEPTHWISE) and config.has(Capability.REQUANTIZE)):
        return spec
    if not (is_one_to_one and fits and op.dilation == (1, 1)):
        return spec
    if len(constants.split_weights(constants.centred_weights(op))) > 1:
        return spec
    windows = replace(spec, by_lane=True)
    cycles = [_tiled_cycles(chosen_tile(each, choice), config) for each in (windows, spec)]
    return windows if cycles[0] < cycles[1] else spec


def _tiled_cycles(spec: ConvSpec, config: HwConfig) -> int:
    """By the cost model; for a spec that fits no scratchpad, more than those of any other."""
    try:
        return conv.tiling(spec, config).cycles
    except LoweringError:
        return 1 << 60


def dense(op: g.Dense, config: HwConfig, request: LayerRequest) -> LoweredOperator:
    """A convolution of one pixel; rows of the input are samples."""
    if not config.has(Capability.REQUANTIZE):
        op = shifted.without_silent(op, config.block)
    weights = constants.centred_weights(op)[:, None, None, :]
    return _weighted(op, dense_spec(op, config), weights, 1, config, request)


def dense_spec(op: g.Dense, config: HwConfig) -> ConvSpec:
    """A dense layer in tiles: a convolution of one pixel."""
    samples = Blocked(op.input.shape, config.batch, config.block).samples
    shape = (op.weights.shape[0], 1, 1, op.weights.shape[1])
    return _spec(op, samples, (1, 1), (1, 1), shape, config)


def conv_spec(op: g.Conv2D, config: HwConfig) -> ConvSpec:
    """A convolution in tiles."""
    n, height, width, _ = op.input.shape
    spec = _spec(
        op,
        n // config.batch,
        (height, width),
        op.output.shape[1:3],
        op.weights.shape,
        config,
    )
    return replace(spec, strides=op.strides, dilation=op.dilation, padding=op.padding[:2])


def _spec(
    op: g.Weighted,
    samples: int,
    size_in: tuple[int, int],
    size_out: tuple[int, ...],
    shape: tuple[int, ...],
    config: HwConfig,
) -> ConvSpec:
    """The spec of a convolution with stride 1 and no padding. shape: OHWI."""
    groups = op.groups if isinstance(op, g.Conv2D) else 1
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
        parts=1,
        shared_weights=False,
        tail=_epilogue(op, config).tail,
    )


def _epilogue(op: g.Weighted, config: HwConfig) -> Epilogue:
    """The requantization: one RQ where the device has it, else shifts."""
    if config.has(Capability.REQUANTIZE):
        return Epilogue(
            (Rq(op.output.zero_point, op.low, op.high, op.rounding),),
            constants.weighted_operands(op),
        )
    found = shifted.weighted(op, config.block)
    return Epilogue((), ()) if isinstance(found, Refusal) else found  # the former: rescaled


def _weighted(
    op: g.Weighted,
    spec: ConvSpec,
    weights: NDArray[np.int64],
    groups: int,
    config: HwConfig,
    request: LayerRequest,
) -> LoweredOperator:
    """weights: OHWI, less their zero points: nine bits in uint8 models.

    What does not fit int8 is a further part of every sum, or, where almost all of it is zero, GEMMs
    of its own. There are at most three
    parts: 255, which is a weight of 127 less a zero point of -128, is 127 + 127 + 1.
    """
    if is_rescaled(op, config):
        return rescaled.lower(op, spec, weights, groups, config, request)
    blocks = constants.grouping(groups, weights.shape[3], weights.shape[0] // groups, config.block)
    parts = constants.split_weights(weights)
    names = {
        "w": f"{op.name}.weights",
        "p": f"{op.name}.operands",
        "c": f"{op.name}.constants",
        "one": PRODUCT_INPUT,
        "e": f"{op.name}.edge_inputs",
        "b": f"{op.name}.edge_weights",
    }
    own: dict[str, tuple[Memory, Array]] = {}
    rests = [constants.weight_tiles([part], groups, blocks, config.block) for part in parts[1:]]
    used = [np.flatnonzero(rest.any(axis=(1, 2))) for rest in rests]
    pixels = spec.samples * spec.output[0] * spec.output[1]
    cost = cost_model(config)
    apart = sum(tiles.size for tiles in used) * cost.gemm(pixels) < sum(map(len, rests)) * (
        pixels * cost.gemm_step
    )
    if apart:
        parts = parts[:1]
    if spec.by_lane:
        own[names["w"]] = (Memory.WGT, constants.window_tiles(parts[0], config.block))
    else:
        own[names["w"]] = (Memory.WGT, constants.weight_tiles(parts, groups, blocks, config.block))
    edges = with_edges(replace(spec, parts=len(parts)), weights, config, request.choice)
    spec = edges.spec
    if spec.edges:
        own[names["e"]] = (Memory.INP, edges.inputs)
        own[names["b"]] = (Memory.WGT, edges.weights)
    finish = _epilogue(op, config)
    rows, products = finish.rows, finish.products
    if rows:
        own[names["p"]] = (Memory.ACC, constants.operand_tiles(rows, len(op.bias), config))
    if products:
        constant = constants.product_tiles(products, len(op.bias), config.block)
        own[names["c"]] = (Memory.WGT, constant)
    if apart:
        own |= {
            f"{op.name}.rest{n}": (Memory.WGT, rest[tiles])
            for n, (rest, tiles) in enumerate(zip(rests, used, strict=True))
        }
    places: dict[str, str | DramTile] = {
        "x": op.input.name,
        "out": op.output.name,
        **names,
        "w": DramTile(names["w"], 0, TileRole.WEIGHTS),
        "b": DramTile(names["b"], 0, TileRole.EDGES),
    }
    lowered = emit(spec, places, own, op, config, request)
    if spec.edges:
        lowered = replace(lowered, operations=joined_edges(lowered.operations))
    if apart:
        for n, tiles in enumerate(used):
            lowered = replace(
                lowered,
                operations=with_rest(lowered.operations, f"{op.name}.rest{n}", tiles),
            )
    return lowered


# --------------------------------------------------------------------------------------------------
# First layers: the host folds taps into channels
# --------------------------------------------------------------------------------------------------


def im2col_input(op: g.Operator, config: HwConfig, request: LayerRequest) -> Im2colLayout | None:
    """The layout in which the host should pack this operator's input, if folding taps into channels
    saves time, or was chosen."""
    if not isinstance(op, g.Conv2D):
        return None
    fold = request.choice.fold
    if fold is None:
        return _cheapest_input(op, config, request.near)[0]
    if len(fold) != 2 or not can_fold(op, config):
        raise LoweringError(f"tile: taps of {op.name} cannot be folded as {list(fold)}")
    whole = (bool(fold[0]), bool(fold[1]))
    return folded_input(op, whole, op.input.zero_point, config) if any(whole) else None


def estimated_cycles(op: g.Conv2D, config: HwConfig, from_host: bool, near: bool = False) -> int:
    """The cycles by the cost model. from_host: the host packs the input and may fold it. near:
    outputs may be one level off. Raises LoweringError where no schedule fits."""
    if from_host:
        return _cheapest_input(op, config, near)[1]
    spec = _by_lane(op, conv_spec(op, config), config, NO_LAYER_CHOICE)
    return _cycles(op, spec, config, near)


def _cycles(op: g.Conv2D, spec: ConvSpec, config: HwConfig, near: bool) -> int:
    if is_rescaled(op, config):
        return rescaled_layer.cycles(op, spec, config, near)
    return conv.tiling(spec, config).cycles


def _cheapest_input(op: g.Conv2D, config: HwConfig, near: bool) -> tuple[Im2colLayout | None, int]:
    """The layout (None: as it is) and the cycles."""
    plain = _by_lane(op, conv_spec(op, config), config, NO_LAYER_CHOICE)
    best, least = None, _cycles(op, plain, config, near)
    if not can_fold(op, config):
        return best, least
    for fold in ((False, True), (True, False), (True, True)):
        layout = folded_input(op, fold, op.input.zero_point, config)
        cycles = _cycles(op, fold_spec(plain, op, layout), config, near)
        if cycles < least:
            best, least = layout, cycles
    return best, least


def can_fold(op: g.Conv2D | g.RealConv2D, config: HwConfig) -> bool:
    """Whether the host can fold taps into channels, and channels have room for them."""
    if op.groups > 1 or op.dilation != (1, 1) or op.input.shape[3] * 2 > config.block:
        return False
    ends = [pad + size for pad, size in zip(op.padding[:2], op.input.shape[1:3], strict=True)]
    # Not where a window lies wholly in the padding, which the host's PACK does not know.
    return all(
        (count - 1) * stride < end
        for count, stride, end in zip(op.output.shape[1:3], op.strides, ends, strict=True)
    )


def folded_input(
    op: g.Conv2D | g.RealConv2D, fold: tuple[bool, bool], pad_value: int, config: HwConfig
) -> Im2colLayout:
    """fold: whether the taps along (height, width) become channels."""

    def along(folded: tuple[int, ...], whole: tuple[int, ...]) -> tuple[int, int]:
        first, second = (folded[axis] if fold[axis] else whole[axis] for axis in (0, 1))
        return first, second

    n, height, width, channels = op.input.shape
    return Im2colLayout(
        shape=(n, height, width, channels),
        kernel=along(op.weights.shape[1:3], (1, 1)),
        strides=along(op.strides, (1, 1)),
        padding=along(op.padding[:2], (0, 0)),
        size=along(op.output.shape[1:3], (height, width)),
        pad_value=pad_value,
        batch=config.batch,
        block=config.block,
    )


def fold_spec(spec: ConvSpec, op: g.Conv2D | g.RealConv2D, layout: Im2colLayout) -> ConvSpec:
    """The convolution that is left on a folded input."""
    taps = [
        kernel // folded
        for kernel, folded in zip(op.weights.shape[1:3], layout.kernel, strict=True)
    ]
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


def fold_weights(weights: NDArray[Weight], layout: Im2colLayout) -> NDArray[Weight]:
    """weights: (O, H, W, I). Returns (O, H', W', I') with the folded taps in I', in the order of
    the packed channels."""
    out, height, width, channels = weights.shape
    fold_y, fold_x = layout.kernel
    split = weights.reshape(out, height // fold_y, fold_y, width // fold_x, fold_x, channels)
    return split.transpose(0, 1, 3, 2, 4, 5).reshape(
        out, height // fold_y, width // fold_x, fold_y * fold_x * channels
    )
