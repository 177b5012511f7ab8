# SPDX-License-Identifier: Apache-2.0
"""artifact/writer.py: the bytes stand where runtime/FORMAT.md says, and each name stands once."""

from __future__ import annotations

import struct
import zlib
from dataclasses import replace

import pytest

from loadstone.artifact.file_layout import DEVICE, HEADER, HEADER_BYTES, MAGIC, OLDEST, SECTIONS
from loadstone.artifact.writer import ArtifactWriter
from loadstone.errors import ArtifactError
from tests.sample_model import copy_model


def sections(data: bytes) -> dict[str, tuple[int, int]]:
    """(offset, bytes) of each section."""
    places = struct.unpack_from(f"<{2 * len(SECTIONS)}I", data, HEADER.size)
    return {name: (places[2 * k], places[2 * k + 1]) for k, name in enumerate(SECTIONS)}


def test_the_header_says_size_checksum_and_device() -> None:
    model = copy_model()
    data = ArtifactWriter(model).file()
    magic, version, size, crc, samples, *_ = HEADER.unpack_from(data)
    assert (magic, version, size) == (MAGIC, OLDEST, len(data))  # nothing in it is newer
    assert crc == zlib.crc32(data[16:])
    assert samples == model.samples
    offset, size = sections(data)["devices"]
    ((_, attributes, fingerprint),) = DEVICE.iter_unpack(data[offset : offset + size])
    assert fingerprint == model.fingerprint
    strings, _ = sections(data)["strings"]
    assert data[strings + attributes :].startswith(b"{}\0")


def test_sections_follow_each_other_and_are_aligned() -> None:
    """Instructions and data are read in place: by a device, from flash."""
    data = ArtifactWriter(copy_model()).file()
    end = HEADER_BYTES
    for name, (offset, size) in sections(data).items():
        assert end <= offset < end + 4096
        assert offset % (64 if name in ("code", "data") else 16) == 0
        end = offset + size
    assert end == len(data)
    assert sections(data)["data"][0] % 256 == 0  # the alignment of its only region


def test_programs_begin_at_lines() -> None:
    model = copy_model()
    writer = ArtifactWriter(replace(model, steps=model.steps * 2))
    writer.file()
    (code,) = (step.instructions for step in model.programs)
    assert writer.code == code.ljust(-(-len(code) // 64) * 64, b"\0") + code
    assert writer.words[1 :: len(writer.words) // 2] == [0, -(-len(code) // 64) * 64]


def test_a_name_stands_once() -> None:
    writer = ArtifactWriter(copy_model())
    first = writer.string("layer")
    assert writer.string("") == 0
    assert writer.string("layer") == first
    assert writer.strings.count(b"layer\0") == 1
    data = writer.file()
    offset, size = sections(data)["strings"]
    assert data[offset : offset + size].count(b"copy\0") == 1  # model, program and layer


def test_a_name_with_a_zero_byte_is_refused() -> None:
    with pytest.raises(ArtifactError, match="holds a zero byte"):
        ArtifactWriter(replace(copy_model(), name="a\0b")).file()


def test_negative_parameters_are_words() -> None:
    """A parameter is an i32; words are u32."""
    from loadstone.artifact import host_step

    writer = ArtifactWriter(copy_model())
    writer.step(host_step.softmax_int8("s", 0, 1, 16, host_step.SoftmaxScaling(1 << 30, 3, -248)))
    assert writer.words[-1] == 0x1_0000_0000 - 248
