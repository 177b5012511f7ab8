# SPDX-License-Identifier: Apache-2.0
"""The constants of a region as they stand in DRAM: weights in fewer bytes where all loads allow it.

In:   constants of operators, and the operations that load them.
Out:  HeldConstants: arrays with their alignments; which weights are packed, and how.
Next: offload.py passes them to the memory plan and to the passes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from loadstone.numerics import Array
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.spec import Memory
from loadstone.vta.operators.kernels import Constants
from loadstone.vta.region.pack_weights import coded_weights, has_whole_groups, packed_weights
from loadstone.vta.stream.operations import Operation

__all__ = ["HeldConstants"]


class HeldConstants:
    """arrays: by name, the constant and what its address is a multiple of, in bytes. packed: of
    weights, as VtaProgram has it."""

    def __init__(self, config: HwConfig) -> None:
        self.config = config
        self.arrays: dict[str, tuple[Array, int]] = {}
        self.packed: dict[str, NDArray[np.int64] | None] = {}

    def keep(self, constants: Constants, operations: Sequence[Operation]) -> None:
        """The constants of some operators. operations: all that load them."""
        for name, (memory, tiles) in constants.items():
            kind, held = Memory(memory), tiles
            self.packed.pop(name, None)
            if kind is Memory.WGT:
                packed = packed_weights(name, tiles, operations, self.config)
                if packed is not None:
                    kind, held, self.packed[name] = Memory.WGT_4BIT, packed, None
                elif (code := coded_weights(name, tiles, operations, self.config)) is not None:
                    kind = Memory.WGT_PLANES
                    held, self.packed[name] = code
            align = self.config.base_bytes(kind)
            if kind is Memory.WGT_PLANES:  # padding of INP may be loaded from it
                align = max(align, self.config.tile_bytes(Memory.INP))
            self.arrays[name] = (np.ascontiguousarray(held), align)

    def loaded_by(self, constants: Constants, operations: Sequence[Operation]) -> HeldConstants:
        """The same where other operations load some of the constants, as where layers take turns: a
        block of channels may be a part of a group of weights, which then stands there without."""
        other = HeldConstants(self.config)
        other.arrays |= self.arrays
        other.packed |= self.packed
        parted = {
            name: constant
            for name, constant in constants.items()
            if self.packed.get(name, constant) is None
            and not has_whole_groups(name, operations, self.config)
        }
        other.keep(parted, operations)
        return other
