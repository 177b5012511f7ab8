# SPDX-License-Identifier: Apache-2.0
"""What vectors of every device have in common: regions, latencies, bytes that are written, the
index of a folder.

In:   spans of bytes; a folder.
Out:  merged spans; images of memory; what index.json says.
Next: table_vectors.py (any instruction table) and vta/simulator/vectors.py (programs of VTA).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import LoadstoneError
from loadstone.files import JsonObject, parsed_json, read_whole, write_whole

__all__ = [
    "LATENCIES",
    "DramRegion",
    "check_spans",
    "file_stem",
    "folder_index",
    "gathered",
    "hex_text",
    "listed_files",
    "merged",
    "sha256_of",
    "with_written",
    "write_index",
]

#: The two memory models of the measurements: cycles in front of every read burst, or of every
#: transfer of a table's port.
LATENCIES = (0, 64)


@dataclass(frozen=True)
class DramRegion:
    """A region of DRAM: bus address, bytes."""

    base: int
    size_bytes: int
    read_only: bool = False


def merged(spans: Iterable[tuple[int, int]]) -> NDArray[np.int64]:
    """Spans [begin, end) as ascending, disjoint (offset, length): shape (spans, 2)."""
    found: list[list[int]] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1][1] = max(found[-1][1], end)
        else:
            found.append([begin, end])
    return np.array([(begin, end - begin) for begin, end in found], np.int64).reshape(-1, 2)


def gathered(image: NDArray[np.uint8], spans: NDArray[np.int64]) -> NDArray[np.uint8]:
    """The bytes (image: (bytes,)) of spans (spans: (k, 2)), one behind the other: (their sum,)."""
    parts = [image[offset : offset + length] for offset, length in spans.tolist()]
    return np.concatenate([np.zeros(0, np.uint8), *parts])


def with_written(
    image: NDArray[np.uint8], spans: NDArray[np.int64], out: NDArray[np.uint8]
) -> NDArray[np.uint8]:
    """A copy of an image (image: (bytes,)) with other bytes in spans (spans: (k, 2)), which
    `gathered` gives back: (bytes,)."""
    changed, cursor = image.copy(), 0
    for offset, length in spans.tolist():
        changed[offset : offset + length] = out[cursor : cursor + length]
        cursor += length
    return changed


def check_spans(
    dram_base: int, image_bytes: int, spans: Sequence[Sequence[int]], out_bytes: int
) -> None:
    """Raises ValueError unless an image lies within 64-bit addresses, every [offset, length] within
    the image, and `out` has their bytes."""
    if not 0 <= dram_base <= (1 << 64) - image_bytes:
        raise ValueError(f"dram_base {dram_base}: {image_bytes} bytes do not end below 2^64")
    if any(at < 0 or size < 0 or at + size > image_bytes for at, size in spans):
        raise ValueError("a region leaves its image")
    if out_bytes != sum(size for _, size in spans):
        raise ValueError(f"out has {out_bytes} bytes, out_regions {sum(s for _, s in spans)}")


def file_stem(name: str) -> str:
    """The name of a program as that of a file in one folder: a model from elsewhere, or an index,
    may have chosen one that leads out of it."""
    return re.sub(r"[^\w.+-]", "_", name)[:100].lstrip(".") or "program"


def hex_text(parts: Iterable[tuple[int, bytes]]) -> str:
    """(bus address, bytes) as what Verilog's $readmemh reads into an array of bytes: @ADDRESS, then
    sixteen bytes a line."""
    lines = []
    for address, data in parts:
        lines.append(f"@{address:x}")
        lines += [data[at : at + 16].hex(" ") for at in range(0, len(data), 16)]
    return "\n".join([*lines, ""])


def folder_index(folder: Path) -> JsonObject:
    """What index.json says, {} without one. Raises LoadstoneError."""
    path = folder / "index.json"
    if not path.is_file():
        return {}
    index = parsed_json(read_whole(path), str(path), LoadstoneError)
    if not isinstance(index, dict) or not isinstance(index.get("programs"), list):
        raise LoadstoneError(f"{path}: holds no list of programs")
    for entry in index["programs"]:
        if not isinstance(entry, dict) or not isinstance(entry.get("file"), str):
            raise LoadstoneError(f"{path}: holds a program without the name of its file")
    if not isinstance(index.get("device", {}), dict):
        raise LoadstoneError(f"{path}: its device is no object of names and values")
    return index


def listed_files(path: Path) -> tuple[JsonObject, dict[str, JsonObject]]:
    """The index of a vector's folder, and by name of file what it says of each vector: of all in
    the folder, or of one file. Raises LoadstoneError where there is none."""
    index = folder_index(path if path.is_dir() else path.parent)
    entries = {entry["file"]: entry for entry in index.get("programs", [])}
    if not path.is_dir():
        return index, {path.name: entries.get(path.name, {})}
    names = list(entries) or sorted(file.name for file in path.glob("*.npz"))
    if not names:
        raise LoadstoneError(f"{path}: neither an index.json with programs nor a .npz is there")
    return index, {name: entries.get(name, {}) for name in names}


def write_index(folder: Path, device: JsonObject, programs: Sequence[Mapping[str, object]]) -> None:
    """index.json of a folder of our own vectors."""
    index = {
        "title": "Programs with results of Loadstone's simulator",
        "measured_with": "Loadstone's simulator and the device's timing table; cycles are "
        "its model's, not a measurement",
        "device": device,
        "programs": programs,
    }
    write_whole(folder / "index.json", json.dumps(index, indent=1) + "\n")


def sha256_of(path: Path) -> str:
    """Of a file, in hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
