# SPDX-License-Identifier: Apache-2.0
"""Chains of layers that may take turns: a depthwise convolution between two of 1x1.

In:   a region's operators in execution order.
Out:  LayerChain: three of them; whether they wait much when one runs after the other.
Next: bands.py lowers them in bands of rows, turns.py looks whether that pays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass

from loadstone import graph as g
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.operators import LoweredOperator
from loadstone.vta.operators.layout import Im2colLayout
from loadstone.vta.region.dealing import share_of
from loadstone.vta.region.folded_input import folded_name
from loadstone.vta.stream.operations import FillNest, RequantizeNest

__all__ = ["LayerChain", "chains_of", "is_worth_trying"]

#: How much longer than its products a chain must take for it to be tried.
_WORTH = 1.15
_FREE = (RequantizeNest, FillNest)


@dataclass(frozen=True, eq=False)
class LayerChain:
    """Three operators behind each other, of which the inner tensors are nobody else's. folded: the
    layout of the first one's input, where the host folds it."""

    expand: g.Conv2D
    depthwise: g.Conv2D
    project: g.Conv2D
    folded: Im2colLayout | None

    @property
    def operators(self) -> tuple[g.Conv2D, ...]:
        """In their order."""
        return self.expand, self.depthwise, self.project

    @property
    def layers(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(op.name for op in self.operators)

    @property
    def tensors(self) -> tuple[str, ...]:
        """Names of what they read and write, in DRAM's layouts."""
        first = self.expand.input.name if self.folded is None else folded_name(self.expand)
        return first, *(op.output.name for op in self.operators)


def chains_of(
    operators: Sequence[g.Operator],
    seen: Set[str],
    folded: Callable[[g.Operator], Im2colLayout | None],
) -> Iterator[LayerChain]:
    """None has a layer of another one. seen: names of tensors that others know."""
    users: dict[str, int] = {}
    for op in operators:
        for tensor in op.inputs:
            users[tensor.name] = users.get(tensor.name, 0) + 1
    first = 0
    while first + 3 <= len(operators):
        chain = _chain(operators[first : first + 3], folded)
        inner = () if chain is None else (chain.expand.output, chain.depthwise.output)
        if chain is not None and all(users[t.name] == 1 and t.name not in seen for t in inner):
            yield chain
            first += 3
        else:
            first += 1


def _chain(
    operators: Sequence[g.Operator], folded: Callable[[g.Operator], Im2colLayout | None]
) -> LayerChain | None:
    expand, depthwise, project = operators
    if not all(isinstance(op, g.Conv2D) for op in operators):
        return None
    assert isinstance(expand, g.Conv2D)
    assert isinstance(depthwise, g.Conv2D)
    assert isinstance(project, g.Conv2D)
    layout = folded(expand)
    inner = expand.output.name, depthwise.output.name
    is_tied = (depthwise.input.name, project.input.name) == inner
    is_lane_wise = depthwise.groups == depthwise.input.shape[3] == depthwise.output.shape[3]
    ones = [_is_1x1(project), _is_1x1(expand) or layout is not None]
    if not (is_tied and is_lane_wise and depthwise.groups > 1 and all(ones)):
        return None
    return LayerChain(expand, depthwise, project, layout)


def _is_1x1(op: g.Conv2D) -> bool:
    return op.groups == 1 and op.weights.shape[1:3] == (1, 1) and tuple(op.strides) == (1, 1)


def is_worth_trying(lowered: Sequence[LoweredOperator], config: HwConfig) -> bool:
    """Whether layers that run one after the other wait much, by the busiest stage of each. Their
    stores requantize, and their products overwrite."""
    shares = [
        share_of([o for o in each.operations if type(o) not in _FREE], {}, config).cycles
        for each in lowered
    ]
    return sum(int(c[:3].max()) for c in shares) > _WORTH * sum(int(c[1]) for c in shares)
