# SPDX-License-Identifier: Apache-2.0
"""Compile a float function for the CPU of this machine, fast enough to run it on hundreds of
samples.

In:   an IRModule in NHWC with HWIO kernels.
Out:  a callable of tensors (tvm.runtime.tensor), which returns a list of them.
Next: simulate.py.

TVM's default code sums a convolution's window innermost, one multiplication after the other. With
the output channels innermost instead, the compiler vectorizes them: fifteen times as fast.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from loadstone.relax.compat import quietly, relax, s_tir, tirx, tvm
from loadstone.relax.targets import system_cpu

if TYPE_CHECKING:
    from loadstone.relax.types import IRModule, PrimFunc, RelaxFunction, TvmTensor

__all__ = ["executable"]

#: LLVM's third level takes two to four times as long, and its code is no faster.
OPT_LEVEL = 2
#: Names that TVM gives the block of a convolution whose last loops are the output channel and then
#: the window.
_BLOCKS = ("conv2d_nhwc",)
#: Functions of the executable call each other alone: checks of their arguments are half of the code
#: that LLVM compiles, and compiling is most of what a calibration with few samples takes.
_UNCHECKED = {"tirx.disable_assert": True}


def executable(module: IRModule) -> Callable[[Sequence[TvmTensor]], list[TvmTensor]]:
    """`main` takes tensors and returns a tuple of them."""
    target = tvm.target.Target({"kind": "llvm", "mcpu": system_cpu(), "opt-level": OPT_LEVEL})
    with quietly(), target, tvm.transform.PassContext(config=_UNCHECKED):
        for step in ("LegalizeOps", "AnnotateTIROpPattern", "FoldConstant", "FuseOps", "FuseTIR"):
            module = getattr(relax.transform, step)()(module)
        scheduled = {
            variable: _scheduled(function) for variable, function in module.functions.items()
        }
        run = relax.VirtualMachine(tvm.compile(tvm.IRModule(scheduled), target=target), tvm.cpu())[
            "main"
        ]
    return lambda arguments: list(run(*arguments))


def _scheduled(function: RelaxFunction | PrimFunc) -> RelaxFunction | PrimFunc:
    if not isinstance(function, tirx.PrimFunc):
        return function
    schedule = s_tir.Schedule(tvm.IRModule({"main": function}))
    for name in _BLOCKS:
        try:
            block = schedule.get_sblock(name, func_name="main")
        except s_tir.ScheduleError:
            continue
        n, y, x, channel, *window = schedule.get_loops(block)
        schedule.reorder(n, y, x, *window, channel)
        schedule.decompose_reduction(block, window[0])
    return schedule.mod["main"].with_attrs(function.attrs)
