# SPDX-License-Identifier: Apache-2.0
"""The plans of a layer's blocks, searched once for all layers with the same integers.

In:   a convolution or dense layer; how many GEMM steps the sum of a tile takes.
Out:  a proven plan of every block of its channels; or the `Refusal` that names the block without
      one.
Next: rescaled_layer.py takes the cheapest for the layer as a whole.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod

import numpy as np

from loadstone import graph as g
from loadstone.backend.interface import Refusal
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.integers.near import NearPlanner
from loadstone.vta.integers.plan import Planner
from loadstone.vta.integers.runs import runs_of
from loadstone.vta.integers.steps import BlockPlan

__all__ = ["FEW_PIXELS", "MANY_STEPS", "layer_plans", "refusal"]

#: So few pixels do not make up for loading weights in several parts, however short the sum.
FEW_PIXELS, MANY_STEPS = 32, 1 << 20
_RQ = "a device with the capability requantize"


def refusal(op: g.Weighted, config: HwConfig, near: bool = False) -> Refusal | None:
    """Why no form is proven; None where every block has one. near: forms that are at most one level
    off count."""
    if (planner := _planner(_key(op, config, near))) is None:
        return Refusal("sums of its output channels can leave 32 bits", _RQ)
    for number in planner.lacking(_about_steps(op, config)):
        return Refusal(
            f"no product of digits is proven to give its {op.rounding.name.lower()} rounding "
            f"in channels {number * config.block} to {(number + 1) * config.block - 1}",
            _RQ,
        )
    return None


def _about_steps(op: g.Weighted, config: HwConfig) -> int:
    """The number of steps of the sum for which plans will be requested, if the host does not fold
    the input."""
    _, *taps, channels = op.weights.shape
    few = prod(op.output.shape[1:-1]) < FEW_PIXELS
    return MANY_STEPS if few else prod(taps) * -(-channels // config.block)


def layer_plans(
    op: g.Weighted, config: HwConfig, sum_steps: int, near: bool = False
) -> Sequence[BlockPlan | None] | None:
    """A plan of every block; None where sums leave 32 bits. sum_steps: GEMM steps of a tile's.
    near: as of `refusal`."""
    return _plans(_key(op, config, near), sum_steps)


@dataclass(frozen=True)
class _Key:
    """Everything on which a layer's plans depend; op: a layer that has it."""

    digest: bytes
    block: int
    near: bool
    op: g.Weighted = field(compare=False)


def _key(op: g.Weighted, config: HwConfig, near: bool) -> _Key:
    parts = (op.weights, op.weight_zero_points, op.bias, op.real_scales())
    rule = (op.low, op.high, op.rounding.name, op.kind, op.input.scale, op.output.scale)
    zero_points = (op.input.zero_point, op.output.zero_point)
    state = hashlib.sha256(repr((rule, zero_points, op.weights.shape)).encode())
    for part in parts:
        state.update(np.ascontiguousarray(part).data)
    return _Key(state.digest(), config.block, near, op)


@lru_cache(maxsize=1024)
def _plans(key: _Key, sum_steps: int) -> tuple[BlockPlan | None, ...] | None:
    planner = _planner(key)
    return None if planner is None else tuple(planner.plans(sum_steps))


@lru_cache(maxsize=64)
def _planner(key: _Key) -> Planner | NearPlanner | None:
    """None where a sum can leave 32 bits."""
    runs = runs_of(key.op)
    if runs is None:
        return None
    weights = key.op.weights.reshape(len(key.op.weights), -1)
    zero = key.op.weight_zero_points.astype(np.int64)
    widest = np.maximum(weights.max(axis=1) - zero, zero - weights.min(axis=1))
    return (NearPlanner if key.near else Planner)(runs, key.block, widest)
