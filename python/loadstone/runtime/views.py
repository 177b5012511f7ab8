# SPDX-License-Identifier: Apache-2.0
"""Memory of C as arrays of NumPy.

In:   an address, the tensor that stands there, what owns the memory.
Out:  an array that shares it.
Next: session.py gives inputs, outputs and operands so.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from loadstone.artifact.format import BufferView, DataType
from loadstone.library.native import CData, ffi
from loadstone.numerics import Array

__all__ = ["view_of"]


def view_of(data: CData, tensor: BufferView, keep: object) -> Array:
    """The tensor's memory as an array of its shape that shares it, and keeps its owner alive."""
    pointer = ffi.gc(ffi.cast("char *", data), partial(_forget, keep))
    dtype = tensor.dtype.numpy if tensor.dtype != DataType.BOOL else np.dtype(np.bool_)
    return np.frombuffer(ffi.buffer(pointer, tensor.size_bytes), dtype).reshape(tensor.memory_shape)


def _forget(keep: object, pointer: CData) -> None:
    """The last view no longer exists, and with it the reference to `keep`."""
