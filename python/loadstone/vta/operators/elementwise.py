"""Add, subtract, multiply, requantize, clamp: the ALU on tiles that the GEMM core brought into ACC.

In:   graph.Add, Sub, Mul, Requantize, two tensors of which one may broadcast.
Out:  an ElementwiseSpec and the operands of its requantizations.
Next: kernels.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from loadstone import graph as g
from loadstone.backend import Refusal
from loadstone.errors import LoweringError
from loadstone.numerics import INT32_MAX, INT32_MIN, Rounding, quantize_multiplier, shift_lane
from loadstone.operators import tflite
from loadstone.vta import constants
from loadstone.vta.hw_config import HwConfig
from loadstone.vta.isa.spec import Memory
from loadstone.vta.layout import Blocked
from loadstone.vta.operators.kernels import IDENTITY, LoweredOperator, emit
from loadstone.vta.schedule.elementwise import ElementwiseSpec, Input
from loadstone.vta.schedule.tail import Immediate, Rq

__all__ = ["add", "mul", "requantize", "unsupported"]


def unsupported(op: g.Elementwise | g.Requantize, config: HwConfig) -> Refusal | None:
    """Why the device cannot do this exactly; None if it can."""
    if {op.input.dtype, op.output.dtype} != {"int8"}:
        return Refusal(f"{op.kind} of {op.input.dtype} to {op.output.dtype}", "an int8 model")
    if op.rounding is Rounding.FLOAT32 and not (isinstance(op, g.Requantize) and op.is_clamp):
        return Refusal(f"no requantization equals the float32 rule of {op.kind}", "a TFLite model")
    if isinstance(op, g.Elementwise) and _moves(op) is None:
        shapes = " and ".join("x".join(map(str, tensor.shape)) for tensor in op.inputs)
        return Refusal(f"{op.kind} of {shapes}", "equal shapes, or one value per channel for all pixels")
    return None


def add(op: g.Add | g.Sub, config: HwConfig) -> LoweredOperator:
    """TFLite's rule: both inputs to a common scale 20 bits up, the sum to the output's scale."""
    q_a, q_b, q_out = (_quantization(tensor) for tensor in (*op.inputs, op.output))
    first, second, output = tflite.add_constants(q_a, q_b, q_out)
    negate = (Immediate("mul", -1),) if isinstance(op, g.Sub) else ()
    whole = Rq(0, INT32_MIN, INT32_MAX, Rounding.DOUBLE)
    rows = [
        (-q_a.zero_point, first[0], int(shift_lane(first[1], tflite.ADD_PRE_SHIFT))),
        (-q_b.zero_point, second[0], int(shift_lane(second[1], tflite.ADD_PRE_SHIFT))),
        (0, output[0], int(shift_lane(output[1]))),
    ]
    tail = (Rq(q_out.zero_point, op.low, op.high, Rounding.DOUBLE),)
    return _two(op, ((whole,), (whole, *negate)), "add", tail, rows, config)


def mul(op: g.Mul, config: HwConfig) -> LoweredOperator:
    """The product of what is left of both inputs without their zero points."""
    q_a, q_b, q_out = (_quantization(tensor) for tensor in (*op.inputs, op.output))
    multiplier, shift = quantize_multiplier(tflite.mul_scale(q_a, q_b, q_out))
    steps = tuple((Immediate("add", -q.zero_point),) if q.zero_point else () for q in (q_a, q_b))
    tail = (Rq(q_out.zero_point, op.low, op.high, Rounding.DOUBLE),)
    return _two(op, steps, "mul", tail, [(0, int(multiplier), int(shift_lane(shift)))], config)


def requantize(op: g.Requantize, config: HwConfig) -> LoweredOperator:
    """One RQ, or a clamp alone."""
    layout = Blocked(op.input.shape, config.batch, config.block)
    names = {"a": op.input.name, "identity": IDENTITY, "out": op.output.name}
    if op.is_clamp:
        clamp = [Immediate("max", op.low)] * (op.low > -128) + [Immediate("min", op.high)] * (op.high < 127)
        return emit(ElementwiseSpec((layout.size_tiles,), (Input((True,), ()),), None, tuple(clamp)), names, {}, op, config)
    q_in, q_out = _quantization(op.input), _quantization(op.output)
    multiplier, shift = quantize_multiplier(np.float64(q_in.scale) / np.float64(q_out.scale))
    tail = Rq(q_out.zero_point, op.low, op.high, Rounding.DOUBLE)
    spec = ElementwiseSpec((layout.size_tiles,), (Input((True,), ()),), None, (tail,))
    return _with_operands(spec, names, [(-q_in.zero_point, int(multiplier), int(shift_lane(shift)))], op, config)


def _two(
    op: g.Elementwise,
    steps: Sequence[tuple[Rq | Immediate, ...]],
    name: str,
    tail: tuple[Rq, ...],
    rows: list[tuple[int, int, int]],
    config: HwConfig,
) -> LoweredOperator:
    """rows: bias, multiplier and shift of every Rq, in order: those of the inputs (none, or one each), then the tail's."""
    moves = _moves(op)
    if moves is None:
        raise LoweringError(f"operators: {op.kind} {op.name}: the inputs' shapes do not fit")
    inputs = [*zip(op.inputs, moves, steps, strict=True)]
    if not all(moves[0]):  # the result takes the place of the first input, so that must be the whole one
        inputs.reverse()
        rows = [*reversed(rows[:-1]), rows[-1]]
    layout = Blocked(op.output.shape, config.batch, config.block)
    loops = (layout.samples, layout.channel_blocks, layout.pixels)
    joined = all(moves[0]) and all(moves[1])
    extents = (layout.size_tiles,) if joined else loops
    entries = tuple(Input((True,) if joined else own, step) for _, own, step in inputs)
    names = {"a": inputs[0][0].name, "b": inputs[1][0].name, "identity": IDENTITY, "out": op.output.name}
    return _with_operands(ElementwiseSpec(extents, entries, name, tail), names, rows, op, config)


def _with_operands(
    spec: ElementwiseSpec, names: dict[str, str], rows: list[tuple[int, int, int]], op: g.Operator, config: HwConfig
) -> LoweredOperator:
    name = f"{op.name}.operands"
    tiles = [constants.operand_tiles(*row, config.block, config) for row in rows]
    return emit(spec, {**names, "p": name}, {name: (Memory.ACC, np.concatenate(tiles))}, op, config)


def _moves(op: g.Elementwise) -> tuple[tuple[bool, ...], ...] | None:
    """Per input, whether it moves along (samples, channel blocks, pixels); None for a broadcast that the device does not do."""
    result = []
    for tensor in op.inputs:
        shape = (1,) * (len(op.output.shape) - len(tensor.shape)) + tensor.shape
        same = [own == out for own, out in zip(shape, op.output.shape, strict=True)]
        pixels = all(same[1:-1]) or all(own == 1 for own in shape[1:-1])
        if not (same[0] and same[-1] and pixels):
            return None
        result.append((True, True, all(same[1:-1])))
    return tuple(result)


def _quantization(tensor: g.Tensor) -> g.Quantization:
    assert tensor.quantization is not None
    return tensor.quantization
