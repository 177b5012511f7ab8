# SPDX-License-Identifier: Apache-2.0
"""The steps of nests, lane by lane: what an operation on tiles does with their rows and columns.

In:   a step of nests.py; the device's MemoryTable, which says how many tiles an operand has.
Out:  `StepLanes`: the loops over lanes, and which of them each operand moves with.
Next: to_tir.py writes them, from_tir.py takes them off, c_source.py passes them to a library.

    copy(dst, src)                                 dst = src; one side is in DRAM
    fill(dst | value)                              dst = value
    gemm(dst, src, wgt)                            dst += src @ wgt
    add | sub | mul | min | max | shr (dst, src)   dst = dst op src
    add | ... (dst | value)                        dst = dst op value
    rq(dst, p | zero_point, low, high, rounding)   bias, multiplier and shift are three tiles
    scale(dst | bits, low, high)                   dst * the float32 of these bits, to nearest even

Weights are one tile, with a row for each lane of dst and a column for each lane of src; or, where
the table says that the operand has several tiles of one row, a tile for each lane of src.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from loadstone.errors import LoweringError
from loadstone.ir_pass.memory_table import MemoryTable
from loadstone.ir_pass.nests import NestStep

__all__ = ["PREFIX", "LaneAccess", "StepLanes", "lanes_of"]

#: In front of a step's name, where TensorIR calls it as an external function.
PREFIX = "lds."


class LaneAccess(NamedTuple):
    """The loops over lanes by which one operand moves: from tile to tile along the last axis, from
    row to row, from column to column. Empty: not at all."""

    tile: str
    row: str
    column: str


class StepLanes(NamedTuple):
    """loops: turns of each loop over lanes, outermost first. operands: of the step, in order."""

    loops: Mapping[str, int]
    operands: tuple[LaneAccess, ...]


_PLAIN = LaneAccess("", "lane_b", "lane")


def lanes_of(step: NestStep, table: MemoryTable) -> StepLanes:
    """Raises LoweringError where the tiles of its operands do not fit each other."""
    target, *others = [access.tensor for access in step.operands]
    rows, columns = target.lanes
    loops = {"lane_b": rows, "lane": columns}
    if step.name != "gemm":
        for tensor in others:
            if tensor.lanes != target.lanes:
                raise _misfit(step)
        return StepLanes(loops, (_PLAIN,) * len(step.operands))
    source, weights = others
    depth = source.lanes[1]
    if source.lanes[0] != rows:
        raise _misfit(step)
    if (table.tiles(step, 2), *weights.lanes) == (1, columns, depth):
        by = LaneAccess("", "lane", "k")
    elif (table.tiles(step, 2), *weights.lanes) == (depth, 1, columns):
        by = LaneAccess("k", "", "lane")
    else:
        raise _misfit(step)
    return StepLanes({**loops, "k": depth}, (_PLAIN, LaneAccess("", "lane_b", "k"), by))


def _misfit(step: NestStep) -> LoweringError:
    tiles = (f"{a.tensor.name} of {'x'.join(map(str, a.tensor.lanes))}" for a in step.operands)
    return LoweringError(f"nest: {step.name} of tiles that do not fit: {', '.join(tiles)}")
