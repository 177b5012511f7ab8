# SPDX-License-Identifier: Apache-2.0
"""Every attribute that the table reads, at values other than the default: equal to ONNX Runtime
without optimisations, or refused; never another number.

By hand, twenty thousand: `python -m tests.frontend.onnx.test_attribute_sweep 0 200`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
pytest.importorskip("onnx", reason="onnx is not installed")

from tests.frontend.onnx.sketches import ALL
from tests.frontend.onnx.sweep import check
from tests.repeat import times

SEEDS = times(1, 20)


def test_what_is_drawn_equals_onnx_runtime(figure: Callable[[str], None]) -> None:
    counts = check(ALL, range(100, 100 + SEEDS))
    assert counts["refused"] < counts["equal"] // 10
    figure(f"attributes of ONNX's operators: {counts['equal']} equal, {counts['refused']} refused")


def test_more_of_what_is_drawn_equals_onnx_runtime() -> None:
    check(ALL, range(3))


def main(first: int, count: int) -> None:
    """Prints counts by operator."""
    for op_type, sketch in ALL.items():
        print(op_type, check({op_type: sketch}, range(first, first + count)), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
