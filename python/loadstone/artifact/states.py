# SPDX-License-Identifier: Apache-2.0
"""State: tensors that live from one run to the next, where a model has an input and an output for
each.

In:   an artifact; inputs by name, each with the output that is its next value.
Out:  an artifact without these inputs and outputs: their memory is a region of kind `state`, which
      a last step copies the new values to.
Next: runtime/session.c fills the region when a session opens, and on lds_session_reset.

A state whose next value is itself with rows written into it (KEEP_ROWS) is written in place:
nothing is copied. A state that a quantized network has in float32, quantized where it comes in and
dequantized where it goes out, on one grid, is kept as its integers: both steps go.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from loadstone.artifact.format import (
    Artifact,
    BufferView,
    HostStep,
    MemoryRegion,
    RegionKind,
)
from loadstone.artifact.host_step import HostOpcode, Strided, copy
from loadstone.artifact.memory_plan import DEVICE_ALIGN_BYTES, MAX_RANK, DataType
from loadstone.errors import ConfigError

__all__ = ["with_states"]


def with_states(artifact: Artifact, states: Mapping[str, str], own: Sequence[str] = ()) -> Artifact:
    """states: input -> output. They begin as real zeros: as the zero point where they are
    quantized. own: texts of the model's own states (frontend/reading.STATES), with what they begin
    with. Raises ConfigError for names that the model does not have, and for pairs of other types,
    shapes or quantizations."""
    found, begins = _own_states(artifact, own)
    states = {**found, **states}
    if not states:
        return artifact
    inputs = {artifact.tensors[index].name: index for index in artifact.inputs}
    outputs = {artifact.tensors[index].name: index for index in artifact.outputs}
    tensors, content, steps = list(artifact.tensors), bytearray(), list(artifact.steps)
    used: set[str] = set()
    for source, target in states.items():
        before = _found(inputs, source, "input", artifact.name)
        after = _found(outputs, target, "output", artifact.name)
        if target in used:
            raise ConfigError(f"state {source}={target}: {target} is another state's output")
        used.add(target)
        _check(tensors[before], tensors[after])
        begin = begins.get(source)
        carried = None if begin else _as_integers(tensors, steps, before, after)
        tensors[before] = replace(
            tensors[before], region=len(artifact.regions), offset_bytes=len(content)
        )
        content += begin or _zeros(tensors[before])
        content += bytes(-len(content) % DEVICE_ALIGN_BYTES)
        if (copied := _kept_rows(steps, before, after)) is not None:
            tensors[after] = replace(tensors[before], name=tensors[after].name)
            del steps[copied]
            continue
        steps.insert(
            len(steps) if carried is None else carried, _carry(tensors[after], before, after)
        )
    kept = [index for name, index in inputs.items() if name not in states]
    left = [index for name, index in outputs.items() if name not in used]
    if not left:
        raise ConfigError(
            f"model {artifact.name!r}: every output is a state: nobody reads a result"
        )
    region = MemoryRegion(
        "state",
        RegionKind.STATE,
        len(content),
        data=bytes(content) if any(content) else b"",
    )
    return replace(
        artifact,
        regions=(*(_fitted(own, k, tensors) for k, own in enumerate(artifact.regions)), region),
        tensors=tuple(tensors),
        inputs=tuple(kept),
        outputs=tuple(left),
        steps=tuple(steps),
    )


def _own_states(
    artifact: Artifact, texts: Sequence[str]
) -> tuple[dict[str, str], dict[str, bytes]]:
    """The pairs by name, and what those begin with that do not begin as zeros."""
    states, begins = {}, {}
    for entry in map(json.loads, texts):
        source = artifact.tensors[artifact.inputs[entry["input"]]].name
        states[source] = artifact.tensors[artifact.outputs[entry["output"]]].name
        if entry["begin"]:
            begins[source] = bytes.fromhex(entry["begin"])
    return states, begins


def _found(known: Mapping[str, int], name: str, kind: str, model: str) -> int:
    if name not in known:
        raise ConfigError(
            f"state: {name!r} is no {kind} of model {model!r}: it has {', '.join(known)}"
        )
    return known[name]


def _check(before: BufferView, after: BufferView) -> None:
    def described(view: BufferView) -> str:
        grid = f", scale {view.scale:g}, zero point {view.zero_point}" if view.scale else ""
        return f"{view.dtype.name.lower()} {list(view.shape)}{grid}"

    if described(before) != described(after) or before.scale != after.scale:
        raise ConfigError(
            f"state {before.name}={after.name}: the input is {described(before)}, the output "
            f"{described(after)}: a state is one tensor"
        )


def _as_integers(
    tensors: list[BufferView], steps: list[Any], before: int, after: int
) -> int | None:
    """Makes both tensors those behind the quantize of one and before the dequantize of the other,
    in place, and takes these steps out. Where the next value is ready: the number of the step
    before which it is to be kept. None where nothing was changed."""
    found = _edges(tensors, steps, before, after)
    if found is None:
        return None
    enters, leaves = found
    inner, outer = steps[enters].outputs[0], steps[leaves].inputs[0]
    for index, source in ((before, inner), (after, outer)):
        tensors[index] = replace(tensors[source], name=tensors[index].name)
    del steps[leaves], steps[enters]
    for k, step in enumerate(steps):
        if inner in _reads(step):
            own = tuple(before if index == inner else index for index in step.inputs)
            steps[k] = replace(step, inputs=own)
    return leaves - 1


def _kept_rows(steps: Sequence[Any], before: int, after: int) -> int | None:
    """The number of the step that copies the state to its next value, where that is the only one
    that reads the state, and what writes the next value behind it only keeps rows. None where it is
    otherwise: the state is copied."""
    readers = [k for k, step in enumerate(steps) if before in (*_reads(step), *_writes(step))]
    writers = [k for k, step in enumerate(steps) if after in _writes(step)]
    first = [k for k, step in enumerate(steps) if after in (*_reads(step), *_writes(step))][:1]
    if len(readers) != 1 or readers != first or len(writers) < 2:
        return None
    copied, *kept = (steps[k].opcode for k in writers)
    only_rows = copied == HostOpcode.COPY and set(kept) == {HostOpcode.KEEP_ROWS}
    return readers[0] if only_rows and _is_whole(steps[readers[0]]) else None


def _is_whole(step: HostStep) -> bool:
    """Whether a copy moves each element to its own place."""
    extents = [step.parameters[f"extent_{k}"] for k in range(MAX_RANK)]
    sides = [[step.parameters[f"{s}_stride_{k}"] for k in range(MAX_RANK)] for s in ("in", "out")]
    offsets = step.parameters["in_offset"], step.parameters["out_offset"]
    return offsets == (0, 0) and prod(extents) == extents[-1] and {s[-1] for s in sides} == {1}


def _edges(
    tensors: list[BufferView], steps: list[Any], before: int, after: int
) -> tuple[int, int] | None:
    """The numbers of the quantize of one and the dequantize of the other, where nothing else
    touches either, both are on one grid, and the first is read no more when the second is made."""
    enters = [k for k, step in enumerate(steps) if before in _reads(step)]
    leaves = [k for k, step in enumerate(steps) if after in (*_writes(step), *_reads(step))]
    if len(enters) != 1 or len(leaves) != 1 or leaves < enters:
        return None
    first, last = steps[enters[0]], steps[leaves[0]]
    if (first.opcode, last.opcode) != (HostOpcode.QUANTIZE, HostOpcode.DEQUANTIZE):
        return None
    inner, outer = tensors[first.outputs[0]], tensors[last.inputs[0]]
    grids = {(t.dtype, t.scale, t.zero_point) for t in (inner, outer)}
    limits = (first.parameters["low"], first.parameters["high"])
    if len(grids) > 1 or inner.dtype != DataType.INT8 or limits != (-128, 127):
        return None
    late = any(first.outputs[0] in _reads(step) for step in steps[leaves[0] :])
    return None if late else (enters[0], leaves[0])


def _reads(step: object) -> tuple[int, ...]:
    return step.inputs if isinstance(step, HostStep) else ()


def _writes(step: object) -> tuple[int, ...]:
    return step.outputs if isinstance(step, HostStep) else ()


def _fitted(region: MemoryRegion, number: int, tensors: list[BufferView]) -> MemoryRegion:
    """The callers' regions without what is no input or output any more."""
    if region.kind not in (RegionKind.INPUT, RegionKind.OUTPUT):
        return region
    ends = [t.offset_bytes + t.size_bytes for t in tensors if t.region == number]
    size = DEVICE_ALIGN_BYTES * max([1, *(-(-end // DEVICE_ALIGN_BYTES) for end in ends)])
    return replace(region, size_bytes=min(region.size_bytes, size))


def _zeros(view: BufferView) -> bytes:
    return np.full(view.shape, view.zero_point, view.dtype.numpy).tobytes()


def _carry(view: BufferView, before: int, after: int) -> HostStep:
    elements = view.size_bytes // view.dtype.size_bytes
    return copy(f"keep {view.name}", after, before, [elements], Strided([1]), Strided([1]))
