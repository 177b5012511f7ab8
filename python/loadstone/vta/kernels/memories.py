# SPDX-License-Identifier: Apache-2.0
"""VTA's scratchpads as ir_pass/insert_dma_copy.py asks for them.

In:   a HwConfig, whose table of instructions says what each reaches.
Out:  `memory_table`: which instruction reads which scratchpad, and how much each holds.
Next: operators/kernels.py runs the pass with it.
"""

from __future__ import annotations

from functools import lru_cache

from loadstone.ir_pass.memory_table import MemoryTable
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.device.instruction_table import instruction_table
from loadstone.vta.isa.spec import AluOp, Capability
from loadstone.vta.kernels.emitter import ALU
from loadstone.vta.schedule.tile import OPERANDS_SHARE

__all__ = ["memory_table"]

#: By step of a nest, the instruction that executes it, and the field of a micro-op from which each
#: operand is reached. GEMM with reset fills.
_OPERANDS = {
    "fill": [("GEMM", "dst", {"reset": 1})],
    "gemm": [("GEMM", operand, {"reset": 0}) for operand in ("dst", "src", "wgt")],
    **{
        name: [("ALU", operand, {"alu_op": int(operation)}) for operand in ("dst", "src")]
        for name, operation in {**ALU, "rq": AluOp.RQ}.items()
    },
}


_WINDOWS = {
    name: [("DEPTHWISE", operand) for operand in ("dst", "src", "wgt")]
    for name in ("depthwise", "wide")
}


@lru_cache(maxsize=64)
def memory_table(config: HwConfig) -> MemoryTable:
    """The same object for equal devices."""
    table = instruction_table(config)
    share = {"acc": OPERANDS_SHARE}
    operands = _OPERANDS | (_WINDOWS if config.has(Capability.DEPTHWISE) else {})
    return MemoryTable.of(table, operands, stores=("STORE", "sram_base"), share=share)
