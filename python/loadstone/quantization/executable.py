# SPDX-License-Identifier: Apache-2.0
"""Compile a float function for the CPU of this machine, fast enough to run it on hundreds of
samples.

In:   an IRModule in NHWC with HWIO kernels.
Out:  a callable of tensors (tvm.runtime.tensor), which returns a list of them.
Next: simulate.py.

In TVM's default code for convolutions and products of matrices the sum is the innermost loop, one
multiplication after the other. With the output channels innermost instead, the compiler vectorizes
them: this is fifteen times as fast, and each sum is computed in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from math import prod
from typing import TYPE_CHECKING

from loadstone.relax.compat import relax, s_tir, tirx, tvm
from loadstone.relax.quiet import quietly
from loadstone.relax.saved import UNCHECKED
from loadstone.relax.targets import system_cpu

if TYPE_CHECKING:
    from loadstone.relax.types import (
        IRModule,
        PrimFunc,
        RelaxFunction,
        SBlockRV,
        Schedule,
        TvmTensor,
    )

__all__ = ["executable"]

#: LLVM's optimization level 3 takes two to four times as long, and its code is no faster.
OPT_LEVEL = 2
#: Names that TVM gives the blocks of sums whose loops are those of the result, its columns or
#: channels last, and then those of the sum.
_BLOCKS = ("conv2d_nhwc", "matmul")


def executable(module: IRModule) -> Callable[[Sequence[TvmTensor]], list[TvmTensor]]:
    """`main` takes tensors, and returns a tuple of them."""
    target = tvm.target.Target({"kind": "llvm", "mcpu": system_cpu(), "opt-level": OPT_LEVEL})
    with quietly(), target, tvm.transform.PassContext(config=UNCHECKED):
        for step in ("LegalizeOps", "AnnotateTIROpPattern", "FoldConstant", "FuseOps", "FuseTIR"):
            module = getattr(relax.transform, step)()(module)
        scheduled = {
            variable: _scheduled(function) for variable, function in module.functions.items()
        }
        run = relax.VirtualMachine(tvm.compile(tvm.IRModule(scheduled), target=target), tvm.cpu())[
            "main"
        ]
    return lambda arguments: run(*arguments)[:]


def _scheduled(function: RelaxFunction | PrimFunc) -> RelaxFunction | PrimFunc:
    if not isinstance(function, tirx.PrimFunc):
        return function
    schedule = s_tir.Schedule(tvm.IRModule({"main": function}))
    _inline(schedule)
    for name in _BLOCKS:
        try:
            block = schedule.get_sblock(name, func_name="main")
        except s_tir.ScheduleError:
            continue
        loops = schedule.get_loops(block)
        axes = schedule.get(block).iter_vars
        free = [axis.iter_type == tirx.IterVar.DataPar for axis in axes]
        *places, column = (loop for loop, is_free in zip(loops, free, strict=True) if is_free)
        window = [loop for loop, is_free in zip(loops, free, strict=True) if not is_free]
        schedule.reorder(*places, *window, column)
        schedule.decompose_reduction(block, window[0])
    return schedule.mod["main"].with_attrs(function.attrs)


def _inline(schedule: Schedule) -> None:
    """Computes an element where it is read, if it is read once, so that ten loops become one.

    Otherwise LLVM unrolls all ten where an image is small: four layers of a MobileNetV1 took four
    fifths of its compilation.
    """
    for block in schedule.get_child_blocks(schedule.get_sblock("root", func_name="main")):
        readers = schedule.get_consumers(block)
        if readers and all(_reads_once(schedule, block, reader) for reader in readers):
            with suppress(s_tir.ScheduleError):  # one that is a result of the function as well
                schedule.compute_inline(block)


def _reads_once(schedule: Schedule, block: SBlockRV, reader: SBlockRV) -> bool:
    """Whether both blocks are elementwise over the same number of elements, and inlining keeps all
    values.

    The operand of a sum is not inlined: LLVM would fuse its product with the sum, and round once
    instead of twice.
    """
    count = _elements(schedule, block)
    if count is None or count != _elements(schedule, reader):
        return False
    return not isinstance(schedule.get(reader).body.value, tirx.Add | tirx.Sub)


def _elements(schedule: Schedule, block: SBlockRV) -> int | None:
    """The elements of a block without sums; None for a block with sums."""
    axes = schedule.get(block).iter_vars
    if any(axis.iter_type != tirx.IterVar.DataPar for axis in axes):
        return None
    return prod(int(axis.dom.extent) for axis in axes)
