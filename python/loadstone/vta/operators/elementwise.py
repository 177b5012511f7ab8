# SPDX-License-Identifier: Apache-2.0
"""Add, subtract, multiply, requantize, clamp: the ALU on tiles that the GEMM core brought into ACC.

In:   graph.Add, Sub, Mul, Requantize, two tensors of which one may broadcast.
Out:  an ElementwiseSpec and the operands of its requantizations.
Next: kernels.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from loadstone import graph as g
from loadstone.backend.interface import Refusal
from loadstone.errors import LoweringError
from loadstone.graph.kernels import tflite
from loadstone.numerics import INT32_MAX, INT32_MIN, Rounding, shift_lane
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.integers.requantization_search import (
    OutputRange,
    Requantization,
    find_requantization,
    on_all_values,
)
from loadstone.vta.integers.weighted_sum import (
    WeightedSum,
    WideSum,
    find_weighted_sum,
    find_wide_sum,
)
from loadstone.vta.isa.spec import Capability, Memory
from loadstone.vta.operators import chained, constants
from loadstone.vta.operators.constants import Int8Array
from loadstone.vta.operators.kernels import IDENTITY, Constants, LoweredOperator, emit
from loadstone.vta.operators.layout import Blocked
from loadstone.vta.operators.request import LayerRequest
from loadstone.vta.schedule.elementwise import SUM, ElementwiseSpec, Input
from loadstone.vta.schedule.epilogue import Immediate, Rq
from loadstone.vta.stream.cost import cost_model

__all__ = ["add", "mul", "requantize", "unsupported"]


def unsupported(op: g.Elementwise | g.Requantize, config: HwConfig) -> Refusal | None:
    """Why the device cannot do this exactly; None if it can."""
    if {op.input.dtype, op.output.dtype} != {"int8"}:
        return Refusal(f"{op.kind} of {op.input.dtype} to {op.output.dtype}", "an int8 model")
    if isinstance(op, g.Elementwise) and _moves(op) is None:
        shapes = " and ".join("x".join(map(str, tensor.shape)) for tensor in op.inputs)
        return Refusal(
            f"{op.kind} of {shapes}", "equal shapes, or one value per channel for all pixels"
        )
    if not config.has(Capability.REQUANTIZE):
        return _unsupported_by_shifts(op)
    if _requantizations(_key(op)) is None:
        return Refusal(
            f"no requantization equals the {op.rounding.name.lower()} rule of this {op.kind}",
            "other scales",
        )
    if not config.has(Capability.ALU_MUL) and _multiplies(op):
        return Refusal("the ALU does not multiply", "a device with the capability alu_mul")
    return None


def _multiplies(op: g.Elementwise | g.Requantize) -> bool:
    """Whether the ALU multiplies in it: in a product, and where a difference is no sum of products
    of the GEMM core."""
    if not isinstance(op, g.Sub):
        return isinstance(op, g.Mul)
    return not _is_pixel_by_pixel(op) or _weighted_sum(_key(op), multiplies=False) is None


def _is_pixel_by_pixel(op: g.Add | g.Sub) -> bool:
    """Whether neither input is broadcast."""
    moves = _moves(op)
    return moves is not None and all(moves[0]) and all(moves[1])


def _unsupported_by_shifts(op: g.Elementwise | g.Requantize) -> Refusal | None:
    """The same for a device without RQ."""
    if isinstance(op, g.Mul):
        return Refusal(
            "the ALU does not multiply",
            "a device with the capabilities alu_mul and requantize",
            always=True,
        )
    assert isinstance(op, g.Requantize | g.Add | g.Sub)
    if isinstance(op, g.Requantize) and op.is_clamp:
        return None
    return chained.unsupported(op)


def add(op: g.Add | g.Sub, config: HwConfig, request: LayerRequest) -> LoweredOperator:
    """A sum of products and one requantization where such weights are found; else both inputs to a
    common scale 20 bits up, and their sum to the output's scale."""
    if not config.has(Capability.REQUANTIZE):
        return chained.elementwise(op, _moves(op) or (), config, request)
    whole = _as_sum(op, config, request)
    if whole is not None:
        return whole
    first, second, output = _needed(op)
    negate = (Immediate("mul", -1),) if isinstance(op, g.Sub) else ()
    return _two(
        op,
        ((_step(first),), (_step(second), *negate)),
        "add",
        [first, second, output],
        config,
        request,
    )


def _as_sum(op: g.Add | g.Sub, config: HwConfig, request: LayerRequest) -> LoweredOperator | None:
    """None where no weights give the rule's integers."""
    if not _is_pixel_by_pixel(op):
        return None  # what broadcasts is requantized once, not everywhere
    found: WeightedSum | WideSum | None = _wide_sum(op, config, request)
    if found is None:
        found = _weighted_sum(_key(op), multiplies=config.has(Capability.ALU_MUL))
    if found is None:
        return None
    layout = Blocked(op.output.shape, config.batch, config.block)
    spec = ElementwiseSpec(
        (layout.size_tiles,),
        (Input((True,), ()), Input((True,), ())),
        SUM,
        (_step(found.requantization),),
    )
    if isinstance(found, WideSum):
        spec = replace(spec, wide=True)
    else:
        spec = replace(spec, factor=found.factor, late=found.late)
    name = f"{op.name}.weights"
    names = {
        "a": op.inputs[0].name,
        "b": op.inputs[1].name,
        "identity": name,
        "p": _operands_name(op),
        "out": op.output.name,
    }
    own = {
        name: (Memory.WGT, _weights(found, config)),
        **_operands(op, [found.requantization], config),
    }
    return emit(spec, names, own, op, config, request)


def _wide_sum(op: g.Add | g.Sub, config: HwConfig, request: LayerRequest) -> WideSum | None:
    """With weights of two parts, where the device has them and the cost model says that two of such
    steps take less than three products and a shift."""
    if not config.has(Capability.DEPTHWISE) or not request.may_window:
        return None
    cost = cost_model(config)
    tiles = Blocked(op.output.shape, config.batch, config.block).size_tiles
    others = 3 * cost.gemm(tiles) + cost.alu(tiles, tensor=False)
    return _found_wide(_key(op)) if 2 * cost.windows(tiles) < others else None


def _weights(found: WeightedSum | WideSum, config: HwConfig) -> Int8Array:
    """The weight tiles of a sum: diagonals, or both parts of a weight in every lane."""
    if isinstance(found, WideSum):
        return np.concatenate([constants.wide_tile(weight, config) for weight in found.weights])
    identity = constants.identity_tile(config)
    return np.concatenate([identity * np.int8(w) for w in (*found.high, found.low)])


def mul(op: g.Mul, config: HwConfig, request: LayerRequest) -> LoweredOperator:
    """The product of both inputs after subtraction of their zero points."""
    (output,) = _needed(op)
    steps = tuple(
        (Immediate("add", -tensor.zero_point),) if tensor.zero_point else () for tensor in op.inputs
    )
    return _two(op, steps, "mul", [output], config, request)


def requantize(op: g.Requantize, config: HwConfig, request: LayerRequest) -> LoweredOperator:
    """One RQ, or a clamp alone."""
    layout = Blocked(op.input.shape, config.batch, config.block)
    names = {"a": op.input.name, "identity": IDENTITY, "out": op.output.name}
    if op.is_clamp:
        clamp = [Immediate("max", op.low)] * (op.low > -128) + [Immediate("min", op.high)] * (
            op.high < 127
        )
        return emit(
            ElementwiseSpec((layout.size_tiles,), (Input((True,), ()),), None, tuple(clamp)),
            names,
            {},
            op,
            config,
            request,
        )
    if not config.has(Capability.REQUANTIZE):
        return chained.elementwise(op, ((True, True, True),), config, request)
    (output,) = _needed(op)
    spec = ElementwiseSpec((layout.size_tiles,), (Input((True,), ()),), None, (_step(output),))
    names["p"] = _operands_name(op)
    return emit(spec, names, _operands(op, [output], config), op, config, request)


# --------------------------------------------------------------------------------------------------
# Requantizations that equal the framework's rule
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _RuleKey:
    """All that an element's result depends on; `op` is one operator that has it."""

    kind: str
    quantizations: tuple[g.Quantization, ...]
    low: int
    high: int
    rounding: Rounding
    op: g.Elementwise | g.Requantize = field(compare=False)


def _key(op: g.Elementwise | g.Requantize) -> _RuleKey:
    quantizations = tuple(_quantization(tensor) for tensor in (*op.inputs, op.output))
    return _RuleKey(op.kind, quantizations, op.low, op.high, op.rounding, op)


def _needed(op: g.Elementwise | g.Requantize) -> tuple[Requantization, ...]:
    found = _requantizations(_key(op))
    if found is None:
        raise LoweringError(f"operators: {op.kind} {op.name}: no requantization equals its rule")
    return found


@lru_cache(maxsize=256)
def _requantizations(key: _RuleKey) -> tuple[Requantization, ...] | None:
    """Those of add: both inputs and the output; of the others: the output. Compared with the rule
    on every value or pair."""
    wanted = on_all_values(key.op)
    *q_inputs, q_out = key.quantizations
    values = [np.arange(-128, 128).reshape(256, 1), np.arange(-128, 128).reshape(1, 256)][
        : len(q_inputs)
    ]
    centred = [value - q.zero_point for value, q in zip(values, q_inputs, strict=True)]

    def output(sums: NDArray[np.int64], scale: float, bias: int = 0) -> Requantization | None:
        return find_requantization(
            sums,
            wanted,
            scale,
            bias,
            OutputRange(q_out.zero_point, key.low, key.high),
            key.rounding,
        )

    if key.kind == "requantize":
        (q_in,) = q_inputs
        found = output(values[0], q_in.scale / q_out.scale, -q_in.zero_point)
        return None if found is None else (found,)
    if key.kind == "mul":
        found = output(centred[0] * centred[1], q_inputs[0].scale * q_inputs[1].scale / q_out.scale)
        return None if found is None else (found,)
    constants_of_add = tflite.add_constants(q_inputs[0], q_inputs[1], q_out)
    both = [
        Requantization(
            -q.zero_point,
            m,
            int(shift_lane(s, tflite.ADD_PRE_SHIFT)),
            Rounding.DOUBLE,
            0,
            INT32_MIN,
            INT32_MAX,
        )
        for q, (m, s) in zip(q_inputs, constants_of_add[:2], strict=True)
    ]
    first, second = (step.apply(value) for step, value in zip(both, values, strict=True))
    common = 2.0 * max(q_inputs[0].scale, q_inputs[1].scale)
    found = output(
        first - second if key.kind == "sub" else first + second,
        common / (2.0**tflite.ADD_PRE_SHIFT * q_out.scale),
    )
    return None if found is None else (*both, found)


@lru_cache(maxsize=256)
def _weighted_sum(key: _RuleKey, *, multiplies: bool) -> WeightedSum | None:
    """The addition as one requantization of a sum of products; compared with the rule on every
    pair."""
    wanted, scales, output = on_all_values(key.op), _scales(key), _range(key)
    return find_weighted_sum(wanted, scales, output, multiplies=multiplies)


@lru_cache(maxsize=256)
def _found_wide(key: _RuleKey) -> WideSum | None:
    """The same with weights of two parts."""
    return find_wide_sum(on_all_values(key.op), _scales(key), _range(key))


def _scales(key: _RuleKey) -> tuple[float, float]:
    """Of both inputs in units of the output, that of what is subtracted negative."""
    q_first, q_second, q_out = key.quantizations
    sign = -1 if key.kind == "sub" else 1
    return q_first.scale / q_out.scale, sign * q_second.scale / q_out.scale


def _range(key: _RuleKey) -> OutputRange:
    return OutputRange(key.quantizations[-1].zero_point, key.low, key.high)


def _step(requantization: Requantization) -> Rq:
    return Rq(
        requantization.zero_point, requantization.low, requantization.high, requantization.rounding
    )


def _two(
    op: g.Elementwise,
    steps: Sequence[tuple[Rq | Immediate, ...]],
    name: str,
    rows: list[Requantization],
    config: HwConfig,
    request: LayerRequest,
) -> LoweredOperator:
    """rows: the constants of every Rq, in order: those of the inputs (none, or one each), then the
    tail's."""
    moves = _moves(op)
    if moves is None:
        raise LoweringError(f"operators: {op.kind} {op.name}: the inputs' shapes do not fit")
    inputs = [*zip(op.inputs, moves, steps, strict=True)]
    if not all(
        moves[0]
    ):  # the result takes the place of the first input, so that must be the whole one
        inputs.reverse()
        rows = [*reversed(rows[:-1]), rows[-1]]
    layout = Blocked(op.output.shape, config.batch, config.block)
    loops = (layout.samples, layout.channel_blocks, layout.pixels)
    joined = all(moves[0]) and all(moves[1])
    extents = (layout.size_tiles,) if joined else loops
    entries = tuple(Input((True,) if joined else own, step) for _, own, step in inputs)
    names = {
        "a": inputs[0][0].name,
        "b": inputs[1][0].name,
        "identity": IDENTITY,
        "p": _operands_name(op),
        "out": op.output.name,
    }
    spec = ElementwiseSpec(extents, entries, name, (_step(rows[-1]),))
    return emit(spec, names, _operands(op, rows, config), op, config, request)


def _operands_name(op: g.Operator) -> str:
    return f"{op.name}.operands"


def _operands(op: g.Operator, rows: Sequence[Requantization], config: HwConfig) -> Constants:
    """Of every requantization, in order."""
    tiles = [
        constants.operand_tiles((row.bias, row.multiplier, row.shift), config.block, config)
        for row in rows
    ]
    return {_operands_name(op): (Memory.ACC, np.concatenate(tiles))}


def _moves(op: g.Elementwise) -> tuple[tuple[bool, ...], ...] | None:
    """Per input, whether it moves along (samples, channel blocks, pixels); None for a broadcast
    that the device does not do."""
    result = []
    for tensor in op.inputs:
        shape = tensor.shape
        if len(shape) != len(op.output.shape):
            return None
        same = [own == out for own, out in zip(shape, op.output.shape, strict=True)]
        pixels = all(same[1:-1]) or all(own == 1 for own in shape[1:-1])
        if not (same[0] and same[-1] and pixels):
            return None
        result.append((True, True, all(same[1:-1])))
    return tuple(result)


def _quantization(tensor: g.Tensor) -> g.Quantization:
    assert tensor.quantization is not None
    return tensor.quantization
