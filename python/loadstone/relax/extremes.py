# SPDX-License-Identifier: Apache-2.0
"""The largest and the smallest along axes, of numbers among which infinities may be, and what is
no number; and whether that equals itself.

In:   calls of relax.max, relax.min, relax.equal and relax.not_equal whose shapes are known.
Out:  a PrimFunc that begins with the worst that the type has; TVM's begins with the worst that is
      finite, and makes that of a row of nothing but minus infinity, as masks have them. What is no
      number stays none, as in PyTorch and ONNX Runtime, and
      is not equal to itself: TVM takes x == x for true.
Next: artifact/c_operator.py and saved.py legalize by EXTREMES before anything else does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from loadstone.relax.compat import dtype, op_name, shape, te, tirx

if TYPE_CHECKING:
    from loadstone.relax.types import BlockBuilder, Call, Expr

__all__ = ["EXTREMES"]


def _extreme(builder: BlockBuilder, call: Call) -> Expr:
    """Of float, int and uint; -0.0 and 0.0 are equal."""
    given = shape(call.args[0]) or ()
    said, largest = call.attrs.axis, op_name(call) == "max"
    axes = sorted({int(a) % len(given) for a in said}) if said is not None else range(len(given))
    keeps = bool(call.attrs.keepdims)
    kept = [1 if a in axes else n for a, n in enumerate(given) if keeps or a not in axes]

    def worst(of: str) -> Any:
        if of.startswith(("float", "bfloat")):
            return tirx.const(float("-inf" if largest else "inf"), of)
        return te.min_value(of) if largest else te.max_value(of)

    def better(a: Any, b: Any) -> Any:
        if not str(a.ty.dtype if hasattr(a, "ty") else a.dtype).startswith("float"):
            return tirx.Max(a, b) if largest else tirx.Min(a, b)
        first = tirx.GT(a, b) if largest else tirx.LT(a, b)
        return tirx.Select(tirx.Or(first, tirx.isnan(a)), a, b)

    reducer = te.comm_reducer(better, worst, name="largest" if largest else "smallest")

    def computed(x: Any) -> Any:
        along = {a: te.reduce_axis((0, given[a]), name=f"k{a}") for a in axes}

        def element(*place: Any) -> Any:
            places = iter(place)
            index = []
            for a in range(len(given)):
                own = next(places) if keeps or a not in along else None
                index.append(along[a].var if a in along else own)
            return reducer(x[tuple(index)], axis=list(along.values()))

        return te.compute(kept, element, name="largest" if largest else "smallest")

    if not axes:
        return call.args[0]
    return builder.call_te(computed, call.args[0], primfunc_name_hint=op_name(call))


def _compared(builder: BlockBuilder, call: Call) -> Expr:
    """Of a real tensor with itself: whether its elements are numbers, or are none."""
    x, other = call.args
    if not (x.same_as(other) and dtype(x).startswith("float")):
        return call.op.get_attr("FLegalize")(builder, call)
    is_equal = op_name(call) == "equal"

    def computed(x: Any) -> Any:
        def element(*place: Any) -> Any:
            none = tirx.isnan(x(*place))
            return tirx.Not(none) if is_equal else none

        return te.compute(x.shape, element, name="numbers")

    return builder.call_te(computed, x, primfunc_name_hint=op_name(call))


EXTREMES: Mapping[str, Callable[[BlockBuilder, Call], Expr]] = {
    "relax.max": _extreme,
    "relax.min": _extreme,
    "relax.equal": _compared,
    "relax.not_equal": _compared,
}
