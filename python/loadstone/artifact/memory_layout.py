# SPDX-License-Identifier: Apache-2.0
"""Where everything of a network stands in memory before its first step is made.

In:   the graph, its segments, their lifetimes, the device's alignment.
Out:  a frozen MemoryLayout: views of the row-major tensors, addresses of device layouts and of the
      regions' constants, and the constants' content.
Next: deploy.py makes the steps, which add what only they know: lookup tables, temporaries, views of
      device layouts, micro-ops.

    region      0 constants   1 micro-ops   2 arena     3 input    4 output   5 host
    content     weights, RQ   tables        device      row-major  row-major  row-major tensors
                operands,                   layouts                           between host steps
                lookup tables

A file of its own beside deploy.py, which alone imports it: what is decided here is fixed, what is
made there grows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from hashlib import sha256
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loadstone import graph as g
from loadstone.artifact.arena import ArenaPlan, plan
from loadstone.artifact.lifetimes import (
    Lifetime,
    Lifetimes,
    Step,
    aliases_of,
    is_packed_now,
    programs_of,
)
from loadstone.artifact.memory_plan import DEVICE_ALIGN_BYTES, BufferView, DataType, ViewLayout
from loadstone.backend.region import Address, DeviceLayout
from loadstone.errors import LoweringError
from loadstone.graph.bfloat16 import bits_of

__all__ = [
    "Content",
    "MemoryLayout",
    "RegionIndex",
    "constant_view",
    "device_view",
    "memory_text",
    "plan_memory",
    "rounded_up",
    "row_view",
    "tensors_by_name",
    "verify_memory",
]


#: A constant of so many bytes stands in a region once.
_LARGE_BYTES = 1 << 16


class RegionIndex(IntEnum):
    """Which region of the artifact holds what."""

    CONSTANTS = 0
    MICRO_OPS = 1
    ARENA = 2
    INPUT = 3
    OUTPUT = 4
    HOST = 5


@dataclass(frozen=True)
class MemoryLayout:
    """views: inputs, outputs, the graph's constants, rows of the host, in this order. addresses: of
    device layouts and regions' constants, by name. size_bytes: of the regions that nothing is added
    to, the host's so far.
    """

    views: tuple[BufferView, ...]
    addresses: Mapping[str, Address]
    size_bytes: Mapping[RegionIndex, int]
    arena: ArenaPlan
    host: ArenaPlan
    align_bytes: int


class Content:
    """Bytes of a region of constants while they are collected. before: what an entry of the same
    model has collected, which is given up: it stays where it is, and its pieces are used again."""

    def __init__(self, data: bytes = b"", before: Content | None = None) -> None:
        self.data: bytearray = bytearray(data) if before is None else before.data
        self.pieces: list[tuple[int, int]] = []  # first byte, size
        self.known: dict[bytes, int] = {} if before is None else before.found()

    @property
    def end(self) -> int:
        """Where the next content can begin."""
        return rounded_up(len(self.data), DEVICE_ALIGN_BYTES)

    def add(self, content: bytes, align_bytes: int = DEVICE_ALIGN_BYTES) -> int:
        """Appends what is not there; the offset in bytes. Of one entry's own pieces large ones are
        looked for, such as a table that every layer of a decoder reads."""
        align_bytes = max(align_bytes, DEVICE_ALIGN_BYTES)
        is_large = len(content) >= _LARGE_BYTES
        digest = sha256(content).digest() if is_large or self.known else b""
        known = self.known.get(digest)
        if known is not None and known % align_bytes == 0:
            return known
        offset = rounded_up(len(self.data), align_bytes)
        self.data += bytes(offset - len(self.data)) + content
        self.pieces.append((offset, len(content)))
        if is_large:
            self.known[digest] = offset
        return offset

    def filled(self) -> bytes:
        """All of it, zeros behind it up to the least size of a region."""
        return bytes(self.data).ljust(DEVICE_ALIGN_BYTES, b"\0")

    def found(self) -> dict[bytes, int]:
        """Where pieces of this content stand, by digest."""
        whole = memoryview(self.data)
        own = {sha256(whole[at : at + size]).digest(): at for at, size in self.pieces}
        return {**own, **self.known}


def plan_memory(
    graph: g.Graph,
    segments: Sequence[Step],
    lifetimes: Lifetimes,
    align_bytes: int,
    content: Content | None = None,
) -> MemoryLayout:
    """align_bytes: what tensors in the device's memory are aligned to. content: gets the constants;
    what it has of other entries stays."""
    align_bytes = max(align_bytes, DEVICE_ALIGN_BYTES)
    arena = plan(lifetimes.arena, align_bytes)
    host = plan(lifetimes.rows, DEVICE_ALIGN_BYTES)
    named = tensors_by_name(graph)
    views: dict[str, BufferView] = {}
    size_bytes = {RegionIndex.ARENA: arena.size_bytes, RegionIndex.HOST: host.size_bytes}
    for region, tensors in ((RegionIndex.INPUT, graph.inputs), (RegionIndex.OUTPUT, graph.outputs)):
        size_bytes[region] = 0
        for tensor in tensors:
            if tensor.name not in views:
                views[tensor.name] = row_view(tensor, region, size_bytes[region])
                size_bytes[region] += rounded_up(tensor.size_bytes, DEVICE_ALIGN_BYTES)
    content = Content() if content is None else content
    for name, value in graph.constants.items():
        if name not in views:
            views[name] = constant_view(named.get(name), name, value, content)
    for name, offset in host.offset_bytes.items():
        views[name] = row_view(named[name], RegionIndex.HOST, offset)
    addresses = _addresses(graph, segments, arena, content, align_bytes)
    return MemoryLayout(tuple(views.values()), addresses, size_bytes, arena, host, align_bytes)


def _addresses(
    graph: g.Graph,
    segments: Sequence[Step],
    arena: ArenaPlan,
    content: Content,
    align_bytes: int,
) -> Mapping[str, Address]:
    """Of what the programs name: constants, whose content is added, and device layouts."""
    addresses = {}
    aliases = aliases_of(segments)
    for region in programs_of(segments):
        for name, (value, own_bytes) in region.constants.items():
            offset = content.add(value.tobytes(), own_bytes)
            addresses[name] = Address(RegionIndex.CONSTANTS, offset)
        for layout, _, _ in region.layouts:
            if is_packed_now(layout, graph, aliases):
                if layout.name not in addresses:
                    tiles = packed(graph.constants[layout.tensor.name], layout)
                    offset = content.add(tiles, align_bytes)
                    addresses[layout.name] = Address(RegionIndex.CONSTANTS, offset)
                continue
            whole, offset = layout.name, 0
            while whole in aliases:
                whole, more = aliases[whole]
                offset += more
            offset += arena.offset_bytes[whole]
            addresses[layout.name] = Address(RegionIndex.ARENA, offset)
    return addresses


def packed(value: NDArray[Any], layout: DeviceLayout) -> bytes:
    """A constant as the device reads it, the tiles' spare lanes filled with pad_value. value: int8,
    or float32 for bfloat16, of any shape with as many elements as the layout; the batch first."""
    n, height, width, channels = layout.shape
    rows, blocks = -(-n // layout.batch_block), -(-channels // layout.channel_block)
    whole = np.full(
        (rows * layout.batch_block, height, width, blocks * layout.channel_block),
        layout.pad_value,
        np.uint16 if layout.dtype == "bfloat16" else np.int8,
    )
    stored = bits_of(value) if layout.dtype == "bfloat16" else value
    whole[:n, :, :, :channels] = stored.reshape(layout.shape)
    tiles = whole.reshape(rows, layout.batch_block, height, width, blocks, layout.channel_block)
    return tiles.transpose(0, 4, 2, 3, 1, 5).tobytes()


# --- what must hold -------------------------------------------------------------------------------
def verify_memory(lifetimes: Lifetimes, memory: MemoryLayout) -> None:
    """Raises LoweringError where two tensors that are alive together share a byte of the arena or
    of the host's memory; where a tensor stands outside it, at no place or at no multiple of the
    alignment; or where a program or a step of the host is told another place than the planned."""
    told = {name: (int(a.region), a.offset_bytes) for name, a in memory.addresses.items()}
    views = {view.name: (int(view.region), view.offset_bytes) for view in memory.views}
    for region, claims, space, align_bytes, places in (
        (RegionIndex.ARENA, lifetimes.arena, memory.arena, memory.align_bytes, told),
        (RegionIndex.HOST, lifetimes.rows, memory.host, DEVICE_ALIGN_BYTES, views),
    ):
        for claim in claims:
            if claim.name not in space.offset_bytes:
                raise LoweringError(f"{claim.name} has no place")
            offset, size = space.offset_bytes[claim.name], memory.size_bytes[region]
            end = offset + claim.size_bytes
            if not claim.size_bytes <= end <= size:
                raise LoweringError(f"{claim.name} ends at byte {end} of {size}")
            if offset % align_bytes:
                raise LoweringError(
                    f"{claim.name} begins at {offset}: no multiple of {align_bytes}"
                )
            # What no program names (the whole of parts that one does) is told to nobody.
            if places.get(claim.name, (region, offset)) != (region, offset):
                raise LoweringError(f"{claim.name} is said to stand elsewhere than planned")
        _verify_sharing(claims, space)


def _verify_sharing(claims: Sequence[Lifetime], space: ArenaPlan) -> None:
    """What lives together at all does so where the later one begins."""
    for step in {claim.first for claim in claims}:
        alive = [claim for claim in claims if claim.first <= step <= claim.last]
        alive.sort(key=lambda claim: space.offset_bytes[claim.name])
        for one, other in pairwise(alive):
            if space.offset_bytes[one.name] + one.size_bytes > space.offset_bytes[other.name]:
                raise LoweringError(f"{one.name} and {other.name} share bytes at step {step}")


def memory_text(memory: MemoryLayout) -> str:
    """Where everything stands, for dumps: region, first byte, name."""
    placed = [(int(a.region), a.offset_bytes, name) for name, a in memory.addresses.items()]
    placed += [(view.region, view.offset_bytes, view.name) for view in memory.views]
    sizes = [f"{region.name.lower()} {size}" for region, size in memory.size_bytes.items()]
    lines = [f"{RegionIndex(r).name.lower():<10}{at:>10}  {name}" for r, at, name in sorted(placed)]
    return "\n".join([f"# bytes: {', '.join(sizes)}", *lines]) + "\n"


# --- views ----------------------------------------------------------------------------------------
def tensors_by_name(graph: g.Graph) -> Mapping[str, g.Tensor]:
    """All tensors of a graph."""
    read = {t.name: t for o in graph.operators for t in (*o.inputs, *o.outputs)}
    return read | {t.name: t for t in graph.inputs}


def scale_and_zero(tensor: g.Tensor | None) -> tuple[float, int]:
    """As an artifact says them: zeros for what is not quantized."""
    q = tensor.quantization if tensor is not None else None
    return (q.scale, q.zero_point) if q is not None else (0.0, 0)


def row_view(tensor: g.Tensor, region: RegionIndex, offset_bytes: int) -> BufferView:
    """A row-major tensor; a single number is one of one element, as inputs and outputs have an
    axis of samples."""
    dtype, shape = DataType.of(tensor.dtype), tensor.shape or (1,)
    return BufferView(tensor.name, shape, dtype, int(region), offset_bytes, *scale_and_zero(tensor))


def constant_view(
    tensor: g.Tensor | None, name: str, value: NDArray[Any], content: Content, block: int = 0
) -> BufferView:
    """A row-major constant, its content added; the view has the shape of `value`, and its type.

    tensor: of the graph, where it has one: gives scale and zero point. block: of int8 (rows,
    columns), which stand in blocks of so many by so many, as a device's weights do; 0: row-major.
    """
    if block:
        rows, columns = value.shape
        shape = rows, 1, 1, columns
        layout = DeviceLayout(name, g.Tensor(name, shape, "int8"), shape, block, block)
        return replace(
            device_view(layout, name, content.add(packed(value, layout))),
            region=int(RegionIndex.CONSTANTS),
        )
    value = np.ascontiguousarray(value)
    offset = content.add(value.tobytes())
    dtype = DataType.of(value.dtype)
    return BufferView(
        name, tuple(value.shape), dtype, int(RegionIndex.CONSTANTS), offset, *scale_and_zero(tensor)
    )


def device_view(layout: DeviceLayout, name: str, offset_bytes: int) -> BufferView:
    """A tensor in a layout of the device."""
    return BufferView(
        name,
        layout.shape,
        DataType[layout.dtype.upper()],
        int(RegionIndex.ARENA),
        offset_bytes,
        *scale_and_zero(layout.tensor),
        ViewLayout.BLOCKED,
        layout.batch_block,
        layout.channel_block,
    )


def rounded_up(value: int, multiple: int) -> int:
    """The least multiple that is not less."""
    return -(-value // multiple) * multiple
