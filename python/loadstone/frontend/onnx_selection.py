# SPDX-License-Identifier: Apache-2.0
"""ONNX's TopK: the places of the largest, and what stands there.

In:   a node's inputs as Relax expressions, and its attributes.
Out:  its two outputs; the values are gathered, so that nothing is sorted twice.
Next: onnx.py, in place of TVM's importer, which refuses TopK without order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from loadstone.errors import UnsupportedError
from loadstone.relax.compat import is_constant, relax, scalar, shape

if TYPE_CHECKING:
    from loadstone.relax.types import Expr

__all__ = ["top_k"]


def top_k(
    inputs: Sequence[Expr | None], attributes: Mapping[str, Any], emit: Callable[[Expr], Expr]
) -> Expr:
    """A tuple. Without order (sorted=0) they are in order all the same. Raises UnsupportedError for
    a k that is computed."""
    x, extents = inputs[0], shape(inputs[0]) or ()
    axis = int(attributes.get("axis", -1)) % max(1, len(extents))
    if len(inputs) > 1 and inputs[1] is not None and not is_constant(inputs[1]):
        raise UnsupportedError("its k is computed when the model runs: export it with a fixed k")
    given = inputs[1] if len(inputs) > 1 and inputs[1] is not None else None
    k = int(scalar(given) if given is not None else attributes.get("k", 1))
    if not 1 <= k <= extents[axis]:
        raise UnsupportedError(f"its k is {k}: 1 to {extents[axis]} of axis {axis} can be taken")
    largest = bool(attributes.get("largest", 1))
    places = emit(relax.op.topk(x, k, axis, ret_type="indices", largest=largest, dtype="int64"))
    return relax.Tuple([emit(relax.op.gather_elements(x, places, axis)), places])
