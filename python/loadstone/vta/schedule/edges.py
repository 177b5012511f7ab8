# SPDX-License-Identifier: Apache-2.0
"""Which taps of a convolution lie in its padding, and the output pixels that lack the same ones.

In:   a ConvSpec.
Out:  `outside_taps` along an axis, `taps_of_pixels` of the edges, `edge_work`: the steps that
      are saved if they are left out.
Next: operators/edges.py computes their constants; conv.py passes their cost to tile.py.

A pixel of the output lacks rows of taps and columns of taps. Rows of pixels that lack the same rows
of taps are a run, and so are columns: of a 3x3 kernel with padding all around three each, and of
their nine pairs the eight around the middle are edges.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby, product
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from loadstone.vta.schedule.conv_spec import ConvSpec
from loadstone.vta.schedule.tile import EdgeWork

__all__ = ["PixelsOfTaps", "edge_work", "outside_taps", "taps_of_pixels"]

#: Rows and columns [first, end) of pixels, and the taps (y, x) that they lack.
PixelsOfTaps: TypeAlias = tuple[tuple[int, int], tuple[int, int], tuple[tuple[int, int], ...]]


def outside_taps(spec: ConvSpec, axis: int) -> NDArray[np.bool_]:
    """(output pixels, taps) along rows (0) or columns (1): whether a tap reads padding there."""
    pixels = np.arange(spec.output[axis])[:, None] * spec.strides[axis]
    taps = np.arange(spec.kernel[axis]) * spec.dilation[axis]
    places = pixels + taps - spec.padding[axis]
    return np.asarray((places < 0) | (places >= spec.input[axis]))


def taps_of_pixels(spec: ConvSpec) -> list[PixelsOfTaps]:
    """The edges: rectangles of pixels that lack the same taps, one at least."""
    found = []
    for (rows, y_out), (columns, x_out) in product(*(_runs(spec, axis) for axis in (0, 1))):
        taps = [(y, x) for y, x in np.ndindex(spec.kernel) if y_out[y] or x_out[x]]
        if taps:
            found.append((rows, columns, tuple(taps)))
    return found


def edge_work(spec: ConvSpec) -> EdgeWork | None:
    """The GEMM steps that the edges of a spec save, and those that they need; None for a spec
    without edges."""
    if not spec.edges:
        return None
    outside = [outside_taps(spec, axis) for axis in (0, 1)]
    inside = [(~taps).sum(axis=0) for taps in outside]  # pixels of each tap
    return EdgeWork(
        skipped=spec.parts
        * (prod(spec.output) * prod(spec.kernel) - prod(int(taps.sum()) for taps in inside)),
        added=sum(prod(edge.size) * len(edge.products) for edge in spec.edges),
        sides=_pair(int(taps[0].any()) + int(taps[-1].any()) for taps in outside),
        cuts=_pair(len(set(taps.tolist())) - 1 for taps in inside),
        inputs=spec.edge_inputs,
        tiles=spec.edge_tiles,
    )


def _pair(values: Iterable[int]) -> tuple[int, int]:
    first, second = values
    return first, second


def _runs(spec: ConvSpec, axis: int) -> Iterator[tuple[tuple[int, int], tuple[bool, ...]]]:
    """[first, end) of pixels along an axis that lack the same taps, and which they lack."""
    first = 0
    for taps, pixels in groupby(map(tuple, outside_taps(spec, axis).tolist())):
        end = first + len(list(pixels))
        yield (first, end), taps
        first = end
