# SPDX-License-Identifier: Apache-2.0
"""The whole network on the simulator, with one set of choices after the other.

In:   a model file and a target; records of choices by key (vta/schedule/choices.py).
Out:  SimulatedNetwork: its tunable layers, and a NetworkTrial for each set of records.
Next: tune.py decides by it: a layer that is faster alone may hold up its neighbours.

The model is read and divided once; a trial lowers, places and encodes it again, and counts its
cycles, layer by layer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from inspect import getfile
from pathlib import Path
from typing import Any

from loadstone import graph as g
from loadstone.backend.builtin import is_builtin
from loadstone.backend.interface import Backend
from loadstone.backend.request import CompileRequest
from loadstone.backend.schedule_choices import ScheduleChoices
from loadstone.backend.space import space_key
from loadstone.backend.target import Target, resolve
from loadstone.errors import ConfigError, LoweringError
from loadstone.files import JsonObject
from loadstone.frontend import load
from loadstone.frontend.reading import WHOLE, Reading
from loadstone.partition.lowering import LoweredPartition, lower_partition
from loadstone.partition.partitioner import EagerPartitioner
from loadstone.search.tune_layer import LayerTrial, LayerUnit, try_layer
from loadstone.search.tune_space import SpaceChoice, SpaceUnit, space_choices, try_space
from loadstone.search.tune_study import ScheduleChoice
from loadstone.search.workers import Pool
from loadstone.simulator.programs import program_runs
from loadstone.vta.device.hw_config import configuration
from loadstone.vta.region.addresses import is_done_by_addresses
from loadstone.vta.region.offload import OffloadedRegion
from loadstone.vta.region.schedule_space import layer_choices
from loadstone.vta.schedule.choices import LayerChoice, layer_key

__all__ = ["NetworkLayer", "NetworkTrial", "SimulatedNetwork"]


@dataclass(frozen=True)
class NetworkLayer:
    """One operator as it is lowered. key: by which its choice is kept. backend: the plug-in's; None
    for a VTA. source: of the plug-in, as a digest."""

    op: g.Operator
    from_host: bool
    key: str
    backend: Backend | None = None
    source: str = ""

    @property
    def trials_key(self) -> str:
        """By which its trials are kept: the host may fold what it packs, and a plug-in may change
        its mind."""
        return f"{self.key}{' packed' if self.from_host else ''}{self.source}"

    @property
    def read(self) -> Callable[[JsonObject, str], ScheduleChoice]:
        """What makes a choice of its record."""
        return LayerChoice.from_json if self.backend is None else SpaceChoice.from_json


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
    """One model for one target. config: of its VTA; None where it has none. Raises ConfigError
    where nothing of it can be tuned."""

    def __init__(
        self, model: str | Path | Any, target: Any, plugins: Any = None, reading: Reading = WHOLE
    ) -> None:
        self.name = Path(model).stem if isinstance(model, str | Path) else "model"
        self.target: Target = resolve(target, plugins)
        self.target.refuse_several("tune searches schedules")
        self.folders = () if plugins is None else plugins.folders
        able = [backend for backend in self.target.backends if backend.schedule_digest]
        if not able:
            every = ", ".join(backend.name for backend in self.target.backends)
            raise ConfigError(
                f"tune: {every} has no schedules to choose: a VTA has, and a plug-in whose back "
                "end defines `space` (docs/tune.md)"
            )
        device = self.target.device
        self.config = configuration(device) if is_builtin(device) else None
        names = [self.config.name] if self.config is not None else []
        self.device_name = ",".join([*names, *(b.name for b in able if b.device is None)])
        self.digest = "+".join(backend.schedule_digest for backend in able)
        module = load(model, reading)
        self.divided = EagerPartitioner(module, self.name, self.target).split()
        first = self.trial({})
        if first is None or not self.layers(first):
            raise ConfigError(
                f"tune: nothing of {self.name} runs on {self.device_name} and has choices: "
                "`loadstone compile --explain` says why"
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
        artifact = lowered.deployment.artifact
        for run in program_runs(artifact, self.target.device, trace=True).values():
            cycles += run.cycles
            for figures in run.layers():
                layers[figures.name] = layers.get(figures.name, 0) + figures.cycles
        return NetworkTrial(cycles, layers, lowered)

    def layers(self, trial: NetworkTrial) -> list[NetworkLayer]:
        """Those of a trial that take cycles of their own and have choices, in order, a VTA's
        first."""
        own = [
            NetworkLayer(
                op,
                bool(op.inputs) and op.input.name in region.host,
                layer_key(op, region.config),
            )
            for region in trial.regions
            for op in region.inside
            if not is_done_by_addresses(op, region.aliases)
        ]
        by_name = {backend.name: backend for backend in self.target.backends}
        others = [
            NetworkLayer(op, False, space_key(backend, op), backend, self._source(backend))
            for segment in trial.lowered.segments
            if (backend := by_name[segment.backend]).device is None and backend.schedule_digest
            for op in segment.operators
            if backend.space(op)
        ]
        return [*own, *others]

    def _source(self, backend: Backend) -> str:
        """Of the plug-in's file: another one may make other programs."""
        text = Path(getfile(type(backend))).read_bytes()
        return f" {sha256(text).hexdigest()[:16]}"

    def choices(self, layer: NetworkLayer, most: int) -> Sequence[ScheduleChoice]:
        """To try for a layer; the first is what it has without any."""
        if layer.backend is not None:
            return space_choices(layer.backend.space(layer.op), most)
        assert self.config is not None
        return layer_choices(layer.op, self.config, layer.from_host, most)

    def try_all(
        self,
        pool: Pool,
        asked: Sequence[tuple[NetworkLayer, Sequence[ScheduleChoice]]],
        keep: Callable[[int, list[LayerTrial | None]], None],
    ) -> None:
        """Tries choices of layers alone, on the workers. keep: is given the place in `asked`, and a
        trial for each choice."""
        kinds = ((True, try_layer, self._layer_unit), (False, try_space, self._space_unit))
        for of_vta, function, unit in kinds:
            wanted = [k for k, (one, _) in enumerate(asked) if (one.backend is None) is of_vta]

            def tell(n: int, trials: list[LayerTrial | None], at: list[int] = wanted) -> None:
                keep(at[n], trials)

            if wanted:
                pool.map(function, [unit(*asked[k]) for k in wanted], tell)

    def _layer_unit(self, layer: NetworkLayer, batch: Sequence[ScheduleChoice]) -> LayerUnit:
        assert self.config is not None
        own = tuple(choice for choice in batch if isinstance(choice, LayerChoice))
        return LayerUnit(layer.op, self.config, layer.from_host, own)

    def _space_unit(self, layer: NetworkLayer, batch: Sequence[ScheduleChoice]) -> SpaceUnit:
        backend = layer.backend
        assert backend is not None
        values = tuple(backend.attributes.items())
        own = tuple(choice for choice in batch if isinstance(choice, SpaceChoice))
        return SpaceUnit(layer.op, self.folders, backend.name, values, own)
