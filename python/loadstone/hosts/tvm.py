# SPDX-License-Identifier: Apache-2.0
"""Artifacts as functions of a TVM runtime module: `relax.ext.loadstone`.

In:   a Relax module, a target.
Out:  the same module with functions for Loadstone (`partition`), or with their artifacts in it as C
      text on tvm_ffi's stable ABI (`codegen`); the compiler's options for export_library.
Next: tvm.compile, export_library; a process with TVM's runtime and libloadstone alone runs it. The
      C text includes runtime/hosts/tvm/lds_tvm.h.

    module = hosts.tvm.partition("net.tflite", "vtaq-1x16x16")    # functions with Codegen
    module = hosts.tvm.codegen(module, "vtaq-1x16x16", device="uio:/dev/uio0")
    built = tvm.compile(module, "llvm")
    built.export_library("net.so", **hosts.tvm.link())
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from loadstone.artifact.format import Artifact, HostStep
from loadstone.backend.target import Target, TargetSource, resolve
from loadstone.compiler import compile as compile_model
from loadstone.errors import UnsupportedError
from loadstone.files import source_folder
from loadstone.frontend import load
from loadstone.hosts.offload import OFFLOADED, Offload, divided_module, offload
from loadstone.library.native import library_file
from loadstone.partition.relax_parts import renamed, variables
from loadstone.partition.relax_region import region_as_relax
from loadstone.relax.byoc import NUMERICS, numerics_of
from loadstone.relax.compat import bindings, relax, result, tvm
from loadstone.relax.compat import codegen as codegen_of

if TYPE_CHECKING:
    from loadstone.backend.interface import Segment
    from loadstone.frontend import Model
    from loadstone.relax.types import BlockBuilder, Expr, IRModule, RelaxFunction, Var

__all__ = ["codegen", "link", "partition"]

#: Functions of an exported library besides the artifacts: runtime/hosts/tvm/lds_tvm.h.
_OWN = ("loadstone_device", "loadstone_memory", "loadstone_copied_bytes", "loadstone_share_memory")


def partition(model: Model, target: TargetSource, symbol: str = OFFLOADED) -> IRModule:
    """A model file or a Relax module, with what Loadstone runs alone in functions `symbol`_0,
    `symbol`_1 ... that carry `Codegen`; the rest of `main` stays Relax, for TVM to compile.

    Raises UnsupportedError where no operator goes to an accelerator of the target.
    """
    parts = offload(divided_module(load(model), resolve(target)))
    if not parts.segments:
        why = next(iter(parts.reasons.values()), "it has no operators")
        raise UnsupportedError(f"no part of the model runs on {target}: {why}")
    return _Rewriting(parts, symbol).module()


class _Rewriting:
    """`main` anew, the bindings of each segment replaced by one call."""

    def __init__(self, parts: Offload, symbol: str) -> None:
        self.parts = parts
        self.symbol = symbol
        self.fused = parts.partition.module
        self.main = self.fused["main"]
        self.builder: BlockBuilder = relax.BlockBuilder(_with_functions_of(self.fused))
        self.fresh: dict[Var, Var] = {}

    def module(self) -> IRModule:
        """With the functions of the segments; composite functions that stay are inlined."""
        named = self.parts.partition.variables
        segment_of = {
            named[tensor.name]: segment
            for segment in self.parts.segments
            for operator in segment.operators
            for tensor in operator.outputs
        }
        callees = {
            segment.name: self.builder.add_func(self._function(segment, number), self._name(number))
            for number, segment in enumerate(self.parts.segments)
        }
        parameters = [relax.Var(v.name, v.ty) for v in self.main.params]
        self.fresh.update(zip(self.main.params, parameters, strict=True))
        attributes = dict(self.main.attrs.items()) if self.main.attrs else {}
        with self.builder.function("main", parameters, attrs=attributes):
            with self.builder.dataflow():
                self._emit(segment_of, callees)
                outputs = [self.fresh[variable] for variable in result(self.main)]
                one = outputs[0] if len(outputs) == 1 else relax.Tuple(outputs)
                output = self.builder.emit_output(one)
            self.builder.emit_func_output(output)
        inlined = relax.transform.InlinePrivateFunctions()(self.builder.finalize())
        return relax.transform.DeadCodeElimination(["main"])(inlined)

    def _name(self, number: int) -> str:
        return f"{self.symbol}_{number}"

    def _emit(self, segment_of: Mapping[Var, Segment], callees: Mapping[str, Expr]) -> None:
        """Bindings and calls, each as soon as what it reads is there."""
        pending: list[Any] = [
            (variable, value)
            for variable, value in bindings(self.main)
            if variable not in segment_of
        ] + [*self.parts.segments]
        named = self.parts.partition.variables
        while pending:
            waiting = []
            for entry in pending:
                needed = (
                    variables(entry[1])
                    if isinstance(entry, tuple)
                    else {named[tensor.name] for tensor in entry.inputs}
                )
                if not needed <= self.fresh.keys():
                    waiting.append(entry)
                elif isinstance(entry, tuple):
                    self.fresh[entry[0]] = self.builder.emit(renamed(entry[1], self.fresh))
                else:
                    self._call(entry, callees[entry.name])
            if len(waiting) == len(pending):
                raise AssertionError("a circle of segments")
            pending = waiting

    def _call(self, segment: Segment, callee: Expr) -> None:
        named = self.parts.partition.variables
        arguments = [self.fresh[named[tensor.name]] for tensor in segment.inputs]
        made = self.builder.emit(relax.Call(callee, arguments))
        targets = [named[tensor.name] for tensor in segment.outputs]
        for number, target in enumerate(targets):
            one = made if len(targets) == 1 else self.builder.emit(relax.TupleGetItem(made, number))
            self.fresh[target] = one

    def _function(self, segment: Segment, number: int) -> RelaxFunction:
        """One segment as a function of plain operators, which compile() reads again."""
        module = region_as_relax(self.parts.partition, segment)
        main = relax.transform.CanonicalizeBindings()(
            relax.transform.InlinePrivateFunctions()(module)
        )["main"]
        main = _with_rules(main, _rules_of(self.fused))
        return main.with_attr("Codegen", OFFLOADED).with_attr("global_symbol", self._name(number))


def _with_rules(function: RelaxFunction, rules: str) -> RelaxFunction:
    """The function, rounded by these rules unless it says others itself. "": none."""
    said = function.attrs and NUMERICS in function.attrs
    return function.with_attr(NUMERICS, rules) if rules and not said else function


def _rules_of(module: IRModule) -> str:
    """Of `main`: TVM's passes give its attributes to no function that they make of a part of it."""
    for variable, function in module.functions.items():
        if variable.name_hint == "main" and function.attrs and NUMERICS in function.attrs:
            return str(function.attrs[NUMERICS])
    return ""


def _with_functions_of(module: IRModule) -> IRModule:
    """All functions but main, under the same variables."""
    return tvm.IRModule({v: f for v, f in module.functions.items() if v.name_hint != "main"})


# --- functions to artifacts -----------------------------------------------------------------------
def codegen(module: IRModule, target: TargetSource, device: str = "sim") -> IRModule:
    """Compiles the functions whose `Codegen` is loadstone, or names a back end of the target.

    device: the name of one as lds_easy.h takes it, unless the process that runs the module names
        another, by its function `loadstone_device` or by LOADSTONE_DEVICE.
    Raises UnsupportedError for a function that needs Loadstone's compiler at run time.
    """
    names = {OFFLOADED, *(backend.name for backend in resolve(target).backends)}
    rules = _rules_of(module)
    for variable, function in module.functions.items():
        if codegen_of(function) in names:
            module[variable] = _with_rules(function, rules).with_attr("Codegen", OFFLOADED)
    _pending.append((resolve(target), device))
    try:
        return relax.transform.RunCodegen()(module)
    finally:
        _pending.pop()


#: What `codegen` compiles for: options of RunCodegen hold texts, and a target need not be one.
_pending: list[tuple[Target, str]] = []


def _register() -> None:
    name = f"relax.ext.{OFFLOADED}"
    if tvm.get_global_func(name, allow_missing=True) is None:
        tvm.register_global_func(name, _modules)


def _modules(functions: Sequence[RelaxFunction], options: Any, constants: Any) -> list[Any]:
    """RunCodegen asks for the modules of its functions; one holds them all. options: `target` and
    `device`, where RunCodegen({"loadstone": {...}}) is called, and not `codegen`."""
    if not _pending and "target" not in options:
        raise UnsupportedError(
            "relax.ext.loadstone: no target: call loadstone.hosts.tvm.codegen, or "
            'RunCodegen({"loadstone": {"target": NAME}})'
        )
    target, device = (
        _pending[-1]
        if _pending
        else (resolve(_source(options["target"])), str(options.get("device", "sim")))
    )
    found = {str(f.attrs["global_symbol"]): _artifact(f, target) for f in functions}
    create = tvm.get_global_func("runtime.CSourceModuleCreate")
    return [create(_c_text(found, device), "c", [*found, *_OWN], [])]


def _source(option: object) -> TargetSource:
    """A target of TVM's as it is, a text of TVM's as Python's."""
    return option if isinstance(option, tvm.target.Target) else str(option)


# `import loadstone.hosts.tvm` is what makes RunCodegen know it.
_register()


def _artifact(function: RelaxFunction, target: Target) -> Artifact:
    symbol = str(function.attrs["global_symbol"])
    main = function.without_attr("Codegen").with_attr("global_symbol", "main")
    module = relax.transform.InlinePrivateFunctions()(
        relax.transform.LambdaLift()(tvm.IRModule({"main": main}))
    )
    module["main"] = _with_rules(module["main"], numerics_of(module))
    artifact = compile_model(relax.transform.CanonicalizeBindings()(module), target.spec).artifact
    for step in artifact.steps:
        if isinstance(step, HostStep) and step.function:
            raise UnsupportedError(
                f"function {symbol}: step {step.name!r} needs Python at run time: leave its "
                "operator out of the function (hosts.tvm.partition does)"
            )
    return artifact


def _c_text(found: Mapping[str, Artifact], device: str) -> str:
    """C, and C++ as well: export_library gives it to a C++ compiler."""
    text = [f"#define LDS_TVM_DEVICE {_quoted(device.encode())}", '#include "lds_tvm.h"']
    for symbol, artifact in found.items():
        data = artifact.to_bytes()
        rows = (_quoted(data[at : at + 64]) for at in range(0, len(data), 64))
        text += [
            f"static const char __attribute__((aligned(64))) {symbol}_lds[] =",
            *rows,
            ";",
            f'static lds_tvm_function {symbol}_function = {{"{symbol}", '
            f"(const unsigned char *){symbol}_lds, {len(data)}, NULL}};",
            _entry(symbol, f"lds_tvm_call(&{symbol}_function, args, count, result)"),
        ]
    functions = ", ".join(f"&{symbol}_function" for symbol in found)
    table = f"loadstone_functions, {len(found)}"
    text += [
        f"static lds_tvm_function *const loadstone_functions[] = {{{functions}}};",
        _entry("loadstone_device", "lds_tvm_set_device(args, count, result)"),
        _entry("loadstone_memory", f"lds_tvm_memory({table}, args, count, result)"),
        _entry("loadstone_copied_bytes", f"lds_tvm_copied({table}, args, count, result)"),
        _entry(_OWN[3], f"((void)args, (void)count, lds_tvm_share({table}, result))"),
        "__attribute__((destructor)) static void loadstone_close(void) "
        f"{{ lds_tvm_close({table}); }}",
    ]
    return "\n".join(text) + "\n"


def _entry(symbol: str, call: str) -> str:
    return (
        f"LDS_TVM_EXPORT int __tvm_ffi_{symbol}(void *self, const TVMFFIAny *args, int32_t count, "
        f"TVMFFIAny *result) {{ (void)self; return {call}; }}"
    )


def _quoted(data: bytes) -> str:
    """A string literal: three octal digits end an escape whatever follows."""
    return '"' + "".join(f"\\{byte:03o}" for byte in data) + '"'


def link(rpath: bool = True) -> dict[str, Any]:
    """Arguments of export_library and Executable.jit: where the headers and libloadstone are.

    rpath: the exported library finds libloadstone.so where it is now; else where the system does.
    """
    library = library_file()
    root = source_folder()
    folders = ("runtime/hosts/tvm", "runtime/hosts/include", "runtime/include", "driver/include")
    options = [f"-I{root / folder}" for folder in folders]
    options += [f"-L{library.parent}", "-Wl,--no-as-needed", "-lloadstone"]
    return {"options": [*options, *([f"-Wl,-rpath,{library.parent}"] if rpath else [])]}
