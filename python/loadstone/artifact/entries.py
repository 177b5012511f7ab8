# SPDX-License-Identifier: Apache-2.0
"""Entries: several functions in one artifact, which share constants, states and memory.

In:   an artifact for each, deployed one after the other with the same Contents (deploy.py).
Out:  one artifact: steps, tensors, inputs and outputs one behind the other, each region once.
Next: runtime/entries.c finds an entry's part of them; content.py takes it out again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from loadstone.artifact.content import ModelEntry
from loadstone.artifact.deploy import Contents, Deployment
from loadstone.artifact.format import (
    Artifact,
    BufferView,
    HostStep,
    MemoryRegion,
    ProgramStep,
    RegionKind,
)
from loadstone.artifact.memory_plan import DEVICE_ALIGN_BYTES
from loadstone.errors import ConfigError, VerificationError

__all__ = ["joined", "with_others"]


def with_others(
    first: Deployment,
    names: Sequence[str],
    deploy: Callable[[str, Contents], Deployment],
    contents: Contents,
) -> Deployment:
    """The first entry with the others, and the memory plans of that which needs most. names: of all
    of them. deploy: makes another one, by its name, with what those before it have brought;
    contents: what the first has."""
    made = {names[0]: first}
    for name in names[1:]:
        contents = Contents(contents)
        made[name] = deploy(name, contents)
    return Deployment(
        joined({name: entry.artifact for name, entry in made.items()}),
        max((entry.arena for entry in made.values()), key=lambda plan: plan.size_bytes),
        max((entry.host for entry in made.values()), key=lambda plan: plan.size_bytes),
    )


def joined(entries: Mapping[str, Artifact]) -> Artifact:
    """entries: in the order in which they were deployed; the first runs where nobody names one.
    Their activations lie in the same memory: one runs at a time. Raises ConfigError where two of
    them do not have the same states, or the same devices."""
    every = list(entries.values())
    first = every[0]
    for name, other in entries.items():
        if _states(other) != _states(first):
            raise ConfigError(
                f"model {first.name!r}: entry {name!r} has other states than entry "
                f"{next(iter(entries))!r}: entries share them"
            )
        if other.devices != first.devices:
            raise ConfigError(
                f"model {first.name!r}: entry {name!r} has programs of other devices than entry "
                f"{next(iter(entries))!r}: name one device"
            )
    if len({(a.samples, len(a.regions)) for a in every}) != 1:
        raise VerificationError("entries", "they differ in samples or regions", first.name)
    tensors, steps = list[BufferView](), list[ProgramStep | HostStep]()
    inputs, outputs = list[int](), list[int]()
    for artifact in every:
        behind = len(tensors)
        tensors += artifact.tensors
        inputs += [behind + index for index in artifact.inputs]
        outputs += [behind + index for index in artifact.outputs]
        steps += [_moved(step, behind) for step in artifact.steps]
    return replace(
        first,
        regions=tuple(_region([a.regions[k] for a in every]) for k in range(len(first.regions))),
        tensors=tuple(tensors),
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        steps=tuple(steps),
        entries=tuple(
            ModelEntry(name, len(a.steps), len(a.inputs), len(a.outputs))
            for name, a in entries.items()
        ),
    )


def _states(artifact: Artifact) -> object:
    """Everything of them, without the order of tensors."""
    numbers = [k for k, r in enumerate(artifact.regions) if r.kind == RegionKind.STATE]
    return (
        [artifact.regions[k] for k in numbers],
        {(t.name, t) for t in artifact.tensors if t.region in numbers},
    )


def _region(each: Sequence[MemoryRegion]) -> MemoryRegion:
    """One region for all entries: constants have been collected one behind the other."""
    last = each[-1]
    if last.kind == RegionKind.CONSTANTS:
        if not all(last.data.startswith(_content(region)) for region in each):
            raise VerificationError("entries", "they disagree about constants", last.name)
        return last
    return replace(
        last,
        size_bytes=max(region.size_bytes for region in each),
        align_bytes=max(region.align_bytes for region in each),
    )


def _content(region: MemoryRegion) -> bytes:
    """Without what fills a region up to the least size of one."""
    return region.data if region.size_bytes > DEVICE_ALIGN_BYTES else region.data.rstrip(b"\0")


def _moved(step: ProgramStep | HostStep, behind: int) -> ProgramStep | HostStep:
    """The step with the numbers that its tensors have in the whole."""
    if isinstance(step, ProgramStep):
        return step
    return replace(
        step,
        inputs=tuple(behind + index for index in step.inputs),
        outputs=tuple(behind + index for index in step.outputs),
    )
