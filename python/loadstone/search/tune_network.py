# SPDX-License-Identifier: Apache-2.0
"""The whole network on the simulator, with one set of choices after the other.

In:   a model file and a target; records of choices by key (vta/schedule/choices.py).
Out:  SimulatedNetwork: its tunable layers, and a NetworkTrial for each set of records.
Next: tune.py decides by it: a layer that is faster alone may hold up its neighbours.

The model is read and divided once; a trial lowers, places and encodes it again, and counts its
cycles, layer by layer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loadstone import graph as g
from loadstone.backend.request import CompileRequest
from loadstone.backend.schedule_choices import ScheduleChoices
from loadstone.backend.target import Target, resolve
from loadstone.errors import ConfigError, LoweringError
from loadstone.files import JsonObject
from loadstone.frontend import load
from loadstone.frontend.reading import WHOLE, Reading
from loadstone.partition.lowering import LoweredPartition, lower_partition
from loadstone.partition.partitioner import EagerPartitioner
from loadstone.simulator.programs import simulator_of
from loadstone.vta.device.hw_config import configuration
from loadstone.vta.region.offload import OffloadedRegion, is_done_by_addresses
from loadstone.vta.schedule.choices import layer_key

__all__ = ["NetworkLayer", "NetworkTrial", "SimulatedNetwork"]


@dataclass(frozen=True)
class NetworkLayer:
    """One operator as it is lowered. key: by which its choice is kept."""

    op: g.Operator
    from_host: bool
    key: str

    @property
    def trials_key(self) -> str:
        """By which its trials are kept: the host may fold what it packs."""
        return f"{self.key}{' packed' if self.from_host else ''}"


@dataclass(frozen=True)
class NetworkTrial:
    """cycles: of one run, all device programs. layers: cycles that belong to each, by name; they
    sum to these."""

    cycles: int
    layers: Mapping[str, int]
    lowered: LoweredPartition

    @property
    def regions(self) -> list[OffloadedRegion]:
        """Runs of operators on the device."""
        return [r for r in self.lowered.regions if isinstance(r, OffloadedRegion)]


class SimulatedNetwork:
    """One model for one target. Raises ConfigError where nothing of it can be tuned."""

    def __init__(
        self, model: str | Path | Any, target: Any, plugins: Any = None, reading: Reading = WHOLE
    ) -> None:
        self.name = Path(model).stem if isinstance(model, str | Path) else "model"
        self.target: Target = resolve(target, plugins)
        if not any(backend.schedule_digest for backend in self.target.backends):
            raise ConfigError(
                f"tune: target {self.target.device.name} has no schedules to choose: they are "
                "those of VTA and its kind (`loadstone devices`)"
            )
        self.config = configuration(self.target.device)
        module = load(model, reading)
        self.divided = EagerPartitioner(module, self.name, self.target).split()
        first = self.trial({})
        if first is None or not first.regions:
            raise ConfigError(
                f"tune: nothing of {self.name} runs on {self.config.name}: `loadstone compile "
                "--explain` says why"
            )
        self.default = first

    def trial(self, records: Mapping[str, JsonObject]) -> NetworkTrial | None:
        """The network with these choices; None where the device cannot do them together."""
        try:
            request = CompileRequest(schedules=ScheduleChoices(records) if records else None)
            lowered = lower_partition(self.divided, self.target.asked(request))
        except LoweringError:
            if not records:
                raise
            return None
        cycles = 0
        layers: dict[str, int] = {}
        for run in simulator_of(self.config).runs(lowered.deployment.artifact, trace=True):
            cycles += run.cycles
            for figures in run.layers():
                layers[figures.name] = layers.get(figures.name, 0) + figures.cycles
        return NetworkTrial(cycles, layers, lowered)

    def layers(self, trial: NetworkTrial) -> list[NetworkLayer]:
        """Those of a trial that take cycles of their own, in order."""
        return [
            NetworkLayer(
                op,
                bool(op.inputs) and op.input.name in region.host,
                layer_key(op, self.config),
            )
            for region in trial.regions
            for op in region.inside
            if not is_done_by_addresses(op, region.aliases)
        ]

    def operators(self, trial: NetworkTrial) -> Sequence[tuple[g.Operator, ...]]:
        """Of each region, before columns are folded."""
        return [tuple(region.operators) for region in trial.regions]
