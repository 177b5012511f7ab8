# SPDX-License-Identifier: Apache-2.0
"""The only place that knows TVM names that changed, and the few questions that every stage asks
Relax.

In:   a TVM that releases.py knows.
Out:  modules under stable names; helpers that read expressions as Python values and rebuild
      functions.
Next: frontend/, partition/patterns/, partition/eager.py and the stages import this, never TVM
      itself; targets.py and saved.py have the longer answers.
"""

from __future__ import annotations

import os
import pkgutil
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from loadstone.errors import (
    LoadstoneError,
    LoweringError,
    ModelError,
    UnsupportedError,
    VerificationError,
    python_too_old,
)
from loadstone.numerics import Array
from loadstone.relax.releases import series
from loadstone.relax.room import check_room, hidden

if TYPE_CHECKING:
    from loadstone.relax.types import (
        BlockBuilder,
        Buffer,
        BufferLoad,
        Call,
        DFPattern,
        Expr,
        IRModule,
        Pass,
        PrimFunc,
        RelaxFunction,
        Type,
    )


if python_too_old():
    raise LoadstoneError(python_too_old())
check_room()
# tvm_ffi imports PyTorch wherever it is installed: 1.5 s and 200 MB. Where a library lacks what a
# Python module of TVM's asks for, the first such error reads the symbols of all of TVM, which takes
# as long as importing it: TVM's sessions of many processes ask for such a thing.
with hidden("torch", "tvm.runtime.disco"):
    _IS_0_26 = series() == "0.26"
    import tvm
    import tvm_ffi
    from tvm import relax, s_tir, te, tirx
    from tvm.ir import SourceName, Span
    from tvm.relax import dpl
    from tvm.relax.transform import DeadCodeElimination, FuseOpsByPattern
    from tvm.s_tir import transform as s_tir_transform
    from tvm.tirx import transform as tirx_transform

__all__ = [
    "DeadCodeElimination",
    "FloatImm",
    "Function",
    "FuseOpsByPattern",
    "SBlockRealize",
    "TensorLoad",
    "Var",
    "abandoning",
    "bindings",
    "codegen",
    "codegen_of",
    "codegens",
    "constant",
    "constant_int64",
    "dpl",
    "dtype",
    "exact_constant",
    "external_names",
    "external_patterns",
    "extracted_match",
    "has_external",
    "integers",
    "is_call",
    "is_constant",
    "is_tir_call",
    "loaded_buffer",
    "name_of",
    "named",
    "onnx_importer",
    "op_name",
    "parsed_tir",
    "relax",
    "result",
    "retyped",
    "s_tir",
    "s_tir_transform",
    "scalar",
    "shape",
    "simplify_blocks",
    "structural_map",
    "structural_walk",
    "sym",
    "te",
    "tflite_importer",
    "tirx",
    "tirx_transform",
    "tvm",
    "uses",
    "value",
    "with_main",
]

Var = relax.Var
Function = relax.Function
FloatImm = tvm.tirx.FloatImm
# What 0.26 calls otherwise.
sym = tvm.arith if _IS_0_26 else tvm.sym
#: A load, to test for: of 0.27 `tirx.BufferLoad` is a function that makes one.
TensorLoad = tirx.BufferLoad if _IS_0_26 else tvm.ir.TensorLoad
SBlockRealize = (tirx if _IS_0_26 else s_tir).SBlockRealize
#: The pass that simplifies statements before blocks are gone.
simplify_blocks = (tirx_transform if _IS_0_26 else s_tir_transform).StmtSimplify
_Constant = relax.Constant if _IS_0_26 else tvm.ir.GenericConst
#: What a pass of ours raises inside TVM comes out as it is, not as a RuntimeError.
for _error in (LoweringError, ModelError, UnsupportedError, VerificationError):
    tvm_ffi.register_error(_error)
structural_map = tvm_ffi.structural_map
structural_walk = tvm_ffi.structural_walk
if os.environ.get("TVM_DEVICE_BACKEND_AUTOLOAD") == "0":
    # A command (__main__.py) imports TVM without what code generators for GPUs register in Python,
    # and so without what this switch of TVM's turns off besides: sorting and random numbers on the
    # host, and extensions (entry points `tvm.backends`).
    from tvm.backend import _autoload_backends as autoload

    os.environ["TVM_DEVICE_BACKEND_AUTOLOAD"] = "1"
    vars(autoload).update(_BUILTIN_BACKENDS=(), _AUTO_LOAD_DONE=False)  # TVM has no public ones
    autoload._autoload_backends()  # noqa: SLF001
    os.environ["TVM_DEVICE_BACKEND_AUTOLOAD"] = "0"


def parsed_tir(text: str) -> PrimFunc:
    """One function of TVM's script, in which `T` is TensorIR."""
    from tvm.script import from_source  # the parser is slow to import, and few need it

    return from_source(text)


@contextmanager
def abandoning(builder: BlockBuilder) -> Iterator[None]:
    """Ends the open block of a BlockBuilder when an exception leaves it: TVM would warn on
    stderr."""
    try:
        yield
    except BaseException:
        with suppress(Exception):
            builder._end_block()  # noqa: SLF001 (TVM has no public one)
        raise


#: A module of TVM's importers: classes to build on.
ImporterModule: TypeAlias = Any


def onnx_importer() -> ImporterModule:
    """TVM's module that imports ONNX; imported on demand, because it imports onnx."""
    from tvm.relax.frontend.onnx import onnx_frontend

    return onnx_frontend


def tflite_importer() -> ImporterModule:
    """TVM's module that imports TFLite; on demand as well."""
    from tvm.relax.frontend.tflite import tflite_frontend

    return tflite_frontend


def op_name(expr: Expr) -> str:
    """`nn.conv2d` of a call to relax.nn.conv2d; the Python class of anything else."""
    if isinstance(expr, relax.Call) and hasattr(expr.op, "name"):
        return str(expr.op.name).removeprefix("relax.")
    return type(expr).__name__


def is_call(expr: Expr, *names: str) -> bool:
    """Whether it is a call to one of these Relax operators."""
    return isinstance(expr, relax.Call) and op_name(expr) in names


def is_tir_call(expr: Expr, name: str) -> bool:
    """Whether a TensorIR expression calls the operator `name`, whatever its dialect's prefix
    ("tirx.", "prim.")."""
    return (
        type(expr).__name__ == "Call"
        and hasattr(expr.op, "name")
        and str(expr.op.name).rpartition(".")[2] == name
    )


def loaded_buffer(load: BufferLoad) -> Buffer:
    """The buffer that a TensorLoad reads."""
    return load.buffer if _IS_0_26 else load.source


def is_constant(expr: Expr) -> bool:
    """Whether it is a tensor constant."""
    return isinstance(expr, _Constant)


def constant(array: ArrayLike) -> Expr:
    """A tensor constant of the same shape; int64 becomes int32, and float64 float32."""
    return relax.const(np.array(array, order="C"))


def constant_int64(array: ArrayLike) -> Expr:
    """A tensor constant of the same shape, of int64."""
    return relax.const(np.array(array, np.int64), "int64")


def exact_constant(array: Array) -> Expr:
    """A tensor constant of the same shape and type, whatever type that is."""
    return relax.const(np.asarray(array, order="C"), array.dtype.name)


def value(expr: Expr) -> Array:
    """The array in a tensor constant (a copy), of the same shape and type."""
    return np.array((expr.data if _IS_0_26 else expr.value).numpy())


def scalar(expr: Expr) -> float | int:
    """The number in an argument: an immediate, or a constant of one element."""
    if is_constant(expr):
        return value(expr).reshape(-1)[0].item()  # type: ignore[no-any-return]
    return expr.value if hasattr(expr, "value") else expr  # type: ignore[no-any-return]


def integers(expr: Expr) -> tuple[int, ...]:
    """The numbers in an attribute, a shape or a tuple of immediates."""
    items = expr.fields if isinstance(expr, relax.Tuple) else expr
    return tuple(int(item) for item in items)


def shape(expr: Expr) -> tuple[int, ...] | None:
    """The static shape of a tensor expression; None where it is unknown, symbolic, or no tensor."""
    dimensions = getattr(expr.ty, "shape", None)
    if not isinstance(dimensions, relax.ShapeExpr):
        return None
    extents = dimensions.values[:]
    if any(not isinstance(extent, int | tvm.tirx.IntImm) for extent in extents):
        return None
    return tuple(map(int, extents))


def dtype(expr: Expr) -> str:
    """The element type of a tensor expression; empty when it is no tensor."""
    return str(getattr(expr.ty, "dtype", ""))


def bindings(function: RelaxFunction) -> Iterator[tuple[relax.Var, Expr]]:
    """(variable, value) in order."""
    for block in function.body.blocks:
        for binding in block.bindings[:]:  # a list: TVM's own iterator takes as long as a pass
            yield binding.var, binding.value


def result(function: RelaxFunction) -> tuple[relax.Var, ...]:
    """The variables, or constants, that the function returns, under their first names."""
    bound = dict(bindings(function))

    def first(variable: relax.Var) -> relax.Var:
        while isinstance(bound.get(variable), relax.Var):
            variable = bound[variable]
        return variable

    body = first(function.body.body)
    together = bound.get(body, body)
    return tuple(map(first, together.fields)) if isinstance(together, relax.Tuple) else (body,)


def with_main(module: IRModule) -> IRModule:
    """What a BlockBuilder made of a function "main", under that name: a variable that is called so
    takes it from the function, which becomes "main1"."""
    functions = dict(module.functions.items())
    symbols = {name: (f.attrs or {}).get("global_symbol") for name, f in functions.items()}
    main = functions.pop(next(name for name, symbol in symbols.items() if symbol == "main"))
    return tvm.IRModule({**functions, "main": main})


def retyped(expr: Expr, type_: Type) -> Expr:
    """An expression that no builder has seen, with the type that it has."""
    relax.expr._update_type(expr, type_)  # noqa: SLF001 (TVM has no public one)
    return expr


def extracted_match(
    pattern: DFPattern, expr: Expr, bound: Mapping[relax.Var, Expr]
) -> list[tuple[DFPattern, Expr]] | None:
    """What each part of a pattern matches, by TVM; None where it does not."""
    found = pattern.extract_matched_expr(expr, dict(bound))
    return None if found is None else list(found.items())


def uses(function: RelaxFunction) -> dict[relax.Var, int]:
    """How often each variable is read, the function's result included."""
    counts: dict[relax.Var, int] = {}

    def count(expr: Expr) -> None:
        if isinstance(expr, relax.Var):
            counts[expr] = counts.get(expr, 0) + 1
        elif isinstance(expr, relax.Tuple):
            for item in expr.fields:
                count(item)
        elif isinstance(expr, relax.TupleGetItem):
            count(expr.tuple_value)
        elif isinstance(expr, relax.Call):
            for item in expr.args:
                count(item)

    for _, bound in bindings(function):
        count(bound)
    count(function.body.body)
    return counts


@lru_cache(maxsize=1)
def external_names() -> tuple[str, ...]:
    """External code generators that TVM has patterns for, or a function `relax.ext.NAME`."""
    from tvm.relax.backend import contrib

    functions = [str(name) for name in tvm_ffi.registry.list_global_func_names()]
    built = [
        name.removeprefix("relax.ext.")
        for name in functions
        if re.fullmatch(r"relax\.ext\.\w+", name)
    ]
    return tuple(
        sorted({*(module.name for module in pkgutil.iter_modules(contrib.__path__)), *built})
    )


def has_external(name: str) -> bool:
    """Whether TVM can compile functions with `Codegen` of that name."""
    return tvm.get_global_func(f"relax.ext.{name}", allow_missing=True) is not None


def external_patterns(name: str) -> Pass:
    """The pass that puts what TVM's patterns of a code generator match into functions with
    `Codegen`, one each."""
    with suppress(ModuleNotFoundError):
        import_module(f"tvm.relax.backend.contrib.{name}")
    from tvm.relax.backend.pattern_registry import get_patterns_with_prefix

    return FuseOpsByPattern(
        get_patterns_with_prefix(f"{name}."), bind_constants=True, annotate_codegen=True
    )


def codegen_of(module: IRModule, expr: Expr) -> str | None:
    """The code generator of a function that an expression calls; None for anything else."""
    if not isinstance(expr, relax.Call) or not isinstance(expr.op, tvm.ir.GlobalVar):
        return None
    return codegen(module[expr.op])


def codegen(function: RelaxFunction) -> str | None:
    """The `Codegen` attribute of a function."""
    return (
        str(function.attrs["Codegen"]) if function.attrs and "Codegen" in function.attrs else None
    )


def codegens(module: IRModule) -> tuple[str, ...]:
    """The code generators of all functions of a module, in alphabetical order."""
    return tuple(
        sorted({name for function in module.functions.values() if (name := codegen(function))})
    )


def named(call: Call, name: str) -> Call:
    """The same call with a name from the model file, which survives TVM's passes as its span."""
    span = Span(SourceName(name), 0, 0, 0, 0)
    new = relax.Call(call.op, call.args, call.attrs, call.ty_args, span=span)
    return new if call.ty.is_missing() else retyped(new, call.ty)


def name_of(call: Call) -> str | None:
    """The name that `named` gave."""
    return str(call.span.source_name.name) if getattr(call, "span", None) is not None else None
