# SPDX-License-Identifier: Apache-2.0
"""A transposed convolution as a convolution whose channels are all positions between two inputs.

In:   a call of nn.conv2d_transpose or nn.conv1d_transpose with constant weights, quantized or not.
Out:  Phases: the convolution's weights and padding, the conversion of a constant of its channels,
      and the move of its result to the final positions.
Next: ranks.py applies it to every format; elementwise operators that follow precede the move.

Output f = q * stride + r (before padding is removed) is the sum over taps k = r + stride * j of
input q - j: a separate convolution for each of `stride` phases r, all of the same size. Each sum
has the same terms as in the transposed convolution, so that the integers are the same. The phases
of a group are adjacent, as a grouped convolution requires of its channels.
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
    """Pairs are (along H, along W). first: of the padding that is cut off. size: of the output;
    counts: places q that are computed. channels: of the output, all groups together."""

    strides: tuple[int, int]
    taps: tuple[int, int]
    first: tuple[int, int]
    size: tuple[int, int]
    counts: tuple[int, int]
    inputs: tuple[int, int]
    channels: int
    groups: int

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
        """(I, O / groups, KH, KW) as (groups * phases * O / groups, I / groups, taps, taps), last
        tap first. fill: (O,) or (1,), the value of the taps that a phase lacks: the zero point."""
        fills = np.broadcast_to(fill.reshape(-1), (self.channels,)).reshape(self.groups, -1)
        parts = np.split(weights, self.groups)
        return np.concatenate(
            [self._kernel(part, own) for part, own in zip(parts, fills, strict=True)]
        )

    def _kernel(self, weights: Array, fill: Array) -> Array:
        """Of one group."""
        inputs, outputs, height, width = weights.shape
        (step_y, step_x), (rows, columns) = self.strides, self.taps
        padded = np.empty((inputs, outputs, rows * step_y, columns * step_x), weights.dtype)
        padded[...] = fill.astype(weights.dtype).reshape(1, -1, 1, 1)
        padded[:, :, :height, :width] = weights
        split = padded.reshape(inputs, outputs, rows, step_y, columns, step_x)[:, :, ::-1, :, ::-1]
        moved = split.transpose(3, 5, 1, 0, 2, 4)
        return np.ascontiguousarray(moved).reshape(-1, inputs, rows, columns)

    def tiled(self, values: Array) -> Array:
        """(O,) of a channel each as (groups * phases * O / groups,)."""
        return np.tile(values.reshape(self.groups, -1), (1, self.copies)).reshape(-1)

    def of_outputs(self, values: Array, axis: int) -> Array | None:
        """Numbers of the weights' indices along an axis, or one for all, as (O,) or (1,); None
        where an output has several."""
        if values.size == 1:
            return values
        if axis == 1:
            return np.tile(values, self.groups)
        if axis == 0 and values.size == self.groups:
            return np.repeat(values, self.channels // self.groups)
        return None

    @property
    def moves(self) -> list[tuple[tuple[int, ...], list[int]]]:
        """How the result (1, groups * phases * O / groups, H, W) is put together: shapes, and the
        order of their axes that comes next. Of several groups with several channels the channels
        of one stand together first: a move has six axes at most."""
        (step_y, step_x), (rows, columns) = self.strides, self.counts
        each = self.channels // self.groups
        if self.groups == 1:
            return [((1, step_y, step_x, each, rows, columns), [0, 3, 4, 1, 5, 2])]
        last = ((1, self.channels, step_y, step_x, rows, columns), [0, 1, 4, 2, 5, 3])
        if each == 1:
            return [last]
        return [((1, self.groups, self.copies, each, rows, columns), [0, 1, 3, 2, 4, 5]), last]

    @property
    def whole(self) -> tuple[int, ...]:
        """The shape of what is put together."""
        (step_y, step_x), (rows, columns) = self.strides, self.counts
        return (1, self.channels, rows * step_y, columns * step_x)

    @property
    def is_cut(self) -> bool:
        """Whether the whole is larger than the output."""
        return self.whole[2:] != self.size


def is_transposed(call: Expr) -> bool:
    """Whether it is a transposed convolution that can be phases: one sample, no dilation."""
    if not is_call(call, *_LAYOUTS):
        return False
    attrs = call.attrs
    layouts = (str(attrs.data_layout), str(attrs.kernel_layout))
    data = shape(call.args[0]) or (0,)
    return (
        set(integers(attrs.dilation)) == {1} and layouts == _LAYOUTS[op_name(call)] and data[0] == 1
    )


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
        int(call.attrs.groups),
    )


def _images(call: Expr) -> list[tuple[int, ...]]:
    """Shapes of data, weights and output, of four axes each."""
    extents = [shape(expr) or () for expr in (*call.args[:2], call)]
    return [e if len(e) == 4 else (*e[:2], 1, *e[2:]) for e in extents]
