# SPDX-License-Identifier: Apache-2.0
"""By what lanes are requantized: the operand tiles of RQ, and the registers of a stage.

In:   lanes.py; where the operands stand; what the registers hold.
Out:  `rq_parameters`: of each lane the parameters of FunctionKind.RQ.
Next: machine.py executes RQ, and STOREs that requantize, by them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from loadstone.prove.fingerprints import Integers
from loadstone.prove.lanes import SymbolLanes
from loadstone.prove.verdict import NotProved, Unsupported
from loadstone.vta.isa.spec import ConfigRegister, Stage

__all__ = ["rq_parameters"]

_ROUNDINGS = (0, 1, 2)


def rq_parameters(
    lanes: SymbolLanes,
    operands: Sequence[Integers],
    registers: Mapping[tuple[Stage, ConfigRegister], int],
    stage: Stage,
) -> Integers:
    """(n, 7). operands: (n,) each, the lanes of bias, multiplier and shift. Raises NotProved for a
    rounding that is none, and Unsupported for operands that are no constants."""
    if not all(lanes.is_number(at).all() for at in operands):
        raise Unsupported("RQ with operands that are no constants")
    fixed = [
        registers[stage, register]
        for register in ConfigRegister
        if register != ConfigRegister.PAD_VALUE
    ]
    if fixed[-1] not in _ROUNDINGS:
        raise NotProved(f"RQ with RQ_ROUNDING={fixed[-1]}, which is none")
    numbers = np.stack([lanes.numbers(at) for at in operands], 1)
    return np.hstack([numbers, np.tile(fixed, (len(numbers), 1))])
