# SPDX-License-Identifier: Apache-2.0
"""Layers whose numbers depend on the device's speed: a token is missing, or at the wrong place.

In:   an artifact.
Out:  LayerRace: two instructions, a place that both access, and the layers that they belong to.
Next: compare.py's command prints the first; docs/debug.md.

Where tokens permit several orders, a simulator and a board may take different ones, and both
results may happen to be right. Values therefore decide nothing: the device's simulator finds races
by the order that the tokens define, at any speed.
"""

from __future__ import annotations

from dataclasses import dataclass

from loadstone.artifact.format import Artifact, ProgramStep
from loadstone.simulator.programs import own_simulator

__all__ = ["LayerRace", "races"]


@dataclass(frozen=True)
class LayerRace:
    """layer, other: the layers of the later instruction, and of the one with which it races; text
    names both instructions."""

    layer: str
    other: str
    step: int
    text: str


def races(artifact: Artifact) -> list[LayerRace]:
    """The races in the order in which they occur; empty for an artifact without programs. Raises
    SimulationError for a program that does not reach its FINISH."""
    if not artifact.programs_of(0):
        return []
    found = []
    for race in own_simulator(artifact).races(artifact):
        program = artifact.steps[race.number]
        assert isinstance(program, ProgramStep)
        layer, other = (_layer(program, insn) for insn in (race.insn, race.other))
        found.append(LayerRace(layer, other, race.number, race.text))
    return found


def _layer(program: ProgramStep, insn: int) -> str:
    """The layer of an instruction; the program's name for an instruction of no layer."""
    for layer in program.layers:
        if layer.first <= insn < layer.first + layer.count:
            return layer.name
    return program.name
