# SPDX-License-Identifier: Apache-2.0
"""The meaning of ALU's operations on lanes, RQ aside.

In:   accumulators and operands of equal shape, or one operand for all.
Out:  OPERATIONS of int32, which wrap; FLOAT_OPERATIONS of float32; shift_right; float32 from and
      to the bfloat16 that DRAM has.
Next: reference.py executes instructions with them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loadstone.numerics import wrap_int32
from loadstone.vta.isa.spec import AluOp

__all__ = ["FLOAT_OPERATIONS", "OPERATIONS", "bits_of", "shift_right", "widened"]

Int32Array: TypeAlias = NDArray[np.int32]
Float32Array: TypeAlias = NDArray[np.float32]


def shift_right(x: Int32Array, amount: Int32Array | np.int32) -> Int32Array:
    """floor(x / 2^amount) for any int32 amount; a negative amount shifts left, and wraps.
    Shapes broadcast."""
    n = np.asarray(amount, np.int64)
    right = np.asarray(x, np.int64) >> np.clip(n, 0, 32)
    return wrap_int32(right << np.clip(-n, 0, 32))


OPERATIONS: Mapping[AluOp, Callable[[Int32Array, Int32Array | np.int32], Int32Array]] = {
    AluOp.MIN: np.minimum,
    AluOp.MAX: np.maximum,
    AluOp.ADD: lambda x, y: wrap_int32(np.asarray(x, np.int64) + y),
    AluOp.SHR: shift_right,
    AluOp.MUL: lambda x, y: wrap_int32(np.asarray(x, np.int64) * y),
}

FLOAT_OPERATIONS: Mapping[AluOp, Callable[[Float32Array, Float32Array], Float32Array]] = {
    AluOp.MIN: lambda x, y: np.where((x < y) | np.isnan(x), x, y),
    AluOp.MAX: lambda x, y: np.where((x > y) | np.isnan(x), x, y),
    AluOp.ADD: lambda x, y: x + y,
    AluOp.MUL: lambda x, y: x * y,
}


def widened(bits: ArrayLike) -> Float32Array:
    """bfloat16 as float32. Imported here: devices of integers need nothing of the graph."""
    from loadstone.graph import bfloat16

    return bfloat16.widened(bits)


def bits_of(x: Float32Array) -> NDArray[np.uint16]:
    """The nearest bfloat16 of float32."""
    from loadstone.graph import bfloat16

    return bfloat16.bits_of(x)
