# SPDX-License-Identifier: Apache-2.0
"""Programs in a file that C reads, with everything that they must leave.

In:   programs.
Out:  a file: numbers are 8 bytes, the lowest first; bytes follow their count.
Next: tests/c/replay_kernels.cc reads it, on any processor.

The memory and the scratchpads are those of the reference; the cycles those of the simulator's
portable path here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from loadstone.vta.isa.spec import Capability, Memory
from tests.programs import BASE, Program
from tests.simulated import refer, simulate

__all__ = ["record"]


def record(programs: Sequence[Program], path: Path) -> None:
    """Writes them to `path`."""
    path.write_bytes(_numbers(len(programs)) + b"".join(_program(program) for program in programs))


def _program(program: Program) -> bytes:
    config = program.config
    after, machine = refer(program)
    cycles = simulate(program, kernels="portable")[2].cycles
    parts = [
        _bytes(config.configuration()),
        _numbers(
            config.bus_bits,
            config.profile == "vta",
            BASE,
            config.has(Capability.REGIONS),
            cycles,
            len(config.timing),
        ),
        *(
            _bytes(name.encode()) + _numbers(constant.value)
            for name, constant in config.timing.items()
        ),
        *(_bytes(array.tobytes()) for array in (program.insns, program.memory, after)),
    ]
    pads = {Memory.ACC: machine.acc, Memory.INP: machine.inp, Memory.WGT: machine.wgt}
    if config.is_float:
        pads |= {memory: _upper_halves(pads[memory]) for memory in (Memory.INP, Memory.WGT)}
        if np.isnan(machine.acc).any():  # which not-a-number a lane holds is not defined
            del pads[Memory.ACC]
    parts.append(_numbers(len(pads)))
    for memory, tiles in pads.items():
        parts += [_numbers(memory, len(tiles)), _mostly_zeros(tiles)]
    return b"".join(parts)


def _upper_halves(tiles: NDArray[np.float32]) -> NDArray[np.uint16]:
    """The bfloat16 that each is, bit for bit."""
    return (tiles.view(np.uint32) >> np.uint32(16)).astype("<u2")


def _numbers(*values: int) -> bytes:
    return np.array(values, "<i8").tobytes()


def _bytes(data: bytes) -> bytes:
    return _numbers(len(data)) + data


def _mostly_zeros(array: NDArray[np.generic]) -> bytes:
    """How many bytes, where the first is that is not zero, and all from there to the last that is
    not."""
    data = array.tobytes()
    first = len(data) - len(data.lstrip(b"\0"))
    return _numbers(len(data), first) + _bytes(data[first:].rstrip(b"\0"))
