# SPDX-License-Identifier: Apache-2.0
"""One layer alone on the simulator, with one choice of its schedule after the other.

In:   an operator as it is lowered, its device, LayerChoices.
Out:  a LayerTrial for each choice: exact cycles, and what no schedule could do without.
Next: tune.py asks for choices and keeps the trials; workers run `try_layer`.

The layer is lowered, placed and encoded as in a network of it alone, so that a trial takes tenths
of a second. What its neighbours do to it is found out later, in the whole network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loadstone import graph as g
from loadstone.artifact.deploy import deploy
from loadstone.artifact.format import Artifact
from loadstone.backend.schedule_choices import ScheduleChoices
from loadstone.errors import LoweringError, SimulationError, UnsupportedError
from loadstone.simulator.programs import simulator_of
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.spec import Memory
from loadstone.vta.region.offload import OffloadedRegion
from loadstone.vta.region.request import RegionRequest
from loadstone.vta.schedule.choices import LayerChoice, layer_key

__all__ = ["LayerTrial", "LayerUnit", "try_layer"]


@dataclass(frozen=True)
class LayerUnit:
    """Choices to try for one layer. from_host: whether the host packs its input, and may fold
    it."""

    op: g.Operator
    config: HwConfig
    from_host: bool
    choices: tuple[LayerChoice, ...]


@dataclass(frozen=True)
class LayerTrial:
    """cycles: of the layer alone, to its last store. step_cycles: of them, those that GEMM and ALU
    multiply, add and shift in. read_cycles, write_cycles: what the bus takes to bring inputs,
    weights and operands once, and to take the output away."""

    cycles: int
    step_cycles: int
    read_cycles: int
    write_cycles: int

    @property
    def bound(self) -> int:
        """No order of these steps takes less."""
        return max(self.step_cycles, self.read_cycles, self.write_cycles)


def try_layer(unit: LayerUnit) -> list[LayerTrial | None]:
    """A trial for each choice; None where the device cannot do it."""
    return [_try(unit, choice) for choice in unit.choices]


def _try(unit: LayerUnit, choice: LayerChoice) -> LayerTrial | None:
    records = {layer_key(unit.op, unit.config): choice.to_json()}
    try:
        region, artifact = _alone(unit, RegionRequest(ScheduleChoices(records)))
        (run,) = simulator_of(unit.config).runs(artifact, trace=True)
    except (LoweringError, UnsupportedError, SimulationError):
        return None
    figures = run.layers()
    read_bytes, write_bytes = _compulsory(region, unit)
    moved = sum(size for entry in figures for name, size in entry.bytes.items() if name != "out")
    bus_bytes = unit.config.bus_bits // 8
    return LayerTrial(
        run.cycles,
        sum(entry.step_cycles for entry in figures),
        -(-min(read_bytes, moved) // bus_bytes),
        -(-write_bytes // bus_bytes),
    )


def _alone(unit: LayerUnit, request: RegionRequest) -> tuple[OffloadedRegion, Artifact]:
    op = unit.op
    inputs = tuple({tensor.name: tensor for tensor in op.inputs}.values())
    seen = (*inputs, *op.outputs)
    graph = g.Graph(name="alone", inputs=inputs, outputs=op.outputs, operators=(op,), constants={})
    packed = inputs if unit.from_host else ()
    region = OffloadedRegion("alone", [op], packed, seen, unit.config, request)
    return region, deploy(graph, [region], unit.config).artifact


def _compulsory(region: OffloadedRegion, unit: LayerUnit) -> tuple[int, int]:
    """Bytes of every input and constant, and of the outputs."""
    tile = unit.config.tile_bytes(Memory.INP)
    written = {tensor.name for tensor in unit.op.outputs}
    sizes: Sequence[tuple[str, int]] = [
        (layout.name, layout.size_bytes) for layout, _, _ in region.layouts if not layout.scratch
    ]
    read = sum(size for name, size in sizes if name not in written)
    read += sum(array.nbytes for array, _ in region.constants.values())
    stored = sum(size for name, size in sizes if name in written)
    return max(read, tile), stored
