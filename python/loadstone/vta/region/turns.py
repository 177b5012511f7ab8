# SPDX-License-Identifier: Apache-2.0
"""Whether layers of a chain should take turns, by the cycles of both ways.

In:   a LayerChain and the operations of its layers, one after the other.
Out:  the operations in bands that take least; None where turns do not pay.
Next: offload.py puts them in the place of the others.

Both ways go through the passes alone, as if there were nothing else, and are estimated as
passes/store_inp/ does.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import accumulate

from loadstone.backend.region import Address
from loadstone.errors import LoweringError
from loadstone.vta.operators import LoweredOperator
from loadstone.vta.operators.kernels import Constants
from loadstone.vta.operators.request import LayerRequest
from loadstone.vta.passes.program import LayerOperation, VtaProgram
from loadstone.vta.passes.skip_pads.skip_pads import SkipPads
from loadstone.vta.passes.store_inp.store_inp import StoreInp
from loadstone.vta.passes.store_requantize.store_requantize import StoreRequantize
from loadstone.vta.passes.weave import Weave
from loadstone.vta.region.bands import banded, heights
from loadstone.vta.region.chains import LayerChain, is_worth_trying
from loadstone.vta.region.held_constants import HeldConstants
from loadstone.vta.stream.operations import TileLoad, TileStore

__all__ = ["alone", "constants_of", "cycles_of", "in_turns"]

#: What turns may leave of a chain's cycles. Where they gain less, neighbours take it away: with
#: bands in most of its layers MobileNetV2 has no room in INP.
_LEAST_GAIN = 0.85


def in_turns(
    chain: LayerChain,
    whole: Mapping[str, LoweredOperator],
    request: LayerRequest,
    program: VtaProgram,
    sizes: Mapping[str, int],
    held: HeldConstants,
) -> list[LayerOperation] | None:
    """whole: how each layer was lowered. request: for the bands. program: of these layers, whose
    tensors have no places yet. sizes: the bytes of each tensor that they touch. held: the constants
    that the program loads."""
    config = program.config
    if not is_worth_trying([*whole.values()], config):
        return None
    before = cycles_of(program, sizes)
    least, best = before and int(before * _LEAST_GAIN), None
    for rows in heights(chain, config):
        with suppress(LoweringError):
            bands = banded(chain, rows, config, request, whole)
            packed = held.loaded_by(constants_of(whole), [o for _, o in bands]).packed
            made = replace(program, operations=bands, chains=[chain.layers], packed=packed)
            cycles = cycles_of(made, sizes)
            if cycles is not None and (least is None or cycles < least):
                least, best = cycles, bands
    return best


def constants_of(whole: Mapping[str, LoweredOperator]) -> Constants:
    """Those of some layers, by name."""
    return {name: own for each in whole.values() for name, own in each.constants.items()}


def alone(chain: LayerChain, program: VtaProgram) -> VtaProgram:
    """Of a program without turns in this chain, the chain."""
    return replace(
        program,
        operations=[each for each in program.operations if each[0] in chain.layers],
        columns=None,
        inside=frozenset(chain.tensors[1:-1]),
        chains=(),
    )


def cycles_of(program: VtaProgram, sizes: Mapping[str, int]) -> int | None:
    """Estimated cycles of a program whose tensors have no places yet; None where it has no room.
    sizes: the bytes of each. They stand one behind the other, constants apart."""
    begins = accumulate(sizes.values(), initial=0)
    places = {name: Address(1, begin) for name, begin in zip(sizes, begins, strict=False)}
    copied = (o.dram.tensor for _, o in program.operations if isinstance(o, TileLoad | TileStore))
    others = dict.fromkeys(copied, Address(0, 0))
    program = replace(program, places=others | places)
    for step in (SkipPads(), StoreRequantize(), Weave()):
        program = step.run(program)
    return StoreInp().best(program)[1]
