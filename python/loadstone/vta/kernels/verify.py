# SPDX-License-Identifier: Apache-2.0
"""Are the operations of a kernel of nests those that its TensorIR is lowered to?

In:   a kernel that was read from nests, and the one that from_tir.py made of the same function.
Out:  nothing, or a LoweringError that names the first operation that differs.
Next: operators/kernels.py runs it on each new kernel, where passes/log.py says so.

TensorIR with dma_copy between DRAM and the scratchpads says what a kernel is, for all devices; that
nests are read directly is a matter of time alone.
"""

from __future__ import annotations

from itertools import zip_longest

from loadstone.errors import LoweringError
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.kernels.emitter import Emitter
from loadstone.vta.kernels.kernel import Kernel
from loadstone.vta.stream.operations import DramTile
from loadstone.vta.stream.text import OperationPrinter

__all__ = ["verify_kernel"]


def verify_kernel(kernel: Kernel, lowered: Kernel, config: HwConfig) -> None:
    """Raises LoweringError where the two do not emit the same."""
    if kernel.parameters != lowered.parameters:
        raise LoweringError(
            f"kernel: parameters {kernel.parameters} of nests are {lowered.parameters} in TensorIR"
        )
    both = zip_longest(_emitted(kernel, config), _emitted(lowered, config), fillvalue="nothing")
    for number, (ours, theirs) in enumerate(both):
        if ours != theirs:
            raise LoweringError(
                f"kernel: operation {number} of nests is `{ours}`, and of TensorIR `{theirs}`"
            )


def _emitted(kernel: Kernel, config: HwConfig) -> list[str]:
    """A line for each operation, and one for the pads."""
    emitter, printer = Emitter(config, {}), OperationPrinter()
    kernel.emit(emitter, *(DramTile(name, 0) for name in kernel.parameters))
    return [*map(printer.line, emitter.operations), f"pads {sorted(emitter.pad_values)}"]
