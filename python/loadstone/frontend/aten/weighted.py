"""Operators with weights: convolutions, dense layers, normalizations.

In:   the arguments of an operator, tensors as Relax expressions.
Out:  conv2d, matmul, batch_norm and what they need beside.
Next: torch.py emits them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from loadstone.errors import UnsupportedError
from loadstone.frontend.aten.build import Build, extents, importer, pair, stored
from loadstone.relax.compat import constant, relax

if TYPE_CHECKING:
    from loadstone.relax.types import Expr

__all__: list[str] = []


@importer("aten.conv2d.default")
def _conv2d(
    build: Build,
    x: Expr,
    weight: Expr,
    bias: Expr = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Expr:
    top, left = pair(padding)
    return _convolved(build, x, weight, bias, stride, (top, left, top, left), dilation, groups)


@importer("aten.conv2d.padding")
def _conv2d_padding(
    build: Build,
    x: Expr,
    weight: Expr,
    bias: Expr = None,
    stride: int | Sequence[int] = 1,
    padding: str = "valid",
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Expr:
    """`same`: the odd one is padded after."""
    totals = [
        step * (taps - 1) * (padding == "same")
        for step, taps in zip(pair(dilation), extents(weight)[2:], strict=True)
    ]
    befores, afters = [total // 2 for total in totals], [total - total // 2 for total in totals]
    return _convolved(build, x, weight, bias, stride, (*befores, *afters), dilation, groups)


@importer("aten.conv1d.default")
def _conv1d(
    build: Build,
    x: Expr,
    weight: Expr,
    bias: Expr = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Expr:
    """A convolution of an image of one row."""
    image, kernel = (
        build.emit(relax.op.reshape(item, (*extents(item)[:2], 1, extents(item)[2])))
        for item in (x, weight)
    )
    side = pair(padding)[1]
    rows = _convolved(
        build,
        image,
        kernel,
        bias,
        (1, pair(stride)[1]),
        (0, side, 0, side),
        (1, pair(dilation)[1]),
        groups,
    )
    return relax.op.reshape(build.emit(rows), build.shape)


def _convolved(
    build: Build,
    x: Expr,
    weight: Expr,
    bias: Expr,
    stride: int | Sequence[int],
    pads: tuple[int, ...],
    dilation: int | Sequence[int],
    groups: int,
) -> Expr:
    out = relax.op.nn.conv2d(
        x, weight, strides=pair(stride), padding=pads, dilation=pair(dilation), groups=groups
    )
    return _biased(build, out, bias)


@importer("aten.conv_transpose2d.input")
def _conv_transpose2d(
    build: Build,
    x: Expr,
    weight: Expr,
    bias: Expr = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
) -> Expr:
    fields = {
        "strides": stride,
        "padding": padding,
        "output_padding": output_padding,
        "dilation": dilation,
    }
    pairs = {name: pair(numbers) for name, numbers in fields.items()}
    return _biased(build, relax.op.nn.conv2d_transpose(x, weight, **pairs, groups=groups), bias)


@importer("aten.convolution")
def _convolution(
    build: Build,
    x: Expr,
    weight: Expr,
    bias: Expr,
    stride: int | Sequence[int],
    padding: int | Sequence[int],
    dilation: int | Sequence[int],
    transposed: bool,
    output_padding: int | Sequence[int],
    groups: int,
) -> Expr:
    """What core ATen has for all of them."""
    rank = len(extents(x)) - 2
    if rank == 2 and transposed:
        return _conv_transpose2d(
            build, x, weight, bias, stride, padding, output_padding, groups, dilation
        )
    if rank > 2 or transposed:
        raise UnsupportedError(
            f"a {'transposed ' if transposed else ''}convolution in {rank} dimensions: only "
            "images and rows are supported"
        )
    return (_conv2d if rank == 2 else _conv1d)(
        build, x, weight, bias, stride, padding, dilation, groups
    )


def _biased(build: Build, out: Expr, bias: Expr) -> Expr:
    """One number per channel, which is axis 1."""
    if bias is None:
        return out
    return relax.op.add(build.emit(out), build.emit(relax.op.reshape(bias, (1, -1, 1, 1))))


@importer("aten.linear")
def _linear(build: Build, x: Expr, weight: Expr, bias: Expr = None) -> Expr:
    """x (..., I) times weight (O, I): as a matrix of all rows."""
    _, inputs = extents(weight)
    rows = x if len(extents(x)) == 2 else build.emit(relax.op.reshape(x, (-1, inputs)))
    out = relax.op.matmul(rows, build.emit(relax.op.permute_dims(weight, [1, 0])))
    if bias is not None:
        out = relax.op.add(build.emit(out), bias)
    return out if len(build.shape) == 2 else relax.op.reshape(build.emit(out), build.shape)


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


@importer("aten._native_batch_norm_legit_no_training")
def _batch_norm_no_training(
    build: Build,
    x: Expr,
    weight: Expr,
    bias: Expr,
    mean: Expr,
    variance: Expr,
    momentum: float,
    epsilon: float,
) -> list[Expr]:
    return [_normalized(build, x, weight, bias, mean, variance, epsilon), None, None]


@importer("aten._native_batch_norm_legit_functional", "aten.native_dropout")
def _training(build: Build, *_: object) -> Expr:
    raise UnsupportedError("it is in training mode: call model.eval() before torch.export.export")


def _normalized(
    build: Build, x: Expr, weight: Expr, bias: Expr, mean: Expr, variance: Expr, epsilon: float
) -> Expr:
    """Of images as one operator, which the quantizer folds; of vectors as the line that it is."""
    channels = extents(x)[1]
    gamma = np.ones(channels, np.float32) if weight is None else stored(weight, "its weights")
    beta = np.zeros(channels, np.float32) if bias is None else stored(bias, "its biases")
    centre, spread = stored(mean, "its means"), stored(variance, "its variances")
    if len(extents(x)) == 4:
        parameters = [constant(item) for item in (gamma, beta, centre, spread)]
        normal = relax.op.nn.batch_norm(x, *parameters, axis=1, epsilon=epsilon, training=False)
        return relax.TupleGetItem(build.emit(normal), 0)
    along = (-1,) + (1,) * (len(extents(x)) - 2)
    slope = gamma.astype(np.float64) / np.sqrt(spread.astype(np.float64) + epsilon)
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
