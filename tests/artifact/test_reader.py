# SPDX-License-Identifier: Apache-2.0
"""artifact/reader.py: a file that is cut, damaged or made to deceive is refused, and nothing else
happens."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest

from loadstone.artifact.format import (
    Artifact,
)
from loadstone.errors import ArtifactError
from tests.sample_model import copy_model


def sealed(data: bytearray) -> bytes:
    """The file with a checksum that fits what was done to it."""
    struct.pack_into("<I", data, 12, zlib.crc32(data[16:]))
    return bytes(data)


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
