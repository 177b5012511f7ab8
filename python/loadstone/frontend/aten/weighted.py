# SPDX-License-Identifier: Apache-2.0
"""Operators with weights: convolutions, dense layers, products.

In:   the arguments of an operator, tensors as Relax expressions.
Out:  conv2d, matmul and what they need beside.
Next: torch.py emits them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from loadstone.errors import UnsupportedError
from loadstone.frontend.aten.build import Build, Numbers, batched, extents, importer, like, pair
from loadstone.frontend.aten.dynamic import integer_linear
from loadstone.relax.compat import relax

if TYPE_CHECKING:
    from loadstone.relax.types import Expr

__all__: list[str] = []


@dataclass(frozen=True, eq=False)
class _Convolution:
    """What aten.conv1d and aten.conv2d take. padding: a text in the overload of that name."""

    x: Expr
    weight: Expr
    bias: Expr
    stride: Numbers
    padding: Numbers | str
    dilation: Numbers
    groups: int


@dataclass(frozen=True, eq=False)
class _TransposedConvolution:
    """What aten.conv_transpose1d and aten.conv_transpose2d take."""

    x: Expr
    weight: Expr
    bias: Expr
    stride: Numbers
    padding: Numbers
    output_padding: Numbers
    groups: int
    dilation: Numbers


@dataclass(frozen=True, eq=False)
class _AnyConvolution:
    """What aten.convolution takes."""

    x: Expr
    weight: Expr
    bias: Expr
    stride: Numbers
    padding: Numbers
    dilation: Numbers
    transposed: bool
    output_padding: Numbers
    groups: int


@importer("aten.conv2d", gathers=_Convolution)
@batched(4)
def _conv2d(build: Build, convolution: _Convolution) -> Expr:
    befores, afters = _sides(convolution, 2)
    out = relax.op.nn.conv2d(
        convolution.x,
        convolution.weight,
        strides=pair(convolution.stride),
        padding=(*befores, *afters),
        dilation=pair(convolution.dilation),
        groups=convolution.groups,
    )
    return _biased(build, out, convolution.bias)


@importer("aten.conv1d", gathers=_Convolution)
@batched(3)
def _conv1d(build: Build, convolution: _Convolution) -> Expr:
    """As it is: ranks.py makes a convolution of images of it."""
    (before,), (after,) = _sides(convolution, 1)
    out = relax.op.nn.conv1d(
        convolution.x,
        convolution.weight,
        strides=pair(convolution.stride)[1],
        padding=(before, after),
        dilation=pair(convolution.dilation)[1],
        groups=convolution.groups,
    )
    return _biased(build, out, convolution.bias)


def _sides(convolution: _Convolution, rank: int) -> tuple[list[int], list[int]]:
    """Rows and columns that are padded before and after. `same`: the odd one after."""
    if not isinstance(convolution.padding, str):
        sides = list(pair(convolution.padding))[-rank:]
        return sides, sides
    if convolution.padding not in ("same", "valid"):
        raise UnsupportedError(
            f'its argument "padding" is {convolution.padding}: same, valid and numbers are done'
        )
    steps = pair(convolution.dilation)[-rank:]
    taps = extents(convolution.weight)[2:]
    is_same = convolution.padding == "same"
    totals = [step * (tap - 1) * is_same for step, tap in zip(steps, taps, strict=True)]
    return [total // 2 for total in totals], [total - total // 2 for total in totals]


def _check_output_padding(convolution: _TransposedConvolution) -> None:
    strides, more = pair(convolution.stride), pair(convolution.output_padding)
    if any(side >= step for side, step in zip(more, strides, strict=True)):
        raise UnsupportedError(
            f"its output_padding of {more[0]} x {more[1]} is not below its stride of "
            f"{strides[0]} x {strides[1]}: pad its result instead"
        )


@importer("aten.conv_transpose2d", gathers=_TransposedConvolution)
@batched(4)
def _conv_transpose2d(build: Build, convolution: _TransposedConvolution) -> Expr:
    _check_output_padding(convolution)
    out = relax.op.nn.conv2d_transpose(
        convolution.x,
        convolution.weight,
        strides=pair(convolution.stride),
        padding=pair(convolution.padding),
        output_padding=pair(convolution.output_padding),
        dilation=pair(convolution.dilation),
        groups=convolution.groups,
    )
    return _biased(build, out, convolution.bias)


@importer("aten.conv_transpose1d", gathers=_TransposedConvolution)
@batched(3)
def _conv_transpose1d(build: Build, convolution: _TransposedConvolution) -> Expr:
    """As it is: ranks.py makes a convolution of images of it."""
    _check_output_padding(convolution)
    out = relax.op.nn.conv1d_transpose(
        convolution.x,
        convolution.weight,
        strides=pair(convolution.stride)[:1],
        padding=pair(convolution.padding)[:1],
        output_padding=pair(convolution.output_padding)[:1],
        dilation=pair(convolution.dilation)[:1],
        groups=convolution.groups,
    )
    return _biased(build, out, convolution.bias)


@importer("aten.convolution", gathers=_AnyConvolution)
def _convolution(build: Build, a: _AnyConvolution) -> Expr:
    """What core ATen has for all of them."""
    rank = len(extents(a.x)) - 2
    begin = (a.x, a.weight, a.bias, a.stride, a.padding)
    if rank > 2:
        raise UnsupportedError(
            f"a {'transposed ' if a.transposed else ''}convolution in {rank} dimensions: only "
            "images and rows are supported"
        )
    if a.transposed:
        transposed = _conv_transpose2d if rank == 2 else _conv_transpose1d
        every = _TransposedConvolution(*begin, a.output_padding, a.groups, a.dilation)
        return transposed(build, every)
    straight = _conv2d if rank == 2 else _conv1d
    return straight(build, _Convolution(*begin, a.dilation, a.groups))


def _biased(build: Build, out: Expr, bias: Expr) -> Expr:
    """One number per channel, which is axis 1."""
    if bias is None:
        return out
    made = build.emit(out)
    channels = (1, -1, *[1] * (len(extents(made)) - 2))
    return relax.op.add(made, build.emit(relax.op.reshape(bias, channels)))


@importer("aten.linear")
def _linear(build: Build, x: Expr, weight: Expr, bias: Expr) -> Expr:
    """x (..., I) times weight (O, I); ranks.py makes a matrix of all rows of it."""
    if len(extents(weight)) == 1:
        raise UnsupportedError("its weights are a vector: give them a row (weight[None])")
    _, inputs = extents(weight)
    rows = x if len(extents(x)) > 1 else build.emit(relax.op.reshape(x, (-1, inputs)))
    out = integer_linear(build, rows, weight)
    if out is None:
        out = relax.op.matmul(rows, build.emit(relax.op.permute_dims(weight, [1, 0])))
    if bias is not None:
        out = relax.op.add(build.emit(out), bias)
    return out if len(build.shape) > 1 else relax.op.reshape(build.emit(out), build.shape)


@importer("aten.addmm.default")
def _addmm(build: Build, x: Expr, mat1: Expr, mat2: Expr, beta: float, alpha: float) -> Expr:
    return _weighed(build, x, (mat1, mat2), beta, alpha)


@importer("aten.baddbmm.default")
def _baddbmm(build: Build, x: Expr, batch1: Expr, batch2: Expr, beta: float, alpha: float) -> Expr:
    return _weighed(build, x, (batch1, batch2), beta, alpha)


@importer("aten.addmv.default")
def _addmv(build: Build, x: Expr, mat: Expr, vec: Expr, beta: float, alpha: float) -> Expr:
    return _weighed(build, x, (mat, vec), beta, alpha)


def _weighed(build: Build, x: Expr, sides: tuple[Expr, Expr], beta: float, alpha: float) -> Expr:
    """beta x + alpha (a b)"""
    product = build.emit(relax.op.matmul(*sides))
    if alpha != 1:
        product = build.emit(relax.op.multiply(product, like(product, alpha)))
    if beta == 0:
        return product
    if beta != 1:
        x = build.emit(relax.op.multiply(x, like(x, beta)))
    return relax.op.add(product, x)


@importer("aten.matmul")
def _matmul(build: Build, x: Expr, other: Expr) -> Expr:
    return relax.op.matmul(x, other)


@importer("aten.mm.default", "aten.bmm.default")
def _mm(build: Build, x: Expr, mat2: Expr) -> Expr:
    return relax.op.matmul(x, mat2)


@importer("aten.mv")
def _mv(build: Build, x: Expr, vec: Expr) -> Expr:
    return relax.op.matmul(x, vec)


@importer("aten.dot")
def _dot(build: Build, x: Expr, tensor: Expr) -> Expr:
    return relax.op.matmul(x, tensor)
