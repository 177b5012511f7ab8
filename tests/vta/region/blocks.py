# SPDX-License-Identifier: Apache-2.0
"""A block of MobileNetV2 in small: 1x1, depthwise 3x3, 1x1.

In:   shapes.
Out:  the operators; how each is lowered; a program of operations on them, and what it leaves.
Next: the tests of chains.py, bands.py and turns.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from loadstone import graph as g
from loadstone.backend.region import Address
from loadstone.numerics import Rounding
from loadstone.vta.device.hw_config import HwConfig, load_config
from loadstone.vta.operators import LoweredOperator, lower_operator
from loadstone.vta.operators.layout import Blocked
from loadstone.vta.operators.request import PLAIN
from loadstone.vta.passes.program import LayerOperation, VtaProgram
from loadstone.vta.region.chains import LayerChain
from tests import lowered as lo
from tests.vta.stream.meaning import execute

SECOND = load_config("vtaq2-1x16x16")


def conv(
    x: g.Tensor, y: g.Tensor, kernel: int, stride: int, dilation: int, groups: int, seed: int
) -> g.Conv2D:
    """With SAME padding; groups as many as channels: depthwise."""
    rng = np.random.default_rng(seed)
    out = y.shape[3]
    taps = (out, kernel, kernel, x.shape[3] // groups)
    reach = dilation * (kernel - 1) + 1
    size = [(y.shape[k] - 1) * stride + reach - x.shape[k] for k in (1, 2)]
    pads = [(max(n, 0) // 2, max(n, 0) - max(n, 0) // 2) for n in size]
    return g.Conv2D(
        name=f"{y.name} =",
        inputs=(x,),
        outputs=(y,),
        weights=rng.integers(-127, 128, taps).astype(np.int8),
        weight_scales=rng.uniform(0.001, 0.01, out).astype(np.float32),
        weight_zero_points=np.zeros(out, np.int32),
        bias=rng.integers(-3000, 3000, out).astype(np.int32),
        strides=(stride, stride),
        dilation=(dilation, dilation),
        padding=(pads[0][0], pads[1][0], pads[0][1], pads[1][1]),
        groups=groups,
        low=-128,
        high=127,
        rounding=Rounding.DOUBLE,
    )


@dataclass(frozen=True)
class Block:
    """channels: of the input, between, and of the output."""

    height: int = 9
    width: int = 6
    stride: int = 1
    channels: tuple[int, int, int] = (16, 48, 32)
    config: HwConfig = SECOND
    dilation: int = 1

    @cached_property
    def operators(self) -> tuple[g.Conv2D, g.Conv2D, g.Conv2D]:
        """In their order."""
        first, between, last = self.channels
        high, wide = -(-self.height // self.stride), -(-self.width // self.stride)
        x = lo.tensor("x", (1, self.height, self.width, first), zero_point=3)
        a = lo.tensor("a", (1, self.height, self.width, between), zero_point=-5)
        b = lo.tensor("b", (1, high, wide, between), zero_point=7)
        y = lo.tensor("y", (1, high, wide, last), zero_point=-1)
        middle = (a, b, 3, self.stride, self.dilation, between)
        shapes = ((x, a, 1, 1, 1, 1), middle, (b, y, 1, 1, 1, 1))
        one, two, three = (conv(*shape, seed) for seed, shape in enumerate(shapes))
        return one, two, three

    @property
    def chain(self) -> LayerChain:
        """The operators."""
        return LayerChain(*self.operators, None)

    @cached_property
    def whole(self) -> dict[str, LoweredOperator]:
        """Each operator, lowered alone."""
        return {op.name: lower_operator(op, self.config, None, PLAIN) for op in self.operators}

    @property
    def sizes(self) -> dict[str, int]:
        """The bytes of the tensors."""
        tensors = (self.operators[0].input, *(op.output for op in self.operators))
        return {t.name: self._blocked(t).size_tiles * self.config.block for t in tensors}

    def program(
        self, operations: Sequence[LayerOperation] | None = None, *, turns: bool = False
    ) -> VtaProgram:
        """operations: None: those of the whole operators, one after the other."""
        if operations is None:
            operations = [(name, o) for name, low in self.whole.items() for o in low.operations]
        places = {name: Address(1, n << 24) for n, name in enumerate(self.sizes)}
        constants = [name for low in self.whole.values() for name in low.constants]
        places |= {name: Address(0, n << 24) for n, name in enumerate(constants)}
        chains = [self.chain.layers] if turns else []
        inside = frozenset(("a", "b"))
        return VtaProgram(self.config, places, operations, inside=inside, chains=chains)

    def result(self, operations: Sequence[LayerOperation]) -> np.ndarray:
        """The output that the operations leave."""
        (image,) = lo.random_inputs(self.operators[0], 0)
        dram = {name: np.array(t) for low in self.whole.values() for name, t in _tiles(low)}
        for op in self.operators:
            layout = self._blocked(op.output)
            shape = (layout.size_tiles, self.config.batch, self.config.block)
            dram[op.output.name] = np.full(shape, lo.WRITTEN_BY_NOBODY, np.int8)
        dram["x"] = self._blocked(self.operators[0].input).pack(image)
        execute([operation for _, operation in operations], dram, self.config)
        return self._blocked(self.operators[2].output).unpack(dram["y"])

    def reference(self) -> np.ndarray:
        """What the operators mean."""
        (array,) = lo.random_inputs(self.operators[0], 0)
        for op in self.operators:
            array = lo.reference(op, [array])
        return array

    def _blocked(self, tensor: g.Tensor) -> Blocked:
        return Blocked(tensor.shape, self.config.batch, self.config.block)


def _tiles(low: LoweredOperator) -> list[tuple[str, np.ndarray]]:
    return [(name, tiles) for name, (_, tiles) in low.constants.items()]
