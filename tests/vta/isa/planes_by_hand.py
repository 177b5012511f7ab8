# SPDX-License-Identifier: Apache-2.0
"""The code of bit planes once more, bit by bit, written from docs/isa.md.

In:   the bytes of a code.
Out:  `rows_by_hand`.
Next: test_weight_planes.py, tests/vta/validator/isolated.py.
"""

from __future__ import annotations

__all__ = ["rows_by_hand"]


def rows_by_hand(code: bytes, most: int) -> list[list[int]]:
    """The rows of 16 weights that a code has, `most` at most."""
    found: list[list[int]] = []
    words = [int.from_bytes(code[at : at + 8], "little") for at in range(0, len(code), 8)]
    while words:
        head, bits = words[0], "".join(f"{word:064b}"[::-1] for word in words[1:])
        used = 0
        for row in range(16):
            count = 4 + min(head >> 4 * row & 7, 4)
            if len(found) == most or used + 16 * count > len(bits):
                return found
            planes = [bits[used + 16 * p : used + 16 * p + 16] for p in range(count)]
            numbers = [int("".join(plane[k] for plane in planes), 2) for k in range(16)]
            found.append([n - (n >> count - 1 << count) for n in numbers])
            used += 16 * count
        words = words[1 + -(-used // 64) :]
    return found
