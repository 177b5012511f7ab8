# SPDX-License-Identifier: Apache-2.0
"""vta/kernels/from_nests.py: the operations of a function do what its nests say, and those of the
function that is read from its TensorIR are the same."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.errors import LoweringError
from loadstone.ir_pass.from_tir import nests_of
from loadstone.ir_pass.insert_dma_copy import insert_dma_copy
from loadstone.ir_pass.nests import (
    Function,
    NestAllocation,
    NestLoops,
    NestStep,
    NestTensor,
)
from loadstone.ir_pass.to_tir import prim_func
from loadstone.ir_pass.verify_dma_copy import verify_dma_copy
from loadstone.numerics import Rounding
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.kernels.emitter import Emitter
from loadstone.vta.kernels.from_nests import kernel_of_nests
from loadstone.vta.kernels.kernel import Kernel
from loadstone.vta.kernels.memories import memory_table
from loadstone.vta.kernels.verify import verify_kernel
from loadstone.vta.schedule import chain, conv, elementwise, rescaled, window
from loadstone.vta.schedule.accumulators import Multiply
from loadstone.vta.schedule.chain import ChainSpec
from loadstone.vta.schedule.conv_spec import ConvSpec, Edge
from loadstone.vta.schedule.elementwise import SUM, ElementStep, ElementwiseSpec, Input
from loadstone.vta.schedule.epilogue import (
    ConstantProduct,
    Immediate,
    RowOperand,
    Rq,
    Step,
    TieCorrection,
)
from loadstone.vta.schedule.rescaled_spec import (
    ChainShape,
    LevelShape,
    RescaledSpec,
    StairShape,
    Window,
)
from loadstone.vta.schedule.window import WindowSpec
from loadstone.vta.stream.operations import Access, DramTile, Operation, RequantizeNest, VirtualTile
from tests.repeat import times
from tests.vta.passes.hand_lowered import NEST_DEVICES, compare_golden, nest_program

CONFIG = load_config("vta-pynq")
STEPS = (Multiply(0, 0), Multiply(1, 1), Immediate("shr", 8), Multiply(0, 2), Immediate("max", -9))
quick = settings(
    max_examples=times(12, 400),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
)


@pytest.mark.parametrize("device", NEST_DEVICES)
def test_text_in_text_out(device: str, update_golden: bool) -> None:
    compare_golden("operations", nest_program(device).text(), update_golden, device)


def described(kernel: Kernel) -> list[Any]:
    """All that its operations say, with a number for each life of a tile."""
    emitter = Emitter({})
    kernel.emit(emitter, *(DramTile(name, 10_000) for name in kernel.parameters))
    lives: dict[int, tuple[Any, ...]] = {}

    def part(value: Any) -> Any:
        if isinstance(value, VirtualTile):
            return lives.setdefault(
                id(value), (len(lives), value.memory, value.size_tiles, value.name)
            )
        if isinstance(value, Access):
            return (part(value.tile), value.base, value.strides)
        return value

    def whole(operation: Operation) -> Any:
        return type(operation), [part(getattr(operation, f.name)) for f in fields(operation)]

    return [kernel.parameters, emitter.pad_values, *map(whole, emitter.operations)]


def same(computation: Function) -> None:
    """With its copies, which are verified on the way."""
    table = memory_table(CONFIG)
    function = insert_dma_copy(computation, table)
    verify_dma_copy(computation, function, table)
    kernel = kernel_of_nests(function, CONFIG)
    verify_kernel(kernel, function)
    other = kernel_of_nests(nests_of(prim_func(function, table), table), CONFIG)
    found = described(kernel)
    assert len(found) > 5
    assert found == described(other)


@st.composite
def windows(draw: Any) -> Window:
    def pair(low: int, high: int) -> Any:
        return draw(st.tuples(st.integers(low, high), st.integers(low, high)))

    output, kernel, strides, dilation = pair(1, 6), pair(1, 3), pair(1, 2), pair(1, 2)
    padding = pair(0, 1)
    size = tuple(
        max(1, (o - 1) * s + (k - 1) * d + 1 - p - draw(st.integers(0, p)))
        for o, k, s, d, p in zip(output, kernel, strides, dilation, padding, strict=True)
    )
    blocks, parts = draw(st.integers(1, 5)), draw(st.integers(1, 2))
    pad = draw(st.integers(-4, 4))
    return Window(blocks, parts, size, output, kernel, strides, dilation, padding, pad)  # type: ignore[arg-type]


@st.composite
def rescaled_specs(draw: Any) -> RescaledSpec:
    own, blocks = draw(windows()), draw(st.integers(1, 2))
    height, width = own.output
    columns = draw(st.sampled_from([n for n in range(1, width + 1) if width % n == 0]))
    rows = draw(st.integers(1, height)) if columns == width else 1
    digits = draw(st.integers(2, 3))
    runs = st.integers(0, digits - 1).map(lambda first: (first, digits - first))
    levels = st.builds(LevelShape, st.integers(0, 8), st.tuples(runs), st.integers(0, 2))
    bound = st.none() | st.integers(-9, 9)
    shifts = st.tuples(st.integers(0, 9), st.integers(0, 9))
    stairs = st.builds(
        StairShape, st.integers(0, 2), st.booleans(), shifts, st.integers(0, 2), bound, bound
    )
    shape = ChainShape(
        tuple(draw(st.lists(levels, min_size=1, max_size=2))),
        draw(st.none() | st.integers(0, 9)),
        -128,
        draw(st.integers(0, 127)),
        tuple(draw(st.lists(levels, max_size=2))),
        tuple(draw(st.lists(stairs, max_size=3))),
    )
    return RescaledSpec(
        window=own,
        blocks=blocks,
        own_input=draw(st.booleans()),
        tile=(rows, columns, draw(st.integers(1, own.in_blocks))),
        bias=draw(st.integers(0, 2)),
        left=draw(st.integers(-2, 2)),
        right=draw(st.booleans()),
        digits=digits,
        clamped=draw(st.booleans()),
        signed=draw(st.booleans()),
        chain=shape,
        multipliers=draw(st.sampled_from([1, blocks])),
    )


@given(rescaled_specs())
@quick
def test_rescaled_convolutions_do_what_their_nests_say(spec: RescaledSpec) -> None:
    same(rescaled.schedule(spec, CONFIG))


@given(st.lists(st.integers(1, 9), min_size=1, max_size=3), st.data())
@quick
def test_chains_do_what_their_nests_say(extents: list[int], data: Any) -> None:
    moves = [tuple(data.draw(st.booleans()) for _ in extents) for _ in range(2)]
    sizes = tuple(data.draw(st.integers(1, extent)) for extent in extents)
    same(chain.schedule(ChainSpec(tuple(extents), tuple(moves), STEPS, sizes), CONFIG))


@given(windows(), st.integers(1, 3))
@quick
def test_sums_over_windows_do_what_their_nests_say(own: Window, blocks: int) -> None:
    assume(own.dilation == (1, 1))
    steps = (Multiply(0, 0), Immediate("shr", 8), Multiply(0, 1))
    places = (own.input, own.output, own.kernel, own.strides, own.padding, (0, 0), own.output)
    same(window.schedule(WindowSpec(blocks, *places, steps), CONFIG))


TAILS: tuple[tuple[Step, ...], ...] = (
    (Rq(3, -128, 127, Rounding.DOUBLE), Immediate("max", 0)),
    (ConstantProduct(0), RowOperand("shr", 1), Immediate("min", 9)),
    (TieCorrection((ConstantProduct(1), Immediate("shr", 3)), (Immediate("shr", 2),)),),
    (Immediate("add", 4), TieCorrection((RowOperand("add", 0),)), ConstantProduct(0)),
)


@st.composite
def convolutions(draw: Any) -> ConvSpec:
    own = draw(windows())
    assume(all(pad < kernel for pad, kernel in zip(own.padding, own.kernel, strict=True)))
    sizes = draw(st.tuples(*(st.integers(1, 3) for _ in range(3))))
    tail, operands = draw(st.sampled_from(TAILS)), draw(st.sampled_from(["channel", "pixel"]))
    (rows, columns), edges = own.output, list[Edge]()
    if draw(st.booleans()):
        first, left = draw(st.integers(0, rows - 1)), draw(st.integers(0, columns - 1))
        edges = [Edge((first, rows), (0, left + 1), ((0, 1), (2, 0)))]
    totals = (*sizes, own.in_blocks, *own.output)
    tile = tuple(draw(st.integers(1, total)) for total in totals)
    return ConvSpec(
        samples=sizes[0],
        groups=sizes[1],
        in_blocks=own.in_blocks,
        out_blocks=sizes[2],
        input=own.input,
        output=own.output,
        kernel=own.kernel,
        strides=own.strides,
        dilation=own.dilation,
        padding=own.padding,
        pad_value=own.pad_value,
        parts=own.parts,
        shared_weights=draw(st.booleans()),
        tail=tail,
        operands=operands,
        chosen=(tile, draw(st.sampled_from(["pixels", "channels"]))),
        edges=tuple(edges),
    )


@given(convolutions())
@quick
def test_convolutions_do_what_their_nests_say(spec: ConvSpec) -> None:
    same(conv.schedule(spec, CONFIG))


@st.composite
def element_specs(draw: Any) -> ElementwiseSpec:
    extents = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))
    sizes = tuple(draw(st.integers(1, extent)) for extent in extents)
    rq = Rq(3, -128, 127, Rounding.SINGLE)
    some: list[tuple[ElementStep, ...]] = [(), (rq,), (rq, Immediate("mul", -1)), (rq, rq)]
    steps = st.sampled_from(some)
    op = draw(st.sampled_from([None, "add", SUM]))
    moves = st.tuples(*(st.booleans() for _ in extents))
    everywhere = (True,) * len(extents)
    inputs = [Input(draw(moves), draw(steps), expand=True)]
    if op == "add":
        inputs.append(Input(draw(moves), draw(steps), draw(st.booleans())))
    elif op == SUM:
        inputs = [Input(everywhere, ()), Input(draw(moves), ())]
    late, factor = draw(st.integers(0, 1)), draw(st.sampled_from([1, 6, 8]))
    return ElementwiseSpec(extents, tuple(inputs), op, draw(steps), sizes, factor, late)


@given(element_specs())
@quick
def test_operators_on_elements_do_what_their_nests_say(spec: ElementwiseSpec) -> None:
    same(elementwise.schedule(spec, CONFIG))


def test_a_requantization_reads_three_tiles() -> None:
    acc = NestTensor("acc", (2, 4), (1, 16), "int32", "local")
    operands = NestTensor("p", (2, 3), (1, 16), "int32", "table")
    out = NestTensor("out", (2, 4), (1, 16), "int8")
    around, loops = NestLoops(), NestLoops()
    block, i = around.loop(2, "block"), loops.loop(4, "i")
    steps = (
        NestStep("fill", (acc[block, i],), (7,)),
        NestStep("rq", (acc[block, i], operands[block, 0]), (3, -128, 127, 1)),
        NestStep("copy", (out[block, i], acc[block, i])),
    )
    function = Function("rq", (operands, acc, out), around.around(map(loops.nest, steps)))
    same(function)
    found = described(kernel_of_nests(insert_dma_copy(function, memory_table(CONFIG)), CONFIG))
    rows = [o[1] for o in found[2:] if o[0] is RequantizeNest]
    assert [row[2][1] for row in rows] == [0, 3]
    assert [row[3:] for row in rows] == [[3, -128, 127, Rounding(1)]] * 2


def test_what_no_unit_does_is_named() -> None:
    acc = NestTensor("acc", (4,), (1, 16), "int32", "local", "acc")
    x = NestTensor("x", (4,), (1, 16), "int8")
    for step, message in (
        (NestStep("gemm", (acc[0], acc[1], acc[2])), "no unit does gemm of acc, acc, acc"),
        (NestStep("divide", (acc[0],), (3,)), "no unit does divide of acc"),
        (NestStep("copy", (acc[0], acc[1])), "no unit does copy of acc, acc"),
        (NestStep("copy", (x[0], acc[0])), "acc is used where it is nowhere"),
    ):
        with pytest.raises(LoweringError, match=message):
            kernel_of_nests(Function("test", (x,), (NestLoops().nest(step),)), CONFIG)
    room = NestAllocation(acc)
    with pytest.raises(LoweringError, match=r"tiles \[5, 6\) leave acc of 4 tiles"):
        kernel_of_nests(
            Function("test", (x,), (room, NestLoops().nest(NestStep("fill", (acc[5],), (0,))))),
            CONFIG,
        )
