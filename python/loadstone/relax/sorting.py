# SPDX-License-Identifier: Apache-2.0
"""Sorting, and the k largest, as loops: TVM does both by functions of its own runtime, which no
board has.

In:   calls of relax.topk, relax.sort and relax.argsort whose shapes are known.
Out:  calls of a PrimFunc that keeps the best it has seen, in order, while it goes along the axis.
Next: artifact/c_operator.py legalizes by SORTING before anything else does.

Of two that are equal the first comes first, whichever end is wanted: what ONNX Runtime does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from loadstone.relax.compat import dtype, op_name, parsed_tir, relax, shape

if TYPE_CHECKING:
    from loadstone.relax.types import BlockBuilder, Call, Expr

__all__ = ["SORTING"]

#: What comes is inserted from the end: at `p` stands what is worse, until it is its turn.
_TEXT = """\
@T.prim_func(private=True, s_tir=True)
def ranked(
    x: T.Buffer({given}, "{kind}"),
    values: T.Buffer({kept}, "{kind}"),
    places: T.Buffer({kept}, "{index}"),
):
    with T.sblock("ranked"):
        T.reads(x[{all_given}])
        T.writes(values[{all_kept}], places[{all_kept}])
        for {others} in T.grid({extents}):
            for new in range({count}):
                for back in range({k}):
                    if {k} - 1 - back <= new:
                        if {k} - 1 - back == new or x[{new}] {better} values[{here}]:
                            if {k} - 1 - back > 0 and x[{new}] {better} values[{before}]:
                                values[{here}] = values[{before}]
                                places[{here}] = places[{before}]
                            else:
                                values[{here}] = x[{new}]
                                places[{here}] = T.Cast("{index}", new)
"""


def _ranked(builder: BlockBuilder, call: Call, k: int, largest: bool, index: str) -> Expr:
    """A tuple: the k best in order, and where they stood."""
    given, kind = shape(call.args[0]) or (), dtype(call.args[0])
    axis = int(call.attrs.axis) % len(given)
    kept = (*given[:axis], k, *given[axis + 1 :])
    others = [f"i{n}" for n in range(len(given)) if n != axis]

    def at(place: str) -> str:
        return ", ".join(place if n == axis else f"i{n}" for n in range(len(given)))

    text = _TEXT.format(
        given=given,
        kept=kept,
        kind=kind,
        index=index,
        all_given=", ".join(f"0:{extent}" for extent in given),
        all_kept=", ".join(f"0:{extent}" for extent in kept),
        others=", ".join([*others, "only"]),
        extents=", ".join([*(str(given[int(name[1:])]) for name in others), "1"]).strip(),
        count=given[axis],
        k=k,
        new=at("new"),
        here=at(f"{k} - 1 - back"),
        before=at(f"{k} - 2 - back"),
        better=">" if largest else "<",
    )
    function = builder.add_func(parsed_tir(text), "ranked")
    types = [relax.TensorType(kept, kind), relax.TensorType(kept, index)]
    return builder.emit(relax.call_tir(function, [call.args[0]], types))


def _topk(builder: BlockBuilder, call: Call) -> Expr:
    attrs = call.attrs
    extent = (shape(call.args[0]) or ())[int(attrs.axis)]
    count = int(attrs.k) if int(attrs.k) > 0 else extent
    both = _ranked(builder, call, count, bool(attrs.largest), str(attrs.dtype))
    kinds = {"both": both, "values": 0, "indices": 1}
    found = kinds[str(attrs.ret_type)]
    return relax.TupleGetItem(both, found) if isinstance(found, int) else both


def _sorted(builder: BlockBuilder, call: Call) -> Expr:
    attrs = call.attrs
    extent = (shape(call.args[0]) or ())[int(attrs.axis)]
    wants_places = op_name(call) == "argsort"
    index = str(attrs.dtype) if wants_places else "int32"
    both = _ranked(builder, call, extent, bool(attrs.descending), index)
    return relax.TupleGetItem(both, int(wants_places))


#: Relax operator -> what stands for a call of it.
SORTING: Mapping[str, Callable[[BlockBuilder, Call], Expr]] = {
    "relax.topk": _topk,
    "relax.sort": _sorted,
    "relax.argsort": _sorted,
}
