# SPDX-License-Identifier: Apache-2.0
"""The output of every layer of an artifact, on any device: run up to the layer, and read memory.

In:   an artifact; a device as runtime/device.py opens it; one run's inputs.
Out:  Taps, in the order in which they are written; their values, batch first, channels last.
Next: compare.py compares them.

Each run is one of a smaller artifact, through the unchanged C runtime: the steps up to the layer's,
whose program stores nothing after the layer (ProgramSimulator.without_stores), with the bytes of
all live tensors as outputs. Layers whose outputs are not overwritten by later ones share a run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from loadstone.artifact.format import (
    Artifact,
    BufferView,
    DataType,
    HostStep,
    ProgramStep,
    ViewLayout,
)
from loadstone.errors import ArtifactError
from loadstone.numerics import Array
from loadstone.runtime.device import OpenedDevice
from loadstone.simulator.interface import LayerStores
from loadstone.simulator.programs import own_simulator

__all__ = ["Tap", "logical", "meant", "taps", "values"]

_ON_DEVICE = " on device"


@dataclass(frozen=True)
class Tap:
    """A tensor that a layer or a host step writes. name: its name in the network. behind: the index
    of the layer's last store; None for a host step."""

    name: str
    layer: str
    step: int
    view: BufferView
    behind: int | None = None
    stores: LayerStores | None = None


def taps(artifact: Artifact) -> list[Tap]:
    """The taps of all steps, in order. Raises ArtifactError for an artifact of an older compiler,
    which does not contain the places of its layers' outputs."""
    views = {view.name: view for view in artifact.tensors}
    found: list[Tap] = []
    last_in = _last_programs(artifact)
    for number, step in enumerate(artifact.steps):
        if isinstance(step, HostStep):
            for index in step.outputs:
                view = artifact.tensors[index]
                name = view.name.removesuffix(_ON_DEVICE)
                found.append(Tap(name, step.name, number, view))
        if isinstance(step, HostStep) or step.device:  # one of another device runs whole
            continue
        for stores in own_simulator(artifact).layer_stores(step):
            made = views.get(stores.layer + _ON_DEVICE)
            if made is not None and last_in.get(stores.layer) == number:
                found.append(Tap(stores.layer, stores.layer, number, made, stores.last, stores))
    if artifact.programs_of(0) and not any(tap.stores for tap in found):
        raise ArtifactError(
            f"model {artifact.name!r} does not say where its layers' outputs stand: compile it anew"
        )
    return found


def _last_programs(artifact: Artifact) -> dict[str, int]:
    """By layer, the step of the last program that works for it: before it, parts of its output are
    still to come."""
    return {
        layer.name: number
        for number, program in artifact.numbered_programs
        if program.device == 0
        for layer in program.layers
    }


def values(
    artifact: Artifact,
    device: OpenedDevice,
    inputs: Sequence[Array],
    wanted: Sequence[Tap],
    *,
    trust: bool = False,
) -> Iterator[tuple[Tap, Array]]:
    """Yields each tap with its value, in order; runs are made when they are needed.

    inputs: of one run, in the shapes of the artifact's inputs.
    """
    left = list(wanted)
    while left:
        together = _together(left)
        smaller = _stopped(artifact, together)
        with device.load(smaller, trust=trust) as session:
            for view, array in zip(session.inputs, inputs, strict=True):
                view[...] = array
            session.execute()
            for tap, raw in zip(together, session.outputs, strict=True):
                yield tap, logical(raw.tobytes(), tap.view)
        device.forget(session)
        left = left[len(together) :]


def _together(left: Sequence[Tap]) -> list[Tap]:
    """The first tap, and the following ones of the same program, as long as no output is
    overwritten."""
    together = [left[0]]
    for tap in left[1:]:
        if tap.stores is None or tap.step != left[0].step or left[0].stores is None:
            break
        if any(_meet(tap.stores, earlier.view) for earlier in together):
            break
        together.append(tap)
    return together


def _meet(stores: LayerStores, view: BufferView) -> bool:
    apart = (
        stores.end_bytes <= view.offset_bytes
        or view.offset_bytes + view.size_bytes <= stores.start_bytes
    )
    return stores.region == view.region and not apart


def _stopped(artifact: Artifact, together: Sequence[Tap]) -> Artifact:
    last = together[-1]
    step = artifact.steps[last.step]
    if isinstance(step, ProgramStep):
        assert last.behind is not None
        step = own_simulator(artifact).without_stores(step, last.behind)
    views = [_raw(tap.view, artifact.samples) for tap in together]
    count = len(artifact.tensors)
    return replace(
        artifact,
        tensors=(*artifact.tensors, *views),
        outputs=tuple(range(count, count + len(views))),
        steps=(*artifact.steps[: last.step], step),
    )


def _raw(view: BufferView, samples: int) -> BufferView:
    """The bytes of a tensor as an output, which has a row for each sample."""
    rows = samples if view.size_bytes % samples == 0 else 1
    shape = (rows, view.size_bytes // rows)
    return BufferView(view.name, shape, DataType.UINT8, view.region, view.offset_bytes)


def logical(raw: bytes, view: BufferView) -> Array:
    """A tensor's bytes in memory as (N, H, W, C), or in its own shape, without the padding of
    blocks."""
    dtype = view.dtype.numpy if view.dtype != DataType.BOOL else np.dtype(np.bool_)
    array = np.frombuffer(raw, dtype).reshape(view.memory_shape)
    if view.layout == ViewLayout.ROW_MAJOR:
        return array
    rows, blocks, height, width, batch, channels = view.memory_shape
    whole = array.transpose(0, 4, 2, 3, 1, 5)
    whole = whole.reshape(rows * batch, height, width, blocks * channels)
    n, h, w, c = view.shape
    return np.ascontiguousarray(whole[:n, :h, :w, :c])


def meant(
    artifact: Artifact, device: OpenedDevice, inputs: Sequence[Array], *, trust: bool = False
) -> list[tuple[Tap, Array]]:
    """Each tap with its value by the meaning of the instructions (ProgramSimulator.memory_behind);
    host steps are run by the C runtime, on the memory that `device` has before them. inputs: of one
    run, in the shapes of the artifact's inputs; each array of the result is (N, H, W, C), or has
    its tensor's shape."""
    found: list[tuple[Tap, Array]] = []
    all_taps = taps(artifact)
    for number, step in enumerate(artifact.steps):
        mine = [tap for tap in all_taps if tap.step == number]
        if isinstance(step, HostStep):
            found += values(artifact, device, inputs, mine, trust=trust)
        if isinstance(step, HostStep) or step.device:
            continue
        before = _regions_before(artifact, device, inputs, number, trust)
        wanted = {tap.behind: tap.view for tap in mine if tap.behind is not None}
        seen = own_simulator(artifact).memory_behind(step, artifact, before, wanted)
        for tap in mine:
            if tap.behind is not None:
                found.append((tap, logical(seen[tap.behind], tap.view)))
    return found


def _regions_before(
    artifact: Artifact, device: OpenedDevice, inputs: Sequence[Array], step: int, trust: bool
) -> dict[int, bytes]:
    """The content of the regions that the device sees, before a step."""
    numbers = [
        n for n, region in enumerate(artifact.regions) if region.on_device and not region.data
    ]
    views = [
        _raw(BufferView(f"region {n}", (artifact.regions[n].size_bytes,), DataType.UINT8, n, 0), 1)
        for n in numbers
    ]
    count, rows = len(artifact.tensors), artifact.samples
    views = [replace(view, shape=(rows, view.size_bytes // rows)) for view in views]
    smaller = replace(
        artifact,
        tensors=(*artifact.tensors, *views),
        outputs=tuple(range(count, count + len(views))),
        steps=artifact.steps[:step],
    )
    with device.load(smaller, trust=trust) as session:
        for view, array in zip(session.inputs, inputs, strict=True):
            view[...] = array
        session.execute()
        found = {n: out.tobytes() for n, out in zip(numbers, session.outputs, strict=True)}
    device.forget(session)
    return found
