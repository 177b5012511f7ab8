# SPDX-License-Identifier: Apache-2.0
"""vta/schedule/plane_cost.py: what nothing hides when bytes leave in planes; and that estimates are
near the simulator."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import onnx
import pytest

from loadstone.compiler import compile
from loadstone.vta.schedule.plane_cost import cycles_of_planes
from tests.onnx_builder import Graph


def cycles(load: int, compute: int, store: int, turns: int, parts: int = 1, planes: int = 3) -> int:
    stages = np.array([[load], [compute], [store]])
    first = np.array([110])
    found = cycles_of_planes(stages, first, np.array([turns]), np.array([parts]), planes)
    return int(found[0])


def test_behind_a_long_load_come_the_last_products_and_planes() -> None:
    # 3 planes of the last tile, 2 of the one before it, 1: of 10 tiles, each a third of 60
    assert cycles(1000, 300, 600, 10) == 1000 + 30 + (3 + 2 + 1) * 20
    assert cycles(1000, 300, 600, 2) == 1000 + 150 + (3 + 2) * 100
    assert cycles(1100, 300, 600, 1, 10) == 1100 + 30 + 3 * 200


def test_planes_leave_between_the_parts_of_the_next_sum() -> None:
    assert cycles(1000, 300, 600, 10, 3) == 1000 + 10 + 3 * 20
    assert cycles(1000, 300, 600, 10, 2) == 1000 + 15 + (3 + 1) * 20


def test_in_front_of_long_products_come_the_first_loads() -> None:
    assert cycles(500, 2000, 300, 10) == 2000 + 110 + 6 * 10
    # parts of 100: of the first tile each but the first waits 10 cycles for its inputs
    assert cycles(500, 2000, 300, 5, 4) == 2000 + 110 + 3 * 10 + 3 * 20


#: Shapes of SmolLM2's linear layers, (inputs, outputs), and how many of each a decoder layer has.
SHAPES = {(576, 576): 2, (576, 192): 2, (576, 1536): 2, (1536, 576): 1}


@lru_cache
def measured(rows: int, depth: int, columns: int, most: int, device: str) -> int:
    """Cycles of rows times weights as large as `most`."""
    rng = np.random.default_rng(1)
    graph = Graph()
    x = graph.input((1, rows, depth), np.int8)
    weights = rng.integers(-most, most + 1, (depth, columns)).astype(np.int8)
    weights[:, 0] = most
    y = graph.node("MatMulInteger", x, graph.constant(weights))
    saved = graph.save([(y, np.int32)], [(1, rows, columns)])
    compiled = compile(onnx.load_model_from_string(saved), device)
    (operator,) = (o for o in compiled.partition.graph.operators if o.kind == "plane_dense")
    assert operator.planes == (4 if 128 * most * depth >= 1 << 23 else 3)
    return compiled.profile().cycles


@pytest.mark.parametrize("device", ["vtaq-1x16x16", "vta-pynq"])
@pytest.mark.parametrize(
    ("rows", "most", "wanted"), [(1, 127, 0.98), (16, 127, 0.93), (32, 127, 0.82), (32, 40, 0.845)]
)
def test_share_of_the_larger_of_bus_and_products(
    rows: int, most: int, wanted: float, device: str
) -> None:
    """Summed over a decoder layer. 127: four planes, but of the short sums; 40: three."""
    least = cycles = 0
    for (depth, columns), count in SHAPES.items():
        least += count * max(depth * columns // 8, rows * depth * columns // 256)
        cycles += count * measured(rows, depth, columns, most, device)
    assert least / cycles > wanted
