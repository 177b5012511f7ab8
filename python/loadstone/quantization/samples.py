# SPDX-License-Identifier: Apache-2.0
"""Samples to calibrate with, checked against the network's inputs.

In:   arrays `in0`, `in1` ... with a leading axis of samples, as in a file of golden inputs.
Out:  Samples: one list of arrays per sample.
Next: calibrate.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import ModelError
from loadstone.numerics import Array
from loadstone.relax.compat import dtype, shape

if TYPE_CHECKING:
    from loadstone.relax.types import Var

__all__ = ["Arrays", "Samples", "samples_from"]


#: Samples as a caller gives them: by name, one array for the only input, or in order of the inputs.
Arrays: TypeAlias = Mapping[str, Array] | Array | Sequence[Array]


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

    arrays: each (samples, ...), with the shape of the parameter behind it. parameters: of the
        network's `main`. Floats are converted to its type.

    Raises ModelError naming the array, and what the network needs.
    """
    named = _named(arrays)
    wanted = {f"in{index}" for index in range(len(parameters))}
    extra = sorted(name for name in named if re.fullmatch(r"in\d+", name) and name not in wanted)
    if extra:
        raise ModelError(
            f"{where}: {extra[0]} is too much: the network has {len(parameters)} inputs, in0 "
            f"to in{len(parameters) - 1}"
        )
    missing = [f"in{index}" for index in range(len(parameters)) if f"in{index}" not in named]
    if missing:
        raise ModelError(
            f"{where}: no array {missing[0]}, which is what input {int(missing[0][2:])} of "
            "the network needs; "
            f"found: {', '.join(sorted(named)) or 'nothing'}"
        )
    checked = tuple(
        _checked(named[f"in{index}"], parameter, f"{where}: in{index}")
        for index, parameter in enumerate(parameters)
    )
    counts = {len(array) for array in checked}
    if len(counts) > 1:
        raise ModelError(
            f"{where}: the inputs have {', '.join(map(str, sorted(counts)))} samples: every "
            "input needs the same number"
        )
    if counts == {0}:
        raise ModelError(f"{where}: no samples: calibration needs at least one, better 32 or more")
    return Samples(checked)


def _named(
    arrays: Arrays,
) -> dict[str, Array]:
    if isinstance(arrays, Mapping):
        return {name: _as_array(array) for name, array in arrays.items()}
    if hasattr(arrays, "__array__"):  # NumPy's, or a tensor of PyTorch
        return {"in0": _as_array(arrays)}
    if hasattr(arrays, "__next__"):  # a generator of samples, of the only input
        rows = [_as_array(row) for row in arrays]
        return {"in0": np.stack(rows) if rows else np.zeros(0, np.float32)}
    if not isinstance(arrays, Sequence):
        raise ModelError(
            f"samples are a {type(arrays).__name__}, not arrays (samples, ...): give one for each "
            "input, or a mapping in0, in1 ..."
        )
    return {f"in{index}": _as_array(array) for index, array in enumerate(arrays)}


def _as_array(value: Any) -> Array:
    return np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)


def _checked(array: Array, parameter: Var, where: str) -> Array:
    expected, kind = shape(parameter) or (), np.dtype(dtype(parameter))
    if array.shape[1:] != expected:
        raise ModelError(
            f'{where} has shape {list(array.shape)}, input "{parameter.name}" needs '
            f"[samples, {', '.join(map(str, expected))}]"
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
