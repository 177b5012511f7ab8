# SPDX-License-Identifier: Apache-2.0
"""One layer of a plug-in's accelerator alone on the simulator, with one choice after the other.

In:   an operator, the back end (as its plug-in's folders, its name and attributes), SpaceChoices.
Out:  a LayerTrial for each choice.
Next: tune.py asks for choices and keeps the trials; workers run `try_space`.

A worker loads the plug-in itself: what it defines cannot be sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, product

from loadstone import graph as g
from loadstone.artifact.deploy import deploy
from loadstone.backend.device import NO_DEVICE
from loadstone.backend.interface import Backend, Segment
from loadstone.backend.plugins import load_plugins
from loadstone.backend.region import LoweredRegion
from loadstone.backend.request import CompileRequest
from loadstone.backend.schedule_choices import ScheduleChoices
from loadstone.backend.scope import within
from loadstone.backend.space import space_key
from loadstone.errors import (
    ConfigError,
    EncodingError,
    LoweringError,
    SimulationError,
    UnsupportedError,
)
from loadstone.files import JsonObject
from loadstone.search.tune_layer import LayerTrial
from loadstone.simulator.programs import program_runs

__all__ = ["SpaceChoice", "SpaceUnit", "space_choices", "try_space"]


@dataclass(frozen=True)
class SpaceChoice:
    """values: (name, value), of each name of the operator's space; none: the back end's own."""

    values: tuple[tuple[str, int | str], ...] = ()

    def to_json(self) -> JsonObject:
        """An empty object is the back end's own choice."""
        return dict(self.values)

    @staticmethod
    def from_json(record: JsonObject, where: str) -> SpaceChoice:
        """Raises ConfigError for what is no such record."""
        for name, value in record.items():
            if not isinstance(value, int | str):
                raise ConfigError(f"{where}: {name} {value!r} is neither a number nor a word")
        return SpaceChoice(tuple(record.items()))


@dataclass(frozen=True)
class SpaceUnit:
    """Choices to try for one layer. folders: of plug-ins besides the installed ones."""

    op: g.Operator
    folders: tuple[str, ...]
    backend: str
    attributes: tuple[tuple[str, int | str], ...]
    choices: tuple[SpaceChoice, ...]


def space_choices(space: Mapping[str, Sequence[int | str]], most: int) -> list[SpaceChoice]:
    """The back end's own choice, then the combinations in their order; at most so many."""
    pairs = ([(name, value) for value in values] for name, values in space.items())
    every = (SpaceChoice(values) for values in product(*pairs) if values)
    return [SpaceChoice(), *islice(every, most - 1)]


def try_space(unit: SpaceUnit) -> list[LayerTrial | None]:
    """A trial for each choice; None where the device cannot do it. Raises BackendError for a
    mistake of the plug-in."""
    backend = _backend(unit.folders, unit.backend, unit.attributes)
    return [_try(backend, unit.op, choice) for choice in unit.choices]


@lru_cache(maxsize=8)
def _backend(
    folders: tuple[str, ...], name: str, attributes: tuple[tuple[str, int | str], ...]
) -> Backend:
    return load_plugins(folders).backends[name](**dict(attributes))


def _try(backend: Backend, op: g.Operator, choice: SpaceChoice) -> LayerTrial | None:
    records = {space_key(backend, op): choice.to_json()} if choice.values else {}
    asked = backend.asked(CompileRequest(schedules=ScheduleChoices(records)))
    inputs = tuple({tensor.name: tensor for tensor in op.inputs}.values())
    graph = g.Graph(name="alone", inputs=inputs, outputs=op.outputs, operators=(op,), constants={})
    segment = Segment("alone", backend.name, graph, (op,), inputs, inputs, op.outputs)
    try:
        with within(asked, f"lowering of {op.name} with {dict(choice.values)}"):
            region = asked.lower(segment)
        assert isinstance(region, LoweredRegion), "what has a space has programs"
        artifact = deploy(graph, [region], NO_DEVICE).artifact
        (run,) = program_runs(artifact, NO_DEVICE, trace=True).values()
    except (EncodingError, LoweringError, SimulationError, UnsupportedError):
        return None
    (layer,) = run.layers()
    return LayerTrial(run.cycles, layer.step_cycles, layer.best_cycles or 0, 0)
