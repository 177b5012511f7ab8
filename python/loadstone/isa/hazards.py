# SPDX-License-Identifier: Apache-2.0
"""What orders instructions of different units against each other: who touched each place last.

In:   instructions in program order: the unit of each, the places that it reads and writes.
Out:  the last instruction of each unit that one must not overtake: of steps that say their touches
      (conflicts_of), and of touches in columns (conflicts_between).
Next: native/hazards.cc finds them; tokens.py sets tokens by them, token_proof.py holds these
      against them; vta/passes/synchronize/hazards.py has VTA's columns.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loadstone.library.native import ffi, lib

__all__ = ["NONE", "Touch", "TouchColumns", "TouchStep", "conflicts_between", "conflicts_of"]

#: No instruction.
NONE = -1


@dataclass(frozen=True)
class Touch:
    """Places of a memory: `extent` of them in each turn of the loops (count, stride), which begin
    at `first`. space: a local memory, or a region of DRAM."""

    space: Hashable
    first: int
    loops: tuple[tuple[int, int], ...]
    extent: int
    writes: bool

    @classmethod
    def of(
        cls,
        space: Hashable,
        first: int,
        turns: Sequence[tuple[int, int]],
        extent: int,
        writes: bool,
    ) -> Touch:
        """The same places in fewer loops: those that do not move are left out, and turns that
        follow each other are one. turns: (count, stride), the innermost last."""
        loops: list[tuple[int, int]] = []
        for count, stride in reversed(turns):
            if stride == extent:
                extent *= count
            elif count > 1 and stride > 0:
                loops.append((count, stride))
        return cls(space, first, tuple(reversed(loops)), extent, writes)


@dataclass(frozen=True)
class TouchStep:
    """An instruction as far as its order matters. name: for messages; cycles: about how long it
    works."""

    unit: int
    name: str
    touches: tuple[Touch, ...] = ()
    cycles: int = 1


@dataclass(frozen=True)
class TouchColumns:
    """Touches of instructions, those of each memory in program order.

    unit: int32, of each instruction. touches: int64 (n, 6), the fields of `lds_touch` in
    native/include/lds_order.h; loops: int64 (m, 2), (count, stride) of all touches one behind the
    other.
    """

    unit: NDArray[np.int32]
    touches: NDArray[np.int64]
    loops: NDArray[np.int64]


def conflicts_between(columns: TouchColumns, units: int) -> NDArray[np.int32]:
    """(instructions, units): the last instruction of a unit that one must not overtake."""
    count = len(columns.unit)
    found = np.empty((count, units), np.int32)
    unit = ffi.from_buffer("int32_t[]", columns.unit)
    touches = ffi.from_buffer("lds_touch[]", np.ascontiguousarray(columns.touches))
    loops = ffi.from_buffer("lds_touch_loop[]", np.ascontiguousarray(columns.loops))
    spaces = int(columns.touches[:, 1].max(initial=NONE)) + 1
    sizes = (units, count, spaces, unit, len(columns.touches), len(columns.loops))
    touching = ffi.new("lds_touching *", (*sizes, touches, loops))
    status = lib().lds_order_conflicts(touching, ffi.from_buffer("int32_t[]", found))
    if status == lib().LDS_ORDER_NO_MEMORY:
        raise MemoryError("conflicts")
    if status != lib().LDS_ORDER_OK:
        raise AssertionError(f"lds_order: status {status}")
    return found


def conflicts_of(steps: Sequence[TouchStep], units: int) -> NDArray[np.int32]:
    """(instructions, units): the same of steps that say their touches."""
    spaces: dict[Hashable, int] = {}
    touches, loops = [], []  # type: list[tuple[int, ...]], list[tuple[int, int]]
    for number, step in enumerate(steps):
        for touch in step.touches:
            space = spaces.setdefault(touch.space, len(spaces))
            place = (touch.first, touch.extent, len(touch.loops))
            touches.append((number, space, touch.writes, *place))
            loops += touch.loops
    return conflicts_between(
        TouchColumns(
            np.array([step.unit for step in steps], np.int32),
            np.array(touches, np.int64).reshape(-1, 6),
            np.array(loops, np.int64).reshape(-1, 2),
        ),
        units,
    )
