# SPDX-License-Identifier: Apache-2.0
"""Dynamic products that ONNX Runtime's optimizer fuses (domain com.microsoft), in ONNX's own.

In:   a Rewriting of DynamicQuantizeMatMul or MatMulIntegerToFloat.
Out:  FUSED_DYNAMIC, the rules that emit DynamicQuantizeLinear, MatMulInteger and what scales the
      sums, as quantize_dynamic wrote them before.
Next: rewriting.py replaces the node by these; operators/dynamic.py converts them.
"""

from __future__ import annotations

from collections.abc import Sequence

from onnx import TensorProto, helper

from loadstone.frontend.onnx.rewriting import Rewriting, Rule

__all__ = ["FUSED_DYNAMIC"]


def _dynamic_product(made: Rewriting) -> None:
    """x, weights, their scale, their zero point, bias."""
    names = [f"{made.node.output[0]}/{what}" for what in ("quantized", "scale", "zero_point")]
    made.nodes.append(helper.make_node("DynamicQuantizeLinear", [made.given(0)], names))
    x, scale, zero_point = names
    scales, points = (scale, made.given(2)), (zero_point, made.given(3))
    _scaled(made, (x, made.given(1)), scales, points, made.given(4))


def _product_to_float(made: Rewriting) -> None:
    """Both factors, both scales, both zero points, bias."""
    factors, scales, points = ((made.given(k), made.given(k + 1)) for k in (0, 2, 4))
    _scaled(made, factors, scales, points, made.given(6))


def _scaled(
    made: Rewriting,
    factors: Sequence[str],
    scales: tuple[str, str],
    points: Sequence[str],
    bias: str,
) -> None:
    """float(sums) * (scale * scale) + bias. points, bias: "" where they are left out."""
    given = [*factors, *points]
    while not given[-1]:
        given.pop()
    sums = made.emit("Cast", made.emit("MatMulInteger", *given), to=TensorProto.FLOAT)
    both = made.emit("Mul", *scales)
    real = made.emit("Mul", sums, both, output="" if bias else made.made(0))
    if bias:
        made.emit("Add", real, bias, output=made.made(0))


#: By domain and operator.
FUSED_DYNAMIC: dict[tuple[str, str], Rule] = {
    ("com.microsoft", "DynamicQuantizeMatMul"): _dynamic_product,
    ("com.microsoft", "MatMulIntegerToFloat"): _product_to_float,
}
