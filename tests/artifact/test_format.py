"""The file format: written, read, and refused when damaged."""

from __future__ import annotations

import dataclasses
import struct
import zlib
from collections.abc import Callable

import numpy as np
import pytest

from loadstone.artifact import host_step
from loadstone.artifact.format import (
    Artifact,
    BufferView,
    DataType,
    DeviceProgram,
    HostStep,
    LayerRange,
    MemoryRegion,
    RegionKind,
    ViewLayout,
)
from loadstone.artifact.host_step import PackWindow, SoftmaxScaling, Strided
from loadstone.errors import ArtifactError
from tests.sample_model import copy_model


def sealed(data: bytearray) -> bytes:
    """The file with a checksum that fits what was done to it."""
    struct.pack_into("<I", data, 12, zlib.crc32(data[16:]))
    return bytes(data)


def test_what_is_written_is_read() -> None:
    model = copy_model()
    assert Artifact.from_bytes(model.to_bytes()) == model


def every_operator_model() -> Artifact:
    """The copy model with one step of every operator behind its own."""
    return dataclasses.replace(
        copy_model(),
        regions=(
            *copy_model().regions,
            MemoryRegion("host", RegionKind.HOST, 1 << 16, 8),
            MemoryRegion("table", RegionKind.CONSTANTS, 256, 1, data=bytes(range(256))),
        ),
        tensors=(
            BufferView("x", (1, 16), DataType.INT8, 1, 0),
            BufferView("y", (1, 16), DataType.INT8, 2, 0, 0.25, -3),
            BufferView("float", (1, 16), DataType.FLOAT32, 3, 0),
            BufferView(
                "blocked", (1, 2, 2, 4), DataType.INT8, 3, 64, 0.5, 1, ViewLayout.BLOCKED, 1, 16
            ),
            BufferView("flat", (1, 16), DataType.INT8, 3, 128),
            BufferView("table", (256,), DataType.INT8, 4, 0),
            BufferView("index", (1,), DataType.INT64, 3, 256),
            BufferView("float2", (4, 4), DataType.FLOAT32, 3, 512),
        ),
        steps=(
            *copy_model().steps,
            host_step.copy("transpose", 0, 4, (4, 4), Strided((1, 4)), Strided((4, 1))),
            host_step.fill("fill", 4, 255),
            host_step.pack("pack", 4, 3, (2, 2, 4), PackWindow(pad_value=-128)),
            host_step.unpack("unpack", 3, 4, nchw=True),
            host_step.quantize("quantize", 2, 1, half_to_even=True, low=-100),
            host_step.dequantize("dequantize", 1, 2),
            host_step.lookup("lookup", 4, 5, 4),
            host_step.softmax_int8("softmax", 0, 1, 16, SoftmaxScaling(1 << 30, 3, -248)),
            host_step.softmax_float32("softmax", 2, 7, 4),
            host_step.argmax("argmax", 0, 6, 16),
            host_step.external("magic", (0, 2), (1,), "tvm", '{"k": 1}'),
        ),
    )


def test_every_operator_is_read_as_written() -> None:
    model = every_operator_model()
    assert {s.opcode for s in model.steps if isinstance(s, HostStep)} == set(host_step.OPERATORS)
    assert Artifact.from_bytes(model.to_bytes()) == model


def test_a_file_cut_anywhere_is_refused() -> None:
    data = copy_model().to_bytes()
    for size in range(len(data)):
        with pytest.raises(ArtifactError):
            Artifact.from_bytes(data[:size])


def test_every_flipped_bit_is_noticed() -> None:
    data = bytearray(copy_model().to_bytes())
    for bit in range(8 * len(data)):
        data[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ArtifactError):
            Artifact.from_bytes(bytes(data))
        data[bit // 8] ^= 1 << bit % 8


def test_a_sealed_file_of_random_changes_is_refused_or_sound() -> None:
    """With the checksum made to fit, the reader's own checks must hold: no exception but
    ArtifactError."""
    original, random = copy_model().to_bytes(), np.random.default_rng(1)
    accepted = 0
    for _ in range(4000):
        data = bytearray(original)
        for _ in range(random.integers(1, 4)):
            data[random.integers(0, len(data))] = random.choice(
                [0, 1, 0x7F, 0x80, 0xFF, random.integers(0, 256)]
            )
        try:
            Artifact.from_bytes(sealed(data)).check()
            accepted += 1
        except ArtifactError:
            pass
    assert 0 < accepted < 4000


Change = Callable[[Artifact], Artifact]


def _tensor(**changes: object) -> Change:
    return lambda a: dataclasses.replace(
        a, tensors=(dataclasses.replace(a.tensors[0], **changes), *a.tensors[1:])
    )  # type: ignore[arg-type]


def _region(index: int, **changes: object) -> Change:
    def change(a: Artifact) -> Artifact:
        regions = list(a.regions)
        regions[index] = dataclasses.replace(regions[index], **changes)  # type: ignore[arg-type]
        return dataclasses.replace(a, regions=tuple(regions))

    return change


def _step(step: HostStep | DeviceProgram) -> Change:
    return lambda a: dataclasses.replace(a, steps=(*a.steps, step))


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("R5", lambda a: dataclasses.replace(a, fingerprint=b"short")),
        ("R6", lambda a: dataclasses.replace(a, samples=0)),
        ("R8", lambda a: dataclasses.replace(a, regions=a.regions * 3)),
        ("R10", _region(0, device_writes=True)),
        ("R10", _region(1, kind=RegionKind.HOST)),
        ("R11", _region(1, size_bytes=0)),
        ("R11", _region(1, align_bytes=96)),
        ("R11", _region(1, align_bytes=32)),
        ("R12", _region(0, size_bytes=2)),
        ("R12", _region(1, data=b"x")),
        ("R14", _tensor(region=3)),
        ("R14", _tensor(shape=(1,) * 7)),
        ("R15", _tensor(offset_bytes=32)),
        ("R15", _tensor(shape=(1, 65))),
        ("R16", _tensor(shape=(1, 0))),
        ("R16", _tensor(batch_block=1)),
        ("R16", _tensor(layout=ViewLayout.BLOCKED, batch_block=1, channel_block=16)),
        ("R17", lambda a: dataclasses.replace(a, inputs=(9,))),
        ("R17", lambda a: dataclasses.replace(a, samples=2)),
        ("R17", _tensor(region=0)),
        ("R18", _step(DeviceProgram("empty", b""))),
        ("R19", _step(HostStep("too few", host_step.HostOpcode.DEQUANTIZE, (0,), ()))),
        ("R19", _step(host_step.lookup("no table", 0, 7, 1))),
        ("R20", _step(host_step.dequantize("to int8", 0, 1))),
        ("R20", _step(host_step.copy("beyond", 0, 1, (16,), Strided((1,), 1), Strided((1,))))),
        ("R20", _step(host_step.fill("no byte", 1, 256))),
        ("R20", _step(host_step.fill("negative", 1, -1))),
        ("R21", _step(host_step.copy("onto itself", 0, 0, (16,), Strided((1,)), Strided((1,))))),
        ("R22", _step(DeviceProgram("layers", bytes(16), (LayerRange("a", 0, 2),)))),
    ],
)
def test_each_rule_is_named(rule: str, change: Change) -> None:
    with pytest.raises(ArtifactError, match=rf"rule {rule} of"):
        change(copy_model()).to_bytes()


def test_a_missing_file_is_one_line(tmp_path: object) -> None:
    with pytest.raises(ArtifactError, match=r"none\.lds: No such file"):
        Artifact.load(f"{tmp_path}/none.lds")
