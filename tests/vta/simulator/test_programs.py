# SPDX-License-Identifier: Apache-2.0
"""vta/simulator/programs.py: VTA behind the interface of every simulator."""

from __future__ import annotations

from perfetto.protos.perfetto.trace import perfetto_trace_pb2

from loadstone.vta.device.hw_config import load_config
from loadstone.vta.simulator.layers import BOUNDS
from loadstone.vta.simulator.profile import profile
from loadstone.vta.simulator.programs import VtaSimulator
from tests.sample_model import dense_model

CONFIG = load_config("vtaq-1x16x16")


def test_every_instruction_is_in_the_trace() -> None:
    """Read with Perfetto's own schema."""
    artifact = dense_model(CONFIG).artifact
    trace = perfetto_trace_pb2.Trace()
    trace.ParseFromString(VtaSimulator(CONFIG).trace(artifact))
    names = [p.track_event.name for p in trace.packet if p.track_event.name]
    assert len(names) == len(artifact.programs[0])


def test_a_run_with_a_trace_is_the_profile() -> None:
    artifact = dense_model(CONFIG).artifact
    (run,) = VtaSimulator(CONFIG).runs(artifact, trace=True)
    (entry,) = profile(artifact, CONFIG)
    assert (run.name, run.cycles) == (entry.program.name, entry.result.cycles)
    assert run.facts.bounds == BOUNDS
    assert sum(layer.cycles for layer in run.layers()) == run.cycles
    timeline = run.timeline(artifact)
    assert sorted(time.insn for time in timeline.instructions) == list(range(len(entry.program)))
    assert {piece.memory for piece in timeline.scratchpads} <= set(timeline.memories)
    assert [run.cycles] == [one.cycles for one in VtaSimulator(CONFIG).runs(artifact)]


def test_further_programs_are_another_simulators() -> None:
    artifact = dense_model(CONFIG).artifact
    assert [step.device for step in VtaSimulator(CONFIG).steps(artifact)] == [CONFIG.name]
    assert VtaSimulator(CONFIG, 1).steps(artifact) == []
