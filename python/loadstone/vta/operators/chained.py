"""Operators on elements between any scales, for devices without RQ: chains of products and shifts.

In:   graph.Add, Sub, Requantize.
Out:  a ChainSpec and its weight tiles: the digits of the multipliers, one diagonal each.
Next: kernels.py.
"""

from __future__ import annotations

import numpy as np

from loadstone import graph as g
from loadstone.backend.interface import Refusal
from loadstone.errors import LoweringError
from loadstone.vta import constants
from loadstone.vta.hw_config import HwConfig
from loadstone.vta.isa.spec import Memory
from loadstone.vta.layout import Blocked
from loadstone.vta.operators.kernels import LoweredOperator, emit
from loadstone.vta.rescale.chain import Chain, Product
from loadstone.vta.rescale.pair import linear_chain
from loadstone.vta.schedule.chain import ChainSpec
from loadstone.vta.schedule.epilogue import Immediate
from loadstone.vta.schedule.script import Multiply

__all__ = ["chain_constants", "elementwise", "unsupported"]


def unsupported(op: g.Add | g.Sub | g.Requantize) -> Refusal | None:
    """Why no chain does this exactly; None if one does."""
    if linear_chain(op) is not None:
        return None
    return Refusal(
        f"no multipliers of 24 bits equal the {op.rounding.name.lower()} rule of this {op.kind} "
        "on all inputs",
        "other scales, or a device with the capability requantize",
    )


def elementwise(
    op: g.Add | g.Sub | g.Requantize, moves: tuple[tuple[bool, ...], ...], config: HwConfig
) -> LoweredOperator:
    """moves: per input, whether it moves along (samples, channel blocks, pixels)."""
    chain = linear_chain(op)
    if chain is None:
        raise LoweringError(f"operators: {op.kind} {op.name}: no chain equals its rule")
    layout = Blocked(op.output.shape, config.batch, config.block)
    extents: tuple[int, ...] = (layout.samples, layout.channel_blocks, layout.pixels)
    if all(map(all, moves)):
        extents, moves = (layout.size_tiles,), ((True,),) * len(moves)
    name, steps, own = chain_constants(chain, config)
    names = {f"x{number}": tensor.name for number, tensor in enumerate(op.inputs)}
    return emit(
        ChainSpec(extents, moves, steps),
        {**names, "weights": name, "out": op.output.name},
        own,
        op,
        config,
    )


def chain_constants(
    chain: Chain, config: HwConfig
) -> tuple[str, tuple[Multiply | Immediate, ...], dict[str, tuple[Memory, np.ndarray]]]:
    """The name of the weight tiles, the steps with their numbers, and the tiles. The name tells
    the tiles: chains with the same weights share them."""
    weights: list[int] = []
    steps: list[Multiply | Immediate] = []
    for step in chain:
        if isinstance(step, Product):
            if step.weight not in weights:
                weights.append(step.weight)
            steps.append(Multiply(step.input, weights.index(step.weight)))
        else:
            steps.append(Immediate(step.op, step.value))
    name = "diagonal." + ".".join(map(str, weights))
    identity = constants.identity_tile(config)
    tiles = np.concatenate([identity * np.int8(weight) for weight in weights])
    return name, tuple(steps), {name: (Memory.WGT, tiles)}
