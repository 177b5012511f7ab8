# SPDX-License-Identifier: Apache-2.0
"""runtime/hosts/litert/bundle.c under the sanitizers: a .tflite file may carry anything."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from tests.board.tools import run
from tests.c.build import MODES, compile_c
from tests.repeat import times


def bundle(random: np.random.Generator) -> bytes:
    """A sound one, of one to three entries."""
    entries, content = [], b""
    count = int(random.integers(1, 4))
    begin = 32 + 32 * count
    for _ in range(count):
        ports = [int(n) for n in random.integers(1, 5, 3)]
        words = random.bytes(4 * sum(ports))
        artifact = random.bytes(int(random.integers(0, 200)))
        at = begin + len(content)
        content += words + artifact
        entries.append(struct.pack("<8I", 7, *ports, at, at + len(words), len(artifact), 0))
    header = struct.pack("<4sIII16x", b"LDSB", 1, begin + len(content), count)
    return header + b"".join(entries) + content


def spoiled(random: np.random.Generator, data: bytes) -> bytes:
    """A few words, most of them in the table, become something else; or the end is missing."""
    changed = bytearray(data)
    if random.random() < 0.1:
        return bytes(changed[: int(random.integers(0, len(changed)))])
    for _ in range(int(random.integers(1, 4))):
        at = 4 * int(random.integers(0, min(len(changed), 140) // 4))
        number = random.choice(
            [0, 1, len(data), len(data) - 1, 0x7FFFFFFF, 0xFFFFFFFF, int(random.integers(0, 300))]
        )
        changed[at : at + 4] = struct.pack("<I", int(number))
    return bytes(changed)


@pytest.mark.parametrize("bits", MODES)
def test_any_bundle_is_refused_or_read_inside_its_bytes(
    bits: int, root: Path, tmp_path: Path
) -> None:
    folder = root / "runtime/hosts/litert"
    sources = [root / "tests/hosts/bundle.c", folder / "bundle.c"]
    program = compile_c(bits, tmp_path / "bundle", sources, [f"-I{folder}"])
    random = np.random.default_rng(bits)
    count = times(3000, 100_000)
    pieces = [bundle(random) for _ in range(100)]
    pieces += [spoiled(random, bundle(random)) for _ in range(count)]
    data = b"".join(struct.pack("<I", len(piece)) + piece for piece in pieces)
    (tmp_path / "bundles").write_bytes(data)
    out = run([program, tmp_path / "bundles"])
    refused, taken = int(out.split()[0]), int(out.split()[2])
    assert refused + taken == len(pieces)
    assert taken >= 100
    assert refused > count // 3
