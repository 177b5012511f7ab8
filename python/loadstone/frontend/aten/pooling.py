# SPDX-License-Identifier: Apache-2.0
"""Pools.

In:   the arguments of an operator, tensors as Relax expressions.
Out:  max_pool2d, avg_pool2d, mean where the window is all.
Next: torch.py emits them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from loadstone.errors import UnsupportedError
from loadstone.frontend.aten.build import Build, Numbers, batched, extents, importer, pair
from loadstone.relax.compat import relax

if TYPE_CHECKING:
    from loadstone.relax.types import Expr

__all__: list[str] = []


@dataclass(frozen=True, eq=False)
class _MaxPool:
    """What aten.max_pool2d takes. stride: empty for that of the kernel."""

    x: Expr
    kernel_size: Numbers
    stride: Numbers
    padding: Numbers
    dilation: Numbers
    ceil_mode: bool


@dataclass(frozen=True, eq=False)
class _AveragePool:
    """What aten.avg_pool2d takes, but for divisor_override."""

    x: Expr
    kernel_size: Numbers
    stride: Numbers
    padding: Numbers
    ceil_mode: bool
    count_include_pad: bool


@importer("aten.max_pool2d", gathers=_MaxPool)
@batched(4)
def _max_pool2d(build: Build, pool: _MaxPool) -> Expr:
    return relax.op.nn.max_pool2d(
        pool.x,
        pool_size=pair(pool.kernel_size),
        strides=pair(pool.stride or pool.kernel_size),
        padding=pair(pool.padding),
        dilation=pair(pool.dilation),
        ceil_mode=pool.ceil_mode,
    )


@importer("aten.max_pool1d", gathers=_MaxPool)
@batched(3)
def _max_pool1d(build: Build, pool: _MaxPool) -> Expr:
    return relax.op.nn.max_pool1d(
        pool.x,
        pool_size=_one(pool.kernel_size),
        strides=_one(pool.stride or pool.kernel_size),
        padding=_one(pool.padding),
        dilation=_one(pool.dilation),
        ceil_mode=pool.ceil_mode,
    )


def _one(numbers: Numbers) -> int:
    """The number of an operator along one axis, which may stand in a list."""
    return numbers if isinstance(numbers, int) else int(numbers[0])


@importer("aten.max_pool2d_with_indices", gathers=_MaxPool)
def _max_pool2d_with_indices(build: Build, pool: _MaxPool) -> list[Expr | None]:
    return [_max_pool2d(build, pool), None]


@importer("aten.avg_pool2d", gathers=_AveragePool)
@batched(4)
def _avg_pool2d(build: Build, pool: _AveragePool) -> Expr:
    counts_pads = pool.count_include_pad and any(pair(pool.padding))
    if pool.ceil_mode and counts_pads:
        raise UnsupportedError(
            "ceil_mode with padding that is counted: use count_include_pad=False, or pad the "
            "image before"
        )
    return relax.op.nn.avg_pool2d(
        pool.x,
        pool_size=pair(pool.kernel_size),
        strides=pair(pool.stride or pool.kernel_size),
        padding=pair(pool.padding),
        ceil_mode=pool.ceil_mode,
        count_include_pad=counts_pads,
    )


@importer("aten.avg_pool1d", gathers=_AveragePool)
@batched(3)
def _avg_pool1d(build: Build, pool: _AveragePool) -> Expr:
    """That of an image of one row."""
    batch, channels, width = extents(pool.x)
    row = build.emit(relax.op.reshape(pool.x, (batch, channels, 1, width)))
    kernel, stride = _one(pool.kernel_size), _one(pool.stride or pool.kernel_size)
    image = replace(
        pool,
        x=row,
        kernel_size=(1, kernel),
        stride=(1, stride),
        padding=(0, _one(pool.padding)),
    )
    return relax.op.reshape(build.emit(_avg_pool2d(build, image)), build.shape)


def _check_batch(x: Expr, rank: int) -> None:
    if len(extents(x)) != rank:
        raise UnsupportedError(
            f"its input of {len(extents(x))} dimensions has no batch: give it one (x[None])"
        )


@importer("aten.adaptive_avg_pool2d", "aten._adaptive_avg_pool2d", free=("output_size",))
def _adaptive_avg_pool2d(build: Build, x: Expr) -> Expr:
    """A mean for one value per channel; a pool where its windows are all alike."""
    _check_batch(x, 4)
    if build.shape[2:] == (1, 1):
        return relax.op.mean(x, axis=[2, 3], keepdims=True)
    window = _even_window(x, build.shape[2:])
    return (
        relax.op.nn.avg_pool2d(x, pool_size=window, strides=window)
        if window
        else relax.op.nn.adaptive_avg_pool2d(x, build.shape[2:])
    )


@importer("aten.adaptive_avg_pool1d", free=("output_size",))
def _adaptive_avg_pool1d(build: Build, x: Expr) -> Expr:
    """That of an image of one row, or a mean."""
    _check_batch(x, 3)
    if build.shape[2:] == (1,):
        return relax.op.mean(x, axis=[2], keepdims=True)
    row = build.emit(relax.op.reshape(x, (*extents(x)[:2], 1, extents(x)[2])))
    window = _even_window(row, (1, *build.shape[2:]))
    pooled = (
        relax.op.nn.avg_pool2d(row, pool_size=window, strides=window)
        if window
        else relax.op.nn.adaptive_avg_pool2d(row, (1, *build.shape[2:]))
    )
    return relax.op.reshape(build.emit(pooled), build.shape)


@importer("aten.adaptive_max_pool2d")
def _adaptive_max_pool2d(build: Build, x: Expr, output_size: Sequence[int]) -> list[Expr | None]:
    _check_batch(x, 4)
    rows, columns = pair(output_size)
    window = _even_window(x, (rows, columns))
    if not window:
        raise UnsupportedError(
            f"its output of {rows} x {columns} does not divide its input of {extents(x)[2]} "
            f"x {extents(x)[3]}"
        )
    return [relax.op.nn.max_pool2d(x, pool_size=window, strides=window), None]


def _even_window(x: Expr, sizes: Sequence[int]) -> tuple[int, ...]:
    """The window of an adaptive pool whose output divides its input; empty for others."""
    ratios = [divmod(extent, size) for extent, size in zip(extents(x)[2:], sizes, strict=True)]
    return () if any(rest for _, rest in ratios) else tuple(whole for whole, _ in ratios)
