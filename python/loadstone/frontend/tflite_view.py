# SPDX-License-Identifier: Apache-2.0
"""A tensor of a TFLite file as TVM's importer asks for one.

In:   a TensorRecord; whether its integers stand for real numbers.
Out:  TensorView, with the methods of the package tflite's Tensor and Buffer that are called.
Next: tflite.py gives it to TVM's converters.

What they see is what was read and checked, and what became of it: constants that were folded,
weights that were widened. A quantized tensor is shown as float32.
"""

# ruff: noqa: D102, N802 (the names are the schema's, and say what they give)

from __future__ import annotations

import numpy as np
import tflite
from numpy.typing import NDArray

from loadstone.frontend.tflite_file import TYPES, TensorRecord
from loadstone.numerics import Array

__all__ = ["TensorView"]

_NUMBERS = {dtype: number for number, dtype in TYPES.items()}


class TensorView:
    """What the package's Tensor says of a tensor, and its buffer."""

    def __init__(self, record: TensorRecord, *, real: bool) -> None:
        self._record, self._real = record, real
        self.buffer = _BufferView(record.data)

    def Type(self) -> int:
        return int(tflite.TensorType.FLOAT32) if self._real else _NUMBERS[self._record.dtype]

    def Shape(self, axis: int) -> int:
        return self._record.shape[axis]

    def ShapeLength(self) -> int:
        return len(self._record.shape)

    def ShapeAsNumpy(self) -> NDArray[np.int32]:
        """The extents, one-dimensional."""
        return np.array(self._record.shape, np.int32)

    def Name(self) -> bytes:
        return self._record.name.encode()

    def Quantization(self) -> None:
        """None: tflite.py dequantizes and quantizes."""

    def Sparsity(self) -> None:
        """None: tflite_file.py refuses what is stored sparse."""

    def IsVariable(self) -> bool:
        return self._record.is_variable


class _BufferView:
    def __init__(self, data: Array | None) -> None:
        self._data = data

    def DataLength(self) -> int:
        return 0 if self._data is None else self._data.nbytes

    def DataAsNumpy(self) -> NDArray[np.uint8]:
        return np.frombuffer(b"" if self._data is None else self._data.tobytes(), np.uint8)
