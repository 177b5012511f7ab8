# SPDX-License-Identifier: Apache-2.0
"""bfloat16: the upper half of a float32, rounded to nearest even.

In:   float32 arrays; bits of bfloat16 as uint16.
Out:  the one from the other, the same on every machine.
Next: vta/meaning/reference.py computes with them; runtime/operators_bfloat16.c rounds the inputs of
      a device.

A bfloat16 has a sign, eight bits of exponent and seven of fraction: every bfloat16 is a float32,
and numbers beyond the largest become infinite. Subnormal numbers are preserved. Every NaN becomes
0x7FC0.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["LOWEST", "NAN", "bits_of", "immediate", "rounded", "widened"]

#: Bits of the one not-a-number.
NAN = 0x7FC0
#: The least finite number.
LOWEST = float(np.array(0xFF7F << 16, np.uint32).view(np.float32))


def bits_of(x: ArrayLike) -> NDArray[np.uint16]:
    """Bits of the nearest bfloat16 of every float32; ties to even. Of any shape."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    up = (bits >> np.uint32(16)) & np.uint32(1)
    nearest = (bits + np.uint32(0x7FFF) + up) >> np.uint32(16)  # of a number: never wraps
    return np.where(np.isnan(x), np.uint32(NAN), nearest).astype(np.uint16)


def widened(bits: ArrayLike) -> NDArray[np.float32]:
    """The float32 that each bfloat16 is. bits: uint16, of any shape."""
    return (np.asarray(bits, np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)


def rounded(x: ArrayLike) -> NDArray[np.float32]:
    """The nearest bfloat16 of every float32, as float32; of any shape."""
    return widened(bits_of(x))


def immediate(x: float) -> int:
    """The nearest bfloat16 as the 16-bit signed immediate of an ALU instruction."""
    return int(bits_of(np.float32(x)).astype(np.int16))
