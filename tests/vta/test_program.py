"""program.py: allocate, fold, sync and encode, checked by running what comes out on the simulator
with its race check on."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from loadstone.backend.region import Place
from loadstone.errors import LoweringError
from loadstone.numerics import Rounding, requantize
from loadstone.simulator.sim import Simulator
from loadstone.vta.allocate import allocate
from loadstone.vta.fold import UOP_TENSOR, Draft
from loadstone.vta.hw_config import HwConfig, load_config
from loadstone.vta.isa.codec import decode_stream
from loadstone.vta.isa.spec import Memory, Opcode
from loadstone.vta.program import DeviceProgram, build_program
from loadstone.vta.stream import (
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
from loadstone.vta.sync import prove, synchronize

ZERO_POINT = -3


class Layer:
    """A square convolution with stride 1 and `same` padding, lowered by hand, tile by tile."""

    def __init__(
        self, rng: np.random.Generator, block: int, c: int, h: int, w: int, o: int, k: int
    ) -> None:
        self.c, self.h, self.w, self.o, self.k, self.block = c, h, w, o, k, block
        self.weights = rng.integers(-127, 128, (o, c, k, k, block, block)).astype(np.int8)
        self.bias = rng.integers(-9999, 9999, (o, block)).astype(np.int32)
        self.multiplier = rng.integers(1 << 30, 1 << 31, (o, block)).astype(np.int32)
        self.shift = np.full((o, block), -10, np.int32)

    def operations(self, x: str, y: str, rows: int, outputs: int) -> list[Operation]:
        p, ops, kk = self.k // 2, [], self.k * self.k
        for o0 in range(0, self.o, outputs):
            n = min(outputs, self.o - o0)
            rq = VirtualTile(Memory.ACC, 3 * n, "operands")
            ops.append(
                TileLoad(Memory.ACC, rq, 0, DramTile(y + ".operands", 3 * o0), 1, 3 * n, 3 * n)
            )
            for i0 in range(0, self.h, rows):
                h = min(rows, self.h - i0)
                acc = VirtualTile(Memory.ACC, n * h * self.w, "acc")
                inp = VirtualTile(Memory.INP, self.c * (h + 2 * p) * (self.w + 2 * p), "inp")
                wgt = VirtualTile(Memory.WGT, n * self.c * kk, "wgt")
                ops.append(FillNest((n * h * self.w,), Access(acc, 0, (1,)), 0))
                low, high, wide = max(0, i0 - p), min(self.h, i0 + h + p), self.w + 2 * p
                plane = (h + 2 * p) * wide
                for c in range(self.c):
                    tile = DramTile(x, c * self.h * self.w + low * self.w)
                    pads = {
                        "y_pad_0": low - i0 + p,
                        "y_pad_1": i0 + h + p - high,
                        "x_pad_0": p,
                        "x_pad_1": p,
                        "pad_value": ZERO_POINT,
                    }
                    ops.append(
                        TileLoad(
                            Memory.INP, inp, c * plane, tile, high - low, self.w, self.w, **pads
                        )
                    )
                count = n * self.c * kk
                ops.append(
                    TileLoad(
                        Memory.WGT,
                        wgt,
                        0,
                        DramTile(y + ".weights", o0 * self.c * kk),
                        1,
                        count,
                        count,
                    )
                )
                ops.append(
                    GemmNest(
                        (n, h, self.w, self.c, self.k, self.k),
                        Access(acc, 0, (h * self.w, self.w, 1, 0, 0, 0)),
                        Access(inp, 0, (0, wide, 1, plane, wide, 1)),
                        Access(wgt, 0, (self.c * kk, 0, 0, kk, self.k, 1)),
                    )
                )
                dst, src = Access(acc, 0, (h * self.w, 1)), Access(rq, 0, (3, 0))
                ops.append(
                    RequantizeNest(
                        (n, h * self.w), dst, src, ZERO_POINT, -128, 127, Rounding.DOUBLE
                    )
                )
                ops.append(
                    TileStore(
                        acc,
                        0,
                        DramTile(y, o0 * self.h * self.w + i0 * self.w),
                        n,
                        h * self.w,
                        self.h * self.w,
                    )
                )
        return ops

    def expected(self, x: NDArray[np.int8]) -> NDArray[np.int8]:
        p = self.k // 2
        padded = np.pad(
            x.astype(np.int64), ((0, 0), (p, p), (p, p), (0, 0)), constant_values=ZERO_POINT
        )
        acc = np.zeros((self.o, self.h, self.w, self.block), np.int64)
        for y in range(self.k):
            for z in range(self.k):
                acc += np.einsum(
                    "chwi,ocai->ohwa",
                    padded[:, y : y + self.h, z : z + self.w],
                    self.weights[:, :, y, z].astype(np.int64),
                )
        acc += self.bias[:, None, None]
        out = (
            requantize(
                acc, self.multiplier[:, None, None], self.shift[:, None, None], Rounding.DOUBLE
            )
            + ZERO_POINT
        )
        return np.clip(out, -128, 127).astype(np.int8)

    def constants(self, y: str) -> dict[str, NDArray[Any]]:
        return {
            y + ".weights": self.weights,
            y + ".operands": np.stack([self.bias, self.multiplier, self.shift], 1),
        }


def network(
    config: HwConfig, rng: np.random.Generator, blocks: list[int], size: int, kernels: list[int]
) -> list[Layer]:
    pairs = zip(pairwise(blocks), kernels, strict=True)
    return [Layer(rng, config.block, c, size, size + 1, o, k) for (c, o), k in pairs]


def build(
    layers: list[Layer], config: HwConfig, rows: int, outputs: int
) -> tuple[DeviceProgram, dict[str, Place], NDArray[np.uint8]]:
    """The program, the places, and region 0's content. Region 1: micro-ops, 2: arena."""
    constants: dict[str, NDArray[Any]] = {}
    operations: list[tuple[str, Operation]] = []
    places = {UOP_TENSOR: Place(1, 0), "t0": Place(2, 0)}
    end = layers[0].c * layers[0].h * layers[0].w * config.block
    for k, layer in enumerate(layers):
        operations += [
            (f"layer{k}", op) for op in layer.operations(f"t{k}", f"t{k + 1}", rows, outputs)
        ]
        constants |= layer.constants(f"t{k + 1}")
        places[f"t{k + 1}"] = Place(2, end)
        end += layer.o * layer.h * layer.w * config.block
    data = bytearray()
    for name, value in constants.items():
        data += bytes(-len(data) % 1024)
        places[name] = Place(0, len(data))
        data += value.tobytes()
    return (
        build_program(operations, places, config),
        places,
        np.frombuffer(bytes(data), np.uint8).copy(),
    )


def run(
    program: DeviceProgram,
    constants: NDArray[np.uint8],
    x: NDArray[np.int8],
    size: int,
    config: HwConfig,
) -> tuple[Any, Simulator]:
    simulator = Simulator(config, races=True, uninitialised=True)
    arena = np.zeros(size, np.uint8)
    arena[: x.size] = x.view(np.uint8).reshape(-1)
    uops = program.uops if program.uops.size else np.zeros(1, np.uint32)
    for region, memory in enumerate((constants, uops, arena)):
        base = 0x100000 * (region + 1)
        simulator.map(base, memory)
        simulator.set_region(region, base, memory.nbytes, read_only=region < 2)
    result = simulator.run(program.instructions, cycle_limit=50_000_000)
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
    program, places, constants = build(layers, config, rows, outputs)
    total = sum(blocks) * size * (size + 1) * config.block
    arena, _ = run(program, constants, x, total, config)
    for k, layer in enumerate(layers):
        x = layer.expected(x)
        start = places[f"t{k + 1}"].offset_bytes
        np.testing.assert_array_equal(
            arena[start : start + x.size].view(np.int8), x.reshape(-1), err_msg=f"layer {k}"
        )


def sample() -> tuple[DeviceProgram, HwConfig]:
    config = load_config("vtaq-1x16x16")
    layers = network(config, np.random.default_rng(0), [2, 3, 2], 8, [3, 1])
    return build(layers, config, 2, 2)[0], config


def test_finish_is_last_and_every_token_is_taken() -> None:
    program, config = sample()
    stream = decode_stream(program.instructions, config)
    assert stream.opcode[-1] == Opcode.FINISH
    assert max(program.tokens.values()) <= 255


def test_content_that_is_still_there_is_not_loaded_again() -> None:
    program, _ = sample()
    assert program.loads_dropped > 0


def test_the_first_tap_overwrites_instead_of_a_reset_pass() -> None:
    program, config = sample()
    gemm = decode_stream(program.instructions, config).columns[Opcode.GEMM]
    assert gemm["overwrite"].any()
    assert not gemm["reset"].any()


def test_a_device_without_overwrite_resets() -> None:
    config = load_config("vtaq-1x16x16")
    from loadstone.vta.isa.spec import Capability

    config = replace(config, capabilities=config.capabilities & ~Capability.GEMM_OVERWRITE)
    layers = network(config, np.random.default_rng(0), [2, 3], 5, [3])
    program, places, constants = build(layers, config, 2, 2)
    gemm = decode_stream(program.instructions, config).columns[Opcode.GEMM]
    assert gemm["reset"].any()
    x = np.random.default_rng(1).integers(-128, 128, (2, 5, 6, 16)).astype(np.int8)
    arena, _ = run(program, constants, x, 5 * 5 * 6 * 16, config)
    want = layers[0].expected(x)
    np.testing.assert_array_equal(
        arena[places["t1"].offset_bytes :].view(np.int8), want.reshape(-1)
    )


def test_every_token_is_needed_or_proved_redundant() -> None:
    """Taking a token away (its push and its pop) leaves a hazard that the proof finds: no token is
    superfluous."""
    config = load_config("vtaq-1x16x16")
    layers = network(config, np.random.default_rng(0), [2, 3, 2], 6, [3, 1])
    drafts = drafts_of(layers, config)
    prove(drafts, config)
    flags = [(n, f) for n, d in enumerate(drafts) for f in ("push_prev", "push_next") if d.flags[f]]
    assert len(flags) > 10
    for number, flag in flags:
        without = remove_token(drafts, number, flag)
        if without[-1].flags != drafts[-1].flags:
            continue  # FINISH waits for the end of the other stages, which no tile shows
        with pytest.raises(LoweringError, match="not ordered"):
            prove(without, config)


def drafts_of(layers: list[Layer], config: HwConfig) -> list[Draft]:
    from loadstone.vta.allocate import allocate
    from loadstone.vta.fold import fold

    operations = [
        (f"l{k}", op)
        for k, layer in enumerate(layers)
        for op in layer.operations(f"t{k}", f"t{k + 1}", 2, 2)
    ]
    names = {op.dram.tensor for _, op in operations if isinstance(op, TileLoad | TileStore)}
    places = {
        name: Place(2 if "." not in name else 0, 1 << 20 | k << 16)
        for k, name in enumerate(sorted(names))
    }
    places[UOP_TENSOR] = Place(1, 0)
    allocation = allocate([op for _, op in operations], config)
    folded = fold([operations[n] for n in allocation.kept], allocation.address, places, config)
    from loadstone.vta.isa.spec import Stage

    return synchronize([*folded.drafts, Draft(Opcode.FINISH, Stage.COMPUTE, {}, [])], config)


def remove_token(drafts: list[Draft], number: int, flag: str) -> list[Draft]:
    """A copy in which push `flag` of instruction `number` and the pop that takes it are gone."""
    from loadstone.vta.isa.spec import Stage
    from loadstone.vta.sync import _QUEUES

    source = drafts[number].stage
    (_, target), (_, pop) = next(
        (q, f) for q, f in _QUEUES.items() if q[0] is source and f[0] == flag
    )
    turn = sum(d.flags[flag] for d in drafts[:number] if d.stage is source)
    pops = [n for n, d in enumerate(drafts) if d.stage is target and d.flags[pop]]
    copies = [replace(d, flags=dict(d.flags)) for d in drafts]
    copies[number].flags[flag] = 0
    copies[pops[turn]].flags[pop] = 0
    assert target in Stage
    return copies


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
        build_program([("l", load)], {"x": Place(2, 0), UOP_TENSOR: Place(1, 0)}, config)


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
    places = {"w": Place(0, 0), UOP_TENSOR: Place(1, 0), "x": Place(2, 0), "y": Place(2, 1 << 16)}
    program = build_program([("l", operation) for operation in operations], places, config)
    assert 100 < program.tokens["load->compute"] <= 255


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
    address = allocate(operations, config).address
    assert (
        address[constants] >= address[second] + second.size_tiles
        or address[constants] + 21 <= address[second]
    )
