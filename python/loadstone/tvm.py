# SPDX-License-Identifier: Apache-2.0
"""An accelerator that computes, for TVM's own flow of external code generators (BYOC).

In:   a model file or a Relax module of TVM's importers; a target.
Out:  patterns `loadstone.*` in TVM's table and `relax.ext.loadstone`, from the import on;
      `prepare`, which says what the target runs; `Npu`, the same in the shape of UMA; `target`.
Next: hosts/tvm.py compiles the functions that TVM's passes leave; docs/tvm-npu.md is the tutorial.

    module = loadstone.tvm.prepare("net.tflite", "vtaq-1x16x16")
    module = FuseOpsByPattern(get_patterns_with_prefix("loadstone"), bind_constants=True)(module)
    module = MergeCompositeFunctions()(module)
    module = RunCodegen({"loadstone": {"target": "vtaq-1x16x16"}})(module)
    built = tvm.compile(module, tvm.target.Target("llvm"))
    run = relax.VirtualMachine(built.jit(**loadstone.tvm.link()), tvm.cpu())["main"]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from loadstone.backend.scope import patterns_of, register_tag
from loadstone.backend.target import Target, TargetSource, resolve
from loadstone.frontend import load
from loadstone.hosts.offload import OFFLOADED, offload
from loadstone.hosts.tvm import codegen, link
from loadstone.partition.eager import HOST, partition
from loadstone.partition.patterns import (
    OPERATOR_PATTERNS,
    PLANE_PATTERNS,
    REAL_PATTERNS,
    entries_of,
)
from loadstone.partition.prepare import relax_passed
from loadstone.relax.byoc import marked, register
from loadstone.relax.compat import FuseOpsByPattern, bindings, name_of, relax, result, tvm

if TYPE_CHECKING:
    from loadstone.frontend import Model
    from loadstone.relax.types import DFPattern, IRModule
    from loadstone.relax.types import Target as TvmTarget

__all__ = ["Npu", "codegen", "link", "prepare", "target"]


def prepare(model: Model, target: TargetSource) -> IRModule:
    """A model file, or a Relax module with `main`, in the form that the patterns `loadstone.*`
    match, with a mark on what the target takes; all else stays for TVM to compile.

    Raises ModelError for what cannot be read, UnsupportedError for what has no such form.
    """
    found = resolve(target)
    register(list(_own_rows(found)))
    module = relax_passed(load(model), found.backends, own_runtime=False)
    parts = offload(partition(module, found.backends))
    taken = {operator.name for part in parts.segments for operator in part.operators}
    rows = dict(_composites(parts.partition.module, _kinds(found)))
    return marked(module, {root: row for root, row in rows.items() if root in taken})


def _row(kind: str) -> str:
    return f"{OFFLOADED}.{kind}"


def _own_rows(found: Target) -> Iterator[tuple[str, Callable[[], DFPattern]]]:
    """Forms that only a back end of the target knows."""
    for backend in found.backends:
        for pattern in patterns_of(backend):
            for entry in entries_of(backend.name, pattern):
                yield _row(entry.name), entry.pattern


def _kinds(found: Target) -> dict[str, str]:
    """Name of a composite function -> name of its form."""
    return {
        f"{backend.name}.{pattern.name}": pattern.kind
        for backend in found.backends
        for pattern in patterns_of(backend)
    }


def _composites(fused: IRModule, kinds: dict[str, str]) -> Iterator[tuple[str, str]]:
    """(name of the root, row) of every composite of a partition."""
    for function in fused.functions.values():
        if function.attrs and "Composite" in function.attrs:
            name = str(function.attrs["Composite"])
            root = dict(bindings(function))[result(function)[0]]
            yield name_of(root) or "", _row(kinds.get(name, name.removeprefix(f"{HOST}.")))


def target(name: str) -> TvmTarget:
    """A target of Loadstone's as one of TVM's: `ext_dev`, or a composite, with the host under
    `.host`. TVM finds it by this name from here on. Raises TargetError."""
    register_tag(name, resolve(name).spec)
    return tvm.target.Target(name)


class Npu:
    """What UMA's classes offered: `register` and `partition`, for one target.

    target_name: as TVM finds it behind `register`.
    """

    def __init__(self, target: TargetSource) -> None:
        """Raises TargetError for an unknown target."""
        self._target = resolve(target)
        self.target_name = target if isinstance(target, str) else str(self._target.spec)

    def register(self) -> None:
        """TVM knows the target by its name, and patterns of a plug-in's own."""
        register_tag(self.target_name, self._target.spec)
        register(list(_own_rows(self._target)))

    def partition(self, model: Model) -> IRModule:
        """By TVM's passes: a function with `Codegen` for each part that the target runs."""
        patterns = relax.backend.pattern_registry.get_patterns_with_prefix(f"{OFFLOADED}.")
        found = prepare(model, self._target.spec)
        fused = FuseOpsByPattern(patterns, bind_constants=True)(found)
        return relax.transform.MergeCompositeFunctions()(fused)

    def codegen(self, module: IRModule, device: str = "sim") -> IRModule:
        """The functions of `partition` as artifacts; device: what runs them."""
        return codegen(module, self._target.spec, device)


register(
    [
        (_row(entry.name), entry.pattern)
        for entry in (*OPERATOR_PATTERNS, *PLANE_PATTERNS, *REAL_PATTERNS)
    ]
)
