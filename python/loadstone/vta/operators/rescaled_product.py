# SPDX-License-Identifier: Apache-2.0
"""The product of two activations at any scale on a device without RQ.

In:   graph.BatchMatMul, the names and constants of its factors (matmul.py).
Out:  LoweredOperator, with a scratch tensor for the digits; the `Refusal` of a product without a
      proven plan.
Next: matmul.py decides between this and RQ.

All lanes have one scale, so that they share the plan of their digits (integers/plan.py), which is
proven for every sum of as many products; operators/slots.py puts matrices side by side.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from loadstone import graph as g
from loadstone.backend.interface import Refusal
from loadstone.errors import LoweringError
from loadstone.numerics import Array
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.integers.levels import constant_tile
from loadstone.vta.integers.plan import Planner
from loadstone.vta.integers.proof import DigitPlan
from loadstone.vta.integers.runs import runs_of_product
from loadstone.vta.integers.steps import name_of
from loadstone.vta.isa.spec import Memory
from loadstone.vta.operators.block_kinds import MOST_BIAS, Kind, digit_kind
from loadstone.vta.operators.kernels import Constants, LoweredOperator, emit
from loadstone.vta.operators.layer_plans import MANY_STEPS
from loadstone.vta.operators.request import LayerRequest
from loadstone.vta.operators.rescaled import CONSTANT
from loadstone.vta.operators.slots import Slot, interleaved, slots_of
from loadstone.vta.schedule import rescaled_tile
from loadstone.vta.schedule.matmul import MatmulSpec
from loadstone.vta.schedule.rescaled_spec import Factors, RescaledSpec, Window
from loadstone.vta.stream.operations import DramTile, TileRole

__all__ = ["product", "unproven"]

_RQ = "a device with the capability requantize"
_ROLES = {"digits": TileRole.DIGITS, "c": TileRole.CONSTANT, "first": TileRole.CONSTANT}


def unproven(op: g.BatchMatMul, config: HwConfig) -> Refusal | None:
    """Why no digits are proven to give the product's integers; None if some are."""
    if runs_of_product(op, config.block) is None:
        return Refusal(f"sums of {op.input.shape[-1]} products can leave 32 bits", _RQ)
    plan = _plan(_Rule.of(op, config))
    if plan is None:
        rounding = op.rounding.name.lower()
        return Refusal(f"no product of digits is proven to give its {rounding} rounding", _RQ)
    if plan.dead.any():
        return Refusal("every sum becomes the same output", "a smaller scale of the output")
    return None


def product(
    op: g.BatchMatMul,
    extents: MatmulSpec,
    names: Mapping[str, str],
    own: Constants,
    config: HwConfig,
    request: LayerRequest,
) -> LoweredOperator:
    """names: of x, w, out and the tiles `first` and `second`, which are in `own`. Raises
    LoweringError where no tile fits the scratchpads."""
    plan = _plan(_Rule.of(op, config))
    assert plan is not None, "the predicate refused it"
    a, b = op.inputs
    depth = a.shape[-1] * a.zero_point * b.zero_point
    bias = np.broadcast_to(np.int64(depth) + plan.offset, (1, config.block))
    kind = digit_kind([0], [plan], bias)
    runs = _runs(extents, plan, kind, config)
    digits = extents.columns * extents.matrices * extents.rows * runs[0].stored
    names = {
        **names,
        "c": CONSTANT,
        "m": f"{op.name}.multipliers",
        "b": f"{op.name}.bias",
        "p": f"{op.name}.operands",
        "digits": f"{op.name}.digits",
    }
    tiles = _constants(names, plan, kind, bias, runs[0], config)
    lowered: list[LoweredOperator] = []
    slots: list[Slot] = []
    for sample in range(extents.samples):
        first = 0
        for spec in runs:
            places = _places(extents, sample, first, digits)
            where = {
                name: DramTile(names[name], places.get(name, 0), _ROLES.get(name, TileRole.PLAIN))
                for name in names
            }
            lowered.append(emit(spec, where, {}, op, config, request))
            slots += slots_of(lowered[-1].operations)
            first += spec.blocks
    shared = {name: part for each in lowered for name, part in each.constants.items()}
    kernels = tuple(kernel for each in lowered for kernel in each.kernels)
    remark = f"requantized by GEMM, exactly: {name_of(plan)} in all blocks of columns"
    return LoweredOperator(
        list(interleaved(slots)),
        {**shared, **own, **tiles},
        kernels,
        {names["digits"]: extents.samples * digits},
        lambda: remark,
    )


def _places(extents: MatmulSpec, sample: int, first: int, digits: int) -> dict[str, int]:
    """The first tile of each tensor of one sample, from one block of columns on."""
    pixels = extents.matrices * extents.rows
    factor = sample * extents.depth * extents.matrices
    return {
        "x": factor * extents.rows,
        "w": factor * extents.columns + first,
        "out": (sample * extents.columns + first) * pixels,
        "digits": sample * digits + first * digits // extents.columns,
    }


def _constants(
    names: Mapping[str, str],
    plan: DigitPlan,
    kind: Kind,
    bias: Array,
    spec: RescaledSpec,
    config: HwConfig,
) -> dict[str, tuple[Memory, Array]]:
    """Of the chain, which all blocks share; bias and shifts, again for each block of a kernel."""
    ones = np.tile(constant_tile(config.block), (1, config.batch, 1))
    tiles: dict[str, tuple[Memory, Array]] = {
        CONSTANT: (Memory.INP, ones),
        names["m"]: (Memory.WGT, kind.chains[0]),
    }
    if spec.bias:
        tiles[names["b"]] = (Memory.WGT, np.tile(kind.biases[0], (spec.blocks, 1, 1)))
    if spec.operand_rows:
        rows = np.zeros((spec.operand_rows, 1, config.block), np.int32)
        if spec.chain.shift is None:
            raise AssertionError("lanes of one plan have one shift")
        if spec.added:
            rows[spec.bias_row, 0] = bias[0]
        if spec.right:
            rows[-1, 0] = plan.right
        tiles[names["p"]] = (Memory.ACC, np.tile(rows, (spec.blocks, config.batch, 1)))
    return tiles


def _runs(
    extents: MatmulSpec, plan: DigitPlan, kind: Kind, config: HwConfig
) -> tuple[RescaledSpec, ...]:
    """Kernels of as many blocks of columns as are cheapest together, the largest first."""
    window = Window(
        extents.depth,
        1,
        (extents.matrices, extents.rows),
        (extents.matrices, extents.rows),
        (1, 1),
        (1, 1),
        (1, 1),
        (0, 0),
        0,
    )
    bias = kind.form.bias
    spec = RescaledSpec(
        window=window,
        blocks=1,
        own_input=False,
        tile=(1, 1, 1),
        bias=0 if bias > MOST_BIAS else bias,
        left=plan.left,
        right=bool(plan.right.any()),
        digits=plan.digits,
        clamped=plan.clamped,
        signed=plan.signed,
        chain=kind.form.shape,
        multipliers=1,
        added=bias > MOST_BIAS,
        factors=Factors(extents.columns, extents.parts),
    )
    found: list[tuple[int, tuple[RescaledSpec, ...]]] = []
    why: LoweringError | None = None
    for count in sorted({-(-extents.columns // parts) for parts in range(1, extents.columns + 1)}):
        sizes = [count] * (extents.columns // count)
        sizes += [extents.columns % count] if extents.columns % count else []
        try:
            found.append(_tiled(spec, tuple(sizes), extents.columns, config))
        except LoweringError as error:
            why = why or error
            break
    if not found:
        assert why is not None
        raise why
    return min(found, key=lambda each: each[0])[1]


def _tiled(
    spec: RescaledSpec, sizes: tuple[int, ...], columns: int, config: HwConfig
) -> tuple[int, tuple[RescaledSpec, ...]]:
    """The cycles of kernels of so many blocks each, and their specs with the cheapest tiles."""
    cycles, specs = 0, []
    for blocks in sizes:
        part = replace(spec, blocks=blocks)
        choice = rescaled_tile.choose(part, columns, config)
        cycles += choice.cycles
        specs.append(replace(part, tile=choice.tile))
    return cycles, tuple(specs)


@dataclass(frozen=True)
class _Rule:
    """Everything on which a product's plan depends; op: a product that has it."""

    depth: int
    grids: tuple[g.Quantization | None, ...]
    clamp: tuple[int, int, str]
    block: int
    op: g.BatchMatMul = field(compare=False)

    @classmethod
    def of(cls, op: g.BatchMatMul, config: HwConfig) -> _Rule:
        """Of an operator on a device."""
        grids = tuple(tensor.quantization for tensor in (*op.inputs, op.output))
        clamp = (op.low, op.high, op.rounding.name)
        return cls(op.input.shape[-1], grids, clamp, config.block, op)


@lru_cache(maxsize=256)
def _plan(rule: _Rule) -> DigitPlan | None:
    """The cheapest digits; None where none are proven. Weights that are activations are not
    multiplied beforehand."""
    runs = runs_of_product(rule.op, rule.block)
    assert runs is not None, "the predicate refused it"
    (plan,) = Planner(runs, rule.block, np.full(rule.block, 128)).plans(MANY_STEPS)
    return plan if isinstance(plan, DigitPlan) else None
