"""Operators on elements as TensorIR: one or two inputs come through the GEMM core into ACC, and the
ALU does the rest.

In:   `ElementwiseSpec`: loop extents in tiles, which loops each input moves along, steps for each
      input and for the result.
Out:  a scheduled IRModule.
Next: lower.py.

    a_acc[t][b, l] = sum over k of a[t][b, k] * identity[l, k]        GEMM: one step a tile, and the
    load stage brings the next
    b_acc          = likewise
    out = int8(tail(a_steps(a_acc) op b_steps(b_acc)))

An input that broadcasts does not move along some loops: its tile is brought once and read with
stride 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from loadstone.relax.compat import s_tir, te, tvm
from loadstone.vta.hw_config import HwConfig
from loadstone.vta.isa.spec import Memory
from loadstone.vta.schedule import epilogue as epilogues
from loadstone.vta.schedule.epilogue import Rq, Step

if TYPE_CHECKING:
    from loadstone.relax.types import Expr, IRModule, TeTensor

__all__ = ["ElementwiseSpec", "Input", "schedule"]

#: Tiles in flight are at least so many parts of the whole, so that load, compute and store overlap
#: ...
_LEAST_PARTS = 6
#: ... but one part is no smaller than this, so that instructions do not cost more than their steps.
_LEAST_TILES = 64


@dataclass(frozen=True)
class Input:
    """moves: per loop, whether the input moves along it. steps: what happens to it before the
    operation.

    expand: the GEMM repeats it along the loops that it does not move along, so that it has a tile
        of its own everywhere.
    """

    moves: tuple[bool, ...]
    steps: tuple[Step, ...]
    expand: bool = False


@dataclass(frozen=True)
class ElementwiseSpec:
    """extents: loops over tiles, outermost first. op: add, mul, max, min; None for one input.
    chosen: the tile of each loop; None: as large as it should be."""

    extents: tuple[int, ...]
    inputs: tuple[Input, ...]
    op: str | None
    tail: tuple[Step, ...]
    chosen: tuple[int, ...] | None = None

    @property
    def operand_sets(self) -> int:
        """Bias, multiplier and shift tiles for every Rq, in the order inputs, tail."""
        steps = [step for entry in self.inputs for step in entry.steps] + list(self.tail)
        return sum(isinstance(step, Rq) for step in steps)


def schedule(spec: ElementwiseSpec, config: HwConfig) -> IRModule:
    """The scheduled IRModule. Parameters: a, [b,] identity, [p,] out."""
    definition = _Definition(spec, config)
    s = s_tir.Schedule(tvm.IRModule({"main": definition.function}))
    *loops, batch, lane = s.get_loops(s.get_sblock("out"))
    halves = [
        s.split(loop, [None, size]) for loop, size in zip(loops, _tile(spec, config), strict=True)
    ]
    outer, inner = [half[0] for half in halves], [half[1] for half in halves]
    s.reorder(*outer, *inner, batch, lane)
    for name in definition.stages:  # consumers first
        s.set_scope(s.get_sblock(name), 0, "local.acc")
        s.compute_at(s.get_sblock(name), outer[-1], preserve_unit_loops=True)
    for name in (name for name in definition.stages if name.endswith("_acc")):
        block = s.get_sblock(name)
        if name == "a_acc":  # the identity is read once for both inputs
            s.cache_read(block, 1, "local.wgt")
        pixels = s.cache_read(block, 0, "local.inp")
        s.compute_at(pixels, outer[-1], preserve_unit_loops=True)
        s.decompose_reduction(block, s.get_loops(block)[len(outer)])
    epilogues.cache_operands(s, [name for name in definition.stages if not name.endswith("_acc")])
    return s.mod


class _Definition:
    """The computation as a PrimFunc; `stages` are the names of what stands in ACC, consumers
    first."""

    def __init__(self, spec: ElementwiseSpec, config: HwConfig) -> None:
        self.spec = spec
        self.lanes = (config.batch, config.block)
        self.identity = te.placeholder((1, config.block, config.block), "int8", name="identity")
        sets = spec.operand_sets
        self.operands = [te.placeholder((sets, 3, *self.lanes), "int32", name="p")] if sets else []
        self.used_sets = 0
        self.stages: list[str] = []
        self.sources: list[TeTensor] = []
        values = [self._input(name, entry) for name, entry in zip("ab", spec.inputs, strict=False)]
        last = values[0] if spec.op is None else self._join(values)
        last = self._steps("tail", last, spec.tail)
        out = te.compute(
            (*spec.extents, *self.lanes),
            lambda *at: self._read(last, at).astype("int8"),
            name="out",
        )
        self.function = te.create_prim_func([*self.sources, self.identity, *self.operands, out])

    def _input(self, name: str, entry: Input) -> tuple[TeTensor, Input]:
        """An input through the GEMM core, after its steps."""
        everywhere = Input((True,) * len(self.spec.extents), ())
        source = te.placeholder((*self._extents(entry), *self.lanes), "int8", name=name)
        self.sources.append(source)
        k = te.reduce_axis((0, self.lanes[1]), "k")
        held = everywhere if entry.expand else entry

        def through(*at: Expr) -> Expr:
            moved = self._moved(entry, at) if entry.expand else at
            return te.sum(
                source[(*moved[:-1], k)].astype("int32")
                * self.identity[0, at[-1], k].astype("int32"),
                [k],
            )

        value = self._stage(f"{name}_acc", (*self._extents(held), *self.lanes), through)
        return self._steps(f"{name}_steps", (value, held), entry.steps)

    def _extents(self, entry: Input) -> list[int]:
        return [
            extent for extent, moves in zip(self.spec.extents, entry.moves, strict=True) if moves
        ] or [1]

    def _join(self, values: list[tuple[TeTensor, Input]]) -> tuple[TeTensor, Input]:
        everywhere = Input((True,) * len(self.spec.extents), ())
        op = self.spec.op or ""
        joined = self._stage(
            "join",
            (*self.spec.extents, *self.lanes),
            lambda *at: epilogues.extern(op, *(self._read(value, at) for value in values)),
        )
        return joined, everywhere

    def _steps(
        self, name: str, value: tuple[TeTensor, Input], steps: tuple[Step, ...]
    ) -> tuple[TeTensor, Input]:
        if not steps:
            return value
        array, entry = value
        first_set = self.used_sets
        self.used_sets += sum(isinstance(step, Rq) for step in steps)

        def apply(*at: Expr) -> Expr:
            result, which = array[at], first_set
            for step in steps:
                operands = (
                    [self.operands[0][which, row, at[-2], at[-1]] for row in range(3)]
                    if isinstance(step, Rq)
                    else []
                )
                which += isinstance(step, Rq)
                result = epilogues.apply([step], result, operands)
            return result

        return self._stage(name, array.shape, apply), entry

    def _stage(self, name: str, shape: Sequence[int], value: Callable[..., Expr]) -> TeTensor:
        self.stages.insert(0, name)
        return te.compute(shape, value, name=name)

    def _read(self, value: tuple[TeTensor, Input], at: tuple[Expr, ...]) -> Expr:
        array, entry = value
        return array[self._moved(entry, at)]

    @staticmethod
    def _moved(entry: Input, at: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """The indices of an input that moves along some of the loops only."""
        moved = [index for index, moves in zip(at[:-2], entry.moves, strict=True) if moves] or [0]
        return (*moved, *at[-2:])


def _tile(spec: ElementwiseSpec, config: HwConfig) -> list[int]:
    """Tile sizes: those that were chosen; else filled from the innermost loop, at most half of what
    the scratchpads hold, at least some parts of the whole."""
    inputs = len(spec.inputs)
    if spec.chosen is not None:
        return list(spec.chosen)
    room = min(config.depth(Memory.INP), config.depth(Memory.ACC) - 3 * spec.operand_sets) // (
        2 * inputs
    )
    wanted = max(_LEAST_TILES, -(-prod(spec.extents) // _LEAST_PARTS))
    left = max(1, min(room, wanted))
    sizes: list[int] = []
    for extent in reversed(spec.extents):
        parts = -(-extent // left)
        sizes.insert(0, -(-extent // parts))
        left = max(1, left // sizes[0])
    return sizes
