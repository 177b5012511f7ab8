# SPDX-License-Identifier: Apache-2.0
"""Where the data of a compiled model stands: regions, and tensors in them.

In:   sizes and shapes from the compiler.
Out:  frozen Region and Tensor, each able to check itself against runtime/FORMAT.md (rules R10 to
      R16).
Next: host_step.py refers to tensors; artifact/format.py writes both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from loadstone.errors import ArtifactError

__all__ = [
    "DEVICE_ALIGN_BYTES",
    "MAX_REGIONS",
    "BufferView",
    "DataType",
    "MemoryRegion",
    "RegionKind",
    "ViewLayout",
]

#: LOAD and STORE name a region in 3 bits.
MAX_REGIONS = 8
#: Regions that the device sees, and tensors in them, begin at cache lines: host and device never
#: write the same line.
DEVICE_ALIGN_BYTES = 64
MAX_ALIGN_BYTES = 65536
MAX_RANK = 6
MAX_BYTES = (1 << 32) - 1


class RegionKind(IntEnum):
    """What a region is for."""

    CONSTANTS = 0  # content from the file, written by nobody
    ARENA = 1  # activations
    INPUT = 2  # the caller writes, the device or host steps read
    OUTPUT = 3  # the device or host steps write, the caller reads
    HOST = 4  # memory that the device never sees
    STATE = 5  # what a run leaves for the next one; a reset makes it what it was at first


class DataType(IntEnum):
    """Element types; `numpy` gives the NumPy one."""

    INT8 = 0
    UINT8 = 1
    INT16 = 2
    INT32 = 3
    INT64 = 4
    FLOAT32 = 5
    FLOAT16 = 6
    BOOL = 7
    BFLOAT16 = 8
    UINT16 = 9
    UINT32 = 10
    UINT64 = 11
    FLOAT64 = 12

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy type, little-endian; for bfloat16, which NumPy lacks, that of its bits."""
        if self is DataType.BFLOAT16:
            return np.dtype("<u2")
        return np.dtype(self.name.lower()).newbyteorder("<")

    @property
    def size_bytes(self) -> int:
        """Bytes of an element."""
        return self.numpy.itemsize

    @classmethod
    def of(cls, dtype: npt.DTypeLike) -> DataType:
        """From a NumPy type or its name. Raises ArtifactError for one that an artifact cannot
        hold."""
        name = np.dtype(dtype).name.upper()
        if name not in cls.__members__:
            raise ArtifactError(
                f"element type {name.lower()} is not one of "
                f"{', '.join(m.lower() for m in cls.__members__)}"
            )
        return cls[name]


class ViewLayout(IntEnum):
    """How a tensor's elements stand in memory."""

    ROW_MAJOR = 0
    BLOCKED = (
        1  # [N/batch_block][C/channel_block][H][W][batch_block][channel_block]: the device's tiles
    )


@dataclass(frozen=True)
class MemoryRegion:
    """One piece of memory. Constants have data, all size_bytes of them, and a state may; others
    begin as zeros."""

    name: str
    kind: RegionKind
    size_bytes: int
    align_bytes: int = DEVICE_ALIGN_BYTES
    device_reads: bool = False
    device_writes: bool = False
    data: bytes = b""

    @property
    def on_device(self) -> bool:
        """Whether it is DMA memory."""
        return self.device_reads or self.device_writes

    def check(self) -> None:
        """Raises ArtifactError naming the rule of runtime/FORMAT.md that is broken."""
        _require(
            self.kind in set(RegionKind),
            "R10",
            f"kind {self.kind} of region {self.name!r} is unknown",
        )
        read_only = self.kind in (RegionKind.CONSTANTS, RegionKind.INPUT)
        _require(
            not (read_only and self.device_writes),
            "R10",
            f"the device writes region {self.name!r}, which is {self.kind.name.lower()}",
        )
        _require(
            not (self.kind == RegionKind.HOST and self.on_device),
            "R10",
            f"host region {self.name!r} is used by the device",
        )
        _require(
            1 <= self.size_bytes <= MAX_BYTES,
            "R11",
            f"region {self.name!r} has {self.size_bytes} bytes, outside [1, {MAX_BYTES}]",
        )
        low = DEVICE_ALIGN_BYTES if self.on_device else 1
        power = self.align_bytes > 0 and self.align_bytes & (self.align_bytes - 1) == 0
        _require(
            power and low <= self.align_bytes <= MAX_ALIGN_BYTES,
            "R11",
            f"region {self.name!r}: align_bytes={self.align_bytes} is no power of two in "
            f"[{low}, {MAX_ALIGN_BYTES}]",
        )
        size = self.size_bytes if self.kind == RegionKind.CONSTANTS else 0
        first = self.kind == RegionKind.STATE and len(self.data) == self.size_bytes
        _require(
            len(self.data) == size or first,
            "R12",
            f"region {self.name!r} has {len(self.data)} bytes of data, not {size}",
        )


@dataclass(frozen=True)
class BufferView:
    """A typed, shaped part of a region. `region` is an index. A blocked tensor's shape is (N, H, W,
    C)."""

    name: str
    shape: tuple[int, ...]
    dtype: DataType
    region: int
    offset_bytes: int
    scale: float = 0.0
    zero_point: int = 0
    layout: ViewLayout = ViewLayout.ROW_MAJOR
    batch_block: int = 0
    channel_block: int = 0

    @property
    def elements(self) -> int:
        """Elements of the shape, without those that fill up blocks."""
        return math.prod(self.shape)

    @property
    def memory_shape(self) -> tuple[int, ...]:
        """The shape as it stands in memory: six axes for a blocked tensor."""
        if self.layout == ViewLayout.ROW_MAJOR:
            return self.shape
        n, h, w, c = self.shape
        return (
            -(-n // self.batch_block),
            -(-c // self.channel_block),
            h,
            w,
            self.batch_block,
            self.channel_block,
        )

    @property
    def size_bytes(self) -> int:
        """Bytes in memory."""
        return math.prod(self.memory_shape) * self.dtype.size_bytes

    def overlaps(self, other: BufferView) -> bool:
        """Whether they share a byte."""
        apart = (
            self.offset_bytes + self.size_bytes <= other.offset_bytes
            or other.offset_bytes + other.size_bytes <= self.offset_bytes
        )
        return self.region == other.region and not apart

    def check(self, regions: tuple[MemoryRegion, ...]) -> None:
        """Raises ArtifactError naming the rule of runtime/FORMAT.md that is broken."""
        _require(
            self.dtype in set(DataType),
            "R14",
            f"tensor {self.name!r}: element type {self.dtype} is unknown",
        )
        _require(
            self.layout in set(ViewLayout),
            "R14",
            f"tensor {self.name!r}: layout {self.layout} is unknown",
        )
        _require(
            len(self.shape) <= MAX_RANK,
            "R14",
            f"tensor {self.name!r} has rank {len(self.shape)}, more than {MAX_RANK}",
        )
        _require(
            0 <= self.region < len(regions),
            "R14",
            f"tensor {self.name!r} is in region {self.region}, but there are {len(regions)} "
            "regions",
        )
        _require(
            all(1 <= d <= MAX_BYTES for d in self.shape),
            "R16",
            f"tensor {self.name!r}: shape {self.shape} has an axis without elements",
        )
        if self.layout == ViewLayout.BLOCKED:
            _require(
                len(self.shape) == 4,
                "R16",
                f"blocked tensor {self.name!r} has rank {len(self.shape)}, not 4",
            )
            blocks = (self.batch_block, self.channel_block)
            _require(
                all(1 <= b <= 65535 for b in blocks),
                "R16",
                f"blocked tensor {self.name!r}: blocks {blocks} are outside [1, 65535]",
            )
        else:
            _require(
                self.batch_block == 0 == self.channel_block,
                "R16",
                f"tensor {self.name!r} has blocks but is row-major",
            )
        region = regions[self.region]
        align = DEVICE_ALIGN_BYTES if region.on_device else self.dtype.size_bytes
        _require(
            self.offset_bytes >= 0
            and self.offset_bytes % align == 0 == self.offset_bytes % self.dtype.size_bytes,
            "R15",
            f"tensor {self.name!r}: offset {self.offset_bytes} is no multiple of {align}",
        )
        _require(
            self.offset_bytes + self.size_bytes <= region.size_bytes,
            "R15",
            f"tensor {self.name!r}: {self.size_bytes} bytes at {self.offset_bytes} leave "
            f"region {region.name!r} ({region.size_bytes})",
        )


def _require(sound: bool, rule: str, text: str) -> None:
    if not sound:
        raise ArtifactError(f"{text} (rule {rule} of runtime/FORMAT.md)")
