# SPDX-License-Identifier: Apache-2.0
"""from_tir.py: TensorIR of intrinsic calls -> the words of the emitter, and what is refused. The
Python of whole operators stands in tests/golden/lowering (tests/ir_pass/test_pipeline.py)."""

from __future__ import annotations

from typing import Any

import pytest

from loadstone.errors import LoweringError
from loadstone.ir_pass.intrinsics import Axis, Intrinsic
from loadstone.ir_pass.intrinsics import BufferOperand as Operand
from loadstone.relax.compat import tirx
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.spec import AluOp, Memory
from loadstone.vta.kernels.emitter import Emitter
from loadstone.vta.kernels.from_tir import _Translator, kernel_of
from loadstone.vta.stream.operations import (
    Access,
    AluNest,
    DramTile,
    FillNest,
    GemmNest,
    TileLoad,
    TileStore,
)

SCOPES = {Memory.INP: "local.inp", Memory.WGT: "local.wgt", Memory.ACC: "local.acc"}
LANES = (Axis(16, (1, 1)),)


def buffer(name: str, tiles: int, scope: str, dtype: str = "int8", block: int = 1) -> Any:
    return tirx.decl_buffer((tiles, block, 16), dtype, name=name, scope=scope)


def python_of(call: Intrinsic) -> str:
    """One call in the emitter's words."""
    function = tirx.PrimFunc([], tirx.Evaluate(0))
    return _Translator(function).call(call)


def run(text: str, **names: Any) -> list[Any]:
    """What the emitter appends."""
    emitter = Emitter(load_config("vtaq-1x16x16"), {})
    exec(text, {"e": emitter, "Memory": Memory, "AluOp": AluOp, **names})
    return list(emitter.operations)


def alu(name: str, *, immediates: tuple[int, ...] = (), first: Any = 0) -> Intrinsic:
    acc, other = buffer("acc", 8, "local.acc", "int32"), buffer("other", 8, "local.acc", "int32")
    operands = [
        Operand(acc, (first, 0, 0)),
        *([] if immediates else [Operand(other, (1, 0, 0))]),
    ]
    count = len(operands)
    axes = (Axis(4, (16,) * count), Axis(16, (1,) * count))
    return Intrinsic(name, tuple(operands), immediates, axes)


def test_lanes_are_taken_off_and_strides_count_tiles() -> None:
    from loadstone.vta.stream.operations import VirtualTile

    acc, other = VirtualTile(Memory.ACC, 8, "acc"), VirtualTile(Memory.ACC, 8, "other")
    for name, op in (("add", AluOp.ADD), ("shr", AluOp.SHR), ("max", AluOp.MAX)):
        (found,) = run(python_of(alu(name)), acc=acc, other=other)
        assert found == AluNest(op, (4,), Access(acc, 0, (1,)), Access(other, 1, (1,)))
    (found,) = run(python_of(alu("mul", immediates=(7,), first=2)), acc=acc)
    assert found == AluNest(AluOp.MUL, (4,), Access(acc, 2, (1,)), None, 7)


def test_a_gemm_has_its_lanes_in_three_axes() -> None:
    from loadstone.vta.stream.operations import VirtualTile

    acc = buffer("acc", 8, "local.acc", "int32")
    inp, wgt = buffer("inp", 8, "local.inp"), buffer("wgt", 8, "local.wgt", block=16)
    operands = tuple(Operand(b, (0, 0, 0)) for b in (acc, inp, wgt))
    lanes = (Axis(16, (1, 0, 16)), Axis(16, (0, 1, 1)))
    call = Intrinsic("gemm", operands, (), (Axis(3, (16, 32, 0)), *lanes))
    tiles = {n: VirtualTile(m, 8, n) for n, m in (("acc", Memory.ACC), ("inp", Memory.INP))}
    tiles["wgt"] = VirtualTile(Memory.WGT, 8, "wgt")
    (found,) = run(python_of(call), **tiles)
    accesses = [Access(tiles[n], 0, (s,)) for n, s in (("acc", 1), ("inp", 2), ("wgt", 0))]
    assert found == GemmNest((3,), *accesses)
    with pytest.raises(LoweringError, match="runs over lanes"):
        python_of(Intrinsic("gemm", operands, (), lanes[:1]))


def test_int8_into_accumulators_is_a_load_that_extends_the_sign() -> None:
    from loadstone.vta.stream.operations import VirtualTile

    tile = VirtualTile(Memory.ACC, 8, "acc")
    for dtype, memory in (("int8", Memory.ACC_8BIT), ("int32", Memory.ACC)):
        acc, x = buffer("acc", 8, "local.acc", "int32"), buffer("x", 9, "global", dtype)
        operands = (Operand(acc, (2, 0, 0)), Operand(x, (5, 0, 0)))
        call = Intrinsic("dma_copy", operands, (0,), (Axis(4, (16, 16)), *LANES))
        (found,) = run(python_of(call), acc=tile, x=DramTile("x", 100))
        assert found == TileLoad(memory, tile, 2, DramTile("x", 105), 1, 4, 4)


def test_what_no_instruction_does_is_named() -> None:
    with pytest.raises(LoweringError, match="no ALU operation divide"):
        python_of(alu("divide"))
    acc = buffer("acc", 8, "local.acc", "int32")
    inside = Intrinsic("fill", (Operand(acc, (0, 0, 3)),), (0,), (Axis(16, (1,)),))
    with pytest.raises(LoweringError, match="acc is accessed within a tile"):
        python_of(inside)
    odd, x = buffer("odd", 8, "local.odd"), buffer("x", 9, "global")
    copy = Intrinsic(
        "dma_copy",
        (Operand(odd, (0, 0, 0)), Operand(x, (0, 0, 0))),
        (0,),
        (Axis(16, (1, 1)),),
    )
    with pytest.raises(LoweringError, match=r"odd has scope 'local.odd', not one of local.inp"):
        python_of(copy)


def test_operands_of_a_requantization_stand_side_by_side() -> None:
    acc, rows = buffer("acc", 8, "local.acc", "int32"), buffer("p", 9, "local.acc", "int32")

    def call(third: int) -> Intrinsic:
        operands = (
            Operand(acc, (0, 0, 0)),
            *(Operand(rows, (n, 0, 0)) for n in (3, 4, third)),
        )
        axes = (Axis(4, (16, 0, 0, 0)), Axis(16, (1, 1, 1, 1)))
        return Intrinsic("rq", operands, (5, -128, 127, 0), axes)

    text = "e.requantize((acc, 0), (p, 3), (5, -128, 127, 0), ((4, 0, 4, 1, 0),))"
    assert python_of(call(5)) == text
    with pytest.raises(LoweringError, match="do not stand in consecutive tiles"):
        python_of(call(6))


def test_a_kernel_does_what_its_source_says() -> None:
    source = """\
def emit(e, out):
    for i in range(2):
        acc = e.tile(Memory.ACC, 8, 'acc')
        e.fill((acc, 0), i, ((4, 0, 4, 2), (2, 0, 2, 1)))
        e.fill((acc, 1), -3, ((4, 0, 4-i, 2),))
        e.store((acc, 0), (out, i*8), ((8, 0, 8, 0, 8, 1, 1),))
"""
    kernel = kernel_of(("out",), source, lambda: ())
    assert kernel.source == source
    emitter = Emitter(load_config("vtaq-1x16x16"), {})
    kernel.emit(emitter, DramTile("out", 100))
    tiles = [operation.tile for operation in emitter.operations[2::3]]
    assert emitter.operations == [
        operation
        for number, tile in enumerate(tiles)
        for operation in (
            FillNest((8,), Access(tile, 0, (1,)), number),
            FillNest((4 - number,), Access(tile, 1, (2,)), -3),
            TileStore(tile, 0, DramTile("out", 100 + 8 * number), 1, 8, 8),
        )
    ]
