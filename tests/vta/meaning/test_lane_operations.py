# SPDX-License-Identifier: Apache-2.0
"""lane_operations.py: numbers of any size, and what is no number."""

from __future__ import annotations

import numpy as np

from loadstone.vta.isa.spec import AluOp
from loadstone.vta.meaning.lane_operations import FLOAT_OPERATIONS, OPERATIONS, shift_right


def test_shift_right_takes_any_amount() -> None:
    x = np.array([1, -1, 5, -5, 2**31 - 1, -(2**31)], np.int32)
    for amount in (0, 1, 31, 32, 33, 2**31 - 1):
        assert shift_right(x, np.int32(amount)).tolist() == [int(v) >> amount for v in x]
    for amount in (-1, -31, -32, -(2**31)):
        assert shift_right(x, np.int32(amount)).tolist() == [
            np.int64(int(v) << min(-amount, 32)).astype(np.int32) for v in x
        ]


def test_sums_and_products_wrap() -> None:
    x = np.array([(1 << 31) - 1, -(1 << 31)], np.int32)
    assert OPERATIONS[AluOp.ADD](x, np.int32(1)).tolist() == [-(1 << 31), 1 - (1 << 31)]
    assert OPERATIONS[AluOp.MUL](x, np.int32(2)).tolist() == [-2, 0]


def test_what_is_no_number_stays_where_it_stood_first() -> None:
    x, y = np.float32([np.nan, 1, 2]), np.float32([1, np.nan, 3])
    for op, last in ((AluOp.MIN, 2), (AluOp.MAX, 3)):
        made = FLOAT_OPERATIONS[op](x, y)
        assert np.isnan(made[0])
        assert np.isnan(made[1])
        assert made[2] == last
