# SPDX-License-Identifier: Apache-2.0
"""row_rules.py, in both readers (tests/c/test_readers.py has what breaks each rule), and places
that are wrong when a model runs: refused, and nothing is written."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone.artifact.format import Artifact, BufferView, DataType, MemoryRegion, RegionKind
from loadstone.artifact.host_step import HostOpcode, HostStep, on_rows
from loadstone.backend.device import ProgramDevice
from loadstone.errors import DeviceError
from loadstone.runtime import device
from loadstone.vta.device.hw_config import load_config

CONFIG = load_config("vtaq-1x16x16")
GROUPS, PLACES, SIZE, ROWS = 2, 8, 4, 3
#: One step each, of tensors by number: place 0, rows 1, cache 2, angles 3, turned 4, then what
#: attention needs.
STEPS = {
    "keep_rows": on_rows("o", HostOpcode.KEEP_ROWS, (1, 0), (2,), (GROUPS, SIZE)),
    "rotate_places": on_rows("o", HostOpcode.ROTATE_PLACES, (1, 0, 3), (4,), (GROUPS, SIZE, 4, 0)),
    "attention": on_rows(
        "o", HostOpcode.ATTENTION, (1, 0, 5, 6, 7, 8), (4, 9), (2, GROUPS, SIZE, 0, 0x3F000000)
    ),
}


def model(step: HostStep) -> Artifact:
    shapes = [
        ("place", (1, 2), "int32", 0),
        ("x", (1, ROWS, GROUPS, SIZE), "float32", 0),
        ("cache", (1, GROUPS, PLACES, SIZE), "float32", 1),
        ("angles", (PLACES, 4), "float32", 2),
        ("y", (1, ROWS, GROUPS, SIZE), "float32", 1),
        ("keys", (GROUPS, PLACES, SIZE), "int8", 2),
        ("key scales", (GROUPS, PLACES), "float32", 2),
        ("values", (GROUPS, PLACES, SIZE), "int8", 2),
        ("value scales", (GROUPS, PLACES), "float32", 2),
        ("weights", (PLACES,), "float32", 2),
    ]
    ends, tensors = [0, 0, 0], []
    for name, shape, dtype, region in shapes:
        tensors.append(BufferView(name, shape, DataType.of(dtype), region, ends[region]))
        ends[region] += tensors[-1].size_bytes
    kinds = (RegionKind.INPUT, RegionKind.OUTPUT, RegionKind.HOST)
    regions = [MemoryRegion(k.name, k, size, 4) for k, size in zip(kinds, ends, strict=True)]
    own = (ProgramDevice.of(CONFIG),)
    return Artifact("m", own, 1, tuple(regions), tuple(tensors), (0, 1), (2, 4), (step,))


def outcome(name: str, position: int, rows: int) -> list[np.ndarray] | str:
    place = np.array([[[position, rows]]], np.int32)
    x = np.arange(1, 1 + ROWS * GROUPS * SIZE, dtype=np.float32).reshape(1, 1, ROWS, GROUPS, SIZE)
    with device.open("null") as dev, dev.load(model(STEPS[name])) as session:
        try:
            return [np.asarray(y) for y in session.run([place, x])]
        except DeviceError as error:
            return str(error)


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize(("position", "rows"), [(0, 0), (0, 3), (5, 3), (8, 0), (7, 1)])
def test_places_that_are_there(name: str, position: int, rows: int) -> None:
    assert not isinstance(outcome(name, position, rows), str)


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize(
    ("position", "rows"),
    [(6, 3), (8, 1), (9, 0), (0, 4), (-1, 1), (0, -1), (1 << 30, 1), (-(1 << 31), 3)],
)
def test_places_that_are_not(name: str, position: int, rows: int) -> None:
    said = outcome(name, position, rows)
    assert isinstance(said, str)
    assert "a position, or the rows behind it, lie beyond the places" in said
    assert "\n" not in said


def test_what_is_refused_writes_nothing() -> None:
    """Not even the rows that fit."""
    x = np.ones((1, 1, ROWS, GROUPS, SIZE), np.float32)
    with device.open("null") as dev, dev.load(model(STEPS["keep_rows"])) as session:
        (kept, _) = session.run([np.array([[[4, 2]]], np.int32), x])
        with pytest.raises(DeviceError):
            session.run([np.array([[[6, 3]]], np.int32), 2 * x])
        (after, _) = session.run([np.array([[[0, 0]]], np.int32), 3 * x])
    assert np.asarray(kept).sum() == 2 * GROUPS * SIZE
    assert np.array_equal(after, kept)
