# SPDX-License-Identifier: Apache-2.0
"""simulator/interface.py: what a simulator that tells no more than it must is taken for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from loadstone.artifact.format import Artifact
from loadstone.errors import SimulationError
from loadstone.simulator.interface import (
    LayerFigures,
    ProgramRun,
    ProgramSimulator,
    SimulatedStep,
)
from tests.sample_model import copy_model


class _Run(ProgramRun):
    def layers(self) -> list[LayerFigures]:
        return [LayerFigures("copy", 4, self.cycles, 3)]


class _Least(ProgramSimulator):
    def steps(self, artifact: Artifact) -> list[SimulatedStep]:
        return [SimulatedStep(0, "npu", 100, ())]

    def runs(self, artifact: Artifact, *, trace: bool = False) -> Iterator[_Run]:
        yield _Run(0, "run", "npu", 100, 7)

    def trace(self, artifact: Artifact) -> bytes:
        return b""


def test_what_is_not_told_is_empty() -> None:
    model = copy_model()
    (run,) = _Least().runs(model)
    assert (run.facts, run.arena(model), run.timeline(model)) == (None, (), None)
    (layer,) = run.layers()
    assert (layer.cycles, layer.bound, layer.kind, layer.best_cycles) == (7, "", "program", None)


def test_a_bound_is_what_most_cycles_were_spent_on() -> None:
    spent = {"multipliers": 3, "store": 5, "fetch": 1}
    assert LayerFigures("layer", 1, 9, 3, spent_cycles=spent).bound == "store"


def test_a_program_that_cannot_stop_runs_as_a_whole() -> None:
    model = copy_model()
    (program,) = model.programs
    least = _Least()
    assert list(least.layer_stores(program)) == list(least.races(model)) == []
    assert dict(least.memory_behind(program, model, {}, {})) == {}
    with pytest.raises(SimulationError, match="'copy' runs as a whole"):
        least.without_stores(program, 0)
