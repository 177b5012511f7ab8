# SPDX-License-Identifier: Apache-2.0
"""One operator of the graph -> operations on virtual tiles and the constants that they read.

In:   a graph operator and the device's HwConfig.
Out:  `LoweredOperator`. Activations are named by Tensor.name and lie in the blocked layout;
      constants by operator name.
Next: the back end concatenates the operations of a region and allocates them together.

To add an operator: a rule here, and its constants in the file of its family.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from loadstone import graph as g
from loadstone.backend.interface import Refusal
from loadstone.errors import LoweringError
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.operators import (
    bilinear,
    elementwise,
    matmul,
    move,
    plane_layers,
    pool,
    real_elementwise,
    real_layers,
    real_pool,
    weighted,
)
from loadstone.vta.operators.kernels import LoweredOperator
from loadstone.vta.operators.layout import Im2colLayout
from loadstone.vta.operators.request import PLAIN, LayerRequest

__all__ = [
    "REAL_TAKEN_PATTERNS",
    "TAKEN_PATTERNS",
    "LoweredOperator",
    "im2col_input",
    "lower_operator",
    "lowered_kinds",
    "unsupported_reason",
]


@dataclass(frozen=True)
class _Rule:
    """How one operator class is lowered. lower: returns the operator's stream. unsupported: the
    reason why the device cannot compute this operator exactly, or None. unproven: the reason why no
    plan is proven to give the requested integers; near: they may be one level off."""

    lower: Callable[..., LoweredOperator]
    unsupported: Callable[[Any, HwConfig], Refusal | None]
    unproven: Callable[[Any, HwConfig, bool], Refusal | None] = lambda _op, _config, _near: None


#: Every operator that some VTA does, in the order in which their patterns are tried. None: only
#: where addresses alone do it (region/addresses.py).
_RULES: dict[type[g.Operator], _Rule | None] = {
    g.Conv2D: _Rule(weighted.conv2d, weighted.unsupported, weighted.unproven),
    g.Dense: _Rule(weighted.dense, weighted.unsupported, weighted.unproven),
    g.PlaneConv2D: _Rule(plane_layers.conv2d, plane_layers.unsupported),
    g.PlaneDense: _Rule(plane_layers.dense, plane_layers.unsupported),
    g.Add: _Rule(elementwise.add, elementwise.unsupported),
    g.Sub: _Rule(elementwise.add, elementwise.unsupported),
    g.Mul: _Rule(elementwise.mul, elementwise.unsupported),
    g.BatchMatMul: _Rule(matmul.batch_matmul, matmul.unsupported, matmul.unproven),
    g.AveragePool2D: _Rule(pool.average_pool2d, pool.unsupported),
    g.MaxPool2D: _Rule(move.max_pool2d, move.unsupported),
    g.Mean: _Rule(pool.mean, pool.unsupported),
    g.Concatenate: _Rule(move.concatenate, move.unsupported),
    g.Slice: _Rule(move.slice_, move.unsupported),
    g.Pad: _Rule(move.pad, move.unsupported),
    g.Reshape: None,
    g.ResizeNearest: _Rule(move.resize, move.unsupported),
    g.ResizeBilinear: _Rule(bilinear.lower, bilinear.unsupported),
    g.Requantize: _Rule(elementwise.requantize, elementwise.unsupported),
}

#: The same for devices of bfloat16.
_REAL_RULES: dict[type[g.Operator], _Rule | None] = {
    g.RealConv2D: _Rule(real_layers.conv2d, real_layers.unsupported),
    g.RealDense: _Rule(real_layers.dense, real_layers.unsupported),
    g.RealMatMul: _Rule(matmul.real_matmul, matmul.real_unsupported),
    g.RealBinary: _Rule(real_elementwise.binary, real_elementwise.unsupported),
    g.RealClamp: _Rule(real_elementwise.clamp, real_layers.unsupported),
    g.RealPool2D: _Rule(real_pool.pool2d, real_pool.pool_unsupported),
    g.RealMean: _Rule(real_pool.mean, real_pool.mean_unsupported),
    g.Reshape: None,
    g.Concatenate: _Rule(move.concatenate, move.unsupported),
}

#: The patterns of these operators, in that order.
REAL_TAKEN_PATTERNS = (
    *(name for kind in _REAL_RULES for name in kind.patterns if name.startswith("real_")),
    "real_reshape",
    "real_concatenate",
)
TAKEN_PATTERNS = tuple(dict.fromkeys(name for kind in _RULES for name in kind.patterns))


def im2col_input(
    op: g.Operator, config: HwConfig, request: LayerRequest = PLAIN
) -> Im2colLayout | None:
    """The layout in which the host should pack this operator's input, if folding taps into channels
    saves time, or was chosen."""
    if config.is_float:
        return real_layers.im2col_input(op, config)
    return weighted.im2col_input(op, config, request)


def _rules(config: HwConfig) -> dict[type[g.Operator], _Rule | None]:
    return _REAL_RULES if config.is_float else _RULES


def lowered_kinds(config: HwConfig) -> dict[type[g.Operator], bool]:
    """The operators that such a device does, each within limits of its own; False: only where
    addresses alone do it."""
    return {kind: rule is not None for kind, rule in _rules(config).items()}


def unsupported_reason(op: g.Operator, config: HwConfig, near: bool = False) -> Refusal | None:
    """Why this operator cannot run on this device with exactly the integers of its framework, or
    near them; None if it can."""
    rule = _rules(config).get(type(op))
    if rule is None:
        return Refusal(
            f"{config.name} has no lowering of {op.kind}", "a lowering in loadstone/vta/operators"
        )
    if (
        len(op.output.shape) < 2
        or op.output.shape[0] % config.batch
        or op.input.shape[0] % config.batch
    ):
        return Refusal(
            f"batch {op.output.shape[:1]} is no multiple of the device's {config.batch}",
            f"a batch of {config.batch}",
        )
    return rule.unsupported(op, config) or rule.unproven(op, config, near)


def lower_operator(
    op: g.Operator,
    config: HwConfig,
    folded: Im2colLayout | None = None,
    request: LayerRequest = PLAIN,
) -> LoweredOperator:
    """The operator's operations. folded: the layout of its input, when `im2col_input` offered one
    and the host packs it so.

    Raises LoweringError for an operator that this device does not do.
    """
    reason = unsupported_reason(op, config, request.near)
    if reason is not None:
        raise LoweringError(f"operators: {op.kind} {op.name}: {reason.why}")
    rule = _rules(config)[type(op)]
    assert rule is not None, op.kind
    how = (op, config, request) if folded is None else (op, config, request, folded)
    return rule.lower(*how)
