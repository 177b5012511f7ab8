"""Put device programs and host steps together into one artifact: memory plan, layout changes at the
edges, order.

In:   the graph's operators as a sequence of segments: regions that back ends have lowered, and
      operators of the host.
Out:  an Artifact, and the figures of its memory plan.
Next: the artifact is saved, inspected, or run.

A tensor may stand in memory in two ways: row-major, as the host and the model's user see it, and in
a form of the device (blocked; or folded, with the taps of a first convolution in the channels).
Each form is packed once, before the first program that reads it, and unpacked once, after the last
that writes it.

    region      0 constants   1 micro-ops   2 arena     3 input    4 output   5 host
    content     weights, RQ   tables        device      row-major  row-major  row-major tensors
                operands,                   forms                             between host steps
                lookup tables

Positions in time count operators; a program occupies those of all its operators, and everything in
the arena that one of them touches through the edges of the program is alive over the whole of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from math import prod

import numpy as np

from loadstone import graph as g
from loadstone.artifact import host_step as steps
from loadstone.artifact.arena import ArenaPlan, Lifetime, plan
from loadstone.artifact.format import Artifact, DeviceProgram, HostStep
from loadstone.artifact.host import host_steps
from loadstone.artifact.memory_plan import (
    BufferView,
    DataType,
    MemoryRegion,
    RegionKind,
    ViewLayout,
)
from loadstone.backend.device import Device
from loadstone.backend.region import Address, DeviceLayout, ExternalRegion, LoweredRegion
from loadstone.errors import UnsupportedError
from loadstone.numerics import Array

__all__ = ["Deployment", "deploy"]

_CONSTANTS, _UOPS, _ARENA, _INPUT, _OUTPUT, _HOST = range(6)
_ALIGN = 64


@dataclass(frozen=True)
class Deployment:
    """The artifact and how its memory was planned."""

    artifact: Artifact
    arena: ArenaPlan
    host: ArenaPlan


@dataclass
class _Blob:
    """A constants region under construction."""

    data: bytearray = field(default_factory=bytearray)

    def add(self, content: bytes, align_bytes: int) -> int:
        align = max(align_bytes, _ALIGN)
        self.data += bytes(-len(self.data) % align)
        offset = len(self.data)
        self.data += content
        return offset

    def filled(self) -> bytes:
        """The content, zeros behind it up to the least size of a region."""
        return bytes(self.data).ljust(_ALIGN, b"\0")


def deploy(
    graph: g.Graph,
    segments: Sequence[LoweredRegion | ExternalRegion | g.Operator],
    device: Device,
    scope: Callable[[LoweredRegion], AbstractContextManager[None]] = lambda _: nullcontext(),
) -> Deployment:
    """`segments` cover the graph's operators in order. scope: for a region's build."""
    return _Deployer(graph, segments, device.align_bytes, scope).run(device)


class _Deployer:
    def __init__(
        self,
        graph: g.Graph,
        segments: Sequence[LoweredRegion | ExternalRegion | g.Operator],
        tile_align_bytes: int,
        scope: Callable[[LoweredRegion], AbstractContextManager[None]],
    ) -> None:
        self.graph = graph
        self.segments = segments
        self.scope = scope
        self.tile_align = max(tile_align_bytes, _ALIGN)
        self.constants = _Blob()
        self.uops = _Blob()
        self.tensors: list[BufferView] = []
        self.index: dict[str, int] = {}
        self.steps: list[DeviceProgram | HostStep] = []
        self.arena: dict[str, Lifetime] = {}
        self.rows: dict[str, Lifetime] = {}
        self.named = {t.name: t for o in graph.operators for t in (*o.inputs, *o.outputs)} | {
            t.name: t for t in graph.inputs
        }
        programs = [s for s in segments if not isinstance(s, g.Operator | ExternalRegion)]
        self.aliases = {name: part for s in programs for name, part in s.aliases.items()}
        in_programs = {o for s in programs for o in s.operators}
        self.on_rows = [o for o in graph.operators if o not in in_programs]
        self.on_device: set[str] = set()
        self.packed: set[str] = set()

    def run(self, device: Device) -> Deployment:
        self.find_lifetimes()
        arena = plan(list(self.arena.values()), self.tile_align)
        host = plan(list(self.rows.values()), _ALIGN)
        self.place(arena, host)
        for segment in self.segments:
            if isinstance(segment, g.Operator):
                self.steps += host_steps(segment, self)
            elif isinstance(segment, ExternalRegion):
                self.add_external(segment)
            else:
                self.add_program(segment)
        self.refuse_outputs_that_nothing_computes()
        artifact = Artifact(
            self.graph.name,
            device.fingerprint(),
            device.batch,
            self.regions(arena, host),
            tuple(self.tensors),
            tuple(self.index[t.name] for t in self.graph.inputs),
            tuple(self.index[t.name] for t in self.graph.outputs),
            tuple(self.steps),
            device.name,
        )
        return Deployment(artifact, arena, host)

    # --- lifetimes --------------------------------------------------------------------------------
    def find_lifetimes(self) -> None:
        """Row-major tensors that host steps, packs or the user touch, and all device forms."""
        position = 0
        on_device: set[str] = set()
        for segment in self.segments:
            if isinstance(segment, g.Operator | ExternalRegion):
                for t in (*segment.inputs, *segment.outputs):
                    self.use_row(t, position)
                position += 1
                continue
            end = position + len(segment.operators) - 1
            made = {t.name for o in segment.operators for t in o.outputs}
            for form, first, last in segment.layouts:
                name = form.tensor.name
                if name in made:
                    self.use_form(
                        form,
                        position + first,
                        end if self.leaves(form.tensor, segment) else position + last,
                    )
                    if self.wants_row(form.tensor):
                        self.use_row(form.tensor, end)
                else:
                    if name not in on_device:
                        self.use_row(form.tensor, position)
                    self.use_form(form, position, position + last)
            on_device |= made
            position = end + 1

    def leaves(self, tensor: g.Tensor, region: LoweredRegion) -> bool:
        """Something outside the region reads what it makes."""
        return tensor in self.graph.outputs or any(
            o not in region.operators for o in self.graph.consumers(tensor)
        )

    def wants_row(self, tensor: g.Tensor) -> bool:
        """The user, a host operator or an external region reads it."""
        return tensor in self.graph.outputs or any(
            o in self.on_rows for o in self.graph.consumers(tensor)
        )

    def use_form(self, form: DeviceLayout, first: int, last: int) -> None:
        """Alive from first to last; a part keeps its whole alive."""
        name, size, _ = form.name, form.size_bytes, 0
        while name in self.aliases:
            name, size = self.aliases[name][0], 0
        known = self.arena.get(name, Lifetime(name, size, first, last))
        self.arena[name] = Lifetime(
            name, max(size, known.size_bytes), min(first, known.first), max(last, known.last)
        )

    def use_row(self, t: g.Tensor, position: int) -> None:
        """Row-major in region `host`, unless it is an input, an output or a constant of the
        graph."""
        if (
            t not in self.graph.inputs
            and t not in self.graph.outputs
            and t.name not in self.graph.constants
        ):
            known = self.rows.get(t.name, Lifetime(t.name, t.size_bytes, position, position))
            self.rows[t.name] = Lifetime(
                t.name, t.size_bytes, min(known.first, position), max(known.last, position)
            )

    # --- places -----------------------------------------------------------------------------------
    def place(self, arena: ArenaPlan, host: ArenaPlan) -> None:
        self.io_bytes = {_INPUT: 0, _OUTPUT: 0}
        for region, group in ((_INPUT, self.graph.inputs), (_OUTPUT, self.graph.outputs)):
            for t in group:
                if t.name not in self.index:
                    self.row(t, region, self.io_bytes[region])
                    self.io_bytes[region] += -(-t.size_bytes // _ALIGN) * _ALIGN
        for name, value in self.graph.constants.items():
            self.constant(name, value)
        for name, offset in host.offset_bytes.items():
            self.row(self.named[name], _HOST, offset)
        self.host_bytes = host.size_bytes
        self.places: dict[str, Address] = {}
        for segment in self.segments:
            if isinstance(segment, g.Operator | ExternalRegion):
                continue
            for name, (value, align) in segment.constants.items():
                self.places[name] = Address(_CONSTANTS, self.constants.add(value.tobytes(), align))
            for form, _, _ in segment.layouts:
                root, shift = form.name, 0
                while root in self.aliases:
                    root, more = self.aliases[root]
                    shift += more
                self.places[form.name] = Address(_ARENA, arena.offset_bytes[root] + shift)

    def add(self, tensor: BufferView) -> int:
        self.index[tensor.name] = len(self.tensors)
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    def row(self, t: g.Tensor, region: int, offset: int) -> int:
        q = t.quantization
        scale, zero = (q.scale, q.zero_point) if q is not None else (0.0, 0)
        return self.add(
            BufferView(t.name, t.shape, DataType.of(t.dtype), region, offset, scale, zero)
        )

    def form_index(self, form: DeviceLayout) -> int:
        """The artifact's tensor of a device form."""
        name = f"{form.name} on device"
        if name in self.index:
            return self.index[name]
        q = form.tensor.quantization
        scale, zero = (q.scale, q.zero_point) if q is not None else (0.0, 0)
        offset = self.places[form.name].offset_bytes
        blocks = (form.batch_block, form.channel_block)
        return self.add(
            BufferView(
                name,
                form.shape,
                DataType.INT8,
                _ARENA,
                offset,
                scale,
                zero,
                ViewLayout.BLOCKED,
                *blocks,
            )
        )

    # --- Workspace of host.py ---------------------------------------------------------------------
    def tensor(self, tensor: g.Tensor) -> int:
        """The row-major form of a graph tensor."""
        return self.index[tensor.name]

    def temporary(self, tensor: g.Tensor) -> int:
        """A row-major tensor of one operator."""
        offset = self.host_bytes
        self.host_bytes += -(-tensor.size_bytes // _ALIGN) * _ALIGN
        return self.row(tensor, _HOST, offset)

    def constant(self, name: str, value: Array) -> int:
        """Row-major content from the file."""
        if name not in self.index:
            value = np.ascontiguousarray(value)
            offset = self.constants.add(value.tobytes(), _ALIGN)
            known = self.named.get(name)
            q = known.quantization if known is not None else None
            scale, zero = (q.scale, q.zero_point) if q is not None else (0.0, 0)
            self.add(
                BufferView(
                    name,
                    tuple(value.shape),
                    DataType.of(value.dtype),
                    _CONSTANTS,
                    offset,
                    scale,
                    zero,
                )
            )
        return self.index[name]

    # --- external regions -------------------------------------------------------------------------
    def add_external(self, region: ExternalRegion) -> None:
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

    # --- programs ---------------------------------------------------------------------------------
    def add_program(self, region: LoweredRegion) -> None:
        made = {t.name for o in region.operators for t in o.outputs}
        for form, _, _ in region.layouts:
            if form.tensor.name not in made | self.on_device and form.name not in self.packed:
                self.packed.add(form.name)
                self.pack(form)
        uops = Address(_UOPS, len(self.uops.data) + -len(self.uops.data) % _ALIGN)
        with self.scope(region):
            program, table = region.build(self.places, uops)
        self.uops.add(table, _ALIGN)
        self.steps.append(program)
        for form, _, _ in region.layouts:
            if form.tensor.name in made and self.wants_row(form.tensor):
                self.unpack(form)
        self.on_device |= made

    def pack(self, form: DeviceLayout) -> None:
        x = self.index[form.tensor.name]
        y = self.form_index(form)
        hwc = image_shape(form.tensor.shape)
        name = f"pack {form.tensor.name}"
        self.steps.append(
            steps.pack(name, x, y, hwc, form.kernel, form.strides, form.pads, form.pad_value)
        )

    def unpack(self, form: DeviceLayout) -> None:
        self.steps.append(
            steps.unpack(
                f"unpack {form.tensor.name}", self.form_index(form), self.index[form.tensor.name]
            )
        )

    def refuse_outputs_that_nothing_computes(self) -> None:
        """An output that is an input or a constant."""
        computed = {t.name for o in self.graph.operators for t in o.outputs}
        for t in self.graph.outputs:
            if t.name not in computed:
                raise UnsupportedError(
                    f"output {t.name} is computed by no operator: it is an input or a "
                    "constant of the model"
                )

    def regions(self, arena: ArenaPlan, host: ArenaPlan) -> tuple[MemoryRegion, ...]:
        """All six, in the order of their numbers, none smaller than 64 bytes."""
        align = self.tile_align

        def size(n: int) -> int:
            return max(n, _ALIGN)

        return (
            MemoryRegion(
                "constants",
                RegionKind.CONSTANTS,
                size(len(self.constants.data)),
                align,
                True,
                False,
                self.constants.filled(),
            ),
            MemoryRegion(
                "micro-ops",
                RegionKind.CONSTANTS,
                size(len(self.uops.data)),
                align,
                True,
                False,
                self.uops.filled(),
            ),
            MemoryRegion("arena", RegionKind.ARENA, size(arena.size_bytes), align, True, True),
            MemoryRegion("input", RegionKind.INPUT, size(self.io_bytes[_INPUT])),
            MemoryRegion("output", RegionKind.OUTPUT, size(self.io_bytes[_OUTPUT])),
            MemoryRegion("host", RegionKind.HOST, size(self.host_bytes)),
        )


def image_shape(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """(H, W, C) of a graph tensor as the device sees it: (N, H, W, C) as it is, (N, ..., C) with
    what is between in W."""
    if len(shape) == 4:
        return shape[1], shape[2], shape[3]
    if len(shape) == 1:
        return 1, 1, shape[0]
    return 1, prod(shape[1:-1]), shape[-1]
