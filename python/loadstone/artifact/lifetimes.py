# SPDX-License-Identifier: Apache-2.0
"""From which step to which a tensor must stand in memory, row-major or in a layout of the device.

In:   the graph, and its operators as a sequence of segments: regions that back ends have lowered,
      and operators of the host.
Out:  Lifetimes: of device layouts in the arena, of row-major tensors in the host's memory.
Next: arena.py lets those that never live together share bytes; memory_layout.py gives addresses.

Positions in time count operators; a program occupies those of all its operators, and everything in
the arena that one of them touches through the edges of the program is alive over the whole of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

import numpy as np

from loadstone import graph as g
from loadstone.backend.region import DeviceLayout, ExternalRegion, LoweredRegion

__all__ = [
    "Lifetime",
    "Lifetimes",
    "Step",
    "aliases_of",
    "find_lifetimes",
    "is_packed_now",
    "programs_of",
    "side_by_side",
]

#: One step of a network: a device program to be, one call of a function, an operator of the host.
Step: TypeAlias = LoweredRegion | ExternalRegion | g.Operator


@dataclass(frozen=True)
class Lifetime:
    """A tensor's claim on memory: needed from step `first` to step `last`, both included."""

    name: str
    size_bytes: int
    first: int
    last: int

    def joined(self, other: Lifetime) -> Lifetime:
        """Both claims as one."""
        return Lifetime(
            self.name,
            max(self.size_bytes, other.size_bytes),
            min(self.first, other.first),
            max(self.last, other.last),
        )


@dataclass(frozen=True)
class Lifetimes:
    """arena: of device layouts, parts of others left out. rows: of row-major tensors that are no
    input, output or constant. unpacked: names of what a program makes and somebody reads as rows.
    """

    arena: tuple[Lifetime, ...]
    rows: tuple[Lifetime, ...]
    unpacked: frozenset[str]


def programs_of(segments: Sequence[Step]) -> Iterator[LoweredRegion]:
    """The regions that become device programs, in order."""
    return (segment for segment in segments if isinstance(segment, LoweredRegion))


def side_by_side(segments: Sequence[Step]) -> list[tuple[Step, ...]]:
    """The segments in order, those together that run at once: regions that follow each other, of
    as many devices, none of which reads what another makes. The artifact's own device comes first:
    a session starts the others beside it."""
    groups: list[tuple[Step, ...]] = []
    for segment in segments:
        if groups and _can_join(groups[-1], segment):
            groups[-1] = (*groups[-1], segment)
        else:
            groups.append((segment,))
    return [tuple(sorted(g, key=_is_of_another)) if len(g) > 1 else g for g in groups]


def _is_of_another(segment: Step) -> bool:
    return isinstance(segment, LoweredRegion) and segment.device != ""


def _can_join(group: Sequence[Step], segment: Step) -> bool:
    if not isinstance(segment, LoweredRegion):
        return False
    regions = list(programs_of(group))
    read = {t.name for o in segment.operators for t in o.inputs}
    made = {t.name for r in regions for o in r.operators for t in o.outputs}
    return bool(regions) and segment.device not in {r.device for r in regions} and not read & made


def aliases_of(segments: Sequence[Step]) -> Mapping[str, tuple[str, int]]:
    """Layouts that are parts of others: name -> (name of the whole, offset in bytes)."""
    return {name: part for region in programs_of(segments) for name, part in region.aliases.items()}


def is_packed_now(
    layout: DeviceLayout, graph: g.Graph, aliases: Mapping[str, tuple[str, int]]
) -> bool:
    """Whether a layout is of a constant, whose bytes the file can hold as the device reads them."""
    value = graph.constants.get(layout.tensor.name)
    return (
        value is not None
        and value.dtype == np.int8
        and value.size == prod(layout.shape)
        and layout.kernel == (1, 1)
        and layout.name not in aliases
        and layout.name not in {whole for whole, _ in aliases.values()}
    )


def find_lifetimes(graph: g.Graph, segments: Sequence[Step]) -> Lifetimes:
    """Row-major tensors that host steps, packs or the user touch, and all device layouts."""
    return _Finder(graph, segments).find()


class _Finder:
    def __init__(self, graph: g.Graph, segments: Sequence[Step]) -> None:
        self.graph = graph
        self.segments = segments
        self.aliases = aliases_of(segments)
        self.device_of = {o: r.device for r in programs_of(segments) for o in r.operators}
        self.arena: dict[str, Lifetime] = {}
        self.rows: dict[str, Lifetime] = {}
        self.fixed = {t.name for t in (*graph.inputs, *graph.outputs)} | set(graph.constants)
        self.unpacked: set[str] = set()
        self.on_device: dict[str, str] = {}  # tensor -> whose program made it

    def find(self) -> Lifetimes:
        position = 0
        for group in side_by_side(self.segments):
            first = position
            for segment in group:
                if isinstance(segment, LoweredRegion):
                    self.use_program(segment, position)
                    position += len(segment.operators)
                else:
                    for tensor in (*segment.inputs, *segment.outputs):
                        self.use_rows(tensor, position)
                    position += 1
            if len(group) > 1:
                self.keep_all(group, first, position - 1)
        return Lifetimes(
            tuple(self.arena.values()), tuple(self.rows.values()), frozenset(self.unpacked)
        )

    def keep_all(self, group: Sequence[Step], first: int, last: int) -> None:
        """All that programs side by side touch is alive while any of them works."""
        for region in programs_of(group):
            for layout, _, _ in region.layouts:
                if not is_packed_now(layout, self.graph, self.aliases):
                    self.use_layout(layout, first, last)
                if layout.tensor.name in self.rows:
                    self.use_rows(layout.tensor, first)
                    self.use_rows(layout.tensor, last)

    def use_program(self, region: LoweredRegion, position: int) -> None:
        """position: of its first operator."""
        end = position + len(region.operators) - 1
        made = {t.name for o in region.operators for t in o.outputs}
        for layout, first, last in region.layouts:
            tensor = layout.tensor
            if layout.scratch:
                self.use_layout(layout, position + first, position + last)
            elif tensor.name in made:
                leaves = self.is_read_outside(tensor, region)
                self.use_layout(layout, position + first, end if leaves else position + last)
                if self.is_read_as_rows(tensor, region):
                    self.unpacked.add(tensor.name)
                    self.use_rows(tensor, end)
            elif not is_packed_now(layout, self.graph, self.aliases):
                if self.on_device.get(tensor.name) != region.device:
                    self.use_rows(tensor, position)
                self.use_layout(layout, position, position + last)
        self.on_device |= dict.fromkeys(made, region.device)

    def is_read_outside(self, tensor: g.Tensor, region: LoweredRegion) -> bool:
        """Something outside the region reads what it makes."""
        return tensor in self.graph.outputs or any(
            o not in region.operators for o in self.graph.consumers(tensor)
        )

    def is_read_as_rows(self, tensor: g.Tensor, region: LoweredRegion) -> bool:
        """The user, a host operator, an external region or another device reads it."""
        return tensor in self.graph.outputs or any(
            self.device_of.get(o) != region.device for o in self.graph.consumers(tensor)
        )

    def use_layout(self, layout: DeviceLayout, first: int, last: int) -> None:
        """Alive from first to last; a part keeps its whole alive."""
        name, size_bytes = layout.name, layout.size_bytes
        while name in self.aliases:
            name, size_bytes = self.aliases[name][0], 0
        _join(self.arena, Lifetime(name, size_bytes, first, last))

    def use_rows(self, tensor: g.Tensor, position: int) -> None:
        """Row-major in region `host`, unless its place is fixed."""
        if tensor.name not in self.fixed:
            _join(self.rows, Lifetime(tensor.name, tensor.size_bytes, position, position))


def _join(known: dict[str, Lifetime], claim: Lifetime) -> None:
    known[claim.name] = known[claim.name].joined(claim) if claim.name in known else claim
