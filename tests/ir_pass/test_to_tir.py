# SPDX-License-Identifier: Apache-2.0
"""ir_pass/to_tir.py: nests as TensorIR. Whole texts are in tests/golden/tvm_pass and
tests/golden/lowering; test_from_tir.py reads them back."""

from __future__ import annotations

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.ir_pass.memory_table import MemoryTable
from loadstone.ir_pass.nest_text import parsed
from loadstone.ir_pass.to_tir import tensor_ir
from loadstone.relax.compat import tirx
from tests.ir_pass.test_from_tir import SUM, TABLE, read, written


def test_a_module_is_well_formed_and_names_what_tensor_ir_has_no_word_for() -> None:
    module = tensor_ir(parsed(SUM), TABLE)
    assert tirx.analysis.verify_well_formed(module["main"])
    text = written(SUM)
    assert '["table w", "param x", "local acc", "param out"]' in text
    assert 'for t in T.serial(3, annotations={"lds.level": "kept"}):' in text
    assert 'with T.attr(1, "lds.group", 1):' in text


def test_steps_of_one_nest_are_a_chain_where_none_reads_what_another_made() -> None:
    text = """\
func chain:
  param a: int32[4] x1x16
  local acc: int32[4] x1x16
  local other: int32[4] x1x16
  param out: int8[4] x1x16
  fill(acc[i] | 5) for i<4
  max(acc[i] | 9); max(acc[i], a[i]) for i<4
  copy(out[i], acc[i]) for i<4
"""
    text = text.replace("  local other: int32[4] x1x16\n", "")
    assert written(text).count('T.call_pure_extern("int32", "lds.max", T.call_pure_extern(') == 1
    assert read(written(text)) == text
    squared = text.replace("max(acc[i], a[i])", "max(acc[i], acc[i])")
    apart = squared.replace("9); max", "9) for i<4\n  max")
    assert read(written(squared)) == apart


def test_rows_of_weights_are_a_loop_over_lanes() -> None:
    """As systolic arrays have them: a tile for each lane of the input."""
    table = MemoryTable(
        {"fill": ("sums",), "gemm": ("sums", "rows", "rows")},
        {"sums": 9, "rows": 99},
        {("gemm", 2): 4},
        result="sums",
    )
    text = """\
func dense:
  param x: int8[3] x1x4
  param w: int8[3, 4] x1x8
  local acc: int32[1] x1x8
  param out: int8[1] x1x8
  fill(acc[0] | 0)
  gemm(acc[0], x[n], w[n, 0]) for n<3
  copy(out[0], acc[0])
"""
    module = tensor_ir(parsed(text), table)
    assert "w[n, k, 0, lane]" in module["main"].script()
