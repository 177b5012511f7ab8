# SPDX-License-Identifier: Apache-2.0
"""Samples to calibrate with, checked against the network's inputs.

In:   arrays `in0`, `in1` ... or by the inputs' names, with a leading axis of samples, as in a file
      of golden inputs; or a folder of images (images.py).
Out:  Samples: one list of arrays per sample.
Next: calibrate.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import ModelError, axis_hint, suggestion
from loadstone.files import unpacked_arrays
from loadstone.numerics import Array
from loadstone.quantization.images import PIXELS, ImageFolder
from loadstone.relax.compat import dtype, shape

if TYPE_CHECKING:
    from loadstone.relax.types import Var

__all__ = ["Arrays", "Samples", "read_samples", "samples_from"]


#: The forms of samples: by name, one array for the only input, in the order of the inputs, an .npz
#: file of them, or images.
Arrays: TypeAlias = Mapping[str, Array] | Array | Sequence[Array] | str | Path | ImageFolder


@dataclass(frozen=True, eq=False)
class Samples:
    """arrays: one per input of the network, (samples, *shape of the input). labels: (samples,), a
    class for each, where they are known."""

    arrays: tuple[Array, ...]
    labels: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.arrays[0])

    def __iter__(self) -> Iterator[list[Array]]:
        return ([array[index] for array in self.arrays] for index in range(len(self)))

    def first(self, count: int) -> Samples:
        """At most `count` of them, spread evenly."""
        if count >= len(self):
            return self
        chosen = np.linspace(0, len(self) - 1, count).astype(int)
        labels = self.labels[chosen] if self.labels is not None else None
        return Samples(tuple(array[chosen] for array in self.arrays), labels)


def samples_from(
    arrays: Arrays,
    parameters: Sequence[Var],
    where: str = "samples",
) -> Samples:
    """Checks number, shape, type and finiteness of samples.

    arrays: each (samples, ...), with the shape of the parameter at the same position. parameters:
        of the network's `main`. Floats are converted to its type.
    Raises ModelError naming the array and the requirement.
    """
    named = _named(arrays, parameters)
    names = {f"in{index}": str(entry.name) for index, entry in enumerate(parameters)}
    extra = sorted(name for name in named if re.fullmatch(r"in\d+", name) and name not in names)
    extra = [name for name in extra if name not in names.values()]
    if extra:
        raise ModelError(
            f"{where}: {extra[0]} is too much: the network has {len(parameters)} inputs, in0 "
            f"to in{len(parameters) - 1}"
        )
    checked: list[Array] = []
    for number, name in names.items():
        key = number if number in named else name
        if key not in named:
            near = suggestion(name, named) if len(named) > 1 else ""
            also = f" (or {name!r})" if name != number else ""
            raise ModelError(
                f"{where}: no array {number}{also}, which is what input {number[2:]} of "
                f"the network needs; found: {', '.join(sorted(named)) or 'nothing'}{near}"
            )
        checked.append(_checked(named[key], parameters[len(checked)], f"{where}: {key}"))
    counts = {len(array) for array in checked}
    if len(counts) > 1:
        raise ModelError(
            f"{where}: the inputs have {', '.join(map(str, sorted(counts)))} samples: every "
            "input needs the same number"
        )
    if counts == {0}:
        raise ModelError(f"{where}: no samples: calibration needs at least one, better 32 or more")
    return Samples(tuple(checked))


def read_samples(path: str | Path) -> dict[str, Array]:
    """Every array of an .npz file, or the array of an .npy file as in0, in its own shape. Raises
    ModelError for any other file, and for a folder."""
    if Path(path).is_dir():
        raise ModelError(
            f"{path} is a folder: one of images is read when it is said how pixels become numbers: "
            f"--pixels {', '.join(PIXELS)}; in Python ImageFolder(path, pixels)"
        )
    return unpacked_arrays(path, str(path), ModelError)


def _named(arrays: Arrays, parameters: Sequence[Var]) -> dict[str, Array]:
    if isinstance(arrays, ImageFolder):
        return {"in0": _images(arrays, parameters)}
    if isinstance(arrays, str | Path):
        return read_samples(arrays)
    if isinstance(arrays, Mapping):
        return {str(name): _as_array(array) for name, array in arrays.items()}
    if hasattr(arrays, "__array__"):  # NumPy's, or a tensor of PyTorch
        return {"in0": _as_array(arrays)}
    if hasattr(arrays, "__next__"):  # a generator of samples, of the only input
        rows = [_as_array(row) for row in arrays]
        return {"in0": _stacked(rows, parameters) if rows else np.zeros(0, np.float32)}
    if not isinstance(arrays, Sequence):
        raise ModelError(
            f"samples are a {type(arrays).__name__}, not arrays (samples, ...): give one for each "
            "input, or a mapping in0, in1 ..."
        )
    return _in_order(arrays, parameters)


def _images(folder: ImageFolder, parameters: Sequence[Var]) -> Array:
    if len(parameters) != 1:
        raise ModelError(
            f"{folder.path} is a folder of images, and the network has {len(parameters)} inputs: "
            "give an .npz file with an array for each"
        )
    return folder.read(shape(parameters[0]) or ())


def _in_order(arrays: Sequence[Any], parameters: Sequence[Var]) -> dict[str, Array]:
    """An array for each input; a sequence of samples where there is one input."""
    found = [_as_array(array) for array in arrays]
    if len(parameters) == 1 and found and all(x.shape == shape(parameters[0]) for x in found):
        return {"in0": _stacked(found, parameters)}
    return {f"in{index}": array for index, array in enumerate(found)}


def _stacked(rows: Sequence[Array], parameters: Sequence[Var]) -> Array:
    """One array of all samples. Raises ModelError where they differ in shape."""
    different = next((row.shape for row in rows if row.shape != rows[0].shape), None)
    if different is not None:
        raise ModelError(
            f"samples have shapes {list(rows[0].shape)} and {list(different)}: all samples of "
            f'input "{parameters[0].name}" have one shape'
        )
    return np.stack(rows)


def _as_array(value: Any) -> Array:
    """Numbers in lists are real numbers, even if all are whole."""
    try:
        array = np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
    except ValueError as error:  # lists of different lengths
        raise ModelError(f"samples are no array of numbers: {error}") from None
    is_list = isinstance(value, list | tuple) and not any(hasattr(x, "dtype") for x in value)
    return array.astype(np.float64) if is_list and array.dtype.kind in "iu" else array


def _checked(array: Array, parameter: Var, where: str) -> Array:
    expected, kind = shape(parameter) or (), np.dtype(dtype(parameter))
    if array.shape[1:] != expected:
        raise ModelError(
            f'{where} has shape {list(array.shape)}, input "{parameter.name}" needs '
            f"[samples, {', '.join(map(str, expected))}]" + axis_hint(array.shape, expected)
        )
    if array.dtype.kind != kind.kind:
        raise ModelError(f'{where} is {array.dtype}, input "{parameter.name}" is {kind}')
    if array.dtype.kind == "f" and not np.all(np.isfinite(array)):
        sample = int(np.argmin(np.isfinite(array).reshape(len(array), -1).all(axis=1)))
        raise ModelError(f"{where} holds NaN or infinity in sample {sample}: remove it")
    if array.dtype.kind == "f" and array.size and np.abs(array).max() > np.finfo(kind).max:
        raise ModelError(
            f"{where} holds {array.flat[np.argmax(np.abs(array))]:.3g}: {kind} ends at "
            f"{np.finfo(kind).max:.3g}"
        )
    return array.astype(kind, copy=False)
