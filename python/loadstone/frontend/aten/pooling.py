# SPDX-License-Identifier: Apache-2.0
"""Pools and reductions.

In:   the arguments of an operator, tensors as Relax expressions.
Out:  max_pool2d, avg_pool2d, mean ...
Next: torch.py emits them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from loadstone.errors import UnsupportedError
from loadstone.frontend.aten.build import Build, Numbers, extents, importer, pair
from loadstone.relax.compat import relax

if TYPE_CHECKING:
    from loadstone.relax.types import Expr

__all__: list[str] = []


@dataclass(frozen=True)
class _MaxPool:
    """What aten.max_pool2d takes after its image. stride: empty for that of the kernel."""

    kernel: Numbers
    stride: Numbers = ()
    padding: Numbers = 0
    dilation: Numbers = 1
    ceil_mode: bool = False


@dataclass(frozen=True)
class _AveragePool:
    """What aten.avg_pool2d takes after its image. divisor: in place of the window's size."""

    kernel: Numbers
    stride: Numbers = ()
    padding: Numbers = 0
    ceil_mode: bool = False
    count_include_pad: bool = True
    divisor: int | None = None


@importer("aten.max_pool2d")
def _max_pool2d(build: Build, x: Expr, *arguments: Any, **named: Any) -> Expr:
    pool = _MaxPool(*arguments, **named)
    return relax.op.nn.max_pool2d(
        x,
        pool_size=pair(pool.kernel),
        strides=pair(pool.stride or pool.kernel),
        padding=pair(pool.padding),
        dilation=pair(pool.dilation),
        ceil_mode=pool.ceil_mode,
    )


@importer("aten.max_pool1d")
def _max_pool1d(build: Build, x: Expr, *arguments: Any, **named: Any) -> Expr:
    pool = _MaxPool(*arguments, **named)
    return relax.op.nn.max_pool1d(
        x,
        pool_size=_one(pool.kernel),
        strides=_one(pool.stride or pool.kernel),
        padding=_one(pool.padding),
        dilation=_one(pool.dilation),
        ceil_mode=pool.ceil_mode,
    )


def _one(numbers: Numbers) -> int:
    """The number of an operator along one axis, which may stand in a list."""
    return numbers if isinstance(numbers, int) else int(numbers[0])


@importer("aten.max_pool2d_with_indices")
def _max_pool2d_with_indices(build: Build, *arguments: Any) -> list[Expr | None]:
    return [_max_pool2d(build, *arguments), None]


@importer("aten.avg_pool2d")
def _avg_pool2d(build: Build, x: Expr, *arguments: Any, **named: Any) -> Expr:
    pool = _AveragePool(*arguments, **named)
    counts_pads = pool.count_include_pad and any(pair(pool.padding))
    if pool.divisor is not None:
        raise UnsupportedError(
            f"it divides by {pool.divisor} (divisor_override): multiply its result instead"
        )
    if pool.ceil_mode and counts_pads:
        raise UnsupportedError(
            "ceil_mode with padding that is counted: use count_include_pad=False, or pad the "
            "image before"
        )
    return relax.op.nn.avg_pool2d(
        x,
        pool_size=pair(pool.kernel),
        strides=pair(pool.stride or pool.kernel),
        padding=pair(pool.padding),
        ceil_mode=pool.ceil_mode,
        count_include_pad=counts_pads,
    )


@importer("aten.adaptive_avg_pool2d", "aten._adaptive_avg_pool2d")
def _adaptive_avg_pool2d(build: Build, x: Expr, size: int | Sequence[int]) -> Expr:
    """A mean for one value per channel; a pool where its windows are all alike."""
    if build.shape[2:] == (1, 1):
        return relax.op.mean(x, axis=[2, 3], keepdims=True)
    window = _even_window(x, build.shape[2:])
    return (
        relax.op.nn.avg_pool2d(x, pool_size=window, strides=window)
        if window
        else relax.op.nn.adaptive_avg_pool2d(x, build.shape[2:])
    )


@importer("aten.adaptive_avg_pool1d")
def _adaptive_avg_pool1d(build: Build, x: Expr, size: int | Sequence[int]) -> Expr:
    """That of an image of one row, or a mean."""
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
def _adaptive_max_pool2d(build: Build, x: Expr, size: int | Sequence[int]) -> list[Expr | None]:
    rows, columns = pair(size)
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


@importer("aten.mean")
def _mean(
    build: Build,
    x: Expr,
    axes: int | Sequence[int] | None = None,
    keepdim: bool = False,
    dtype: object = None,
) -> Expr:
    return relax.op.mean(x, axis=_axes(x, axes), keepdims=keepdim)


@importer("aten.sum")
def _sum(
    build: Build,
    x: Expr,
    axes: int | Sequence[int] | None = None,
    keepdim: bool = False,
    dtype: object = None,
) -> Expr:
    return relax.op.sum(x, axis=_axes(x, axes), keepdims=keepdim)


@importer("aten.amax")
def _amax(build: Build, x: Expr, axes: int | Sequence[int] = (), keepdim: bool = False) -> Expr:
    return relax.op.max(x, axis=_axes(x, axes), keepdims=keepdim)


@importer("aten.argmax")
def _argmax(build: Build, x: Expr, axis: int | None = None, keepdim: bool = False) -> Expr:
    return relax.op.argmax(x, axis=axis, keepdims=keepdim)


def _axes(x: Expr, axes: int | Sequence[int] | None) -> list[int] | None:
    """None and an empty list are all axes."""
    items = [axes] if isinstance(axes, int) else list(axes or ())
    return sorted(axis % len(extents(x)) for axis in items) or None
