# SPDX-License-Identifier: Apache-2.0
"""The timing model, rule by rule: one cycle early, and on time. (That the whole is the RTL's,
test_replay.py shows.)"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest

from loadstone.errors import SimulationError
from loadstone.vta.device.hw_config import HwConfig, builtin_timing, load_config
from loadstone.vta.isa.asm import assemble
from loadstone.vta.isa.codec import encode_stream, encode_uops
from loadstone.vta.isa.insn import Alu, Finish, Load, MicroOp
from loadstone.vta.isa.spec import AluOp, Memory, Stage
from loadstone.vta.simulator.result import Event
from loadstone.vta.simulator.sim import Simulator
from tests.programs import BASE
from tests.simulated import TINY, TINY_INP, TINY_WINDOWS, VTA, run_text, simulate_text

NOP, LOAD_NOP = "nop compute\n", "nop load\n"
#: Ends a program when all stages have.
FINISH = "nop load push(compute)\nnop store push(compute)\npop(load) nop compute\npop(store) finish"


def events(
    text: str, config: HwConfig = VTA, place_bytes: int = 0, **timing: int
) -> dict[int, Event]:
    """By instruction."""
    simulator = Simulator(config, strict=False, trace=True, place_bytes=place_bytes)
    for name, value in timing.items():
        simulator.set_timing(name, value)
    memory = np.zeros(1 << 16, np.uint8)
    simulator.map(BASE, memory)
    if config.name.startswith("vtaq"):
        simulator.set_region(0, BASE, memory.size)
    simulator.run(assemble(text + FINISH, config))
    return {e.insn: e for e in simulator.events()}


def cycles(text: str, config: HwConfig = VTA, place_bytes: int = 0, **timing: int) -> int:
    """From start to end of instruction 0."""
    event = events(text, config, place_bytes, **timing)[0]
    return event.end - event.start


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nop compute\n", 2),
        ("gemm acc[u+1j] += inp[u] * wgt[u] for i<5 j<4 u in 0..3\n", 60 + 7),
        ("gemm acc[u+1j] = 0 for i<5 j<4 u in 0..3\n", 60 + 7),
        ("alu acc[u+1j] += 1 for i<5 j<4 u in 0..3\n", 60 + 7),
        ("alu acc[u+1j] += acc[u] for i<5 j<4 u in 0..3\n", 2 * 60 + 7),
        ("store dram[300 + x] = out[0] for x<10\n", 3 * 10 + 3 + 1),
        ("store dram[320 + 40y + x] = out[0] for y<4 x<10\n", 3 * 40 + 3 * 4 + 1),
        ("load inp[0] = dram[256 + x] for x<10\n", 2 * 10 + 23),
        ("load wgt[0] = dram[16 + x] for x<4\n", 32 * 4 + 23),
        ("load acc[0] = dram[64 + x] for x<10\n", 8 * 10 + 23),
        ("load uop[0] = dram[1024 + x] for x<10\n", 5 + 22),
        ("load uop[0] = dram[1025 + x] for x<10\n", 6 + 22),
        ("load inp[0] = dram[256 + 20y + x] for y<5 x<10\n", 2 * 50 + 23),
    ],
)
def test_durations_are_those_measured(text: str, expected: int) -> None:
    assert cycles(text) == expected


def test_latency_of_a_burst_counts_once_for_each() -> None:
    text = "load inp[0] = dram[256 + 20y + x] for y<5 x<10\n"
    assert cycles(text, read_burst_extra_cycles=64) == cycles(text) + 5 * 64
    crossing = (
        "load inp[0] = dram[380 + x] for x<10\n"  # 0x17c0 to 0x1860: one multiple of 2048 inside
    )
    assert cycles(crossing, read_burst_extra_cycles=64) == cycles(crossing) + 2 * 64
    assert (
        cycles(crossing, read_burst_extra_cycles=64, burst_boundary_bytes=4096)
        == cycles(crossing) + 64
    )


def test_a_token_can_be_popped_in_the_cycle_in_which_its_pusher_ends() -> None:
    by = events("load inp[0] = dram[256 + x] for x<100 push(compute)\npop(load) nop compute\n")
    assert by[1].start == by[0].end
    assert (by[1].from_prev, by[1].from_next) == (0, None)


def test_instructions_are_delivered_one_a_cycle_and_batches_when_the_last_has_left() -> None:
    by = events(NOP * 300, nop_cycles=1)
    assert by[1].start - by[0].start == 1
    assert by[128].start - by[127].start == 2 + 17 + 2 * 128 + 3, (
        "two cycles to the request; latency, beats, delivery"
    )
    assert by[256].start - by[255].start == 2 + 17 + 2 * (304 - 256) + 3, (
        "300 no-ops and four more are two batches and 48"
    )


def test_a_full_queue_holds_up_what_is_behind_it() -> None:
    text = "load wgt[0] = dram[16 + x] for x<20\n" + LOAD_NOP * 3 + NOP
    free, full = events(text), events(text, stage_queue_entries=3)
    assert free[4].start < free[0].end
    assert full[4].start == full[0].end + 2, (
        "the third no-op enters when the LOAD ends, this one a cycle behind it"
    )
    assert events(text, stage_queue_entries=4)[4].start == free[4].start


def test_a_second_load_hides_its_latency_behind_the_first() -> None:
    text = "load acc[0] = dram[64 + x] for x<32\nload inp[0] = dram[256 + x] for x<10\n"
    by = events(text)
    assert by[0].end - by[0].start == 256 + 23
    assert by[1].end == by[0].end + 20, "its beats follow without a gap"


def test_memory_that_works_on_several_bursts_hides_their_latency() -> None:
    """Rows of 20 beats behind 64 cycles: with N bursts at a time one begins when the one N before
    it has been served."""
    text = "load inp[0] = dram[256 + 20y + x] for y<6 x<10\n"
    for bursts, paid in ((1, 6 * 64), (2, 3 * 64 - 2 * 20), (3, 2 * 64 - 40), (4, 68), (5, 64)):
        timing = {"read_burst_extra_cycles": 64, "read_bursts_outstanding": bursts}
        assert cycles(text, **timing) == cycles(text) + paid, bursts


ONE, TWO = "load inp[0] = dram[256 + x] for x<30\n", "load wgt[0] = dram[16 + x] for x<4\n"


@pytest.mark.parametrize("extra", [0, 64])
def test_a_load_that_starts_ahead_follows_without_a_gap(extra: int) -> None:
    timing = {"loads_in_flight": 2, "read_burst_extra_cycles": extra, "read_bursts_outstanding": 9}
    by = events(ONE + TWO, **timing)
    assert by[0].end - by[0].start == 60 + 23 + extra
    assert by[1].start == by[0].end, "an event begins when the one before has ended"
    assert by[1].end == by[0].end + 32 * 4, "its beats follow without a gap"
    assert by[1].dram_cycles == 0
    alone = events(ONE + TWO, **timing | {"loads_in_flight": 1})
    assert alone[1].end == alone[0].end + 32 * 4 + 23 + extra


def test_a_load_starts_ahead_two_cycles_after_the_last_grant() -> None:
    """Where memory has no latency of its own, the requests of the second find nothing before
    them."""
    one = "load inp[0] = dram[256 + x] for x<1\n"
    by = events(one + one, loads_in_flight=2, read_latency_cycles=0)
    granted = by[0].start + 2
    assert by[1].end == granted + 2 + 2 + 2 + 4, "start, request, its two beats, done"
    assert by[1].end == by[0].end + 4


def test_no_more_loads_are_on_their_way_than_the_device_says() -> None:
    text = TWO * 5
    for loads in (2, 3, 4):
        timing = {"loads_in_flight": loads, "read_burst_extra_cycles": 1000}
        timing |= {"load_ahead_beats": 4000}
        by = events(text, **timing, read_bursts_outstanding=9)
        together = [by[n].end - by[n - 1].end == 128 for n in range(1, 5)]
        assert together == [n % loads != 0 for n in range(1, 5)], loads


@pytest.mark.parametrize("left", [0, 1, 40, 99, 4000])
def test_a_load_starts_ahead_when_few_beats_are_to_come(left: int) -> None:
    """Two rows of 100 beats; without a latency of its own memory shows when the request came."""
    first = "load inp[0] = dram[256 + 64y + x] for y<2 x<50\n"
    timing = {"loads_in_flight": 2, "load_ahead_beats": left, "read_latency_cycles": 0}
    by = events(first + ONE, **timing, read_burst_extra_cycles=50, read_bursts_outstanding=9)
    last = by[0].end - 4
    asked = last - left + 4 if left < 99 else by[0].start + 8
    assert by[1].end - 4 == max(last, asked + 50) + 60


def test_what_is_no_load_waits_until_all_of_them_have_ended() -> None:
    text = f"{ONE}config load pad_value = 3\n{TWO}"
    by = events(text, load_config("vtaq-1x16x16"), loads_in_flight=4)
    assert (by[1].start, by[1].end) == (by[0].end, by[0].end + 2)
    assert by[2].end == by[1].end + 32 * 4 + 23


def test_padding_of_a_load_ahead_waits_for_the_words_of_the_one_before() -> None:
    padded = "load inp[0] = dram[256 + x] for x<1 pad top 15 left 15 right 15\n"
    by = events(ONE + padded, loads_in_flight=2)
    assert by[1].end == by[0].end + 1 + 15 * 31 + 30 + 1


def test_priority_decides_when_two_requests_meet() -> None:
    """INP is before ACC: of two loads that ask in the same cycle INP's data come first."""
    wait = "load wgt[0] = dram[16 + x] for x<1 push(compute)\npop(load) nop compute push(load)\n"
    by = events(
        wait
        + "pop(compute) load inp[0] = dram[256 + x] for x<50\nload acc[0] = dram[64 + x] for x<50\n"
    )
    assert by[2].start == by[3].start
    assert by[2].end - by[2].start == 100 + 23
    assert by[3].end - by[3].start == 100 + 400 + 23


def test_sixteen_requests_are_under_way_at_most() -> None:
    text = "load inp[0] = dram[256 + 64y + x] for y<40 x<20\n"
    assert cycles(text, read_requests_in_flight=1) == cycles(text) + 39 * 18, (
        "one at a time, every row pays its latency"
    )
    assert cycles(text, read_requests_in_flight=2) == cycles(text)


def test_padding_hides_behind_the_latency_as_long_as_it_is_short() -> None:
    bare, load = (
        cycles("load inp[0] = dram[256 + x] for x<4\n"),
        "load inp[0] = dram[256 + x] for x<4 pad left {} right 9\n",
    )
    assert bare == 8 + 23
    assert cycles(load.format(9)) == bare
    # 18 tiles from cycle 2 on end in cycle 20, where the first of eight beats takes the port; 19
    # need a cycle behind the last.
    assert cycles(load.format(10)) == bare
    assert cycles(load.format(15)) == bare + 4
    assert cycles(load.format(15), pad_tiles_per_cycle=2) == bare


def test_rows_of_padding_above_delay_the_first_request() -> None:
    text = "load inp[0] = dram[256 + x] for x<1 pad top {}\n"
    assert cycles(text.format(5)) == cycles(text.format(0).replace(" pad top 0", "")) + 5


# --- VTA-Q ----------------------------------------------------------------------------------------
def test_operands_of_rq_cost_when_src_moves() -> None:
    vtaq = load_config("vtaq-1x16x16")
    kept = "alu acc[u+1j] rq= acc[u] for i<1 j<20 u in 0..1\n"
    moved = "alu acc[u+1j] rq= acc[u+1j] for i<1 j<20 u in 0..1\n"
    for text, operands in ((kept, 3), (moved, 20 * 3)):  # their results are nobody's operands here
        assert cycles(text, vtaq, rq_result_cycles=0) == 20 + 18 + operands


def test_a_store_runs_at_the_speed_of_the_bus_and_a_wide_bus_is_faster() -> None:
    narrow, wide = load_config("vtaq-1x16x16"), load_config("vtaq-1x32x32")
    store = "store dram[300 + x] = out[0] for x<10\n"
    assert cycles(store, narrow) == 10 * 2 + 3 + 1
    assert cycles(store, wide) == 10 + 3 + 1
    load = "load acc[0] = dram[64 + x] for x<10\n"
    assert cycles(load, narrow) == 10 * 8 + 23
    assert cycles(load, wide) == 10 * 4 + 23


def test_a_store_that_requantizes_waits_for_the_lanes_and_for_operands() -> None:
    device = load_config("vtaq2-1x16x16")
    store = "store dram[300 + 10y + x] = out[0]{} for y<4 x<10\n"
    plain = cycles(store.format(""), device)
    assert plain == 4 * (10 * 2 + 3) + 1
    assert cycles(store.format(" rq acc[50]"), device) == plain + 14 + 3
    assert cycles(store.format(" rq acc[50 + 3y]"), device) == plain + 14 + 4 * 3
    slow = cycles(store.format(" rq acc[50]"), device, rq_step_cycles=3)
    assert slow == plain + 14 + 3 + 4 * 10
    assert cycles("config store rq_max = 5\n", device) == cycles("nop store\n", device) == 2


@pytest.mark.parametrize(
    ("way", "more"), [("", 0), (" rq acc[0]", 14 + 3), (" rq acc[0 + 3y]", 14 + 3 * 5)]
)
def test_a_store_to_inp_takes_a_cycle_a_tile_and_nothing_of_the_bus(way: str, more: int) -> None:
    store = f"store inp[0 + 9y + x] = out[0]{way} for y<5 x<7 push(compute)\n"
    simulator, result = simulate_text(f"{store}pop(store) finish", TINY_INP, trace=True)
    (event,) = [e for e in simulator.events() if e.insn == 0]
    assert event.end - event.start == 2 + 5 * 7 + more
    assert (result.write_beats, result.write_bursts, result.write_bytes) == (0, 0, 0)


@pytest.mark.parametrize("seed", range(12))
def test_windows_read_the_rows_that_the_step_before_did_not(seed: int) -> None:
    """Of the rows of each step's window, those that are not the last ones of the one before."""
    rng = np.random.default_rng(seed)
    rows, stride = int(rng.integers(1, 4)), int(rng.integers(1, 6))
    outs, ins, by_out, by_in = (int(n) for n in rng.integers(1, 5, 4))
    by_in = stride * int(rng.integers(1, 4)) if seed % 2 else by_in
    uops = [MicroOp(0, int(n)) for n in rng.integers(0, 3, 1 + seed % 3)]
    counted, before = 0, list[int]()
    for i, j, u in product(range(outs), range(ins), uops):
        window = [u.src + i * by_out + j * by_in + r * stride for r in range(rows)]
        kept = next((k for k in range(rows - 1, 0, -1) if window[:k] == before[rows - k :]), 0)
        counted += rows - kept
        before = window
    memory = np.zeros(1 << 16, np.uint8)
    table = encode_uops(uops, TINY_WINDOWS).view(np.uint8)
    memory[: table.size] = table
    insn = (
        f"depthwise acc[u] = inp[u+{by_out}i+{by_in}j+{stride}r] * wgt[u] for i<{outs} j<{ins} "
        f"u in 0..{len(uops)} r<{rows} c<3\n"
    )
    load = f"load uop[0] = dram[0 + x] for x<{len(uops)}\n"
    simulator, _ = simulate_text(f"{load}{insn}finish", TINY_WINDOWS, memory, trace=True)
    (event,) = [e for e in simulator.events() if e.insn == 1]
    assert event.end - event.start == 8 + counted


def test_memory_that_may_stand_anywhere_stands_where_it_takes_most_bursts() -> None:
    """Among the places that are multiples of 256 bytes away."""
    text = "load inp[0] = dram[{} + x] for x<{}\n"
    slow = {"read_burst_extra_cycles": 100}
    for tiles, depends in ((1, 0), (16, 0), (17, 1), (128, 1), (129, 0), (150, 1)):
        each = [cycles(text.format(place, tiles), **slow) for place in range(256, 384, 16)]
        assert cycles(text.format(256, tiles), place_bytes=256, **slow) == max(each)
        assert (max(each) > min(each)) == bool(depends)
    store = "store dram[{} + 40y + x] = out[0] for y<4 x<20\n"
    each = [cycles(store.format(place)) for place in range(256, 384, 16)]
    assert cycles(store.format(256), place_bytes=256) == max(each) > min(each)


def test_at_worst_each_burst_waits_for_the_latency() -> None:
    """Two bursts of two beats, requested 50 cycles apart; memory works on both at a time. If the
    first is requested in cycle 0, its beats end in 100 + 9 + 2; those of the second, which finds it
    waiting, in 113. At worst the second has waited in 150, and ends in 150 + 9 + 2."""
    text = "load inp[0] = dram[256 + 2y + x] for y<2 x<1\n"
    late = {
        "read_latency_cycles": 100,
        "read_bursts_outstanding": 2,
        "read_burst_extra_cycles": 9,
        "read_request_interval_cycles": 50,
    }
    found = cycles(text, **late)
    assert cycles(text, place_bytes=1 << 20, **late) == found + 161 - 113


def test_a_place_of_no_power_of_two_is_refused() -> None:
    with pytest.raises(SimulationError, match="768 bytes are no power of two"):
        Simulator(VTA, place_bytes=768)


def test_partial_beats_are_whole_ones() -> None:
    """vtaq-tiny has tiles of 4 bytes on a bus of 4; here on a bus of 8."""
    wide = replace(TINY, bus_bits=64)
    assert cycles("load inp[0] = dram[10 + x] for x<4\n", wide) == 2 + 23
    assert cycles("load inp[0] = dram[11 + x] for x<4\n", wide) == 3 + 23


def test_without_timing_nothing_is_counted() -> None:
    result = run_text("nop compute\nfinish", timing=False)
    assert (result.cycles, result.busy_cycles["compute"], result.read_beats) == (0, 0, 0)


def test_the_stages_account_for_every_cycle() -> None:
    text = (
        "load inp[0] = dram[256 + x] for x<100 push(compute)\npop(load) nop compute push(store)\n"
    )
    _, result = simulate_text(text + "pop(compute) nop store push(compute)\npop(store) finish", VTA)
    compute = Stage.COMPUTE.name.lower()
    waited = result.stall_token_cycles[compute] + result.stall_fetch_cycles[compute]
    assert result.busy_cycles[compute] + waited == result.cycles
    assert result.stall_token_cycles["store"] > 200


def slow_cycles(steps: list[tuple[int, int]], *, requantizes: bool, result: int) -> int:
    """Cycles of RQ's or MUL's steps (dst, src), as lds_hazards.sv lets them pass."""
    now, kept, ready = 0, -1, dict[int, int]()
    for dst, src in steps:
        reads = [dst] if requantizes else [dst, src]
        if requantizes and src != kept:
            now, kept = max([now, *(ready.get(src + k, 0) for k in range(3))]) + 3, src
        now = max([now, *(ready.get(tile, 0) for tile in reads)])
        if requantizes and 0 <= dst - src < 3:
            kept = -1
        ready[dst] = now + result
        now += 1
    return now


@pytest.mark.parametrize("operation", [AluOp.RQ, AluOp.MUL])
def test_a_step_of_rq_or_mul_waits_for_what_another_wrote(operation: AluOp) -> None:
    rng = np.random.default_rng(1)
    for _ in range(40):
        uops = [MicroOp(*map(int, rng.integers(0, 6, 2))) for _ in range(4)]
        turns = [(i, j) for i in range(2) for j in range(3)]
        steps = [(u.dst + i + 2 * j, u.src + 3 * i + j) for i, j in turns for u in uops]
        memory = np.zeros(1 << 16, np.uint8)
        memory[:16] = encode_uops(uops, TINY).view(np.uint8).reshape(-1)
        simulator = Simulator(TINY, strict=False, trace=True)
        simulator.map(BASE, memory)
        simulator.set_region(0, BASE, memory.size)
        load = Load(memory_id=Memory.UOP, y_size=1, x_size=4, x_stride=4)
        loops = {"uop_end": 4, "iter_out": 2, "iter_in": 3, "src_out": 3, "src_in": 1}
        alu = Alu(alu_op=int(operation), dst_out=1, dst_in=2, **loops)
        simulator.run(encode_stream([load, alu, alu, Finish()], TINY))
        expected = 18 + slow_cycles(steps, requantizes=operation == AluOp.RQ, result=14)
        taken = [e.end - e.start for e in simulator.events() if e.insn in (1, 2)]
        assert taken == [expected, expected], steps


def test_fetch_splits_its_bursts_where_the_hardware_must() -> None:
    """300 instructions of 16 bytes: three batches of 2, 2 and 1 boundaries of 2048 bytes."""
    bursts = []
    for name in ("vta-rtl", "vtaq-rtl"):
        device = replace(load_config("vtaq-1x16x16"), timing=builtin_timing(name))
        simulator = Simulator(device, strict=False)
        memory = np.zeros(1 << 16, np.uint8)
        memory[1024 : 1024 + 300 * 16] = np.frombuffer(
            encode_stream([*[Load(memory_id=Memory.UOP)] * 299, Finish()], device), np.uint8
        )
        simulator.map(BASE, memory)
        bursts.append(simulator.run_at(BASE + 1024, 300).read_bursts)
    assert bursts == [3, 5]


def test_rq_counts_the_steps_whose_operands_are_others() -> None:
    """Counted here step by step; where no result is waited for the simulator does not walk the
    steps."""
    rng = np.random.default_rng(0)
    for _ in range(60):
        count, outs, ins = (int(rng.integers(1, 5)) for _ in range(3))
        src_out, src_in = (int(rng.choice([0, 1, 2, 3, 6])) for _ in range(2))
        sources = [int(rng.integers(0, 4)) for _ in range(count)]
        steps = [
            s + i * src_out + j * src_in for i in range(outs) for j in range(ins) for s in sources
        ]
        moves = sum(a != b for a, b in pairwise([-1, *steps]))
        memory = np.zeros(1 << 16, np.uint8)
        memory[: 4 * count] = (
            encode_uops([MicroOp(100, s) for s in sources], TINY).view(np.uint8).reshape(-1)
        )
        simulator = Simulator(TINY, strict=False, trace=True)
        for name, value in (
            ("rq_step_cycles", 0),
            ("rq_operand_cycles", 1),
            ("rq_overhead_cycles", 0),
            ("rq_result_cycles", 0),
        ):
            simulator.set_timing(name, value)
        simulator.map(BASE, memory)
        simulator.set_region(0, BASE, memory.size)
        load = Load(memory_id=Memory.UOP, y_size=1, x_size=count, x_stride=count)
        loops = Alu(
            alu_op=AluOp.RQ,
            uop_end=count,
            iter_out=outs,
            iter_in=ins,
            src_out=src_out,
            src_in=src_in,
        )
        simulator.run(encode_stream([load, loops, Finish()], TINY))
        event = next(e for e in simulator.events() if e.insn == 1)
        assert event.end - event.start == moves, (sources, outs, ins, src_out, src_in)


@pytest.mark.parametrize(("extra", "cycles"), [(0, 220_100), (64, 484_382)])
def test_resnet8_takes_what_the_rtl_for_de10_nano_took(root: Path, extra: int, cycles: int) -> None:
    """ResNet8 as it was compiled when it was measured on VTA's Chisel RTL in that configuration, at
    both latencies of its memory. Weights and samples change no cycle: they are zeros."""
    recorded = np.load(root / "tests/golden/resnet8_de10nano.npz")
    simulator = Simulator(load_config("vta-de10nano"), strict=False)
    simulator.set_timing("read_burst_extra_cycles", extra)
    base, at = int(recorded["base"]), int(recorded["micro_ops_at"])
    memory = np.zeros(int(recorded["size"]), np.uint8)
    memory[at - base :][: recorded["micro_ops"].size] = recorded["micro_ops"]
    simulator.map(base, memory)
    assert simulator.run(recorded["insns"]).cycles == cycles
