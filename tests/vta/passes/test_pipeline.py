# SPDX-License-Identifier: Apache-2.0
"""pipeline.py: all passes together, checked by running what comes out on the simulator with its
race check on. Layers are lowered by hand, tile by tile; what each pass does alone stands in its own
test."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from loadstone.backend.region import Address
from loadstone.errors import LoweringError
from loadstone.numerics import Rounding
from loadstone.vta.device.hw_config import HwConfig, load_config
from loadstone.vta.isa.codec import decode_stream
from loadstone.vta.isa.insn import Finish, Insn, stage_of
from loadstone.vta.isa.spec import Capability, Memory, Opcode, Stage
from loadstone.vta.passes.allocate.allocate import allocate
from loadstone.vta.passes.pipeline import build_program
from loadstone.vta.passes.program import UOP_TENSOR, VtaProgram
from loadstone.vta.simulator.sim import Simulator
from loadstone.vta.stream.operations import (
    Access,
    DramTile,
    FillNest,
    GemmNest,
    Operation,
    RequantizeNest,
    TileLoad,
    TileStore,
    VirtualTile,
)
from loadstone.vta.stream.table import columns_of
from tests.ordering import tokens_of
from tests.vta.passes.hand_lowered import Layer, network, unbuilt


def build(
    layers: list[Layer], config: HwConfig, rows: int, outputs: int
) -> tuple[VtaProgram, NDArray[np.uint8]]:
    """The finished program, and region 0's content."""
    program, constants = unbuilt(layers, config, rows, outputs)
    return build_program(VtaProgram(config, program.places, program.operations)), constants


def run(
    program: VtaProgram,
    constants: NDArray[np.uint8],
    x: NDArray[np.int8],
    size: int,
    config: HwConfig,
) -> tuple[Any, Simulator]:
    simulator = Simulator(config, races=True, uninitialised=True)
    arena = np.zeros(size, np.uint8)
    arena[: x.size] = x.view(np.uint8).reshape(-1)
    uops = program.uop_words() if program.uops.size else np.zeros(1, np.uint32)
    for region, memory in enumerate((constants, uops, arena)):
        base = 0x100000 * (region + 1)
        simulator.map(base, memory)
        simulator.set_region(region, base, memory.nbytes, read_only=region < 2)
    result = simulator.run(program.instruction_bytes(), cycle_limit=50_000_000)
    assert result.status == "NONE"
    assert simulator.findings() == []
    return arena, simulator


@pytest.mark.parametrize("device", ["vtaq-1x16x16", "vtaq-1x32x32", "vtaq-tiny"])
@given(
    seed=st.integers(0, 1 << 30),
    blocks=st.lists(st.integers(1, 4), min_size=2, max_size=4),
    size=st.integers(1, 7),
    rows=st.integers(1, 4),
    outputs=st.integers(1, 3),
    kernel=st.sampled_from([1, 3]),
)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_layers_that_follow_each_other_compute_what_they_should_without_races(
    device: str, seed: int, blocks: list[int], size: int, rows: int, outputs: int, kernel: int
) -> None:
    config = load_config(device)
    rng = np.random.default_rng(seed)
    layers = network(config, rng, blocks, size, [kernel] * (len(blocks) - 1))
    x = rng.integers(-128, 128, (blocks[0], size, size + 1, config.block)).astype(np.int8)
    program, constants = build(layers, config, rows, outputs)
    total = sum(blocks) * size * (size + 1) * config.block
    arena, _ = run(program, constants, x, total, config)
    for k, layer in enumerate(layers):
        x = layer.expected(x)
        start = program.places[f"t{k + 1}"].offset_bytes
        np.testing.assert_array_equal(
            arena[start : start + x.size].view(np.int8), x.reshape(-1), err_msg=f"layer {k}"
        )


def sample() -> tuple[VtaProgram, HwConfig]:
    config = load_config("vtaq-1x16x16")
    layers = network(config, np.random.default_rng(0), [2, 3, 2], 8, [3, 1])
    return build(layers, config, 2, 2)[0], config


def test_finish_is_last_and_every_token_is_taken() -> None:
    """Counted from the bytes, by the tests' own table of queues."""
    program, config = sample()
    insns = list(decode_stream(program.instruction_bytes(), config))
    assert [n for n, insn in enumerate(insns) if isinstance(insn, Finish)] == [len(insns) - 1]
    tokens = tokens_of(insns)
    assert tokens is not None
    pushed = {push for push, _ in tokens}
    assert len(pushed) > 20
    for number, insn in enumerate(insns):
        for flag in ("push_prev", "push_next"):
            assert bool(getattr(insn, flag)) == ((number, flag) in pushed)
    for (pusher, _), (popper, _) in tokens:
        assert pusher < popper


def test_content_that_is_still_there_is_not_loaded_again() -> None:
    program, _ = sample()
    assert program.loads_dropped > 0


def test_the_first_tap_overwrites_instead_of_a_reset_pass() -> None:
    program, config = sample()
    gemm = decode_stream(program.instruction_bytes(), config).columns[Opcode.GEMM]
    assert gemm["overwrite"].any()
    assert not gemm["reset"].any()


def test_a_device_without_overwrite_resets() -> None:
    config = load_config("vtaq-1x16x16")
    config = replace(config, capabilities=config.capabilities & ~Capability.GEMM_OVERWRITE)
    layers = network(config, np.random.default_rng(0), [2, 3], 5, [3])
    program, constants = build(layers, config, 2, 2)
    gemm = decode_stream(program.instruction_bytes(), config).columns[Opcode.GEMM]
    assert gemm["reset"].any()
    x = np.random.default_rng(1).integers(-128, 128, (2, 5, 6, 16)).astype(np.int8)
    arena, _ = run(program, constants, x, 5 * 5 * 6 * 16, config)
    want = layers[0].expected(x)
    np.testing.assert_array_equal(
        arena[program.places["t1"].offset_bytes :].view(np.int8), want.reshape(-1)
    )


def test_a_tile_that_does_not_fit_is_named() -> None:
    config = load_config("vtaq-tiny")
    layer = Layer(np.random.default_rng(0), config.block, 4, 40, 40, 1, 1)
    with pytest.raises(
        LoweringError, match=r"allocate: (INP|ACC) has no room for .* smaller tiles are needed"
    ):
        build([layer], config, 8, 1)


def test_pads_that_no_field_holds_are_named() -> None:
    config = load_config("vtaq-1x16x16")
    tile = VirtualTile(Memory.INP, 40, "image")
    load = TileLoad(Memory.INP, tile, 0, DramTile("x", 0), 1, 4, 4, x_pad_0=16)
    with pytest.raises(LoweringError, match=r"image.*\[0, 15\]"):
        build_program(
            VtaProgram(config, {"x": Address(2, 0), UOP_TENSOR: Address(1, 0)}, [("l", load)])
        )


def test_a_stage_that_runs_ahead_waits_before_a_queue_overflows() -> None:
    """600 tiles that all have room, each loaded for one GEMM: 600 tokens, 255 of which a queue
    holds."""
    config = load_config("vtaq-1x16x16")
    sums, weights = VirtualTile(Memory.ACC, 1, "sums"), VirtualTile(Memory.WGT, 1, "weights")
    operations: list[Operation] = [
        TileLoad(Memory.WGT, weights, 0, DramTile("w", 0), 1, 1, 1),
        FillNest((1,), Access(sums, 0, (0,)), 0),
    ]
    for number in range(600):
        image = VirtualTile(Memory.INP, 1, "image")
        operations.append(TileLoad(Memory.INP, image, 0, DramTile("x", 2 * number), 1, 1, 1))
        operations.append(
            GemmNest((1,), Access(sums, 0, (0,)), Access(image, 0, (0,)), Access(weights, 0, (0,)))
        )
    operations.append(TileStore(sums, 0, DramTile("y", 0), 1, 1, 1))
    places = {
        "w": Address(0, 0),
        UOP_TENSOR: Address(1, 0),
        "x": Address(2, 0),
        "y": Address(2, 1 << 16),
    }
    program = build_program(
        VtaProgram(config, places, [("l", operation) for operation in operations])
    )
    assert 100 < program.tokens["load->compute"] <= 255
    assert waiting_tokens(list(decode_stream(program.instruction_bytes(), config))) <= 255


def waiting_tokens(insns: list[Insn]) -> int:
    """The most tokens from load to compute that wait when load runs as far ahead as it may: what
    compute must have popped by a load's turn it has popped, and no more."""
    tokens = tokens_of(insns)
    assert tokens is not None
    popper = {push: pop for (push, _), (pop, _) in tokens if stage_of(insns[push]) is Stage.LOAD}
    pusher = {pop: push for (push, _), (pop, _) in tokens if stage_of(insns[pop]) is Stage.LOAD}
    most = popped = pushed = 0
    pops = sorted(popper.values())
    for number, insn in enumerate(insns):
        if stage_of(insn) is not Stage.LOAD:
            continue
        if number in pusher:  # compute has come as far as the instruction that let load go on
            popped = max(popped, sum(pop <= pusher[number] for pop in pops))
        pushed += number in popper
        most = max(most, pushed - popped)
    return most


def test_what_fits_only_when_packed_is_packed() -> None:
    """A tile of constants lands behind the last sums, in the middle of ACC; beside it the next sums
    have no window."""
    config = load_config("vtaq-tiny")
    depth = config.depth(Memory.ACC)
    first, second = (
        VirtualTile(Memory.ACC, depth // 2, "first"),
        VirtualTile(Memory.ACC, depth - 32, "second"),
    )
    constants = VirtualTile(Memory.ACC, 21, "constants")
    operations: list[Operation] = [
        FillNest((first.size_tiles,), Access(first, 0, (1,)), 0),
        TileStore(first, 0, DramTile("y", 0), 1, first.size_tiles, first.size_tiles),
        TileLoad(Memory.ACC, constants, 0, DramTile("p", 0), 1, 21, 21),
        FillNest((second.size_tiles,), Access(second, 0, (1,)), 0),
        RequantizeNest(
            (second.size_tiles,),
            Access(second, 0, (1,)),
            Access(constants, 0, (0,)),
            0,
            -128,
            127,
            Rounding.DOUBLE,
        ),
        TileStore(second, 0, DramTile("y", depth), 1, second.size_tiles, second.size_tiles),
    ]
    address = allocate(columns_of(operations), config).address
    assert (
        address[constants] >= address[second] + second.size_tiles
        or address[constants] + 21 <= address[second]
    )
