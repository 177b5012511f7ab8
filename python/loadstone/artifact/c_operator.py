# SPDX-License-Identifier: Apache-2.0
"""What stays Relax, as C99: a Host operator's module -> one C file and the constants that it reads.

In:   a Relax module whose `main` computes a part of a network.
Out:  COperator: a text that compiles by itself, its symbol, constants, the size of its workspace.
Next: host.py makes a step of it; `loadstone export` writes the text beside the model,
      runtime/c_step.py compiles it where Python runs the model.

    void SYMBOL(void *const *operands)      inputs, constants, outputs, scratch memory
"""

from __future__ import annotations

import re
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from loadstone.artifact.arena import plan
from loadstone.artifact.c_text import COperator, translation_unit
from loadstone.artifact.lifetimes import Lifetime
from loadstone.errors import LoweringError, Refusal, UnsupportedError
from loadstone.numerics import Array
from loadstone.relax.c_helpers import C_TYPES, helper_texts
from loadstone.relax.c_printer import WORKSPACE_ALIGN_BYTES, CFunction, print_function
from loadstone.relax.compat import (
    bindings,
    codegens,
    dtype,
    is_call,
    is_constant,
    op_name,
    relax,
    result,
    s_tir,
    shape,
    tvm,
    value,
)
from loadstone.relax.extremes import EXTREMES
from loadstone.relax.quiet import quietly
from loadstone.relax.sorting import SORTING

if TYPE_CHECKING:
    from loadstone.relax.types import Expr, IRModule, PrimFunc, SBlockRV, Schedule, Var

__all__ = ["c_operator", "parameter_bytes"]


def c_operator(module: IRModule, samples: int = 1) -> COperator:
    """The C of `main`; its operands hold `samples` times what its parameters and results say.

    Raises UnsupportedError naming what has no form in C, LoweringError for what TVM fails on.
    """
    if names := codegens(module):
        raise UnsupportedError(f"code generator {names[0]} makes code that is not C")
    with quietly():  # of powers TVM warns again wherever it rebuilds one
        return _Writer(_legal(module), samples).written()


def parameter_bytes(module: IRModule) -> list[int]:
    """The sizes of what `main` takes. Raises UnsupportedError for types that C does not have."""
    return [_size_bytes(entry) for entry in module["main"].params]


def _legal(module: IRModule) -> IRModule:
    """Every operator a PrimFunc; chains of them fused."""
    passes = [
        relax.transform.DecomposeOpsForInference(),
        relax.transform.CanonicalizeBindings(),
        relax.transform.LegalizeOps({**SORTING, **EXTREMES}),
        relax.backend.DispatchSortScan(),
        relax.transform.AnnotateTIROpPattern(),
        relax.transform.FoldConstant(),
        relax.transform.FuseOps(),
        relax.transform.FuseTIR(),
        relax.transform.DeadCodeElimination(["main"]),
    ]
    with tvm.target.Target({"kind": "llvm"}):
        try:
            return tvm.ir.transform.Sequential(passes)(module)
        except (ValueError, TypeError, RuntimeError, AttributeError, IndexError) as error:
            types = [f"{dtype(x)}{list(shape(x) or ())}" for x in module["main"].params]
            refusal = Refusal(
                f"no code is known for {', '.join(_operators(module))} of {', '.join(types)}",
                "cut the model around it with --inputs and --outputs",
            )
            raise LoweringError(str(refusal)) from error


def _operators(module: IRModule) -> list[str]:
    """The operators that `main` calls, each once."""
    bindings = [binding for block in module["main"].body.blocks for binding in block.bindings]
    called = (getattr(getattr(binding.value, "op", None), "name", "") for binding in bindings)
    return sorted({name.removeprefix("relax.") for name in called if name})


def _inlined(function: PrimFunc) -> PrimFunc:
    """What one element-wise block makes for another one alone needs no memory."""
    if str(function.body.block.name_hint) != "root":
        return function
    schedule = s_tir.Schedule(tvm.IRModule({"main": function}))
    for block in schedule.get_child_blocks(schedule.get_sblock("root")):
        readers = schedule.get_consumers(block)
        if len(readers) == 1 and _is_spatial(schedule, block) and _is_spatial(schedule, readers[0]):
            try:
                schedule.compute_inline(block)
            except s_tir.ScheduleError:  # not one store of one element: it keeps its memory
                continue
    return schedule.mod["main"]


def _is_spatial(schedule: Schedule, block: SBlockRV) -> bool:
    return all(int(entry.iter_type) == 0 for entry in schedule.get(block).iter_vars)


class _Writer:
    """The calls of `main` in a row."""

    def __init__(self, module: IRModule, samples: int) -> None:
        self.module, self.samples = module, samples
        self.main = module["main"]
        self.results = list(result(self.main))
        self.functions: dict[str, CFunction] = {}
        self.constants: list[Array] = []
        self.place: dict[Expr, str] = {}  # what points to a value in C
        self.calls: list[tuple[list[Var], Expr]] = []  # what each makes
        self.other: dict[Var, Expr] = {}  # names for a value, and parts of a tuple

    def written(self) -> COperator:
        self._read()
        self._place_results()
        inner = self._place_values()
        made = [entry for made, _ in self.calls for entry in made]
        texts = [self._call(targets, call) for targets, call in self.calls]
        texts += self._copies(made)
        self.scratch_bytes = max((f.workspace_bytes for f in self.functions.values()), default=0)
        operands = len(self.main.params) + len(self.constants) + len(self.results)
        helpers = {name for f in self.functions.values() for name in f.helpers}
        functions = [
            *helper_texts(helpers),
            *((_COPY,) if any(text.startswith("lds_copy(") for text in texts) else ()),
            *(f.text for f in self.functions.values()),
        ]
        symbol, source = translation_unit(
            {name for name in helpers if " " not in name},
            functions,
            self._body(texts, inner, operands),
        )
        return COperator(symbol, source, tuple(self.constants), inner + self.scratch_bytes)

    def _read(self) -> None:
        """The calls and the tensors that each makes."""
        parts: dict[Var, dict[int, Var]] = {}
        made: dict[Var, list[Var]] = {}
        bound = list(bindings(self.main))
        for variable, entry in bound:
            if isinstance(entry, relax.TupleGetItem):
                parts.setdefault(entry.tuple_value, {}).setdefault(entry.index, variable)
        for variable, entry in bound:
            if is_call(entry, "call_tir"):
                made[variable] = _made(variable, parts.get(variable, {}))
                self.calls.append((made[variable], entry))
            elif isinstance(entry, relax.Var | relax.TupleGetItem) or is_constant(entry):
                self.other[variable] = entry
            elif not isinstance(entry, relax.Tuple):
                raise UnsupportedError(f"{_name(entry)} has no form in C")
        for variable, entry in self.other.items():
            if isinstance(entry, relax.TupleGetItem):
                self.other[variable] = parts[entry.tuple_value][entry.index]
        # a tuple that one call makes may itself be the result
        self.results = [part for entry in self.results for part in made.get(entry, [entry])]

    def _first(self, entry: Expr) -> Expr:
        """The variable that a value was first bound to, or the constant that it is."""
        while entry in self.other and self.other[entry] is not entry:
            entry = self.other[entry]
        return entry

    # --- memory -----------------------------------------------------------------------------------
    def _place_results(self) -> None:
        for k, variable in enumerate(self.main.params):
            self.place[variable] = self._operand(k, variable)
        self.at = len(self.main.params) + len(self._constants())
        for k, entry in enumerate(self.results):
            self.place.setdefault(self._first(entry), self._operand(self.at + k, entry))

    def _constants(self) -> list[Array]:
        """Those of all calls, each once, and results that are constants."""
        known: dict[Expr, int] = {}
        read = [entry for _, call in self.calls for entry in _arguments(call)]
        for entry in map(self._first, (*read, *self.results)):
            if is_constant(entry) and entry not in known:
                known[entry] = len(self.constants)
                self.constants.append(value(entry))
        offset = len(self.main.params)
        self.place |= {entry: f"operands[{offset + k}]" for entry, k in known.items()}
        return self.constants

    def _operand(self, index: int, variable: Expr) -> str:
        if self.samples == 1:
            return f"operands[{index}]"
        return f"((uint8_t *)operands[{index}] + sample * {_size_bytes(variable)}u)"

    def _place_values(self) -> int:
        """Values between calls in the workspace; its bytes so far."""
        reads: dict[Expr, int] = {}
        for step, (_, call) in enumerate(self.calls):
            reads.update((self._first(entry), step) for entry in _arguments(call))
        lifetimes = [
            Lifetime(
                str(k * 1000 + step), _size_bytes(entry), step, max(reads.get(entry, step), step)
            )
            for step, (targets, _) in enumerate(self.calls)
            for k, entry in enumerate(targets)
            if entry not in self.place
        ]
        arena = plan(lifetimes, WORKSPACE_ALIGN_BYTES)
        for step, (targets, _) in enumerate(self.calls):
            for k, entry in enumerate(targets):
                if entry not in self.place:
                    offset = arena.offset_bytes[str(k * 1000 + step)]
                    self.place[entry] = f"(workspace + {offset})"
        return arena.size_bytes

    # --- text -------------------------------------------------------------------------------------
    def _call(self, targets: list[Var], call: Expr) -> str:
        name = str(call.args[0].name_hint)
        if name not in self.functions:
            function = _inlined(self.module[call.args[0]])
            self.functions[name] = print_function(function, _symbol(name))
            if not all(self.functions[name].stores[-len(targets) :]):
                raise UnsupportedError(f"{name} stores nothing in one of its results")
        places = [self.place[self._first(entry)] for entry in (*_arguments(call), *targets)]
        pointers = ", ".join(f"(void *){place}" for place in places)
        return f"{_symbol(name)}({pointers}, scratch);"

    def _copies(self, made: list[Var]) -> list[str]:
        """Results that are an input, or another result."""
        texts = []
        for k, entry in enumerate(self.results):
            place, target = self.place[self._first(entry)], self._operand(self.at + k, entry)
            if place != target:
                texts.append(f"lds_copy((void *){target}, (void *){place}, {_size_bytes(entry)}u);")
        return texts

    def _body(self, texts: list[str], inner: int, operands: int) -> list[str]:
        scratch = f"workspace + {inner}" if inner + self.scratch_bytes else "0"
        lines = [
            *(
                (f"uint8_t *workspace = operands[{operands}];",)
                if inner + self.scratch_bytes
                else ()
            ),
            f"uint8_t *scratch = {scratch};",
            *(("uint32_t sample;",) if self.samples > 1 else ()),
            "(void)scratch;",
        ]
        if self.samples == 1:
            return lines + texts
        loop = f"for (sample = 0; sample < {self.samples}u; ++sample) {{"
        return [*lines, loop, *(f"  {text}" for text in texts), "}"]


_COPY = """\
static void lds_copy(uint8_t *to, const uint8_t *from, uint32_t size_bytes) {
  while (size_bytes-- > 0) *to++ = *from++;
}"""


def _symbol(name: str) -> str:
    return "op_" + re.sub(r"\W", "_", name)


def _name(entry: Expr) -> str:
    """What an expression calls: of a packed function its name."""
    called = op_name(entry)
    if called in ("call_pure_packed", "call_dps_packed"):
        return str(getattr(entry.args[0], "global_symbol", called))
    return called


def _arguments(call: Expr) -> list[Expr]:
    """The tensors that a call_tir reads."""
    arguments = call.args[1]
    return list(arguments.fields) if isinstance(arguments, relax.Tuple) else [arguments]


def _made(variable: Var, parts: dict[int, Var]) -> list[Var]:
    """The variables of what a call_tir makes; one that nobody reads has a stand-in."""
    if not isinstance(variable.ty, relax.TupleType):
        return [variable]
    return [
        parts.get(k, relax.Var(f"{variable.name}_{k}", field))
        for k, field in enumerate(variable.ty.fields)
    ]


def _size_bytes(entry: Expr) -> int:
    extents, kind = shape(entry), dtype(entry)
    if extents is None or kind not in C_TYPES:
        raise UnsupportedError(f"{entry.name}: type {kind}, shape {extents} has no form in C")
    return prod(extents) * np.dtype(kind).itemsize
