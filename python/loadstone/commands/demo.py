"""`loadstone demo`: what Loadstone does today, on a sample.

In:   nothing.
Out:  the devices; a program as text; what it computes, against NumPy.
Next: the same command shows more as the project grows.
"""

from __future__ import annotations

import argparse

import numpy as np

from loadstone.commands import devices
from loadstone.numerics import Rounding, rq, shift_lane
from loadstone.vta.hw_config import device_names, load_config
from loadstone.vta.isa.asm import assemble, disassemble
from loadstone.vta.isa.codec import decode_stream, encode_uops
from loadstone.vta.isa.insn import MicroOp
from loadstone.vta.reference import Machine, Region

__all__ = ["configure", "run"]

_DEVICE = "vtaq-1x16x16"
#: y = clamp(requantize(x * w + bias) - 3): 32 rows of 16 by a 16x16 matrix. Region 0 constants, 1 input, 2 output.
_PROGRAM = """\
load uop[0] = dram[0 + x] for x<2
load acc[32] = dram[16 + x] for x<3                  # bias, multiplier, shift
load inp[0] = dram1[0 + x] for x<32
load wgt[0] = dram[5 + x] for x<1 push(compute)
config compute rq_zero_point = -3
pop(load) gemm acc[u+1j] = inp[u+1j] * wgt[u] for i<1 j<32 u in 0..1
alu acc[u+1j] rq= acc[u] for i<1 j<32 u in 1..2 push(store)
pop(compute) store dram2[0 + x] = out[0] for x<32 push(compute)
pop(store) finish
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Takes no arguments."""


def run(args: argparse.Namespace) -> int:
    """Prints the three parts; 1 when the program computes something else than NumPy."""
    print("The devices\n")
    print(devices.table([load_config(name) for name in device_names()]))
    print(f"\nA program for {_DEVICE}: 32 rows of 16 by a 16x16 matrix, with bias, requantization and clamp\n")
    config = load_config(_DEVICE)
    program = assemble(_PROGRAM, config)
    print("\n".join(disassemble(decode_stream(program, config))))

    rng = np.random.default_rng(0)
    x, w = rng.integers(-128, 128, (32, 16), np.int8), rng.integers(-128, 128, (16, 16), np.int8)  # w: out, in
    operands = np.stack([rng.integers(-2000, 2000, 16), np.full(16, 1 << 30), np.full(16, shift_lane(-9))]).astype(np.int32)
    constants = np.zeros(6 * 256, np.uint8)
    for place, array in ((0, encode_uops([MicroOp(0, 0, 0), MicroOp(0, 32, 0)], config)), (16 * 64, operands), (5 * 256, w)):
        constants[place : place + array.nbytes] = array.view(np.uint8).reshape(-1)
    y = np.zeros(x.size, np.uint8)
    Machine(config, [Region(constants, writable=False), Region(x.view(np.uint8).reshape(-1)), Region(y)]).run(program)

    product = x.astype(np.int32) @ w.T.astype(np.int32)
    expected = rq(product, *operands, zero_point=-3, low=-128, high=127, rounding=Rounding.DOUBLE)
    differing = int(np.count_nonzero(y.view(np.int8).reshape(x.shape) != expected))
    print(f"\nRun on the reference: {y.size} results, {differing} differ from NumPy's")
    return 1 if differing else 0
