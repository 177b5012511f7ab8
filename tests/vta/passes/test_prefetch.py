# SPDX-License-Identifier: Apache-2.0
"""prefetch.py: weights come early where the load stage would wait, and only there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from loadstone.backend.region import Address
from loadstone.errors import LoweringError
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.spec import AluOp, Memory
from loadstone.vta.passes.prefetch import Prefetch
from loadstone.vta.passes.program import VtaProgram
from loadstone.vta.schedule.choices import RegionChoice
from loadstone.vta.stream.cost import cost_model
from loadstone.vta.stream.operations import (
    Access,
    AluNest,
    DramTile,
    Operation,
    TileLoad,
    TileStore,
    VirtualTile,
)
from loadstone.vta.stream.table import columns_of
from tests.repeat import times
from tests.vta.passes.allocate.test_allocate import gemm, load, tile
from tests.vta.passes.hand_lowered import (
    NEST_DEVICES,
    behind,
    compare_golden,
    nest_program,
    small_program,
)
from tests.vta.passes.prefetch_reference import Timeline

CONFIG = load_config("vtaq-tiny")  # 256 tiles in each scratchpad


def order_of(operations: list[Operation]) -> list[int]:
    """Numbers of the operations behind the pass; its verifier has run."""
    before = VtaProgram(CONFIG, {}, [("layer", operation) for operation in operations])
    after = Prefetch().run(before)
    Prefetch().verify(before, after)
    assert after.source is not None
    assert after.source.operations == before.operations
    number = {id(operation): k for k, operation in enumerate(operations)}
    return [number[id(operation)] for _, operation in after.operations]


def two_layers(tiles: int, late: bool) -> list[Operation]:
    """Layer 2 reads what layer 1 stores. late: it uses the weights of layer 1 once more."""
    w1, w2 = tile(Memory.WGT, tiles, "w1"), tile(Memory.WGT, tiles, "w2")
    x1, x2 = tile(Memory.INP, 8, "x1"), tile(Memory.INP, 8, "x2")
    a1, a2 = tile(Memory.ACC, 8), tile(Memory.ACC, 8)
    return [
        load(x1, "x"),
        load(w1, "w1"),
        gemm(a1, x1, w1, 5000),
        TileStore(a1, 0, DramTile("y", 0), 1, 8, 8),
        load(x2, "y"),
        *([gemm(a2, x2, w1)] if late else []),
        load(w2, "w2"),
        gemm(a2, x2, w2, 5000),
        TileStore(a2, 0, DramTile("z", 0), 1, 8, 8),
    ]


def test_the_text_behind_the_pass_is_the_golden_one(update_golden: bool) -> None:
    compare_golden("prefetch", behind("prefetch", small_program()).text(), update_golden)


@pytest.mark.parametrize("device", NEST_DEVICES)
def test_text_in_text_out(device: str, update_golden: bool) -> None:
    compare_golden(
        "prefetch", behind("prefetch", nest_program(device)).text(), update_golden, device
    )


def test_weights_are_pulled_into_the_gap_before_an_input_that_waits() -> None:
    order = order_of(two_layers(8, late=False))
    assert sorted(order) == list(range(8))
    assert order.index(3) < order.index(5) < order.index(4)


def test_weights_are_not_pulled_where_there_is_no_room() -> None:
    assert order_of(two_layers(150, late=True)) == list(range(9))


def test_weights_stay_where_no_load_waits() -> None:
    operations = two_layers(8, late=False)
    other = tile(Memory.INP, 8, "other")
    operations[4] = load(other, "not stored by anybody")
    assert order_of(operations) == list(range(8))


def test_the_verifier_finds_what_may_not_move() -> None:
    operations = [("layer", operation) for operation in two_layers(8, late=False)]
    before = VtaProgram(CONFIG, {}, operations)
    swapped = [*operations[:3], operations[4], operations[3], *operations[5:]]
    with pytest.raises(LoweringError, match="other than a load of weights moved"):
        Prefetch().verify(before, replace(before, operations=swapped))
    late = [*operations[:5], operations[6], operations[5], operations[7]]
    with pytest.raises(LoweringError, match="w2 is used before its load"):
        Prefetch().verify(before, replace(before, operations=late))
    copied = [*operations[:5], ("layer", load(tile(Memory.WGT, 8), "w2")), *operations[6:]]
    assert isinstance(copied[5][1], TileLoad)
    with pytest.raises(LoweringError, match="other than a load of weights moved"):
        Prefetch().verify(before, replace(before, operations=copied))


def test_the_verifier_lets_nothing_but_constant_weights_move() -> None:
    """Neither an input, whoever wrote it, nor weights that the program stores."""
    first = two_layers(8, late=False)[:4]
    third = load(tile(Memory.INP, 8, "x3"), "x")
    operations = [("layer", o) for o in (third, *first, load(tile(Memory.WGT, 8, "w2"), "y"))]
    before = VtaProgram(CONFIG, {}, operations)

    def verified(*order: int) -> None:
        Prefetch().verify(before, replace(before, operations=[operations[n] for n in order]))

    verified(0, 1, 2, 3, 4, 5)
    verified(2, 0, 1, 3, 4, 5)
    for order in ((1, 0, 2, 3, 4, 5), (0, 1, 2, 3, 5, 4)):
        with pytest.raises(LoweringError, match="other than a load of weights moved"):
            verified(*order)


def test_what_the_program_stores_does_not_come_early_as_weights() -> None:
    """An activation that the GEMM core reads as weights is there when its store is done; also
    under the name of a tensor that it is a part of."""
    operations = [
        *two_layers(8, late=False)[:4],
        load(tile(Memory.INP, 8, "x2"), "y"),
        load(tile(Memory.WGT, 8, "w2"), "y"),
    ]
    assert order_of(operations) == list(range(6))
    renamed = [*operations[:5], load(tile(Memory.WGT, 8, "w2"), "whole")]
    places = {name: Address(2, 0) for name in ("y", "whole")}
    before = VtaProgram(CONFIG, places, [("layer", operation) for operation in renamed])
    assert Prefetch().run(before).operations == before.operations


def random_layers(seed: int) -> list[Operation]:
    """Layers that read what others store, with weights that come again, in pieces or computed."""
    rng = np.random.default_rng(seed)
    drawn = rng.integers
    operations: list[Operation] = []
    for layer in range(int(drawn(2, 8))):
        weights: VirtualTile | None = None
        operands = tile(Memory.ACC, int(drawn(1, 4)))
        operations.append(load(operands, "operands"))
        for _ in range(int(drawn(1, 6))):
            if weights is None or drawn(2):
                weights = tile(Memory.WGT, int(drawn(1, 4)) * 30, "weights")
                tensor = ["w", f"y{layer - 1}"][int(drawn(8)) == 0]
                half, place = weights.size_tiles // 2, DramTile(tensor, 90 * int(drawn(4)))
                parts = [(0, half), (half, half)] if drawn(3) == 0 else [(0, 2 * half)]
                operations += [
                    TileLoad(Memory.WGT, weights, first, place, 1, size, size)
                    for first, size in parts
                ]
            x, acc = tile(Memory.INP, int(drawn(1, 4)) * 30), tile(Memory.ACC, 30)
            rows, before = int(drawn(1, 4)), f"y{layer - int(drawn(1, 3))}"
            place = DramTile(before, int(drawn(0, 200)))
            operations.append(TileLoad(Memory.INP, x, 0, place, rows, 9, int(drawn(6, 20))))
            operations.append(gemm(acc, x, weights, int(drawn(1, 4000))))
            to = Access(acc, 0, (0,))
            operations.append(AluNest(AluOp.ADD, (30,), to, Access(operands, 0, (0,))))
            place = DramTile(f"y{layer}", int(drawn(0, 200)))
            operations.append(TileStore(acc, 0, place, int(drawn(1, 4)), 8, int(drawn(8, 20))))
    return operations


@pytest.mark.parametrize("seed", range(times(40, 2000)))
def test_the_order_is_that_of_the_same_walk_in_python(seed: int) -> None:
    operations = random_layers(seed)
    quarters = [None, 0, 1, 4][seed % 4]
    choice = RegionChoice(columns=None, prefetch=quarters, place=None)
    layers = [("layer", operation) for operation in operations]
    after = Prefetch().run(VtaProgram(CONFIG, {}, layers, choice=choice))
    assert after.source is not None
    cycles = cost_model(CONFIG).operations(operations, columns_of(operations), CONFIG)
    made = frozenset(o.dram.tensor for o in operations if isinstance(o, TileStore))
    walk = Timeline(operations, CONFIG, made, cycles.tolist(), 3 if quarters is None else quarters)
    assert after.source.order.tolist() == walk.run()
    Prefetch().verify(VtaProgram(CONFIG, {}, layers), after)


def test_some_of_these_walks_move_weights() -> None:
    moved = [order_of(random_layers(seed)) for seed in range(40)]
    assert sum(order != sorted(order) for order in moved) > 10


@pytest.mark.parametrize(
    ("size", "changed"),
    [(8, {"y_size": -1}), (8, {"x_stride": -1}), (8, {"dram": DramTile("x", -1)}), (-1, {})],
)
def test_columns_that_cannot_be_are_refused(size: int, changed: dict[str, Any]) -> None:
    operation = replace(load(tile(Memory.INP, size), "x"), **changed)
    with pytest.raises(AssertionError):
        Prefetch().run(VtaProgram(CONFIG, {}, [("layer", operation)]))


def test_a_program_of_nothing_stays_one() -> None:
    after = Prefetch().run(VtaProgram(CONFIG, {}, []))
    assert after.operations == []
