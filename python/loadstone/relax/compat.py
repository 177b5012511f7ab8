"""The only place that knows TVM names that changed, and the few questions that every stage asks
Relax.

In:   the pinned TVM (see pyproject.toml).
Out:  modules under stable names; helpers that read expressions as Python values and rebuild
      functions.
Next: frontend/, partition/patterns/, partition/eager.py and the stages import this, never TVM
      itself.
"""

from __future__ import annotations

import json
import os
import pkgutil
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from loadstone.errors import DeviceError, ModelError, TargetError, UnsupportedError
from loadstone.files import JsonObject, JsonValue
from loadstone.numerics import Array

if TYPE_CHECKING:
    from loadstone.relax.types import (
        Attrs,
        BlockBuilder,
        Call,
        Expr,
        IRModule,
        Pass,
        RelaxFunction,
        Target,
        VirtualMachine,
    )


@contextmanager
def _hidden(package: str) -> Iterator[None]:
    """Inside it `import package` fails, unless it is imported already."""
    absent = package not in sys.modules
    if absent:
        sys.modules[package] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        if absent:
            del sys.modules[package]


with _hidden("torch"):  # tvm_ffi imports PyTorch wherever it is installed: 1.5 s and 200 MB
    import tvm
    import tvm_ffi
    from tvm import relax, s_tir, sym, te, tirx
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
    "TensorLoad",
    "Var",
    "abandoning",
    "accelerator_target",
    "bindings",
    "check_llvm_host",
    "codegen",
    "codegen_of",
    "codegens",
    "constant",
    "dpl",
    "dtype",
    "external_names",
    "external_patterns",
    "has_external",
    "integers",
    "is_call",
    "is_constant",
    "is_tir_call",
    "load_function",
    "missing_external",
    "name_of",
    "named",
    "onnx_importer",
    "op_name",
    "parameter_shapes",
    "quietly",
    "register_target_tag",
    "relax",
    "result",
    "run_module",
    "run_saved",
    "s_tir",
    "s_tir_transform",
    "save_function",
    "scalar",
    "shape",
    "structural_map",
    "structural_walk",
    "sym",
    "system_cpu",
    "target_as_json",
    "te",
    "tflite_importer",
    "tirx",
    "tirx_transform",
    "tvm",
    "uses",
    "value",
]

Var = relax.Var
Function = relax.Function
FloatImm = tvm.tirx.FloatImm
TensorLoad = tvm.ir.TensorLoad  # tirx.BufferLoad is a function that makes one
#: What a pass of ours raises inside TVM comes out as it is, not as a RuntimeError.
for _error in (ModelError, UnsupportedError):
    tvm_ffi.register_error(_error)
structural_map = tvm_ffi.structural_map
structural_walk = tvm_ffi.structural_walk


@contextmanager
def abandoning(builder: BlockBuilder) -> Iterator[None]:
    """Ends the open block of a BlockBuilder when an exception leaves it: TVM would warn on
    stderr."""
    try:
        yield
    except BaseException:
        with suppress(Exception):
            builder._end_block()
        raise


@contextmanager
def quietly() -> Iterator[None]:
    """Drops the warnings that TVM's C++ writes to stderr about code of its own making; what else
    comes there passes, at the end."""
    sys.stderr.flush()
    own = os.dup(2)
    with tempfile.TemporaryFile() as caught:
        os.dup2(caught.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(own, 2)
            os.close(own)
            caught.seek(0)
            os.write(2, b"".join(line for line in caught if b": Warning: " not in line))


def channels_last_conv2d(
    data: Expr,
    kernel: Expr,
    attrs: Attrs,
    *,
    kernel_layout: str = "OHWI",
    padding: Sequence[int] | None = None,
) -> Expr:
    """A convolution of NHWC data with the strides, dilation and groups of another one, and its
    padding unless given."""
    return relax.op.nn.conv2d(
        data,
        kernel,
        strides=integers(attrs.strides),
        padding=integers(attrs.padding) if padding is None else padding,
        dilation=integers(attrs.dilation),
        groups=int(attrs.groups),
        data_layout="NHWC",
        kernel_layout=kernel_layout,
    )


def system_cpu() -> str:
    """LLVM's name of the processor that this runs on."""
    return str(tvm.target.codegen.llvm_get_system_cpu())


def accelerator_target(
    device: str, attributes: Mapping[str, JsonValue], host: Mapping[str, str]
) -> Target:
    """TVM's target of an accelerator, to enter: attributes as JSON in `model`. Raises TargetError
    for a host that TVM refuses."""
    return _accelerator_target(device, json.dumps(dict(attributes)), tuple(host.items()))


@lru_cache(maxsize=64)
def _accelerator_target(device: str, model: str, host: tuple[tuple[str, str], ...]) -> Target:
    try:
        return tvm.target.Target(
            {"kind": "ext_dev", "device": device, "model": model, "host": dict(host)}
        )
    except (RuntimeError, ValueError, TypeError) as error:
        words = " ".join(f"{name}={value}" for name, value in host)
        raise TargetError(
            f"target: TVM refuses the host {words}: {' '.join(str(error).split())[:200]}"
        ) from None


def target_as_json(target: object) -> JsonObject | None:
    """A tvm.target.Target of accelerators as target_spec reads it; None for anything else. Raises
    TargetError for other kinds."""
    if not isinstance(target, tvm.target.Target):
        return None
    kind = str(target.kind.name)
    if kind not in ("ext_dev", "composite"):
        raise TargetError(
            f"target: a target of TVM of kind {kind} names no accelerator; it is ext_dev, or "
            "a composite of these"
        )
    devices = target.attrs["devices"] if kind == "composite" else [target]
    entries = [
        {"device": str(d.attrs.get("device", "")), **_attributes(str(d.attrs.get("model", "{}")))}
        for d in devices
    ]
    return {"kind": "composite", "accelerators": entries, "host": _host(target.host)}


def _attributes(model: str) -> JsonObject:
    """What register_tag and accelerator_target write into `model`; nothing where another tool wrote
    it."""
    with suppress(ValueError):
        said = json.loads(model)
        if isinstance(said, dict):
            return {name: value for name, value in said.items() if name != "device"}
    return {}


def _host(host: Target) -> dict[str, str]:
    """The host's kind, triple and processor, as far as they differ from those that TVM puts in by
    itself."""
    if host is None:
        return {"kind": "llvm"}
    usual = tvm.target.Target({"kind": str(host.kind.name)}).attrs
    said = {name: str(host.attrs[name]) for name in ("mtriple", "mcpu") if name in host.attrs}
    return {
        "kind": str(host.kind.name),
        **{name: value for name, value in said.items() if str(usual.get(name, "")) != value},
    }


#: How a triple may begin -> LLVM's name of the architecture, where they are not the same.
_ARCHITECTURES = (("arm64", "aarch64"), ("arm", "arm"), ("thumb", "thumb"), ("i", "i386"))
#: What a board's host is; LLVM has many more.
_USUAL = ("aarch64", "arm", "thumb", "riscv32", "riscv64", "x86_64")


@lru_cache(maxsize=64)
def check_llvm_host(mtriple: str, mcpu: str) -> None:
    """Raises TargetError for an architecture or a processor that this TVM's LLVM does not have:
    asked for one, TVM may crash."""
    names = [str(name) for name in tvm.target.codegen.llvm_get_targets()]
    if not mtriple and not mcpu:
        return
    first = mtriple.partition("-")[0]
    known = (
        first
        if first in names
        else next((name for begin, name in _ARCHITECTURES if first.startswith(begin)), first)
    )
    if mtriple and known not in names:
        usual = ", ".join(name for name in _USUAL if name in names)
        raise TargetError(
            f"target: host llvm -mtriple={mtriple}: this TVM's LLVM has no architecture "
            f"{first}; it has {usual} and others"
        )
    processors: list[str] = []
    for triple in (
        [mtriple] if mtriple else [f"{name}-linux-gnu" for name in _USUAL if name in names]
    ):
        target = tvm.target.Target({"kind": "llvm", "mtriple": triple})
        processors += [str(name) for name in tvm.target.codegen.llvm_get_cpu_archlist(target)]
    if mcpu and mcpu not in processors:
        near = ", ".join(get_close_matches(mcpu, processors, 4, 0.3)) or processors[0]
        where = known or f"{', '.join(_USUAL)}"
        raise TargetError(
            f"target: host llvm -mcpu={mcpu} is none of the {len(processors)} processors of "
            f"{where}: try {near}"
        )


def register_target_tag(name: str, config: Mapping[str, JsonValue]) -> None:
    """A name for a target; the last of a name stands."""
    tvm.target.register_tag(name, dict(config), override=True)


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


def is_constant(expr: Expr) -> bool:
    """Whether it is a tensor constant."""
    return isinstance(expr, tvm.ir.GenericConst)


def constant(array: ArrayLike) -> Expr:
    """A tensor constant; a NumPy scalar keeps its type."""
    return relax.const(np.array(array, order="C"))


def value(expr: Expr) -> Array:
    """The array in a tensor constant (a copy), of the same shape and type."""
    return np.array(expr.value.numpy())


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
    if any(not isinstance(extent, int | tvm.tirx.IntImm) for extent in dimensions):
        return None
    return integers(dimensions)


def dtype(expr: Expr) -> str:
    """The element type of a tensor expression; empty when it is no tensor."""
    return str(getattr(expr.ty, "dtype", ""))


def bindings(function: RelaxFunction) -> Iterator[tuple[relax.Var, Expr]]:
    """(variable, value) in order."""
    for block in function.body.blocks:
        for binding in block.bindings:
            yield binding.var, binding.value


def result(function: RelaxFunction) -> tuple[relax.Var, ...]:
    """The variables that the function returns, under the names that they were first bound to."""
    bound = dict(bindings(function))

    def first(variable: relax.Var) -> relax.Var:
        while isinstance(bound.get(variable), relax.Var):
            variable = bound[variable]
        return variable

    body = first(function.body.body)
    together = bound.get(body, body)
    return tuple(map(first, together.fields)) if isinstance(together, relax.Tuple) else (body,)


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


def save_function(module: IRModule) -> str:
    """A Host operator's module as text, for an artifact."""
    return str(tvm.ir.save_json(module))


def load_function(text: str) -> IRModule:
    """What `save_function` wrote."""
    return tvm.ir.load_json(text)


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


def missing_external(module: IRModule, backends: Sequence[str] = ()) -> str | None:
    """The first code generator of a module's functions that TVM does not have, as a message.
    backends: those of the target."""
    for variable, function in module.functions.items():
        if (name := codegen(function)) and not has_external(name):
            if name in backends:
                return (
                    f"function {variable.name_hint} carries Codegen {name}, a back end "
                    "that divides the network itself: leave that out"
                )
            return (
                f"function {variable.name_hint} is for code generator {name}, which this "
                f"TVM was built without (no relax.ext.{name})"
            )
    return None


def _with_externals(module: IRModule) -> IRModule:
    """The module, its functions with `Codegen` compiled by their generators. Raises DeviceError
    where one is not built in."""
    if missing := missing_external(module):
        raise DeviceError(missing)
    return (
        relax.transform.RunCodegen(entry_functions=["main"])(module) if codegens(module) else module
    )


def run_module(module: IRModule, inputs: Sequence[Array]) -> list[Array]:
    """`main` of a module on the host (TVM llvm); compiled once per module.

    inputs: one per parameter of `main`, each in the parameter's shape and type; the results come in
        the shapes that the module gives them.
    Raises what TVM raises: inputs of other shapes are for the caller to refuse.
    """
    if module not in _compiled:
        with quietly():
            executable = tvm.compile(
                _with_externals(module), target=tvm.target.Target({"kind": "llvm"})
            )
        _compiled[module] = relax.VirtualMachine(executable, tvm.cpu())
    outputs = _compiled[module]["main"](
        *(tvm.runtime.tensor(np.ascontiguousarray(array)) for array in inputs)
    )
    many = outputs if isinstance(outputs, list | tuple | tvm.ir.Array) else [outputs]
    return [np.array(output.numpy()) for output in many]


_compiled: dict[IRModule, VirtualMachine] = {}


@lru_cache(maxsize=64)
def _loaded(text: str) -> IRModule:
    return load_function(text)


def run_saved(text: str, inputs: Sequence[Array]) -> list[Array]:
    """`main` of a module that `save_function` wrote; inputs in the same shapes as there."""
    return run_module(_loaded(text), inputs)


def parameter_shapes(text: str) -> list[tuple[int, ...]]:
    """Shapes of the parameters of a module that `save_function` wrote."""
    return [shape(parameter) or () for parameter in _loaded(text)["main"].params]


def named(call: Call, name: str) -> Call:
    """The same call with a name from the model file, which survives TVM's passes as its span."""
    return relax.Call(
        call.op, call.args, call.attrs, call.ty_args, span=Span(SourceName(name), 0, 0, 0, 0)
    )


def name_of(call: Call) -> str | None:
    """The name that `named` gave."""
    return str(call.span.source_name.name) if getattr(call, "span", None) is not None else None
