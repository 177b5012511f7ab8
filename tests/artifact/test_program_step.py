# SPDX-License-Identifier: Apache-2.0
"""Programs in an artifact: written, read, and refused by both readers alike."""

from __future__ import annotations

import struct
from dataclasses import replace

import numpy as np
import pytest

from loadstone.artifact.file_layout import HEADER, SECTIONS
from loadstone.artifact.format import Artifact, BufferView, DataType, MemoryRegion, RegionKind
from loadstone.backend.device import (
    NO_DEVICE,
    LayerRange,
    ProgramDevice,
    ProgramStep,
    Relocation,
)
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
    regions = (MemoryRegion("io", RegionKind.ARENA, 256, device_reads=True, device_writes=True),)
    tensors = (
        BufferView("x", (1, 64), DataType.INT8, 0, 64),
        BufferView("y", (1, 64), DataType.INT8, 0, 128),
    )
    devices = (ProgramDevice.of(NO_DEVICE), ProgramDevice("npu", NPU.fingerprint))
    step = ProgramStep("run", code, (LayerRange("layer", 0, 2),), 1, 3, relocations)
    return Artifact("m", devices, 1, regions, tensors, (0,), (1,), (step,))


def with_second(model: Artifact, **changes: object) -> Artifact:
    """program_model with another program behind it, whose code is a copy."""
    (first,) = model.programs
    return replace(model, steps=(first, replace(first, name="second", **changes)))  # type: ignore[arg-type]


def test_round_trip() -> None:
    for model in (program_model(), with_second(program_model(), beside=True), copy_model()):
        data = model.to_bytes()
        assert Artifact.from_bytes(data) == model
        assert c_accepts(data)


def test_a_device_is_found_by_its_number() -> None:
    model = with_second(program_model())
    assert [n for n, _ in model.numbered_programs] == [0, 1]
    assert (model.programs_of(0), len(model.programs_of(1))) == ((), 2)
    assert (model.further, replace(model, steps=()).further) == ((1,), ())
    assert model.names_at_work("own") == ["npu"]
    assert replace(model, steps=()).names_at_work("own") == ["own"]
    both = with_second(program_model(), device=0)
    assert both.names_at_work("own") == ["own", "npu"]
    assert both.at_work == both.devices
    assert model.device_of(model.programs[0]).name == "npu"
    assert (model.device, model.config_hash) == (NO_DEVICE.name, NO_DEVICE.config_hash)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"device": 2}, "for device 2 of 2"),
        ({"device": 0, "relocations": ()}, "16 bytes an instruction"),
        ({"device": 0, "instructions": bytes(48)}, "no relocations"),
        ({"insn_count": 0}, "no instruction"),
        ({"instructions": b""}, "no instruction"),
        ({"beside": True}, "beside no other"),
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
        replace(model, steps=(replace(model.programs[0], **change),)).check()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("word", "value"),
    [
        *((0, 2), (1, 32), (1, 64), (2, 0), (2, 1 << 20), (3, 0)),
        *((4, 1), (4, 3), (5, 0), (5, 2), (17, 4)),
    ],
)
def test_both_readers_refuse_a_record(word: int, value: int) -> None:
    """Device, code, counts; the end of a layer: a word of the record, the next value to a sound
    one."""
    data = bytearray(program_model().to_bytes())
    (words,) = struct.unpack_from("<I", data, HEADER.size + 8 * SECTIONS.index("words"))
    struct.pack_into("<I", data, words + 4 * word, value)
    assert not python_accepts(sealed(data))
    assert not c_accepts(sealed(data))


#: Words of the record of `long_model`: of its second relocation and of its second layer.
AT, BITS, SHIFT, REGION, ADDEND = range(11, 16)
FIRST, COUNT, NAME = range(19, 22)
#: Of the program behind it, whose addresses and layers are none.
CODE_AT, SIZE = 23, 24


def long_model() -> Artifact:
    """With 128 bytes of code, two relocations and two layers; and memory that no device sees."""
    relocations = (Relocation(0, 8, 40, 4, 0, 64), Relocation(48, 20, 32, 0, 0, 128))
    model = program_model(bytes(128), relocations)
    host = MemoryRegion("host", RegionKind.HOST, 512)
    layers = (LayerRange("one", 0, 2), LayerRange("two", 2, 1))
    step = replace(model.programs[0], layers=layers)
    return replace(model, regions=(*model.regions, host), steps=(step,))


def bits(bit: int, width: int) -> int:
    return bit | width << 16


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ({BITS: bits(20, 64)}, {BITS: bits(20, 65)}),
        ({BITS: bits(20, 1)}, {BITS: bits(20, 0)}),
        ({BITS: bits(448, 64)}, {BITS: bits(449, 64)}),
        ({BITS: bits(511, 1)}, {BITS: bits(512, 1)}),
        ({AT: 121, BITS: bits(24, 32)}, {AT: 121, BITS: bits(25, 32)}),
        ({AT: 127, BITS: bits(7, 1)}, {AT: 128, BITS: bits(0, 1)}),
        ({AT: 0, BITS: bits(48, 32)}, {AT: 0, BITS: bits(47, 32)}),
        ({AT: 127, BITS: bits(0, 8)}, {AT: (1 << 29) + 127, BITS: bits(0, 8)}),
        ({AT: 127, BITS: bits(0, 8)}, {AT: (1 << 32) - 1, BITS: bits(0, 8)}),
        ({SHIFT: 16}, {SHIFT: 17}),
        ({REGION: 0}, {REGION: 1}),
        ({REGION: 0}, {REGION: 2}),
        ({ADDEND: 256}, {ADDEND: 257}),
        ({FIRST: 2, COUNT: 1}, {FIRST: 2, COUNT: 2}),
        ({FIRST: 2, COUNT: 1}, {FIRST: 1, COUNT: 1}),
        ({FIRST: 3, COUNT: 0}, {FIRST: 4, COUNT: 0}),
        ({FIRST: 2, COUNT: 0}, {FIRST: 2, COUNT: (1 << 32) - 1}),
        ({NAME: 0}, {NAME: 1 << 20}),
        ({CODE_AT: 128}, {CODE_AT: 64}),
        ({CODE_AT: 192, SIZE: 64}, {CODE_AT: 160, SIZE: 64}),
        ({CODE_AT: 192, SIZE: 64}, {CODE_AT: 192, SIZE: 65}),
    ],
)
def test_both_readers_know_the_limits_of_relocations_and_layers(
    good: dict[int, int], bad: dict[int, int]
) -> None:
    for words, sound in ((good, True), (bad, False)):
        model = with_second(long_model(), relocations=(), layers=())
        data = bytearray(model.to_bytes())
        (record,) = struct.unpack_from("<I", data, HEADER.size + 8 * SECTIONS.index("words"))
        for word, value in words.items():
            struct.pack_into("<I", data, record + 4 * word, value)
        file = sealed(data)
        assert python_accepts(file) == sound
        assert c_accepts(file) == sound


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
