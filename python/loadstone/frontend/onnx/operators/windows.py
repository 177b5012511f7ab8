# SPDX-License-Identifier: Apache-2.0
"""Where the windows of ONNX's pools and convolutions lie.

In:   an OnnxNode, channels first, with its attributes auto_pad, ceil_mode, dilations, pads and
      strides.
Out:  Windows: geometry in numbers; the elements that each window reads.
Next: pooling.py and convolution.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from loadstone.frontend.onnx.node import OnnxNode
from loadstone.numerics import Array

__all__ = ["Windows", "windows_of"]


@dataclass(frozen=True)
class Windows:
    """By spatial axis. before, after: padding as the node has it, in elements. outputs: number of
    windows."""

    sizes: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    outputs: tuple[int, ...]

    @property
    def pads(self) -> list[int]:
        """All befores, then all afters, as ONNX and Relax have them."""
        return [*self.before, *self.after]

    @property
    def overhang(self) -> tuple[int, ...]:
        """How far the last window hangs over the padded end (ceil_mode); never below 0."""
        return tuple(
            max(0, (count - 1) * stride + (taps - 1) * dilation + 1 - size - before - after)
            for size, taps, stride, dilation, before, after, count in zip(
                self.sizes,
                self.kernel,
                self.strides,
                self.dilations,
                self.before,
                self.after,
                self.outputs,
                strict=True,
            )
        )

    def read(self) -> tuple[Array, Array]:
        """Places in the flattened image, (windows, taps) int64, of which those outside are 0; which
        are inside, (windows, taps) bool. Windows and taps in row-major order."""
        places = np.zeros((1, 1), np.int64)
        inside = np.ones((1, 1), bool)
        for axis, size in enumerate(self.sizes):
            starts = np.arange(self.outputs[axis]) * self.strides[axis] - self.before[axis]
            at = starts[:, None] + np.arange(self.kernel[axis]) * self.dilations[axis]
            shape = (len(places) * len(at), places.shape[1] * at.shape[1])
            places = (places[:, None, :, None] * size + at[None, :, None, :]).reshape(shape)
            is_in = (at >= 0) & (at < size)
            inside = (inside[:, None, :, None] & is_in[None, :, None, :]).reshape(shape)
        return np.where(inside, places, 0), inside

    def by_columns(self, places: Array) -> Array:
        """Places in the flattened image, of any shape, as they are if the first spatial axis is the
        fastest."""
        index = np.unravel_index(places, self.sizes)
        found: Array = np.ravel_multi_index(index, self.sizes, order="F").astype(np.int64)
        return found


def windows_of(node: OnnxNode, kernel: Sequence[int]) -> Windows:
    """kernel: by spatial axis. Raises UnsupportedError for attributes that contradict it."""
    sizes, rank = node.extents(0)[2:], len(node.extents(0)) - 2
    strides = node.attributes.get("strides") or (1,) * rank
    dilations = node.attributes.get("dilations") or (1,) * rank
    pads = tuple(node.attributes.get("pads") or (0,) * 2 * rank)
    mode = node.attributes["auto_pad"]
    _check_lengths(node, kernel_shape=kernel, strides=strides, dilations=dilations)
    _check_lengths(node, pads=pads)
    full = [(taps - 1) * dilation + 1 for taps, dilation in zip(kernel, dilations, strict=True)]
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        pads = _same(sizes, full, strides, upper=mode == "SAME_UPPER")
    elif mode == "VALID":
        pads = (0,) * 2 * rank
    elif mode not in ("NOTSET", ""):
        raise node.refusal(f"its auto_pad is {mode}, which ONNX does not define", "export it anew")
    before, after = pads[:rank], pads[rank:]
    is_ceil = bool(node.attributes.get("ceil_mode", 0)) and mode in ("NOTSET", "", "VALID")
    outputs = [
        _count(size + low + high - taps, stride, size + low, is_ceil=is_ceil)
        for size, low, high, taps, stride in zip(sizes, before, after, full, strides, strict=True)
    ]
    if min(outputs, default=1) < 1:
        raise node.refusal(
            f"its windows of {list(kernel)} are larger than its input of {list(sizes)} with its "
            "padding",
            "export the model with a larger input",
        )
    fields = (sizes, kernel, strides, dilations, before, after, outputs)
    return Windows(*(tuple(int(number) for number in numbers) for numbers in fields))


def _check_lengths(node: OnnxNode, **given: Sequence[int]) -> None:
    """One number for each spatial axis, two of pads, which alone may be below 1."""
    rank = len(node.extents(0)) - 2
    for name, numbers in given.items():
        wanted = 2 * rank if name == "pads" else rank
        if len(numbers) != wanted or (name != "pads" and min(numbers, default=1) < 1):
            raise node.refusal(
                f"its {name} is {list(numbers)} for {rank} spatial dimensions", "export it anew"
            )


def _count(room: int, stride: int, end: int, *, is_ceil: bool) -> int:
    """How many windows begin; none, where a ceil would have it, behind the elements."""
    if not is_ceil:
        return room // stride + 1
    count = -(-room // stride) + 1
    return count - 1 if (count - 1) * stride >= end else count


def _same(
    sizes: Sequence[int], full: Sequence[int], strides: Sequence[int], *, upper: bool
) -> tuple[int, ...]:
    """SAME_UPPER and SAME_LOWER as numbers: as many as give ceil(size / stride), the odd one after
    (upper) or before. full: what a window spans, in elements."""
    totals = [
        max(0, (-(-size // stride) - 1) * stride + taps - size)
        for size, taps, stride in zip(sizes, full, strides, strict=True)
    ]
    small, large = [total // 2 for total in totals], [total - total // 2 for total in totals]
    return tuple(itertools.chain(small, large) if upper else itertools.chain(large, small))
