"""Every TVM name that has changed before and may change again, in one place.

In:   apache-tvm and apache-tvm-ffi at the versions pinned in pyproject.toml.
Out:  the modules, classes and passes that the compiler uses, under the names that it uses.
Next: everything else in the compiler imports TVM's names from here.
"""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import ir, s_tir, sym, te, tirx
from tvm.s_tir import transform as s_tir_transform
from tvm.tirx import transform as tirx_transform

__all__ = [
    "TensorLoad",
    "ir",
    "is_tir_call",
    "s_tir",
    "s_tir_transform",
    "structural_map",
    "structural_walk",
    "sym",
    "te",
    "tirx",
    "tirx_transform",
    "tvm",
]

TensorLoad = ir.TensorLoad  # tirx.BufferLoad is a function that makes one
structural_map = tvm_ffi.structural_map
structural_walk = tvm_ffi.structural_walk


def is_tir_call(expr: Any, name: str) -> bool:
    """Whether `expr` is a call of the operator `name`, whatever dialect prefix it has ("tirx.", "prim.")."""
    return type(expr).__name__ == "Call" and hasattr(expr.op, "name") and str(expr.op.name).rpartition(".")[2] == name
