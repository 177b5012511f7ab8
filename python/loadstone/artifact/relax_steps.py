# SPDX-License-Identifier: Apache-2.0
"""What stays Relax, as steps of the runtime's own operators.

In:   a Host operator of the graph, and a Workspace (host.py).
Out:  its steps, or None where the runtime has no operator for one of its calls.
Next: host.py takes them; what has none becomes C of the step's own (c_operator.py).

A function is taken whole or not at all: C that is there anyway computes all of it. What the runtime
has not as one operator is written as TVM computes it (its legalization), so that the numbers are
those of that C: but for a softmax, whose exp is within 3 units in the last place.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from loadstone import graph as g
from loadstone.artifact import host_step as steps
from loadstone.artifact.host_step import HostOpcode, HostStep, Strided
from loadstone.artifact.memory_plan import MAX_RANK
from loadstone.artifact.row_steps import row_step
from loadstone.artifact.step_writer import (
    MOVED,
    HostMemory,
    Maker,
    Makers,
    NoOperatorError,
    StepWriter,
    extents_of,
    merged,
    row_major,
)
from loadstone.relax.compat import dtype, integers, scalar

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from loadstone.relax.types import Call, Expr

__all__ = ["relax_steps"]


def relax_steps(o: g.Host, space: HostMemory) -> list[HostStep] | None:
    """The steps of the runtime that compute it; None where there are none. `space` is asked for
    tensors either way."""
    try:
        return StepWriter(o, space, _MAKERS).written()
    except NoOperatorError:
        return None


def _need(fits: bool) -> None:
    if not fits:
        raise NoOperatorError


# --- moves ----------------------------------------------------------------------------------------
def _permute_dims(w: StepWriter, call: Call, y: int) -> None:
    extents = extents_of(call.args[0])
    axes = call.attrs.axes
    order = range(len(extents))[::-1] if axes is None else [int(a) % len(extents) for a in axes]
    strides = row_major(extents)
    w.walk(call, y, [extents[a] for a in order], Strided([strides[a] for a in order]))


def _broadcast_to(w: StepWriter, call: Call, y: int) -> None:
    whole = extents_of(call)
    w.walk(call, y, whole, Strided(_strides(w, call.args[0], whole)[1:]))


def _strided_slice(w: StepWriter, call: Call, y: int) -> None:
    source, extents = extents_of(call.args[0]), extents_of(call)
    axes, begins = integers(call.args[1]), integers(call.args[2])
    by = integers(call.args[4]) if len(call.args) > 4 else (1,) * len(axes)
    _need(min(by) > 0)
    strides, offset = row_major(source), 0
    for axis, begin, step in zip(axes, begins, by, strict=True):
        at = axis % len(source)
        first = max(0, begin + source[at] if begin < 0 else begin)
        offset += min(first, source[at] - 1) * strides[at]
        strides[at] *= step
    w.walk(call, y, extents, Strided(strides, offset))


def _concat(w: StepWriter, call: Call, y: int) -> None:
    parts, whole = w.parts(call.args[0]), extents_of(call)
    axis = int(call.attrs.axis) % len(whole)
    outer, begin = prod(whole[:axis]), 0
    row = prod(whole[axis:])
    for part in parts:
        size = prod(extents_of(part)[axis:])
        _need(dtype(part) in MOVED)
        source = Strided([w.stride(part), size, 1])
        target = Strided([outer * row, row, 1], begin)
        w.copy(w.operand(part), y, (w.samples, outer, size), source, target)
        begin += size


def _take(w: StepWriter, call: Call, y: int) -> None:
    """Rows by their numbers; of several samples those of one table, which all share."""
    table, indices = call.args[0], call.args[1]
    extents = extents_of(table)
    axis = int(call.attrs.axis or 0) % len(extents)
    _need(call.attrs.axis is not None or len(extents) == 1)
    _need(str(call.attrs.mode) in ("fast", "clip") and dtype(indices) in ("int32", "int64"))
    _need(dtype(table) in MOVED)
    _need(w.samples == 1 or (w.is_fixed(table) and prod(extents[:axis]) == 1))
    operands = w.operand(table), w.operand(indices), y
    w.steps.append(steps.gather(w.o.name, operands, extents[axis], prod(extents[axis + 1 :])))


# --- of each element ------------------------------------------------------------------------------
def _float(*entries: Expr) -> None:
    _need(all(dtype(entry) == "float32" for entry in entries))


def _unary(opcode: HostOpcode) -> Maker:
    def make(w: StepWriter, call: Call, y: int) -> None:
        _float(call.args[0])
        w.steps.append(steps.unary(w.o.name, opcode, w.operand(call.args[0]), y))

    return make


def _binary(opcode: HostOpcode) -> Maker:
    def make(w: StepWriter, call: Call, y: int) -> None:
        _float(*call.args)
        sides = [_Side(w.operand(e), _strides(w, e, extents_of(call))) for e in call.args]
        _join(w, opcode, sides, y, extents_of(call))

    return make


class _Side:
    """An operand of a function of two: its tensor, and its strides, that of the samples first."""

    def __init__(self, tensor: int, strides: Sequence[int]) -> None:
        self.tensor, self.strides = tensor, strides


def _strides(w: StepWriter, entry: Expr, whole: Sequence[int]) -> list[int]:
    """Along the axes of the result: 0 where all have one element."""
    own = extents_of(entry)
    steps_of = [0 if n == 1 else s for n, s in zip(own, row_major(own), strict=True)]
    return [w.stride(entry), *[0] * (len(whole) - len(own)), *steps_of]


def _join(
    w: StepWriter, opcode: HostOpcode, sides: Sequence[_Side], y: int, whole: Sequence[int]
) -> None:
    """y = a op b."""
    extents, strides = merged((w.samples, *whole), [side.strides for side in sides])
    _need(len(extents) <= MAX_RANK)
    operands = sides[0].tensor, sides[1].tensor, y
    made = steps.broadcast(w.o.name, opcode, operands, extents, (strides[0], strides[1]))
    w.steps.append(made)


# --- what is several operators --------------------------------------------------------------------
class _Sequence:
    """Steps of one call on tensors of its result's shape; each value is read once or kept."""

    def __init__(self, w: StepWriter, call: Call) -> None:
        _float(call)
        self.w, self.call = w, call
        self.whole = extents_of(call)
        self.rows = (w.stride(call), *row_major(self.whole))

    def side(self, operand: int | float) -> _Side:
        """A tensor of the result's shape, by its number; or one number for all elements."""
        if isinstance(operand, float):
            known = np.array([operand], np.float32)
            return _Side(self.w.constant(known), [0] * len(self.rows))
        return _Side(operand, self.rows)

    def join(
        self, opcode: HostOpcode, a: int | float | _Side, b: int | float | _Side, y: int
    ) -> None:
        """y = a op b."""
        sides = [x if isinstance(x, _Side) else self.side(x) for x in (a, b)]
        _join(self.w, opcode, sides, y, self.whole)

    def unary(self, opcode: HostOpcode, x: int, y: int) -> None:
        """y = f(x)."""
        self.w.steps.append(steps.unary(self.w.o.name, opcode, x, y))


_ADD, _SUBTRACT, _MULTIPLY = (
    HostOpcode.ADD_FLOAT32,
    HostOpcode.SUBTRACT_FLOAT32,
    HostOpcode.MULTIPLY_FLOAT32,
)
_DIVIDE, _MAXIMUM, _MINIMUM = (
    HostOpcode.DIVIDE_FLOAT32,
    HostOpcode.MAXIMUM_FLOAT32,
    HostOpcode.MINIMUM_FLOAT32,
)


def _with_number(opcode: HostOpcode, number: float) -> Maker:
    def make(w: StepWriter, call: Call, y: int) -> None:
        _Sequence(w, call).join(opcode, w.operand(call.args[0]), number, y)

    return make


def _square(w: StepWriter, call: Call, y: int) -> None:
    x = w.operand(call.args[0])
    _Sequence(w, call).join(_MULTIPLY, x, x, y)


def _clip(w: StepWriter, call: Call, y: int) -> None:
    s, low = _Sequence(w, call), w.temporary(call)
    x, (least, most) = w.operand(call.args[0]), (float(scalar(e)) for e in call.args[1:3])
    s.join(_MINIMUM, x, most, low)
    s.join(_MAXIMUM, low, least, y)
    w.give_back(low)


def _silu(w: StepWriter, call: Call, y: int) -> None:
    s, half, x = _Sequence(w, call), w.temporary(call), w.operand(call.args[0])
    s.unary(HostOpcode.SIGMOID_FLOAT32, x, half)
    s.join(_MULTIPLY, x, half, y)
    w.give_back(half)


def _gelu(w: StepWriter, call: Call, y: int) -> None:
    """x * (0.5 + erf(x * sqrt(0.5)) * 0.5)."""
    s, a, x = _Sequence(w, call), w.temporary(call), w.operand(call.args[0])
    s.join(_MULTIPLY, x, float(np.float32(0.5**0.5)), y)
    s.unary(HostOpcode.ERF_FLOAT32, y, a)
    s.join(_MULTIPLY, a, 0.5, y)
    s.join(_ADD, 0.5, y, a)
    s.join(_MULTIPLY, x, a, y)
    w.give_back(a)


# --- along an axis --------------------------------------------------------------------------------
def _softmax(w: StepWriter, call: Call, y: int) -> None:
    """Rows along the axis; where that is not the last one, they are gathered first."""
    extents = extents_of(call)
    axis = int(call.attrs.axis) % len(extents)
    depth, inner = extents[axis], prod(extents[axis + 1 :])
    _float(call)
    x = w.operand(call.args[0])
    if inner == 1:
        w.steps.append(steps.softmax_float32(w.o.name, x, y, depth))
        return
    outer = w.elements(call) // (depth * inner)
    rows = w.temporary(call)
    planes, turned = (outer, inner, depth), Strided([depth * inner, 1, inner])
    w.copy(x, rows, planes, turned, Strided(row_major(planes)))
    w.steps.append(steps.softmax_float32(w.o.name, rows, rows, depth))
    w.copy(rows, y, planes, Strided(row_major(planes)), turned)
    w.give_back(rows)


def _summed(extents: Sequence[int], axes: Iterable[int] | None) -> tuple[int, int]:
    """(depth, inner) of axes that stand together; None: of all."""
    whole = range(len(extents))
    chosen = sorted({int(a) % len(extents) for a in (whole if axes is None else axes)})
    _need(bool(chosen) and chosen == list(range(chosen[0], chosen[-1] + 1)))
    return prod(extents[chosen[0] : chosen[-1] + 1]), prod(extents[chosen[-1] + 1 :])


def _sum(w: StepWriter, call: Call, y: int) -> None:
    _float(call.args[0])
    depth, inner = _summed(extents_of(call.args[0]), call.attrs.axis)
    w.steps.append(steps.sum_float32(w.o.name, w.operand(call.args[0]), y, depth, inner))


def _mean(w: StepWriter, call: Call, y: int) -> None:
    s, total = _Sequence(w, call), w.temporary(call)
    depth, _ = _summed(extents_of(call.args[0]), call.attrs.axis)
    _sum(w, call, total)
    s.join(_DIVIDE, total, float(depth), y)
    w.give_back(total)


def _layer_norm(w: StepWriter, call: Call, y: int) -> None:
    """((x - mean) * rsqrt(mean of squares + epsilon)) * gamma + beta."""
    s, extents = _Sequence(w, call), extents_of(call)
    depth, inner = _summed(extents, call.attrs.axes)
    _need(inner == 1)
    rows = w.elements(call) // depth
    axes = len(extents) - next(k for k in range(len(extents)) if prod(extents[k:]) == depth)
    x, centred, squares = w.operand(call.args[0]), w.temporary(call), w.temporary(call)
    few = [w.memory(rows, "float32"), w.memory(rows, "float32")]
    name, count = w.o.name, w.constant(np.array([depth], np.float32))
    epsilon = w.constant(np.array([call.attrs.epsilon], np.float32))
    one, all_rows = ([1], [0]), [rows]

    def mean(source: int, sums: int, target: int) -> None:
        w.steps.append(steps.sum_float32(name, source, sums, depth, 1))
        w.steps.append(steps.broadcast(name, _DIVIDE, (sums, count, target), all_rows, one))

    per_row = _Side(
        few[1], [*(step // depth for step in s.rows[: len(s.rows) - axes]), *[0] * axes]
    )
    mean(x, *few)
    s.join(_SUBTRACT, x, per_row, centred)
    s.join(_MULTIPLY, centred, centred, squares)
    mean(squares, *few)
    w.steps.append(steps.broadcast(name, _ADD, (few[1], epsilon, few[0]), all_rows, one))
    s.unary(HostOpcode.RSQRT_FLOAT32, *few)
    s.join(_MULTIPLY, centred, per_row, squares)
    for opcode, source, factor, target in (
        (_MULTIPLY, squares, call.args[1], centred),
        (_ADD, centred, call.args[2], y),
    ):
        _float(factor)
        _need(prod(extents_of(factor)) == depth)
        by = [w.stride(factor), *[0] * (len(extents) - axes), *row_major(extents[-axes:])]
        s.join(opcode, source, _Side(w.operand(factor), by), target)
    w.give_back(centred, squares, *few)


def _matmul(w: StepWriter, call: Call, y: int) -> None:
    """Matrices of one batch, of which either side may have one for all."""
    _float(*call.args)
    _need(min(len(extents_of(e)) for e in call.args) > 1)
    (*outer, m, k), (*others, _, n) = (extents_of(e) for e in call.args)
    batch = w.samples * prod(extents_of(call)[:-2])
    shared = []
    for entry, own in zip(call.args, (outer, others), strict=True):
        each = prod(own) * (1 if w.is_fixed(entry) else w.samples)
        _need(each in (1, batch))
        shared.append(each != batch)
    operands = w.operand(call.args[0]), w.operand(call.args[1]), y
    made = steps.matmul_float32(
        w.o.name, operands, (m, k, n), a_shared=shared[0], b_shared=shared[1]
    )
    w.steps.append(made)


_MAKERS: Makers = {
    "permute_dims": _permute_dims,
    "broadcast_to": _broadcast_to,
    "strided_slice": _strided_slice,
    "concat": _concat,
    "take": _take,
    **{
        name: _unary(HostOpcode[f"{name.upper()}_FLOAT32"])
        for name in ("exp", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "erf")
    },
    **{
        name: _binary(HostOpcode[f"{name.upper()}_FLOAT32"])
        for name in ("add", "subtract", "multiply", "divide", "maximum", "minimum", "power")
    },
    "negative": _with_number(_MULTIPLY, -1.0),
    "nn.relu": _with_number(_MAXIMUM, 0.0),
    "square": _square,
    "clip": _clip,
    "nn.silu": _silu,
    "nn.gelu": _gelu,
    "nn.softmax": _softmax,
    "sum": _sum,
    "mean": _mean,
    "nn.layer_norm": _layer_norm,
    "matmul": _matmul,
    "call_dps_packed": row_step,
}
