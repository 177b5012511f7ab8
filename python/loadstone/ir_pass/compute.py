# SPDX-License-Identifier: Apache-2.0
"""Replace compute nests by intrinsic calls.

In:   a PrimFunc after dma_copy.py: all remaining nests compute on scratchpads.
Out:  the same PrimFunc; every nest is one or more of lds.fill, lds.gemm, lds.rq and the ALU calls;
      an element-wise nest works in
      place, in the buffer of its first operand. What then remains is loops around intrinsic calls.
Next: verify.py; unroll.py gives a back end's own lowering the calls with plain numbers.

The recognised forms are: a constant store; C + cast(input) * cast(weight) (or a sum of such
products), from local.inp and local.wgt; a chain of pure externs lds.add(...), lds.rq(...), with
plain max(C, x) and C + x for a reduction into C. Any other nest raises an error that shows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from loadstone.errors import LoweringError
from loadstone.ir_pass.intrinsics import ALU_BINARY, PREFIX, Intrinsic, extents
from loadstone.ir_pass.nest import PerfectNest, access, axes, map_nests
from loadstone.relax.compat import TensorLoad, is_tir_call, structural_map, tirx

if TYPE_CHECKING:
    from loadstone.relax.types import AllocBuffer, Buffer, Expr, PrimFunc, Stmt

__all__ = ["insert_compute"]

_PLAIN = {tirx.Add: "add", tirx.Max: "max", tirx.Min: "min"}


def insert_compute(func: PrimFunc) -> PrimFunc:
    """Replaces every compute nest of `func` (a PrimFunc) by intrinsic calls. Raises LoweringError
    for a nest that matches no intrinsic."""
    renamed: dict[Buffer, Buffer] = {}  # buffer -> the buffer whose place it takes

    def called(nest: PerfectNest) -> Stmt:
        calls = [call.to_stmt() for call in _computed(nest, renamed)]
        return tirx.stmt_seq(*calls) if calls else tirx.Evaluate(0)

    return func.with_body(_take_over(map_nests(func.body, called), renamed))


def _computed(nest: PerfectNest, renamed: dict[Buffer, Buffer]) -> Sequence[Intrinsic]:
    """The calls that a nest is. renamed: gets the buffers whose place others take. Raises
    LoweringError on a nest that is none."""
    if isinstance(nest.store.value, tirx.IntImm):
        return (_fill(nest, int(nest.store.value.value)),)
    return _gemm(nest) or _elementwise(nest, renamed)


def _fill(nest: PerfectNest, value: int) -> Intrinsic:
    target, strides = access(nest.store, nest)
    return Intrinsic("fill", (target,), (value,), axes(nest, (strides,)))


def _gemm(nest: PerfectNest) -> list[Intrinsic]:
    """C + product, or C + a sum of products: one call each; none where it is something else."""
    addends = _addends(nest.store.value)
    products = [addend for addend in addends if not _is_load_of(addend, nest.store.buffer)]
    factors = [_factors(product) for product in products]
    if not factors or len(products) != len(addends) - 1 or None in factors:
        return []
    calls = []
    for pair in factors:
        parts = [access(node, nest) for node in (nest.store, *(pair or ()))]
        operands, strides = zip(*parts, strict=True)
        calls.append(Intrinsic("gemm", operands, (), axes(nest, strides)))
    return calls


def _addends(expr: Expr) -> list[Expr]:
    """The terms of a sum; TVM's simplifier writes x * w + a * w as (x + a) * w."""
    if isinstance(expr, tirx.Add):
        return [*_addends(expr.a), *_addends(expr.b)]
    if isinstance(expr, tirx.Mul) and tirx.Add in (type(expr.a), type(expr.b)):
        return [a * b for a in _addends(expr.a) for b in _addends(expr.b)]
    return [expr]


def _factors(product: Expr) -> tuple[Expr, Expr] | None:
    """The loads of cast(input) * cast(weight), in this order."""
    if not isinstance(product, tirx.Mul):
        return None
    loads = [
        factor.value
        for factor in (product.a, product.b)
        if isinstance(factor, tirx.Cast) and isinstance(factor.value, TensorLoad)
    ]
    by_scope = {str(load.source.scope()): load for load in loads}
    return (
        (by_scope["local.inp"], by_scope["local.wgt"])
        if set(by_scope) == {"local.inp", "local.wgt"}
        else None
    )


def _elementwise(nest: PerfectNest, renamed: dict[Buffer, Buffer]) -> list[Intrinsic]:
    """A chain op(op(head, x), y): one call each, in the buffer of `head`, which the stored buffer
    then takes over."""
    steps: list[tuple[str, list[Expr]]] = []
    head = nest.store.value
    while not isinstance(head, TensorLoad):
        name, head, rest = _step(head, nest)
        steps.append((name, rest))
    target, strides = access(nest.store, nest)
    if head.source.same_as(nest.store.buffer):
        place = target
    else:
        place, head_strides = access(head, nest)
        if head_strides != strides or extents(place.buffer) != extents(target.buffer):
            raise LoweringError(
                f"compute: {target.buffer.name} cannot be computed in place of "
                f"{place.buffer.name}: {nest.store}"
            )
        renamed[target.buffer] = place.buffer
    calls = []
    for name, rest in reversed(steps):
        loads = [access(operand, nest) for operand in rest if isinstance(operand, TensorLoad)]
        immediates = tuple(
            int(operand.value) for operand in rest if isinstance(operand, tirx.IntImm)
        )
        if len(loads) + len(immediates) != len(rest):
            raise LoweringError(
                f"compute: an operand of {PREFIX}{name} is neither a buffer nor a constant: "
                f"{nest.store}"
            )
        loops = axes(nest, (strides, *(stride for _, stride in loads)))
        calls.append(
            Intrinsic(name, (place, *(operand for operand, _ in loads)), immediates, loops)
        )
    return calls


def _step(expr: Expr, nest: PerfectNest) -> tuple[str, Expr, list[Expr]]:
    """One operation: its name, its first operand, its other operands."""
    if is_tir_call(expr, "call_pure_extern"):
        name = str(expr.args[0].value).removeprefix(PREFIX)
        if name in (*ALU_BINARY, "rq"):
            return name, expr.args[1], [_uncast(argument) for argument in expr.args[2:]]
    if type(expr) in _PLAIN:
        for head, operand in ((expr.a, expr.b), (expr.b, expr.a)):
            if _is_load_of(head, nest.store.buffer):
                return _PLAIN[type(expr)], head, [_uncast(operand)]
    raise LoweringError(f"compute: no instruction does {expr} in {nest.store}")


def _taken_over(buffer: Buffer, renamed: dict[Buffer, Buffer]) -> Buffer:
    """The buffer whose place one takes in the end."""
    while buffer in renamed:
        buffer = renamed[buffer]
    return buffer


def _take_over(body: Stmt, renamed: dict[Buffer, Buffer]) -> Stmt:
    """Puts accesses of renamed buffers into the buffers whose place they take, and drops their
    allocations."""
    if not renamed:
        return body

    def on_load(load: TensorLoad) -> Expr:
        return (
            tirx.BufferLoad(_taken_over(load.source, renamed), list(load.indices))
            if load.source in renamed
            else load
        )

    def on_allocation(allocation: AllocBuffer) -> Stmt:
        return tirx.Evaluate(0) if allocation.buffer in renamed else allocation

    return structural_map(body, ((TensorLoad, on_load), (tirx.AllocBuffer, on_allocation)))


def _is_load_of(expr: Expr, buffer: Buffer) -> bool:
    return isinstance(expr, TensorLoad) and bool(expr.source.same_as(buffer))


def _uncast(expr: Expr) -> Expr:
    return expr.value if isinstance(expr, tirx.Cast) else expr
