"""A chain of products and ALU operations on one accumulator as TensorIR.

In:   `ChainSpec`: loop extents in tiles, which loops each input moves along, the steps.
Out:  a scheduled IRModule. Parameters: x0, x1, ..., weights, out.
Next: lower.py.

    acc0[t][b, l]  = 0      + sum over k of x0[t][b, k] * weights[0][l, k]
    acc1[t][b, l]  = acc0   + sum over k of x1[t][b, k] * weights[1][l, k]
    acc2[t][b, l]  = shr(acc1, 8)
    acc3[t][b, l]  = acc2   + sum over k of x0[t][b, k] * weights[2][l, k] ...
    out            = int8(the last one)

Each step begins where the one before it ended, so all of them become operations in place on one
accumulator. A tensor expression cannot say where a sum begins: this is TensorIR from the start, in
TVM's script. An input that does not move along a loop is read with stride 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, TypeAlias

from loadstone.ir_pass.intrinsics import PREFIX
from loadstone.relax.compat import parsed_tir, s_tir, tvm
from loadstone.vta.hw_config import HwConfig
from loadstone.vta.isa.spec import Memory
from loadstone.vta.schedule.epilogue import Immediate

if TYPE_CHECKING:
    from loadstone.relax.types import IRModule

__all__ = ["ChainSpec", "Multiply", "schedule"]

#: Tiles in flight are at most so many, and at least so many parts of the whole, so that load,
#: compute and store overlap ...
_LARGEST_TILES = 512
_LEAST_PARTS = 6
#: ... but one part is no smaller than this, so that instructions do not cost more than their steps.
_LEAST_TILES = 64


@dataclass(frozen=True)
class Multiply:
    """acc += input `input` times weight tile `tile`."""

    input: int
    tile: int


ChainStep: TypeAlias = Multiply | Immediate


@dataclass(frozen=True)
class ChainSpec:
    """extents: loops over tiles, outermost first. moves: per input and loop, whether the input
    moves along it. steps: the first is a Multiply."""

    extents: tuple[int, ...]
    moves: tuple[tuple[bool, ...], ...]
    steps: tuple[ChainStep, ...]

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
        block = s.get_sblock(f"acc{number}")
        s.set_scope(block, 0, "local.acc")
        s.compute_at(block, outer[-1], preserve_unit_loops=True)
    readers = {
        number: [n for n, step in enumerate(spec.steps) if _reads(step, number)]
        for number in range(len(spec.moves))
    }
    products = [n for numbers in readers.values() for n in numbers]
    for source, numbers in (("weights", products), *((f"x{n}", m) for n, m in readers.items())):
        blocks = [s.get_sblock(f"acc{number}") for number in numbers]
        position = [str(region.source.name) for region in s.get(blocks[0]).reads].index(source)
        cached = s.cache_read(
            blocks[0], position, "local.wgt" if source == "weights" else "local.inp", blocks
        )
        if source != "weights":
            s.compute_at(cached, outer[-1], preserve_unit_loops=True)
    for number in products:
        block = s.get_sblock(f"acc{number}")
        s.decompose_reduction(block, s.get_loops(block)[len(outer)])
    return s.mod


def _reads(step: ChainStep, number: int) -> bool:
    return isinstance(step, Multiply) and step.input == number


def _text(spec: ChainSpec, config: HwConfig) -> str:
    """The computation, unscheduled, as TVMScript."""
    return "\n".join(_lines(spec, config)) + "\n"


def _lines(spec: ChainSpec, config: HwConfig) -> Iterator[str]:
    lanes = (config.batch, config.block)
    shapes = {
        f"x{number}": (*(e for e, m in zip(spec.extents, moves, strict=True) if m), *lanes)
        for number, moves in enumerate(spec.moves)
    }
    shapes = {name: shape if len(shape) > 2 else (1, *shape) for name, shape in shapes.items()}
    shapes |= {"weights": (spec.tiles, config.block, config.block), "out": (*spec.extents, *lanes)}
    yield "@T.prim_func(s_tir=True)"
    parameters = (f'{name}: T.Buffer({shape}, "int8")' for name, shape in shapes.items())
    yield f"def main({', '.join(parameters)}):"
    yield '    T.func_attr({"tirx.noalias": True})'
    for number in range(len(spec.steps)):
        yield f'    acc{number} = T.sblock_alloc_buffer({shapes["out"]}, "int32")'
    loops = [f"t{loop}" for loop in range(len(spec.extents))]
    for number, step in enumerate(spec.steps):
        reduction = isinstance(step, Multiply)
        yield from _block(f"acc{number}", loops, shapes["out"], reduction=reduction)
        here = ", ".join((*(f"v_{loop}" for loop in loops), "v_b", "v_l"))
        before = f"acc{number - 1}[{here}]" if number else "0"
        if isinstance(step, Multiply):
            moved = [f"v_{x}" for x, m in zip(loops, spec.moves[step.input], strict=True) if m]
            at = ", ".join((*(moved or ["0"]), "v_b", "v_k"))
            yield "            with T.init():"
            yield f"                acc{number}[{here}] = {before}"
            yield (
                f'            acc{number}[{here}] += T.Cast("int32", x{step.input}[{at}]) '
                f'* T.Cast("int32", weights[{step.tile}, v_l, v_k])'
            )
        else:
            call = f'T.call_pure_extern("int32", "{PREFIX}{step.op}", {before}, {step.value})'
            yield f"            acc{number}[{here}] = {call}"
    yield from _block("out", loops, shapes["out"], reduction=False)
    yield f'            out[{here}] = T.Cast("int8", acc{len(spec.steps) - 1}[{here}])'


def _block(
    name: str, loops: list[str], shape: tuple[int, ...], *, reduction: bool
) -> Iterator[str]:
    """Loops over tiles and lanes, and the head of a block with their values."""
    names, extents = [*loops, "b", "l"], [*shape]
    if reduction:
        names, extents = [*names, "k"], [*extents, shape[-1]]
    axes = ", ".join(f"v_{name}" for name in names)
    kinds = "S" * len(shape) + "R" * reduction
    yield f"    for {', '.join(names)} in T.grid({', '.join(map(str, extents))}):"
    yield f'        with T.sblock("{name}"):'
    yield f'            {axes} = T.axis.remap("{kinds}", [{", ".join(names)}])'


def _tile(spec: ChainSpec, config: HwConfig) -> list[int]:
    """Tile sizes: filled from the innermost loop, at most half of what the scratchpads hold, at
    least some parts of the whole."""
    room = min(config.depth(Memory.INP) // len(spec.moves), config.depth(Memory.ACC)) // 2
    wanted = max(_LEAST_TILES, -(-prod(spec.extents) // _LEAST_PARTS))
    left = max(1, min(room, wanted, _LARGEST_TILES))
    sizes: list[int] = []
    for extent in reversed(spec.extents):
        parts = -(-extent // left)
        sizes.insert(0, -(-extent // parts))
        left = max(1, left // sizes[0])
    return sizes
