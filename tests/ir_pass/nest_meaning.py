# SPDX-License-Identifier: Apache-2.0
"""What a function of nests computes, tile by tile, with a number for every value.

In:   a Function, before its copies are inserted or after; the device's MemoryTable.
Out:  `written`: what stands in each tile of DRAM at the end. WrongNest where it touches a tile that
      is not there, or one in a memory that the instruction does not reach.
Next: test_verify_dma_copy_meaning.py compares two functions by it.

A value is a hash of what it was made of, so that two are equal only where they were computed alike.
A tile that nobody wrote has a value of its own each time that it is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count, product

from loadstone.ir_pass.affine import Variable, index
from loadstone.ir_pass.memory_table import MemoryTable
from loadstone.ir_pass.nests import (
    COPY,
    Function,
    Nest,
    NestAccess,
    NestAllocation,
    NestGroup,
    NestLoop,
    NestStep,
    NestTensor,
    Statement,
)

__all__ = ["WrongNest", "written"]

Place = tuple[int, ...]


class WrongNest(Exception):
    """What no device could execute."""


def written(function: Function, table: MemoryTable) -> dict[tuple[str, Place], int]:
    """By tensor and place, the tiles of DRAM that the function wrote."""
    machine = _Machine(table)
    machine.body(function.body)
    return machine.dram


class _Machine:
    def __init__(self, table: MemoryTable) -> None:
        self.table = table
        self.dram: dict[tuple[str, Place], int] = {}
        self.chip: dict[tuple[NestTensor, Place], int] = {}
        self.loops: dict[Variable, int] = {}
        self.unknown = count()

    def body(self, statements: Sequence[Statement]) -> None:
        for statement in statements:
            if isinstance(statement, NestAllocation):
                tensor = statement.tensor
                self.chip = {key: v for key, v in self.chip.items() if key[0] is not tensor}
            elif isinstance(statement, NestGroup):
                self.body(statement.body)
            elif isinstance(statement, NestLoop):
                for turn in range(statement.variable.extent):
                    self.loops[statement.variable] = turn
                    self.body(statement.body)
            else:
                self.nest(statement)

    def nest(self, nest: Nest) -> None:
        for step in nest.steps:
            for _ in self.turns(nest):
                self.step(step)

    def turns(self, nest: Nest) -> Iterator[None]:
        for turn in product(*(range(loop.extent) for loop in nest.loops)):
            self.loops.update(zip(nest.loops, turn, strict=True))
            if all(condition.at(self.loops) >= 0 for condition in nest.conditions):
                yield

    def step(self, step: NestStep) -> None:
        target, *others = step.operands
        values = [self.read(step, number, access) for number, access in enumerate(others, 1)]
        if step.name == COPY:
            (value,) = values[0]
        else:
            before = () if step.name == self.table.starts else self.read(step, 0, target)
            value = hash((step.name, step.immediates, before, tuple(values)))
        place = self.place(target)
        if not self.is_inside(target.tensor, place):
            raise WrongNest(f"{step.name} writes {target.tensor.name}{place}")
        if self.is_dram(target.tensor):
            self.dram[target.tensor.name, place] = value
        else:
            self.chip[target.tensor, place] = value

    def read(self, step: NestStep, number: int, access: NestAccess) -> tuple[int, ...]:
        *first, last = self.place(access)
        tiles = 1 if step.name == COPY else self.table.tiles(step, number)
        return tuple(self.tile(access, (*first, last + more)) for more in range(tiles))

    def tile(self, access: NestAccess, place: Place) -> int:
        tensor = access.tensor
        if not self.is_inside(tensor, place):
            if access.pad is None or not self.is_dram(tensor):
                raise WrongNest(f"{tensor.name}{place} is read")
            return hash(("pad", access.pad))
        if self.is_dram(tensor):
            return self.dram.get((tensor.name, place), hash((tensor.name, place)))
        return self.chip.get((tensor, place), hash(("unknown", next(self.unknown))))

    def place(self, access: NestAccess) -> Place:
        return tuple(index(at).at(self.loops) for at in access.at)

    @staticmethod
    def is_dram(tensor: NestTensor) -> bool:
        return tensor.memory is None and tensor.role != "local"

    @staticmethod
    def is_inside(tensor: NestTensor, place: Place) -> bool:
        return all(0 <= at < size for at, size in zip(place, tensor.shape, strict=True))
