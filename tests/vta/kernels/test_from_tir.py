# SPDX-License-Identifier: Apache-2.0
"""vta/kernels/from_tir.py: TensorIR of intrinsic calls, or of a schedule by TVM's own primitives,
as operations; and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.errors import LoweringError
from loadstone.ir_pass.intrinsics import Axis, Intrinsic
from loadstone.ir_pass.intrinsics import BufferOperand as Operand
from loadstone.relax.compat import s_tir, te, tirx, tvm
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.spec import AluOp, Memory
from loadstone.vta.kernels.emitter import Emitter
from loadstone.vta.kernels.from_tir import lower
from loadstone.vta.stream.operations import (
    Access,
    AluNest,
    DramTile,
    FillNest,
    GemmNest,
    Operation,
    RequantizeNest,
    TileLoad,
    TileStore,
)
from tests.vta.stream.meaning import execute

CONFIG = load_config("vtaq-1x16x16")
LANES = (Axis(16, (1, 1)),)


def buffer(name: str, tiles: int, scope: str, dtype: str = "int8", block: int = 1) -> Any:
    return tirx.decl_buffer((tiles, block, 16), dtype, name=name, scope=scope)


def operations(*calls: Intrinsic, turns: int = 1, turn: Any = None) -> list[Operation]:
    """Of calls on buffers that are allocated in front of them, in a loop."""
    buffers = {operand.buffer: None for call in calls for operand in call.operands}
    parameters = [each for each in buffers if each.scope() == "global"]
    rooms = [tirx.AllocBuffer(each) for each in buffers if each not in parameters]
    body = tirx.stmt_seq(*rooms, *(call.to_stmt() for call in calls))
    variable = tirx.Var("t", "int32") if turn is None else turn
    loop = tirx.For(variable, 0, turns, tirx.ForKind.SERIAL, body)
    function = tirx.PrimFunc(parameters, loop).with_attr("global_symbol", "main")
    kernel = lower(tvm.IRModule({"main": function}))
    assert kernel.parameters == tuple(str(each.name) for each in parameters)
    emitter = Emitter(CONFIG, {})
    kernel.emit(emitter, *(DramTile(name, 100) for name in kernel.parameters))
    return emitter.operations


def alu(
    name: str, *, immediates: tuple[int, ...] = (), first: Any = 0, last: Any = None
) -> Intrinsic:
    acc, other = buffer("acc", 8, "local.acc", "int32"), buffer("other", 8, "local.acc", "int32")
    operands = [
        Operand(acc, (first, 0, 0)),
        *([] if immediates else [Operand(other, (1, 0, 0))]),
    ]
    count = len(operands)
    axes = (Axis(4, (16,) * count, 0, last), Axis(16, (1,) * count))
    return Intrinsic(name, tuple(operands), immediates, axes)


def test_lanes_are_taken_off_and_strides_count_tiles() -> None:
    for name, op in (("add", AluOp.ADD), ("shr", AluOp.SHR), ("max", AluOp.MAX)):
        (found,) = operations(alu(name))
        assert isinstance(found, AluNest)
        acc, other = found.dst.tile, found.src.tile if found.src else None
        assert found == AluNest(op, (4,), Access(acc, 0, (1,)), Access(other, 1, (1,)))  # type: ignore[arg-type]
        assert (acc.memory, acc.size_tiles, acc.name) == (Memory.ACC, 8, "acc")
    (found,) = operations(alu("mul", immediates=(7,), first=2))
    assert isinstance(found, AluNest)
    assert found == AluNest(AluOp.MUL, (4,), Access(found.dst.tile, 2, (1,)), None, 7)


def test_a_loop_is_unrolled_and_each_turn_has_lives_of_its_own() -> None:
    turn = tirx.Var("t", "int32")
    found = operations(alu("mul", immediates=(7,), first=turn, last=4 - turn), turns=3, turn=turn)
    nests = [each for each in found if isinstance(each, AluNest)]
    assert [(nest.dst.base, nest.extents) for nest in nests] == [(0, (4,)), (1, (3,)), (2, (2,))]
    assert len({id(nest.dst.tile) for nest in nests}) == 3


def test_a_gemm_has_its_lanes_in_three_axes() -> None:
    acc = buffer("acc", 8, "local.acc", "int32")
    inp, wgt = buffer("inp", 8, "local.inp"), buffer("wgt", 8, "local.wgt", block=16)
    operands = tuple(Operand(b, (0, 0, 0)) for b in (acc, inp, wgt))
    lanes = (Axis(16, (1, 0, 16)), Axis(16, (0, 1, 1)))
    (found,) = operations(Intrinsic("gemm", operands, (), (Axis(3, (16, 32, 0)), *lanes)))
    assert isinstance(found, GemmNest)
    assert found.extents == (3,)
    accesses = [(a.base, a.strides) for a in (found.dst, found.src, found.wgt)]
    assert accesses == [(0, (1,)), (0, (2,)), (0, (0,))]
    with pytest.raises(
        LoweringError, match=r"gemm of acc runs over lanes \[\(16, 1, 0, 16\)\], not"
    ):
        operations(Intrinsic("gemm", operands, (), lanes[:1]))


def test_int8_into_accumulators_is_a_load_that_extends_the_sign() -> None:
    for dtype, memory in (("int8", Memory.ACC_8BIT), ("int32", Memory.ACC)):
        acc, x = buffer("acc", 8, "local.acc", "int32"), buffer("x", 9, "global", dtype)
        places = (Operand(acc, (2, 0, 0)), Operand(x, (5, 0, 0)))
        (found,) = operations(Intrinsic("dma_copy", places, (0,), (Axis(4, (16, 16)), *LANES)))
        assert isinstance(found, TileLoad)
        assert found == TileLoad(memory, found.tile, 2, DramTile("x", 105), 1, 4, 4)


def test_a_copy_has_pads_and_a_store_goes_the_other_way() -> None:
    inp, x = buffer("inp", 9, "local.inp"), buffer("x", 9, "global")
    places = Operand(inp, (0, 0, 0)), Operand(x, (0, 0, 0))
    loop = Axis(6, (16, 16), 0, 6, 1, 5)
    (found,) = operations(Intrinsic("dma_copy", places, (-3,), (loop, *LANES)))
    assert isinstance(found, TileLoad)
    assert (found.x_size, found.x_pad_0, found.x_pad_1, found.pad_value) == (4, 1, 1, -3)
    acc = buffer("acc", 8, "local.acc", "int32")
    places = Operand(x, (3, 0, 0)), Operand(acc, (1, 0, 0))
    (stored,) = operations(Intrinsic("dma_copy", places, (0,), (Axis(4, (16, 16)), *LANES)))
    assert isinstance(stored, TileStore)
    assert stored == TileStore(stored.tile, 1, DramTile("x", 103), 1, 4, 4)


def test_what_no_instruction_does_is_named() -> None:
    with pytest.raises(LoweringError, match="no ALU operation sub"):
        operations(alu("sub"))
    acc = buffer("acc", 8, "local.acc", "int32")
    inside = Intrinsic("fill", (Operand(acc, (0, 0, 3)),), (0,), (Axis(16, (1,)),))
    with pytest.raises(LoweringError, match="acc is accessed within a tile, at lane 3"):
        operations(inside)
    part = Intrinsic("fill", (Operand(acc, (0, 0, 0)),), (0,), (Axis(16, (1,), 0, 9),))
    with pytest.raises(LoweringError, match="fill of acc takes a part of the lanes"):
        operations(part)
    odd, x = buffer("odd", 8, "local.odd"), buffer("x", 9, "global")
    places = Operand(odd, (0, 0, 0)), Operand(x, (0, 0, 0))
    with pytest.raises(LoweringError, match=r"odd has scope 'local.odd', not one of local.inp"):
        operations(Intrinsic("dma_copy", places, (0,), LANES))


def test_operands_of_a_requantization_stand_side_by_side() -> None:
    acc, rows = buffer("acc", 8, "local.acc", "int32"), buffer("p", 9, "local.acc", "int32")

    def call(third: int) -> Intrinsic:
        operands = (
            Operand(acc, (0, 0, 0)),
            *(Operand(rows, (n, 0, 0)) for n in (3, 4, third)),
        )
        axes = (Axis(4, (16, 0, 0, 0)), Axis(16, (1, 1, 1, 1)))
        return Intrinsic("rq", operands, (5, -128, 127, 0), axes)

    (found,) = operations(call(5))
    assert isinstance(found, RequantizeNest)
    assert (found.dst.base, found.dst.strides) == (0, (1,))
    assert (found.operands.base, found.operands.strides) == (3, (0,))
    assert (found.zero_point, found.low, found.high) == (5, -128, 127)
    with pytest.raises(LoweringError, match="do not stand in consecutive tiles"):
        operations(call(6))


def test_a_schedule_by_tvms_own_primitives_compiles() -> None:
    """max(x * w, 0) of ten tiles, four at a time, the last of which hang over: blocks, cache_read
    and compute_at, behind TVM's own passes."""
    x = te.placeholder((10, 1, 16), "int8", name="x")
    w = te.placeholder((1, 16, 16), "int8", name="w")
    k = te.reduce_axis((0, 16), "k")
    acc = te.compute(
        (10, 1, 16),
        lambda i, b, lane: te.sum(
            x[i, b, k].astype("int32") * w[0, lane, k].astype("int32"), axis=[k]
        ),
        name="acc",
    )
    tail = te.compute(
        acc.shape,
        lambda *at: tirx.call_pure_extern("int32", "lds.max", acc[at], 0),
        name="tail",
    )
    out = te.compute(acc.shape, lambda *at: tail[at].astype("int8"), name="out")
    s = s_tir.Schedule(tvm.IRModule({"main": te.create_prim_func([x, w, out])}))
    i, _, _ = s.get_loops(s.get_sblock("out"))
    outer, _ = s.split(i, [None, 4])
    for name in ("tail", "acc"):
        s.set_scope(s.get_sblock(name), 0, "local.acc")
        s.compute_at(s.get_sblock(name), outer)
    inputs = s.cache_read(s.get_sblock("acc"), 0, "local.inp")
    s.compute_at(inputs, outer)
    s.cache_read(s.get_sblock("acc"), 1, "local.wgt")
    s.decompose_reduction(s.get_sblock("acc"), s.get_loops(s.get_sblock("acc"))[1])
    kernel = lower(s.mod)
    emitter = Emitter(CONFIG, {})
    kernel.emit(emitter, *(DramTile(name, 0) for name in kernel.parameters))
    assert [type(each) for each in emitter.operations].count(FillNest) == 3
    assert [each.x_size for each in emitter.operations if isinstance(each, TileStore)] == [4, 4, 2]
    rng = np.random.default_rng(1)
    pixels = rng.integers(-3, 4, (10, 1, 16)).astype(np.int8)
    weights = rng.integers(-2, 3, (1, 16, 16)).astype(np.int8)
    dram = {"x": pixels, "w": weights, "out": np.full((10, 1, 16), 99, np.int8)}
    execute(emitter.operations, dram, CONFIG)
    wanted = np.maximum(np.einsum("ibk,lk->ibl", pixels.astype(int), weights[0].astype(int)), 0)
    np.testing.assert_array_equal(dram["out"], wanted)
