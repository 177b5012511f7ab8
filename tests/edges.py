"""Programs whose operands stand at the edges of what they may be, for every device.

In:   a device; a rounding.
Out:  programs of one GEMM or RQ instruction on many tiles, with what ACC then holds.
Next: simulator/test_sim.py runs them on every path of the simulator's inner loops,
simulator/test_kernels.py on other processors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from loadstone.graph.bfloat16 import bits_of
from loadstone.numerics import Rounding, rq
from loadstone.vta.hw_config import HwConfig, load_config
from loadstone.vta.isa.codec import encode_stream, encode_uops
from loadstone.vta.isa.insn import Alu, Config, Finish, Gemm, Insn, Load, MicroOp
from loadstone.vta.isa.spec import AluOp, Capability, ConfigRegister, Memory, Stage
from tests.programs import BASE, Program

__all__ = ["gemm_edges", "requantization_edges"]

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
        yield _program(config, [(Memory.ACC, tiles)], [MicroOp(0, 1)], insns), expected


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
        yield _program(config, data, [MicroOp(k, k, k) for k in range(tiles)], [gemm])


def _program(
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
