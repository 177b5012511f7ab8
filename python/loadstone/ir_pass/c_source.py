# SPDX-License-Identifier: Apache-2.0
"""A lowered operator as C: loops around calls of a library, for a device whose maker delivers
functions.

In:   the `Function` of pipeline.py and its MemoryTable; headers of the library; which of its
      functions does what a step says.
Out:  C99 text of one function: its parameters are the operator's tensors in DRAM, its tiles static
      arrays.
Next: a back end keeps the text in an ExternalRegion, and compiles it with the library.

    calls = {"copy": "npu_copy", "gemm": "npu_matmul", "fill": "npu_set", "rq": "npu_scale"}
    c_source(function, self.memories, "layer1", includes=("npu.h",), calls=calls)

    void layer1(int8_t *x, int8_t *w, int32_t *p, int8_t *out) {
      for (int32_t i0 = 0; i0 < 4; i0++) {
        npu_copy(x_chip + 0, x + (80 * i0 - 16), 0, 2, (const lds_loop_t[]){{5, 0, 5, 0, 5,
        {16, 16}}, {16, 0, 16, 0, 16, {1, 1}}});

A call gets a pointer for each operand (of its element at the origin of the loops; an operand of
several tiles beside each other has one for each), its immediates, and its loops, outermost first,
those over lanes (lanes.py) last: first <= i < last is executed; of a copy, what is not in
[inside_first, inside_last) is the pad value. Strides are in elements, in the order of the pointers.
A tensor on chip is a pointer, too: a device that has addresses of its own maps the arrays.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import prod
from typing import NamedTuple

from loadstone.errors import LoweringError
from loadstone.ir_pass.affine import Index, Variable
from loadstone.ir_pass.lanes import LaneAccess, lanes_of
from loadstone.ir_pass.memory_table import MemoryTable
from loadstone.ir_pass.nests import (
    Function,
    Nest,
    NestAllocation,
    NestAxis,
    NestBound,
    NestCall,
    NestGroup,
    NestStep,
    NestTensor,
    Statement,
)

__all__ = ["PREAMBLE", "c_source"]

#: What every text begins with. The library's header may use lds_loop_t.
PREAMBLE = """\
#include <stdint.h>

#ifndef LDS_LOOP_T
#define LDS_LOOP_T
typedef struct {
  int32_t extent, first, last, inside_first, inside_last, strides[4];
} lds_loop_t;
#endif
static inline int32_t lds_floordiv(int32_t a, int32_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
static inline int32_t lds_min(int32_t a, int32_t b) { return a < b ? a : b; }
static inline int32_t lds_max(int32_t a, int32_t b) { return a > b ? a : b; }
"""


def c_source(
    function: Function,
    table: MemoryTable,
    name: str,
    includes: Sequence[str],
    calls: Mapping[str, str],
) -> str:
    """table: of the device. calls: step -> function of the library. Raises LoweringError for a step
    that has none."""
    return _Writer(table, calls).text(function, name, includes)


class _Pointer(NamedTuple):
    """An argument of a call: the tile of an operand, and the operand's place in the call."""

    operand: int
    tensor: NestTensor
    tile: Index
    lanes: LaneAccess

    def stride(self, axis: NestAxis) -> int:
        """Elements from turn to turn of a loop of the nest."""
        return axis.strides[self.operand] * prod(self.tensor.lanes)

    def lane_stride(self, loop: str) -> int:
        """Elements from turn to turn of a loop over lanes."""
        rows, columns = self.tensor.lanes
        steps = zip(self.lanes, (rows * columns, columns, 1), strict=True)
        return sum(step for name, step in steps if name == loop)


class _Writer:
    def __init__(self, table: MemoryTable, calls: Mapping[str, str]) -> None:
        self.table, self.calls = table, calls
        self.tiles: list[str] = []
        self.lines: list[str] = []
        self.names: dict[Variable | NestTensor, str] = {}

    def text(self, function: Function, name: str, includes: Sequence[str]) -> str:
        parameters = ", ".join(f"{_type(p)} *{self.name(p)}" for p in function.parameters)
        self.body(function.body, 1)
        headers = "".join(f'#include "{header}"\n' for header in includes)
        return "\n".join(
            [PREAMBLE + headers, f"void {name}({parameters}) {{", *self.tiles, *self.lines, "}", ""]
        )

    def body(self, body: Sequence[Statement], depth: int) -> None:
        indent = "  " * depth
        for statement in body:
            if isinstance(statement, Nest):
                for step, call in zip(statement.steps, statement.calls, strict=True):
                    self.lines.append(indent + self.call(step, call))
            elif isinstance(statement, NestAllocation):
                self.allocated(statement.tensor)
            elif isinstance(statement, NestGroup):
                self.body(statement.body, depth)
            else:
                i, extent = self.name(statement.variable), statement.variable.extent
                self.lines.append(f"{indent}for (int32_t {i} = 0; {i} < {extent}; {i}++) {{")
                self.body(statement.body, depth + 1)
                self.lines.append(indent + "}")

    def allocated(self, tensor: NestTensor) -> None:
        if tensor not in self.names:
            size = prod(tensor.shape) * prod(tensor.lanes)
            self.tiles.append(f"  static {_type(tensor)} {self.name(tensor)}[{size}];")

    def call(self, step: NestStep, call: NestCall) -> str:
        if call.name not in self.calls:
            raise LoweringError(
                f"c_source: the library has no function for {call.name}; it has them for "
                f"{', '.join(self.calls)}"
            )
        over_lanes, by = lanes_of(step, self.table)
        pointers = [
            _Pointer(number, tensor, first + tile, own)
            for number, ((tensor, first), own) in enumerate(zip(call.operands, by, strict=True))
            for tile in range(1 if own.tile else self.table.tiles(step, number))
        ]
        loops = [self.loop(axis, [p.stride(axis) for p in pointers]) for axis in call.axes]
        loops += [
            _loop(extent, ("0", str(extent)) * 2, [p.lane_stride(name) for p in pointers])
            for name, extent in over_lanes.items()
        ]
        parts = [
            *(self.pointer(pointer) for pointer in pointers),
            *map(str, call.immediates),
            str(len(loops)),
        ]
        values = f"(const lds_loop_t[]){{{', '.join(loops)}}}"
        return f"{self.calls[call.name]}({', '.join(parts)}, {values});"

    def pointer(self, pointer: _Pointer) -> str:
        return f"{self.name(pointer.tensor)} + {self.c(pointer.tile * prod(pointer.tensor.lanes))}"

    def loop(self, axis: NestAxis, strides: Sequence[int]) -> str:
        executed = self.interval(axis.extent, axis.guards)
        inside = self.interval(axis.extent, axis.pads) if axis.pads else executed
        return _loop(axis.extent, (*executed, *inside), strides)

    def interval(self, extent: int, bounds: Sequence[NestBound]) -> tuple[str, str]:
        """[first, last) of a loop under its bounds."""
        first, last = "0", str(extent)
        for factor, base in bounds:
            if factor > 0:
                first = f"lds_max({first}, -lds_floordiv({self.c(base)}, {factor}))"
            else:
                last = f"lds_min({last}, lds_floordiv({self.c(base)}, {-factor}) + 1)"
        return first, last

    def name(self, thing: Variable | NestTensor) -> str:
        if thing not in self.names:
            taken, name = set(self.names.values()), re.sub(r"\W", "_", thing.name)
            while name in taken:
                name += "_"
            self.names[thing] = name
        return self.names[thing]

    def c(self, place: Index) -> str:
        """An index expression."""
        terms = [f"{factor} * {self.name(loop)}" for loop, factor in place.terms.items() if factor]
        return f"({' + '.join([*terms, str(place.constant)])})"


def _loop(extent: int, bounds: Sequence[str], strides: Sequence[int]) -> str:
    return f"{{{extent}, {', '.join(bounds)}, {{{', '.join(map(str, strides))}}}}}"


def _type(tensor: NestTensor) -> str:
    if tensor.dtype not in ("int8", "int32"):
        raise LoweringError(f"c_source: {tensor.name} is {tensor.dtype}, neither int8 nor int32")
    return f"{tensor.dtype}_t"
