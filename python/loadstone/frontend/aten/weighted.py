# SPDX-License-Identifier: Apache-2.0
"""Operators with weights: convolutions, dense layers, normalizations.

In:   the arguments of an operator, tensors as Relax expressions.
Out:  conv2d, matmul, batch_norm and what they need beside.
Next: torch.py emits them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from loadstone.errors import UnsupportedError
from loadstone.frontend.aten.build import Build, Numbers, extents, importer, pair, stored
from loadstone.relax.compat import constant, relax

if TYPE_CHECKING:
    from loadstone.relax.types import Expr

__all__: list[str] = []


@dataclass(frozen=True, eq=False)
class _Convolution:
    """What aten.conv1d and aten.conv2d take after their image. padding: a text in the overload of
    that name; top, left, bottom, right for _convolved."""

    weight: Expr
    bias: Expr = None
    stride: Numbers = 1
    padding: Numbers | str = 0
    dilation: Numbers = 1
    groups: int = 1

    def sides(self) -> tuple[int, int]:
        """Rows above and columns before, where the padding is given in numbers."""
        assert not isinstance(self.padding, str)
        return pair(self.padding)


@dataclass(frozen=True, eq=False)
class _TransposedConvolution:
    """What aten.conv_transpose2d takes after its image."""

    weight: Expr
    bias: Expr = None
    stride: Numbers = 1
    padding: Numbers = 0
    output_padding: Numbers = 0
    groups: int = 1
    dilation: Numbers = 1


@dataclass(frozen=True, eq=False)
class _AnyConvolution:
    """What aten.convolution takes after its image."""

    weight: Expr
    bias: Expr
    stride: Numbers
    padding: Numbers
    dilation: Numbers
    transposed: bool
    output_padding: Numbers
    groups: int


@importer("aten.conv2d.default")
def _conv2d(build: Build, x: Expr, *arguments: Any, **named: Any) -> Expr:
    convolution = _Convolution(*arguments, **named)
    top, left = convolution.sides()
    return _convolved(build, x, replace(convolution, padding=(top, left, top, left)))


@importer("aten.conv2d.padding")
def _conv2d_padding(build: Build, x: Expr, *arguments: Any, **named: Any) -> Expr:
    """`same`: the odd one is padded after."""
    convolution = _Convolution(*arguments, **named)
    sizes = extents(convolution.weight)[2:]
    totals = [
        step * (taps - 1) * (convolution.padding == "same")
        for step, taps in zip(pair(convolution.dilation), sizes, strict=True)
    ]
    befores, afters = [total // 2 for total in totals], [total - total // 2 for total in totals]
    return _convolved(build, x, replace(convolution, padding=(*befores, *afters)))


@importer("aten.conv1d.default")
def _conv1d(build: Build, x: Expr, *arguments: Any, **named: Any) -> Expr:
    """As it is: ranks.py makes a convolution of images of it."""
    convolution = _Convolution(*arguments, **named)
    side = convolution.sides()[1]
    out = relax.op.nn.conv1d(
        x,
        convolution.weight,
        strides=pair(convolution.stride)[1],
        padding=(side, side),
        dilation=pair(convolution.dilation)[1],
        groups=convolution.groups,
    )
    return _biased(build, out, convolution.bias)


def _convolved(build: Build, x: Expr, convolution: _Convolution) -> Expr:
    out = relax.op.nn.conv2d(
        x,
        convolution.weight,
        strides=pair(convolution.stride),
        padding=convolution.padding,
        dilation=pair(convolution.dilation),
        groups=convolution.groups,
    )
    return _biased(build, out, convolution.bias)


@importer("aten.conv_transpose2d.input")
def _conv_transpose2d(build: Build, x: Expr, *arguments: Any, **named: Any) -> Expr:
    convolution = _TransposedConvolution(*arguments, **named)
    out = relax.op.nn.conv2d_transpose(
        x,
        convolution.weight,
        strides=pair(convolution.stride),
        padding=pair(convolution.padding),
        output_padding=pair(convolution.output_padding),
        dilation=pair(convolution.dilation),
        groups=convolution.groups,
    )
    return _biased(build, out, convolution.bias)


@importer("aten.conv_transpose1d")
def _conv_transpose1d(build: Build, x: Expr, *arguments: Any, **named: Any) -> Expr:
    """As it is: ranks.py makes a convolution of images of it."""
    convolution = _TransposedConvolution(*arguments, **named)
    out = relax.op.nn.conv1d_transpose(
        x,
        convolution.weight,
        strides=pair(convolution.stride)[:1],
        padding=pair(convolution.padding)[:1],
        output_padding=pair(convolution.output_padding)[:1],
        dilation=pair(convolution.dilation)[:1],
        groups=convolution.groups,
    )
    return _biased(build, out, convolution.bias)


@importer("aten.convolution")
def _convolution(build: Build, x: Expr, *arguments: Any, **named: Any) -> Expr:
    """What core ATen has for all of them."""
    a = _AnyConvolution(*arguments, **named)
    rank = len(extents(x)) - 2
    begin = (a.weight, a.bias, a.stride, a.padding)
    if rank > 2:
        raise UnsupportedError(
            f"a {'transposed ' if a.transposed else ''}convolution in {rank} dimensions: only "
            "images and rows are supported"
        )
    if a.transposed:
        transposed = _conv_transpose2d if rank == 2 else _conv_transpose1d
        return transposed(build, x, *begin, a.output_padding, a.groups, a.dilation)
    return (_conv2d if rank == 2 else _conv1d)(build, x, *begin, a.dilation, a.groups)


def _biased(build: Build, out: Expr, bias: Expr) -> Expr:
    """One number per channel, which is axis 1."""
    if bias is None:
        return out
    made = build.emit(out)
    channels = (1, -1, *[1] * (len(extents(made)) - 2))
    return relax.op.add(made, build.emit(relax.op.reshape(bias, channels)))


@importer("aten.linear")
def _linear(build: Build, x: Expr, weight: Expr, bias: Expr = None) -> Expr:
    """x (..., I) times weight (O, I); ranks.py makes a matrix of all rows of it."""
    _, inputs = extents(weight)
    rows = x if len(extents(x)) > 1 else build.emit(relax.op.reshape(x, (-1, inputs)))
    out = relax.op.matmul(rows, build.emit(relax.op.permute_dims(weight, [1, 0])))
    if bias is not None:
        out = relax.op.add(build.emit(out), bias)
    return out if len(build.shape) > 1 else relax.op.reshape(build.emit(out), build.shape)


@importer("aten.addmm")
def _addmm(build: Build, bias: Expr, a: Expr, b: Expr, beta: float = 1, alpha: float = 1) -> Expr:
    if (beta, alpha) != (1, 1):
        raise UnsupportedError(
            f"it weighs its terms by {beta} and {alpha}: fold them into the weights"
        )
    return relax.op.add(build.emit(relax.op.matmul(a, b)), bias)


@importer("aten.matmul", "aten.mm", "aten.bmm")
def _matmul(build: Build, a: Expr, b: Expr) -> Expr:
    return relax.op.matmul(a, b)


@dataclass(frozen=True, eq=False)
class _BatchNorm:
    """What batch normalization takes after its tensor. momentum: of training alone."""

    weight: Expr
    bias: Expr
    mean: Expr
    variance: Expr
    momentum: float
    epsilon: float


@importer("aten._native_batch_norm_legit_no_training")
def _batch_norm_no_training(
    build: Build, x: Expr, *arguments: Any, **named: Any
) -> list[Expr | None]:
    return [_normalized(build, x, _BatchNorm(*arguments, **named)), None, None]


@importer("aten._native_batch_norm_legit_functional", "aten.native_dropout")
def _training(build: Build, *_: object) -> Expr:
    raise UnsupportedError("it is in training mode: call model.eval() before torch.export.export")


def _normalized(build: Build, x: Expr, norm: _BatchNorm) -> Expr:
    """Of images as one operator, which the quantizer folds; of vectors as the line that it is."""
    channels = extents(x)[1]
    ones, zeros = np.ones(channels, np.float32), np.zeros(channels, np.float32)
    gamma = ones if norm.weight is None else stored(norm.weight, "its weights")
    beta = zeros if norm.bias is None else stored(norm.bias, "its biases")
    centre, spread = stored(norm.mean, "its means"), stored(norm.variance, "its variances")
    if len(extents(x)) == 4:
        parameters = [constant(item) for item in (gamma, beta, centre, spread)]
        normal = relax.op.nn.batch_norm(
            x, *parameters, axis=1, epsilon=norm.epsilon, training=False
        )
        return relax.TupleGetItem(build.emit(normal), 0)
    along = (-1,) + (1,) * (len(extents(x)) - 2)
    slope = gamma.astype(np.float64) / np.sqrt(spread.astype(np.float64) + norm.epsilon)
    scale, offset = (
        item.astype(np.float32).reshape(along) for item in (slope, beta - centre * slope)
    )
    return relax.op.add(build.emit(relax.op.multiply(x, constant(scale))), constant(offset))


@importer("aten.native_layer_norm")
def _native_layer_norm(build: Build, *arguments: Any) -> list[Expr]:
    return [_layer_norm(build, *arguments), None, None]


@importer("aten.layer_norm")
def _layer_norm(
    build: Build,
    x: Expr,
    axes: Sequence[int],
    weight: Expr = None,
    bias: Expr = None,
    epsilon: float = 1e-5,
    *_: object,
) -> Expr:
    """axes: the extents of those that are normalized, the last ones."""
    gamma = constant(np.ones(axes, np.float32)) if weight is None else weight
    beta = constant(np.zeros(axes, np.float32)) if bias is None else bias
    return relax.op.nn.layer_norm(x, gamma, beta, axes=list(range(-len(axes), 0)), epsilon=epsilon)


@importer("aten.group_norm")
def _group_norm(
    build: Build,
    x: Expr,
    groups: int,
    weight: Expr = None,
    bias: Expr = None,
    epsilon: float = 1e-5,
    *_: object,
) -> Expr:
    channels = extents(x)[1]
    gamma = constant(np.ones(channels, np.float32)) if weight is None else weight
    beta = constant(np.zeros(channels, np.float32)) if bias is None else bias
    axes = list(range(2, len(extents(x))))
    return relax.op.nn.group_norm(
        x, gamma, beta, num_groups=groups, channel_axis=1, axes=axes, epsilon=epsilon
    )
