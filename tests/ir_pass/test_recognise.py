# SPDX-License-Identifier: Apache-2.0
"""recognise.py: the calls of a function's nests without their statements are those that the passes
write into it."""

from __future__ import annotations

from typing import Any

import pytest

from loadstone.errors import LoweringError
from loadstone.ir_pass.intrinsics import Intrinsic
from loadstone.ir_pass.recognise import recognised
from loadstone.ir_pass.translate import Translator
from loadstone.relax.compat import te, tirx
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.operators import lower_operator
from tests.ir_pass.test_pipeline import CASES, copy_in, lowered


class Words(Translator):
    """All that a call says."""

    def allocate(self, buffer: Any) -> str:
        return f"e.tile({str(buffer.name)!r})"

    def call(self, intrinsic: Intrinsic) -> str:
        operands = [
            (self.name(operand.buffer), *map(self.python, operand.indices))
            for operand in intrinsic.operands
        ]
        axes = [
            (axis.extent, axis.strides, *(self.python(x) for x in axis[2:] if x is not None))
            for axis in intrinsic.axes
            if axis.last is not None
        ]
        return f"e.{intrinsic.name}({operands}, {intrinsic.immediates}, {axes})"


@pytest.mark.parametrize("case", ["convolution", "addition"])
def test_the_calls_are_those_of_the_passes(case: str) -> None:
    make, device = CASES[case]
    (kernel,) = lower_operator(make(), load_config(device)).kernels
    functions = dict(kernel.functions())
    loops = functions["loops"]
    found = Words(loops, recognised(loops)).source()
    assert found.count("e.dma_copy") >= 3
    assert found == Words(functions["compute"]).source()


def test_a_buffer_that_another_takes_over_is_not_allocated() -> None:
    x, tile = copy_in(pad=False)
    same = te.compute((8, 16), lambda i, k: tile[i, k], name="same")
    out = te.compute((8, 16), lambda i, k: same[i, k], name="out")
    function = lowered(x, out, scopes={"tile": "local.acc", "same": "local.acc"})
    lines = Words(function, recognised(function)).source().splitlines()
    assert [line.split("(")[0].strip() for line in lines[1:]] == [
        "tile_local_acc = e.tile",
        "e.dma_copy",
        "e.dma_copy",
    ]
    assert "same" not in lines[-1]


def test_a_nest_that_touches_dram_is_named_so() -> None:
    x, tile = copy_in(pad=False)
    with pytest.raises(LoweringError, match="tile is in DRAM and accessed without dma_copy"):
        recognised(lowered(x, tile, scopes={}))


def test_a_sum_that_is_stored_in_dram_by_itself_is_named_so() -> None:
    x, tile = copy_in(pad=False)
    out = te.compute(
        (8, 16), lambda *at: tirx.call_pure_extern("int8", "lds.add", tile[at], 3), name="out"
    )
    with pytest.raises(LoweringError, match="out is in DRAM and accessed without dma_copy"):
        recognised(lowered(x, out, scopes={"tile": "local.acc"}))


def test_a_nest_whose_buffer_takes_anothers_place_is_recognised_anew() -> None:
    x, tile = copy_in(pad=False)
    same = te.compute((8, 16), lambda i, k: tile[i, k], name="same")
    out = te.compute((8, 16), lambda i, k: same[i, k], name="out")
    function = lowered(x, out, scopes={"tile": "local.acc", "same": "local.acc"})
    first, second = (Words(function, recognised(function)).source() for _ in range(2))
    assert first == second
