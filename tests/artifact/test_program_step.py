# SPDX-License-Identifier: Apache-2.0
"""Programs of other devices in an artifact: written, read, and refused by both readers alike."""

from __future__ import annotations

import struct
from dataclasses import replace

import numpy as np
import pytest

from loadstone.artifact.format import Artifact, BufferView, DataType, MemoryRegion, RegionKind
from loadstone.artifact.program_step import ProgramStep
from loadstone.backend.device import NO_DEVICE, LayerRange, Relocation
from loadstone.errors import ArtifactError
from loadstone.isa.codec import TableInsn, encode
from tests.artifact.test_reader import sealed
from tests.c.test_readers import c_accepts, python_accepts
from tests.isa.tables import NPU
from tests.sample_model import copy_model

CODE = encode(
    NPU,
    [
        TableInsn("copy", {"stride": 16, "rows": 4}),
        TableInsn("store", {"rows": 4}),
        TableInsn("end", {}),
    ],
)
RELOCATIONS = (Relocation(0, 8, 40, 4, 0, 64), Relocation(12, 20, 32, 0, 0, 128))


def program_model(
    code: bytes = CODE, relocations: tuple[Relocation, ...] = RELOCATIONS
) -> Artifact:
    """A copy of four rows from byte 64 of the arena to byte 128."""
    regions = (
        MemoryRegion("io", RegionKind.ARENA, 256, device_reads=True, device_writes=True),
        MemoryRegion("code", RegionKind.CONSTANTS, len(code), 4, data=code),
    )
    tensors = (
        BufferView("x", (1, 64), DataType.INT8, 0, 64),
        BufferView("y", (1, 64), DataType.INT8, 0, 128),
        BufferView("code", (len(code),), DataType.UINT8, 1, 0),
    )
    step = ProgramStep(
        "run", "npu", "{}", NPU.fingerprint, 2, 3, relocations, (LayerRange("layer", 0, 2),)
    )
    fingerprint, steps = NO_DEVICE.fingerprint(), (step,)
    return Artifact("m", fingerprint, 1, regions, tensors, (0,), (1,), steps, NO_DEVICE.name)


def with_second(model: Artifact, **changes: object) -> Artifact:
    """program_model with another program behind it, whose code is a copy."""
    first, code = model.other_programs[0], model.regions[1]
    data = code.data.ljust(64, b"\0") + code.data
    regions = (model.regions[0], replace(code, size_bytes=len(data), data=data))
    tensor = replace(model.tensors[first.code], name="more code", offset_bytes=64)
    second = replace(first, name="second", code=len(model.tensors), **changes)
    tensors, steps = (*model.tensors, tensor), (first, second)
    return replace(model, regions=regions, tensors=tensors, steps=steps)


def test_round_trip_in_version_2() -> None:
    model = program_model()
    data = model.to_bytes()
    assert struct.unpack_from("<I", data, 4) == (2,)
    assert Artifact.from_bytes(data) == model
    assert model.code_of(model.other_programs[0]) == CODE
    assert c_accepts(data)


def test_what_needs_no_version_2_is_version_1() -> None:
    assert struct.unpack_from("<I", copy_model().to_bytes(), 4) == (1,)
    data = bytearray(program_model().to_bytes())
    struct.pack_into("<I", data, 4, 1)
    assert not python_accepts(sealed(data))
    assert not c_accepts(sealed(data))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"code": 9}, "tensor 9"),
        ({"code": 0}, "no tensor of bytes"),
        ({"instructions": 0}, "no instruction"),
        ({"fingerprint": b"short"}, "32 bytes"),
        ({"layers": (LayerRange("l", 2, 2),)}, "leaves the 3 instructions"),
        ({"relocations": (Relocation(24, 0, 1, 0, 0, 0),)}, "no place"),
        ({"relocations": RELOCATIONS[::-1]}, "no place"),
        ({"relocations": (replace(RELOCATIONS[0], region=1),)}, "of region 1"),
        ({"relocations": (replace(RELOCATIONS[0], addend_bytes=257),)}, "byte 257"),
        ({"relocations": (replace(RELOCATIONS[0], width=65),)}, "no place"),
        ({"relocations": (replace(RELOCATIONS[0], shift=17),)}, "no place"),
    ],
)
def test_refuses(change: dict[str, object], said: str) -> None:
    model = program_model()
    with pytest.raises(ArtifactError, match=said):
        replace(model, steps=(replace(model.other_programs[0], **change),)).check()  # type: ignore[arg-type]


def test_both_readers_refuse_the_same_files() -> None:
    original, random = program_model().to_bytes(), np.random.default_rng(5)
    accepted = 0
    for _ in range(3000):
        data = bytearray(original)
        for _ in range(random.integers(1, 4)):
            place = int(random.integers(16, len(data)))
            data[place] = random.choice([0, 1, 0x7F, 0x80, 0xFF, random.integers(0, 256)])
        file = sealed(data)
        assert python_accepts(file) == c_accepts(file), file.hex()
        accepted += c_accepts(file)
    assert 0 < accepted < 3000
