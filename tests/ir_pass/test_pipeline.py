# SPDX-License-Identifier: Apache-2.0
"""ir_pass: nests become intrinsic calls, and what is none is named; the text of every stage is in
tests/golden/lowering."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from loadstone import graph as g
from loadstone.errors import LoweringError
from loadstone.ir_pass.compute import insert_compute
from loadstone.ir_pass.dma_copy import recognise_dma_copy
from loadstone.ir_pass.intrinsics import Axis, BufferOperand, Intrinsic, read_intrinsic
from loadstone.ir_pass.nest_text import parsed
from loadstone.ir_pass.pipeline import lower_to_calls
from loadstone.numerics import Rounding
from loadstone.passes.log import PassLog, PassRun
from loadstone.relax.compat import te, tirx, tvm
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.operators import lower_operator
from loadstone.vta.schedule.nest_tir import module
from tests import lowered as lo

GOLDEN = Path(__file__).parents[1] / "golden" / "lowering"
STAGES = ("computation", "insert_dma_copy", "loops", "dma_copy", "compute")


def convolution(channels: int, groups: int, strides: int, size: tuple[int, int]) -> g.Conv2D:
    """3x3 on 16x16 pixels, padded by one, 32 output channels."""
    import numpy as np

    return g.Conv2D(
        name="conv",
        inputs=(lo.tensor("x", (1, 16, 16, channels), zero_point=-5),),
        outputs=(lo.tensor("y", (1, *size, 32), zero_point=3),),
        weights=np.ones((32, 3, 3, channels // groups), np.int8),
        weight_scales=np.full(32, 0.003, np.float32),
        weight_zero_points=np.zeros(32, np.int32),
        bias=np.zeros(32, np.int32),
        low=-128,
        high=127,
        rounding=Rounding.DOUBLE,
        strides=(strides, strides),
        dilation=(1, 1),
        padding=(1, 1, 1, 1),
        groups=groups,
    )


def addition() -> g.Add:
    a, b, y = (
        lo.tensor(name, (1, 7, 5, 20), scale, 4)
        for name, scale in (("a", 0.031), ("b", 0.047), ("y", 0.052))
    )
    return g.Add(
        name="add", inputs=(a, b), outputs=(y,), low=-128, high=127, rounding=Rounding.DOUBLE
    )


CASES: dict[str, tuple[Callable[[], g.Operator], str]] = {
    "convolution": (lambda: convolution(32, 1, 1, (16, 16)), "vtaq-1x16x16"),
    "depthwise": (lambda: convolution(32, 32, 2, (8, 8)), "vtaq-4x16x16"),
    "addition": (addition, "vtaq-1x16x16"),
}


def text_behind(name: str, runs: Sequence[PassRun]) -> str:
    (run,) = (run for run in runs if run.name == name)
    assert run.text is not None
    return run.text()


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("case", CASES)
def test_the_text_of_a_stage_is_the_golden_one(case: str, stage: str, update_golden: bool) -> None:
    make, device = CASES[case]
    config = load_config(device)
    op = make()
    if config.batch > 1:
        op = lo.for_samples(op, config.batch)
    runs = lower_operator(op, config).runs(op.name)
    log = PassLog(
        texts=True
    )  # nests as TensorIR, for the passes of a back end and for the verifier
    lower_to_calls(module(parsed(text_behind("insert_dma_copy", runs))), log=log)
    text = text_behind(stage, [*runs, *log.runs])
    path = GOLDEN / f"{case}.{stage}.txt"
    if update_golden:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert text == path.read_text(), (
        f"{path.name} changed: read the difference, then run pytest with --update-golden"
    )


# --------------------------------------------------------------------------------------------------
# Intrinsics
# --------------------------------------------------------------------------------------------------


def buffer(shape: tuple[int, ...], dtype: str, scope: str, name: str) -> Any:
    return tirx.decl_buffer(shape, dtype, name=name, scope=scope)


def test_an_intrinsic_reads_back_as_it_was_built() -> None:
    i = tirx.Var("i", "int32")
    source, target = (
        buffer((8, 16), "int8", "global", "x"),
        buffer((4, 16), "int8", "local.inp", "tile"),
    )
    axes = (Axis(4, (16, 16), 0, tirx.min(4, 9 - i), tirx.max(0, 1 - i), 4), Axis(16, (1, 1)))
    call = Intrinsic(
        "dma_copy", (BufferOperand(target, (0, 0)), BufferOperand(source, (i - 1, 0))), (-5,), axes
    )
    back = read_intrinsic(call.to_stmt())
    assert (back.name, back.immediates) == ("dma_copy", (-5,))
    assert [operand.scope for operand in back.operands] == ["local.inp", "global"]
    assert [(axis.extent, axis.strides) for axis in back.axes] == [(4, (16, 16)), (16, (1, 1))]
    assert str(back.to_stmt()) == str(call.to_stmt())


def test_a_statement_that_is_no_intrinsic_is_refused() -> None:
    with pytest.raises(LoweringError, match="not an intrinsic call"):
        read_intrinsic(tirx.Evaluate(0))


# --------------------------------------------------------------------------------------------------
# Nests
# --------------------------------------------------------------------------------------------------


def lowered(*tensors: Any, scopes: dict[str, str]) -> Any:
    """A PrimFunc of loops over the tensors' buffers, with the scopes of the intermediate ones
    set."""
    from loadstone.ir_pass.pipeline import TO_LOOPS
    from loadstone.relax.compat import s_tir

    s = s_tir.Schedule(tvm.IRModule({"main": te.create_prim_func(list(tensors))}))
    for name, scope in scopes.items():
        s.set_scope(s.get_sblock(name), 0, scope)
    module = s.mod
    for make_pass in TO_LOOPS:
        module = make_pass()(module)
    return module["main"]


def copy_in(pad: bool) -> tuple[Any, Any]:
    x = te.placeholder((8, 16), "int8", name="x")
    if not pad:
        return x, te.compute((8, 16), lambda i, k: x[i, k], name="tile")
    inside = lambda i: tirx.all(i >= 1, i < 9)  # noqa: E731
    return x, te.compute(
        (10, 16),
        lambda i, k: tirx.if_then_else(inside(i), x[i - 1, k], tirx.IntImm("int8", -5)),
        name="tile",
    )


def test_bounds_of_a_padded_copy_become_its_inside() -> None:
    x, tile = copy_in(pad=True)
    out = te.compute((10, 16), lambda i, k: tile[i, k], name="out")
    text = str(recognise_dma_copy(lowered(x, out, scopes={"tile": "local.inp"})).script())
    assert '"axis", 10, 16, 16, 0, 10, 1, 9)' in text
    assert "-5" in text


def test_arithmetic_that_no_instruction_does_is_named() -> None:
    x, tile = copy_in(pad=False)
    wide = te.compute((8, 16), lambda i, k: tile[i, k].astype("int32"), name="wide")
    square = te.compute((8, 16), lambda i, k: wide[i, k] * wide[i, k], name="square")
    out = te.compute((8, 16), lambda i, k: square[i, k].astype("int8"), name="out")
    scopes = {"tile": "local.acc", "wide": "local.acc", "square": "local.acc"}
    with pytest.raises(LoweringError, match="compute: no instruction does"):
        insert_compute(recognise_dma_copy(lowered(x, out, scopes=scopes)))


def test_a_bound_on_two_loops_at_once_is_named() -> None:
    x = te.placeholder((8, 8, 16), "int8", name="x")
    corner = te.compute(
        (8, 8, 16),
        lambda i, j, k: tirx.if_then_else(i + j < 8, x[i, j, k], tirx.IntImm("int8", 0)),
        name="tile",
    )
    out = te.compute((8, 8, 16), lambda i, j, k: corner[i, j, k], name="out")
    with pytest.raises(LoweringError, match="bounds more than one loop"):
        recognise_dma_copy(lowered(x, out, scopes={"tile": "local.inp"}))
