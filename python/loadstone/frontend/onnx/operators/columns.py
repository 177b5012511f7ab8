# SPDX-License-Identifier: Apache-2.0
"""ONNX's Col2Im: blocks that overlap, added up to an image.

In:   an OnnxNode; the sizes of image and block are constants.
Out:  its result as a Relax expression: for each element of the image the sum of those of the blocks
      that lie on it.
Next: importer.py binds it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from loadstone.frontend.onnx.node import OnnxNode
from loadstone.frontend.onnx.table import ALL, converter
from loadstone.numerics import Array
from loadstone.relax.compat import constant_int64, exact_constant, relax

if TYPE_CHECKING:
    from loadstone.relax.types import Expr

__all__: list[str] = []


@converter(
    "Col2Im", attributes="dilations pads strides", inputs=3, constants=(1, 2), opsets=(18, ALL)
)
def _col2im(node: OnnxNode) -> Expr:
    """(batch, channels * block, blocks) to (batch, channels, *image)."""
    image, block = (_sizes(node, place) for place in (1, 2))
    rank = len(image)
    strides, dilations = (
        [int(n) for n in node.attributes.get(name) or [1] * rank]
        for name in ("strides", "dilations")
    )
    pads = [int(n) for n in node.attributes.get("pads") or [0] * (2 * rank)]
    counts = [
        (image[a] + pads[a] + pads[a + rank] - dilations[a] * (block[a] - 1) - 1) // strides[a] + 1
        for a in range(rank)
    ]
    batch, rows, blocks = node.extents(0)
    if len(block) != rank or rows % math.prod(block) or math.prod(counts) != blocks:
        raise node.refusal(
            f"its input has {rows} times {blocks} elements, and blocks of {block} in {image} "
            f"{math.prod(block)} times {math.prod(counts)}",
            "export it anew",
        )
    starts = [np.arange(counts[a]) * strides[a] - pads[a] for a in range(rank)]
    along = [np.arange(block[a])[:, None] * dilations[a] + starts[a][None, :] for a in range(rank)]
    channels = rows // math.prod(block)
    places = _readers(along, image)
    flat = node.emit(relax.op.reshape(node.tensor(0), [batch, channels, -1]))
    nothing = exact_constant(np.zeros((batch, channels, 1), node.dtype(0)))
    longer = node.emit(relax.op.concat([flat, nothing], 2))
    read = node.emit(relax.op.take(longer, constant_int64(places), axis=2))
    total = node.emit(relax.op.sum(read, [3]))
    return relax.op.reshape(total, [batch, channels, *image])


def _sizes(node: OnnxNode, place: int) -> list[int]:
    given = node.constant(place)
    assert given is not None  # the table
    return [int(size) for size in given.reshape(-1)]


def _readers(along: Sequence[Array], image: Sequence[int]) -> Array:
    """(elements of the image, most that lie on one): places among all elements of the blocks, the
    one behind them for nothing. along: by axis, (block, blocks) positions in the image."""
    rank = len(image)
    grids = np.meshgrid(*[a.reshape(-1) for a in along], indexing="ij")
    parts = [size for a in along for size in a.shape]  # block and blocks of each axis in turn
    order = [*range(0, 2 * rank, 2), *range(1, 2 * rank, 2)]
    positions = [grid.reshape(parts).transpose(order).reshape(-1) for grid in grids]
    inside = np.all([(p >= 0) & (p < n) for p, n in zip(positions, image, strict=True)], axis=0)
    sources = np.flatnonzero(inside)
    targets = np.ravel_multi_index([p[inside] for p in positions], tuple(image))
    counts = np.bincount(targets, minlength=math.prod(image))
    found = np.full((len(counts), max(1, int(counts.max()))), inside.size)
    by_target = np.argsort(targets, kind="stable")
    begins = np.cumsum(counts) - counts
    found[targets[by_target], np.arange(len(sources)) - begins[targets[by_target]]] = sources[
        by_target
    ]
    return found
