# SPDX-License-Identifier: Apache-2.0
"""Put device programs and host steps together into one artifact: lifetimes, memory layout, steps.

In:   the graph's operators as a sequence of segments: regions that back ends have lowered, and
      operators of the host.
Out:  an Artifact, and the figures of its memory plan.
Next: the artifact is saved, inspected, or run.

    segments -- find_lifetimes --> Lifetimes -- plan_memory --> MemoryLayout -- _Assembly -->
             Artifact

A tensor may stand in memory in two ways: row-major, as the host and the model's user see it, and in
a layout of the device (blocked; or with the taps of a first convolution in the channels). Each
layout is packed once, before the first program that reads it, and unpacked once, after the last
that writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from math import prod

from loadstone import graph as g
from loadstone.artifact import host_step as steps
from loadstone.artifact.arena import ArenaPlan
from loadstone.artifact.format import Artifact, HostStep
from loadstone.artifact.host import host_steps
from loadstone.artifact.lifetimes import Lifetimes, Step, find_lifetimes, programs_of, side_by_side
from loadstone.artifact.memory_layout import (
    Content,
    MemoryLayout,
    RegionIndex,
    constant_view,
    device_view,
    memory_text,
    plan_memory,
    rounded_up,
    row_view,
    tensors_by_name,
    verify_memory,
)
from loadstone.artifact.memory_plan import (
    DEVICE_ALIGN_BYTES,
    BufferView,
    MemoryRegion,
    RegionKind,
)
from loadstone.backend.device import Device, ProgramDevice, ProgramStep
from loadstone.backend.region import Address, DeviceLayout, ExternalRegion, LoweredRegion
from loadstone.errors import UnsupportedError
from loadstone.numerics import Array
from loadstone.passes.log import PassLog

__all__ = ["Contents", "Deployment", "deploy"]

#: The context in which a region makes its program.
Scope = Callable[[LoweredRegion], AbstractContextManager[None]]


class Contents:
    """The constants of an artifact while they are collected: those of the network, and micro-ops.
    before: those of another entry of the same model, which are given up: nothing moves."""

    def __init__(self, before: Contents | None = None) -> None:
        self.constants: Content = Content(before=before.constants if before else None)
        self.micro_ops: Content = Content(bytes(before.micro_ops.data) if before else b"")


@dataclass(frozen=True)
class Deployment:
    """The artifact and how its memory was planned."""

    artifact: Artifact
    arena: ArenaPlan
    host: ArenaPlan


def deploy(
    graph: g.Graph,
    segments: Sequence[Step],
    device: Device,
    scope: Scope = lambda _: nullcontext(),
    log: PassLog | None = None,
    contents: Contents | None = None,
) -> Deployment:
    """`segments` cover the graph's operators in order. scope: for a region's build. log: of the
    network's passes. contents: gets the constants; the artifact has what was there before, too.
    """
    contents = contents or Contents()
    _refuse_tensors_without_elements(graph)
    lifetimes = find_lifetimes(graph, segments)
    align_bytes = max([device.align_bytes, *(r.align_bytes for r in programs_of(segments))])
    memory = (log or PassLog()).run(
        "memory_plan",
        lambda found: plan_memory(graph, segments, found, align_bytes, contents.constants),
        lifetimes,
        verify=verify_memory,
        show=memory_text,
    )
    blocks = [y.channel_block for region in programs_of(segments) for y, _, _ in region.layouts]
    own = ProgramDevice.of(device)
    assembly = _Assembly(graph, lifetimes, memory, own, contents, max(blocks, default=1))
    for group in side_by_side(segments):
        assembly.add(group, scope)
    assembly.finish()
    artifact = Artifact(
        graph.name,
        tuple(assembly.devices),
        device.batch,
        assembly.regions(),
        tuple(assembly.views),
        tuple(assembly.index[t.name] for t in graph.inputs),
        tuple(assembly.index[t.name] for t in graph.outputs),
        tuple(assembly.steps),
    )
    return Deployment(artifact, memory.arena, memory.host)


def _refuse_tensors_without_elements(graph: g.Graph) -> None:
    for tensor in tensors_by_name(graph).values():
        if 0 in tensor.shape:
            raise UnsupportedError(
                f"{graph.name}: tensor {tensor.name} of shape {list(tensor.shape)} has no elements"
            )


class _Assembly:
    """The steps in order, and what they add to memory. It is the Workspace of host.py."""

    def __init__(
        self,
        graph: g.Graph,
        lifetimes: Lifetimes,
        memory: MemoryLayout,
        own: ProgramDevice,
        contents: Contents,
        block: int,
    ) -> None:
        """block: channels of the device's blocks."""
        self.memory = memory
        self.lifetimes = lifetimes
        self.named = tensors_by_name(graph)
        self.views: list[BufferView] = list(memory.views)
        self.index = {view.name: number for number, view in enumerate(memory.views)}
        self.constants, self.micro_ops = contents.constants, contents.micro_ops
        self.block = block
        self.host_bytes = memory.size_bytes[RegionIndex.HOST]  # the temporary tensors included
        self.temporary_bytes = 0  # of one operator
        self.scratch_view: int | None = None
        self.scratch_bytes = 0
        self.steps: list[ProgramStep | HostStep] = []
        self.devices = [own]
        self.on_device: dict[str, str] = {}  # tensors that a program has made: whose
        self.packed: set[str] = set()  # device layouts that the host has packed

    def add(self, group: Sequence[Step], scope: Scope) -> None:
        """The steps of one segment, or of regions that run side by side: what they read is packed
        first, and what others read is unpacked behind all."""
        regions = list(programs_of(group))
        for region in regions:
            self._add_packs(region)
        for number, region in enumerate(regions):
            self._add_program(region, scope, beside=number > 0)
        for region in regions:
            self._add_unpacks(region)
        for segment in group:
            if isinstance(segment, ExternalRegion):
                self._add_external(segment)
            elif not isinstance(segment, LoweredRegion):
                self.temporary_bytes = 0
                self.steps += host_steps(segment, self)

    def regions(self) -> tuple[MemoryRegion, ...]:
        """All six, in the order of their numbers, none smaller than 64 bytes."""
        constants, micro_ops = self.constants.filled(), self.micro_ops.filled()
        align = self.memory.align_bytes
        size = {**self.memory.size_bytes, RegionIndex.HOST: self.host_bytes}
        arena, inputs, outputs, host = (
            max(size[region], DEVICE_ALIGN_BYTES)
            for region in (
                RegionIndex.ARENA,
                RegionIndex.INPUT,
                RegionIndex.OUTPUT,
                RegionIndex.HOST,
            )
        )
        kind = RegionKind.CONSTANTS
        return (
            MemoryRegion("constants", kind, len(constants), align, True, False, constants),
            MemoryRegion("micro-ops", kind, len(micro_ops), align, True, False, micro_ops),
            MemoryRegion("arena", RegionKind.ARENA, arena, align, True, True),
            MemoryRegion("input", RegionKind.INPUT, inputs),
            MemoryRegion("output", RegionKind.OUTPUT, outputs),
            MemoryRegion("host", RegionKind.HOST, host),
        )

    # --- Workspace of host.py ---------------------------------------------------------------------
    def tensor(self, tensor: g.Tensor) -> int:
        """The row-major view of a graph tensor."""
        return self.index[tensor.name]

    def temporary(self, tensor: g.Tensor) -> int:
        """A row-major tensor of one operator; those of other operators are in the same memory."""
        offset = self.memory.size_bytes[RegionIndex.HOST] + self.temporary_bytes
        self.temporary_bytes += rounded_up(tensor.size_bytes, DEVICE_ALIGN_BYTES)
        end = self.memory.size_bytes[RegionIndex.HOST] + self.temporary_bytes
        self.host_bytes = max(self.host_bytes, end)
        return self._view(row_view(tensor, RegionIndex.HOST, offset))

    def constant(self, name: str, value: Array, *, blocked: bool = False) -> int:
        """Content from the file, row-major, or as rows of weights stand in the device's blocks."""
        if name not in self.index:
            block = self.block if blocked else 0
            self._view(constant_view(self.named.get(name), name, value, self.constants, block))
        return self.index[name]

    def scratch(self, size_bytes: int) -> int:
        """One tensor for all; its size and place are known when all steps are."""
        self.scratch_bytes = max(self.scratch_bytes, size_bytes, 1)
        if self.scratch_view is None:
            tensor = g.Tensor("scratch of host steps", (1,), "uint8")
            self.scratch_view = self._view(row_view(tensor, RegionIndex.HOST, 0))
        return self.scratch_view

    def finish(self) -> None:
        """After the last step: puts the scratch memory behind all else of the host's."""
        if self.scratch_view is not None:
            view = self.views[self.scratch_view]
            self.views[self.scratch_view] = replace(
                view, shape=(self.scratch_bytes,), offset_bytes=self.host_bytes
            )
            self.host_bytes += rounded_up(self.scratch_bytes, DEVICE_ALIGN_BYTES)

    # --- inside -----------------------------------------------------------------------------------
    def _view(self, view: BufferView) -> int:
        self.index[view.name] = len(self.views)
        self.views.append(view)
        return self.index[view.name]

    def _device_view(self, layout: DeviceLayout) -> int:
        name = f"{layout.name} on device"
        if name not in self.index:
            offset = self.memory.addresses[layout.name].offset_bytes
            self._view(device_view(layout, name, offset))
        return self.index[name]

    def _add_external(self, region: ExternalRegion) -> None:
        """One step; its constants are inputs behind its own."""
        inputs = [self.tensor(t) for t in region.inputs]
        inputs += [
            self.constant(f"{region.name}.{name}", value)
            for name, value in region.constants.items()
        ]
        outputs = [self.tensor(t) for t in region.outputs]
        self.steps.append(
            steps.external(region.name, inputs, outputs, region.function, region.attributes)
        )

    def _add_packs(self, region: LoweredRegion) -> None:
        """Of what it reads and the host makes."""
        made = {t.name for o in region.operators for t in o.outputs}
        for layout, _, _ in region.layouts:
            if self.memory.addresses[layout.name].region == RegionIndex.CONSTANTS:
                continue
            here = (
                layout.tensor.name in made
                or self.on_device.get(layout.tensor.name) == region.device
            )
            if not here and layout.name not in self.packed and not layout.scratch:
                self.packed.add(layout.name)
                self.steps.append(self._pack(layout))

    def _add_program(self, region: LoweredRegion, scope: Scope, *, beside: bool) -> None:
        own = region.program_device
        numbers = [self._number(device) for device in (own, *region.beside_devices)]
        with scope(region):
            for program, table in region.programs(self.memory.addresses, self._next_table):
                self.micro_ops.add(table)
                number = numbers[program.device]
                is_beside = program.beside or (beside and number > 0)
                self.steps.append(replace(program, device=number, beside=is_beside))
                beside = False  # what comes behind it waits for it

    def _next_table(self) -> Address:
        return Address(RegionIndex.MICRO_OPS, self.micro_ops.end)

    def _add_unpacks(self, region: LoweredRegion) -> None:
        """Of what others read."""
        made = {t.name for o in region.operators for t in o.outputs}
        for layout, _, _ in region.layouts:
            name = layout.tensor.name
            if name in made and not layout.scratch:
                self._device_view(layout)  # also where nobody reads it: `loadstone compare` does
            if name in made & self.lifetimes.unpacked and not layout.scratch:
                self.steps.append(
                    steps.unpack(f"unpack {name}", self._device_view(layout), self.index[name])
                )
        self.on_device |= dict.fromkeys(made, region.device)

    def _number(self, device: ProgramDevice | None) -> int:
        """Of a device in the artifact; None: its own."""
        if device is None:
            return 0
        if device not in self.devices[1:]:
            self.devices.append(device)
        return self.devices.index(device, 1)

    def _pack(self, layout: DeviceLayout) -> HostStep:
        name = layout.tensor.name
        window = steps.PackWindow(layout.kernel, layout.strides, layout.pads, layout.pad_value)
        return steps.pack(
            f"pack {name}",
            self.index[name],
            self._device_view(layout),
            image_shape(layout.tensor.shape),
            window,
        )


def image_shape(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """(H, W, C) of a graph tensor as the device sees it: (N, H, W, C) as it is, (N, ..., C) with
    what is between in W."""
    if len(shape) == 4:
        return shape[1], shape[2], shape[3]
    if len(shape) == 1:
        return 1, 1, shape[0]
    return 1, prod(shape[1:-1]), shape[-1]
