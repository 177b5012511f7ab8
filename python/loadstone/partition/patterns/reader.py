# SPDX-License-Identifier: Apache-2.0
"""Read the pieces of a composite: its tensors, its constants, its clamp.

In:   `main` of a module in canonical form (frontend/canonical.py).
Out:  Tensor, Quantization, arrays and clamp bounds of graph/ for the expressions that a pattern
      matched.
Next: the extractors in this folder combine them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import Refusal
from loadstone.graph import Quantization, Tensor
from loadstone.numerics import Array, Rounding
from loadstone.relax.compat import (
    bindings,
    dtype,
    is_call,
    is_constant,
    name_of,
    relax,
    scalar,
    shape,
    value,
)

if TYPE_CHECKING:
    from loadstone.relax.types import Call, Expr, RelaxFunction, Var

__all__ = ["Constant", "Mismatch", "Reader"]


class Mismatch(Exception):
    """The matched expression is not the operator that the pattern stands for; a text or a Refusal
    states the reason."""

    @property
    def refusal(self) -> Refusal:
        """The reason, and the change that would remove it."""
        (said,) = self.args
        if isinstance(said, Refusal):
            return said
        return Refusal(str(said), "another form of the operator in the model")


@dataclass(frozen=True, eq=False)
class Constant:
    """A quantized constant: integers, with scale and zero point for every index along `axis` (or
    one of each)."""

    integers: Array
    scales: NDArray[np.float32]
    zero_points: NDArray[np.int32]
    axis: int

    @property
    def real(self) -> NDArray[np.float32]:
        """The real numbers of a dequantized constant, in its shape."""
        along = [-1 if axis == self.axis else 1 for axis in range(self.integers.ndim)]
        scales, zeros = (
            array.reshape(along if self.axis >= 0 else [])
            for array in (self.scales, self.zero_points)
        )
        return np.asarray((self.integers - zeros.astype(np.int64)).astype(np.float32) * scales)


class Reader:
    """Reads the pieces of one function. `constants` collects the arrays that operators read as
    tensors of the graph.

    numerics: the rule set of the model. tflite: LiteRT's reference kernels; tflite_uint8: the same
        for a uint8 model; tflite_micro: dense layers round DOUBLE; onnx, torch: float32.
    """

    def __init__(self, function: RelaxFunction, numerics: str) -> None:
        self.env = dict(bindings(function))
        self.tflite = numerics.startswith("tflite")
        self.unsigned = numerics == "tflite_uint8"
        self.real_biases = numerics == "onnx"  # elsewhere a bias means int32
        self.rounding = Rounding.DOUBLE if self.tflite else Rounding.FLOAT32
        self.dense_rounding = (
            Rounding.SINGLE if numerics in ("tflite", "tflite_uint8") else self.rounding
        )
        self.roots = {
            name_of(bound): bound for bound in self.env.values() if isinstance(bound, relax.Call)
        }
        self.constants: dict[str, Array] = {}
        self.quantizations: dict[Var, Quantization] = {}  # integer variable -> its quantization
        for variable, bound in self.env.items():
            if is_call(bound, "quantize") and (quantization := _quantization(bound)) is not None:
                self.quantizations[variable] = quantization
        for bound in self.env.values():
            if (
                is_call(bound, "dequantize")
                and isinstance(bound.args[0], relax.Var)
                and (quantization := _quantization(bound)) is not None
            ):
                self.quantizations.setdefault(bound.args[0], quantization)

    def call(self, expr: Expr) -> Call:
        """The call that a variable is bound to."""
        while isinstance(expr, relax.Var) and expr in self.env:
            expr = self.env[expr]
        return expr

    # -- tensors -----------------------------------------------------------------------------------

    def tensor(self, variable: Var) -> Tensor:
        """The tensor of a variable, with its quantization when it is an integer one."""
        extents = shape(variable)
        if extents is None:
            raise Mismatch("its shape is not static")
        name = name_of(self.call(variable)) or variable.name
        return Tensor(name, extents, dtype(variable), self.quantizations.get(variable))

    def source(self, expr: Expr, operator: str = "") -> Tensor:
        """The integer tensor whose dequantize this is; a constant one becomes a constant of the
        graph, named after `operator`."""
        call = self.call(expr)
        stored, quantization = call.args[0], _quantization(call)
        _check_bits(name_of(call) or "", dtype(stored))
        if quantization is None:
            raise Mismatch("its input is quantized per channel")
        if not quantization.scale:
            raise Mismatch("its input has the scale 0")
        if is_constant(stored):
            array = value(stored)
            before = sum(key.startswith(operator + "/") for key in self.constants)
            name = f"{operator}/constant{before}"
            self.constants[name] = array
            return Tensor(name, array.shape, array.dtype.name, quantization)
        if self.quantizations.get(stored) != quantization:
            raise Mismatch("its input is dequantized by other numbers than it was quantized by")
        return self.tensor(stored)

    def output(self, root: Call) -> Tensor:
        """The tensor that a quantize writes. Raises Mismatch unless it has eight bits."""
        _check_bits(name_of(root) or "", str(root.attrs.out_dtype))
        quantization = _quantization(root)
        extents = shape(root)
        if quantization is None or extents is None:
            raise Mismatch("its output is quantized per channel")
        return Tensor(name_of(root) or "", extents, str(root.attrs.out_dtype), quantization)

    def constant(self, expr: Expr) -> Constant:
        """dequantize(constant)."""
        call = self.call(expr)
        scales, zeros = value(call.args[1]).reshape(-1), value(call.args[2]).reshape(-1)
        return Constant(
            value(call.args[0]),
            scales.astype(np.float32),
            zeros.astype(np.int32),
            int(call.attrs.axis) if scales.size > 1 else -1,
        )

    # -- the tail: quantize(relu | clip | nothing) -------------------------------------------------

    def tail(self, root: Call) -> tuple[Expr, int, int]:
        """(the operand of the tail, low, high): the clamp in integers of the output."""
        inner = self.call(root.args[0])
        if is_call(inner, "nn.relu"):
            return inner.args[0], *self.clamp(root, 0.0, math.inf)
        if is_call(inner, "clip"):
            return inner.args[0], *self.clamp(
                root, float(scalar(inner.args[1])), float(scalar(inner.args[2]))
            )
        return root.args[0], *self.clamp(root, -math.inf, math.inf)

    def clamp(self, root: Call, low: float, high: float) -> tuple[int, int]:
        """Real bounds in the integers of the output: float32 division; ties away from zero in
        TFLite, to even in ONNX."""
        limits = np.iinfo(str(root.attrs.out_dtype))
        scale, zero_point = np.float32(scalar(root.args[1])), int(scalar(root.args[2]))

        def integer(bound: float, infinite: int) -> int:
            if math.isinf(bound):
                return infinite
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
                quotient = float(np.float32(bound) / scale)
            if not math.isfinite(quotient):  # of a scale that is no normal number
                return zero_point if math.isnan(quotient) else _end(quotient, limits)
            nearest = (
                math.copysign(math.floor(abs(quotient) + 0.5), quotient)
                if self.tflite
                else float(np.rint(quotient))
            )
            return min(max(int(nearest) + zero_point, int(limits.min)), int(limits.max))

        return integer(low, int(limits.min)), integer(high, int(limits.max))


def _check_bits(name: str, kind: str) -> None:
    """Operators of the graph have int8 tensors, uint8 at its edges; int32 is only dequantized."""
    if kind in ("int16", "uint16"):
        raise Mismatch(
            Refusal(
                f"{name} has 16-bit activations ({kind}), and operators of devices are of 8 bits: "
                "it is computed on the host",
                "8-bit activations",
            )
        )


def _end(value: float, limits: np.iinfo[Any]) -> int:
    return int(limits.max) if value > 0 else int(limits.min)


def _quantization(call: Call) -> Quantization | None:
    """The quantization of a quantize or dequantize; None where it is per channel or computed."""
    if not (is_constant(call.args[1]) and is_constant(call.args[2])):
        return None
    scales, zeros = value(call.args[1]).reshape(-1), value(call.args[2]).reshape(-1)
    if scales.size != 1 or zeros.size != 1:
        return None
    return Quantization(float(np.float32(scales[0])), int(zeros[0]))
