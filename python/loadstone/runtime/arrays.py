# SPDX-License-Identifier: Apache-2.0
"""Arrays of a model's inputs and outputs in .npz files: in0, in1 ... and out0, out1 ..., each with
a leading axis of samples.

In:   a .npz file, an artifact's tensors.
Out:  lists of arrays in the model's order; the difference of two lists, in numbers.
Next: commands/run.py.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from loadstone.artifact.format import BufferView
from loadstone.errors import ModelError
from loadstone.files import unpacked_arrays, write_whole
from loadstone.numerics import Array

__all__ = ["Difference", "compare", "read_arrays", "write_arrays"]


@dataclass(frozen=True)
class Difference:
    """How two arrays differ: elements compared, elements that differ, the largest absolute
    difference (inf beside not a number)."""

    name: str
    elements: int
    different: int
    largest: float

    def __str__(self) -> str:
        """For people."""
        return (
            f"{self.name}: {self.elements} elements compared, {self.different} different, "
            f"largest difference {self.largest:g}"
        )


def read_arrays(path: str | Path, tensors: Sequence[BufferView], prefix: str) -> list[Array]:
    """Arrays `prefix`0, `prefix`1 ... of a .npz file, or by the tensors' names: one for each of
    `tensors`, of any shape and type (a session checks them).

    Raises ModelError naming what is missing,
    OSError for a file that cannot be opened.
    """
    arrays = unpacked_arrays(path, str(path), ModelError)
    found = []
    for k, tensor in enumerate(tensors):
        name = f"{prefix}{k}" if f"{prefix}{k}" in arrays else tensor.name
        if name not in arrays:
            raise ModelError(
                f"{path} has no array {prefix}{k} (or {tensor.name!r}); it has "
                f"{', '.join(arrays) or 'none'}"
            )
        if not arrays[name].size or not arrays[name].ndim:
            raise ModelError(
                f"{path}: {name} has shape {arrays[name].shape}, without a sample: its first "
                "axis counts samples"
            )
        found.append(arrays[name])
    return found


def write_arrays(path: str | Path, arrays: Sequence[Array], prefix: str) -> None:
    """Writes `prefix`0, `prefix`1 ... to a .npz file of exactly that name. arrays: of any shape."""
    named: dict[str, Any] = {f"{prefix}{k}": a for k, a in enumerate(arrays)}
    archive = io.BytesIO()  # a .npz file is written with seeks, which a pipe or /dev/null has not
    np.savez_compressed(archive, **named)
    write_whole(path, archive.getvalue())


def compare(name: str, got: Array, wanted: Array) -> Difference:
    """Element by element, as float64 (int64 beyond 2^53 exactly).

    got, wanted: of the same shape and type, whichever these are; else ModelError is raised.
    """
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        raise ModelError(
            f"{name} has shape {got.shape} and type {got.dtype}, expected {wanted.shape} and "
            f"{wanted.dtype}"
        )
    different = (got != wanted) & ~(
        np.isnan(got) & np.isnan(wanted) if got.dtype.kind == "f" else np.zeros(got.shape, bool)
    )
    if not different.any():
        return Difference(name, got.size, 0, 0.0)
    a, b = got[different], wanted[different]
    with np.errstate(all="ignore"):
        apart = np.abs(a.astype(np.float64) - b.astype(np.float64))
    apart = np.where(np.isnan(apart), np.inf, np.maximum(apart, np.finfo(np.float64).tiny))
    return Difference(name, got.size, int(different.sum()), float(apart.max()))
