# SPDX-License-Identifier: Apache-2.0
"""A transposed convolution as a convolution that computes all places between inputs as channels.

In:   a call of nn.conv2d_transpose or nn.conv1d_transpose with constant weights, quantized or not.
Out:  Phases: the convolution's weights and padding, what a constant of its channels becomes, and
      how its result is moved to where it belongs.
Next: ranks.py does so for every format; what follows element by element is done before the move.

Output f = q * stride + r (before padding is cut off) is the sum over taps k = r + stride * j of
input q - j: for each of `stride` phases r a convolution of its own, and all of one size. Each sum
has the same terms as in the transposed convolution, so that integers are the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from loadstone.numerics import Array
from loadstone.relax.compat import integers, is_call, op_name, shape

if TYPE_CHECKING:
    from loadstone.relax.types import Expr

__all__ = ["Phases", "is_transposed", "phases_of"]

#: Layouts of data and weights that importers write.
_LAYOUTS = {"nn.conv2d_transpose": ("NCHW", "IOHW"), "nn.conv1d_transpose": ("NCW", "IOW")}


@dataclass(frozen=True)
class Phases:
    """All are (along H, along W). first: of the padding that is cut off. size: of the output;
    counts: places q that are computed."""

    strides: tuple[int, int]
    taps: tuple[int, int]
    first: tuple[int, int]
    size: tuple[int, int]
    counts: tuple[int, int]
    inputs: tuple[int, int]
    channels: int

    @property
    def copies(self) -> int:
        """Phases."""
        return self.strides[0] * self.strides[1]

    @property
    def padding(self) -> tuple[int, int, int, int]:
        """Of the convolution: top, left, bottom, right."""
        after = [count - size for count, size in zip(self.counts, self.inputs, strict=True)]
        return (self.taps[0] - 1, self.taps[1] - 1, after[0], after[1])

    def kernel(self, weights: Array, fill: Array) -> Array:
        """(I, O, KH, KW) as (phases * O, I, taps, taps), last tap first. fill: (O,) or (1,), what
        stands where a phase has fewer taps: the zero point."""
        inputs, outputs, height, width = weights.shape
        (step_y, step_x), (rows, columns) = self.strides, self.taps
        padded = np.empty((inputs, outputs, rows * step_y, columns * step_x), weights.dtype)
        padded[...] = fill.astype(weights.dtype).reshape(1, -1, 1, 1)
        padded[:, :, :height, :width] = weights
        split = padded.reshape(inputs, outputs, rows, step_y, columns, step_x)[:, :, ::-1, :, ::-1]
        moved = split.transpose(3, 5, 1, 0, 2, 4)
        return np.ascontiguousarray(moved).reshape(-1, inputs, rows, columns)

    def tiled(self, values: Array) -> Array:
        """(O,) of a channel each as (phases * O,)."""
        return np.tile(values.reshape(-1), self.copies)

    @property
    def split(self) -> tuple[tuple[int, ...], list[int], tuple[int, ...]]:
        """The result (1, phases * O, H, W): its shape by phases, the order of axes, the shape of
        what is put together."""
        (step_y, step_x), (rows, columns) = self.strides, self.counts
        apart = (1, step_y, step_x, self.channels, rows, columns)
        whole = (1, self.channels, rows * step_y, columns * step_x)
        return apart, [0, 3, 4, 1, 5, 2], whole

    @property
    def is_cut(self) -> bool:
        """Whether the whole is larger than the output."""
        return self.split[2][2:] != self.size


def is_transposed(call: Expr) -> bool:
    """Whether it is a transposed convolution that can be phases: one sample, one group, no
    dilation."""
    if not is_call(call, *_LAYOUTS):
        return False
    attrs = call.attrs
    layouts = (str(attrs.data_layout), str(attrs.kernel_layout))
    one = set(integers(attrs.dilation)) == {1} and int(attrs.groups) == 1
    data = shape(call.args[0]) or (0,)
    return one and layouts == _LAYOUTS[op_name(call)] and data[0] == 1


def phases_of(call: Expr) -> Phases:
    """Of such a call; one axis is an image of height 1."""
    (*_, height, width), weights, full = _images(call)
    strides, padding = integers(call.attrs.strides), integers(call.attrs.padding)
    steps = (strides[0], strides[1]) if len(strides) > 1 else (1, strides[0])
    first = (padding[0], padding[1]) if len(full) == len(shape(call) or ()) else (0, padding[0])
    taps = tuple(-(-k // s) for k, s in zip(weights[2:], steps, strict=True))
    sizes = zip((height, width), first, full[2:], steps, strict=True)
    counts = tuple(max(extent, -(-(begin + out) // s)) for extent, begin, out, s in sizes)
    return Phases(
        steps,
        (taps[0], taps[1]),
        first,
        (full[2], full[3]),
        (counts[0], counts[1]),
        (height, width),
        full[1],
    )


def _images(call: Expr) -> list[tuple[int, ...]]:
    """Shapes of data, weights and output, of four axes each."""
    extents = [shape(expr) or () for expr in (*call.args[:2], call)]
    return [e if len(e) == 4 else (*e[:2], 1, *e[2:]) for e in extents]
