# SPDX-License-Identifier: Apache-2.0
"""The product of two activations: attention's Q K^T and P V.

In:   graph.BatchMatMul whose second factor is turned: its rows are columns; graph.RealMatMul.
Out:  a MatmulSpec and its constants; copies, where the second factor does not fill whole tiles.
Next: kernels.py; without RQ, rescaled_product.py.

    sum (x - zx) * (w - zw)  =  sum x*w  +  sum (-zx)*w  +  sum x*(-zw)  +  K*zx*zw

The first three are products of tiles, of which two have constants on one side; the last is added
with the bias. A zero point of 0 costs nothing. Of real numbers there is the first sum alone.

Lanes beyond the last channel hold anything in a tensor that the device made. Where there are some,
or where the rows of the second factor fill no whole block, it is copied into scratch through the
GEMM core first: those lanes become zero, and the rows begin at whole tiles.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from loadstone import graph as g
from loadstone.backend.interface import Refusal
from loadstone.numerics import Array, wrap_int32
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.spec import Capability, Memory
from loadstone.vta.operators import constants, rescaled_product
from loadstone.vta.operators.kernels import (
    IDENTITY,
    Constants,
    LoweredOperator,
    emit,
    joined,
)
from loadstone.vta.operators.layout import Blocked
from loadstone.vta.operators.real_layers import clamps
from loadstone.vta.operators.request import LayerRequest
from loadstone.vta.schedule.conv import PIXEL, ConvSpec
from loadstone.vta.schedule.epilogue import Immediate, Rq
from loadstone.vta.schedule.matmul import MatmulSpec
from loadstone.vta.stream.operations import DramTile

__all__ = ["batch_matmul", "real_matmul", "real_unsupported", "unproven", "unsupported"]


def unsupported(op: g.BatchMatMul, config: HwConfig) -> Refusal | None:
    """Why the device cannot do this exactly; None if it can."""
    if config.batch == 1 and not op.turned:
        return Refusal("its second factor is loaded by columns", "the second factor turned")
    return real_unsupported(op, config)


def unproven(op: g.BatchMatMul, config: HwConfig, _near: bool) -> Refusal | None:
    """Why no plan is proven to give its integers on a device without RQ; None if one is. One level
    off is no cheaper here."""
    return None if config.has(Capability.REQUANTIZE) else rescaled_product.unproven(op, config)


def real_unsupported(op: g.BatchMatMul | g.RealMatMul, config: HwConfig) -> Refusal | None:
    """What holds for integers and real numbers."""
    a, b = op.inputs
    if config.batch != 1:
        return Refusal(
            f"rows of weights are samples, and {config.name} has {config.batch} in a tile",
            "a device whose batch is 1",
            always=True,
        )
    if a.shape[:-2] != b.shape[:-2]:
        return Refusal(
            f"products of {list(a.shape)} and {list(b.shape)} share a factor",
            "as many matrices on both sides",
        )
    return None


def batch_matmul(op: g.BatchMatMul, config: HwConfig, request: LayerRequest) -> LoweredOperator:
    """One kernel for all matrices; before it the copies of the second factor, where it needs
    some."""
    a, b = op.inputs
    block, depth = config.block, a.shape[-1]
    first, second = (constants.split_weights(np.array([-t.zero_point])) for t in (a, b))
    parts = tuple(len(own) if own[0].any() else 0 for own in (first, second))
    tail = (Rq(op.output.zero_point, op.low, op.high, op.rounding),)
    spec = _spec(op, (parts[0], parts[1]), tail, config)
    names = {
        "x": a.name,
        "w": b.name,
        "first": f"{op.name}.first",
        "second": f"{op.name}.second",
        "out": op.output.name,
    }
    own: dict[str, tuple[Memory, Array]] = {}
    if parts[0]:
        tiles = [_lanes(int(part[0]), depth, block) for part in first]
        own[names["first"]] = (Memory.INP, np.stack(tiles, 1).reshape(-1, 1, block))
    if parts[1]:
        tiles = [_lanes(int(part[0]), depth, block) for part in second]
        wide = np.repeat(np.stack(tiles, 1).reshape(-1, 1, block), block, axis=1)
        own[names["second"]] = (Memory.WGT, wide)
    if not config.has(Capability.REQUANTIZE):
        return _product(op, spec, names, own, config, request)
    names["p"] = f"{op.name}.operands"
    multiplier, shift = op.requantization()
    bias = wrap_int32(np.array([depth * a.zero_point * b.zero_point], np.int64))
    lanes = [np.broadcast_to(row, (block,)) for row in (bias, multiplier, shift)]
    own[names["p"]] = (Memory.ACC, constants.operand_tiles(lanes, block, config))
    return _product(op, spec, names, own, config, request)


def real_matmul(op: g.RealMatMul, config: HwConfig, request: LayerRequest) -> LoweredOperator:
    """The same of real numbers: channels are added in their order, then comes the clamp."""
    spec = _spec(op, (0, 0), clamps(op.low, op.high), config)
    names = {"x": op.inputs[0].name, "w": op.inputs[1].name, "out": op.output.name}
    return _product(op, spec, names, {}, config, request)


def _spec(
    op: g.BatchMatMul | g.RealMatMul,
    parts: tuple[int, int],
    tail: tuple[Rq | Immediate, ...],
    config: HwConfig,
) -> MatmulSpec:
    a, b = op.inputs
    blocks = Blocked(a.shape, 1, config.block).channel_blocks
    columns = -(-b.shape[-2] // config.block)
    matrices = prod(a.shape[1:-2])
    return MatmulSpec(a.shape[0], matrices, a.shape[-2], blocks, columns, parts, tail)


def _product(
    op: g.BatchMatMul | g.RealMatMul,
    spec: MatmulSpec,
    names: dict[str, str],
    own: Constants,
    config: HwConfig,
    request: LayerRequest,
) -> LoweredOperator:
    """The kernel of the product, after copies of the second factor's rows where these do not fill
    whole tiles."""
    columns, depth = op.inputs[1].shape[-2:]
    block = config.block
    if columns % block == 0 and depth % block == 0:
        return _kernel(op, spec, names, own, config, request)
    names["w"] = scratch = f"{op.name}.rows"
    copies = _copies(op, spec, scratch, config, request)
    product = _kernel(op, spec, names, own, config, request)
    tiles_of_copy = spec.samples * spec.depth * spec.matrices * spec.columns * block
    made = joined([*copies, product])
    scratch_of = {**made.scratch, scratch: tiles_of_copy}
    return replace(made, scratch=scratch_of, remark=product.remark)


def _kernel(
    op: g.BatchMatMul | g.RealMatMul,
    spec: MatmulSpec,
    names: dict[str, str],
    own: Constants,
    config: HwConfig,
    request: LayerRequest,
) -> LoweredOperator:
    """The product itself: with RQ, of real numbers, or with digits."""
    if isinstance(op, g.BatchMatMul) and not config.has(Capability.REQUANTIZE):
        return rescaled_product.product(op, spec, names, own, config, request)
    return emit(spec, names, own, op, config, request)


def _lanes(value: int, depth: int, block: int) -> Array:
    """(blocks, block) of a value in each lane that has a channel, zero elsewhere."""
    blocks = -(-depth // block)
    lanes = np.zeros(blocks * block, np.int8)
    lanes[:depth] = value
    return lanes.reshape(blocks, block)


def _copies(
    op: g.BatchMatMul | g.RealMatMul,
    spec: MatmulSpec,
    scratch: str,
    config: HwConfig,
    request: LayerRequest,
) -> list[LoweredOperator]:
    """Every block of channels of the second factor: its rows padded to whole blocks, its spare
    lanes zero."""
    b, block = op.inputs[1], config.block
    rows, depth = b.shape[-2:]
    padded = spec.columns * block
    copy = _copy_spec(spec.matrices, rows, padded)
    mask = np.zeros((1, block, block), np.int8)
    left = depth - (spec.depth - 1) * block
    mask[0, range(left), range(left)] = 1
    parts = []
    for number in range(spec.samples * spec.depth):
        last = number % spec.depth == spec.depth - 1 and left < block
        name = f"{op.name}.lanes" if last else IDENTITY
        names = {
            "x": DramTile(b.name, number * spec.matrices * rows),
            "w": DramTile(name, 0),
            "out": DramTile(scratch, number * spec.matrices * padded),
        }
        own = {name: (Memory.WGT, constants.elements(mask, config))} if last else {}
        parts.append(emit(copy, names, own, op, config, request))
    return parts


def _copy_spec(matrices: int, rows: int, padded: int) -> ConvSpec:
    """Copies the rows of each matrix, followed by rows of zeros."""
    return replace(PIXEL, input=(matrices, rows), output=(matrices, padded), shared_weights=True)
