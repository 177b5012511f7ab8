# SPDX-License-Identifier: Apache-2.0
"""A float network in the form that a device of bfloat16 runs: batch normalizations folded.

In:   an IRModule in canonical form, float32.
Out:  the same function with affine operators in the weights and biases before them, and products of
      two activations by the rows of the second one.
Next: partition/eager.py matches the forms of partition/patterns/real.py.

A network with quantized parts is not changed: its float parts have nothing to fold, and the
constants of a dequantize must stay integers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from loadstone.frontend.products import with_turned_real_products
from loadstone.quantization.fold import fold
from loadstone.relax.compat import DeadCodeElimination, bindings, is_call, tvm

if TYPE_CHECKING:
    from loadstone.relax.types import IRModule

__all__ = ["fold_real"]


def fold_real(module: IRModule) -> IRModule:
    """Raises ModelError for weights that are not finite."""
    if any(is_call(value, "quantize", "dequantize") for _, value in bindings(module["main"])):
        return module
    attrs = module["main"].attrs
    folded = fold(module)
    function = with_turned_real_products(folded["main"])
    if function is not folded["main"]:
        folded = DeadCodeElimination(["main"])(tvm.IRModule({"main": function}))
    return folded if not attrs else _with_attributes(folded, attrs)


def _with_attributes(module: IRModule, attrs: object) -> IRModule:
    for name in dict(attrs):  # type: ignore[call-overload]
        if name not in (module["main"].attrs or {}):
            module["main"] = module["main"].with_attr(name, attrs[name])  # type: ignore[index]
    return module
