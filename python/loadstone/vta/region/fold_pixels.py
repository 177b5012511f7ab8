# SPDX-License-Identifier: Apache-2.0
"""Fold neighbouring columns of narrow tensors into channels, so that tiles are full.

In:   the operators of a region, and the names of its inputs and outputs.
Out:  the same operators, some of them on tensors (N, H, W / f, f * C): the same bytes, with f
      columns next to each other in the channels.
Next: offload.py lowers them.

A tile has `block` lanes. A tensor of 8 channels fills half of each tile, and half of the
multiplications of every GEMM step are wasted. Two columns of 8 channels fill a tile. A convolution
between folded tensors is again a convolution, with more channels, fewer columns and a kernel that
is mostly zeros:

    3 taps, stride 1, columns a b c d ...        a b | c d | ...
    out[c] = w0 b + w1 c + w2 d            ->    (out[c], out[d]) = (a b) [0 0; w0 0] + (c d) [w1
    w0; w2 w1] + (e f) [0 w2; 0 0]

Depthwise layers gain most, because a tap costs one step for each tile, whether the tile is full or
not. The cost model (stream/cost.py, schedule/tile.py) decides which tensors are folded, and by how
much, for the whole chain.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from loadstone import graph as g
from loadstone.errors import LoweringError
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.operators.layout import Blocked
from loadstone.vta.operators.weighted import estimated_cycles
from loadstone.vta.region.request import RegionRequest
from loadstone.vta.stream.cost import cost_model

__all__ = ["column_choices", "fold_columns", "folded_convolution", "verify_columns"]

_FACTORS = (1, 2, 4, 8, 16)
#: Longest run of neighbouring tensors whose factor is changed together.
_LONGEST_RUN = 6
_IMPOSSIBLE = 1 << 50


def fold_columns(
    operators: Sequence[g.Operator],
    fixed: Collection[str],
    from_host: Collection[str],
    config: HwConfig,
    request: RegionRequest,
) -> tuple[g.Operator, ...]:
    """fixed: names of tensors that are seen from outside. from_host: those that the host packs, and
    may fold by taps."""
    chain = _Chain(operators, fixed, from_host, config, request.near)
    chosen = request.of_region(operators, config).columns
    factors = chain.best() if chosen is None else chain.given(chosen)
    if all(factor == 1 for factor in factors.values()):
        return tuple(operators)
    return tuple(chain.rewritten(operator, factors) or operator for operator in operators)


def verify_columns(
    fixed: Collection[str], before: Sequence[g.Operator], after: Sequence[g.Operator]
) -> None:
    """Raises LoweringError where there are other operators than before; where a tensor that is seen
    from outside has another shape, or one inside has a shape that is no folding of columns into
    channels; or where two operators know a tensor by different shapes."""
    if [(type(o), o.name) for o in before] != [(type(o), o.name) for o in after]:
        raise LoweringError("the operators are others than before, or in another order")
    now = dict[str, tuple[int, ...]]()
    for was, operator in zip(before, after, strict=True):
        ends = [(*side.inputs, *side.outputs) for side in (was, operator)]
        if [tensor.name for tensor in ends[0]] != [tensor.name for tensor in ends[1]]:
            raise LoweringError(f"{operator.name} reads or writes other tensors than before")
        for old, new in zip(*ends, strict=True):
            shape = now.setdefault(new.name, new.shape)
            if shape != new.shape:
                raise LoweringError(
                    f"{new.name} is {shape} for one operator, {new.shape} for another"
                )
            _verify_folded(old, new, new.name in fixed)


def _verify_folded(old: g.Tensor, new: g.Tensor, fixed: bool) -> None:
    """Raises LoweringError where the one is no folding of the other, or one that is not allowed."""
    if new.shape != old.shape and fixed:
        raise LoweringError(f"{new.name}, seen from outside, was {old.shape}, and is {new.shape}")
    if new.shape != old.shape and not _is_folding(old.shape, new.shape):
        raise LoweringError(f"{new.name} was {old.shape}, of which {new.shape} is no folding")
    if replace(new, shape=old.shape) != old:
        raise LoweringError(f"{new.name} has another type or quantization than before")


def _is_folding(shape: tuple[int, ...], folded: tuple[int, ...]) -> bool:
    """Whether some columns of the one are channels of the other, and nothing else is changed."""
    if not len(shape) == len(folded) == 4:
        return False
    (width, channels), (columns, inside) = shape[2:], folded[2:]
    whole = columns > 0 and width % columns == 0
    return shape[:2] == folded[:2] and whole and inside == channels * (width // columns)


def column_choices(
    operators: Sequence[g.Operator],
    fixed: Collection[str],
    from_host: Collection[str],
    config: HwConfig,
    most: int,
) -> list[tuple[int, ...]]:
    """Factors of all tensors that may be folded: those of fold_columns, then others that one
    change leads to, by what they should take; at most so many."""
    chain = _Chain(operators, fixed, from_host, config, near=False)
    best = chain.best()
    near: dict[tuple[int, ...], int] = {tuple(best.values()): -1}
    for change in chain.changes():
        changed = {**best, **change}
        cost = chain.cost(changed)
        if cost < _IMPOSSIBLE:
            near.setdefault(tuple(changed.values()), cost)
    return sorted(near, key=lambda factors: near[factors])[:most]


class _Chain:
    """Tensors that may be folded, in order, and what the operators cost with them."""

    def __init__(
        self,
        operators: Sequence[g.Operator],
        fixed: Collection[str],
        from_host: Collection[str],
        config: HwConfig,
        near: bool,
    ) -> None:
        self.operators, self.from_host, self.config = operators, from_host, config
        self.near = near
        #: By an operator's name and the factors of its tensors.
        self.costs: dict[tuple[str, tuple[int, ...]], int] = {}
        held = set(fixed)
        for operator in operators:
            if not _can_fold(operator):
                held.update(tensor.name for tensor in (*operator.inputs, *operator.outputs))
        made = {tensor.name for operator in operators for tensor in operator.outputs}
        self.tensors = {
            tensor.name: tensor
            for operator in operators
            for tensor in operator.outputs
            if tensor.name not in held and tensor.name in made and self._may_fold(tensor, 2)
        }
        self.touching: dict[str, list[g.Operator]] = {name: [] for name in self.tensors}
        for operator in operators:
            for tensor in (*operator.inputs, *operator.outputs):
                if tensor.name in self.touching:  # so it can fold, and all that touch it
                    self.touching[tensor.name].append(operator)

    def best(self) -> dict[str, int]:
        """Factors that no change of a run of neighbours improves."""
        factors, improved = dict.fromkeys(self.tensors, 1), True
        while improved:
            improved = False
            for change in self.changes():
                if self._gain(factors, change) > 0:
                    factors, improved = {**factors, **change}, True
        return factors

    def _gain(self, factors: Mapping[str, int], change: Mapping[str, int]) -> int:
        """How many cycles a change saves: only operators at its tensors cost something else."""
        touched = {id(o): o for name in change for o in self.touching[name]}.values()
        names = {tensor.name for o in touched for tensor in (*o.inputs, *o.outputs)}
        before = {name: factors.get(name, 1) for name in names}
        after = {**before, **change}
        return sum(self._cost_of(o, before) - self._cost_of(o, after) for o in touched)

    def given(self, chosen: Sequence[int]) -> dict[str, int]:
        """Factors that were chosen, in the order of the tensors. Raises LoweringError where they
        are none of this region."""
        factors = dict(zip(self.tensors, chosen, strict=False))
        fit = len(chosen) == len(self.tensors) and all(
            factor in _FACTORS and self._may_fold(self.tensors[name], factor)
            for name, factor in factors.items()
        )
        if not fit or any(
            self.rewritten(operator, factors) is None
            for operator in self.operators
            if _can_fold(operator)
        ):
            raise LoweringError(f"columns: {list(chosen)} cannot be folded in this region")
        return factors

    def changes(self) -> Iterator[dict[str, int]]:
        """New factors for a run of neighbours: one for all of them, or half of it from some tensor
        on (behind a stride of two)."""
        names = list(self.tensors)
        for first in range(len(names)):
            for last in range(first + 1, min(len(names), first + _LONGEST_RUN) + 1):
                run = names[first:last]
                for factor, half in product(_FACTORS, range(1, len(run) + 1)):
                    change = {
                        name: factor if position < half else max(1, factor // 2)
                        for position, name in enumerate(run)
                    }
                    if all(
                        self._may_fold(self.tensors[name], value) for name, value in change.items()
                    ):
                        yield change

    def rewritten(self, operator: g.Operator, factors: Mapping[str, int]) -> g.Operator | None:
        """The operator on folded tensors; None where these factors do not go together."""
        own = self._own(operator, factors)
        if set(own) == {1}:
            return operator
        if isinstance(operator, g.Conv2D):
            return folded_convolution(operator, own[0], own[1])
        if len(set(own)) > 1:
            return None
        tensors = [
            tuple(_folded(tensor, own[0]) for tensor in side)
            for side in (operator.inputs, operator.outputs)
        ]
        return replace(operator, inputs=tensors[0], outputs=tensors[1])

    def _may_fold(self, tensor: g.Tensor, factor: int) -> bool:
        if len(tensor.shape) != 4 or tensor.shape[2] % factor:
            return False
        return factor == 1 or tensor.shape[3] * factor <= 2 * self.config.block

    def _own(self, operator: g.Operator, factors: Mapping[str, int]) -> tuple[int, ...]:
        return tuple(
            factors.get(tensor.name, 1) for tensor in (*operator.inputs, *operator.outputs)
        )

    def cost(self, factors: Mapping[str, int]) -> int:
        """Of the whole chain, estimated."""
        return sum(
            self._cost_of(operator, factors) for operator in self.operators if _can_fold(operator)
        )

    def _cost_of(self, operator: g.Operator, factors: Mapping[str, int]) -> int:
        key = (operator.name, self._own(operator, factors))
        if key not in self.costs:
            self.costs[key] = self._estimate(self.rewritten(operator, factors))
        return self.costs[key]

    def _estimate(self, operator: g.Operator | None) -> int:
        if operator is None:
            return _IMPOSSIBLE
        if isinstance(operator, g.Conv2D):
            try:
                from_host = operator.input.name in self.from_host
                return estimated_cycles(operator, self.config, from_host, self.near)
            except LoweringError:  # nothing fits
                return _IMPOSSIBLE
        layout = Blocked(operator.output.shape, self.config.batch, self.config.block)
        return cost_model(self.config).elementwise(layout.size_tiles, len(operator.inputs))


def _can_fold(operator: g.Operator) -> bool:
    """Convolutions, and operators on elements whose tensors have one shape."""
    if isinstance(operator, g.Conv2D):
        return True
    alike = len({tensor.shape for tensor in (*operator.inputs, *operator.outputs)}) == 1
    return (
        isinstance(operator, g.Elementwise | g.Requantize)
        and alike
        and len(operator.output.shape) == 4
    )


def _folded(tensor: g.Tensor, factor: int) -> g.Tensor:
    n, height, width, channels = tensor.shape
    return replace(tensor, shape=(n, height, width // factor, channels * factor))


def folded_convolution(op: g.Conv2D, factor_in: int, factor_out: int) -> g.Conv2D | None:
    """The same convolution from an input with factor_in columns in its channels to such an output;
    None where columns do not line up."""
    width, out_width = op.input.shape[2] // factor_in, op.output.shape[2] // factor_out
    if (factor_out * op.strides[1]) % factor_in:
        return None
    step = factor_out * op.strides[1] // factor_in
    reads = (
        np.arange(factor_out)[:, None] * op.strides[1]
        - op.padding[1]
        + np.arange(op.weights.shape[2]) * op.dilation[1]
    )
    taps, parts = (
        reads // factor_in,
        reads % factor_in,
    )  # which folded column, and which column in it
    left = -int(taps.min())
    kernel = int(taps.max()) + left + 1
    right = (out_width - 1) * step + kernel - left - width
    if right < 0 and (width + left - kernel) // step + 1 != out_width:
        return None
    dense = _dense(op)
    out, height, _, channels = dense.shape
    zeros = op.weight_zero_points.astype(np.int8).reshape(1, out, 1, 1, 1, 1)
    weights = np.broadcast_to(zeros, (factor_out, out, height, kernel, factor_in, channels)).copy()
    for (column, tap), read in np.ndenumerate(taps):
        weights[column, :, :, read + left, parts[column, tap]] = dense[:, :, tap]
    return replace(
        op,
        inputs=(_folded(op.input, factor_in),),
        outputs=(_folded(op.output, factor_out),),
        weights=weights.reshape(factor_out * out, height, kernel, factor_in * channels),
        weight_scales=np.tile(op.weight_scales, factor_out),
        weight_zero_points=np.tile(op.weight_zero_points, factor_out),
        bias=np.tile(op.bias, factor_out),
        strides=(op.strides[0], step),
        dilation=(op.dilation[0], 1),
        padding=(op.padding[0], left, op.padding[2], max(0, right)),
        groups=1,
    )


def _dense(op: g.Conv2D) -> NDArray[np.int8]:
    """The weights without groups: what a group does not read has the weight's zero point."""
    out, height, width, in_group = op.weights.shape
    zeros = op.weight_zero_points.astype(np.int8).reshape(out, 1, 1, 1)
    dense = np.broadcast_to(zeros, (out, height, width, in_group * op.groups)).copy()
    out_group = out // op.groups
    for group in range(op.groups):
        rows = slice(group * out_group, (group + 1) * out_group)
        dense[rows, :, :, group * in_group : (group + 1) * in_group] = op.weights[rows]
    return dense
