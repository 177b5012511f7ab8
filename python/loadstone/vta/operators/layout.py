# SPDX-License-Identifier: Apache-2.0
"""How activations lie in the device's DRAM: the blocked layout, and the im2col layout of first
layers.

In:   an int8 array in the graph's layout: batch first, channels last.
Out:  tiles: [N/batch][C/block][H][W] of [batch][block], and back.
Next: the operators count tiles in it; the runtime's pack and unpack steps move the same bytes.

A tile is what one step of the GEMM core reads: `batch` samples of `block` channels at one pixel.
Lanes beyond the last channel are zero when the host packs, and hold anything when the device wrote
them: nobody reads them.

`Im2colLayout` is for a first layer with few channels: the taps of the kernel that the GEMM would
visit one after the other, each with a tile of mostly empty lanes, become channels of one tile:
packed channel (ky*KW + kx)*C + c. It costs the host a gather.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

__all__ = ["Blocked", "Im2colLayout"]

Int8Array = NDArray[np.int8]


@dataclass(frozen=True)
class Blocked:
    """[N/batch][C/block][pixels][batch][block]. shape: (N, ..., C); what stands between is pixels,
    in order."""

    shape: tuple[int, ...]
    batch: int
    block: int

    def __post_init__(self) -> None:
        if self.shape[0] % self.batch:
            raise AssertionError(
                f"N={self.shape[0]} is no multiple of the device's batch {self.batch}"
            )

    @property
    def samples(self) -> int:
        """Groups of `batch` samples."""
        return self.shape[0] // self.batch

    @property
    def channel_blocks(self) -> int:
        """Blocks of channels; the last one may be partly empty."""
        return -(-self.shape[-1] // self.block) if len(self.shape) > 1 else 1

    @property
    def pixels(self) -> int:
        """Positions of one sample."""
        return prod(self.shape[1:-1])

    @property
    def size_tiles(self) -> int:
        """Tiles that the tensor takes."""
        return self.samples * self.channel_blocks * self.pixels

    def pack(self, array: Int8Array) -> Int8Array:
        """(N, ..., C) -> (size_tiles, batch, block)."""
        if array.shape != self.shape:
            raise AssertionError(f"an array of {array.shape} is none of {self.shape}")
        channels = self.shape[-1] if len(self.shape) > 1 else 1
        flat = array.reshape(self.samples, self.batch, self.pixels, channels)
        padded = np.zeros(
            (self.samples, self.batch, self.pixels, self.channel_blocks * self.block), array.dtype
        )
        padded[..., :channels] = flat
        blocked = padded.reshape(
            self.samples, self.batch, self.pixels, self.channel_blocks, self.block
        )
        return np.ascontiguousarray(blocked.transpose(0, 3, 2, 1, 4)).reshape(
            self.size_tiles, self.batch, self.block
        )

    def unpack(self, tiles: Int8Array) -> Int8Array:
        """(size_tiles, batch, block) -> (N, ..., C): the inverse of `pack`."""
        channels = self.shape[-1] if len(self.shape) > 1 else 1
        blocked = tiles.reshape(
            self.samples, self.channel_blocks, self.pixels, self.batch, self.block
        )
        flat = blocked.transpose(0, 3, 2, 1, 4).reshape(self.samples, self.batch, self.pixels, -1)
        return np.ascontiguousarray(flat[..., :channels]).reshape(self.shape)


@dataclass(frozen=True)
class Im2colLayout:
    """The input of a convolution with its taps gathered into channels, then blocked.

    shape: (N, H, W, C) of the graph's tensor. kernel, strides, padding (top, left): of the axes
        that are folded; an axis that is
    not folded has 1, 1 and 0. size: (height, width) after folding: along a folded axis one position
    per output pixel.
    pad_value: what taps outside the input read: its zero point.
    """

    shape: tuple[int, int, int, int]
    kernel: tuple[int, int]
    strides: tuple[int, int]
    padding: tuple[int, int]
    size: tuple[int, int]
    pad_value: int
    batch: int
    block: int

    @property
    def blocked(self) -> Blocked:
        """The blocked layout of the folded array."""
        channels = self.kernel[0] * self.kernel[1] * self.shape[3]
        return Blocked((self.shape[0], *self.size, channels), self.batch, self.block)

    @property
    def size_tiles(self) -> int:
        """Tiles that the tensor takes."""
        return self.blocked.size_tiles

    def gather(self, array: Int8Array) -> Int8Array:
        """(N, H, W, C) -> (N, H', W', KH*KW*C)."""
        if array.shape != self.shape:
            raise AssertionError(f"an array of {array.shape} is none of {self.shape}")
        taps = [
            self._tap(array, y, x) for y in range(self.kernel[0]) for x in range(self.kernel[1])
        ]
        return np.concatenate(taps, axis=-1)

    def _tap(self, array: Int8Array, y: int, x: int) -> Int8Array:
        """What tap (y, x) of the kernel reads at every position."""
        result = np.full((self.shape[0], *self.size, self.shape[3]), self.pad_value, array.dtype)
        rows = np.arange(self.size[0]) * self.strides[0] - self.padding[0] + y
        columns = np.arange(self.size[1]) * self.strides[1] - self.padding[1] + x
        inside_y, inside_x = (
            (at >= 0) & (at < limit)
            for at, limit in ((rows, self.shape[1]), (columns, self.shape[2]))
        )
        result[:, inside_y[:, None] & inside_x] = array[:, rows[inside_y]][
            :, :, columns[inside_x]
        ].reshape(self.shape[0], -1, self.shape[3])
        return result

    def pack(self, array: Int8Array) -> Int8Array:
        """(N, H, W, C) -> (size_tiles, batch, block)."""
        return self.blocked.pack(self.gather(array))
