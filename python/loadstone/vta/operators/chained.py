# SPDX-License-Identifier: Apache-2.0
"""Operators on elements between any scales, for devices without RQ: chains of products and shifts.

In:   graph.Add, Sub, Requantize, one input of a Concatenate.
Out:  a ChainSpec and its weight tiles: the digits of the multipliers, one diagonal each.
Next: kernels.py.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from loadstone import graph as g
from loadstone.backend.interface import Refusal
from loadstone.errors import LoweringError
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.integers.chain import Chain, Product
from loadstone.vta.integers.pair import Linear, linear_chain
from loadstone.vta.isa.spec import Memory
from loadstone.vta.operators import constants
from loadstone.vta.operators.kernels import LoweredOperator, emit
from loadstone.vta.operators.layout import Blocked
from loadstone.vta.operators.request import LayerRequest
from loadstone.vta.schedule.accumulators import Multiply
from loadstone.vta.schedule.chain import ChainSpec
from loadstone.vta.schedule.epilogue import Immediate
from loadstone.vta.stream.operations import DramTile

__all__ = ["chain_constants", "copied", "elementwise", "unsupported"]


def unsupported(op: Linear) -> Refusal | None:
    """Why no chain does this exactly; None if one does."""
    if linear_chain(op) is not None:
        return None
    return Refusal(
        f"no multipliers of 24 bits equal the {op.rounding.name.lower()} rule of this {op.kind} "
        "on all inputs",
        "other scales, or a device with the capability requantize",
    )


def elementwise(
    op: Linear, moves: tuple[tuple[bool, ...], ...], config: HwConfig, request: LayerRequest
) -> LoweredOperator:
    """moves: per input, whether it moves along (samples, channel blocks, pixels)."""
    layout = Blocked(op.output.shape, config.batch, config.block)
    extents: tuple[int, ...] = (layout.samples, layout.channel_blocks, layout.pixels)
    if all(map(all, moves)):
        extents, moves = (layout.size_tiles,), ((True,),) * len(moves)
    sources = [tensor.name for tensor in op.inputs]
    chain, names = _of_tensors(_needed(op), sources)
    moves = tuple(moves[sources.index(name)] for name in names)
    weights, steps, own = chain_constants(chain, config)
    places = {f"x{number}": name for number, name in enumerate(names)}
    places |= {"weights": weights, "out": op.output.name}
    return emit(ChainSpec(extents, moves, steps), places, own, op, config, request)


def _of_tensors(chain: Chain, sources: list[str]) -> tuple[Chain, list[str]]:
    """The chain on the tensors that it reads, each of them once: two inputs may be one tensor, and
    one may have no part in the result."""
    read = [sources[step.input] for step in chain if isinstance(step, Product)]
    names = list(dict.fromkeys(read))
    renumbered = tuple(
        replace(step, input=names.index(sources[step.input])) if isinstance(step, Product) else step
        for step in chain
    )
    return renumbered, names


def copied(
    part: g.Concatenate,
    op: g.Concatenate,
    places: tuple[DramTile, DramTile],
    tiles: int,
    config: HwConfig,
    request: LayerRequest,
) -> LoweredOperator:
    """One input of a concatenation in the output's quantization. part: the concatenation of it
    alone; places: where its tiles begin, and where they go."""
    name, steps, own = chain_constants(_needed(part), config)
    names = {"x0": places[0], "weights": DramTile(name, 0), "out": places[1]}
    return emit(ChainSpec((tiles,), ((True,),), steps), names, own, op, config, request)


def _needed(op: Linear) -> Chain:
    chain = linear_chain(op)
    if chain is None:
        raise LoweringError(f"operators: {op.kind} {op.name}: no chain equals its rule")
    return chain


def chain_constants(
    chain: Chain, config: HwConfig
) -> tuple[str, tuple[Multiply | Immediate, ...], dict[str, tuple[Memory, np.ndarray]]]:
    """The name of the weight tiles, the steps with their numbers, and the tiles (tiles, block,
    block). The name tells the tiles: chains with the same weights share them."""
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
