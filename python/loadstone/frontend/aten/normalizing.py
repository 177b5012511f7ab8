# SPDX-License-Identifier: Apache-2.0
"""Normalizations: of batches as they were in training, of layers, of groups, of squares.

In:   the arguments of an operator, tensors as Relax expressions.
Out:  batch_norm, layer_norm, group_norm, rms_norm, or the line that one is.
Next: torch.py emits them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from loadstone.errors import UnsupportedError
from loadstone.frontend.aten.build import Build, extents, importer, stored
from loadstone.relax.compat import constant, relax

if TYPE_CHECKING:
    from loadstone.relax.types import Expr

__all__: list[str] = []


@dataclass(frozen=True, eq=False)
class _BatchNorm:
    """What batch normalization takes, but for what belongs to training."""

    x: Expr
    weight: Expr
    bias: Expr
    running_mean: Expr
    running_var: Expr
    eps: float


@importer("aten._native_batch_norm_legit_no_training", gathers=_BatchNorm, free=("momentum",))
def _batch_norm_no_training(build: Build, norm: _BatchNorm) -> list[Expr | None]:
    return [_normalized(build, norm), None, None]


@importer(
    "aten._native_batch_norm_legit_functional",
    free=("input", "weight", "bias", "running_mean", "running_var", "training", "momentum", "eps"),
)
def _training(build: Build) -> Expr:
    raise UnsupportedError("it is in training mode: call model.eval() before torch.export.export")


@importer("aten.native_dropout", free=("input", "p", "train"))
def _dropout(build: Build) -> Expr:
    raise UnsupportedError("it is in training mode: call model.eval() before torch.export.export")


def _normalized(build: Build, norm: _BatchNorm) -> Expr:
    """Of images as one operator, which the quantizer folds; of vectors as the line that it is."""
    x = norm.x
    channels = extents(x)[1]
    ones, zeros = np.ones(channels, np.float32), np.zeros(channels, np.float32)
    gamma = ones if norm.weight is None else stored(norm.weight, "its weights")
    beta = zeros if norm.bias is None else stored(norm.bias, "its biases")
    centre, spread = (
        stored(norm.running_mean, "its means"),
        stored(norm.running_var, "its variances"),
    )
    if len(extents(x)) == 4:
        parameters = [constant(item) for item in (gamma, beta, centre, spread)]
        normal = relax.op.nn.batch_norm(x, *parameters, axis=1, epsilon=norm.eps, training=False)
        return relax.TupleGetItem(build.emit(normal), 0)
    along = (-1,) + (1,) * (len(extents(x)) - 2)
    slope = gamma.astype(np.float64) / np.sqrt(spread.astype(np.float64) + norm.eps)
    scale, offset = (
        item.astype(np.float32).reshape(along) for item in (slope, beta - centre * slope)
    )
    return relax.op.add(build.emit(relax.op.multiply(x, constant(scale))), constant(offset))


@importer("aten.native_layer_norm")
def _native_layer_norm(
    build: Build, x: Expr, normalized_shape: Sequence[int], weight: Expr, bias: Expr, eps: float
) -> list[Expr | None]:
    return [_layer_norm(build, x, normalized_shape, weight, bias, eps), None, None]


@importer("aten.layer_norm")
def _layer_norm(
    build: Build, x: Expr, normalized_shape: Sequence[int], weight: Expr, bias: Expr, eps: float
) -> Expr:
    """normalized_shape: the extents of the axes that are normalized, the last ones."""
    gamma, beta = _lines(normalized_shape, weight, bias)
    axes = list(range(-len(normalized_shape), 0))
    return relax.op.nn.layer_norm(x, gamma, beta, axes=axes, epsilon=eps)


@importer("aten.group_norm")
def _group_norm(
    build: Build, x: Expr, num_groups: int, weight: Expr, bias: Expr, eps: float
) -> Expr:
    gamma, beta = _lines([extents(x)[1]], weight, bias)
    axes = list(range(2, len(extents(x))))
    return relax.op.nn.group_norm(
        x, gamma, beta, num_groups=num_groups, channel_axis=1, axes=axes, epsilon=eps
    )


@importer("aten.native_group_norm", free=("N", "C", "HxW"))
def _native_group_norm(
    build: Build, x: Expr, weight: Expr, bias: Expr, group: int, eps: float
) -> list[Expr | None]:
    return [_group_norm(build, x, group, weight, bias, eps), None, None]


def _lines(shape: Sequence[int], weight: Expr, bias: Expr) -> tuple[Expr, Expr]:
    """Factors and summands, where there are none 1 and 0."""
    gamma = constant(np.ones(shape, np.float32)) if weight is None else weight
    beta = constant(np.zeros(shape, np.float32)) if bias is None else bias
    return gamma, beta


@importer("aten.rms_norm")
def _rms_norm(
    build: Build, x: Expr, normalized_shape: Sequence[int], weight: Expr, eps: float | None
) -> Expr:
    """x over the root of the mean of its squares; eps: by default float32's."""
    axes = list(range(-len(normalized_shape), 0))
    squares = build.emit(relax.op.multiply(x, x))
    mean = build.emit(relax.op.mean(squares, axis=axes, keepdims=True))
    least = constant(np.float32(np.finfo(np.float32).eps if eps is None else eps))
    root = build.emit(relax.op.rsqrt(build.emit(relax.op.add(mean, least))))
    normal = relax.op.multiply(x, root)
    return normal if weight is None else relax.op.multiply(build.emit(normal), weight)


@importer("aten._fused_rms_norm")
def _fused_rms_norm(
    build: Build, x: Expr, normalized_shape: Sequence[int], weight: Expr, eps: float | None
) -> list[Expr | None]:
    return [_rms_norm(build, x, normalized_shape, weight, eps), None]
