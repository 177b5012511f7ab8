# SPDX-License-Identifier: Apache-2.0
"""alu_lanes.py: each operation changes lanes as the reference's does numbers."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone.prove.alu_lanes import by_lanes, by_numbers
from loadstone.prove.lanes import SymbolLanes
from loadstone.prove.verdict import Unsupported
from loadstone.vta.isa.spec import AluOp
from loadstone.vta.meaning.lane_operations import OPERATIONS
from tests.prove.values_at import ValuesAt

LANES = np.array([-7, 0, 5, 1000])
NUMBERS = np.array([3, -2, 5, 4])


def lanes(*inputs: int) -> SymbolLanes:
    """Four constants; behind them bytes that are inputs."""
    values = ValuesAt(np.array(inputs, np.int64))
    made = SymbolLanes(values, len(LANES) + len(inputs))
    made.put_numbers(np.arange(len(LANES)), LANES)
    if inputs:
        symbols = values.opaque(np.full(len(inputs), -128), np.full(len(inputs), 127))
        made.put_symbols(len(LANES) + np.arange(len(inputs)), symbols)
    return made


@pytest.mark.parametrize("operation", [op for op in AluOp if op != AluOp.RQ])
def test_numbers_change_lanes_as_the_reference_does(operation: AluOp) -> None:
    made, every = lanes(), np.arange(len(LANES))
    by_numbers(made, operation, every, NUMBERS)
    wanted = OPERATIONS[operation](LANES.astype(np.int32), NUMBERS.astype(np.int32))
    np.testing.assert_array_equal(made.numbers(every), wanted)


@pytest.mark.parametrize(
    ("operation", "wanted"), [(AluOp.ADD, 11), (AluOp.MAX, 6), (AluOp.MUL, 30), (AluOp.MIN, 5)]
)
def test_lanes_change_lanes_as_the_reference_does(operation: AluOp, wanted: int) -> None:
    for first, second in ((5, 6), (6, 5)):
        made = lanes(first, second)
        at, other = np.array([len(LANES)]), np.array([len(LANES) + 1])
        by_lanes(made, operation, at, other)
        sources, functions = made.resolve(at)
        assert isinstance(made.values, ValuesAt)
        assert sources[0] >= 0
        stored = made.values.stored(sources, functions)
        assert made.values.bytes(stored).tolist() == [wanted]


def test_shifts_by_activations_are_beyond_a_proof() -> None:
    with pytest.raises(Unsupported, match="SHR by activations"):
        by_lanes(lanes(5), AluOp.SHR, np.array([0]), np.array([len(LANES)]))
