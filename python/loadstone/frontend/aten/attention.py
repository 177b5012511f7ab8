# SPDX-License-Identifier: Apache-2.0
"""Scaled dot-product attention as the products and the softmax that it is made of.

In:   queries (..., L, E), keys (..., S, E) and values (..., S, V) as Relax expressions.
Out:  (..., L, V).
Next: torch.py emits it; where both sides of a product are quantized, a device takes it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from loadstone.errors import UnsupportedError
from loadstone.frontend.aten.build import Build, extents, importer, stored
from loadstone.numerics import Array
from loadstone.relax.compat import constant, dtype, is_constant, relax

if TYPE_CHECKING:
    from loadstone.relax.types import Expr

__all__: list[str] = []


@dataclass(frozen=True, eq=False)
class _Attention:
    """What aten.scaled_dot_product_attention takes."""

    query: Expr
    key: Expr
    value: Expr
    attn_mask: Expr
    dropout_p: float
    is_causal: bool
    scale: float | None
    enable_gqa: bool = False


@importer("aten.scaled_dot_product_attention", gathers=_Attention)
def _attention(build: Build, said: _Attention) -> Expr:
    query, key = said.query, said.key
    if said.enable_gqa and extents(query)[:-2] != extents(key)[:-2]:
        raise UnsupportedError("its heads share keys (enable_gqa): repeat these in the model")
    if said.dropout_p:
        raise UnsupportedError("it has dropout: call model.eval() before torch.export.export")
    *_, rows, width = extents(query)
    scale = 1 / math.sqrt(width) if said.scale is None else said.scale
    order = list(range(len(extents(key))))
    order[-1], order[-2] = order[-2], order[-1]
    turned = build.emit(relax.op.permute_dims(key, order))
    scaled = build.emit(relax.op.multiply(query, constant(np.float32(scale))))
    scores = build.emit(relax.op.matmul(scaled, turned))
    if said.is_causal:
        seen = np.tril(np.ones((rows, extents(key)[-2]), bool))
        scores = build.emit(relax.op.add(scores, constant(_closed(seen))))
    if said.attn_mask is not None:
        scores = _masked(build, scores, said.attn_mask)
    weights = build.emit(relax.op.nn.softmax(scores, axis=-1))
    if said.attn_mask is not None and _may_close_rows(said.attn_mask):
        weights = _open(build, scores, weights)
    return relax.op.matmul(weights, said.value)


def _masked(build: Build, scores: Expr, mask: Expr) -> Expr:
    """A mask of numbers is added; one of truths says which places are seen."""
    if dtype(mask) != "bool":
        return build.emit(relax.op.add(scores, mask))
    if is_constant(mask):
        return build.emit(relax.op.add(scores, constant(_closed(stored(mask, "its mask")))))
    closed = constant(np.float32(-np.inf))
    return build.emit(relax.op.where(mask, scores, closed))


def _may_close_rows(mask: Expr) -> bool:
    """Whether a row may see no place at all."""
    if not is_constant(mask):
        return True
    seen = stored(mask, "its mask")
    return not (seen if seen.dtype == bool else seen != -np.inf).any(-1).all()


def _open(build: Build, scores: Expr, weights: Expr) -> Expr:
    """Where a row sees no place, PyTorch gives 0, and softmax alone no number."""
    most = build.emit(relax.op.max(scores, axis=-1, keepdims=True))
    shut = build.emit(relax.op.equal(most, constant(np.float32(-np.inf))))
    return build.emit(relax.op.where(shut, constant(np.float32(0)), weights))


def _closed(seen: Array) -> Array:
    """What is added to scores: 0 where a place is seen. seen: bool, of any shape."""
    return np.where(seen, np.float32(0), np.float32(-np.inf)).astype(np.float32)
