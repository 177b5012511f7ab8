# SPDX-License-Identifier: Apache-2.0
"""vta/schedule/accumulators.py: statements in place, lowered and run in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.ir_pass.insert_dma_copy import insert_dma_copy
from loadstone.ir_pass.nests import (
    Function,
    NestLoops,
    NestStep,
    NestTensor,
)
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.kernels.emitter import Emitter
from loadstone.vta.kernels.from_nests import kernel_of_nests
from loadstone.vta.kernels.memories import memory_table
from loadstone.vta.schedule.accumulators import Accumulators, Element
from loadstone.vta.schedule.epilogue import Immediate
from loadstone.vta.stream.operations import DramTile
from tests.vta.stream.meaning import execute

CONFIG = load_config("vta-pynq")
TILES = 7


class Seven(Accumulators):
    """Seven tiles, three in flight: the last turn has one."""

    def __init__(self) -> None:
        super().__init__((3,), CONFIG)
        self.turns = NestLoops()
        self.begin = self.turns.loop(3, "turn") * 3

    def tile_loops(self, loops: NestLoops) -> Element:
        at = loops.loop(3, "t")
        loops.within(self.begin + at, TILES)
        return (at,)


def test_products_and_operations_in_place() -> None:
    own = Seven()
    x, w = (
        NestTensor(name, (1,), lanes, "int8")
        for name, lanes in (("x", own.lanes), ("w", own.square))
    )
    out = NestTensor("out", (TILES,), own.lanes, "int8")
    turn = [
        own.cleared(own.acc),
        own.elements(lambda at: [NestStep("gemm", (own.acc[at], x[0], w[0]))]),
        own.immediate(Immediate("add", 6)),
        own.shift(1),
        own.clamp(-50, 90),
        own.stored(lambda place: out[own.begin + place[0]]),
    ]
    function = Function("test", (x, w, own.acc, out), own.turns.around(turn))
    kernel = kernel_of_nests(insert_dma_copy(function, memory_table(CONFIG)), CONFIG)
    emitter = Emitter({})
    kernel.emit(emitter, *(DramTile(name, 0) for name in kernel.parameters))
    rng = np.random.default_rng(1)
    inputs = rng.integers(-5, 6, (1, 1, 16)).astype(np.int8)
    weights = rng.integers(-5, 6, (1, 16, 16)).astype(np.int8)
    dram = {"x": inputs, "w": weights, "out": np.full((TILES + 1, 1, 16), 77, np.int8)}
    execute(emitter.operations, dram, CONFIG)
    sums = weights[0].astype(np.int32) @ inputs[0, 0].astype(np.int32)
    wanted = np.clip((sums + 6) >> 1, -50, 90)
    assert len(set(wanted.tolist())) > 4
    np.testing.assert_array_equal(dram["out"][:TILES, 0], np.tile(wanted, (TILES, 1)))
    assert (dram["out"][TILES:] == 77).all()
