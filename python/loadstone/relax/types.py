# SPDX-License-Identifier: Apache-2.0
"""The names of TVM's types, for annotations.

In:   the pinned TVM, when a type checker or an editor looks; at run time nothing is imported.
Out:  Expr, Var, Call, IRModule, PrimFunc ... under the names that our signatures use.
Next: every module that has TVM's objects in a signature imports them from here, under
      `if TYPE_CHECKING`; relax/compat.py is what they call.

TVM 0.27 has one `Expr`, one `Var` and one `Call` for Relax and TensorIR: `tvm.relax.Var` and
`tvm.tirx.Var` are the class `tvm.ir.Var`. mypy does not read TVM (see pyproject.toml), so that for
it each of these names is Any: they tell the reader, and an editor, what a value is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tvm.ir import Attrs, Call, Expr, GlobalVar, IRModule, Span, Type, Var
    from tvm.ir.transform import Pass
    from tvm.relax import BlockBuilder, VirtualMachine
    from tvm.relax import Function as RelaxFunction
    from tvm.relax.dpl import DFPattern
    from tvm.relax.frontend.tflite.tflite_frontend import TensorWrapper
    from tvm.relax.transform import PatternCheckContext
    from tvm.runtime import Tensor as TvmTensor
    from tvm.s_tir import Schedule
    from tvm.s_tir.schedule import LoopRV, SBlockRV
    from tvm.target import Target
    from tvm.te import Tensor as TeTensor
    from tvm.tirx import AllocBuffer, Buffer, BufferLoad, BufferStore, PrimFunc, Stmt

__all__ = [
    "AllocBuffer",
    "Attrs",
    "BlockBuilder",
    "Buffer",
    "BufferLoad",
    "BufferStore",
    "Call",
    "DFPattern",
    "Expr",
    "GlobalVar",
    "IRModule",
    "LoopRV",
    "Pass",
    "PatternCheckContext",
    "PrimFunc",
    "RelaxFunction",
    "SBlockRV",
    "Schedule",
    "Span",
    "Stmt",
    "Target",
    "TeTensor",
    "TensorWrapper",
    "TvmTensor",
    "Type",
    "Var",
    "VirtualMachine",
]
