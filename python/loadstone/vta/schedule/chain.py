# SPDX-License-Identifier: Apache-2.0
"""A chain of products and ALU operations on one accumulator as TensorIR.

In:   `ChainSpec`: loop extents in tiles, which loops each input moves along, the steps.
Out:  a scheduled IRModule. Parameters: x0, x1, ..., weights, out.
Next: lower.py.

An input that does not move along a loop is read with stride 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from loadstone.relax.compat import parsed_tir, s_tir, tvm
from loadstone.vta.hw_config import HwConfig
from loadstone.vta.isa.spec import Memory
from loadstone.vta.schedule.script import (
    ChainStep,
    Multiply,
    block,
    chain_blocks,
    function_head,
)

if TYPE_CHECKING:
    from loadstone.relax.types import IRModule, SBlockRV, Schedule

__all__ = ["ChainSpec", "schedule"]

#: Tiles in flight are at most so many, and at least so many parts of the whole, so that load,
#: compute and store overlap ...
_LARGEST_TILES = 512
_LEAST_PARTS = 6
#: ... but one part is no smaller than this, so that instructions do not cost more than their steps.
_LEAST_TILES = 64


@dataclass(frozen=True)
class ChainSpec:
    """extents: loops over tiles, outermost first. moves: per input and loop, whether the input
    moves along it. steps: the first is a Multiply. chosen: the tile of each loop; None: as large
    as it should be."""

    extents: tuple[int, ...]
    moves: tuple[tuple[bool, ...], ...]
    steps: tuple[ChainStep, ...]
    chosen: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        assert isinstance(self.steps[0], Multiply)
        assert all(len(moves) == len(self.extents) for moves in self.moves)

    @property
    def tiles(self) -> int:
        """Weight tiles."""
        return 1 + max(step.tile for step in self.steps if isinstance(step, Multiply))


def schedule(spec: ChainSpec, config: HwConfig) -> IRModule:
    """The scheduled IRModule."""
    s = s_tir.Schedule(tvm.IRModule({"main": parsed_tir(_text(spec, config))}))
    *loops, batch, lane = s.get_loops(s.get_sblock("out"))
    halves = [
        s.split(loop, [None, size]) for loop, size in zip(loops, _tile(spec, config), strict=True)
    ]
    outer, inner = [half[0] for half in halves], [half[1] for half in halves]
    s.reorder(*outer, *inner, batch, lane)
    for number in reversed(range(len(spec.steps))):  # consumers first
        stage = s.get_sblock(f"acc{number}")
        s.set_scope(stage, 0, "local.acc")
        s.compute_at(stage, outer[-1], preserve_unit_loops=True)
    _cached(s, spec, "weights", "local.wgt")
    for number in range(len(spec.moves)):
        pixels = _cached(s, spec, f"x{number}", "local.inp")
        s.compute_at(pixels, outer[-1], preserve_unit_loops=True)
    for stage in _readers(s, spec):
        s.decompose_reduction(stage, s.get_loops(stage)[len(outer)])
    return s.mod


def _cached(s: Schedule, spec: ChainSpec, source: str, scope: str) -> SBlockRV:
    """Reads a parameter through a scratchpad, once for all products; the block that does it."""
    stages = _readers(s, spec, None if source == "weights" else int(source.removeprefix("x")))
    position = [str(region.source.name) for region in s.get(stages[0]).reads].index(source)
    return s.cache_read(stages[0], position, scope, stages)


def _readers(s: Schedule, spec: ChainSpec, number: int | None = None) -> list[SBlockRV]:
    """The products, or those of one input."""
    return [
        s.get_sblock(f"acc{position}")
        for position, step in enumerate(spec.steps)
        if isinstance(step, Multiply) and number in (None, step.input)
    ]


def _text(spec: ChainSpec, config: HwConfig) -> str:
    """The computation, unscheduled, as TVMScript."""
    return "\n".join(_lines(spec, config)) + "\n"


def _lines(spec: ChainSpec, config: HwConfig) -> Iterator[str]:
    lanes = {"b": config.batch, "l": config.block}
    extents = {f"t{loop}": extent for loop, extent in enumerate(spec.extents)}
    moving = [
        [name for name, moves in zip(extents, own, strict=True) if moves] for own in spec.moves
    ]
    shapes = {
        f"x{number}": (*([extents[name] for name in names] or [1]), *lanes.values())
        for number, names in enumerate(moving)
    }
    shapes["weights"] = (spec.tiles, config.block, config.block)
    shapes["out"] = (*spec.extents, *lanes.values())

    def product(step: Multiply) -> str:
        at = ", ".join([f"v_{name}" for name in moving[step.input]] or ["0"])
        return (
            f'T.Cast("int32", x{step.input}[{at}, v_b, v_k]) '
            f'* T.Cast("int32", weights[{step.tile}, v_l, v_k])'
        )

    loops = {**extents, **lanes}
    yield from function_head(shapes)
    yield from chain_blocks(spec.steps, loops, {"k": config.block}, product)
    yield from block("out", loops, {})
    here = ", ".join(f"v_{name}" for name in loops)
    yield f'            out[{here}] = T.Cast("int8", acc{len(spec.steps) - 1}[{here}])'


def _tile(spec: ChainSpec, config: HwConfig) -> list[int]:
    """Tile sizes: those that were chosen; else filled from the innermost loop, at most half of what
    the scratchpads hold, at least some parts of the whole."""
    if spec.chosen is not None:
        return list(spec.chosen)
    room = min(config.depth(Memory.INP) // len(spec.moves), config.depth(Memory.ACC)) // 2
    wanted = max(_LEAST_TILES, -(-prod(spec.extents) // _LEAST_PARTS))
    left = max(1, min(room, wanted, _LARGEST_TILES))
    sizes: list[int] = []
    for extent in reversed(spec.extents):
        parts = -(-extent // left)
        sizes.insert(0, -(-extent // parts))
        left = max(1, left // sizes[0])
    return sizes
