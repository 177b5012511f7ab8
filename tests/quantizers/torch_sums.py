# SPDX-License-Identifier: Apache-2.0
"""What a PT2E program may give: all that its real numbers round to in float32, summed in any order,
with biases rounded to integers or not.

In:   the bytes of a .pt2 file and its inputs.
Out:  for each output the lowest and the highest number of every element; None where an operator is
      none of those below.
Next: tests/fuzz/models.py lets an element differ there, and nowhere else.

As tests/fuzz/float_sums.py has it for ONNX. PT2E leaves biases in float32; Loadstone adds them as
integers in steps of the input's times the weights' scale (docs/numerics.md), which moves a sum by
half of such a step at most.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from numpy.typing import NDArray
from torch.fx import Interpreter, Node

from tests.fuzz.float_sums import NEARLY, TINY, U
from tests.quantizers.as_torch import opened

__all__ = ["integers"]

Tensor = Any


class _Unknown(Exception):
    """An operator without a rule."""


@dataclass(frozen=True)
class Value:
    """Real numbers in float64, the error that each may have, and the step that they are whole
    numbers of, where there is one."""

    real: Tensor
    error: Tensor
    step: Tensor | None = None


def integers(
    model: bytes, inputs: Sequence[NDArray[Any]]
) -> list[tuple[NDArray[Any], NDArray[Any]]] | None:
    """(lowest, highest) of every output, arrays of its shape."""
    try:
        with torch.no_grad():
            found = _Bounds(opened(model)).run(*(torch.from_numpy(x).double() for x in inputs))
    except _Unknown:
        return None
    some = found if isinstance(found, tuple | list) else [found]
    return [((y.real - y.error).numpy(), (y.real + y.error).numpy()) for y in some]


class _Bounds(Interpreter):  # type: ignore[misc]
    def placeholder(self, target: Any, args: Any, kwargs: Any) -> Any:
        return _value(super().placeholder(target, args, kwargs))

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        found = super().get_attr(target, args, kwargs)
        return _value(found.double()) if isinstance(found, torch.Tensor) else found

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Guards of shapes."""
        return None

    def run_node(self, n: Node) -> Any:
        return super().run_node(n)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        name = getattr(target, "_schema", None)
        rule = _RULES.get(name.name.partition("::")[2] if name is not None else "")
        if rule is None:
            raise _Unknown(str(target))
        return rule(target, *args, **kwargs)


def _value(real: Tensor) -> Value:
    return Value(real, torch.zeros_like(real))


def _along(parameter: Any, x: Tensor, axis: int | None) -> Tensor:
    found = torch.as_tensor(parameter.real if isinstance(parameter, Value) else parameter).double()
    if axis is None or found.numel() == 1:
        return found.reshape(())
    return found.reshape([-1 if d == axis % x.ndim else 1 for d in range(x.ndim)])


def _quantized(_: Any, x: Value, scale: Any, zero: Any, *more: Any, **__: Any) -> Value:
    axis, low, high = (None, *more[:2]) if len(more) == 3 else more[:3]
    by, offset = _along(scale, x.real, axis), _along(zero, x.real, axis)
    steps, error = x.real / by, x.error / by
    error = error + 3 * U * (steps.abs() + error) + TINY
    least = torch.clip(torch.ceil(steps - error - 0.5) + offset, low, high)
    most = torch.clip(torch.floor(steps + error + 0.5) + offset, low, high)
    return Value((least + most) / 2, (most - least) / 2)


def _dequantized(_: Any, x: Value, scale: Any, zero: Any, *more: Any, **__: Any) -> Value:
    axis = more[0] if len(more) == 4 else None
    by = _along(scale, x.real, axis)
    real = (x.real - _along(zero if zero is not None else 0, x.real, axis)) * by
    error = x.error * by
    return Value(real, error + 2 * U * (real.abs() + error) + TINY, by)


def _summed(target: Any, x: Value, w: Value, b: Value | None = None, *more: Any) -> Value:
    """Convolutions and products of matrices: the factors' errors, that of a sum of so many
    products, and a bias in whole steps."""
    given = [] if target.overloadpacket is torch.ops.aten.matmul else [b and b.real]
    name = target._schema.name
    real = target(x.real, w.real, *given, *more)
    given = [y if y is None else y.abs() for y in given]
    plain = target(x.real.abs(), w.real.abs(), *given, *more)
    most = target(x.real.abs() + x.error, w.real.abs() + w.error, *given, *more)
    terms = w.real.shape[0] * prod(w.real.shape[2:]) if "transpose" in name else 0
    n = max(terms, prod(w.real.shape[1:]), w.real.shape[-2]) + 4
    error = most - plain + n * U / (1 - n * U) * most + TINY
    if b is not None and x.step is not None and w.step is not None:
        half = (x.step * w.step / 2).reshape(-1)
        error = error + half.reshape([-1, 1, 1] if "conv" in name else [-1])
    return Value(real, error)


def _added(target: Any, a: Value, b: Value) -> Value:
    real, error = target(a.real, b.real), a.error + b.error
    return Value(real, error + U * (real.abs() + error))


def _multiplied(target: Any, a: Value, b: Value) -> Value:
    real = target(a.real, b.real)
    most = (a.real.abs() + a.error) * (b.real.abs() + b.error)
    return Value(real, most - real.abs() + U * most + TINY)


def _averaged(target: Any, x: Value, *more: Any) -> Value:
    n = prod(x.real.shape[2:]) + 2
    most = target(x.real.abs() + x.error, *more)
    return Value(target(x.real, *more), target(x.error, *more) + n * U / (1 - n * U) * most + TINY)


def _moved(target: Any, x: Any, *more: Any, **words: Any) -> Value:
    """Elements elsewhere; the largest of some has the largest error of them at most."""
    if isinstance(x, Value):
        return Value(target(x.real, *more, **words), target(x.error, *more, **words), x.step)
    parts = [[getattr(part, name) for part in x] for name in ("real", "error")]
    return Value(*(target(part, *more, **words) for part in parts))


def _largest(target: Any, x: Value, *more: Any) -> Value:
    return Value(target(x.real, *more), target(x.error, *more))


def _no_further(target: Any, x: Value, *more: Any) -> Value:
    """What brings two numbers no further apart, and rounds once at most."""
    real = target(x.real, *more)
    return Value(real, x.error + U * real.abs())


def _bent(steepest: float) -> Callable[..., Value]:
    """A function of one number, nowhere steeper than that, which a library computes nearly."""

    def rule(target: Any, x: Value, *more: Any) -> Value:
        real = target(x.real, *more)
        return Value(real, steepest * x.error + NEARLY * real.abs().clamp(min=1))

    return rule


def _shares(target: Any, x: Value, *more: Any) -> Value:
    real = target(x.real, *more)
    return Value(
        real, real * (torch.expm1(2 * x.error.max()) + 2 * NEARLY + real.numel() * U) + TINY
    )


_RULES: dict[str, Callable[..., Value]] = {
    **dict.fromkeys(("quantize_per_tensor", "quantize_per_channel"), _quantized),
    **dict.fromkeys(("dequantize_per_tensor", "dequantize_per_channel"), _dequantized),
    **dict.fromkeys(("conv2d", "conv_transpose2d", "linear", "matmul"), _summed),
    **dict.fromkeys(("add", "add_"), _added),
    "mul": _multiplied,
    **dict.fromkeys(("avg_pool2d", "adaptive_avg_pool2d", "mean"), _averaged),
    **dict.fromkeys(("relu", "relu_", "relu6", "hardtanh", "leaky_relu"), _no_further),
    "sigmoid": _bent(0.25),
    "tanh": _bent(1),
    **dict.fromkeys(("silu", "hardswish"), _bent(1.5)),
    "softmax": _shares,
    "max_pool2d": _largest,
    **dict.fromkeys(("view", "reshape", "flatten", "transpose", "permute", "slice"), _moved),
    **dict.fromkeys(
        ("cat", "upsample_nearest2d", "clone", "contiguous", "detach", "alias"), _moved
    ),
}
