# SPDX-License-Identifier: Apache-2.0
"""Arrays of a model's inputs and outputs in .npz files: in0, in1 ... and out0, out1 ..., each with
a leading axis of samples.

In:   a .npz file, or arrays of a program; an artifact's tensors.
Out:  lists of arrays in the model's order; the difference of two lists, in numbers.
Next: commands/run.py, session.py.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from loadstone.artifact.format import Artifact, BufferView
from loadstone.errors import DeviceError, ModelError, axis_hint, suggestion
from loadstone.files import unpacked_arrays, write_whole
from loadstone.numerics import Array

__all__ = [
    "Difference",
    "TensorInfo",
    "as_inputs",
    "check_numbers",
    "compare",
    "misfit",
    "read_arrays",
    "read_inputs",
    "tensor_infos",
    "write_arrays",
]


@dataclass(frozen=True)
class Difference:
    """The difference of two arrays: elements compared, elements that differ, the largest absolute
    difference (inf next to NaN)."""

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


@dataclass(frozen=True)
class TensorInfo:
    """An input or an output of a model. shape: of one sample. scale, zero_point: an integer
    represents (integer - zero_point) * scale; scale 0: real numbers, or integers without a
    scale."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    scale: float = 0.0
    zero_point: int = 0


def tensor_infos(artifact: Artifact, indices: Sequence[int]) -> tuple[TensorInfo, ...]:
    """Of the tensors with these indices."""
    return tuple(
        TensorInfo(
            tensor.name,
            (tensor.shape[0] // artifact.samples, *tensor.shape[1:]),
            np.dtype(tensor.dtype.numpy),
            tensor.scale,
            tensor.zero_point,
        )
        for tensor in (artifact.tensors[index] for index in indices)
    )


def as_inputs(inputs: Any, tensors: Sequence[BufferView]) -> list[Array]:
    """The caller's inputs, as an array for each of `tensors`, of any shape (a session checks it).

    inputs: a sequence in the order of `tensors`, a mapping by name or by in0, in1 ..., or one array
        for the only input. Each is a NumPy array, a tensor of PyTorch, a list or a generator.
        Numbers in lists become the tensor's type if it can represent them all; float64 and float16
        become the tensor's type of real numbers.
    Raises DeviceError for another number of inputs, ModelError for values that are not arrays of
    numbers.
    """
    names = ", ".join(tensor.name for tensor in tensors)
    if hasattr(inputs, "__array__"):
        inputs = [inputs]
    if isinstance(inputs, Mapping):
        found = []
        for number, tensor in enumerate(tensors):
            key = tensor.name if tensor.name in inputs else f"in{number}"
            if key not in inputs:
                near = suggestion(tensor.name, map(str, inputs))
                raise DeviceError(
                    f"input {tensor.name!r} is missing; the model's are {names}; given: "
                    f"{', '.join(map(str, inputs)) or 'none'}{near}"
                )
            found.append(inputs[key])
        inputs = found
    if len(inputs) != len(tensors):
        raise DeviceError(f"{len(inputs)} inputs were given, the model has {len(tensors)}: {names}")
    return [
        _as_array(value, tensor, f"input {number}")
        for number, (value, tensor) in enumerate(zip(inputs, tensors, strict=True))
    ]


def misfit(array: Array, tensor: BufferView, shape: Sequence[int]) -> str:
    """The reason why an array does not contain samples of a tensor, whose sample has this shape;
    empty where it does. array: (samples, ...), if it fits."""
    if array.shape[1:] == tuple(shape) and array.dtype == tensor.dtype.numpy:
        return ""
    wanted = f"(samples, {', '.join(map(str, shape))})" if shape else "(samples,)"
    remedy = axis_hint(array.shape, shape)
    if array.shape[1:] == tuple(shape):
        remedy = f"; x.astype(np.{tensor.dtype.numpy}) if these are the model's own numbers"
    return (
        f"input {tensor.name!r} has shape {array.shape} and type {array.dtype}, not {wanted} and "
        f"{tensor.dtype.name.lower()}{remedy}"
    )


def check_numbers(arrays: Sequence[Array], tensors: Sequence[BufferView]) -> None:
    """Raises ModelError for an array, of any shape (samples, ...), that contains NaN: no integer
    represents it, so that a quantized network would silently compute with another number."""
    for array, tensor in zip(arrays, tensors, strict=True):
        wrong = np.isnan(array) if array.dtype.kind == "f" else np.zeros(0, bool)
        if wrong.any():
            sample = int(np.argmax(wrong.reshape(len(array), -1).any(axis=1)))
            raise ModelError(
                f"input {tensor.name!r} holds NaN in sample {sample}, {int(wrong.sum())} of "
                f"{array.size} elements: remove it, or run it as it is with --allow-nan (in Python "
                "allow_nan=True), where a quantized network takes its least number for it"
            )


def _as_array(value: Any, tensor: BufferView, name: str) -> Array:
    if hasattr(value, "detach"):  # a tensor of PyTorch, wherever it is
        value = value.detach().cpu().numpy()
    elif hasattr(value, "__next__"):
        value = list(value)
    try:
        array = np.asarray(value)
    except (ValueError, TypeError) as error:
        raise ModelError(f"{name}: {error}") from None
    if array.dtype == object:
        raise ModelError(
            f"{name} is {type(value).__name__}, which is no array of numbers: give an array "
            "(samples, ...)"
        )
    if _is_plain(value):
        return _of_type(array, tensor, name)
    return _rounded(array, tensor, name) if array.dtype.kind == "f" else array


def _is_plain(value: object) -> bool:
    """Whether it is a list that contains only lists and Python's own numbers."""
    while isinstance(value, list | tuple) and value:
        value = value[0]
    return type(value) in (bool, int, float)


def _of_type(array: Array, tensor: BufferView, name: str) -> Array:
    """Numbers without a type, in the tensor's type. Raises ModelError where it cannot represent
    them."""
    kind = tensor.dtype.numpy
    if array.size and kind.kind in "iu":
        low, high = np.iinfo(kind).min, np.iinfo(kind).max
        wrong = array[(array < low) | (array > high) | (array != np.trunc(array))]
        if wrong.size:
            raise ModelError(
                f"{name} holds {wrong.flat[0]:g}, and {tensor.name!r} takes whole numbers of "
                f"{kind}, {low} to {high}"
            )
    return array.astype(kind)


def _rounded(array: Array, tensor: BufferView, name: str) -> Array:
    """Real numbers in the tensor's type. Raises ModelError where one is too large for it."""
    kind = tensor.dtype.numpy
    if kind.kind != "f" or array.dtype == kind:
        return array
    most = np.finfo(kind).max
    large = np.abs(array[np.isfinite(array)])
    if large.size and large.max() > most:
        raise ModelError(f"{name} holds {large.max():.3g}, and {kind} ends at {most:.3g}")
    return array.astype(kind)


def read_inputs(path: str | Path | None, artifact: Artifact) -> list[Array]:
    """The arrays of the file that --inputs names, (samples, ...) each. Raises ModelError like
    `read_arrays`, and where no file is named but the model has inputs."""
    tensors = [artifact.tensors[index] for index in artifact.inputs]
    if path is not None:
        return read_arrays(path, tensors, "in")
    if not tensors:
        return []
    wanted = ", ".join(
        f"in{number} ({entry.name}) of {entry.dtype}, (samples, {', '.join(map(str, entry.shape))})"
        for number, entry in enumerate(tensor_infos(artifact, artifact.inputs))
    )
    raise ModelError(f"--inputs IN.npz is missing, which {artifact.name!r} needs: {wanted}")


def read_arrays(path: str | Path, tensors: Sequence[BufferView], prefix: str) -> list[Array]:
    """Arrays `prefix`0, `prefix`1 ... of a .npz file, or by the tensors' names: one for each of
    `tensors`, of any shape and type (a session checks them).

    Raises ModelError naming a missing one, OSError for a file that cannot be opened.
    """
    arrays = unpacked_arrays(path, str(path), ModelError)
    found = []
    for k, tensor in enumerate(tensors):
        name = f"{prefix}{k}" if f"{prefix}{k}" in arrays else tensor.name
        if name not in arrays:
            also = f" (or {tensor.name!r})" if tensor.name != f"{prefix}{k}" else ""
            raise ModelError(
                f"{path} has no array {prefix}{k}{also}; it has {', '.join(arrays) or 'none'}"
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
    archive = io.BytesIO()  # a .npz file is written with seeks, which a pipe or /dev/null lacks
    np.savez_compressed(archive, **named)
    write_whole(path, archive.getvalue())


def compare(name: str, got: Array, wanted: Array) -> Difference:
    """Compares element by element, as float64 (int64 beyond 2^53 exactly).

    got, wanted: of the same shape and type, whichever these are; otherwise ModelError is raised.
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
