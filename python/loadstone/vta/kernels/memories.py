# SPDX-License-Identifier: Apache-2.0
"""VTA's scratchpads as ir_pass/insert_dma_copy.py asks for them.

In:   a HwConfig.
Out:  `memory_table`: which instruction reads which scratchpad, and how much each holds.
Next: operators/kernels.py runs the pass with it.
"""

from __future__ import annotations

from functools import lru_cache

from loadstone.ir_pass.memory_table import MemoryTable
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.spec import Memory
from loadstone.vta.kernels.emitter import ALU, OPERAND_TILES
from loadstone.vta.schedule.tile import OPERANDS_SHARE

__all__ = ["memory_table"]


@lru_cache(maxsize=64)
def memory_table(config: HwConfig) -> MemoryTable:
    """The same object for equal devices."""
    alu = dict.fromkeys((*ALU, "fill", "rq"), ("acc",))
    memories = (Memory.INP, Memory.WGT, Memory.ACC)
    return MemoryTable(
        operands={**alu, "gemm": ("acc", "inp", "wgt")},
        depth_tiles={memory.name.lower(): config.depth(memory) for memory in memories},
        reach={("rq", 1): OPERAND_TILES},
        share={"acc": OPERANDS_SHARE},
    )
