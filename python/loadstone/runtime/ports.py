# SPDX-License-Identifier: Apache-2.0
"""The inputs and outputs of one entry of a model, in the memory of a session.

In:   the views of that memory; arrays of a caller's.
Out:  samples moved there and back; DeviceError for arrays that do not fit.
Next: session.py, which alone imports it, runs the entry in between. A file of its own, since a
      session has one for each entry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from loadstone.artifact.format import Artifact, BufferView
from loadstone.errors import DeviceError
from loadstone.numerics import Array
from loadstone.runtime.arrays import as_inputs, check_numbers, misfit

__all__ = ["EntryPorts", "Inputs"]

#: The inputs of a run: an array for each, in order or by name.
Inputs: TypeAlias = Array | Sequence[Any] | Mapping[str, Any]


@dataclass(frozen=True)
class EntryPorts:
    """number: of the entry. artifact: the model as if the entry were all of it. inputs, outputs:
    views of memory, in the model's order."""

    number: int
    artifact: Artifact
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]

    def checked(self, inputs: Inputs, allow_nan: bool) -> list[Array]:
        """One array (samples, ...) for each input. Raises DeviceError for those that do not fit,
        naming the name, shape and type needed; ModelError for NaN unless it is allowed."""
        tensors = self._tensors(self.artifact.inputs)
        arrays = [
            array[:, None] if array.ndim == 1 == tensor.elements else array  # a number each
            for tensor, array in zip(tensors, as_inputs(inputs, tensors), strict=True)
        ]
        for tensor, array in zip(tensors, arrays, strict=True):
            shape = _sample_shape(tensor, self.artifact.samples)
            if why := misfit(array, tensor, shape):
                raise DeviceError(why)
            if len(array) != len(arrays[0]):
                raise DeviceError(
                    f"input {tensor.name!r} has {len(array)} samples, {tensors[0].name!r} "
                    f"has {len(arrays[0])}"
                )
        if not allow_nan:
            check_numbers(arrays, tensors)
        return arrays

    def empty_outputs(self, count: int) -> list[Array]:
        """Arrays of shape (count, ...) for so many samples, one for each output."""
        return [
            np.empty((count, *_sample_shape(t, self.artifact.samples)), t.dtype.numpy)
            for t in self._tensors(self.artifact.outputs)
        ]

    def bring(self, arrays: Sequence[Array], begin: int, end: int) -> None:
        """Puts samples `begin` up to `end` of arrays of shape (samples, ...), zeros behind them."""
        for view, array in zip(self.inputs, arrays, strict=True):
            rows = view.reshape(self.artifact.samples, *array.shape[1:])
            rows[: end - begin] = array[begin:end]
            rows[end - begin :] = 0

    def take(self, outputs: Sequence[Array], begin: int, end: int) -> None:
        """Writes the results of these samples to arrays of shape (samples, ...)."""
        for view, out in zip(self.outputs, outputs, strict=True):
            out[begin:end] = view.reshape(self.artifact.samples, *out.shape[1:])[: end - begin]

    def _tensors(self, indices: Sequence[int]) -> list[BufferView]:
        return [self.artifact.tensors[i] for i in indices]


def _sample_shape(tensor: BufferView, samples: int) -> tuple[int, ...]:
    return (tensor.shape[0] // samples, *tensor.shape[1:])
