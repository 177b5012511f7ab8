# SPDX-License-Identifier: Apache-2.0
"""A machine of the living definition with random contents.

In:   a seed, a configuration.
Out:  `machine`; `execute` runs instructions on it.
Next: test_reference.py, test_reference_moves.py, test_reference_limits.py.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from loadstone.vta.device.hw_config import HwConfig, load_config
from loadstone.vta.isa.codec import encode_stream
from loadstone.vta.isa.insn import Finish, Insn
from loadstone.vta.isa.spec import Capability
from loadstone.vta.meaning.reference import DramBytes, Machine

__all__ = ["TINY", "execute", "machine"]

#: With every capability but weight_code, which needs blocks of more lanes.
TINY = replace(load_config("vtaq-tiny"), capabilities=~Capability.WEIGHT_CODE)


def machine(seed: int, config: HwConfig = TINY, regions: int = 1) -> Machine:
    """A device with random scratchpads."""
    rng = np.random.default_rng(seed)
    m = Machine(config, [DramBytes(rng.integers(0, 256, 4096, np.uint8)) for _ in range(regions)])
    for scratchpad in (m.inp, m.wgt, m.acc):
        limits = np.iinfo(scratchpad.dtype)
        scratchpad[:] = rng.integers(limits.min, limits.max, scratchpad.shape, endpoint=True)
    return m


def execute(m: Machine, *insns: Insn) -> None:
    """Runs them, then FINISH, as one program."""
    m.run(encode_stream([*insns, Finish()], m.config))
