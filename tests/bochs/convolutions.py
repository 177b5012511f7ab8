# SPDX-License-Identifier: Apache-2.0
"""Convolutions as programs: long rows of outputs that share their weights, and long lists of taps.

In:   a device.
Out:  programs of one GEMM each, with everything it reads: 3 x 3, 14 rows of 14 outputs; 1 x 1 of 80
      input channels' blocks; both with micro-ops as taps and with micro-ops as rows.
Next: test_avx512.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from loadstone.graph.bfloat16 import bits_of
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.insn import Gemm, MicroOp
from loadstone.vta.isa.spec import Memory
from tests.edges import one_program
from tests.programs import Program

__all__ = ["convolutions"]

_ROWS, _WIDTH, _OUTPUTS = 16, 16, 14
_BLOCKS = 80  # more than hw_sim/gemm_rows.inc takes at a time
_DEPTHS = {Memory.INP: _ROWS * _WIDTH, Memory.WGT: 128, Memory.ACC: 256}


def convolutions(config: HwConfig) -> Iterator[Program]:
    rng = np.random.default_rng(config.block)
    config = _with_room(config)
    lanes, block = config.batch * config.block, config.block
    data = [
        (Memory.INP, _elements(config, rng, (_ROWS * _WIDTH, lanes))),
        (Memory.WGT, _elements(config, rng, (_BLOCKS, block * block))),
        (Memory.ACC, np.zeros((_OUTPUTS**2, lanes), np.int32)),
    ]
    outputs = {
        "iter_out": _OUTPUTS,
        "iter_in": _OUTPUTS,
        "dst_out": _OUTPUTS,
        "dst_in": 1,
        "src_out": _WIDTH,
        "src_in": 1,
    }
    taps = [MicroOp(0, y * _WIDTH + x, 3 * y + x) for y in range(3) for x in range(3)]
    yield one_program(config, data, taps, [Gemm(uop_end=len(taps), **outputs)])
    blocks = [MicroOp(0, k, k) for k in range(_BLOCKS)]
    yield one_program(
        config, data, blocks, [Gemm(uop_end=_BLOCKS, iter_out=1, iter_in=9, dst_in=1, src_in=16)]
    )
    rows = [MicroOp(k, k + k // _OUTPUTS * 2, 0) for k in range(100)]
    loops = {"iter_out": 3, "iter_in": 3, "src_out": _WIDTH, "src_in": 1, "wgt_out": 3, "wgt_in": 1}
    yield one_program(config, data, rows, [Gemm(uop_end=len(rows), **loops)])


def _with_room(config: HwConfig) -> HwConfig:
    log = {m: (depth * config.tile_bytes(m)).bit_length() - 1 for m, depth in _DEPTHS.items()}
    return replace(
        config,
        name=f"{config.name}-convolutions",
        log_inp_buff=log[Memory.INP],
        log_wgt_buff=log[Memory.WGT],
        log_acc_buff=log[Memory.ACC],
    )


def _elements(
    config: HwConfig, rng: np.random.Generator, shape: tuple[int, int]
) -> NDArray[np.generic]:
    if config.is_float:
        return bits_of(rng.normal(size=shape).astype(np.float32))
    return rng.integers(-128, 128, shape).astype(np.int8)
