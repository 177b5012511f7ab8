# SPDX-License-Identifier: Apache-2.0
"""ir_pass/tvm_pass.py: TensorIR in, TensorIR out, for VTA-Q, for VTA, and for an accelerator from
outside the tree; the texts are in tests/golden/tvm_pass."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.errors import LoweringError
from loadstone.ir_pass.memory_table import MemoryTable
from loadstone.ir_pass.nest_text import parsed
from loadstone.ir_pass.pipeline import text_of_function
from loadstone.ir_pass.to_tir import prim_func
from loadstone.ir_pass.tvm_pass import InsertDmaCopy
from loadstone.relax.compat import parsed_tir, tirx_transform, tvm
from loadstone.selection.meanings import Meanings
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.kernels.memories import memory_table
from tests.ir_pass.test_from_tir import TABLE
from tests.passes.networks import TARGETS, plugins

GOLDEN = Path(__file__).parents[1] / "golden"


def table(target: str) -> MemoryTable:
    """The memories of a key of TARGETS."""
    if target == "systolic":
        accelerator = plugins().backends["systolic"](dim=8, tokens=1).accelerator
        assert accelerator is not None
        return Meanings(accelerator.table).memories
    return memory_table(load_config(TARGETS[target]))


def passed(text: str, target: str) -> str:
    """What the pass makes of a function's text."""
    module = tvm.IRModule({"main": parsed_tir(text)})
    return text_of_function(InsertDmaCopy(table(target))(module)["main"])


@pytest.mark.parametrize("target", TARGETS)
def test_text_in_text_out(target: str, update_golden: bool) -> None:
    """What goes in is the computation of the golden dump, as TensorIR."""
    before, after = (GOLDEN / "tvm_pass" / f"{target}.{side}.txt" for side in ("before", "after"))
    if update_golden:
        (computation,) = (GOLDEN / "passes" / target).glob("*-computation.conv.txt")
        function = parsed(computation.read_text(encoding="utf-8"))
        before.parent.mkdir(exist_ok=True)
        before.write_text(text_of_function(prim_func(function, table(target))), encoding="utf-8")
        after.write_text(passed(before.read_text(encoding="utf-8"), target), encoding="utf-8")
    text = passed(before.read_text(encoding="utf-8"), target)
    assert text == after.read_text(encoding="utf-8"), (
        f"{after.name} changed: read the difference, then run pytest with --update-golden"
    )


@pytest.mark.parametrize("target", TARGETS)
def test_what_has_its_copies_stays_and_tvms_passes_stand_beside_it(target: str) -> None:
    text = (GOLDEN / "tvm_pass" / f"{target}.after.txt").read_text(encoding="utf-8")
    assert passed(text, target) == text
    before = (GOLDEN / "tvm_pass" / f"{target}.before.txt").read_text(encoding="utf-8")
    module = tvm.IRModule({"main": parsed_tir(before).with_attr("mine", 7)})
    sequence = tvm.ir.transform.Sequential(
        [tirx_transform.StmtSimplify(), InsertDmaCopy(table(target))]
    )
    made = sequence(module)["main"]
    assert int(made.attrs["mine"]) == 7
    assert made.script().count("alloc_buffer") == text.count("alloc_buffer")


def test_an_error_comes_out_of_tvm_as_it_is() -> None:
    before = (GOLDEN / "tvm_pass" / "vtaq.before.txt").read_text(encoding="utf-8")
    with pytest.raises(LoweringError, match=r"ky // 2 .* is no sum of multiples of loops"):
        passed(before.replace("ky + i0 * 6 + i - 1", "ky // 2 + i0 * 6 + i - 1"), "vtaq")


def test_the_page_shows_what_the_pass_makes() -> None:
    """docs/lowering.md: the function, its TensorIR, and what the pass makes of it."""
    page = (GOLDEN.parents[1] / "docs" / "lowering.md").read_text(encoding="utf-8")
    blocks = [textwrap.dedent(block) for block in page.split("\n\n") if block.startswith("    ")]
    computation = next(block for block in blocks if block.startswith("func rows"))
    before, after = (f"{block}\n" for block in blocks if block.startswith("@T.prim_func"))
    written = text_of_function(prim_func(parsed(computation), TABLE))
    assert written.endswith(f"\n\n{before}")
    module = tvm.IRModule({"main": parsed_tir(written)})
    assert text_of_function(InsertDmaCopy(TABLE)(module)["main"]).endswith(f"\n\n{after}")
