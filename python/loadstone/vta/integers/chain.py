# SPDX-License-Identifier: Apache-2.0
"""What happens to one accumulator: products by weights and ALU operations, one cycle a tile each.

In:   the integers that stand in the program: weights of 8 bits, immediates of 16.
Out:  `run`: what the device makes of any inputs; `is_exact`: whether that is what is wanted of all
      of them; `exact_end`: what must come behind it. None knows where the integers come from.
Next: linear_search.py finds chains; schedule/chain.py makes a loop nest of each step.

    acc = 0                               a GEMM that resets
    Product(input, weight)                acc += weight * input       a GEMM by a diagonal tile
    AluStep("add" | "shr" | "min" | "max")    acc = acc op immediate
    out = the low 8 bits of acc           STORE

Floors compose: (((a >> 8) + b) >> 7) is (a + 256 b) >> 15, so that a multiplier of many bits is a
chain of products by its digits, least first, with shifts between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import LoweringError
from loadstone.numerics import Int32Array

__all__ = ["AluStep", "Chain", "Product", "Step", "cycles", "exact_end", "is_exact", "run"]

IntArray = NDArray[np.int64]

_WEIGHTS = range(-128, 128)
_IMMEDIATES = range(-(1 << 15), 1 << 15)
#: VTA shifts right by at most 15 and left by at most 16.
_SHIFTS = range(-16, 16)


@dataclass(frozen=True)
class Product:
    """acc += weight * input, in every lane. input: its number."""

    input: int
    weight: int


@dataclass(frozen=True)
class AluStep:
    """acc = acc op value. shr: an arithmetic shift, of a negative value to the left."""

    op: Literal["add", "shr", "min", "max"]
    value: int


Step: TypeAlias = Product | AluStep
Chain: TypeAlias = tuple[Step, ...]


def cycles(chain: Chain, taps: int = 1) -> int:
    """Cycles of compute for one tile of the output, where an input is a sum of so many tiles."""
    return 1 + sum(taps if isinstance(step, Product) else 1 for step in chain)


def run(chain: Chain, inputs: Sequence[IntArray]) -> IntArray:
    """What the device stores for inputs that broadcast against each other: int8 values, or sums of
    them; -128 .. 127 in the shape that they broadcast to."""
    return _stored(_accumulated(chain, _nothing(inputs), inputs))


def exact_end(
    chain: Chain, ends: Iterable[Chain], inputs: Sequence[IntArray], wanted: IntArray
) -> Chain | None:
    """The chain with the first of some ends that gives `wanted`, everywhere; None where none does.
    inputs: every combination that can occur, of the shape of `wanted` or broadcast to it."""
    acc = _accumulated(chain, _nothing(inputs), inputs)
    for end in ends:
        if np.array_equal(_stored(_accumulated(end, acc, inputs)), wanted):
            return (*chain, *end)
    return None


def is_exact(chain: Chain, inputs: Sequence[IntArray], wanted: IntArray) -> bool:
    """Whether the chain gives `wanted`, everywhere. Inputs are of the shape of `wanted`, or
    broadcast to it."""
    return exact_end(chain, [()], inputs, wanted) is not None


def _nothing(inputs: Sequence[IntArray]) -> Int32Array:
    return np.zeros(np.broadcast_shapes(*(values.shape for values in inputs)), np.int32)


def _accumulated(chain: Chain, acc: Int32Array, inputs: Sequence[IntArray]) -> Int32Array:
    """The accumulator behind the chain; it wraps as the device's does."""
    for step in chain:
        if isinstance(step, Product):
            _check("a weight", step.weight, _WEIGHTS)
            acc = acc + step.weight * inputs[step.input].astype(np.int32)
        else:
            acc = _alu(step, acc)
    return acc


def _stored(acc: Int32Array) -> IntArray:
    return ((acc + 128) & 255).astype(np.int64) - 128


def _alu(step: AluStep, acc: Int32Array) -> Int32Array:
    match step.op:
        case "shr":
            _check("a shift", step.value, _SHIFTS)
            return acc >> step.value if step.value >= 0 else acc << -step.value
        case "add":
            result = acc + step.value
        case "min":
            result = np.minimum(acc, step.value)
        case "max":
            result = np.maximum(acc, step.value)
    _check("an immediate", step.value, _IMMEDIATES)
    return result


def _check(what: str, value: int, limits: range) -> None:
    """Raises LoweringError for a number that the instruction's field does not hold."""
    if value not in limits:
        raise LoweringError(
            f"chain: {what} of {value} is outside [{limits[0]}, {limits[-1]}], which the field "
            "holds: choose smaller steps"
        )
