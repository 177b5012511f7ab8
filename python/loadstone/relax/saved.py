# SPDX-License-Identifier: Apache-2.0
"""Host operators: modules of TVM that are saved in an artifact and run on the host.

In:   an IRModule, or the text that one was saved as; arrays.
Out:  that text; what the module computes, with the code generators that TVM was built with.
Next: artifact/host.py saves, runtime/externals.py runs, graph/reference.py runs as well.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from loadstone.errors import ArtifactError, DeviceError
from loadstone.numerics import Array
from loadstone.relax.compat import (
    bindings,
    codegen,
    codegens,
    has_external,
    is_call,
    relax,
    shape,
    tvm,
)
from loadstone.relax.extremes import EXTREMES
from loadstone.relax.quiet import quietly
from loadstone.relax.releases import series, series_of

if TYPE_CHECKING:
    from loadstone.relax.types import IRModule, VirtualMachine

__all__ = [
    "UNCHECKED",
    "load_function",
    "missing_external",
    "parameter_shapes",
    "run_module",
    "run_saved",
    "save_function",
]

#: Functions of an executable call each other alone: checks of their arguments are half of the code
#: that LLVM compiles. What `main` is given is checked by TVM's virtual machine.
UNCHECKED = {"tirx.disable_assert": True}
#: What TVM writes at the end of a text.
_VERSION = re.compile(r'"tvm_version":\s*"([^"]+)"')
#: Most operators run a few times: to compile one by LLVM's third level takes twice as long as by
#: the first, and what it gains is half of the time of functions element by element.
_OPT_LEVEL = 1


def save_function(module: IRModule) -> str:
    """A Host operator's module as text, for an artifact."""
    return str(tvm.ir.save_json(module))


def load_function(text: str) -> IRModule:
    """What `save_function` wrote. Raises ArtifactError where a TVM of another series did: its types
    have other names and fields, and TVM reads them without looking."""
    said = _VERSION.search(text, max(0, len(text) - 200))
    if said is None or series_of(said[1]) != series():
        by = f"by TVM {said[1]}" if said else "by no TVM that says its version"
        raise ArtifactError(
            f"an operator of the host was saved {by}, and this is TVM {tvm.__version__}: compile "
            "the model again with this one"
        )
    return tvm.ir.load_json(text)


def missing_external(module: IRModule, backends: Sequence[str] = ()) -> str | None:
    """The first code generator of a module's functions that TVM does not have, as a message.
    backends: those of the target."""
    for variable, function in module.functions.items():
        if (name := codegen(function)) and not has_external(name):
            if name in backends:
                return (
                    f"function {variable.name_hint} carries Codegen {name}, a back end "
                    "that divides the network itself: leave that out, or build for TVM's runtime "
                    "with loadstone.hosts.tvm.codegen"
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


def _with_extremes(module: IRModule) -> IRModule:
    """The largest and smallest of rows, and comparisons, as C computes them, where the module asks
    for some."""
    wanted = [name.removeprefix("relax.") for name in EXTREMES]
    if not any(is_call(call, *wanted) for _, call in bindings(module["main"])):
        return module
    steps = [relax.transform.DecomposeOpsForInference(), relax.transform.LegalizeOps({**EXTREMES})]
    with tvm.target.Target({"kind": "llvm"}):
        return tvm.ir.transform.Sequential(steps)(module)


def run_module(module: IRModule, inputs: Sequence[Array]) -> list[Array]:
    """`main` of a module on the host (TVM llvm); compiled once per module.

    inputs: one per parameter of `main`, each in the parameter's shape and type; the results come in
        the shapes that the module gives them.
    Raises what TVM raises: inputs of other shapes are for the caller to refuse.
    """
    if module not in _compiled:
        target = tvm.target.Target({"kind": "llvm", "opt-level": _OPT_LEVEL})
        with quietly(), tvm.transform.PassContext(config=UNCHECKED):
            executable = tvm.compile(_with_extremes(_with_externals(module)), target=target)
        _compiled[module] = relax.VirtualMachine(executable, tvm.cpu())
    outputs = _compiled[module]["main"](
        *(tvm.runtime.tensor(np.require(array, requirements="C")) for array in inputs)
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
