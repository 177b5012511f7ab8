# SPDX-License-Identifier: Apache-2.0
"""Layers whose numbers depend on how fast the device is: a token is missing, or at the wrong place.

In:   an artifact.
Out:  LayerRace: two instructions, a place that both touch, and the layers that they belong to.
Next: compare.py's command prints the first; docs/debug.md.

A simulator takes one order where tokens leave several, and a board another: what both compute may
be right today. So this is not decided by values; the device's simulator decides it by the
order that tokens make, whatever the speed.
"""

from __future__ import annotations

from dataclasses import dataclass

from loadstone.artifact.format import Artifact, ProgramStep
from loadstone.simulator.programs import own_simulator

__all__ = ["LayerRace", "races"]


@dataclass(frozen=True)
class LayerRace:
    """layer, other: of the instruction that came later, and of the one it races with; text names
    both."""

    layer: str
    other: str
    step: int
    text: str


def races(artifact: Artifact) -> list[LayerRace]:
    """In the order in which they are met; empty for an artifact without programs. Raises
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
    """The layer of an instruction; the program's name for one of none."""
    for layer in program.layers:
        if layer.first <= insn < layer.first + layer.count:
            return layer.name
    return program.name
