# SPDX-License-Identifier: Apache-2.0
"""Round weights one column after the other, such that later ones compensate the error of earlier
ones.

In:   weights, their steps, the moments of what they are multiplied with.
Out:  integers.
Next: rounding.py, which says where the method comes from.

Let H be the covariance C plus d on its diagonal. The columns that are not rounded yet take the
values for which dw' H dw is least. There are two ways to compute these; they differ in how many
steps they take.

Of many inputs: with H = R R', R upper triangular, U = R^-1 says in its row c what an error of
column c changes in all later columns.

Of few rows, C = A' A with n rows: the errors made so far act through S = A dw alone, n numbers for
each output. With the later columns' M = d + A A' over these (n x n), a block J takes the values
w - (1 + A_J' P)^-1 P' S, where P = M^-1 A_J, and 1 + A_J' P is in the block what H is in the whole.
This takes n^2 K steps instead of K^3.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from loadstone.numerics import Float64Array
from loadstone.quantization.moments import Moments
from loadstone.quantization.scales import INT8_MAX

__all__ = ["compensated"]

#: Added to the covariance's diagonal, as a share of the inputs' mean square, at least.
FLOOR = 1e-3
#: Columns between two updates of the rest, such that they fit the cache.
BLOCK = 64
#: Rows of a triangle that LAPACK inverts as if it were a square.
SMALL = 128

#: Weights of columns: (groups, columns, outputs); each column contiguous.
Columns: TypeAlias = Float64Array


def compensated(
    weights: Float64Array, steps: Float64Array, moments: Moments, damping: float
) -> Float64Array:
    """weights (groups, O, K), steps (groups, O) to integers as float64, of the weights' shape.

    damping: added to the covariance's diagonal, as a share of its mean. The covariance of inputs
        that hardly vary consists of rounding errors: FLOOR keeps it positive.
    """
    spread = moments.spread
    if spread is not None:
        variances = np.einsum("gnk,gnk->gk", spread, spread)
    else:
        covariance = moments.covariance
        variances = np.diagonal(covariance, axis1=1, axis2=2)
    floor = FLOOR * np.mean(moments.mean**2, axis=1) + np.finfo(np.float32).tiny
    added = np.maximum(damping * variances.mean(axis=1), floor)
    order = np.argsort(-variances, axis=1)  # what varies most is rounded first
    columns = np.take_along_axis(weights.transpose(0, 2, 1), order[:, :, None], axis=1)
    if spread is not None:
        found = _of_few(columns, steps, np.take_along_axis(spread, order[:, None, :], 2), added)
    else:
        ordered = np.take_along_axis(
            np.take_along_axis(covariance, order[:, :, None], 1), order[:, None, :], 2
        )
        ordered += added[:, None, None] * np.eye(ordered.shape[-1])
        found = _of_many(columns, steps, _factor(ordered))
    found = np.take_along_axis(found, np.argsort(order, axis=1)[:, :, None], axis=1)
    return np.asarray(found.transpose(0, 2, 1))


def _of_many(columns: Columns, steps: Float64Array, factor: Float64Array) -> Columns:
    """columns: changed in place. factor: U (groups, K, K)."""
    found = np.empty_like(columns)
    for begin in range(0, columns.shape[1], BLOCK):
        end = begin + BLOCK
        inner = factor[:, begin:end, begin:end]
        found[:, begin:end], errors = _rounded_block(columns[:, begin:end], steps, inner)
        columns[:, end:] -= factor[:, begin:end, end:].transpose(0, 2, 1) @ errors
    return found


def _of_few(
    columns: Columns, steps: Float64Array, spread: Float64Array, added: Float64Array
) -> Columns:
    """spread: A (groups, rows, K). added: d (groups,)."""
    inputs = columns.shape[1]
    blocks = [slice(begin, min(begin + BLOCK, inputs)) for begin in range(0, inputs, BLOCK)]
    inverse = np.eye(spread.shape[1]) / added[:, None, None]
    solved, inner = [], []
    for block in reversed(blocks):
        part = spread[:, :, block]
        p = inverse @ part
        inner.append(np.eye(p.shape[2]) + part.transpose(0, 2, 1) @ p)
        inverse -= p @ np.linalg.solve(inner[-1], p.transpose(0, 2, 1))
        solved.append(p)
    found = np.empty_like(columns)
    acting = np.zeros((len(columns), spread.shape[1], columns.shape[2]))
    for block, p, within in zip(blocks, reversed(solved), reversed(inner), strict=True):
        exact = columns[:, block]
        target = exact - np.linalg.solve(within, p.transpose(0, 2, 1) @ acting)
        found[:, block], _ = _rounded_block(target, steps, _factor(within))
        acting += spread[:, :, block] @ (found[:, block] * steps[:, None, :] - exact)
    return found


def _rounded_block(
    columns: Columns, steps: Float64Array, factor: Float64Array
) -> tuple[Columns, Columns]:
    """The integers of a block, changed in place, and the error of each column over its element of
    the diagonal."""
    found, errors = np.empty_like(columns), np.empty_like(columns)
    for column in range(columns.shape[1]):
        found[:, column] = np.clip(np.rint(columns[:, column] / steps), -INT8_MAX, INT8_MAX)
        error = columns[:, column] - found[:, column] * steps
        errors[:, column] = error / factor[:, None, column, column]
        columns[:, column + 1 :] -= (
            factor[:, column, column + 1 :, None] * errors[:, None, column, :]
        )
    return found, errors


def _factor(matrix: Float64Array) -> Float64Array:
    """Upper triangular U with U' U = the inverse of a positive matrix; one per group. Of the
    matrix read backwards, Cholesky's lower triangle is the upper one that is inverted."""
    lower: Float64Array = np.asarray(np.linalg.cholesky(matrix[:, ::-1, ::-1]), np.float64)
    return np.asarray(_inverse_of_lower(lower)[:, ::-1, ::-1])


def _inverse_of_lower(lower: Float64Array) -> Float64Array:
    """Of triangles (groups, K, K)."""
    size = lower.shape[-1]
    if size <= SMALL:
        return np.asarray(np.linalg.inv(lower))
    half = size // 2
    inverse = np.zeros_like(lower)
    first, last = (_inverse_of_lower(lower[:, s, s]) for s in (slice(half), slice(half, None)))
    inverse[:, :half, :half], inverse[:, half:, half:] = first, last
    inverse[:, half:, :half] = -last @ (lower[:, half:, :half] @ first)
    return inverse
