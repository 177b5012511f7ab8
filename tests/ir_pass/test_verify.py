# SPDX-License-Identifier: Apache-2.0
"""ir_pass/verify.py: what is wrong is named, behind each of the two passes."""

from __future__ import annotations

from typing import Any

import pytest

from loadstone.errors import LoweringError
from loadstone.ir_pass.intrinsics import ALU_BINARY, Axis, BufferOperand, Intrinsic
from loadstone.ir_pass.verify import verify
from loadstone.relax.compat import tirx


def buffer(scope: str, name: str, dtype: str = "int8") -> Any:
    return tirx.decl_buffer((4, 16), dtype, name=name, scope=scope)


X, Y = buffer("global", "x"), buffer("global", "y")
INP, WGT = buffer("local.inp", "inp"), buffer("local.wgt", "wgt")
ACC, OTHER = buffer("local.acc", "acc", "int32"), buffer("local.acc", "other", "int32")
ON_CHIP = (INP, WGT, ACC, OTHER)


def function(*statements: Any, allocated: tuple[Any, ...] = ON_CHIP) -> Any:
    body = [*map(tirx.AllocBuffer, allocated), *statements]
    return tirx.PrimFunc([X, Y], tirx.stmt_seq(*body))


def call(name: str, *operands: Any, immediates: tuple[int, ...] = (), strides: int = -1) -> Any:
    """strides: of its axis; below 0: one for each operand."""
    axis = Axis(4, (16,) * (len(operands) if strides < 0 else strides))
    at = tuple(BufferOperand(operand, (0, 0)) for operand in operands)
    return Intrinsic(name, at, immediates, (axis,)).to_stmt()


def stored(target: Any, value: Any) -> Any:
    return tirx.BufferStore(target, value, [0, 0])


def loaded(source: Any) -> Any:
    return tirx.BufferLoad(source, [1, 0])


def refused(why: str, *statements: Any, stage: str = "compute", **more: Any) -> None:
    with pytest.raises(LoweringError, match=f"^verify after {stage}: {why}"):
        verify(function(*statements, **more), stage)


CALLS = (
    call("dma_copy", INP, X),
    call("dma_copy", ACC, Y),
    call("dma_copy", Y, ACC, immediates=(-5,)),
    call("gemm", ACC, INP, WGT),
    call("fill", ACC, immediates=(0,)),
    call("rq", ACC, OTHER, OTHER, OTHER),
    *(call(name, ACC, OTHER) for name in ALU_BINARY),
    *(call(name, ACC, immediates=(3,)) for name in ALU_BINARY),
)


@pytest.mark.parametrize("stage", ["dma_copy", "compute"])
def test_what_units_do_is_passed(stage: str) -> None:
    i = tirx.Var("i", "int32")
    loop = tirx.For(i, 0, 3, tirx.ForKind.SERIAL, tirx.stmt_seq(*CALLS))
    either = tirx.IfThenElse(i < 2, CALLS[0], CALLS[1])
    alone = tirx.IfThenElse(i < 2, CALLS[0], None)
    verify(function(*CALLS, loop, tirx.For(i, 0, 3, tirx.ForKind.SERIAL, either), alone), stage)


@pytest.mark.parametrize("stage", ["dma_copy", "compute"])
@pytest.mark.parametrize(
    ("statement", "why"),
    [
        (call("dma_copy", INP, WGT), r"dma_copy from local.wgt to local.inp: exactly one side"),
        (call("dma_copy", X, Y), r"dma_copy from global to global: exactly one side"),
        (call("gemm", ACC, WGT, INP), "gemm of operands in local.acc, local.wgt, local.inp"),
        (call("gemm", INP, INP, WGT), "gemm of operands in local.inp, local.inp, local.wgt"),
        (call("fill", INP), "fill of operands in local.inp"),
        (call("add", ACC, INP), "add of operands in local.acc, local.inp"),
        (call("rq", ACC, OTHER, OTHER, X), "rq of operands in .*, global"),
        # operands and strides
        (call("dma_copy", INP), "dma_copy has 1 operands"),
        (call("dma_copy", INP, X, X), "dma_copy has 3 operands"),
        (call("gemm", ACC, INP), "gemm has 2 operands"),
        (call("fill", immediates=(0,)), "fill has 0 operands"),
        (call("fill", ACC, OTHER), "fill has 2 operands"),
        (call("rq", ACC, OTHER, OTHER), "rq has 3 operands"),
        *((call(name), f"{name} has 0 operands") for name in ALU_BINARY),
        *((call(name, ACC, ACC, ACC), f"{name} has 3 operands") for name in ALU_BINARY),
        (call("add", ACC, OTHER, strides=1), r"add has 2 operands and axes of \[1\] strides"),
        (call("add", ACC, strides=0, immediates=(1,)), r"add has 1 operands and axes of \[0\]"),
    ],
)
def test_a_call_that_no_unit_does_is_named(statement: Any, why: str, stage: str) -> None:
    refused(why, statement, stage=stage)
    i = tirx.Var("i", "int32")
    refused(why, tirx.For(i, 0, 3, tirx.ForKind.SERIAL, statement), stage=stage)
    refused(why, CALLS[0], tirx.IfThenElse(i < 2, statement, None), stage=stage)
    refused(why, CALLS[0], tirx.IfThenElse(i < 2, CALLS[0], statement), stage=stage)


def test_every_axis_has_a_stride_for_each_operand() -> None:
    operands = (BufferOperand(ACC, (0, 0)), BufferOperand(OTHER, (0, 0)))
    for axes in ((Axis(4, (16, 16)), Axis(4, (1,))), (Axis(4, (1,)), Axis(4, (16, 16)))):
        refused("add has 2 operands and axes of", Intrinsic("add", operands, (), axes).to_stmt())


def test_a_store_is_left_behind_copies_alone_and_not_in_dram() -> None:
    arithmetic = stored(ACC, loaded(ACC) + loaded(OTHER))
    verify(function(arithmetic), "dma_copy")
    refused("a store is left that is no intrinsic call", arithmetic)
    for store, name in (
        (stored(X, loaded(INP)), "x"),
        (stored(INP, loaded(Y)), "y"),
        (stored(ACC, loaded(OTHER) + loaded(Y).astype("int32")), "y"),
    ):
        why = f"{name} is in DRAM and accessed without dma_copy"
        refused(why, store, stage="dma_copy")


@pytest.mark.parametrize("stage", ["dma_copy", "compute"])
def test_what_is_used_is_allocated(stage: str) -> None:
    add = call("add", ACC, OTHER)
    for left_out in (ACC, OTHER):
        others = tuple(each for each in ON_CHIP if each is not left_out)
        why = f"buffer {left_out.name} is used where it is not allocated"
        refused(why, add, stage=stage, allocated=others)
        refused(why, add, tirx.AllocBuffer(left_out), stage=stage, allocated=others)
        inner = tirx.stmt_seq(tirx.AllocBuffer(left_out), add)
        i = tirx.Var("i", "int32")
        loop = tirx.For(i, 0, 3, tirx.ForKind.SERIAL, inner)
        verify(function(loop, allocated=others), stage)
        refused(why, loop, add, stage=stage, allocated=others)
        refused(why, tirx.IfThenElse(i < 1, inner, add), stage=stage, allocated=others)
        refused(why, tirx.IfThenElse(i < 1, inner, inner), add, stage=stage, allocated=others)


def test_what_a_store_touches_is_allocated() -> None:
    for left_out in (ACC, OTHER):
        others = tuple(each for each in ON_CHIP if each is not left_out)
        why = f"buffer {left_out.name} is used where it is not allocated"
        store = stored(ACC, loaded(OTHER) + loaded(OTHER))
        refused(why, store, stage="dma_copy", allocated=others)


def test_another_statement_is_named() -> None:
    unknown = tirx.Evaluate(tirx.call_extern("int32", "memset", 0))
    for stage in ("dma_copy", "compute"):
        refused("a Evaluate is no loop, allocation, call or store", unknown, stage=stage)
