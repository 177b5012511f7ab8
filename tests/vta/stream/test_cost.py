# SPDX-License-Identifier: Apache-2.0
"""cost.py: estimates come from the device's timing table, and what is chosen by them follows it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loadstone.numerics import Rounding
from loadstone.vta.device.hw_config import HwConfig, TimingConstant, load_config
from loadstone.vta.isa.insn import Alu, Config, Depthwise, Gemm, Load, Store
from loadstone.vta.isa.instruction_columns import DramRows, PendingInstruction
from loadstone.vta.isa.spec import AluOp, Memory
from loadstone.vta.schedule.tile import WeightedNest, choose
from loadstone.vta.stream.cost import cost_model
from loadstone.vta.stream.operations import (
    Access,
    AluNest,
    DramTile,
    FillNest,
    GemmNest,
    InpTiles,
    LaneWindow,
    Operation,
    RequantizeNest,
    StoreRequantization,
    TileLoad,
    TileStore,
)
from loadstone.vta.stream.operations import VirtualTile as Tile
from loadstone.vta.stream.table import columns_of

PYNQ, VTAQ = load_config("vta-pynq"), load_config("vtaq-1x16x16")


def with_timing(config: HwConfig, **cycles: int) -> HwConfig:
    changed = {f"{name}_cycles": TimingConstant(value, "test") for name, value in cycles.items()}
    return replace(config, timing={**config.timing, **changed})


def test_estimates_are_those_of_the_measured_table_and_a_share_of_fetch() -> None:
    """vta-rtl: N + 7, b + 23, 3 tiles + 3 bursts + 1; an instruction is two beats."""
    cost = cost_model(PYNQ)
    assert cost.gemm(100) == 100 + 7 + 3
    assert cost.alu(100, tensor=False) == 100 + 7 + 3
    assert cost.alu(100, tensor=True) == 200 + 7 + 3
    assert cost.load(800) == 100 + 23 + 3
    assert cost.store(10) == 3 * 10 + 2 * 3 + 1 + 3
    assert cost_model(VTAQ).store_tile == 2  # at the speed of the bus
    assert cost_model(VTAQ).elementwise(10, 2) == 60


def windows_of(extents: tuple[int, ...], strides: tuple[int, ...], rows: int) -> GemmNest:
    """Windows of 3 columns, whose rows are 10 tiles apart."""
    acc, inp, wgt = (Tile(memory, 2000, "") for memory in (Memory.ACC, Memory.INP, Memory.WGT))
    still = (0,) * len(extents)
    moves = tuple(range(1, len(extents) + 1))
    accesses = (Access(acc, 0, moves), Access(inp, 0, strides), Access(wgt, 0, still))
    return GemmNest(extents, *accesses, LaneWindow(rows, 3, 10))


@pytest.mark.parametrize(
    ("extents", "strides", "rows", "read"),
    [
        ((8, 4), (10, 1), 3, 4 * (3 + 7)),
        ((8, 4), (20, 1), 3, 4 * (3 + 7 * 2)),
        ((8, 4), (30, 1), 3, 8 * 4 * 3),
        ((2, 8, 4), (300, 10, 1), 2, 2 * 4 * (2 + 7)),
        ((8,), (1,), 1, 8),
        ((), (), 3, 3),
    ],
)
def test_windows_below_each_other_share_rows(
    extents: tuple[int, ...], strides: tuple[int, ...], rows: int, read: int
) -> None:
    """An instruction costs the estimate what the operation does."""
    device = load_config("vtaq2-1x16x16")
    cost, nest = cost_model(device), windows_of(extents, strides, rows)
    assert cost.windows(100) == 100 + 8 + 3
    assert cost.operations([nest], columns_of([nest]), device).tolist() == [cost.windows(read)]


def test_an_instruction_of_windows_is_guessed_by_its_loops() -> None:
    device = load_config("vtaq2-1x16x16")
    cost = cost_model(device)
    loops = {"iter_out": 4, "iter_in": 8, "rows": 3, "columns": 3, "row_stride": 10}
    for insn, read in (
        (Depthwise(uop_end=1, src_in=10, **loops), 4 * (3 + 7)),
        (Depthwise(uop_end=1, src_in=20, **loops), 4 * (3 + 14)),
        (Depthwise(uop_end=5, src_in=1, **loops), 4 * (3 + 39)),
    ):
        assert cost.instruction(PendingInstruction(insn, ""), device) == cost.windows(read)


@pytest.mark.parametrize(
    ("constant", "estimate"),
    [
        ("gemm_overhead", "gemm_overhead"),
        ("gemm_step", "gemm_step"),
        ("alu_overhead", "alu_overhead"),
        ("alu_imm_step", "alu_immediate_step"),
        ("alu_tensor_step", "alu_tensor_step"),
        ("rq_overhead", "rq_overhead"),
        ("rq_step", "rq_step"),
        ("rq_operand", "rq_operand"),
        ("load_request", "load_overhead"),
        ("load_done", "load_overhead"),
        ("read_latency", "load_overhead"),
        ("store_overhead", "store_overhead"),
        ("store_tile", "store_tile"),
        ("nop", "noop"),
    ],
)
def test_every_estimate_follows_its_constant(constant: str, estimate: str) -> None:
    before = PYNQ.timing[f"{constant}_cycles"].value
    changed = cost_model(with_timing(PYNQ, **{constant: before + 5}))
    assert getattr(changed, estimate) == getattr(cost_model(PYNQ), estimate) + 5


def test_constants_that_a_table_leaves_out_are_the_measured_ones() -> None:
    assert cost_model(replace(PYNQ, timing={})) == cost_model(PYNQ)


def estimated(operations: list[Operation], config: HwConfig) -> list[int]:
    return cost_model(config).operations(operations, columns_of(operations), config).tolist()


def test_operations_and_instructions_cost_what_their_kind_does() -> None:
    cost = cost_model(PYNQ)
    acc, inp = Tile(Memory.ACC, 9, "acc"), Tile(Memory.INP, 9, "inp")
    access = Access(acc, 0, (1, 1))
    operations = [
        FillNest((3, 3), access, 0),
        AluNest(AluOp.ADD, (3, 3), access, None, 1),
        TileLoad(Memory.INP, inp, 0, DramTile("x", 0), 2, 4, 4),
        AluNest(AluOp.ADD, (3, 3), access, access),
        TileStore(acc, 0, DramTile("y", 0), 2, 4, 4),
    ]
    assert estimated(operations, PYNQ) == [
        cost.gemm(9),
        cost.alu(9, tensor=False),
        cost.load(8 * 16),
        cost.alu(9, tensor=True),
        cost.store(8),
    ]
    rows = DramRows(0, 0, 2, 64, 64, False)
    loops = {"uop_end": 3, "iter_out": 2, "iter_in": 5}
    for insn, dram, cycles in (
        (Gemm(**loops), None, cost.gemm(30)),
        (Alu(alu_op=AluOp.ADD, **loops), None, cost.alu(30, tensor=True)),
        (Alu(alu_op=AluOp.ADD, use_imm=1, **loops), None, cost.alu(30, tensor=False)),
        (Alu(alu_op=AluOp.RQ, **loops), None, cost.requantize(30)),
        (Load(memory_id=Memory.INP, x_size=4), rows, cost.load(128)),
        (Store(memory_id=Memory.OUT, x_size=4), rows, cost.store(8) + cost.read_latency),
        (Load(), None, cost.noop),
        (Config(), None, cost.noop),
    ):
        assert cost.instruction(PendingInstruction(insn, "l", (), dram), PYNQ) == cycles


def test_rq_and_mul_pass_more_stages_and_rq_reads_its_operands_when_they_move() -> None:
    """vtaq-rtl: 18 cycles besides the steps, and three for each step with other operands."""
    cost, loops = cost_model(VTAQ), {"uop_end": 3, "iter_out": 2, "iter_in": 5}
    acc = Tile(Memory.ACC, 99, "acc")
    dst, still, moved = (Access(acc, 0, strides) for strides in ((5, 1), (0, 0), (3, 0)))
    rounding = Rounding.DOUBLE
    for operands, moves in ((still, 1), (moved, 2), (dst, 10)):
        operation = RequantizeNest((2, 5), dst, operands, 0, -128, 127, rounding)
        assert estimated([operation], VTAQ) == [18 + 3 + 10 + 3 * moves]
    product = AluNest(AluOp.MUL, (2, 5), dst, dst)
    assert estimated([product], VTAQ) == [18 + 3 + 10]
    for insn, cycles in (
        (Alu(alu_op=AluOp.RQ, **loops), 18 + 3 + 30 + 3 * 30),
        (Alu(alu_op=AluOp.RQ, **{**loops, "uop_end": 1}), 18 + 3 + 10 + 3),
        (Alu(alu_op=AluOp.RQ, src_out=3, **{**loops, "uop_end": 1}), 18 + 3 + 10 + 3 * 2),
        (Alu(alu_op=AluOp.MUL, **loops), 18 + 3 + 30),
    ):
        assert cost.instruction(PendingInstruction(insn, "l", (), None), VTAQ) == cycles


def weighted(*, requantizes: bool = False) -> WeightedNest:
    """A convolution of 3x3 whose result is requantized, or not."""
    return WeightedNest(
        samples=1,
        groups=1,
        out=4,
        in_=4,
        height=16,
        width=16,
        taps=9,
        step=(1, 1),
        window=(3, 3),
        padded_rows=True,
        shared_weights=False,
        operands="channel",
        operand_rows=3,
        tail_steps=(True,),
        requantizes=requantizes,
    )


def test_a_tiling_is_chosen_by_the_timing_at_hand() -> None:
    """Devices that differ in timing alone are equal as HwConfig; their tilings are not."""
    nest = weighted()
    slow = with_timing(VTAQ, gemm_step=9)
    assert slow == VTAQ
    assert choose(nest, slow).cycles > 8 * choose(nest, VTAQ).cycles


def test_a_tiling_knows_what_its_rq_takes() -> None:
    """So much for each turn, whose number it is chosen by."""
    far = with_timing(VTAQ, rq_overhead=100_000)
    plain, requantized = (choose(weighted(requantizes=q), far) for q in (False, True))
    assert plain.cycles < requantized.cycles < plain.cycles + 300_000


@pytest.mark.parametrize(("step", "operands"), [(None, 0), (0, 1), (3, 4)])
def test_a_store_to_inp_takes_a_cycle_a_tile(step: int | None, operands: int) -> None:
    device = load_config("vtaq2-1x16x16")
    cost, acc = cost_model(device), Tile(Memory.ACC, 20, "a")
    by = None if step is None else StoreRequantization(acc, 0, step, 0, -1, 1, Rounding.DOUBLE)
    to = InpTiles(Tile(Memory.INP, 99, "x"), 0)
    store = TileStore(acc, 0, DramTile("x", 3), 4, 5, 9, by, to)
    wanted = cost.kept_store(4, 5, operands)
    assert wanted == 2 + 3 + 20 + (14 + 3 * operands if operands else 0)
    assert cost.operations([store], columns_of([store]), device).tolist() == [wanted]
    steps = {"requantize": int(by is not None), "operand_step": int(bool(step))}
    insn = Store(memory_id=Memory.INP, y_size=4, x_size=5, x_stride=9, **steps)
    assert cost.instruction(PendingInstruction(insn, ""), device) == wanted
