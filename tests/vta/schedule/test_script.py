# SPDX-License-Identifier: Apache-2.0
"""vta/schedule/script.py: the text is TensorIR, and each block begins where the last one ended."""

from __future__ import annotations

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.relax.compat import parsed_tir
from loadstone.vta.schedule.epilogue import Immediate
from loadstone.vta.schedule.script import Multiply, block, chain_blocks, function_head


def test_a_chain_reads_as_a_function() -> None:
    steps = (Multiply(0, 0), Immediate("shr", 8), Multiply(0, 1))
    loops, taps = {"t0": 5, "b": 1, "l": 16}, {"k": 16}
    lines = [
        *function_head({"x": (5, 1, 16), "w": (2, 16, 16), "out": (5, 1, 16)}),
        *chain_blocks(
            steps,
            loops,
            taps,
            lambda step: (
                f'T.Cast("int32", x[v_t0, v_b, v_k]) * T.Cast("int32", w[{step.tile}, v_l, v_k])'
            ),
        ),
        *block("out", loops, {}),
        '            out[v_t0, v_b, v_l] = T.Cast("int8", acc2[v_t0, v_b, v_l])',
    ]
    text = str(parsed_tir("\n".join(lines) + "\n").script())
    assert "acc0[v_t0, v_b, v_l] = 0" in text
    assert '"lds.shr", acc0[v_t0, v_b, v_l], 8' in text
    assert "acc2[v_t0, v_b, v_l] = acc1[v_t0, v_b, v_l]" in text
