# SPDX-License-Identifier: Apache-2.0
"""A segment of several equal VTAs that work on it together.

In:   graph operators in execution order, as for one device; how many devices there are.
Out:  CoresRegion: programs for all of them, in phases that start together.
Next: artifact/deploy.py makes steps of them; runtime/accelerator.c starts side by side what no data
      tie.

Tensors stand in memory once, in the layout that all devices read, and are handed on there. A layer
is computed whole by one device, or in parts, by rows or by blocks of channels (parts.py); what is
best for all layers together is chosen in dealing.py. Memory is planned as if a phase were one
moment: whatever one of its layers touches is alive for all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from loadstone import graph as g
from loadstone.backend.device import ProgramDevice, ProgramStep
from loadstone.backend.region import Address, DeviceLayout
from loadstone.errors import LoweringError
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.spec import Memory
from loadstone.vta.operators import lower_operator
from loadstone.vta.passes.program import UOP_TENSOR, LayerOperation, VtaProgram
from loadstone.vta.region.constant_pool import ConstantPool
from loadstone.vta.region.dealing import deal, share_of
from loadstone.vta.region.folded_input import on_folded
from loadstone.vta.region.offload import OffloadedRegion
from loadstone.vta.region.parts import LayerPart, channels_of, rows_of
from loadstone.vta.region.phases import Claim, Way, verify_phases
from loadstone.vta.region.request import RegionRequest
from loadstone.vta.region.views import on_whole
from loadstone.vta.schedule.choices import NO_LAYER_CHOICE
from loadstone.vta.stream.operations import Operation, TileLoad

__all__ = ["CoresRegion"]


class CoresRegion(OffloadedRegion):
    """Lowered for one device first, and dealt out."""

    takes_turns: ClassVar[bool] = False

    def __init__(
        self,
        name: str,
        operators: Sequence[g.Operator],
        from_host: Sequence[g.Tensor],
        seen: Sequence[g.Tensor],
        cores: Sequence[HwConfig],
        request: RegionRequest | None = None,
    ) -> None:
        """cores: the devices, of which the first is the artifact's own."""
        super().__init__(name, operators, from_host, seen, cores[0], request)
        self.cores = tuple(cores)
        self._pool = ConstantPool()
        self._tensors = self._tensor_places()
        ways = [self._ways(operator) for operator in self.inside]
        self.phases = deal(ways, len(cores), shared_bus=bool(cores[-1].bus_of))
        whole = Claim.of_all(way[0].shares[0].writes for way in ways if way[0].shares)
        verify_phases(self.phases, len(ways), whole)
        used = {
            operation.dram.tensor
            for phase in self.phases
            for _, way in phase
            for share in way.shares.values()
            for operation in share.operations
            if type(operation) is TileLoad
        }
        self.constants = {
            name: (np.ascontiguousarray(tiles), self.config.tile_bytes(Memory(memory)))
            for name, (memory, tiles) in self._pool.constants.items()
            if name in used
        }

    @property
    def beside_devices(self) -> Sequence[ProgramDevice]:
        """All but the first."""
        return [ProgramDevice.of(core) for core in self.cores[1:]]

    @property
    def layouts(self) -> Sequence[tuple[DeviceLayout, int, int]]:
        """Alive from the first layer of a phase to the last one of another."""
        spans = [(phase[0][0], phase[-1][0]) for phase in self.phases]
        first = [begin for begin, end in spans for _ in range(begin, end + 1)]
        last = [end for begin, end in spans for _ in range(begin, end + 1)]
        return [(layout, first[a], last[b]) for layout, a, b in super().layouts]

    def programs(
        self, addresses: Mapping[str, Address], uops: Callable[[], Address]
    ) -> Iterator[tuple[ProgramStep, bytes]]:
        """Of each phase those of its devices, which may start together."""
        self._programs.clear()
        zero_tiles = self._pool.zero_tiles()
        for number, phase in enumerate(self.phases, 1):
            is_first = True
            for device in range(len(self.cores)):
                operations: list[LayerOperation] = [
                    (self.inside[layer].name, operation)
                    for layer, way in phase
                    if device in way.shares
                    for operation in way.shares[device].operations
                ]
                if not operations:
                    continue
                unbuilt = VtaProgram(
                    self.config,
                    {**addresses, UOP_TENSOR: uops()},
                    operations,
                    choice=self.choice,
                    zero_tiles=zero_tiles,
                )
                name = f"{self.name}.{number} on {self.cores[device].name}"
                program, table = self._built(name, unbuilt)
                yield replace(program, device=device, beside=not is_first), table
                is_first = False

    # --- ways to compute a layer ------------------------------------------------------------------
    def _ways(self, operator: g.Operator) -> list[Way]:
        whole = self._lowered[operator.name]
        if whole is None:  # addresses do it
            return [Way("nothing", {})]
        operations = list(whole.operations)
        if self._folded(operator) is not None:
            operations = on_folded(operator, operations)
        share = share_of(self._pool.kept(whole.constants, operations), self._tensors, self.config)
        devices = len(self.cores)
        ways = [Way("whole", {device: share}) for device in range(devices)]
        for count in sorted({devices, *(k for k in (2,) if k < devices)}, reverse=True):
            for divide, extent in self._axes(operator):
                made = self._divided(operator, divide, extent, count)
                if made is not None:
                    ways.append(made)
        return ways

    def _axes(self, operator: g.Operator) -> Iterator[tuple[Callable[..., LayerPart | None], int]]:
        shape = operator.output.shape
        if len(shape) == 4:
            yield rows_of, shape[1]
        channels = shape[-1] // getattr(operator, "planes", 1)
        yield channels_of, -(-channels // self.config.block)

    def _divided(
        self, operator: g.Operator, divide: Callable[..., LayerPart | None], extent: int, count: int
    ) -> Way | None:
        """In `count` parts of about one size; None where there are fewer, or one cannot be made."""
        if extent < count:
            return None
        folded = self._folded(operator)
        shares = {}
        for device in range(count):
            begin, end = extent * device // count, extent * (device + 1) // count
            part = divide(operator, begin, end, self.config, folded)
            if part is None:
                return None
            try:
                operations = self._part_operations(operator, part)
                shares[device] = share_of(operations, self._tensors, self.config)
            except LoweringError:  # fits no scratchpad, or its loads have no form on the whole
                return None
        return Way(f"{divide.__name__} {extent} by {count}", shares)

    def _part_operations(self, operator: g.Operator, part: LayerPart) -> list[Operation]:
        request = replace(self.request.of_layer(operator, self.config), choice=NO_LAYER_CHOICE)
        lowered = lower_operator(part.operator, self.config, part.folded, request)
        if lowered.scratch:
            raise LoweringError("a part needs memory of its own")
        whole = self._lowered[operator.name]
        assert whole is not None, "what addresses do is not divided"
        operations = on_whole(lowered.operations, part.views)
        if part.folded is not None:
            operations = on_folded(operator, operations)
        return self._pool.kept(lowered.constants, operations, whole.constants)

    def _tensor_places(self) -> dict[str, tuple[str, int, int]]:
        """As share_of takes them."""
        inp, acc = map(self.config.tile_bytes, (Memory.INP, Memory.ACC))
        tile_bytes, tiles = {}, {}
        for layout, _, _ in super().layouts:
            tile_bytes[layout.name] = acc if layout.dtype == "int32" else inp
            tiles[layout.name] = layout.size_bytes // tile_bytes[layout.name]
        found = {}
        for name in tiles:
            whole, offset = name, 0
            while whole in self.aliases:
                whole, more = self.aliases[whole]
                offset += more
            found[name] = whole, offset // tile_bytes[whole], tiles[whole]
        return found
