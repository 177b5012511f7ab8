# SPDX-License-Identifier: Apache-2.0
"""Programs whose operands or loops stand at the edges of what they may be, for every device.

In:   a device; a rounding.
Out:  programs of one GEMM or RQ instruction on many tiles, with what ACC then holds; programs of
      GEMM and RQ whose steps meet in the same tiles.
Next: vta/simulator/test_sim.py runs them on every path of the simulator's inner loops,
vta/simulator/test_kernels.py on other processors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from loadstone.graph.bfloat16 import bits_of
from loadstone.numerics import Rounding, rq
from loadstone.vta.device.hw_config import HwConfig, load_config
from loadstone.vta.isa.codec import encode_stream, encode_uops
from loadstone.vta.isa.insn import Alu, Config, Finish, Gemm, Insn, Load, MicroOp
from loadstone.vta.isa.spec import AluOp, Capability, ConfigRegister, Memory, Stage
from tests.programs import BASE, Program

__all__ = [
    "gemm_edges",
    "gemm_loops",
    "one_program",
    "requantization_edges",
    "requantization_loops",
]

INTEGERS = [0, 1, -1, 2, -2, 127, -128, 255, 0x1F00, 0x9F, 1 << 23, (1 << 24) + 1]
INTEGERS += [1 << 30, (1 << 30) - 1, -(1 << 30), (1 << 31) - 1, -(1 << 31)]
FLOATS = [
    0.0,
    -0.0,
    0.5,
    -0.5,
    1.5,
    1e-45,
    3e38,
    -3e38,
    float("inf"),
    float("-inf"),
    float("nan"),
    0.0019,
    1 / 3,
]
#: zero point, min, max
CLAMPS = [
    (0, -128, 127),
    (-128, -128, 127),
    ((1 << 31) - 1, -(1 << 31), (1 << 31) - 1),
    (5, 100, -100),
]
#: Elements whose products and sums leave float32 at both ends, and numbers between.
FLOAT_ELEMENTS = bits_of(
    np.array([3e38, -3e38, 1e-20, -1e-20, 3e-39, 1.0, -1.0, 1.0078125, 0.0, -0.0], np.float32)
)
#: Both ends of int32.
SUMS = [(1 << 31) - 1, -(1 << 31), 0]
_STEPS = 400


def requantization_edges(rounding: Rounding) -> Iterator[tuple[Program, NDArray[np.int32]]]:
    """For each clamp: RQ on 400 tiles, and the results, in every fourth tile of ACC."""
    config = load_config("vtaq-1x16x16")
    rng = np.random.default_rng(0)
    edges = np.array(
        [*INTEGERS, *np.array(FLOATS, np.float32).view(np.int32).tolist()], np.int64
    ).astype(np.int32)
    tiles = rng.choice(edges, (_STEPS, 4, 16))  # acc, bias, multiplier, shift
    tiles[::2, 3] = rng.integers(-(1 << 31), 1 << 31, (_STEPS // 2, 16))
    for zero_point, low, high in CLAMPS:
        registers = {
            ConfigRegister.RQ_ROUNDING: rounding,
            ConfigRegister.RQ_ZERO_POINT: zero_point,
            ConfigRegister.RQ_MIN: low,
            ConfigRegister.RQ_MAX: high,
        }
        insns = [
            *(
                Config(stage=Stage.COMPUTE, register_id=register, value=value)
                for register, value in registers.items()
            ),
            Alu(alu_op=AluOp.RQ, uop_end=1, iter_out=1, iter_in=_STEPS, dst_in=4, src_in=4),
        ]
        expected = rq(
            *tiles.transpose(1, 0, 2), zero_point=zero_point, low=low, high=high, rounding=rounding
        )
        yield one_program(config, [(Memory.ACC, tiles)], [MicroOp(0, 1)], insns), expected


def gemm_edges(config: HwConfig) -> Iterator[Program]:
    """GEMM of bytes that are -128 or 127, mostly of one sign, onto sums at both ends of int32;
    overwriting where the device can. Of floats such whose products are beyond float32, and too
    small for it."""
    tiles = min(8, *(config.depth(m) for m in (Memory.INP, Memory.WGT, Memory.ACC)))
    rng = np.random.default_rng(config.block)
    elements, accumulators = (
        (FLOAT_ELEMENTS, bits_of(np.array(FLOATS, np.float32)).astype(np.uint32) << np.uint32(16))
        if config.is_float
        else (np.array([-128, -128, -128, 127], np.int8), np.array(SUMS, np.int32))
    )
    signs = rng.choice(elements, (tiles, config.batch * config.block))
    signs[0] = elements[0]
    weights = rng.choice(elements, (tiles, config.block**2))
    weights[0] = elements[0]
    sums = rng.choice(accumulators, (tiles, config.batch * config.block))
    data = [(Memory.INP, signs), (Memory.WGT, weights), (Memory.ACC, sums)]
    for overwrite in range(1 + config.has(Capability.GEMM_OVERWRITE)):
        gemm = Gemm(uop_end=tiles, iter_out=1, iter_in=1, overwrite=overwrite)
        yield one_program(config, data, [MicroOp(k, k, k) for k in range(tiles)], [gemm])


def gemm_loops(config: HwConfig) -> Iterator[Program]:
    """GEMMs of all shapes of loops on the same tiles: micro-ops of one destination, of one weight
    tile, and of neither; factors of 0 and others, by which steps meet or do not; weights that are
    zero outside the diagonal, sometimes or always; more rows and taps than a list of them holds.
    For devices of integers.
    """
    rng = np.random.default_rng(config.block + config.batch)
    depth = {memory: config.depth(memory) for memory in (Memory.INP, Memory.WGT, Memory.ACC)}
    tiles = {memory: min(48, depth[memory]) for memory in depth}
    for diagonals in (0.0, 0.5, 1.0):
        gemms: list[Insn] = []
        uops: list[MicroOp] = []
        for _ in range(14):
            gemm, listed = _gemm_of_loops(config, rng, tiles, len(uops))
            gemms.append(gemm)
            uops += listed
        yield one_program(config, _random_tiles(config, rng, tiles, diagonals), uops, gemms)


def requantization_loops(config: HwConfig) -> Iterator[Program]:
    """RQs whose steps write the operands of other steps, with each rounding and extreme clamps."""
    rng = np.random.default_rng(config.block)
    tiles = min(24, config.depth(Memory.ACC))
    lanes = config.batch * config.block
    for rounding in Rounding:
        insns: list[Insn] = []
        for zero_point, low, high in CLAMPS:
            values = (
                (ConfigRegister.RQ_ROUNDING, rounding),
                (ConfigRegister.RQ_ZERO_POINT, zero_point),
                (ConfigRegister.RQ_MIN, low),
                (ConfigRegister.RQ_MAX, high),
            )
            insns += [Config(stage=Stage.COMPUTE, register_id=r, value=v) for r, v in values]
            for _ in range(4):
                out, inner = (int(n) for n in rng.integers(1, 4, 2))
                factors = {
                    name: int(rng.integers(0, 2))
                    for name in ("dst_out", "dst_in", "src_out", "src_in")
                }
                insns.append(
                    Alu(alu_op=AluOp.RQ, uop_end=3, iter_out=out, iter_in=inner, **factors)
                )
        acc = rng.choice(np.array(INTEGERS, np.int64).astype(np.int32), (tiles, lanes))
        uops = [MicroOp(*(int(n) for n in rng.integers(0, tiles - 6, 2))) for _ in range(3)]
        yield one_program(config, [(Memory.ACC, acc)], uops, insns)


def _gemm_of_loops(
    config: HwConfig, rng: np.random.Generator, tiles: dict[Memory, int], begin: int
) -> tuple[Gemm, list[MicroOp]]:
    room = {
        "dst": tiles[Memory.ACC],
        "src": tiles[Memory.INP],
        "wgt": tiles[Memory.WGT],
    }
    turns = [1, 1, 2, 3, 5, 7]
    out, inner = int(rng.choice(turns)), int(rng.choice(turns))
    factors: dict[str, int] = {}
    for name, size in room.items():
        first, second = (int(f) for f in rng.choice([0, 0, 1, 2, 5], 2))
        if (out - 1) * first + (inner - 1) * second >= size:
            first = second = 0
        factors |= {f"{name}_out": first, f"{name}_in": second}
        room[name] -= (out - 1) * first + (inner - 1) * second
    kind = rng.integers(4)
    count = int(rng.choice([1, 2, 6, 9])) if kind else min(70, config.uop_depth // 28)
    drawn = {name: rng.integers(0, size, count) for name, size in room.items()}
    if kind < 2:
        drawn["dst"][:] = drawn["dst"][0]
    elif kind == 2:
        drawn["wgt"][:] = drawn["wgt"][0]
        drawn["dst"] = np.sort(drawn["dst"])
    overwrite = int(config.has(Capability.GEMM_OVERWRITE) and rng.random() < 0.4)
    gemm = Gemm(
        uop_bgn=begin,
        uop_end=begin + count,
        iter_out=out,
        iter_in=inner,
        overwrite=overwrite,
        **factors,
    )
    return gemm, [MicroOp(*(int(drawn[name][k]) for name in room)) for k in range(count)]


def _random_tiles(
    config: HwConfig, rng: np.random.Generator, tiles: dict[Memory, int], diagonals: float
) -> list[tuple[Memory, NDArray[np.generic]]]:
    """Contents of the three scratchpads, `diagonals` of the weight tiles zero elsewhere."""
    lanes, block = config.batch * config.block, config.block
    inputs = rng.integers(-128, 128, (tiles[Memory.INP], lanes)).astype(np.int8)
    weights = rng.integers(-128, 128, (tiles[Memory.WGT], block, block)).astype(np.int8)
    chosen = rng.random(tiles[Memory.WGT]) < diagonals
    weights[chosen] *= np.eye(block, dtype=weights.dtype)
    sums = np.zeros((tiles[Memory.ACC], lanes), np.int32)
    return [(Memory.INP, inputs), (Memory.WGT, weights), (Memory.ACC, sums)]


def one_program(
    config: HwConfig,
    data: Sequence[tuple[Memory, NDArray[np.generic]]],
    uops: list[MicroOp],
    insns: list[Insn],
) -> Program:
    """LOADs all data and micro-ops from tile 0 on, then `insns`, all in program order: LOAD INP and
    WGT push a token each."""
    memory, offset = np.zeros(0, np.uint8), 0 if config.has(Capability.REGIONS) else BASE
    loads: list[Insn] = []
    for kind, tiles in [*data, (Memory.UOP, encode_uops(uops, config))]:
        size = config.tile_bytes(kind)
        start = -(-(offset + memory.size) // size)
        memory = np.concatenate(
            [
                memory,
                np.zeros(start * size - offset - memory.size, np.uint8),
                tiles.reshape(-1).view(np.uint8),
            ]
        )
        count = tiles.size * tiles.itemsize // size
        pushes = int(kind in (Memory.INP, Memory.WGT))
        loads.append(
            Load(
                memory_id=kind,
                dram_base=start,
                y_size=1,
                x_size=count,
                x_stride=count,
                push_next=pushes,
            )
        )
        loads += [Load(memory_id=Memory.UOP, pop_prev=1)] * pushes
    objects = [*loads, *insns, Finish()]
    return Program(config, objects, encode_stream(objects, config), memory)
