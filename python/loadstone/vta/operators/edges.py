# SPDX-License-Identifier: Apache-2.0
"""Padding whose value is not 0, without multiplying it: zeros are loaded, and a constant is added.

In:   a convolution's spec, its weights, the value of its padding.
Out:  `with_edges`: the spec with edges, and the constants that they add; the unchanged spec where
      edges would not save cycles.
Next: weighted.py; passes/skip_pads/skip_pads.py leaves the products with zeros out.

The sum lacks the padding's value times the weights of the taps that lie outside. It depends on the
output pixel only through the set of these taps (schedule/edges.py): one GEMM step adds it,
where the products took one for each tap and block of input channels. Its input tile holds the
padding's value, and the lanes of its weight tile add up to the weights' sum:

    few taps (depthwise)   one weight tile of each channel block has a tap in each lane, and each
                           edge an input tile with the value in the lanes of its taps, else 0
    otherwise              each edge has weight tiles of its own, the sum spread over their lanes
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import LoweringError
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.operators.constants import split_weights
from loadstone.vta.operators.kernels import chosen_tile
from loadstone.vta.schedule import conv
from loadstone.vta.schedule.choices import LayerChoice
from loadstone.vta.schedule.conv import ConvSpec
from loadstone.vta.schedule.conv_spec import Edge
from loadstone.vta.schedule.edges import PixelsOfTaps, taps_of_pixels
from loadstone.vta.stream.join_products import joined
from loadstone.vta.stream.operations import GemmNest, Operation, TileLoad, TileRole

__all__ = ["Edges", "joined_edges", "with_edges"]

#: More are not worth their instructions.
_MOST_EDGES = 24
#: Less than this part of a layer's cycles is no gain: waiting, which the cost model does not know,
#: takes as much.
_LEAST_PART = 200

Int8Array = NDArray[np.int8]


@dataclass(frozen=True)
class Edges:
    """A spec, and the constants that its edges read: inputs (tiles, batch, block), weights (tiles,
    block, block); both are empty for a spec without edges."""

    spec: ConvSpec
    inputs: Int8Array
    weights: Int8Array


def with_edges(
    spec: ConvSpec, weights: NDArray[np.int64], config: HwConfig, choice: LayerChoice
) -> Edges:
    """weights: (O, H, W, I), less their zero points. choice: with whose tile both ways are
    compared."""
    nothing = np.zeros((0, 0, 0), np.int8)
    as_it_was = Edges(spec, nothing, nothing)
    places = taps_of_pixels(spec) if spec.pad_value and not spec.by_lane else []
    if not 0 < len(places) <= _MOST_EDGES:
        return as_it_was
    sums = weights.sum(axis=3)
    made = _lane_for_each_tap(spec, places, sums, config) or _tile_for_each(
        spec, places, sums, config
    )
    before, after = (_cycles(each, config, choice) for each in (spec, made.spec))
    return made if (before - after) * _LEAST_PART > before else as_it_was


def joined_edges(operations: Sequence[Operation]) -> list[Operation]:
    """The operations with those that add constants to edges in few GEMMs."""
    held = {
        operation.tile
        for operation in operations
        if isinstance(operation, TileLoad) and operation.dram.role is TileRole.EDGES
    }
    result: list[Operation] = []
    run: list[GemmNest] = []
    for operation in operations:
        if isinstance(operation, GemmNest) and operation.wgt.tile in held:
            run.append(operation)
            continue
        result += joined(run)
        run = []
        result.append(operation)
    return result


def _cycles(spec: ConvSpec, config: HwConfig, choice: LayerChoice) -> int:
    """The cycles of a spec by the cost model; for a spec that fits no scratchpad, more than those
    of any other."""
    try:
        return conv.tiling(chosen_tile(spec, choice), config).cycles
    except LoweringError:
        return 1 << 60


def _lane_for_each_tap(
    spec: ConvSpec, places: Sequence[PixelsOfTaps], sums: NDArray[np.int64], config: HwConfig
) -> Edges | None:
    """One weight tile for all edges; None where its lanes are too few."""
    taps = sorted({tap for *_, taps in places for tap in taps})
    own = split_weights(sums[:, [y for y, _ in taps], [x for _, x in taps]])
    if len(taps) * len(own) > config.block:
        return None
    inputs = np.zeros((len(places), config.batch, config.block), np.int8)
    for tile, (*_, outside) in zip(inputs, places, strict=True):
        lanes = [part * len(taps) + taps.index(tap) for part in range(len(own)) for tap in outside]
        tile[:, lanes] = spec.pad_value
    edges = tuple(Edge(rows, columns, ((n, 0),)) for n, (rows, columns, _) in enumerate(places))
    return _edges(spec, edges, inputs, [np.concatenate(own, axis=1)], config)


def _tile_for_each(
    spec: ConvSpec, places: Sequence[PixelsOfTaps], sums: NDArray[np.int64], config: HwConfig
) -> Edges:
    """Weight tiles of its own for each edge."""
    lanes: list[Int8Array] = []
    edges = []
    for rows, columns, taps in places:
        total = sums[:, [y for y, _ in taps], [x for _, x in taps]].sum(axis=1)
        parts = np.stack(split_weights(total), axis=1)
        first = len(lanes)
        lanes += [parts[:, at : at + config.block] for at in range(0, parts.shape[1], config.block)]
        edges.append(Edge(rows, columns, tuple((0, tile) for tile in range(first, len(lanes)))))
    inputs = np.full((1, config.batch, config.block), spec.pad_value, np.int8)
    return _edges(spec, tuple(edges), inputs, lanes, config)


def _edges(
    spec: ConvSpec,
    edges: tuple[Edge, ...],
    inputs: Int8Array,
    lanes: Sequence[Int8Array],
    config: HwConfig,
) -> Edges:
    """lanes: of each weight tile of a channel block, (output channels, lanes of the input)."""
    block = config.block
    blocks = -(-len(lanes[0]) // block)
    tiles = np.zeros((blocks * block, len(lanes), block), np.int8)
    for number, values in enumerate(lanes):
        tiles[: len(values), number, : values.shape[1]] = values
    weights = tiles.reshape(blocks, block, len(lanes), block).transpose(0, 2, 1, 3)
    return Edges(
        replace(spec, pad_value=0, edges=edges),
        inputs,
        np.ascontiguousarray(weights).reshape(-1, block, block),
    )
