# SPDX-License-Identifier: Apache-2.0
"""Steps on rows of a decoder, in NumPy: sums of floats in the one order that C keeps.

In:   float32 arrays, int8 caches, places.
Out:  what runtime/operators_rows.c and runtime/operators_cache.c write, bit by bit (but for the
      payload of what is no number); runtime/FORMAT.md defines it, docs/numerics.md says why.
Next: row_calls.py brings them into Relax.

No sum depends on the number of rows, so that a chunk of rows leaves what single rows leave.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from loadstone.numerics import Array

__all__ = [
    "attention",
    "gate",
    "hadamard",
    "keep_rows",
    "quantize_rows",
    "rescale_rows",
    "rms_norm",
    "rotate_places",
    "row_exp",
    "row_scales",
    "sum_rows",
    "take_columns",
]

F = np.float32
Floats: TypeAlias = NDArray[np.float32]
Bytes: TypeAlias = NDArray[np.int8]
Integers: TypeAlias = NDArray[np.int32]

_LANES = 8
_TURN = 64
_MOST = 127
#: Adding 1.5 * 2^23 rounds to an integer, half to even.
_MAGIC = F(12582912)


def sum_rows(x: Floats) -> Floats:
    """The sum along the last axis, (..., n) -> (...): lane j begins at 0 and adds elements j,
    j + 8, j + 16 ...; then a tree of the lanes."""
    lanes = np.zeros((*x.shape[:-1], _LANES), F)
    for begin in range(0, x.shape[-1], _LANES):
        piece = x[..., begin : begin + _LANES]
        lanes[..., : piece.shape[-1]] += piece
    a, b, c, d, e, f, g, h = np.moveaxis(lanes, -1, 0)
    return np.asarray(((a + e) + (c + g)) + ((b + f) + (d + h)))


def row_exp(x: Floats) -> Floats:
    """e^x of any shape, by products and sums of float32 alone; x is clamped to 200 on either side.
    Within 1e-7 where the result is a normal number, 0 below, infinity above."""
    x = np.where(np.abs(x) > F(200), np.copysign(F(200), x), x)
    shifted = x * F(1.44269504) + _MAGIC
    whole = shifted - _MAGIC
    r = (x - whole * F(0.693359375)) - whole * F(-2.12194440e-4)
    e = np.full_like(x, 1.9875691500e-4)
    for c in (1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1):
        e = e * r + F(c)
    e = e * (r * r) + r + F(1)
    power = np.clip(shifted.view(np.int32).astype(np.int64) - 0x4B400000, -127, 128)
    return np.asarray(e * ((power.astype(np.int32) + 127) << 23).view(F))


def rms_norm(x: Floats, weights: Floats, epsilon: float) -> Floats:
    """x * (1 / sqrt(mean of squares + epsilon)) * weights (n,), along rows of n elements of x, of
    any shape."""
    rows = x.reshape(-1, weights.size)
    mean = sum_rows(rows * rows) / F(weights.size)
    factor = F(1) / np.sqrt(mean + F(epsilon))
    return np.asarray(rows * factor[:, None] * weights.reshape(-1)).reshape(x.shape)


def rotate_places(x: Floats, place: Integers, angles: Floats, neighbours: bool) -> Floats:
    """x: (rows, heads, size), row r at place[0] + r, the last place at most. angles: (places,
    turned), cosines, then sines. Pairs are neighbours, or the two halves of the first `turned`
    elements; the others stay."""
    half = angles.shape[1] // 2
    at = np.minimum(int(place[0]) + np.arange(len(x)), len(angles) - 1)
    cosine, sine = angles[at, None, :half], angles[at, None, half:]
    firsts = slice(0, 2 * half, 2) if neighbours else slice(0, half)
    seconds = slice(1, 2 * half, 2) if neighbours else slice(half, 2 * half)
    a, b, y = x[..., firsts], x[..., seconds], x.copy()
    y[..., firsts], y[..., seconds] = a * cosine - b * sine, a * sine + b * cosine
    return y


def hadamard(x: Floats) -> Floats:
    """Rows (..., 64 k) times a block-diagonal Hadamard matrix of 64 by 64, over 8: six passes of
    sums and differences, of pairs that are 32, 16 ... 1 apart."""
    y = x.reshape(-1, _TURN)
    for half in (32, 16, 8, 4, 2, 1):
        pairs = y.reshape(-1, _TURN // (2 * half), 2, half)
        a, b = pairs[:, :, 0], pairs[:, :, 1]
        y = np.stack([a + b, a - b], 2).reshape(-1, _TURN)
    return (y * F(0.125)).reshape(x.shape)


def row_scales(x: Floats, rotate: bool = False) -> Floats:
    """max |x| / 127 along the last axis, (..., 1); 1 where that is 0, what is no number where a
    row has such a thing, infinity where it has infinity."""
    turned = hadamard(x) if rotate else x
    scale = np.abs(turned).max(-1, keepdims=True) / F(_MOST)
    return np.where(scale == 0, F(1), scale)


def quantize_rows(x: Floats, scales: Floats, rotate: bool = False) -> Bytes:
    """x (..., n) / scales (..., 1), half to even, at most 127 on either side; zeros where the scale
    is not finite."""
    turned = hadamard(x) if rotate else x
    rows = scales.reshape(*x.shape[:-1], 1)
    finite = np.isfinite(rows)
    ratio = turned / np.where(finite, rows, F(1))
    inside = np.where(np.abs(ratio) <= _MOST, ratio, np.copysign(F(_MOST), ratio))
    return np.where(finite, np.rint(inside), F(0)).astype(np.int8)


def rescale_rows(x: Array, scales: Floats, channels: Floats, planes: int) -> Floats:
    """float32(sum) * scale of the row * scale of the channel. x: (rows, channels) int32 (planes 0)
    or int8 (planes 1), or (rows, planes * n) int8, the bytes of each sum, the lowest plane first,
    n at least the channels."""
    rows = x.reshape(scales.size, -1)
    sums = rows.astype(np.int32)
    if planes > 1:
        parts = rows.reshape(scales.size, planes, -1)[..., : channels.size].astype(np.int32)
        sums = parts[:, -1] << (8 * (planes - 1))
        for plane in range(planes - 1):
            sums = sums | (parts[:, plane] & 255) << (8 * plane)
    return sums.astype(F) * scales.reshape(-1, 1) * channels.reshape(-1)


def keep_rows(cache: Array, x: Array, place: Integers) -> Array:
    """The cache (groups, places, size) with the first place[1] rows of x (rows, groups, size) from
    place[0] on."""
    begin, count = int(place[0]), int(place[1])
    made = cache.copy()
    made[:, begin : begin + count] = np.moveaxis(x[:count], 0, 1)
    return made


def attention(
    queries: Floats,
    place: Integers,
    caches: tuple[Bytes, Floats, Bytes, Floats],
    *,
    window: int,
    factor: float,
) -> Floats:
    """queries: (rows, heads, size). caches: keys (groups, places, size), their scales (groups,
    places), and values alike. Row r sees the places up to place[0] + r, of them the last `window`
    (0: all). Rows from place[1] on are zeros."""
    keys, key_scales, values, value_scales = caches
    rows, heads, size = queries.shape
    y = np.zeros_like(queries)
    for row in range(min(rows, int(place[1]))):
        end = int(place[0]) + row + 1
        seen = slice(max(0, end - window) if window else 0, end)
        q = queries[row].reshape(len(keys), -1, 1, size)
        score = sum_rows(q * keys[:, None, seen].astype(F)) * key_scales[:, None, seen] * F(factor)
        weight = row_exp(score - score.max(-1, keepdims=True))
        total = sum_rows(weight)
        weight = weight * value_scales[:, None, seen]
        mixed = np.zeros((*weight.shape[:2], size), F)
        for k, value in enumerate(np.moveaxis(values[:, seen], 1, 0)):
            mixed += weight[..., k, None] * value[:, None].astype(F)
        y[row] = (mixed / total[..., None]).reshape(heads, size)
    return y


def gate(a: Floats, x: Floats, function: int) -> Floats:
    """function 0: SiLU(a) * x; 1: GELU by tanh(a) * x; a and x of any shape, the same."""
    inner = a if function == 0 else F(1.5957691216) * (a + F(0.044715) * (a * a * a))
    return a / (F(1) + row_exp(-inner)) * x


def take_columns(table: Array, numbers: Integers) -> Array:
    """Columns of a table (depth, columns) as rows (numbers, depth); a number outside of it is the
    nearest one inside."""
    return np.asarray(table[:, np.clip(numbers, 0, table.shape[1] - 1)].T)
