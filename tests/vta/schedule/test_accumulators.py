# SPDX-License-Identifier: Apache-2.0
"""vta/schedule/accumulators.py: statements in place, lowered and run in NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.relax.compat import tirx
from loadstone.vta.emitter import Emitter
from loadstone.vta.hw_config import load_config
from loadstone.vta.lower import lower
from loadstone.vta.schedule.accumulators import Accumulators
from loadstone.vta.schedule.epilogue import Immediate
from loadstone.vta.schedule.loops import Loops, chip_copy, dram_buffer, whole_copy, written
from loadstone.vta.stream import DramTile
from loadstone.vta.stream_reference import execute

if TYPE_CHECKING:
    from loadstone.relax.types import Expr

CONFIG = load_config("vta-pynq")
TILES = 7


class Seven(Accumulators):
    """Seven tiles, three in flight: the last turn has one."""

    def __init__(self) -> None:
        super().__init__((3,), CONFIG)
        self.turns = Loops()
        self.begin = self.turns.loop(3, "turn") * 3

    def tile_loops(self, loops: Loops) -> tuple[Expr, ...]:
        at = loops.loop(3, "t")
        loops.conditions.append(self.begin + at < TILES)
        return (at,)


def test_products_and_operations_in_place() -> None:
    own = Seven()
    x, w = (
        dram_buffer(name, (1, *lanes), "int8") for name, lanes in (("x", (1, 16)), ("w", (16, 16)))
    )
    out = dram_buffer("out", (TILES, 1, 16), "int8")
    x_chip, w_chip = chip_copy(x, "inp"), chip_copy(w, "wgt")
    loops = Loops()
    (at,) = own.tile_loops(loops)
    batch, lane, k = own.product_lanes(loops)
    product = own.gemm((at, batch, lane), x_chip[0, batch, k], w_chip[0, lane, k])
    turn = [
        tirx.AllocBuffer(own.acc),
        own.cleared(own.acc),
        loops.around(product),
        own.immediate(Immediate("add", 6)),
        own.shift(1),
        own.clamp(-50, 90),
        own.stored(lambda place: (out, (own.begin + place[0], *place[1:]))),
    ]
    body = own.turns.around(tirx.stmt_seq(*turn))
    loads = [*whole_copy(x, x_chip), *whole_copy(w, w_chip)]
    kernel = lower(written([x, w, out], tirx.stmt_seq(*loads, body)))
    emitter = Emitter(CONFIG, {})
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
