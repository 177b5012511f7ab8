# SPDX-License-Identifier: Apache-2.0
"""Chains of operators on one or two int8 values: add, subtract, requantize, concatenate.

In:   the quantizations, limits and rounding of an operator.
Out:  a chain proven on all 256 values, or all 65,536 pairs; None where none was found.
Next: operators/chained.py lowers it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from loadstone import graph as g
from loadstone.numerics import Rounding
from loadstone.vta.integers.chain import Chain
from loadstone.vta.integers.linear_form import Correction
from loadstone.vta.integers.linear_search import LinearProblem, find_chain
from loadstone.vta.integers.requantization_search import on_all_values

__all__ = ["Linear", "linear_chain", "rescaled_part"]

#: Operators on one or two values; of concatenations those of one input.
Linear: TypeAlias = g.Add | g.Sub | g.Requantize | g.Concatenate


@dataclass(frozen=True)
class _RuleKey:
    """All that an element's result depends on; `op` is one operator that has it."""

    kind: str
    quantizations: tuple[g.Quantization, ...]
    low: int
    high: int
    rounding: Rounding
    op: Linear = field(compare=False)


def rescaled_part(op: g.Concatenate, tensor: g.Tensor) -> g.Concatenate:
    """A concatenation of one of its inputs alone: a change of quantization by its rule."""
    output = replace(op.output, shape=tensor.shape)
    return replace(op, inputs=(tensor,), outputs=(output,), axis=len(tensor.shape) - 1)


def linear_chain(op: Linear) -> Chain | None:
    """The operator's chain, searched once for each rule."""
    tensors = (*op.inputs, op.output)
    quantizations = tuple(g.Quantization(t.scale, t.zero_point) for t in tensors)
    return _found(_RuleKey(op.kind, quantizations, op.low, op.high, op.rounding, op))


@lru_cache(maxsize=256)
def _found(key: _RuleKey) -> Chain | None:
    *q_inputs, q_out = key.quantizations
    shapes = [(256, 1), (1, 256)][: len(q_inputs)]
    signs = (1, -1 if key.kind == "sub" else 1)
    problem = LinearProblem(
        inputs=tuple(np.arange(-128, 128).reshape(shape) for shape in shapes),
        wanted=_wanted(key.op),
        factors=tuple(
            sign * q.scale / q_out.scale for sign, q in zip(signs, q_inputs, strict=False)
        ),
        zero_points=tuple(q.zero_point for q in q_inputs),
        low=key.low,
        high=key.high,
    )
    return find_chain(problem, _corrections(key))


def _wanted(op: Linear) -> NDArray[np.int64]:
    return on_all_values(replace(op, axis=1) if isinstance(op, g.Concatenate) else op)


def _corrections(key: _RuleKey) -> tuple[Correction, ...]:
    if key.rounding is Rounding.FLOAT32:
        return Correction.NONE, Correction.EVEN
    return Correction.NONE, Correction.NEGATIVE
